"""Scoring and writing over a `StepModel`. Pure: the clock is the caller's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from proxy.errors import ModelError
from proxy.nl.lm.step import Cache, StepModel, Tokens

Clock = Callable[[], float]
BATCH = 8
"""Texts in one step when scoring: enough to fill two cores."""
LOGITS_MOST = 50_000_000
"""Numbers of 4 bytes that one step of scoring may return: texts × tokens × vocabulary, which is 262,144 for Gemma 3."""
READ_AT_ONCE = 512
"""Tokens of one text in one step when reading: more is no faster."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """A text that others go on from, read once. last: log-probabilities of the token after it."""

    tokens: tuple[int, ...]
    cache: Cache
    last: NDArray[np.float32]


def read_prefix(model: StepModel, text: str | Sequence[int]) -> Prefix:
    """Read *text* (or its tokens) after the model's begin token.

    Raises:
        ModelError: it is empty, longer than the context, or the model failed.
    """
    tokens = prefix_tokens(model, text)
    if not 1 <= len(tokens) < model.folder.context:
        raise ModelError(f"a prefix has {len(tokens)} tokens; 1 to {model.folder.context - 1:,} are possible")
    logits, cache = read_on(model, np.array([tokens]), np.ones((1, len(tokens)), dtype=np.int64), None, None)
    return Prefix(tuple(tokens), cache, log_softmax(logits[0, -1]))


def prefix_tokens(model: StepModel, text: str | Sequence[int]) -> list[int]:
    """The begin token, if the model has one, and the tokens of *text*."""
    begin = [] if model.folder.begin is None else [model.folder.begin]
    return [*begin, *(model.encode(text) if isinstance(text, str) else text)]


def read_on(
    model: StepModel, tokens: Tokens, mask: Tokens, cache: Cache | None, rows: Sequence[int] | None
) -> tuple[NDArray[np.float32], Cache]:
    """As `StepModel.step`, in parts of READ_AT_ONCE tokens: attention takes memory for tokens at once × tokens in all."""
    length, before = tokens.shape[1], cache.length if cache else 0
    for start in range(0, length - READ_AT_ONCE, READ_AT_ONCE):
        end = start + READ_AT_ONCE
        _, cache = model.step(tokens[:, start:end], mask[:, : before + end], cache, rows=rows)
        rows = None
    start = max(0, -(-length // READ_AT_ONCE) - 1) * READ_AT_ONCE
    return model.step(tokens[:, start:], mask, cache, rows=rows)


def likelihoods(
    model: StepModel, prefix: Prefix, pairs: Sequence[tuple[str, str]], *, clock: Clock, deadline: float
) -> list[float | None]:
    """Mean log-probability of the tokens of *second* after prefix and *first*, for each (first, second) of *pairs*.

    Natural logarithm, by token: so long and short compare. The prefix is read once, its cache serves every batch. None: the
    deadline (of *clock*) came before its batch, or the texts do not fit the context; pairs are scored in the order given.

    Raises:
        ModelError: the model failed.
    """
    out: list[float | None] = [None] * len(pairs)
    read = [(model.encode(first), model.encode(second)) for first, second in pairs]
    length = len(prefix.tokens)
    fitting = [i for i, (a, b) in enumerate(read) if b and length + len(a) + len(b) <= model.folder.context]
    longest, shortest = (f([len(a) + len(b) * last for a, b in read], default=0) for f, last in ((max, 1), (min, 0)))
    size = max(1, min(BATCH, LOGITS_MOST // ((longest - shortest + 1) * model.folder.vocabulary)))
    for start in range(0, len(fitting), size):
        if clock() >= deadline:
            break
        batch = fitting[start : start + size]
        longest = max(len(read[i][0]) + len(read[i][1]) for i in batch)
        tokens = np.zeros((len(batch), longest), dtype=np.int64)
        mask = np.zeros((len(batch), length + longest), dtype=np.int64)
        for row, i in enumerate(batch):
            text = read[i][0] + read[i][1]
            tokens[row, : len(text)] = text
            mask[row, : length + len(text)] = 1  # padding comes after: nothing that counts can see it
        shortest = min(len(read[i][0]) for i in batch)
        first = max(0, shortest - 1)
        logits, _ = model.step(tokens, mask, prefix.cache, wanted=range(first, longest))
        for row, i in enumerate(batch):
            given, scored = read[i]
            at = np.arange(len(given) - 1, len(given) + len(scored) - 1)
            found = log_softmax(logits[row, at[at >= 0] - first])
            values = [float(prefix.last[scored[0]])] if not given else []
            values += [float(v) for v in found[np.arange(len(found)), scored[len(values) :]]]
            out[i] = sum(values) / len(values)
    return out


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Along the last axis. Raises: ModelError: the model gave something else than numbers, as after an overflow."""
    top = logits.max(axis=-1, keepdims=True)
    if not np.isfinite(top).all():
        raise ModelError("the language model computes what is no number: import it again, in another form")
    shifted = logits - top
    found: NDArray[np.float32] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return found


