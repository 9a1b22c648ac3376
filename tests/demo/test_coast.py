"""The demo graph keeps to its own vocabulary, and is the same everywhere."""

import hashlib
import shlex

import pyoxigraph
import pytest
import rdflib

from proxy.demo.coast import LANGUAGES, NAMESPACE, graph, ontology
from proxy.demo.tour import BERTHS_OF_LIGHTHOUSES, DEEPEST_HARBOURS, PREFIXES, stops

OWL = "PREFIX owl: <http://www.w3.org/2002/07/owl#> "


@pytest.fixture(scope="module")
def store():
    """Graph and vocabulary, loaded."""
    loaded = pyoxigraph.Store()
    loaded.load(graph().encode(), format=pyoxigraph.RdfFormat.N_TRIPLES)
    loaded.load(ontology().encode(), format=pyoxigraph.RdfFormat.TURTLE)
    return loaded


def column(store: pyoxigraph.Store, query: str) -> list[str]:
    return [row[0].value for row in store.query(PREFIXES + OWL + query)]


def holds(store: pyoxigraph.Store, pattern: str) -> bool:
    return bool(store.query(f"{PREFIXES}{OWL}ASK {{ {pattern} }}"))


def test_it_is_the_same_on_every_machine():
    """Outputs in the README and promises of the tour rest on it; change this line together with them."""
    digest = hashlib.sha256(graph().encode()).hexdigest()
    assert digest.startswith("754890abd5a17a3b")


def test_two_parsers_read_the_same_triples(store):
    """What is written is RDF, by a second opinion."""
    second = rdflib.Graph()
    second.parse(data=graph(), format="nt")
    second.parse(data=ontology(), format="turtle")
    assert len(second) == len(store) > 3000


def test_classes_and_properties_are_declared(store):
    """Every class and property in use is in the vocabulary, with a label in each language; one class is declared only."""
    used = set(column(store, "SELECT DISTINCT ?c { ?x a ?c }")) | set(column(store, "SELECT DISTINCT ?p { ?s ?p ?o }"))
    ours = {iri for iri in used if iri.startswith(NAMESPACE)}
    declared = set(column(store, "SELECT ?t { VALUES ?k { owl:Class owl:ObjectProperty owl:DatatypeProperty } ?t a ?k }"))
    assert declared - ours == {NAMESPACE + "Icebreaker"}
    assert ours <= declared
    labelled = [set(column(store, f'SELECT ?t {{ ?t rdfs:label ?l FILTER(lang(?l) = "{tag}") }}')) for tag in LANGUAGES]
    assert all(declared <= some for some in labelled)
    assert 8 <= len(column(store, "SELECT DISTINCT ?c { ?x a ?c FILTER(STRSTARTS(STR(?c), STR(h:))) }")) <= 15


@pytest.mark.parametrize(
    "violation",
    [
        "?p rdfs:domain ?c . ?s ?p ?o FILTER NOT EXISTS { ?s a ?c }",
        "?p a owl:ObjectProperty ; rdfs:range ?c . ?s ?p ?o FILTER NOT EXISTS { ?o a ?c }",
        "?p a owl:DatatypeProperty ; rdfs:range ?c . ?s ?p ?o FILTER(DATATYPE(?o) != ?c)",
        "?sub rdfs:subClassOf ?c . ?s a ?sub FILTER NOT EXISTS { ?s a ?c }",
        "?v h:captain ?c . ?w h:captain ?c FILTER(?v != ?w)",
        "?x rdfs:label ?l . ?y rdfs:label ?l . ?x a ?c . ?y a ?c FILTER(?x != ?y && ?c NOT IN (h:PortCall, owl:Class))",
    ],
    ids=["domain", "range", "datatype", "hierarchy", "one captain, one vessel", "names are unique"],
)
def test_the_graph_is_sound(store, violation):
    """Nothing in it contradicts its vocabulary or common sense."""
    assert not holds(store, violation)


def test_it_has_what_a_demo_needs(store):
    """A hierarchy, an intermediate node with amount and date, numbers, dates, silence where nothing is known."""
    assert holds(store, "?call h:vessel ?v ; h:harbour ?h ; h:arrival ?day ; h:duesEur ?dues ; h:unloaded/h:tonnes ?t")
    assert holds(store, "?island a h:Island FILTER NOT EXISTS { ?island h:population ?n }")
    assert holds(store, "?harbour a h:Harbour FILTER NOT EXISTS { ?harbour h:island ?i }")
    assert holds(store, "?vessel a h:Vessel FILTER NOT EXISTS { ?vessel h:captain ?c }")


def test_the_tour_keeps_its_promises_on_the_graph(store):
    """The first query has three answers and the last has none, whoever asks."""
    deepest = list(store.query(PREFIXES + DEEPEST_HARBOURS))
    assert len(deepest) == 3
    assert list(store.query(PREFIXES + BERTHS_OF_LIGHTHOUSES)) == []


def test_each_stop_is_one_shell_command():
    """A POSIX shell reads each as curl with the address and one parameter."""
    commands = [shlex.split(stop.command) for stop in stops("http://localhost:1")]
    assert [c[0] for c in commands] == ["curl"] * 3
    assert all("http://localhost:1/sparql" in c and c[-2] == "--data-urlencode" for c in commands)
    assert [c[-1].partition("=")[0] for c in commands] == ["query", "nl", "query"]
