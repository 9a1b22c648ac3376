"""Which properties an update can change, where its text tells."""

from __future__ import annotations

from proxy.query.model import DeleteData, DeleteWhere, InsertData, Modify, ParsedUpdate, QuadPattern
from proxy.query.term import Iri


def touched_properties(update: ParsedUpdate) -> frozenset[str] | None:
    """The properties of all triples that *update* may add or take away; None: any.

    The data, and the templates of DELETE and INSERT, name them unless a property is a variable. LOAD, CLEAR, DROP, ADD, MOVE
    and COPY may change anything.
    """
    touched: set[str] = set()
    for operation in update.operations:
        match operation:
            case InsertData(quads) | DeleteData(quads) | DeleteWhere(quads):
                found = _properties(quads)
            case Modify(delete=delete, insert=insert):
                found = _properties((*delete, *insert))
            case _:
                found = None
        if found is None:
            return None
        touched |= found
    return frozenset(touched)


def _properties(quads: tuple[QuadPattern, ...]) -> set[str] | None:
    found: set[str] = set()
    for quad in quads:
        for pattern in quad.patterns:
            if not isinstance(pattern.predicate, Iri):
                return None
            found.add(pattern.predicate.value)
    return found