class Ended(StrEnum):
    """Why a text stops."""

    END = "end"
    STOP = "stop"
    LENGTH = "length"
    DEADLINE = "deadline"


@dataclass(frozen=True, slots=True)
class Written:
    """A text without its stop string.

    prompt_tokens, tokens: read (a shared prefix left out) and written. seconds: of the whole batch it was in. likelihood: mean
    log-probability of its tokens by the model, the end token among them; 0 where none was written.
    """

    text: str
    ended: Ended
    prompt_tokens: int
    tokens: int
    seconds: float
    likelihood: float = 0.0


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is drawn: temperature 0 takes the likeliest; else from the likeliest that hold *top_p* together.

    Each text draws by a generator of its own, made of *seed*, its prompt and the number of the draft: so it does not depend on
    its neighbours in a batch, nor on its place among them."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (0 <= self.temperature < float("inf") and 0 < self.top_p <= 1 and self.seed >= 0):
            raise ValueError(f"{self}: temperature is 0 or more, top_p above 0 and at most 1, seed 0 or more")


GREEDY = Sampling()
Prompt = str | Sequence[int]
"""A text, or the tokens of one where it has control tokens (`StepModel.encode_markup`); the begin token comes before either."""


@dataclass(slots=True)
class _Text:
    """One text while it is written."""

    prompt_tokens: int
    chance: np.random.Generator
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    total: float = 0.0
    scored: int = 0
    ended: Ended | None = None

    def take(self, token: int, likelihood: float, model: StepModel, stop: Sequence[str]) -> None:
        """Go on by *token*, which may end the text."""
        self.total, self.scored = self.total + likelihood, self.scored + 1
        if token in model.folder.end:
            self.ended = Ended.END
            return
        self.tokens.append(token)
        # As a whole: a character may be several tokens, and so may a stop string.
        self.text, is_stopped = until(model.decode(self.tokens), stop)
        self.ended = Ended.STOP if is_stopped else None

    def written(self, otherwise: Ended, seconds: float) -> Written:
        likelihood = self.total / self.scored if self.scored else 0.0
        return Written(self.text, self.ended or otherwise, self.prompt_tokens, len(self.tokens), seconds, likelihood)


