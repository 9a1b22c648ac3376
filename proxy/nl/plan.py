"""One reading of a whole question: which terms of the graph play which part, before the classes are joined."""

from __future__ import annotations

from dataclasses import dataclass

from proxy.nl.dates import Period
from proxy.nl.ir import Aggregate, Operator
from proxy.nl.schema import Attribute, ClassTerm
from proxy.query.term import Literal


@dataclass(frozen=True, slots=True)
class Shown:
    """One thing the answer shows: an attribute, or a class (its instances, or their number). is_optional: if there is one."""

    term: Attribute | ClassTerm
    aggregate: Aggregate | None = None
    is_distinct: bool = False
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """*attribute* compared with *literals* (or numbers), or with an aggregate of itself over all instances.

    otherwise: a comparison of the same attribute that may hold in its place ("over 8 or under 5"). within: which instances
    the aggregate runs over; empty: all. periods: of a time, in place of literals.
    """

    attribute: Attribute
    operator: Operator
    literals: tuple[Literal, ...] = ()
    numbers: tuple[float, ...] = ()
    against: Aggregate | None = None
    otherwise: Condition | None = None
    within: tuple[Condition, ...] = ()
    periods: tuple[Period, ...] = ()


@dataclass(frozen=True, slots=True)
class CountCondition:
    """The number of *term*'s instances (None: of solutions), or *aggregate* of an attribute, compared with *number*."""

    term: ClassTerm | Attribute | None
    operator: Operator
    number: float
    aggregate: Aggregate = Aggregate.COUNT


@dataclass(frozen=True, slots=True)
class Sorting:
    """By *term*: an attribute's value or *aggregate*; a class's number of instances; None: the number of solutions."""

    term: Attribute | ClassTerm | None
    is_descending: bool
    limit: int | None
    aggregate: Aggregate | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """One reading of the whole question, before the classes are joined.

    also: conditions of a second, parallel pattern. shares_value: the two patterns share what is shown, not the entity; so does
    what must be absent, with *absent_shares_value*. either: conditions of which one must hold. besides: an attribute of another
    class, shown in the same column as the first. nested: aggregate of the one number that is shown, over all groups.
    """

    shown: tuple[Shown, ...]
    conditions: tuple[Condition, ...] = ()
    also: tuple[Condition, ...] = ()
    counted: CountCondition | None = None
    sorting: Sorting | None = None
    group: Attribute | ClassTerm | None = None
    anchors: tuple[str, ...] = ()
    absent: tuple[Condition, ...] = ()
    absent_class: str | None = None
    is_distinct: bool = False
    is_ask: bool = False
    shares_value: bool = False
    either: tuple[Condition, ...] = ()
    absent_shares_value: bool = False
    besides: Attribute | None = None
    nested: Aggregate | None = None

    def classes(self) -> list[str]:
        """Classes that the main pattern must hold, the one that is asked about first."""
        terms = [s.term for s in self.shown if s.aggregate is None] + [s.term for s in self.shown]
        if self.group is not None:
            terms.append(self.group)
        terms += [c.attribute for c in (*self.conditions, *self.either)]
        if self.counted is not None and self.counted.term is not None:
            terms.append(self.counted.term)
        if self.sorting is not None and self.sorting.term is not None:
            terms.append(self.sorting.term)
        found = [owner(t) for t in terms] + list(self.anchors)
        return list(dict.fromkeys(found))


def owner(term: Attribute | ClassTerm) -> str:
    """The class of a class term or of an attribute's subject."""
    return term.iri if isinstance(term, ClassTerm) else term.subject_class
