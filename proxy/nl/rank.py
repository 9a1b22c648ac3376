"""Choosing among candidates: features, weights, and what executing the best few adds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proxy.nl.enumerate import Candidate
from proxy.nl.evidence import Seen
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


def choose(
    scores: Sequence[float], seen: Sequence[Seen | None], *, empty_malus: float = 1.5, consensus: float = 0.3
) -> int | None:
    """Which of some executed candidates to give, by their *scores* and by what was *seen* of their answers; None of none.

    An empty answer, a single zero and a query that failed count against a candidate without banning it; agreeing with other
    executed candidates counts for it.
    """
    best: int | None = None
    best_score = float("-inf")
    for i, (score, mine) in enumerate(zip(scores, seen, strict=False)):
        if mine is None:
            score -= 3 * empty_malus
        elif mine.is_nothing:
            score -= (0.6 if mine.is_zero else 1.0) * empty_malus
        else:
            agreeing = sum(1 for j, s in enumerate(seen) if j != i and s is not None and s.signature == mine.signature)
            score += consensus * agreeing
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
