"""Choosing among candidates: features, weights, and what executing the best few adds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proxy.nl.enumerate import Candidate
from proxy.nl.onnx import Encoder
from proxy.nl.ranker import Ranker
from proxy.query.term import Iri, Literal, RdfTerm

_EMBEDDED = 56
"""Candidates that get the cosine of question and words, which costs most; those behind them stay there."""


def rank(question: str, candidates: Sequence[Candidate], encoder: Encoder, ranker: Ranker) -> list[Candidate]:
    """Score *candidates* and sort them, best first.

    The cross-encoder's logits are added less their mean, so that the scores of those it reads and of the rest stay comparable.
    """
    if not candidates:
        return []
    weights = ranker.weights
    for c in candidates:
        c.score = sum(weights.get(k, 0.0) * v for k, v in c.features.items())
    ordered = sorted(candidates, key=lambda c: -c.score)
    head = ordered[:_EMBEDDED]
    vectors = encoder.encode([question, *(c.words for c in head)])
    cosines = (vectors[1:] @ vectors[0]).astype(np.float64).tolist()
    for c, cosine in zip(head, cosines, strict=True):
        c.features["cosine"] = cosine
        c.score += weights.get("cosine", 0.0) * cosine
    head.sort(key=lambda c: -c.score)
    best = head[: ranker.reranked]
    if ranker.cross is not None and len(best) > 1:
        logits = ranker.cross.score(question, [c.words for c in best])
        for c, logit in zip(best, (ranker.cross_weight * (logits - logits.mean())).tolist(), strict=True):
            c.score += logit
        best.sort(key=lambda c: -c.score)
        head[: len(best)] = best
    return [*head, *ordered[_EMBEDDED:]]


Rows = Sequence[tuple[object, ...]]


def choose(
    candidates: Sequence[Candidate], answers: Sequence[Rows | None], *, empty_malus: float = 1.5, consensus: float = 0.3
) -> int | None:
    """Which of the executed *candidates* to give, by score and by what their *answers* say; None if there is none.

    An empty answer, a single zero and a query that failed count against a candidate without banning it; agreeing with other
    executed candidates counts for it.
    """
    if not candidates:
        return None
    sets = [None if a is None else frozenset(a) for a in answers]
    best, best_score = 0, float("-inf")
    for i, (c, rows) in enumerate(zip(candidates, sets, strict=False)):
        score = c.score
        if rows is None:
            score -= 3 * empty_malus
        elif not rows or all(v is None for r in rows for v in r):
            score -= empty_malus
        elif len(rows) == 1 and next(iter(rows)) in ((0,), (0.0,)):
            score -= 0.6 * empty_malus
        else:
            score += consensus * sum(1 for j, other in enumerate(sets) if j != i and other == rows)
        if score > best_score:
            best, best_score = i, score
    return best


def row_values(rows: Sequence[Sequence[RdfTerm | None]]) -> list[tuple[object, ...]]:
    """Rows as values that compare equal where a person would call them so: numbers by value, the rest by text."""
    return [tuple(_value(t) for t in row) for row in rows]


def _value(term: RdfTerm | None) -> object:
    if isinstance(term, Iri):
        return term.value
    if isinstance(term, Literal):
        try:
            return round(float(term.lexical), 6)
        except ValueError:
            return term.lexical
    return None if term is None else str(term)
