"""What the gate knows of an answer: the question's cues against the query, its words against the query's, the contest that the
query won, and what running it and its rivals brought. Numbers only, each about 0 to 3."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proxy.nl.english import AGGREGATES, AUXILIARY, COMPARATIVES, DIMENSIONS, NEGATIONS
from proxy.nl.ir import Aggregate
from proxy.nl.outline import PARTS, Rival, certainty, shares
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
_MANY = re.compile(
    r"(what|which|who) (are|were)\b|which [a-z]+s\b|(please )?(list|show|give|find|return|name|tell)\b.*\b(all|[a-z]{3,}s)\b"
)
_ONE = re.compile(
    r"(what|who|which) (is|was|s)\b|which [a-z]+[^s ] (is|was|has|have|had)\b|(find|show|give) the (name|number|id)\b"
)
_CLAUSES = frozenset("that which who whose whom where with and but or than as in of for by".split())
_LEAD_MOST = 4.0
CONTEST = 40
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
    """What running a query brought.

    rows, columns: how many; distinct: of the rows. signature: equal for equal sets of rows; parts: the same for each column.
    is_nothing: no rows, a zero, or unbound only. echoes: columns that hold one value only, which the question names: asked
    about, not for.
    """

    rows: int
    columns: int
    is_nothing: bool
    signature: int
    distinct: int = 0
    parts: tuple[int, ...] = ()
    echoes: int = 0

    @property
    def is_zero(self) -> bool:
        """Whether it is one zero, or a false: that there is nothing may be what was asked for."""
        return self.is_nothing and self.rows == 1 and self.columns == 1

    @classmethod
    def of(cls, rows: Sequence[tuple[object, ...]] | None, question: str = "") -> Seen | None:
        """Sum up *rows*, the answer to *question*; None stays None: it did not run."""
        if rows is None:
            return None
        held = frozenset(rows)
        is_nothing = held <= {(0,)} or all(v is None for r in rows for v in r)
        columns = [frozenset(c) for c in zip(*rows, strict=True)]
        asked = question.casefold()
        alone = [str(next(iter(c))) for c in columns if len(c) == 1]
        echoes = sum(len(v) > 2 and v.casefold() in asked for v in alone)
        return cls(len(rows), len(columns), is_nothing, hash(held), len(held), tuple(map(hash, columns)), echoes)


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
        **asking(question),
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


def asking(question: str) -> dict[str, float]:
    """What *question* is like, whatever the graph: how many answers its grammar expects, what it does, how long-winded it is.
    English cues; none fires on another language's words."""
    tokens = [t.lower() for t in _WORD.findall(question)]
    asked = constructs(question)
    number = tokens[:2] == ["how", "many"] and Construct.EACH not in asked
    opening = " ".join(tokens[:6])
    many = not number and bool(_MANY.match(opening))
    return {
        **{f"asked:{c}": float(c in asked) for c in Construct},
        "asks_number": float(number),
        "asks_many": float(many),
        "asks_one": float(not number and not many and bool(_ONE.match(opening))),
        "clauses": min(4.0, float(sum(t in _CLAUSES for t in tokens))),
        "commas": min(3.0, float(question.count(","))),
        "compared": float("than" in tokens and bool({"average", "any", "all", "some", "every"} & set(tokens))),
    }


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
    own: Traits, field: Sequence[Rival], chosen: int, seen: Sequence[Seen | None], *, proposed: int, is_executed: bool = True
) -> dict[str, float]:
    """What the gate sees of the candidate at *chosen*.

    own: its traits. field: all candidates as ranked, best first; the best 40 are enough. seen: of each, as far as it was run
    and did not fail. proposed: how many candidates there were. With ``is_executed`` false nothing of *seen* is used, so that a
    gate without execution feedback can be asked.
    """
    mine_is = field[chosen]
    top = [*field[:CONTEST], *([mine_is] if chosen >= CONTEST else [])]
    at = min(chosen, CONTEST)
    part_of = shares(top)
    rivals = [r.score for i, r in enumerate(top) if i != at]
    found = {
        **own,
        **certainty(top, at),
        "share": part_of[at],
        "rank": float(min(chosen, 5)),
        "lead": _bounded(mine_is.score - max(rivals)) if rivals else _LEAD_MOST,
        "entropy": -sum(p * math.log(p) for p in part_of if p > 0),
        "candidates": math.log1p(proposed),
        "score": max(-10.0, min(30.0, mine_is.score)),
    }
    if not is_executed:
        return found
    mine = seen[chosen] if chosen < len(seen) else None
    others = [(i, s) for i, s in enumerate(seen) if i != chosen and s is not None]
    agreeing = [i for i, s in others if mine is not None and s.signature == mine.signature]
    apart = [i for i, s in others if mine is None or s.signature != mine.signature]
    found |= {
        "failed": float(mine is None),
        "agreeing": float(len(agreeing)),
        "agreed_share": part_of[at] + sum(part_of[i] for i in agreeing if i < len(part_of)),
        "apart_lead": _bounded(mine_is.score - max(field[i].score for i in apart)) if apart else _LEAD_MOST,
        "distinct": float(len({s.signature for s in seen if s is not None})),
        "rivals_nothing": float(sum(s.is_nothing for _, s in others)),
        **{
            f"apart_{part}": sum(part_of[i] for i in apart if i < len(part_of) and not field[i].is_alike(mine_is, part))
            for part in PARTS
        },
    }
    return found if mine is None else found | _result(mine, [s for _, s in others], own)


def _result(mine: Seen, others: Sequence[Seen], own: Traits) -> dict[str, float]:
    """What an answer is like, by itself, beside the others', and beside what was asked for."""
    columns = set(mine.parts)
    sharing = [s for s in others if s.signature != mine.signature and columns & set(s.parts)]
    one, several = float(mine.rows == 1), float(mine.rows > 1)
    return {
        "nothing": float(mine.is_nothing),
        "log_rows": math.log1p(mine.rows),
        "one_row": one,
        "repeated": 1.0 - mine.distinct / mine.rows if mine.rows else 0.0,
        "wide": float(mine.columns),
        "echoes": float(mine.echoes),
        "sharing": float(len(sharing)),
        "holding": float(sum(columns < set(s.parts) for s in sharing)),
        "held": float(sum(set(s.parts) < columns for s in sharing)),
        "many_for_one": several * own.get("asks_one", 0.0),
        "one_for_many": one * own.get("asks_many", 0.0),
        "many_for_number": several * own.get("asks_number", 0.0),
        "many_for_extreme": several * own.get("asked:extreme", 0.0),
        "one_for_each": one * own.get("asked:each", 0.0),
    }


def _bounded(lead: float) -> float:
    return max(-_LEAD_MOST, min(_LEAD_MOST, lead))


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
