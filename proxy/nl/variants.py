"""Other plans from the same readings: conditions joined by "or", moved into what must be absent or into what a comparison
compares with, or shared by two things; one column for two classes. Each is made only where the question has the words for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from proxy.nl.conditions import TEXT_OPERATORS
from proxy.nl.ir import Aggregate, Operator
from proxy.nl.plan import Condition, Plan, owner
from proxy.nl.schema import Attribute, ClassTerm, Schema
from proxy.nl.sketch import Item, Sketch
from proxy.nl.words import stems

_LOW = (Operator.LESS, Operator.AT_MOST)
_HIGH = (Operator.GREATER, Operator.AT_LEAST)
Scored = tuple[Plan, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Places:
    """Where the words of conditions stand in the question, in characters. scopes: of comparisons with some instances."""

    of: Mapping[Condition, int]
    scopes: Mapping[Condition, int]
    negated: int | None
    alternatives: Sequence[int]
    conjunctions: Sequence[int]

    @classmethod
    def read(
        cls, of: Mapping[Condition, int], scopes: Mapping[Condition, int], sketch: Sketch, items: Sequence[Item]
    ) -> Places:
        negated = items[sketch.negated_from].start if sketch.negated_from is not None else None
        either = [i.start for i in items if i.kind == "word" and i.lower == "or"]
        both = [i.start for i in items if i.kind == "word" and i.lower in ("and", "but")]
        return cls(of, scopes, negated, either, both)


def variants(plan: Plan, scores: dict[str, float], sketch: Sketch, places: Places, schema: Schema) -> Iterator[Scored]:
    """*plan* itself, and what else its parts may say together."""
    yield plan, scores
    for make in (_either, _scoped, _absent, _shared):
        for other, more in make(plan, places, sketch, schema):
            yield other, scores | more
    yield from _nested(plan, scores, sketch, schema)
    if (both := _besides(plan, places, schema)) is not None:
        yield both, scores


def _either(plan: Plan, places: Places, sketch: Sketch, schema: Schema) -> Iterator[Scored]:
    """ "Named X or heavier than 3": the conditions next to each "or", where they are about different attributes."""
    for at in places.alternatives:
        before = [c for c in plan.conditions if places.of.get(c, at) < at]
        after = [c for c in plan.conditions if places.of.get(c, at) > at]
        if not before or not after:
            continue
        first, second = max(before, key=lambda c: places.of[c]), min(after, key=lambda c: places.of[c])
        if first.attribute != second.attribute:
            rest = tuple(c for c in plan.conditions if c not in (first, second))
            yield replace(plan, conditions=rest, either=(first, second)), {}


def _scoped(plan: Plan, places: Places, sketch: Sketch, schema: Schema) -> Iterator[Scored]:
    """ "Longer than all ferries of 1990": what stands behind the comparison describes those it compares with."""
    for c in plan.conditions:
        at = places.scopes.get(c)
        if at is None:
            continue
        inside = tuple(
            x for x in plan.conditions
            if x != c and places.of.get(x, -1) > at and x.attribute.subject_class == c.attribute.subject_class
        )  # fmt: skip
        if inside:
            rest = tuple(x for x in plan.conditions if x not in (*inside, c))
            yield replace(plan, conditions=(*rest, replace(c, within=inside))), {}


def _absent(plan: Plan, places: Places, sketch: Sketch, schema: Schema) -> Iterator[Scored]:
    """ "Not built before 1850": a bound behind the negation belongs to what must be absent, unless "and" stands between."""
    if places.negated is None:
        return
    bounds = [
        c for c in plan.conditions
        if places.of.get(c, -1) > places.negated and c.operator not in (Operator.EQUAL, *TEXT_OPERATORS)
    ]  # fmt: skip
    moved = replace(plan, conditions=tuple(c for c in plan.conditions if c not in bounds), absent=(*plan.absent, *bounds))
    crossed = any(places.negated < at < places.of[c] for c in bounds for at in places.conjunctions)
    more = {"absent_bound": float(bool(bounds)), "absent_across": float(crossed)}
    if bounds:
        yield moved, more
        yield replace(moved, absent_class=None), more | {"absent_guess": 0.0}
    shown = plan.shown[0].term if plan.shown else None
    if (
        isinstance(shown, Attribute)
        and moved.absent
        and not schema.tells_apart(shown)
        and all(c.attribute.subject_class == shown.subject_class for c in moved.absent)
    ):
        yield replace(moved, absent_class=None, absent_shares_value=True), more | {"absent_guess": 0.0}


def _shared(plan: Plan, places: Places, sketch: Sketch, schema: Schema) -> Iterator[Scored]:
    """ "Members younger than 30 and members older than 40": two bounds that nothing can meet are about two things that share
    what is shown."""
    if sketch.is_union or plan.also:
        return
    for a, b in combinations(plan.conditions, 2):
        if a.attribute == b.attribute and _exclude(a, b):
            rest = tuple(c for c in plan.conditions if c != b)
            yield replace(plan, conditions=rest, also=(b,), shares_value=True), {"shares_value": 1.0}


def _exclude(a: Condition, b: Condition) -> bool:
    for low, high in ((a, b), (b, a)):
        if low.operator in _LOW and high.operator in _HIGH and low.numbers and high.numbers:
            return low.numbers[0] <= high.numbers[0]
    return False


def _nested(plan: Plan, scores: dict[str, float], sketch: Sketch, schema: Schema) -> Iterator[Scored]:
    """ "The average number of calls per ship": an aggregate of counts, one for each of a group."""
    if len(plan.shown) != 1 or not sketch.select or plan.sorting is not None or plan.counted is not None:
        return
    slot, shown = sketch.select[0], plan.shown[0]
    outer = slot.nested
    if outer is None or shown.aggregate is not Aggregate.COUNT or not isinstance(shown.term, ClassTerm):
        return
    counted = shown.term.iri
    groups: list[Attribute | ClassTerm] = [plan.group] if plan.group is not None else []
    groups += [schema.classes[c] for c in plan.anchors if c != counted]
    for group in groups[:2]:
        if owner(group) != counted or isinstance(group, Attribute):
            yield replace(plan, group=group, nested=outer), scores


def _besides(plan: Plan, places: Places, schema: Schema) -> Plan | None:
    """ "The phones of all customers and suppliers": both have one, so both are in one column."""
    if len(plan.shown) != 2 or any(s.aggregate is not None for s in plan.shown):
        return None
    if not (places.conjunctions or places.alternatives) or plan.sorting or plan.group or plan.counted or plan.absent:
        return None
    first, second = (s.term for s in plan.shown)
    if not isinstance(first, Attribute) or owner(first) == owner(second):
        return None
    if isinstance(second, ClassTerm):
        wanted = set(stems(first.words[0])) - {s for w in schema.classes[first.subject_class].words for s in stems(w)}
        own = {s for w in second.words for s in stems(w)}
        found = [
            a for a in schema.attributes_of.get(second.iri, ())
            if (set(stems(a.words[0])) - own or set(stems(a.words[0]))) == (wanted or set(stems(first.words[0])))
        ]  # fmt: skip
        if not found and first == schema.name_of(first.subject_class):
            found = [a for a in (schema.name_of(second.iri),) if a is not None]
        if not found:
            return None
        second = found[0]
        if any(c.attribute.subject_class == second.subject_class for c in plan.conditions):
            return None
    elif set(stems(first.words[0])) & set(stems(second.words[0])) == set():
        return None
    return replace(plan, shown=plan.shown[:1], besides=second, anchors=())
