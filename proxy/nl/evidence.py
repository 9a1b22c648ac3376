"""What the gate knows of an answer: the question's cues against the query, its words against the query's, the contest that the
query won, and what running it and its rivals brought. Numbers only, each about 0 to 3."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proxy.nl.english import AGGREGATES, AUXILIARY, COMPARATIVES, DIMENSIONS, NEGATIONS
from proxy.nl.ir import Aggregate
from proxy.nl.plan import Plan
from proxy.nl.requirements import Construct, conditions, does
from proxy.nl.words import STOPWORDS, stem, stems

Traits = Mapping[str, float]
_WORD = re.compile(r"[^\W\d_]+|\d+(?:[.,]\d+)*")
_QUOTED = re.compile(r"[\"“]([^\"”]+)[\"”]|(?<!\w)'([^']+)'(?!\w)")
_CUES: Mapping[Construct, re.Pattern[str]] = {
    Construct.COUNT: re.compile(r"\b(how many|number of|count)\b"),
    Construct.EACH: re.compile(r"\b(each|every|per)\b"),
    Construct.SORTING: re.compile(
        r"\b(sort|sorted|order|ordered|alphabetical|alphabetically|ascending|descending|rank|ranked)\b"
    ),
}
_CUE_WORDS: Mapping[Construct, frozenset[str]] = {
    Construct.AVERAGE: frozenset({"average", "mean", "avg"}),
    Construct.TOTAL: frozenset({"total", "sum"}),
    Construct.NEGATION: NEGATIONS,
    Construct.BOUND: frozenset(COMPARATIVES) | {"between", "least", "most", "exactly"},
    Construct.EITHER: frozenset({"or"}),
}
_LEAD_MOST = 4.0
_CONTEST = 40
"""Candidates whose scores are looked at; those far behind say nothing."""
_ENGINE = (
    "cosine", "coverage", "least", "dropped", "chosen", "sketch_rank", "precision", "shown_precision", "known_covered",
    "known_missed", "condition_precision", "order_precision", "group_precision", "bridges", "nodes", "owners",
    "owners_anchored", "anchors_missed", "edges_said", "shown_anchored", "default_shown", "absent_guess", "composite",
    "longer_join", "other_join", "order_rows", "order_count", "select", "value", "comparison", "order", "group", "both_said",
    "residual_most", "residual_sum", "residual_noun", "residual_asked", "residual_name", "mentions_unknown", "mentions_unused",
    "owner_unsaid", "foreign_noun", "foreign_far", "foreign_word", "foreign_sum",
)  # fmt: skip
"""Features of the ranking that say how well a query fits, and so whether it is right."""
LACKING = (
    "foreign_noun", "foreign_far", "foreign_word", "foreign_sum", "residual_most", "residual_sum", "residual_noun",
    "residual_asked", "residual_name", "mentions_unknown", "mentions_unused", "owner_unsaid", "words_unspoken",
    "count_unspoken", "coverage", "known_missed", "dropped", "least", "cosine", "names_missed", "quotes_missed", "words",
)  # fmt: skip
"""Traits that say whether a question asks for what the graph does not have."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What running a query brought. signature: equal for equal sets of rows. is_nothing: no rows, a zero, or unbound only."""

    rows: int
    columns: int
    is_nothing: bool
    signature: int

    @classmethod
    def of(cls, rows: Sequence[tuple[object, ...]] | None) -> Seen | None:
        """Sum up *rows*; None stays None: it did not run."""
        if rows is None:
            return None
        held = frozenset(rows)
        is_nothing = held <= {(0,)} or all(v is None for r in rows for v in r)
        return cls(len(rows), len(rows[0]) if rows else 0, is_nothing, hash(held))


