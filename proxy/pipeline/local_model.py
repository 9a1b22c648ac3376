"""A language model in this process that writes for questions: its queue, the batches it works in, the prefixes it has read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proxy.errors import ModelError
from proxy.nl.lm import beam
from proxy.nl.lm.decoding import GREEDY, Prefix, Prompt, Sampling, Written, prompt_tokens, write
from proxy.nl.lm.prefixes import PrefixCache
from proxy.nl.lm.step import StepModel
from proxy.pipeline.model_queue import ModelQueue, Turn

WRITTEN_TOGETHER = 4
"""Questions in one batch, for the queue: four cost as much processor time as 2 (fp32) or 2.8 (int8); eight gain no more."""
_LAST_STEP_S = 2.0
"""Longer than the deadline that a step may take which has begun: what was written until then is not lost."""


@dataclass(frozen=True, slots=True)
class Writing:
    """How a text is written. prefix: what it goes on from, the same for many questions (a graph's description); empty: nothing.

    drafts: texts that are written; they differ where *sampling* draws. beams: 0, or how many beginnings a search follows: it
    returns so many texts, the likeliest, and draws nothing.
    """

    prefix: str = ""
    max_tokens: int = 256
    stop: tuple[str, ...] = ()
    drafts: int = 1
    sampling: Sampling = GREEDY
    beams: int = 0


@dataclass(frozen=True, slots=True)
class Drafts:
    """What was written, in the order of the drafts, or best first if searched, and an account of it, JSON-ready."""

    texts: tuple[Written, ...]
    account: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Asked:
    prompt: Prompt
    how: Writing


_Done = tuple[list[Written], str, int]
"""What was written, where the prefix came from, and how many tokens it has."""


class LocalModel:
    """*model* behind *queue*; *prefixes* are its own. Questions that are written for in the same way share batches."""

    def __init__(self, model: StepModel, queue: ModelQueue, prefixes: PrefixCache) -> None:
        self.model, self.queue, self.prefixes = model, queue, prefixes
        self.tokens_written = 0

    async def write(self, prompt: Prompt, how: Writing, *, timeout_s: float) -> Drafts:
        """Write on from *prompt*. What is written when *timeout_s* is over is returned as far as it is.

        Raises:
            ModelBusy: too many questions wait. ModelError: it was not this one's turn in time, the prompt does not fit the
                context, or the model failed.
        """
        try:
            (texts, where, length), turn = await self.queue.run(
                self._work, _Asked(prompt, how), key=how, timeout_s=timeout_s, grace_s=_LAST_STEP_S
            )
        except TimeoutError as exc:
            raise ModelError(f"the language model was not done within {timeout_s:.1f} s") from exc
        written = sum(t.tokens for t in texts)
        account = turn.account()
        if where:
            account |= {"prefix": where, "prefix_tokens": length}
        read = max((t.prompt_tokens for t in texts), default=0)
        return Drafts(tuple(texts), account | {"tokens_read": read, "tokens_written": written})

    def _work(self, turns: Sequence[Turn[_Asked]]) -> list[_Done | ModelError]:
        how = turns[0].item.how
        prefix, where = self.prefixes.get(how.prefix) if how.prefix else (None, "")
        out: dict[int, _Done | ModelError] = {}
        lengths: dict[int, int] = {}
        for at, turn in enumerate(turns):
            try:
                lengths[at] = len(prompt_tokens(self.model, turn.item.prompt, prefix))
            except ModelError as exc:
                out[at] = exc
        length = len(prefix.tokens) if prefix else 0
        room = self.model.folder.context - how.max_tokens - length
        # A batch is as long as its longest prompt: one that leaves too little room would cut its neighbours short.
        together = [at for at, n in lengths.items() if n <= room and not how.beams]
        groups = [together] if together else []
        for group in [*groups, *([at] for at in lengths if at not in together)]:
            texts = self._written([turns[at] for at in group], how, prefix)
            for n, at in enumerate(group):
                out[at] = texts[n * len(texts) // len(group) : (n + 1) * len(texts) // len(group)], where, length
        return [out[at] for at in range(len(turns))]

    def _written(self, turns: Sequence[Turn[_Asked]], how: Writing, prefix: Prefix | None) -> list[Written]:
        shared: dict[str, Any] = dict(max_tokens=how.max_tokens, clock=time.perf_counter, stop=how.stop, prefix=prefix)
        if how.beams:
            found = beam.search(self.model, turns[0].item.prompt, width=how.beams, deadline=turns[0].deadline, **shared)
        else:
            shared |= dict(sampling=how.sampling, drafts=how.drafts)
            # Looked up at each token: a turn that nobody waits for any more is over.
            found = write(self.model, [t.item.prompt for t in turns], deadline=lambda at: turns[at].deadline, **shared)
        self.tokens_written += sum(w.tokens for w in found)
        return found