def write(
    model: StepModel,
    prompts: Sequence[Prompt],
    *,
    max_tokens: int,
    clock: Clock,
    deadline: float | Callable[[int], float],
    stop: Sequence[str] = (),
    sampling: Sampling = GREEDY,
    prefix: Prefix | None = None,
    drafts: int = 1,
) -> list[Written]:
    """Go on from each of *prompts*, all in one batch, padded on the left.

    A text ends at an end token, at the first *stop* string, after *max_tokens*, where the context is full, or at *deadline* (of
    *clock*), whatever comes first; what there is by then is returned. What has ended costs nothing while the others go on.

    Args:
        deadline: one for all, or that of each prompt by its number, which is asked anew at each token.
        prefix: what all prompts go on from, read once; None: the begin token. drafts: texts for each prompt, which is read
            once; they differ where *sampling* draws.
    Returns:
        *drafts* texts for each prompt, in the order of the prompts.
    Raises:
        ModelError: a prompt is empty or longer than the context, or the model failed.
    """
    started = clock()
    read = [prompt_tokens(model, p, prefix) for p in prompts]
    if not read or drafts < 1:
        return []
    longest, before = max(map(len, read)), len(prefix.tokens) if prefix else 0
    texts = [_Text(len(r), np.random.default_rng([sampling.seed, n, *r])) for r in read for n in range(drafts)]
    tokens = np.array([[0] * (longest - len(r)) + r for r in read], dtype=np.int64)
    mask = np.array([[1] * before + [0] * (longest - len(r)) + [1] * len(r) for r in read], dtype=np.int64)
    cache = prefix.cache if prefix else None
    live, rows = list(range(len(texts))), None
    most = min(max_tokens, model.folder.context - before - longest)
    for n in range(most):
        now = clock()
        on_time = [k for k, i in enumerate(live) if now < (deadline(i // drafts) if callable(deadline) else deadline)]
        if len(on_time) < len(live):
            for i in set(live) - {live[k] for k in on_time}:
                texts[i].ended = Ended.DEADLINE
            live = [live[k] for k in on_time]
            if not live:
                break
            if rows is not None:
                rows, tokens, mask = [rows[k] for k in on_time], tokens[on_time], mask[on_time]
        logits, cache = read_on(model, tokens, mask, cache, rows)
        likely = log_softmax(logits[:, -1])
        # Rows of the first step are prompts, those of the others the texts that had not ended.
        of = [i // drafts for i in live] if n == 0 else list(range(len(live)))
        drawn = [_draw(likely[row], sampling, texts[i].chance) for i, row in zip(live, of, strict=True)]
        for i, row, token in zip(live, of, drawn, strict=True):
            texts[i].take(token, float(likely[row, token]), model, stop)
        going = [k for k, i in enumerate(live) if texts[i].ended is None]
        if not going:
            break
        live, rows = [live[k] for k in going], [of[k] for k in going]
        tokens = np.array([[drawn[k]] for k in going], dtype=np.int64)
        mask = np.concatenate([mask[rows], np.ones((len(rows), 1), dtype=np.int64)], axis=1)
    return [t.written(Ended.LENGTH, clock() - started) for t in texts]


def prompt_tokens(model: StepModel, prompt: Prompt, prefix: Prefix | None) -> list[int]:
    """What is read of *prompt* behind *prefix*. Raises: ModelError: nothing, or more than the context."""
    begin = [] if prefix or model.folder.begin is None else [model.folder.begin]
    found = [*begin, *(model.encode(prompt) if isinstance(prompt, str) else prompt)]
    room = model.folder.context - (len(prefix.tokens) if prefix else 0)
    if not 1 <= len(found) < room:
        raise ModelError(f"a prompt has {len(found)} tokens; 1 to {room - 1:,} are possible")
    return found


def until(text: str, stop: Sequence[str]) -> tuple[str, bool]:
    """*text* before the first of *stop* in it, and whether there is one."""
    cut = min((at for s in stop if s and (at := text.find(s)) >= 0), default=-1)
    return (text[:cut], True) if cut >= 0 else (text, False)


def _draw(likely: NDArray[np.float32], sampling: Sampling, chance: np.random.Generator) -> int:
    if sampling.temperature <= 0:
        return int(likely.argmax())
    p = np.exp(log_softmax(likely / sampling.temperature)).astype(np.float64)
    order = np.argsort(-p)
    kept = order[: int(np.searchsorted(np.cumsum(p[order]), sampling.top_p)) + 1]
    return int(chance.choice(kept, p=p[kept] / p[kept].sum()))
