"""Synthetic pairs: sampled query graphs that the index supports, put into words in several ways.

They teach a ranking the vocabulary of one graph, not how people ask: their wording is ours. So they are marked as synthetic,
and belong into no test.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from proxy.nl.assemble import assemble
from proxy.nl.ir import Aggregate, Operator, Query
from proxy.nl.plan import Condition, CountCondition, Plan, Shown, Sorting, owner
from proxy.nl.schema import Attribute, Schema
from proxy.nl.tree import connect
from proxy.query.term import Literal

T = TypeVar("T")
_IDENTIFYING = ("id", "identifier", "code", "key", "number")
Literals = Mapping[Attribute, Sequence[Literal]]
"""Some of the values that an attribute has."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A query graph and questions that ask for it. template: its shape, by which training and test should be split."""

    template: str
    query: Query
    questions: tuple[str, ...]


def drafts(schema: Schema, literals: Literals, *, seed: int = 0) -> Iterator[Draft]:
    """Query graphs without end, of all shapes in turn; the same for the same seed. One that cannot be joined is left out.

    literals: of the attributes that may stand in conditions. An endless search where nothing can be asked is ended: it stops
    after a thousand draws in a row that brought nothing.
    """
    sampler = _Sampler(schema, literals, random.Random(seed))
    fruitless = 0
    while fruitless < 1000:
        for make in sampler.shapes:
            made = make()
            query = _query(made[0], schema) if made is not None else None
            if made is None or query is None:
                fruitless += 1
                continue
            fruitless = 0
            yield Draft(make.__name__, query, made[1])


def _query(plan: Plan, schema: Schema) -> Query | None:
    trees = connect(plan.classes(), schema, limit=1)
    if not trees:
        return None
    walk = None
    if plan.absent_class is not None:
        walks = connect([plan.classes()[0], plan.absent_class], schema, limit=1)
        if not walks or len(walks[0].nodes) < 2:
            return None
        walk = walks[0]
    return assemble(plan, trees[0], schema, absent_walk=walk)


Made = tuple[Plan, tuple[str, ...]] | None


