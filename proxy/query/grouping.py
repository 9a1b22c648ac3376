"""What HAVING requires of a group: that it is large enough, or that an aggregate of it lies on one side of a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from proxy.query.conditions import Bound, Edge, GroupSize, Place
from proxy.query.filters import FLIPPED
from proxy.query.literals import ORDERED
from proxy.query.magic import is_magic
from proxy.query.model import (
    NOWHERE,
    Aggregate,
    And,
    BasicGraphPattern,
    Bind,
    Comparison,
    Expression,
    Filter,
    Group,
    InversePath,
    Minus,
    Optional,
    ParsedQuery,
    QueryForm,
    SequencePath,
    TriplePattern,
    TripleTerm,
    is_relative,
)
from proxy.query.term import XSD, Iri, Literal, Variable

MAX_EDGES = 40
"""Of a pattern whose solutions are counted."""


def _limits(query: ParsedQuery) -> Iterator[tuple[Aggregate, str, Literal]]:
    """The comparisons of an aggregate with a constant that HAVING makes, all of which must hold."""
    computed: Mapping[Variable, Expression] = {p.variable: p.expression for p in query.projection if p.expression is not None}
    waiting = list(query.having)
    while waiting:
        match waiting.pop(0):
            case And(operands):
                waiting[:0] = operands
            case Comparison(operator, left, Literal() as limit):
                left = computed.get(left, left) if isinstance(left, Variable) else left
                if isinstance(left, Aggregate):
                    yield left, operator, limit
            case Comparison(operator, Literal() as limit, right):
                right = computed.get(right, right) if isinstance(right, Variable) else right
                if isinstance(right, Aggregate):
                    yield right, FLIPPED.get(operator, operator), limit


def bound_of_some(query: ParsedQuery, is_certain: Callable[[Variable], bool]) -> Bound | None:
    """What some solution of each group must meet: where MIN, MAX or AVG of a variable is beyond a limit, one value is.

    Args:
        is_certain: whether every solution binds a variable; the average of nothing is 0.
    """
    for aggregate, operator, limit in _limits(query):
        if aggregate.name in ("MIN", "MAX", "AVG") and operator in FLIPPED and limit.datatype in ORDERED:
            if isinstance(v := aggregate.argument, Variable) and is_certain(v):
                return Bound(v, operator, limit, NOWHERE)
    return None


def group_size(query: ParsedQuery) -> GroupSize | None:
    """How large a group must be for HAVING, where its solutions can be counted by their triples."""
    if query.form is not QueryForm.SELECT or query.where is None or not query.group_by:
        return None
    at_least = 0
    for aggregate, operator, limit in _limits(query):
        if aggregate.name == "COUNT" and limit.datatype == XSD + "integer":
            text = limit.lexical.strip()
            if text.isascii() and text.lstrip("+-").isdigit() and len(text) < 19 and operator in (">", ">=", "="):
                at_least = max(at_least, int(text) + (operator == ">"))
    if at_least < 2:
        return None
    edges: list[Edge] = []
    optional: list[tuple[Edge, ...]] = []
    if not _read(query.where, edges, optional) or not edges or len(edges) + sum(map(len, optional)) > MAX_EDGES:
        return None
    bound = {t for e in edges for t in (e.subject, e.object) if isinstance(t, Variable)}
    keys = {c.expression for c in query.group_by if isinstance(c.expression, Variable)}
    return GroupSize(at_least, tuple(v for v in bound if v in keys), tuple(edges), tuple(optional), query, edges[0].origin.span)


def _read(group: Group, edges: list[Edge], optional: list[tuple[Edge, ...]] | None) -> bool:
    """Add the triples of *group*; False: something else may multiply its solutions. *optional* None: none may nest here."""
    for element in group.elements:
        match element:
            case BasicGraphPattern(patterns):
                if not all(_add(t.subject, t.predicate, t.object, t, edges) for t in patterns):
                    return False
            case Group():
                if not _read(element, edges, optional):
                    return False
            case Optional(inner) if optional is not None:
                own: list[Edge] = []
                if not _read(inner, own, None):
                    return False
                optional.append(tuple(own))
            case Filter() | Minus() | Bind():
                pass
            case _:
                return False
    return True


def _add(subject: object, predicate: object, object_: object, origin: TriplePattern, edges: list[Edge]) -> bool:
    if isinstance(subject, TripleTerm) or isinstance(object_, TripleTerm) or len(edges) > MAX_EDGES:
        return False
    match predicate:
        case InversePath(inner):
            return _add(object_, inner, subject, origin, edges)
        case SequencePath(steps):
            places = [subject, *(Variable(f"via#{len(edges)}.{i}") for i in range(len(steps) - 1)), object_]
            return all(_add(a, p, b, origin, edges) for a, p, b in zip(places, steps, places[1:], strict=False))
        case Iri():
            for term in (subject, predicate, object_):
                if isinstance(term, Iri) and (is_magic(term) or is_relative(term)):
                    return False
            assert isinstance(subject, Place) and isinstance(object_, Place)
            edges.append(Edge(subject, predicate, object_, origin))
            return True
    return False
