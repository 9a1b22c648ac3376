"""What a query says, part by part: in which part rivals differ, and how sure a contest is of each."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from proxy.nl.ir import Pattern, Query
from proxy.nl.plan import Condition, CountCondition, Plan, Sorting
from proxy.nl.requirements import Construct, does
from proxy.nl.schema import Attribute, ClassTerm


@dataclass(frozen=True, slots=True)
class Outline:
    """Checksums, equal where two queries say the same there.

    shown: what the answer shows. bound: conditions, with their values. form: operators, groups and sorting. joined: properties
    and classes of the pattern. words: the query in words; two queries may be the same in words and differ.
    """

    shown: int
    bound: int
    form: int
    joined: int
    words: int

    @classmethod
    def of(cls, plan: Plan, query: Query, words: str) -> Outline:
        """Of a candidate's three forms."""
        held = (*plan.conditions, *plan.also, *plan.either)
        without = (*plan.absent, *((plan.absent_class,) if plan.absent_class else ()))
        return cls(
            shown=_sum((_term(s.term), s.aggregate, s.is_distinct) for s in plan.shown),
            bound=_sum((sorted(_condition(c) for c in held), [_part(w) for w in without], _part(plan.counted))),
            form=_sum(([c for c in Construct if does(plan, c)], _term(plan.group), _part(plan.sorting), plan.nested)),
            joined=_sum(sorted(_steps(query.pattern))),
            words=_sum((words,)),
        )


PARTS = ("shown", "bound", "form", "joined")
_LEAD_MOST = 4.0


@dataclass(frozen=True, slots=True)
class Rival:
    """A candidate as the contest sees it. outline: None where it is not known; it then differs from all others in all parts."""

    score: float
    outline: Outline | None = None

    def is_alike(self, other: Rival, part: str) -> bool:
        """Whether both say the same in *part*."""
        return self is other or (
            self.outline is not None
            and other.outline is not None
            and getattr(self.outline, part) == getattr(other.outline, part)
        )


def shares(field: Sequence[Rival]) -> list[float]:
    """The probability of each by softmax of the scores."""
    peak = max(r.score for r in field)
    weights = [math.exp(r.score - peak) for r in field]
    mass = sum(weights)
    return [w / mass for w in weights]


def certainty(field: Sequence[Rival], chosen: int) -> dict[str, float]:
    """Of each part the share of candidates that say there what the *chosen* one does, and its lead over the best that does not;
    ``twins``: how many have its words and say something else."""
    mine, part_of = field[chosen], shares(field)
    found: dict[str, float] = {}
    for part in PARTS:
        alike = [r.is_alike(mine, part) for r in field]
        found[f"{part}_share"] = sum(s for s, a in zip(part_of, alike, strict=True) if a)
        apart = max((r.score for r, a in zip(field, alike, strict=True) if not a), default=-math.inf)
        found[f"{part}_lead"] = max(-_LEAD_MOST, min(_LEAD_MOST, mine.score - apart))
    twins = [r for r in field if r is not mine and r.is_alike(mine, "words")]
    found["twins"] = math.log1p(len(twins))
    found["close"] = math.log1p(sum(abs(r.score - mine.score) < 1.0 for r in field if r is not mine))
    return found


def _sum(parts: Iterable[object]) -> int:
    return zlib.crc32(repr(list(parts)).encode())


def _term(term: Attribute | ClassTerm | None) -> str:
    if term is None:
        return ""
    return term.iri if isinstance(term, ClassTerm) else f"{term.subject_class} {' '.join(term.path)}"


def _condition(c: Condition) -> str:
    values = ([x.lexical for x in c.literals], c.numbers, [str(p) for p in c.periods])
    return repr((_term(c.attribute), c.operator, values, c.against))


def _part(part: Condition | CountCondition | Sorting | str | None) -> str:
    match part:
        case Condition():
            return _condition(part)
        case CountCondition():
            return repr((_term(part.term), part.operator, part.number, part.aggregate))
        case Sorting():
            return repr((_term(part.term), part.is_descending, part.limit, part.aggregate))
        case _:
            return part or ""


def _steps(pattern: Pattern) -> list[str]:
    own = [f"{t.property} {t.object if not isinstance(t.object, str) else ''}" for t in pattern.triples]
    return own + [f"- {s}" for absent in pattern.absent for s in _steps(absent)]
