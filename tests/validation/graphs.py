"""A small, independent builder: pyoxigraph store → SupportIndex, in both modes, straight from the definitions."""

from collections import Counter, defaultdict

import numpy as np
import pyoxigraph as ox

from proxy.index.literals import describe
from proxy.index.support import UNTYPED, Kind, SupportIndex
from proxy.index.values import ValueEntry, ValueIndexBuilder
from proxy.query.term import RDF_TYPE


def triples_of(store, *, union=False):
    """Distinct (subject, predicate, object) of the default graph, or of all graphs."""
    quads = store.quads_for_pattern(None, None, None, None if union else ox.DefaultGraph())
    return list(dict.fromkeys((q.subject, q.predicate, q.object) for q in quads))


def classes_of(triples):
    """Node → IRIs of its classes."""
    classes = defaultdict(set)
    for s, p, o in triples:
        if p.value == RDF_TYPE and isinstance(o, ox.NamedNode):
            classes[s].add(o.value)
    return classes


def index_of(store, *, exact=True, union=False, **more):
    """The support index of the default graph of *store*.

    Args:
        exact: False: kinds are single classes, a node belongs to each of its own.
        union: of all graphs instead.
    """
    triples = triples_of(store, union=union)
    classes = classes_of(triples)

    def kinds_of(term):
        if isinstance(term, ox.Literal):
            return [Kind(datatype=term.datatype.value)]
        own = classes.get(term)
        if not own:
            return [UNTYPED]
        return [Kind(frozenset(own))] if exact else [Kind(frozenset((c,))) for c in sorted(own)]

    cells = Counter()
    members = defaultdict(set)
    for subject, predicate, object_ in triples:
        for term in (subject, object_):
            if not isinstance(term, ox.Literal):
                for k in kinds_of(term):
                    members[k].add(term)
        for s in kinds_of(subject):
            for o in kinds_of(object_):
                cells[s, predicate.value, o] += 1
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
        covers_named_graphs=union,
        **more,
    )


def values_of(store, *, union=False, cap=1000):
    """The value index of the same graphs; a pair with more than *cap* distinct literals is not complete."""
    triples = triples_of(store, union=union)
    classes = classes_of(triples)
    subjects = defaultdict(lambda: defaultdict(list))
    for s, p, o in triples:
        if isinstance(o, ox.Literal):
            for c in classes.get(s) or (None,):
                subjects[c, p.value][o].append(s)
    builder = ValueIndexBuilder()
    for (c, p), literals in subjects.items():
        entries = [
            ValueEntry(o.value, o.language and o.language.lower(), o.datatype.value, p, c, len(found), None)
            for o, found in literals.items()
        ]
        builder.add(entries[:cap])
        builder.describe(c, p, describe(entries, is_complete=len(entries) <= cap, distinct=len(entries)))
    return builder.finish()


def store_of(turtle):
    """A store with *turtle* in its default graph."""
    store = ox.Store()
    store.load(turtle.encode(), format=ox.RdfFormat.TURTLE, base_iri="http://e/")
    return store
