"""What a question asks for, with its words still in place of terms: slots, comparisons, an order, a group."""

from __future__ import annotations

from dataclasses import dataclass

from proxy.nl.ir import Aggregate, Operator

EVERYTHING = "everything"
"""Note of a sketch that shows all attributes of the one class in it."""


@dataclass(frozen=True, slots=True)
class Item:
    """A token, or several that make one value. *kind*: word, number, value or mark. *mention*: which value mention it is."""

    text: str
    kind: str
    start: int
    end: int
    mention: int = -1
    number: float | None = None
    is_date: bool = False

    @property
    def lower(self) -> str:
        return self.text.lower()


@dataclass(frozen=True, slots=True)
class Slot:
    """Words that stand for an attribute or a class. *context*: the words after "of". *at*, *to*: item positions, half open.

    operator, other: the words are combined with *other* words by +, -, * or /. nested: an aggregate of the numbers that
    *aggregate* gives. asks: the question word, "when" or "where", that says what kind of thing is asked for.
    """

    words: str
    context: str = ""
    at: int = 0
    to: int = 0
    aggregate: Aggregate | None = None
    is_distinct: bool = False
    operator: str = ""
    other: str = ""
    nested: Aggregate | None = None
    asks: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """*slot* compared with numbers, a value mention, a *text*, or (``against``) an aggregate of itself. at: item position.

    is_scoped: the aggregate runs over the instances that the rest of the question describes ("than all ferries of 1990").
    """

    operator: Operator
    slot: Slot | None
    numbers: tuple[float, ...] = ()
    mentions: tuple[int, ...] = ()
    against: Aggregate | None = None
    text: str = ""
    at: int = 0
    is_scoped: bool = False


@dataclass(frozen=True, slots=True)
class Ordering:
    """Sort by *slot*. limit: None sorts all. adjective: the word that said so, such as "oldest"."""

    slot: Slot | None
    is_descending: bool
    limit: int | None = None
    adjective: str = ""
    may_count: bool = True


@dataclass(frozen=True, slots=True)
class Sketch:
    """One reading of the question. *negated_from*: position of the item from which on things must be absent.

    is_last_optional: what is shown last is shown where there is one ("and their phone, if any").
    """

    select: tuple[Slot, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    order: Ordering | None = None
    group: Slot | None = None
    negated_from: int | None = None
    is_union: bool = False
    is_both: bool = False
    is_distinct: bool = False
    is_ask: bool = False
    is_last_optional: bool = False
    note: str = ""
