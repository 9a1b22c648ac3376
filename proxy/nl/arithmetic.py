"""Attributes that are computed from others: "the difference between A and B", the volume of what has length, width and height.

A computed attribute is an attribute like any other: it can be shown, compared, aggregated and sorted by. Values that are
missing, and divisions by zero, leave it unbound, as SPARQL has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from proxy.nl.cursor import Cursor
from proxy.nl.sketch import Slot

if TYPE_CHECKING:
    from proxy.nl.schema import Attribute

OPERATIONS: Mapping[str, str] = {"difference": "-", "ratio": "/", "quotient": "/", "sum": "+", "product": "*", "total": "+"}
"""Nouns that stand before "between X and Y" or "of X and Y" → the operator between the two."""
INFIX: Mapping[tuple[str, ...], str] = {
    ("minus",): "-", ("plus",): "+", ("times",): "*", ("divided", "by"): "/", ("multiplied", "by"): "*",
}  # fmt: skip
MEASURES: Mapping[str, Sequence[tuple[str, tuple[str, ...]]]] = {
    "volume": [("*", ("length", "width", "height")), ("*", ("width", "height", "depth")), ("*", ("length", "width", "depth"))],
    "area": [("*", ("length", "width")), ("*", ("width", "height")), ("*", ("width", "depth"))],
    "density": [("/", ("weight", "volume")), ("/", ("mass", "volume")), ("/", ("population", "area"))],
}
"""What geometry and physics compute from other measures: name → (operator, the measures), the likeliest first."""
_SPOKEN = {"-": "minus", "+": "plus", "*": "times", "/": "divided by"}


def combined(operator: str, parts: Sequence[Attribute], words: Sequence[str] = ()) -> Attribute:
    """The attribute that is computed from *parts*, which are of one class, from left to right."""
    spoken = f" {_SPOKEN[operator]} ".join(p.words[0] for p in parts)
    first = parts[0]
    return replace(
        first, words=(*words, spoken), count=min(p.count for p in parts), operator=operator, parts=tuple(parts),
        is_text_number=False, path=tuple(x for p in parts for x in (operator, *p.path)),
    )  # fmt: skip


def measures(attributes: Sequence[Attribute]) -> Iterator[Attribute]:
    """What can be computed from the *attributes* of one class and is none of them."""
    named = {w: a for a in reversed(attributes) if a.is_number and not a.is_temporal for w in a.words}
    for name, ways in MEASURES.items():
        for operator, wanted in ways:
            if name not in named and all(w in named for w in wanted):
                named[name] = combined(operator, [named[w] for w in wanted], (name,))
                yield named[name]


def operation(cur: Cursor, i: int) -> tuple[Slot, int] | None:
    """ "Difference between X and Y" or "X divided by Y" at item *i*, and where it ends."""
    w = cur.w
    operator = OPERATIONS.get(w[i]) if cur.is_open(i) else None
    if operator is not None and w[i + 1 : i + 2] and w[i + 1] in ("between", "of", "in"):
        first, context, at = cur.phrase(i + 2)
        if at < len(w) and w[at] in ("and", "to", "over", "from"):
            second, of, end = cur.phrase(at + 1)
            if first and second and not any(x in OPERATIONS for x in second.split()):
                return Slot(first, of or context, i, end, operator=operator, other=second), end
        return None
    first, context, at = cur.phrase(i)
    found = next((k for k in INFIX if first and tuple(w[at : at + len(k)]) == k), None)
    for phrase in INFIX if found is None else ():
        spoken = " ".join(phrase)
        if f" {spoken} " in f" {first} ":
            left, _, right = f" {first} ".partition(f" {spoken} ")
            if left.strip() and right.strip():
                return Slot(left.strip(), context, i, at, operator=INFIX[phrase], other=right.strip()), at
    if found is not None:
        second, of, end = cur.phrase(at + len(found))
        if second:
            return Slot(first, of or context, i, end, operator=INFIX[found], other=second), end
    return None
