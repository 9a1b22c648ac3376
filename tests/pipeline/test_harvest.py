"""TTQL documents of real graphs out of a real store: every share against a count made here, triple by triple."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict

import pyoxigraph as ox
import pytest

from proxy.demo.coast import graph, ontology
from proxy.errors import BackendTimeout, BackendUnreachable
from proxy.index.ttql import UNKNOWN, Document, Edge, Frequency, Target, frequency
from proxy.index.ttql_parse import parse
from proxy.index.ttql_text import render
from proxy.pipeline.asking import Asker
from proxy.pipeline.distil import distil
from proxy.pipeline.harvest import Harvested, HarvestSettings, harvest
from proxy.query.term import RDF_TYPE
from tests.pipeline.test_distil import EX, Settings, Store, random_graph

TOWN = """
:a a :Person ; :name "Ada" ; :livesIn :h1 . :b a :Person ; :name "Bo"@en, "Bo"@DE ; :livesIn :h1, :h2 .
:c a :Person ; :knows :a, :b, :x . :d a :Person ; :livesIn [ a :House ; :built 1999 ] .
:h1 a :House ; :built 1900 ; :owner :a . :h2 a :House, :Listed ; :built "about 1850" . :x :note "nobody" .
"""


def read(store: Store, *, concurrency: int = 1, classes=None, **settings) -> Harvested:
    async def run() -> Harvested:
        fault, store.fault = store.fault, lambda query: None
        index = (await distil(store, Settings(values_per_property=0))).index
        store.fault = fault
        asker = Asker(store, timeout_s=5, concurrency=concurrency)
        return await harvest(asker, index, HarvestSettings(**{"floor": 0.0, **settings}), classes=classes)

    return asyncio.run(run())


def store_of(quads: ox.Store) -> Store:
    store = Store()
    store.store = quads
    return store


class Graph:
    """The triples of a store, for counting without SPARQL."""

    def __init__(self, store: ox.Store) -> None:
        self.subjects = {q.subject for q in store}
        self.classes = defaultdict(set)
        self.out = defaultdict(lambda: defaultdict(set))
        self.into = defaultdict(lambda: defaultdict(set))
        for q in store:
            if q.predicate.value == RDF_TYPE:
                if isinstance(q.object, ox.NamedNode):
                    self.classes[q.subject].add(q.object.value)
            else:
                self.out[q.subject][q.predicate.value].add(q.object)
                self.into[q.object][q.predicate.value].add(q.subject)

    def instances(self, class_):
        if class_ is None:
            return {s for s in self.subjects if not self.classes.get(s)}
        return {s for s, c in self.classes.items() if class_ in c}

    def kind_names(self):
        return {c for found in self.classes.values() for c in found}

    def ends(self, node, property_, is_inverse):
        return (self.into if is_inverse else self.out).get(node, {}).get(property_, set())

    def kind(self, term):
        """Class targets of a node, or the one group of a literal."""
        if isinstance(term, ox.Literal):
            return {(term.datatype.value, term.language and term.language.lower())}
        return self.classes.get(term) or {None}


def verify(document: Document, graph: Graph, *, depth: int, floor: float = 0.0) -> int:
    """Compare every line of *document* with *graph*; returns how many edges there were."""
    seen = 0

    def walk(nodes, edges: tuple[Edge, ...], class_, hop: int, used: frozenset) -> None:
        nonlocal seen
        for key, edge in {(e.property, e.is_inverse): e for e in edges}.items():
            seen += 1
            holders = {n for n in nodes if graph.ends(n, *key)}
            assert edge.frequency == frequency(len(holders), len(nodes))
            groups = defaultdict(set)
            for n in holders:
                for end in graph.ends(n, *key):
                    for group in graph.kind(end):
                        groups[group].add(n)
            kept = {
                g for g, members in groups.items() if isinstance(g, tuple) or hop == 1 or len(members) >= floor * len(nodes)
            }
            assert {t.class_ for t in edge.targets} | {(g.datatype, g.language) for g in edge.literals} == kept
            assert edge.is_cut == (kept != set(groups))
            for literal in edge.literals:
                group = literal.datatype, literal.language
                values = {end.value for n in holders for end in graph.ends(n, *key) if graph.kind(end) == {group}}
                assert literal.frequency == frequency(len(groups[group]), len(holders))
                assert set(literal.examples) <= values and len(literal.examples) >= min(len(values), 3)
                assert literal.is_whole == (len(literal.examples) == len(values))
            for target in edge.targets:
                assert target.frequency == frequency(len(groups[target.class_]), len(holders))
                ends = {e for n in holders for e in graph.ends(n, *key) if not isinstance(e, ox.Literal)}
                there = {e for e in ends if target.class_ in graph.kind(e)}
                below = used | {(target.class_ if key[1] else class_, key[0])}
                follow(target, there, hop, below, [ends & graph.instances(c) for c in graph.kind_names() if c != target.class_])

        present = {(p, False) for n in nodes for p in graph.out.get(n, {})}
        if hop == 1 and class_ is not None:
            present |= {(p, True) for n in nodes for p in graph.into.get(n, {})}
        wanted = {
            (p, inverse)
            for p, inverse in present
            if (inverse or (class_, p) not in used)
            and (hop == 1 or sum(bool(graph.ends(n, p, inverse)) for n in nodes) >= floor * len(nodes))
        }
        assert {(e.property, e.is_inverse) for e in edges} == wanted

    def follow(target: Target, nodes, hop: int, used, others) -> None:
        if hop == depth:
            assert not target.edges
        elif target.edges:
            walk(nodes, target.edges, target.class_, hop + 1, used)
        elif target.is_cut:
            # Left out because a narrower class has the same nodes here, or because it is rare.
            assert floor > 0 or any(nodes == other for other in others)
        else:
            properties = {p for n in nodes for p in graph.out.get(n, {})}
            assert {p for p in properties if (target.class_, p) not in used} == set()

    for pattern in document.patterns:
        nodes = graph.instances(pattern.class_)
        assert pattern.instances == len(nodes)
        walk(nodes, pattern.edges, pattern.class_, 1, frozenset())
    return seen


@pytest.mark.parametrize("seed", range(20))
def test_every_share_is_exact(seed):
    """Random graphs with all that is odd: three hops, both directions, every edge there is and no other."""
    quads = random_graph(seed)
    found = read(store_of(quads), depth=3)
    assert found.incomplete == []
    assert verify(found.document, Graph(quads), depth=3) > 0 or not found.document.patterns
    assert parse(render(found.document)) == found.document


@pytest.mark.parametrize("seed", range(30, 40))
def test_the_floor_leaves_out_exactly_what_is_rarer(seed):
    """Below the root, and only there: edges and targets that fewer than three in ten of the nodes before have."""
    quads = random_graph(seed)
    verify(read(store_of(quads), depth=3, floor=0.3).document, Graph(quads), depth=3, floor=0.3)


@pytest.mark.parametrize("seed", range(20, 30))
def test_every_edge_of_the_matrix_is_there(seed):
    """M, class by class and in both directions, is in the first hop of the document, before pruning."""
    quads = random_graph(seed)
    store = store_of(quads)
    matrix = asyncio.run(distil(store, Settings(values_per_property=0))).index.matrix
    shown = set()
    for pattern in read(store, depth=1).document.patterns:
        for edge in pattern.edges:
            for end in [t.class_ for t in edge.targets] + [g.datatype for g in edge.literals]:
                shown.add((end, edge.property, pattern.class_) if edge.is_inverse else (pattern.class_, edge.property, end))
    assert shown == {key for key in matrix if key[1] != RDF_TYPE}


@pytest.fixture(scope="module")
def demo() -> ox.Store:
    store = ox.Store()
    store.load(graph().encode(), format=ox.RdfFormat.N_TRIPLES)
    store.load(ontology().encode(), format=ox.RdfFormat.TURTLE)
    return store


def test_the_demo_graph(demo):
    """All of it, three hops deep, at the usual settings: every share as counted here."""
    found = read(store_of(demo), depth=3, floor=0.01)
    assert found.incomplete == [] and verify(found.document, Graph(demo), depth=3, floor=0.01) > 700
    assert [p.class_.rpartition("#")[2] for p in found.document.patterns][:2] == ["Place", "Vessel"]


def test_more_at_once_changes_nothing(demo):
    """The document depends on the data alone: not on how many queries run, nor on the run."""
    assert read(store_of(demo), depth=2, concurrency=8).document == read(store_of(demo), depth=2).document


def test_the_town():
    """A graph that can be checked by eye: shares, languages, blank nodes, nodes without a class, classes that coincide."""
    document = read(Store(TOWN), depth=2).document
    assert "  (0.75) example:livesIn {\n" in render(document)
    person = next(p for p in document.patterns if p.class_ == EX + "Person")
    lives = next(e for e in person.edges if e.property == EX + "livesIn")
    # Three of four live somewhere; all three in houses, one (also) in a listed one.
    assert [(t.class_, t.frequency.share) for t in lives.targets] == [(EX + "House", 1.0), (EX + "Listed", 0.33)]
    (built, owner) = lives.targets[0].edges
    # Three houses are reached, one of them a blank node; each has a year, one of the three as text.
    assert [(g.datatype.rpartition("#")[2], g.frequency.share) for g in built.literals] == [("integer", 0.67), ("string", 0.33)]
    assert owner.frequency.share == 0.33
    knows = next(e for e in person.edges if e.property == EX + "knows")
    assert [t.class_ for t in knows.targets] == [EX + "Person", None]
    assert [e.property for e in knows.targets[1].edges] == [EX + "note"]
    assert EX + "knows" not in [e.property for e in knows.targets[0].edges], "a cycle is not followed twice"
    name = next(e for e in person.edges if e.property == EX + "name")
    assert [(g.language, g.examples, g.frequency.share) for g in name.literals] == [
        ("de", ("Bo",), 0.5),
        ("en", ("Bo",), 0.5),
        (None, ("Ada",), 0.5),
    ]
    assert document.patterns[-1].class_ is None and document.patterns[-1].instances == 1


# -- the sample


def crowd(n: int, *, rare: str = "") -> str:
    return "\n".join(f":n{i} a :Thing ; :code 'c{i}' ." for i in range(n)) + rare


def test_a_sample_of_each_class_keeps_rare_properties():
    """Ten of a thousand are looked at, yet the one property that two of them have is there, with its value."""
    rare = ":n500 :scar 'left' . :n501 :scar 'right' ."
    found = read(Store(crowd(1000, rare=rare)), sample=10, rare=2)
    (pattern,) = found.document.patterns
    assert (pattern.instances, pattern.sample) == (1000, 10)
    code, scar = pattern.edges
    assert scar.frequency.share == 0.002 and set(scar.literals[0].examples) == {"left", "right"}
    assert len(code.literals[0].examples) == 3 and not code.literals[0].is_whole


def test_examples_come_from_the_sample():
    """Not whichever the store comes upon first, and the same ones again."""
    store = Store(crowd(1000))
    examples = read(store, sample=10).document.patterns[0].edges[0].literals[0].examples
    assert examples == read(store, sample=10).document.patterns[0].edges[0].literals[0].examples
    assert not set(examples) <= {f"c{i}" for i in range(10)}


def test_examples_belong_to_their_path():
    """One property, other values from each root."""
    found = read(
        Store(":a a :Book ; :at :s1 . :s1 a :Place ; :name 'Attic' . :b a :Ship ; :at :s2 . :s2 a :Place ; :name 'Bay' .")
    )
    examples = {}
    for pattern in found.document.patterns:
        for edge in pattern.edges:
            for target in edge.targets if not edge.is_inverse else ():
                examples[pattern.class_] = target.edges[0].literals[0].examples
    assert examples == {EX + "Book": ("Attic",), EX + "Ship": ("Bay",)}


def test_blank_nodes_are_sampled_too():
    """A class of blank nodes only, larger than the sample, has examples."""
    found = read(Store("\n".join(f"[] a :Thing ; :code 'c{i}' ." for i in range(50))), sample=5)
    (pattern,) = found.document.patterns
    assert (pattern.instances, pattern.sample) == (50, 5) and len(pattern.edges[0].literals[0].examples) == 3


def test_long_values_are_no_examples():
    """They are not cut short: what is shown can be asked for. That there are some is said."""
    found = read(Store(f":a a :Thing ; :text '{'x' * 500}' ."))
    (group,) = found.document.patterns[0].edges[0].literals
    assert group.examples == () and not group.is_whole and "[...]" in render(found.document)


# -- when something is missing


def failing(pattern: str):
    def fault(query: str) -> None:
        if re.search(pattern, query):
            raise BackendTimeout("too slow", backend="store in the test")

    return fault


def test_what_fails_whole_is_asked_edge_by_edge():
    """The grouped count of a class times out: the same shares come property by property, and nothing is incomplete."""
    whole = read(Store(TOWN), depth=2)
    store = Store(TOWN, fault=failing(r"SELECT \?p \?c .*\{ \?x <[^>]*> <http://example.org/Person> \. "))
    found = read(store, depth=2)
    assert [p for p in found.document.patterns if p.class_ == EX + "Person"] == [
        p for p in whole.document.patterns if p.class_ == EX + "Person"
    ]
    assert found.incomplete == []


def test_what_cannot_be_counted_is_estimated_and_says_so():
    """No count over all instances comes back: the sample is counted, each share marked, the reason in a note."""
    store = Store(crowd(100), fault=failing(r"COUNT\(DISTINCT \?x\).*\{ \?x <[^>]*> <http://example.org/Thing> \. "))
    found = read(store, sample=10)
    (code,) = found.document.patterns[0].edges
    assert code.frequency == Frequency(1.0, is_estimated=True) and len(code.literals[0].examples) == 3
    assert "(~1.00)" in render(found.document)
    assert len(found.incomplete) == 1 and "no answer within 5 s" in found.document.notes[-1]


def test_an_estimate_knows_rare_properties():
    """The sample holds two that have it, so that counting the sample finds it: far too often, which is why it is marked."""
    rare = ":n500 :scar 'left' . :n501 :scar 'right' ."
    store = Store(crowd(1000, rare=rare), fault=failing(r"AS \?m\).*\{ \?x <[^>]*> <http://example.org/Thing> \. "))
    edges = {e.property: e for e in read(store, sample=20, rare=2).document.patterns[0].edges}
    assert edges[EX + "scar"].frequency == Frequency(0.1, is_estimated=True)


def test_what_cannot_even_be_estimated_is_known_from_the_index():
    """Every counting query fails: the edges of M are there all the same, their frequencies unknown."""
    found = read(Store(TOWN, fault=failing(r"COUNT\(DISTINCT")))
    edges = {e.property: e for p in found.document.patterns if p.class_ == EX + "Person" for e in p.edges if not e.is_inverse}
    assert edges.keys() == {EX + n for n in ("name", "livesIn", "knows")}
    assert {t.class_ for t in edges[EX + "knows"].targets} == {EX + "Person", None}
    assert {e.frequency for e in edges.values()} == {UNKNOWN} and "(?)" in render(found.document)
    assert any("known from the index only" in note for note in found.document.notes)


def test_a_deep_path_that_fails_is_cut():
    """Depth is lost there, the first hop is not."""
    store = Store(TOWN, fault=failing(r"SELECT DISTINCT \?x \{.*knows"))
    found = read(store, depth=3)
    person = next(p for p in found.document.patterns if p.class_ == EX + "Person")
    knows = next(e for e in person.edges if e.property == EX + "knows")
    assert knows.frequency.share == 0.25 and [(t.is_cut, t.edges) for t in knows.targets] == [(True, ()), (True, ())]
    assert any("knows: no answer within" in note for note in found.document.notes)


def test_the_bound_on_queries_costs_depth_and_never_a_class(demo):
    """With few queries every class has its block and every edge of M; the note says that not all was followed."""
    full = read(store_of(demo), depth=3)
    bound = read(store_of(demo), depth=3, queries_most=60)
    assert bound.queries < 80 < full.queries
    assert [p.class_ for p in bound.document.patterns] == [p.class_ for p in full.document.patterns]
    assert any("bound of 60 queries" in note for note in bound.document.notes)

    def first_hop(document: Document):
        return {(p.class_, e.property, e.is_inverse) for p in document.patterns for e in p.edges}

    assert first_hop(bound.document) == first_hop(full.document)


def test_the_bound_on_lines_is_said(demo):
    """More lines than wanted end the growth, not the document."""
    found = read(store_of(demo), depth=3, lines_most=400)
    assert render(found.document).count("\n") < 1000 and any("bound of 400 lines" in note for note in found.document.notes)


def test_only_some_classes():
    """No block and no query for others, but for what lies on the paths."""
    found = read(Store(TOWN), depth=2, classes=[EX + "House"])
    assert [p.class_ for p in found.document.patterns] == [EX + "House"]


def test_an_iri_that_no_query_can_hold():
    """Nodes, classes and properties with such IRIs (loaded without checks) are not written into queries; the rest is there."""
    store = Store(":a a :Thing ; :code 'x' .")
    odd = f"""<http://e/a^b> <http://e/p|q> <http://e/c`d> .
