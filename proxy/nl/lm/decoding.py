"""Scoring and writing over a `StepModel`. Pure: the clock is the caller's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from proxy.errors import ModelError
from proxy.nl.lm.step import Cache, StepModel

Clock = Callable[[], float]
BATCH = 8
"""Texts in one step when scoring: enough to fill two cores; memory for logits is batch × tokens × vocabulary × 4 bytes."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """A text that others go on from, read once. last: log-probabilities of the token after it."""

    tokens: tuple[int, ...]
    cache: Cache
    last: NDArray[np.float32]


def read_prefix(model: StepModel, text: str) -> Prefix:
    """Read *text* after the model's begin token.

    Raises:
        ModelError: it is empty, longer than the context, or the model failed.
    """
    begin = [] if model.folder.begin is None else [model.folder.begin]
    tokens = [*begin, *model.encode(text)]
    if not 1 <= len(tokens) < model.folder.context:
        raise ModelError(f"a prefix has {len(tokens)} tokens; 1 to {model.folder.context - 1:,} are possible")
    logits, cache = model.step(np.array([tokens]), np.ones((1, len(tokens)), dtype=np.int64))
    return Prefix(tuple(tokens), cache, log_softmax(logits[0, -1]))


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
    for start in range(0, len(fitting), BATCH):
        if clock() >= deadline:
            break
        batch = fitting[start : start + BATCH]
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
    """Along the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
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
    """A text without its stop string. prompt_tokens, tokens: read and written. seconds: of the whole batch it was in."""

    text: str
    ended: Ended
    prompt_tokens: int
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is drawn: temperature 0 takes the likeliest; else from the likeliest that hold *top_p* together."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0


GREEDY = Sampling()


def write(
    model: StepModel,
    prompts: Sequence[str],
    *,
    max_tokens: int,
    clock: Clock,
    deadline: float,
    stop: Sequence[str] = (),
    sampling: Sampling = GREEDY,
) -> list[Written]:
    """Go on from each of *prompts*, all in one batch, padded on the left.

    A text ends at an end token, at the first *stop* string, after *max_tokens*, where the context is full, or at *deadline* (of
    *clock*), whatever comes first; what there is by then is returned.

    Raises:
        ModelError: a prompt is empty or longer than the context, or the model failed.
    """
    started = clock()
    begin = [] if model.folder.begin is None else [model.folder.begin]
    read = [[*begin, *model.encode(p)] for p in prompts]
    for r in read:
        if not 1 <= len(r) < model.folder.context:
            raise ModelError(f"a prompt has {len(r)} tokens; 1 to {model.folder.context - 1:,} are possible")
    if not read:
        return []
    chance = np.random.default_rng(sampling.seed)
    longest = max(map(len, read))
    tokens = np.array([[0] * (longest - len(r)) + r for r in read], dtype=np.int64)
    mask = np.array([[0] * (longest - len(r)) + [1] * len(r) for r in read], dtype=np.int64)
    cache: Cache | None = None
    out: list[list[int]] = [[] for _ in read]
    texts = [""] * len(read)
    ended: list[Ended | None] = [None] * len(read)
    most = min(max_tokens, model.folder.context - longest)
    for n in range(most + 1):
        if n == most or clock() >= deadline:
            why = Ended.LENGTH if n == most else Ended.DEADLINE
            ended = [e or why for e in ended]
            break
        logits, cache = model.step(tokens, mask, cache)
        following = [_draw(row, sampling, chance) for row in logits[:, -1]]
        for i, token in enumerate(following):
            if ended[i] is not None:
                continue
            if token in model.folder.end:
                ended[i] = Ended.END
                continue
            out[i].append(token)
            texts[i] = model.decode(out[i])  # as a whole: a character may be several tokens
            cut = min((at for s in stop if (at := texts[i].find(s)) >= 0), default=-1)
            if cut >= 0:
                texts[i], ended[i] = texts[i][:cut], Ended.STOP
        if all(ended):
            break
        tokens = np.array(following, dtype=np.int64)[:, None]
        mask = np.concatenate([mask, np.ones((len(read), 1), dtype=np.int64)], axis=1)
    seconds = clock() - started
    return [
        Written(text, why or Ended.LENGTH, len(r), len(o), seconds)
        for text, why, r, o in zip(texts, ended, read, out, strict=True)
    ]


def _draw(logits: NDArray[np.float32], sampling: Sampling, chance: np.random.Generator) -> int:
    if sampling.temperature <= 0:
        return int(logits.argmax())
    p = np.exp(log_softmax(logits / sampling.temperature)).astype(np.float64)
    order = np.argsort(-p)
    kept = order[: int(np.searchsorted(np.cumsum(p[order]), sampling.top_p)) + 1]
    return int(chance.choice(kept, p=p[kept] / p[kept].sum()))
