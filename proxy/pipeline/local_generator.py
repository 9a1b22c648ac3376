"""The writer of ``[writer] folder``: a language model in this process that goes on from a transcript of the conversation."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.nl.generate import Brought, Message, Wanted
from proxy.nl.lm.decoding import Sampling
from proxy.pipeline.local_model import LocalModel, Writing

_FENCE = "```"
_NAMES = {"system": "", "user": "", "assistant": "Answer:\n"}


class LocalGenerator:
    """*model* as a ``Generator``. It is shared by datasets, so it is not closed with one."""

    def __init__(self, model: LocalModel) -> None:
        self.model = model

    async def write(self, messages: Sequence[Message], wanted: Wanted, *, timeout_s: float) -> Brought:
        """See ``Generator``. The rules and the description, which stand first, are a prefix: read once for all questions alike.

        The models here have no one chat format, so the conversation is given as a text, and the answer begins as a block of
        code: its end is the answer's.
        """
        first, rest = messages[0], messages[1:]
        prompt = "\n\n".join([*(f"{_NAMES[m.role]}{m.text}" for m in rest), f"Answer:\n{_FENCE}sparql\n"])
        how = Writing(
            prefix=f"{first.text}\n\n",
            max_tokens=wanted.max_tokens,
            stop=(_FENCE,),
            drafts=wanted.drafts,
            sampling=Sampling(temperature=wanted.temperature, seed=wanted.seed),
        )
        found = await self.model.write(prompt, how, timeout_s=timeout_s)
        texts = tuple(f"{_FENCE}sparql\n{t.text}\n{_FENCE}" for t in found.texts)
        return Brought(texts, int(found.account["tokens_read"]), int(found.account["tokens_written"]))

    async def aclose(self) -> None:
        """The model stays open for the other datasets."""
