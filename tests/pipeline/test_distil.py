"""Distilling real graphs out of a real store, against counts made independently here, and with a store that fails."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import pyoxigraph as ox
import pytest
import rdflib

from proxy.backends.base import Solutions
from proxy.backends.embedded import EmbeddedBackend
from proxy.config import IndexSettings
from proxy.errors import BackendBusy, BackendGarbled, BackendRefused, BackendTimeout, BackendUnreachable
from proxy.index import chunks
from proxy.index.support import Kind
from proxy.pipeline.distil import Distilled, distil
from proxy.query.term import OWL, RDF_LANG_STRING, RDF_TYPE, RDFS, XSD, XSD_STRING, BlankNode, Iri, Literal, TripleTerm

EX = "http://example.org/"


@dataclass
class Settings:
    class_predicate: str = RDF_TYPE
    excluded_namespaces: tuple[str, ...] = ()
    chunk_timeout_s: float = 10.0
    concurrency: int = 1
    values_per_property: int = 1000


class Store:
    """A store in this process, read the way a backend is. *fault* sees every query and may raise instead of it."""

    name = "store in the test"

    def __init__(self, graph: str = "", *, fault: Callable[[str], None] = lambda query: None) -> None:
        self.store = ox.Store()
        prefixes = f"@prefix : <{EX}> . @prefix rdfs: <{RDFS}> . @prefix owl: <{OWL}> . @prefix xsd: <{XSD}> .\n"
        self.store.load((prefixes + graph).encode(), format=ox.RdfFormat.TURTLE)
        self.fault = fault
        self.running = self.most_running = 0

    async def select(self, query: str, *, timeout_s: float, limit_rows: int | None = None) -> Solutions:
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        try:
            await asyncio.sleep(0)
            self.fault(query)
            found = self.store.query(query)
            rows = [tuple(None if t is None else term(t) for t in solution) for solution in found]
        finally:
            self.running -= 1
        if limit_rows is not None and len(rows) > limit_rows:
            raise BackendGarbled("too many solutions", backend=self.name)
        return Solutions(tuple(v.value for v in found.variables), rows)

    async def probe(self, *, timeout_s: float) -> None:
        self.fault("probe")


def term(t):
    match t:
        case ox.NamedNode():
            return Iri(t.value)
        case ox.BlankNode():
            return BlankNode(t.value)
        case ox.Literal():
            return Literal(t.value, t.datatype.value, t.language)
    return TripleTerm(term(t.subject), term(t.predicate), term(t.object))


def read(graph: str = "", **settings) -> Distilled:
    return asyncio.run(distil(Store(graph), Settings(**settings)))


def true_cells(store: ox.Store, class_predicate: str = RDF_TYPE):
    """Count S one triple at a time: ({classes} or datatype, property, {classes} or datatype) → triples."""
    classes = defaultdict(set)
    for q in store:
        if q.predicate.value == class_predicate and isinstance(q.object, ox.NamedNode):
            classes[q.subject].add(q.object.value)

    def kind(node):
        return node.datatype.value if isinstance(node, ox.Literal) else frozenset(classes[node])

    cells = Counter((kind(q.subject), q.predicate.value, kind(q.object)) for q in store)
    instances = Counter(frozenset(c) for c in classes.values() if c)
    return cells, instances


def plain(kind: Kind):
    return kind.datatype if kind.is_literal else kind.classes


def seen_cells(distilled: Distilled):
    cells = [distilled.index.cell(i) for i in range(len(distilled.index.count))]
    assert len({(c.subject, c.property, c.object) for c in cells}) == len(cells)
    return Counter({(plain(c.subject), c.property, plain(c.object)): c.count for c in cells})


def true_matrix(store: ox.Store):
    """Count M one triple at a time, from the triples alone."""
    classes = defaultdict(set)
    for q in store:
        if q.predicate.value == RDF_TYPE and isinstance(q.object, ox.NamedNode):
            classes[q.subject].add(q.object.value)
    matrix = Counter()
    for q in store:
        o = q.object
        for s_class in classes[q.subject] or {None}:
            for target in {o.datatype.value} if isinstance(o, ox.Literal) else classes[o] or {None}:
                matrix[s_class, q.predicate.value, target] += 1
    return matrix


def random_graph(seed: int, *, classes: int = 5) -> ox.Store:
    """Multi-typed and classless nodes, blank nodes and classes, lists, class nodes with a class, odd literals, cycles."""
    rng = random.Random(seed)
    store = ox.Store()
    types = [ox.NamedNode(EX + f"C{i}") for i in range(classes)]
    nodes = [ox.NamedNode(EX + f"n{i}") for i in range(12)] + [ox.BlankNode(f"b{i}") for i in range(5)]
    literals = [
        ox.Literal("a"),
        ox.Literal(""),
        ox.Literal("a", language="en"),
        ox.Literal("a", language="de-AT"),
        ox.Literal(1),
        ox.Literal(1.5),
        ox.Literal('x y\n"z"', datatype=ox.NamedNode(EX + "odd")),
        ox.Literal("no number", datatype=ox.NamedNode(XSD + "integer")),
        ox.Literal("2020-02-30"),
        ox.Literal(True),
    ]
    properties = [ox.NamedNode(EX + f"p{i}") for i in range(5)] + [ox.NamedNode(RDFS + "label")]
    a = ox.NamedNode(RDF_TYPE)
    for node in nodes:
        for c in rng.sample(types, rng.choice([0, 1, 1, 2, 3])):
            store.add(ox.Quad(node, a, c))
    if rng.random() < 0.5:
        store.add(ox.Quad(types[0], a, ox.NamedNode(OWL + "Class")))
        store.add(ox.Quad(ox.NamedNode(OWL + "Class"), a, ox.NamedNode(OWL + "Class")))
        store.add(ox.Quad(nodes[0], a, ox.BlankNode("restriction")))
        store.add(ox.Quad(nodes[1], a, ox.Literal("not a class")))
    for _ in range(rng.randrange(5, 60)):
        store.add(ox.Quad(rng.choice(nodes), rng.choice(properties), rng.choice(nodes + literals + types)))
    store.load(f"<{EX}n1> <{EX}list> (<{EX}n2> 1 _:c) .".encode(), format=ox.RdfFormat.TURTLE)
    return store


def over(store: ox.Store, **fault) -> Store:
    backend = Store(**fault)
    backend.store = store
    return backend


@pytest.mark.parametrize("seed", range(60))
def test_every_count_is_exact(seed):
    """On any graph S, M, the instances of each kind and the multiplicities are those of a count triple by triple."""
    store = random_graph(seed)
    distilled = asyncio.run(distil(over(store), Settings(concurrency=1 + seed % 3)))
    cells, instances = true_cells(store)
    index = distilled.index
    assert index.incomplete == ()
    assert index.are_kinds_exact
    assert seen_cells(distilled) == cells
    assert index.matrix == dict(true_matrix(store))
    assert {k.classes: n for k, n in zip(index.kinds, index.instances.tolist(), strict=True) if n} == instances
    for p in index.properties:
        edges = [q for q in store if q.predicate.value == p]
        most = max(Counter(q.subject for q in edges).values()), max(Counter(q.object for q in edges).values())
        assert index.multiplicity[p] == most
        tags = {q.object.language.lower() for q in edges if isinstance(q.object, ox.Literal) and q.object.language}
        assert index.languages.get(p, frozenset()) == tags


@pytest.mark.parametrize("seed", range(60, 90))
def test_class_atoms_cover_every_triple(seed):
    """With more kinds than the cap, the cells are those of single classes, and M is still exact but for nothing."""
    store = random_graph(seed)
    distilled = asyncio.run(distil(over(store), Settings(), kind_cap=2))
    index = distilled.index
    assert not index.are_kinds_exact
    assert index.incomplete == ()
    assert all(len(k.classes) <= 1 for k in index.kinds)
    assert index.matrix == dict(true_matrix(store))


@pytest.mark.parametrize("seed", range(90, 110))
def test_values_are_all_there(seed):
    """Every literal is found under its class and property, with its count, and the one node that has it."""
    store = random_graph(seed)
    distilled = asyncio.run(distil(over(store), Settings()))
    classes = defaultdict(set)
    for q in store:
        if q.predicate.value == RDF_TYPE and isinstance(q.object, ox.NamedNode):
            classes[q.subject].add(q.object.value)
    held = defaultdict(lambda: defaultdict(set))
    for q in store:
        if isinstance(q.object, ox.Literal):
            for c in classes[q.subject] or {None}:
                held[c, q.predicate.value][q.object].add(q.subject)
    for (c, p), literals in held.items():
        entries = distilled.values.examples(c, p, 1000)
        seen = {(e.text, e.datatype, e.language): (e.count, e.subject) for e in entries}
        assert seen == {
            (v.value, v.datatype.value, v.language and v.language.lower()): (
                len(nodes),
                next(iter(nodes)).value if len(nodes) == 1 and isinstance(next(iter(nodes)), ox.NamedNode) else None,
            )
            for v, nodes in literals.items()
        }
        assert distilled.values.is_complete(c, p)
        assert distilled.values.distinct(c, p) == len(literals)


def test_an_empty_graph_gives_an_empty_index():
    """Nothing is an answer too, and a complete one."""
    distilled = read("")
    assert distilled.index.triples == 0
    assert distilled.index.matrix == {}
    assert distilled.index.is_complete_for()
    assert distilled.values.lookup("x") == []
    assert distilled.values.search("anything") == []


def test_the_embedded_backend_is_read_like_any_other():
    """The store that `--load` serves from."""

    async def read_it():
        backend = EmbeddedBackend(random_graph(7))
        try:
            return await distil(backend, IndexSettings(concurrency=2))
        finally:
            await backend.aclose()

    assert seen_cells(asyncio.run(read_it())) == true_cells(random_graph(7))[0]


@pytest.mark.parametrize("seed", range(140, 142))
def test_another_engine_gives_the_same(seed):
    """The queries mean the same to rdflib, which shares no code with Oxigraph."""
    truth = ox.Store()
    # rdflib warns of literals that do not fit their datatype
    truth.extend(q for q in random_graph(seed) if getattr(q.object, "value", "") != "no number")
    graph = rdflib.Graph().parse(data=truth.dump(format=ox.RdfFormat.N_QUADS).decode(), format="nt")

    class Rdflib(Store):
        async def select(self, query, **limits):
            found = graph.query(query)
            return Solutions(
                tuple(map(str, found.vars)), [tuple(row[v] and from_rdflib(row[v]) for v in found.vars) for row in found]
            )

    def from_rdflib(t):
        match t:
            case rdflib.URIRef():
                return Iri(str(t))
            case rdflib.BNode():
                return BlankNode(str(t))
        return Literal(str(t), str(t.datatype or (RDF_LANG_STRING if t.language else XSD_STRING)), t.language)

    distilled = asyncio.run(distil(Rdflib(), Settings(values_per_property=5)))
    assert seen_cells(distilled) == true_cells(truth)[0]


def test_kinds_that_cannot_be_listed_become_classes():
    """A store that cannot answer for the kinds of one class still gives a complete index, of single classes."""
    graph = ":a a :A, :B ; :p :b . :b a :B ; :p 1 ."
    fault = failing(lambda q: "AS ?k)" in q, BackendTimeout("slow", backend="b"))
    index = asyncio.run(distil(Store(graph, fault=fault), Settings())).index
    assert not index.are_kinds_exact
    assert index.is_complete_for()
    assert index.matrix == dict(true_matrix(Store(graph).store))


def test_another_class_predicate_makes_the_kinds():
    """Classes are what the configured predicate leads to; rdf:type is then a property like others."""
    store = Store(":b :is :Book ; a :Ignored ; :by :w . :w :is :Writer, :Member .")
    distilled = asyncio.run(distil(store, Settings(class_predicate=EX + "is")))
    cells, _ = true_cells(store.store, EX + "is")
    assert seen_cells(distilled) == cells


def test_excluded_properties_prove_nothing():
    """What the configuration leaves out is written down as incomplete, and has no cells."""
    distilled = read(":b a :Book ; :title 'x' ; rdfs:seeAlso :c .", excluded_namespaces=(RDFS,))
    assert RDFS + "seeAlso" not in distilled.index.properties
    assert not distilled.index.is_complete_for(properties=[RDFS + "seeAlso"])
    assert distilled.index.is_complete_for(properties=[EX + "title"])


def test_vocabulary_is_read():
    """Names, descriptions and hierarchy of populated and of merely declared terms."""
    graph = """
        :Book a owl:Class ; rdfs:label "book"@EN, "Buch"@de ; rdfs:comment "what one reads" ; rdfs:subClassOf :Work .
        :Map a owl:Class ; <http://www.w3.org/2004/02/skos/core#altLabel> "chart" .
        :title a owl:DatatypeProperty ; rdfs:label "title" ; rdfs:domain :Book ; rdfs:subPropertyOf :name .
        :pages rdfs:range xsd:integer .  :b a :Book ; :title "x" ."""
    v = read(graph).index.vocabulary
    assert set(v.labels[EX + "Book"]) == {("book", "en"), ("Buch", "de")}
    assert v.labels[EX + "Map"] == (("chart", None),)
    assert v.comments == {EX + "Book": (("what one reads", None),)}
    assert v.superclasses == {EX + "Book": (EX + "Work",)}
    assert v.superproperties == {EX + "title": (EX + "name",)}
    assert {EX + "Book", EX + "Map", EX + "Work"} <= v.declared_classes
    assert {EX + "title", EX + "name", EX + "pages"} <= v.declared_properties


# -- values


def test_more_values_than_the_cap_are_marked():
    """Past the cap a pair is incomplete, yet its range and the number of its distinct values are exact."""
    node = ":n{} a :N ; :size {} ; :on '2020-01-{:02}'^^xsd:date ; :name 'x{}' ."
    graph = "\n".join(node.format(i, i, i % 28 + 1, i % 3) for i in range(50))
    values = read(graph, values_per_property=10).values
    assert not values.is_complete(EX + "N", EX + "size")
    assert values.number_range(EX + "N", EX + "size") == (0, 49)
    assert values.date_range(EX + "N", EX + "on") == ("2020-01-01", "2020-01-28")
    assert values.distinct(EX + "N", EX + "size") == 50
    assert len(values.examples(EX + "N", EX + "size", 100)) == 10
    assert values.is_complete(EX + "N", EX + "name")
    assert values.examples(EX + "N", EX + "name", 1)[0].count == 17


def test_a_long_value_is_counted_not_kept():
    """A literal over 200 characters makes its pair incomplete, so that its absence is never concluded."""
    values = read(f":b a :Book ; :text '{'x' * 201}', 'short' .").values
    assert not values.is_complete(EX + "Book", EX + "text")
    assert values.distinct(EX + "Book", EX + "text") == 2
    assert [e.text for e in values.examples(EX + "Book", EX + "text")] == ["short"]


def test_nameless_nodes_are_found_by_their_iri():
    """Where no literal tells the instances of a class apart, the words in their IRIs do."""
    values = read(":Blue_Whale a :Animal . :redFox a :Animal . :x a :Plant ; rdfs:label 'Oak' .").values
    [entry] = values.lookup("blue whale")
    assert (entry.subject, entry.property, entry.subject_class) == (EX + "Blue_Whale", None, EX + "Animal")
    assert [e.subject for e in values.lookup("oak")] == [EX + "x"]
    assert values.lookup("x") == []


def test_a_class_named_past_the_cap_is_not_named_again():
    """More labels than are kept still name their nodes; nobody asks for the words in their IRIs."""
    values = read("\n".join(f":n{i} a :N ; :title 'title {i}' ." for i in range(30)), values_per_property=10).values
    assert len(values) == 10
    assert values.lookup("n5") == []


def test_no_values_when_none_are_wanted():
    """values_per_property = 0 turns the value index off, not the rest."""
    distilled = read(":b a :Book ; :title 'x' .", values_per_property=0)
    assert len(distilled.values) == 0
    assert distilled.index.triples == 2


# -- a backend that fails

LIBRARY = ":b a :Book ; :by :w ; :title 't' . :w a :Writer ; :name 'n' . :c a :Book ; :by :u ."


def failing(condition: Callable[[str], bool], error: Exception) -> Callable[[str], None]:
    def fault(query: str) -> None:
        if condition(query):
            raise error

    return fault


FAILURES = [
    (BackendTimeout("slow", backend="b"), "no answer within 10 s"),
    (BackendGarbled("it does not close", backend="b"), "it does not close"),
    (BackendRefused("no", backend="b", status=500, body="out of\n memory"), "status 500: out of memory"),
]


@pytest.mark.parametrize(("error", "reason"), FAILURES, ids=["timeout", "garbled", "refused"])
def test_a_heavy_class_is_split_by_property(error, reason):
    """A class that cannot be read in one piece is read property by property, and nothing is lost."""
    whole = failing(lambda q: f"<{EX}Book>" in q and "GROUP BY ?p" in q, error)
    store = Store(LIBRARY, fault=whole)
    distilled = asyncio.run(distil(store, Settings()))
    assert seen_cells(distilled) == true_cells(store.store)[0]
    assert distilled.index.incomplete == ()


@pytest.mark.parametrize(("error", "reason"), FAILURES, ids=["timeout", "garbled", "refused"])
def test_what_cannot_be_read_is_named(error, reason):
    """A (class, property) that fails alone too is incomplete with its reason; the rest stays complete."""
    both = failing(lambda q: f"<{EX}Book>" in q and "?t" in q and ("GROUP BY ?p" in q or f"<{EX}by>" in q), error)
    distilled = asyncio.run(distil(Store(LIBRARY, fault=both), Settings()))
    mine = [c for c in distilled.index.incomplete if c.subject_class == EX + "Book"]
    assert [c.property for c in mine] == [EX + "by"]
    assert reason in mine[0].reason
    assert not distilled.index.is_complete_for([EX + "Book"], [EX + "by"])
    assert distilled.index.is_complete_for([EX + "Book"], [EX + "title"])
    assert distilled.index.is_complete_for([EX + "Writer"], [EX + "name"])
    assert distilled.index.is_complete_for([EX + "Writer"], [EX + "by"])


@pytest.mark.parametrize(("error", "reason"), FAILURES, ids=["timeout", "garbled", "refused"])
def test_nothing_is_built_from_what_is_no_answer(error, reason):
    """A backend that answers none of the queries gives no index, wherever in the build it begins to."""
    for good in (0, 1, 2, 5, 9):
        answered = iter(range(good))
        silent = failing(lambda q, left=answered: next(left, None) is None, error)
        with pytest.raises(type(error)):
            asyncio.run(distil(Store(LIBRARY, fault=silent), Settings()))


def test_no_index_where_only_the_probe_is_answered():
    """Where neither properties nor classes can be listed, there is nothing that an index could be about."""
    with pytest.raises(BackendGarbled, match=r"nothing to build .* of: the properties could not be listed: .* status 500"):
        asyncio.run(distil(Store(LIBRARY, fault=failing(lambda q: q != "probe", FAILURES[2][0])), Settings()))


@pytest.mark.parametrize("seed", range(110, 140))
def test_whatever_fails_is_covered(seed):
    """With queries failing at random, every triple is in a cell or in a chunk that is written down as incomplete."""
    rng = random.Random(seed)
    store = random_graph(seed)
    errors = [e for e, _ in FAILURES]

    def fault(query: str) -> None:
        if query != "probe" and rng.random() < 0.3:
            raise rng.choice(errors)

    index = asyncio.run(distil(over(store, fault=fault), Settings())).index
    seen = {(plain(c.subject), c.property, plain(c.object)) for c in map(index.cell, range(len(index.count)))}
    for s, p, o in true_cells(store)[0]:
        assert (s, p, o) in seen or not index.are_kinds_exact or not index.is_complete_for(s, [p])
    for s, p, o in true_matrix(store):
        assert (s, p, o) in index.matrix or not index.is_complete_for([] if s is None else [s], [p])


def test_an_answer_that_lost_rows_is_noticed():
    """A backend that quietly leaves out solutions (200, complete document) is caught by the totals."""

    class Lossy(Store):
        async def select(self, query, **limits):
            solutions = await super().select(query, **limits)
            if f"<{EX}Book>" in query and "?t" in query:
                return Solutions(solutions.variables, solutions.rows[:-1])
            return solutions

    index = asyncio.run(distil(Lossy(LIBRARY), Settings())).index
    assert not index.is_complete_for([EX + "Book"])


def test_a_property_that_was_not_listed_is_read():
    """A list of properties that comes short costs nothing where the chunk of a class shows the property."""

    class Short(Store):
        async def select(self, query, **limits):
            solutions = await super().select(query, **limits)
            is_list = query == chunks.properties()
            rows = [row for row in solutions.rows if not is_list or row[0] != Iri(EX + "by")]
            return Solutions(solutions.variables, rows)

    store = Short(LIBRARY + " :nobody :by :w .")
    distilled = asyncio.run(distil(store, Settings()))
    assert seen_cells(distilled) == true_cells(store.store)[0]


def test_a_write_in_between_is_noticed():
    """Counts that contradict each other make the property incomplete instead of wrong."""
    store = Store(LIBRARY)

    def write(query: str) -> None:
        if f"<{EX}Book>" in query and "?j" in query:
            store.store.update(f"INSERT DATA {{ <{EX}u> a <{EX}Writer> ; <{EX}by> <{EX}b> }}")

    store.fault = write
    index = asyncio.run(distil(store, Settings())).index
    assert not index.is_complete_for(properties=[EX + "by"])


def test_a_busy_backend_is_asked_again():
    """Busy twice, then served: nothing is lost."""
    busy = iter([BackendBusy("full", backend="b", retry_after_s=0.01)] * 2)

    def fault(query: str) -> None:
        if error := next(busy, None):
            raise error

    assert asyncio.run(distil(Store(LIBRARY, fault=fault), Settings())).index.is_complete_for()


def test_a_backend_that_is_gone_ends_the_build():
    """No index is better than one that calls everything incomplete because the server is down."""
    gone = failing(lambda q: True, BackendUnreachable("refused", backend="b"))
    with pytest.raises(BackendUnreachable):
        asyncio.run(distil(Store(LIBRARY, fault=gone), Settings()))


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_at_once_than_configured(concurrency):
    """The distiller keeps to its share of the backend."""
    store = Store("\n".join(f":n{i} a :C{i} ; :p{i} {i} ." for i in range(8)))
    asyncio.run(distil(store, Settings(concurrency=concurrency)))
    assert store.most_running == concurrency


def test_progress_counts_to_the_end():
    """Every phase reports its last part."""
    calls = []
    asyncio.run(distil(Store(LIBRARY), Settings(), progress=lambda *call: calls.append(call)))
    last = {phase: (done, total) for phase, done, total in calls}
    assert {"kinds", "classes", "values"} <= last.keys()
    assert all(done == total for done, total in last.values())


def test_values_can_live_in_a_file(tmp_path):
    """The value index takes the place that the caller names."""
    path = tmp_path / "values.sqlite"
    distilled = asyncio.run(distil(Store(LIBRARY), Settings(), values_path=path))
    assert path.stat().st_size > 0
    assert distilled.values.lookup("t")[0].subject == EX + "b"
    distilled.values.close()


def test_summary_is_json_ready():
    """What /-/index shows."""
    import json

    shown = json.loads(json.dumps(read(LIBRARY).summary()))
    assert shown["triples"] == 7
    assert shown["classes"] == {EX + "Book": 2, EX + "Writer": 1}
    assert shown["is_complete"] is True
    assert shown["queries"] > 0
