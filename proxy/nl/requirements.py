"""What a query must have, or must not: the memory of a question's correction. Requirements are added, never taken back.

Each belongs to the stage of understanding that was at fault: *grounding* (which class or attribute is meant), *binding* (which
value stands where), *construction* (which operators and joins). What earlier stages decided stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from proxy.nl.ir import Aggregate, Operator, Pattern, Query
from proxy.nl.plan import Condition, Plan
from proxy.nl.schema import Attribute, ClassTerm

BOUNDS = (Operator.LESS, Operator.AT_MOST, Operator.GREATER, Operator.AT_LEAST, Operator.BETWEEN)


class Stage(StrEnum):
    GROUNDING = "grounding"
    BINDING = "binding"
    CONSTRUCTION = "construction"


class Demand(StrEnum):
    """PIN: the query has it. BAN: it has not."""

    PIN = "pin"
    BAN = "ban"


class Construct(StrEnum):
    """What a query may do besides matching, as words of the question ask for it."""

    COUNT = "count"
    AVERAGE = "average"
    TOTAL = "total"
    EXTREME = "extreme"
    EACH = "each"
    NEGATION = "negation"
    SORTING = "sorting"
    ASK = "ask"
    BOUND = "bound"
    EITHER = "either"


@dataclass(frozen=True, slots=True)
class Binding:
    """A value and where it stands. attribute: None where any will do."""

    text: str
    attribute: Attribute | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """A step of the join: any use of *property* between two nodes."""

    property: str


What = Attribute | ClassTerm | Binding | Construct | Edge


@dataclass(frozen=True, slots=True)
class Requirement:
    """One demand, and the reason for it in words."""

    stage: Stage
    demand: Demand
    what: What
    reason: str

    def is_met_by(self, plan: Plan) -> bool:
        """Whether *plan* keeps to it. An edge is only known once the plan is joined: see ``is_met_by_query``."""
        return isinstance(self.what, Edge) or has(plan, self.what) is (self.demand is Demand.PIN)

    def is_met_by_query(self, query: Query) -> bool:
        """Whether the joined *query* keeps to it; true for what a plan is asked about."""
        if not isinstance(self.what, Edge):
            return True
        return (self.what.property in _edges(query.pattern)) is (self.demand is Demand.PIN)

    def as_json(self) -> dict[str, str]:
        return {"stage": str(self.stage), "demand": str(self.demand), "what": _spoken(self.what), "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Requirements:
    """All demands so far."""

    all: tuple[Requirement, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.all)

    def and_(self, one: Requirement) -> Requirements:
        """With *one* more; the same object where it is there already, so that a caller sees that nothing is new."""
        return self if one in self.all else Requirements((*self.all, one))

    def admit(self, plan: Plan) -> bool:
        """Whether *plan* meets them all."""
        return all(r.is_met_by(plan) for r in self.all)

    def admit_query(self, query: Query) -> bool:
        """Whether the joins of *query* meet them all."""
        return all(r.is_met_by_query(query) for r in self.all)

    def contradict(self, one: Requirement) -> bool:
        """Whether *one* demands the opposite of one of them."""
        return any(r.what == one.what and r.demand is not one.demand for r in self.all)


NONE = Requirements()


def has(plan: Plan, what: What) -> bool:
    """Whether *plan* uses a term, binds a value, or does what a construct says."""
    match what:
        case Attribute():
            return what in terms(plan)
        case ClassTerm():
            return what.iri in plan.classes() or what.iri == plan.absent_class
        case Binding():
            return any(
                what.attribute in (None, c.attribute) and any(x.lexical.casefold() == what.text.casefold() for x in c.literals)
                for c in conditions(plan)
            )
        case Construct():
            return does(plan, what)
        case Edge():
            return False
    assert_never(what)


def does(plan: Plan, construct: Construct) -> bool:
    """Whether the query of *plan* does what *construct* says."""
    held = conditions(plan)
    used = aggregates(plan)
    extreme = (plan.sorting is not None and plan.sorting.limit is not None) or bool(used & {Aggregate.MAX, Aggregate.MIN})
    match construct:
        case Construct.COUNT:
            sorts_by_count = plan.sorting is not None and not isinstance(plan.sorting.term, Attribute)
            return Aggregate.COUNT in used or sorts_by_count
        case Construct.AVERAGE:
            return Aggregate.AVG in used
        case Construct.TOTAL:
            return bool(used & {Aggregate.SUM, Aggregate.COUNT})
        case Construct.EXTREME:
            return extreme
        case Construct.EACH:
            shows_both = any(s.aggregate is None for s in plan.shown) and any(s.aggregate is not None for s in plan.shown)
            return plan.group is not None or shows_both
        case Construct.NEGATION:
            return bool(plan.absent) or plan.absent_class is not None or any(c.operator is Operator.NOT_EQUAL for c in held)
        case Construct.SORTING:
            return plan.sorting is not None and plan.sorting.limit is None
        case Construct.ASK:
            return plan.is_ask
        case Construct.BOUND:
            return any(c.operator in BOUNDS for c in held) or plan.counted is not None or extreme
        case Construct.EITHER:
            return any(c.operator is Operator.IN or c.otherwise is not None for c in held)
    assert_never(construct)


def conditions(plan: Plan) -> tuple[Condition, ...]:
    """All conditions of *plan*, what must be absent among them."""
    return (*plan.conditions, *plan.also, *plan.absent)


def aggregates(plan: Plan) -> set[Aggregate]:
    """Every aggregate that *plan* computes."""
    found = {s.aggregate for s in plan.shown} | {c.against for c in conditions(plan)}
    found |= {plan.sorting.aggregate} if plan.sorting is not None else set()
    found |= {plan.counted.aggregate} if plan.counted is not None else set()
    return {a for a in found if a is not None}


def terms(plan: Plan) -> list[Attribute | ClassTerm]:
    """Every term that *plan* uses, what is shown first."""
    found = [s.term for s in plan.shown]
    found += [plan.group] if plan.group is not None else []
    found += [plan.sorting.term] if plan.sorting is not None and plan.sorting.term is not None else []
    found += [plan.counted.term] if plan.counted is not None and plan.counted.term is not None else []
    found += [c.attribute for c in conditions(plan)]
    return list(dict.fromkeys(found))


def _edges(pattern: Pattern) -> set[str]:
    own = {t.property for t in pattern.triples if isinstance(t.object, str)}
    return own.union(*map(_edges, pattern.absent)) if pattern.absent else own


def _spoken(what: What) -> str:
    match what:
        case Attribute() | ClassTerm():
            return what.words[0]
        case Binding():
            return what.text if what.attribute is None else f"{what.attribute.words[0]} = {what.text}"
        case Edge():
            return what.property
        case _:
            return str(what)


def together(parts: Iterable[Requirement]) -> Requirements:
    """Requirements that hold all of *parts*, each once."""
    found = NONE
    for part in parts:
        found = found.and_(part)
    return found