def traits(
    question: str, plan: Plan, words: str, features: Mapping[str, float], findings: Mapping[str, int]
) -> dict[str, float]:
    """What *question* and one query say about each other, whatever its rivals are.

    words: the query in words (``verbalise``). features: of the ranking. findings: severity → number, of the validator.
    """
    tokens = [t.lower() for t in _WORD.findall(question)]
    text = " ".join(tokens)
    held = conditions(plan)
    asked = constructs(question)
    missed = {c for c in asked if not does(plan, c)}
    unasked = {c for c in Construct if c not in asked and does(plan, c)}
    literals = " ".join(x.lexical for c in held for x in c.literals)
    spoken = set(stems(f"{words} {literals}".lower()))
    numbers = {n for c in held for n in c.numbers}
    numbers |= {float(plan.sorting.limit)} if plan.sorting is not None and plan.sorting.limit is not None else set()
    numbers |= {plan.counted.number} if plan.counted is not None else set()
    said_numbers = [t for t in tokens if t[0].isdigit()]
    missed_numbers = [t for t in said_numbers if t not in literals and _number(t) not in numbers]
    content = [stem(t) for t in tokens if t not in STOPWORDS and not t[0].isdigit()]
    names = [t for t in _WORD.findall(question)[1:] if t[0].isupper() and len(t) > 1 and t.lower() not in STOPWORDS]
    quotes = [(a or b).lower() for a, b in _QUOTED.findall(question)]
    said = literals.lower()
    return {
        **{k: min(4.0, max(-4.0, features.get(k, 0.0))) for k in _ENGINE},
        **{f"missed:{c}": float(c in missed) for c in Construct},
        **{f"unasked:{c}": float(c in unasked) for c in Construct},
        "cues_missed": float(len(missed)),
        "words": math.log1p(len(tokens)),
        "words_unspoken": sum(s not in spoken for s in content) / max(1, len(content)),
        "count_unspoken": float(sum(s not in spoken for s in set(content))),
        "spoken_unsaid": sum(s not in set(content) for s in spoken) / max(1, len(spoken)),
        "numbers_missed": float(len(missed_numbers)),
        "names_missed": float(sum(stem(n.lower()) not in spoken for n in names)),
        "quotes_missed": float(sum(q not in said for q in quotes)),
        "conditions": float(len(held)),
        "shown": float(len(plan.shown)),
        "shown_less": max(0.0, float(min(3, text.count(" and ")) + 1 - len(plan.shown) - len(held))),
        "suspicious": float(findings.get("suspicious", 0)),
        "vacuous": float(findings.get("vacuous", 0)),
        "proved": float(findings.get("proved-empty", 0)),
    }  # fmt: skip


def constructs(question: str) -> frozenset[Construct]:
    """What the words of *question* ask for besides matching. English cues; none fires on another language's words."""
    tokens = [t.lower() for t in _WORD.findall(question)]
    text, held = " ".join(tokens), set(tokens)
    found = {c for c, cue in _CUES.items() if cue.search(text)}
    found |= {c for c, cues in _CUE_WORDS.items() if held & cues}
    if any(t in DIMENSIONS or AGGREGATES.get(t) in (Aggregate.MAX, Aggregate.MIN) for t in tokens):
        found.add(Construct.EXTREME)
    if tokens and tokens[0] in AUXILIARY:
        found.add(Construct.ASK)
    return frozenset(found)


def evidence(
    own: Traits, scores: Sequence[float], chosen: int, seen: Sequence[Seen | None], *, is_executed: bool = True
) -> dict[str, float]:
    """What the gate sees of the candidate at *chosen*.

    own: its traits. scores: of all candidates as ranked, best first. seen: of each, as far as it was run and did not fail. With
    ``is_executed`` false nothing of *seen* is used, so that a gate without execution feedback can be asked.
    """
    top = scores[:_CONTEST]
    peak = max(top)
    weights = [math.exp(s - peak) for s in top]
    mass = sum(weights)
    shares = [w / mass for w in weights]
    share = shares[chosen] if chosen < len(shares) else 0.0
    rivals = [s for i, s in enumerate(top) if i != chosen]
    found = {
        **own,
        "share": share,
        "rank": float(min(chosen, 5)),
        "lead": max(-_LEAD_MOST, min(_LEAD_MOST, scores[chosen] - max(rivals))) if rivals else _LEAD_MOST,
        "entropy": -sum(p * math.log(p) for p in shares if p > 0),
        "candidates": math.log1p(len(scores)),
        "score": max(-10.0, min(30.0, scores[chosen])),
    }
    if not is_executed:
        return found
    mine = seen[chosen] if chosen < len(seen) else None
    others = [(i, s) for i, s in enumerate(seen) if i != chosen and s is not None]
    agreeing = [i for i, s in others if mine is not None and s.signature == mine.signature]
    apart = [scores[i] for i, s in others if mine is None or s.signature != mine.signature]
    return found | {
        "failed": float(mine is None),
        "nothing": float(mine is not None and mine.is_nothing),
        "log_rows": math.log1p(mine.rows) if mine is not None else 0.0,
        "one_row": float(mine is not None and mine.rows == 1),
        "agreeing": float(len(agreeing)),
        "agreed_share": share + sum(shares[i] for i in agreeing if i < len(shares)),
        "apart_lead": max(-_LEAD_MOST, min(_LEAD_MOST, scores[chosen] - max(apart))) if apart else _LEAD_MOST,
        "distinct": float(len({s.signature for s in seen if s is not None})),
        "rivals_nothing": float(sum(s.is_nothing for _, s in others)),
    }


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
