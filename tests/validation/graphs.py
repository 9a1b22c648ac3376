"""A small, independent builder: pyoxigraph store → SupportIndex, in both modes, straight from the definitions."""

from collections import Counter, defaultdict

import numpy as np
import pyoxigraph as ox

from proxy.index.support import UNTYPED, Kind, SupportIndex
from proxy.query.term import RDF_TYPE


def index_of(store, *, exact=True, **more):
    """The support index of the default graph of *store*.

    Args:
        exact: False: kinds are single classes, a node belongs to each of its own.
    """
    classes = defaultdict(set)
    for q in store.quads_for_pattern(None, ox.NamedNode(RDF_TYPE), None, ox.DefaultGraph()):
        if isinstance(q.object, ox.NamedNode):
            classes[q.subject].add(q.object.value)

    def kinds_of(term):
        if isinstance(term, ox.Literal):
            return [Kind(datatype=term.datatype.value)]
        own = classes.get(term)
        if not own:
            return [UNTYPED]
        return [Kind(frozenset(own))] if exact else [Kind(frozenset((c,))) for c in sorted(own)]

    cells = Counter()
    members = defaultdict(set)
    for q in store.quads_for_pattern(None, None, None, ox.DefaultGraph()):
        for term in (q.subject, q.object):
            if not isinstance(term, ox.Literal):
                for k in kinds_of(term):
                    members[k].add(term)
        for s in kinds_of(q.subject):
            for o in kinds_of(q.object):
                cells[s, q.predicate.value, o] += 1
    kinds = list(dict.fromkeys(k for s, _, o in cells for k in (s, o)))
    properties = sorted({p for _, p, _ in cells})
    number = {k: i for i, k in enumerate(kinds)}
    property_number = {p: i for i, p in enumerate(properties)}
    rows = list(cells.items())
    return SupportIndex(
        kinds=kinds,
        instances=np.array([0 if k.is_literal else len(members[k]) for k in kinds], dtype=np.int64),
        properties=properties,
        subject=np.array([number[s] for (s, _, _), _ in rows], dtype=np.int32),
        property_=np.array([property_number[p] for (_, p, _), _ in rows], dtype=np.int32),
        object_=np.array([number[o] for (_, _, o), _ in rows], dtype=np.int32),
        count=np.array([n for _, n in rows], dtype=np.int64),
        are_kinds_exact=exact,
        **more,
    )


def store_of(turtle):
    """A store with *turtle* in its default graph."""
    store = ox.Store()
    store.load(turtle.encode(), format=ox.RdfFormat.TURTLE, base_iri="http://e/")
    return store
