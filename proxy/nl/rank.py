"""Choosing among candidates: features, weights, and what executing the best few adds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources

import numpy as np

from proxy.nl.enumerate import Candidate
from proxy.nl.onnx import Encoder
from proxy.query.term import Iri, Literal, RdfTerm

HAND_SET: Mapping[str, float] = {
    "cosine": 3.0, "select": 2.5, "value": 2.0, "comparison": 2.0, "order": 2.0, "group": 1.0, "least": 0.5,
    "coverage": 2.0, "precision": 1.0, "bridges": -0.4, "nodes": -0.15, "anchors_missed": -1.5, "dropped": -0.8,
    "sketch_rank": -0.25, "longer_join": -0.6, "other_join": -0.1, "edges_said": 0.3, "shown_anchored": 0.3,
    "absent_guess": -0.5, "default_shown": -0.5, "order_rows": -0.1,
}  # fmt: skip
"""Where no fitted weights are at hand: near in meaning and complete is good, what the question did not name is bad."""


@lru_cache(maxsize=1)
def shipped_weights() -> Mapping[str, float]:
    """The weights that come with the package (weights.json says how they were fitted)."""
    path = resources.files("proxy.nl") / "models" / "weights.json"
    if not path.is_file():
        return HAND_SET
    loaded = json.loads(path.read_text(encoding="utf-8"))
    return {str(k): float(v) for k, v in loaded["weights"].items()}


def rank(
    question: str, candidates: Sequence[Candidate], encoder: Encoder, weights: Mapping[str, float], *, embedded: int = 56
) -> list[Candidate]:
    """Score *candidates* and sort them, best first.

    The cosine of question and words costs most, so only the *embedded* best by the other features get it; the rest stay behind.
    """
    if not candidates:
        return []
    for c in candidates:
        c.score = sum(weights.get(k, 0.0) * v for k, v in c.features.items())
    ordered = sorted(candidates, key=lambda c: -c.score)
    head = ordered[:embedded]
    vectors = encoder.encode([question, *(c.words for c in head)])
    cosines = (vectors[1:] @ vectors[0]).astype(np.float64).tolist()
    for c, cosine in zip(head, cosines, strict=True):
        c.features["cosine"] = cosine
        c.score += weights.get("cosine", 0.0) * cosine
    head.sort(key=lambda c: -c.score)
    return [*head, *ordered[embedded:]]


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


def confidence(candidates: Sequence[Candidate], chosen: int, answers: Sequence[Rows | None]) -> float:
    """Probability that ``candidates[chosen]`` is what was meant, by a logistic model over its score, its lead and the
    evidence."""
    x = evidence(candidates, chosen, answers)
    weights = calibration()
    z = sum(weights.get(k, 0.0) * v for k, v in x.items())
    return float(1.0 / (1.0 + np.exp(-z)))


def evidence(candidates: Sequence[Candidate], chosen: int, answers: Sequence[Rows | None]) -> dict[str, float]:
    """What the confidence rests on."""
    c = candidates[chosen]
    sets = [None if a is None else frozenset(a) for a in answers]
    own = sets[chosen] if chosen < len(sets) else None
    rivals = [o.score for i, o in enumerate(candidates) if i != chosen]
    f = c.features
    named = ("cosine", "coverage", "least", "dropped", "chosen", "sketch_rank", "precision", "bridges")
    return {
        "bias": 1.0,
        "lead": max(-3.0, min(3.0, c.score - max(rivals))) if rivals else 3.0,
        "empty": float(own is not None and not own),
        **{k: f.get(k, 0.0) for k in named},
    }


HAND_SET_CALIBRATION: Mapping[str, float] = {
    "bias": -4.0,
    "cosine": 3.0,
    "coverage": 1.5,
    "least": 1.5,
    "lead": 0.6,
    "empty": -1.0,
}


@lru_cache(maxsize=1)
def calibration() -> Mapping[str, float]:
    """Weights of the confidence, as shipped."""
    path = resources.files("proxy.nl") / "models" / "weights.json"
    if not path.is_file():
        return HAND_SET_CALIBRATION
    loaded = json.loads(path.read_text(encoding="utf-8"))
    return {str(k): float(v) for k, v in loaded["calibration"].items()}
