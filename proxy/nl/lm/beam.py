"""Beam search over a `StepModel`: the likeliest texts, not the likeliest next token. Pure: the clock is the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proxy.nl.lm.decoding import Clock, Ended, Prefix, Prompt, Written, log_softmax, prompt_tokens, read_on, until
from proxy.nl.lm.step import StepModel


@dataclass(frozen=True, slots=True)
class _Beam:
    """A text in the search. total: log-probability of its tokens, the end token among them; scored: how many those are."""

    tokens: tuple[int, ...]
    total: float
    text: str = ""
    ended: Ended | None = None

    @property
    def likelihood(self) -> float:
        """Mean log-probability by token: so long and short compare."""
        scored = len(self.tokens) + (self.ended is Ended.END)
        return self.total / scored if scored else 0.0


def search(
    model: StepModel,
    prompt: Prompt,
    *,
    width: int,
    max_tokens: int,
    clock: Clock,
    deadline: float,
    stop: Sequence[str] = (),
    prefix: Prefix | None = None,
) -> list[Written]:
    """The at most *width* best texts after *prompt*, by mean log-probability of a token, best first.

    At each token the *width* likeliest beginnings go on, in one batch over one cache. The search ends once *width* texts have
    ended and none that goes on is better than the worst of them (as in Hugging Face's ``generate``), after *max_tokens*, where
    the context is full, or at *deadline* (of *clock*). Texts that had not ended by then stand among the others by their
    likelihood. *stop* and *prefix* as for `proxy.nl.lm.decoding.write`.

    Raises:
        ModelError: the prompt is empty or longer than the context, or the model failed.
    """
    started = clock()
    read = prompt_tokens(model, prompt, prefix)
    before = len(prefix.tokens) if prefix else 0
    cache, rows = prefix.cache if prefix else None, None
    tokens = np.array([read], dtype=np.int64)
    live, done = [_Beam((), 0.0)], list[_Beam]()
    most = min(max_tokens, model.folder.context - before - len(read))
    why = Ended.LENGTH
    for n in range(most):
        if clock() >= deadline:
            why = Ended.DEADLINE
            break
        mask = np.ones((len(live), before + len(read) + n), dtype=np.int64)
        logits, cache = read_on(model, tokens, mask, cache, rows)
        following = _following(model, live, log_softmax(logits[:, -1]), width, stop)
        done = sorted([*done, *(b for _, b in following if b.ended)], key=lambda b: -b.likelihood)[:width]
        going = [(row, b) for row, b in following if b.ended is None][:width]
        live, rows = [b for _, b in going], [row for row, _ in going]
        if not live or (len(done) == width and live[0].likelihood <= done[-1].likelihood):
            live = []
            break
        tokens = np.array([[b.tokens[-1]] for b in live], dtype=np.int64)
    found = sorted([*done, *(b for b in live if b.tokens)], key=lambda b: -b.likelihood)[:width]
    seconds = clock() - started
    return [Written(b.text, b.ended or why, len(read), len(b.tokens), seconds, b.likelihood) for b in found]


def _following(
    model: StepModel, live: Sequence[_Beam], likely: np.ndarray, width: int, stop: Sequence[str]
) -> list[tuple[int, _Beam]]:
    """The likeliest texts one token longer, and which of *live* each goes on from; best first.

    Twice *width* and one for each way to end are enough: so many may end, and *width* still go on.
    """
    totals = np.array([b.total for b in live])[:, None] + likely
    count = min(totals.size, 2 * width + len(live) * len(model.folder.end))
    best = np.argpartition(-totals, count - 1, axis=None)[:count]
    out = []
    for at in best[np.argsort(-totals.flat[best], kind="stable")]:
        row, token = divmod(int(at), likely.shape[1])
        total, beam = float(totals[row, token]), live[row]
        if token in model.folder.end:
            out.append((row, _Beam(beam.tokens, total, beam.text, Ended.END)))
            continue
        tokens = (*beam.tokens, token)
        text, is_stopped = until(model.decode(tokens), stop)
        out.append((row, _Beam(tokens, total, text, Ended.STOP if is_stopped else None)))
    return out