class _Sampler:
    """One method for each shape: a plan with its wordings, or None where this draw makes none."""

    def __init__(self, schema: Schema, literals: Literals, chance: random.Random) -> None:
        self._schema = schema
        self._literals = literals
        self._chance = chance
        self._attributes = [a for of in schema.attributes_of.values() for a in of]
        self._neighbours = [
            (c, d) for c in schema.classes for d in schema.classes if c != d and schema.paths(c, d, limit=1, max_steps=1)
        ]
        self.shapes: Sequence[Callable[[], Made]] = (
            self.listing, self.count, self.lookup, self.joined, self.aggregate, self.extreme, self.bound, self.each,
            self.lacking, self.many,
        )  # fmt: skip

    def listing(self) -> Made:
        a = self._any(self._attributes)
        if a is None:
            return None
        w, c = a.words[0], self._class(a)
        return Plan((Shown(a),)), (
            f"What are the {plural(w)} of all {plural(c)}?",
            f"List the {w} of every {c}.",
            f"Show {c} {plural(w)}.",
        )

    def count(self) -> Made:
        c = self._any(list(self._schema.classes.values()))
        if c is None:
            return None
        w = plural(c.words[0])
        return Plan((Shown(c, Aggregate.COUNT),)), (
            f"How many {w} are there?",
            f"Count the {w}.",
            f"What is the number of {w}?",
        )

    def lookup(self) -> Made:
        b, value = self._valued()
        shown = self._any([a for a in self._attributes if b is not None and owner(a) == owner(b) and a != b])
        if b is None or value is None or shown is None:
            return None
        w, c, k, v = shown.words[0], self._class(shown), b.words[0], value.lexical
        return Plan((Shown(shown),), (Condition(b, Operator.EQUAL, (value,)),)), (
            f"What is the {w} of the {c} whose {k} is {v}?",
            f"Give the {w} of the {c} with {k} {v}.",
            f'{w} of {plural(c)} where the {k} is "{v}"',
        )

    def joined(self) -> Made:
        pair = self._any(self._neighbours)
        if pair is None:
            return None
        shown = self._named(pair[0])
        b, value = self._valued(pair[1])
        if shown is None or b is None or value is None:
            return None
        w, c, d, k, v = shown.words[0], self._class(shown), self._class(b), b.words[0], value.lexical
        return Plan((Shown(shown),), (Condition(b, Operator.EQUAL, (value,)),)), (
            f"What are the {plural(w)} of the {plural(c)} of the {d} whose {k} is {v}?",
            f"Show the {w} of each {c} that belongs to the {d} with {k} {v}.",
            f"Which {plural(c)} have a {d} with the {k} {v}? List their {w}.",
        )

    def aggregate(self) -> Made:
        n = self._number()
        if n is None:
            return None
        which, said = self._chance.choice(
            [(Aggregate.AVG, "average"), (Aggregate.SUM, "total"), (Aggregate.MIN, "minimum"), (Aggregate.MAX, "maximum")]
        )
        w, c = n.words[0], self._class(n)
        return Plan((Shown(n, which),)), (
            f"What is the {said} {w} of all {plural(c)}?",
            f"Give the {said} {w} of the {plural(c)}.",
            f"{said} {c} {w}",
        )

    def extreme(self) -> Made:
        n = self._number()
        shown = self._named(owner(n)) if n is not None else None
        if n is None or shown is None or shown == n:
            return None
        down = self._chance.random() < 0.5
        said, w, c = "highest" if down else "lowest", shown.words[0], self._class(n)
        return Plan((Shown(shown),), sorting=Sorting(n, down, 1)), (
            f"What is the {w} of the {c} with the {said} {n.words[0]}?",
            f"Which {c} has the {said} {n.words[0]}? Give its {w}.",
        )

    def bound(self) -> Made:
        n = self._number()
        shown = self._named(owner(n)) if n is not None else None
        number = _as_number(self._any(self._literals.get(n, ()))) if n is not None else None
        if n is None or shown is None or shown == n or number is None:
            return None
        above = self._chance.random() < 0.5
        operator, said = (Operator.GREATER, "greater") if above else (Operator.LESS, "less")
        w, c, k = shown.words[0], self._class(n), n.words[0]
        return Plan((Shown(shown),), (Condition(n, operator, numbers=(number,)),)), (
            f"What are the {plural(w)} of {plural(c)} whose {k} is {said} than {number:g}?",
            f"List the {w} of each {c} with a {k} {'above' if above else 'below'} {number:g}.",
        )

    def each(self) -> Made:
        b = self._any([a for a in self._attributes if not a.is_number and self._repeats(a)])
        if b is None:
            return None
        c = self._schema.classes[owner(b)]
        return Plan((Shown(c, Aggregate.COUNT),), group=b), (
            f"How many {plural(c.words[0])} are there for each {b.words[0]}?",
            f"Show each {b.words[0]} and the number of {plural(c.words[0])}.",
        )

    def lacking(self) -> Made:
        pair = self._any(self._neighbours)
        shown = self._named(pair[0]) if pair is not None else None
        if pair is None or shown is None:
            return None
        w, c, d = shown.words[0], self._class(shown), self._schema.classes[pair[1]].words[0]
        return Plan((Shown(shown),), absent_class=pair[1]), (
            f"What are the {plural(w)} of {plural(c)} that do not have any {d}?",
            f"List the {w} of {plural(c)} without a {d}.",
        )

    def many(self) -> Made:
        pair = self._any(self._neighbours)
        shown = self._named(pair[0]) if pair is not None else None
        if pair is None or shown is None:
            return None
        counted, n = self._schema.classes[pair[1]], self._chance.choice((1, 2, 3))
        w, c, d = shown.words[0], self._class(shown), plural(counted.words[0])
        return Plan((Shown(shown),), counted=CountCondition(counted, Operator.GREATER, float(n))), (
            f"What are the {plural(w)} of {plural(c)} with more than {n} {d}?",
            f"List the {w} of each {c} that has more than {n} {d}.",
        )

    def _any(self, among: Sequence[T]) -> T | None:
        return self._chance.choice(among) if among else None

    def _class(self, a: Attribute) -> str:
        return self._schema.classes[owner(a)].words[0]

    def _named(self, class_: str) -> Attribute | None:
        """What shows an instance of *class_*: its name, or any attribute."""
        return self._schema.name_of(class_) or self._any([a for a in self._attributes if owner(a) == class_])

    def _number(self) -> Attribute | None:
        """A measure: an attribute of numbers that does not only tell things apart."""
        return self._any([a for a in self._attributes if a.is_number and a.words[0].split()[-1] not in _IDENTIFYING])

    def _valued(self, class_: str | None = None) -> tuple[Attribute | None, Literal | None]:
        a = self._any([a for a, found in self._literals.items() if found and class_ in (None, owner(a))])
        return a, self._any(self._literals[a]) if a is not None else None

    def _repeats(self, a: Attribute) -> bool:
        different = self._schema.distinct(a)
        return different is not None and 2 <= different <= a.count / 2


def plural(words: str) -> str:
    """``home port`` → ``home ports``; English, and good enough to be understood."""
    if words.endswith("y") and words[-2:-1] not in ("a", "e", "i", "o", "u"):
        return f"{words[:-1]}ies"
    return f"{words}es" if words.endswith(("s", "x", "z", "ch", "sh")) else f"{words}s"


def _as_number(value: Literal | None) -> float | None:
    try:
        return float(value.lexical) if value is not None else None
    except ValueError:
        return None
