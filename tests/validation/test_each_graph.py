"""``graphs = "each"``: a pattern inside GRAPH <g> is held against that graph alone; never unsound, by fuzzing."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pyoxigraph as ox
import pytest

from proxy.backends.embedded import EmbeddedBackend
from proxy.config import IndexSettings
from proxy.index import archive
from proxy.pipeline import distil as distil_module
from proxy.pipeline.asking import Scope
from proxy.pipeline.distil import distil
from proxy.query.parse import parse
from proxy.query.term import RDF_TYPE
from proxy.validation.check import check, is_proved_empty
from tests.pipeline.test_distil import seen_cells, true_cells

E = "http://e/"
SCOPE = Scope((("union-default-graph", "true"),), covers_named_graphs=True, reads_each=True)
DATA = """
@prefix e: <http://e/> .
e:g1 { e:a a e:Person ; e:knows e:b . e:b a e:Person ; e:name "Bo" . }
e:g2 { e:a a e:City ; e:size 5 . e:c a e:City ; e:size 7 ; e:twin e:a . e:b e:twin e:c . }
e:b e:size 3 ; e:only "default" .
"""


def built(store: ox.Store, *, method="ask"):
    settings = IndexSettings(values_per_property=1000)
    return asyncio.run(distil(EmbeddedBackend(store), settings, method=method, scope=SCOPE))


def loaded(trig: str = DATA) -> ox.Store:
    store = ox.Store()
    store.load(trig.encode(), ox.RdfFormat.TRIG)
    return store


def of_graph(store: ox.Store, graph: str) -> ox.Store:
    alone = ox.Store()
    found = store.quads_for_pattern(None, None, None, ox.NamedNode(graph))
    alone.extend(ox.Quad(q.subject, q.predicate, q.object) for q in found)
    return alone


def flat(store: ox.Store) -> ox.Store:
    union = ox.Store()
    union.extend(ox.Quad(q.subject, q.predicate, q.object) for q in store)
    return union


@pytest.mark.parametrize("method", ["ask", "download"])
def test_every_graph_is_counted_alone(method, tmp_path):
    """The same cells as a store with nothing else, and the same again out of the file."""
    store = loaded()
    made = built(store, method=method)
    assert made.method == method and set(made.index.graphs) == {E + "g1", E + "g2"}
    archive.write(tmp_path / "x", made.index, made.values, fingerprint="f")
    for index in (made.index, archive.load(tmp_path / "x", fingerprint="f").index):
        for graph, own in index.graphs.items():
            assert seen_cells(replace(made, index=own)) == true_cells(of_graph(store, graph))[0]
            assert own.is_complete_for() and own.class_predicate == index.class_predicate
    assert seen_cells(made) == true_cells(flat(store))[0]


@pytest.mark.parametrize(
    ("pattern", "is_empty"),
    [
        ("GRAPH e:g1 { ?x e:size ?n }", True),
        ("GRAPH e:g2 { ?x e:size ?n }", False),
        ("GRAPH e:g1 { ?x a e:City }", True),
        ("GRAPH e:g1 { ?x a e:Person } GRAPH e:g2 { ?x a e:City }", False),
        ("GRAPH e:g1 { ?x a e:Person ; e:name ?n . ?y e:knows ?x }", False),
        ("GRAPH e:g2 { ?x a e:City ; e:twin ?y . ?y e:twin ?z }", True),
        ("GRAPH e:g2 { ?x e:twin ?y } GRAPH e:g1 { ?x a e:Person }", False),
        ("?x a e:City ; e:knows ?y", False),
        ("?x e:size ?n OPTIONAL { GRAPH e:g1 { ?x e:size ?n } }", False),
        ("{ GRAPH e:g1 { ?x e:size ?n } } UNION { GRAPH e:g1 { ?x e:twin ?n } }", True),
        ("{ GRAPH e:g1 { ?x e:size ?n } } UNION { GRAPH e:g2 { ?x e:size ?n } }", False),
        ("GRAPH ?g { ?x e:size ?n }", False),
        ("GRAPH e:g1 { ?x e:knows ?y } FILTER(?y = e:b)", False),
        ("GRAPH e:g1 { ?x e:knows ?y } ?z e:only ?t FILTER(isLiteral(?t))", False),
        ("GRAPH e:g1 { ?x e:name ?y FILTER(isIRI(?y)) }", True),
    ],
)
def test_what_a_graph_proves(pattern, is_empty):
    """Nothing that the graph holds is refused, what only others hold is; the confirmation asks the same graph."""
    store = loaded()
    made = built(store)
    query = f"PREFIX e: <{E}> SELECT * {{ {pattern} }}"
    findings = check(parse(query), made.index, values=made.values)
    assert is_proved_empty(findings) == is_empty, findings
    assert not list(store.query(query, use_default_graph_as_union=True)) or not is_empty
    if is_empty:
        said = next(f for f in findings if f.confirmation)
        assert "GRAPH <http://e/g" in said.confirmation and not bool(store.query(said.confirmation))


def test_a_dead_part_within_a_graph_is_said():
    """Vacuous, and which graph it is about."""
    made = built(loaded())
    query = f"PREFIX e: <{E}> SELECT * {{ ?x e:size ?n OPTIONAL {{ GRAPH e:g1 {{ ?x e:size ?m }} }} }}"
    [finding] = check(parse(query), made.index, values=made.values)
    assert "This OPTIONAL never adds anything. In the graph e:g1: " in finding.message


def test_graphs_past_the_bound_are_covered_by_the_union(monkeypatch):
    """The largest are read; of the others only what no graph has is proved."""
    monkeypatch.setattr(distil_module, "GRAPHS_MOST", 1)
    made = built(loaded())
    assert set(made.index.graphs) == {E + "g2"}
    for graph, is_empty in (("g1", False), ("g2", True)):
        query = f"PREFIX e: <{E}> SELECT * {{ GRAPH e:{graph} {{ ?x e:knows ?n ; e:size ?m }} }}"
        assert is_proved_empty(check(parse(query), made.index, values=made.values)) == is_empty


def random_pattern(rng: random.Random) -> str:
    """A few triple patterns over few variables, spread over graphs, with a filter at times."""
    terms = ["?a", "?b", "?c", "?d", "e:n0", "e:n1"]
    parts = []
    for _ in range(rng.randint(1, 4)):
        triples = []
        for _ in range(rng.randint(1, 2)):
            s, o = rng.choice(terms), rng.choice([*terms, "1", '"x"'])
            triples.append(f"{s} a e:C{rng.randrange(3)}" if rng.random() < 0.4 else f"{s} e:p{rng.randrange(4)} {o}")
        group = " . ".join(triples)
        graph = rng.choice(["e:g0", "e:g1", "?g", None])
        parts.append(group + " . " if graph is None else f"GRAPH {graph} {{ {group} }} ")
    filters = ["", "FILTER(isIRI(?a)) ", "FILTER(isLiteral(?b)) ", "FILTER(?a = e:n1) ", "FILTER(?a = ?b) ", "FILTER(?b > 0) "]
    return "".join(parts) + rng.choice(filters)


@pytest.mark.parametrize("seed", range(12))
def test_no_proof_is_wrong(seed):
    """Random graphs, 150 random queries each: whatever is proved empty is empty."""
    rng = random.Random(seed)
    store, e = ox.Store(), lambda name: ox.NamedNode(E + name)
    for _ in range(rng.randint(4, 24)):
        s, graph = e(f"n{rng.randrange(4)}"), rng.choice([e("g0"), e("g1"), e("g2"), ox.DefaultGraph()])
        if rng.random() < 0.4:
            store.add(ox.Quad(s, ox.NamedNode(RDF_TYPE), e(f"C{rng.randrange(3)}"), graph))
        else:
            o = rng.choice([e(f"n{rng.randrange(4)}"), ox.Literal(rng.randrange(2)), ox.Literal("x")])
            store.add(ox.Quad(s, e(f"p{rng.randrange(4)}"), o, graph))
    made = built(store)
    union_only = made.index.with_graphs({})
    proved = more = 0
    for _ in range(150):
        query = f"PREFIX e: <{E}> SELECT * {{ {random_pattern(rng)} }}"
        is_empty = is_proved_empty(check(parse(query), made.index, values=made.values))
        before = is_proved_empty(check(parse(query), union_only, values=made.values))
        assert is_empty or not before
        proved, more = proved + is_empty, more + (is_empty and not before)
        if is_empty:
            assert not list(store.query(query, use_default_graph_as_union=True)), query
    assert proved > more > 0