<http://example.org/a> <http://e/p|q> <http://e/a^b> .
<http://e/a^b> <{RDF_TYPE}> <http://e/c`d> .
<http://e/a^b> <{RDF_TYPE}> <http://example.org/Thing> ."""
    store.store.load(odd.encode(), format=ox.RdfFormat.N_TRIPLES, lenient=True)
    found = read(store, depth=3, sample=1)
    thing = next(p for p in found.document.patterns if p.class_ == EX + "Thing")
    assert [(e.property, e.frequency.share) for e in thing.edges] == [(EX + "code", 0.5)]
    assert parse(render(found.document)) == found.document


def test_another_class_predicate():
    """Classes by what the index calls class; rdf:type is then a property like others."""
    store = Store(":a :is :Thing ; a :Old ; :at :b . :b :is :Place .")

    async def run():
        index = (await distil(store, Settings(class_predicate=EX + "is"))).index
        return (await harvest(Asker(store, timeout_s=5), index, HarvestSettings(depth=1))).document

    document = asyncio.run(run())
    assert {p.class_: [e.property for e in p.edges] for p in document.patterns} == {
        EX + "Thing": [EX + "at", RDF_TYPE],
        EX + "Place": [EX + "at"],
    }


def test_a_backend_that_is_gone_ends_the_harvest():
    """It is not a hundred incomplete paths."""

    def fault(query: str) -> None:
        raise BackendUnreachable("gone", backend="store in the test")

    with pytest.raises(BackendUnreachable):
        read(Store(TOWN, fault=fault))
