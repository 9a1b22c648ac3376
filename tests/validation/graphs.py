"""A small, independent builder: pyoxigraph store → SupportIndex, in both modes, straight from the definitions."""

from collections import Counter, defaultdict
from itertools import combinations

import numpy as np
import pyoxigraph as ox

from proxy.index.literals import describe
from proxy.index.nodes import Features, NodeTable
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


def index_of(store, *, exact=True, union=False, tables=True, **more):
    """The support index of the default graph of *store*.

    Args:
        exact: False: kinds are single classes, a node belongs to each of its own.
        union: of all graphs instead.
        tables: with the nodes, and what they have together.
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
        nodes=nodes_of(triples, kinds_of, number) if tables else None,
        features=features_of(triples, classes) if tables else None,
        multiplicity=multiplicity_of(triples) if tables else None,
        **more,
    )


def multiplicity_of(triples):
    """Property → (most objects of one subject, most subjects of one object)."""
    found = {}
    for p in {p for _, p, _ in triples}:
        ends = [Counter(t[at] for t in triples if t[1] == p) for at in (0, 2)]
        found[p.value] = tuple(max(counts.values()) for counts in ends)
    return found


def nodes_of(triples, kinds_of, number):
    """The IRIs at the ends of *triples* with their kinds, unknown where a node has several."""
    iris = {t for s, _, o in triples for t in (s, o) if isinstance(t, ox.NamedNode)}
    kinds = {t.value: kinds_of(t) for t in iris}
    return NodeTable.of_iris({iri: number[own[0]] if len(own) == 1 else -1 for iri, own in kinds.items()})


def features_of(triples, classes):
    """What nodes have together, node by node."""
    names = sorted({c for own in classes.values() for c in own}), sorted({p.value for _, p, _ in triples})
    table = Features(*names, np.empty(0, dtype=np.int64))
    own = defaultdict(set)
    for s, p, o in triples:
        own[s] |= {table.of_subject(p.value), *map(table.of_class, classes.get(s, ()))}
        if not isinstance(o, ox.Literal):
            own[o].add(table.of_object(p.value))
    pairs = sorted({a * table.size + b for found in own.values() for a, b in combinations(sorted(found), 2)})
    return Features(*names, np.array(pairs, dtype=np.int64))


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
