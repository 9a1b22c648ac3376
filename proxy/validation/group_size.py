"""How many solutions a group can have at most, by the counts of the index."""

from __future__ import annotations

from collections.abc import Iterable

from proxy.query.conditions import Edge, GroupSize, Place
from proxy.query.term import Iri, Variable
from proxy.validation.supports import Supports


def most_solutions(size: GroupSize, supports: Supports) -> int | None:
    """An upper bound of the solutions of one group of *size*; None: the index does not tell.

    From the keys on, each triple pattern multiplies by as many triples as its property has at most at one subject or one
    object, whichever end is bound already, or in all. Any order gives a bound; the one with the smallest next factor is taken.
    """
    if supports.index.covers_named_graphs:
        return None  # where graphs are merged, some backends give a triple once for each graph that has it
    every = [*size.edges, *(e for own in size.optional for e in own)]
    if not all(isinstance(e.predicate, Iri) and supports.is_complete((), e.predicate.value) for e in every):
        return None
    bound: set[Place] = set(size.keys)
    total = _multiplied(size.edges, bound, supports)
    for own in size.optional:
        # what it binds may be unbound in a solution, and is not known to any other
        total *= max(1, _multiplied(own, set(bound), supports))
    return total


def _multiplied(edges: Iterable[Edge], bound: set[Place], supports: Supports) -> int:
    """The product; *bound* takes in the variables of *edges*."""
    remaining, total = list(edges), 1
    while remaining:
        factors = [_factor(e, bound, supports) for e in remaining]
        at = factors.index(min(factors))
        total *= factors[at]
        edge = remaining.pop(at)
        bound.update(t for t in (edge.subject, edge.object) if isinstance(t, Variable))
    return total


def _factor(edge: Edge, bound: set[Place], supports: Supports) -> int:
    """How many triples *edge* may match for one value of what is bound."""
    index = supports.index
    assert isinstance(edge.predicate, Iri)
    p = edge.predicate.value
    triples = supports.triples(p)
    objects, subjects = index.multiplicity.get(p, (triples, triples))
    has_subject = edge.subject in bound or isinstance(edge.subject, Iri)
    has_object = edge.object in bound or isinstance(edge.object, Iri)  # a literal may equal several that are stored
    if has_subject and has_object:
        return 1
    if p == index.class_predicate and isinstance(edge.object, Iri) and not has_subject:
        return min(subjects, index.class_instances.get(edge.object.value, 0))
    if has_subject:
        return objects
    return subjects if has_object else triples
