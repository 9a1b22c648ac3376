"""GRAPH, FROM and the protocol's graphs and parameters, with an index of the default graph and with one of all graphs."""

import pyoxigraph as ox
import pytest
from graphs import index_of, store_of, values_of

from proxy.query.operation import DatasetDescription
from proxy.query.parse import parse
from proxy.validation.check import check, is_proved_empty, unlike_the_index
from proxy.validation.finding import Severity

PREFIX = "PREFIX : <http://e/> "
NAMED = DatasetDescription(named_graphs=("http://e/g",))

EMPTY = {
    "GRAPH: no such property": "SELECT * { GRAPH ?g { ?x :none ?y } }",
    "GRAPH: a class without the property": "SELECT * { GRAPH :g { ?x a :A ; :q ?y } }",
    "GRAPH: together with what is around it": "SELECT * { ?x a :A GRAPH ?g { ?x :q ?y } }",
    "GRAPH: a value": 'SELECT * { GRAPH ?g { ?x :p "two" } }',
    "GRAPH in EXISTS": "SELECT * { ?x a :A FILTER EXISTS { GRAPH ?g { ?x :q ?y } } }",
    "FROM": "SELECT * FROM :g { ?x a :A ; :q ?y }",
    "FROM NAMED": "SELECT * FROM NAMED :g { GRAPH ?g { ?x a :A ; :q ?y } }",
}
NOT_EMPTY = {
    "a triple of a named graph": "SELECT * { GRAPH ?g { ?x :q ?y } }",
    "its literal": "SELECT * { GRAPH :g { ?x :q 2 } }",
    "FROM it": "SELECT * FROM :g { ?x a :B ; :q ?y }",
    "a node with classes in two graphs": "SELECT * { ?x a :A GRAPH ?g { ?x a :C } }",
    "a relative name": "SELECT * { GRAPH <g> { ?x :none ?y } }",
    "a GRAPH that is left away": "SELECT * { ?x a :A OPTIONAL { GRAPH ?g { ?x :none ?y } } }",
}


@pytest.fixture(scope="module")
def store():
    found = store_of('@prefix : <http://e/> . :x a :A ; :p "one" . :z a :C .')
    found.update(f"{PREFIX} INSERT DATA {{ GRAPH :g {{ :y a :B ; :q 2 . :x a :C }} GRAPH :h {{ :x :r :y }} }}")
    return found


@pytest.mark.parametrize("text", EMPTY.values(), ids=EMPTY)
@pytest.mark.parametrize("exact", [True, False])
def test_an_index_of_all_graphs_proves_inside_graph(text, exact, store):
    """What no graph holds, none of them holds; the ASK reads the same graphs, and is true once one of them has it."""
    index, values = index_of(store, exact=exact, union=True), values_of(store, union=True)
    findings = check(parse(PREFIX + text), index, values=values)
    assert is_proved_empty(findings)
    (confirmation,) = {f.confirmation for f in findings if f.severity is Severity.PROVED_EMPTY}
    assert not store.query(confirmation)
    changed = ox.Store()
    changed.extend(store)
    changed.update(f'{PREFIX} INSERT DATA {{ GRAPH :g {{ :x a :A ; :none 1 ; :q 3 ; :p "two" }} }}')
    assert changed.query(confirmation)


@pytest.mark.parametrize("text", NOT_EMPTY.values(), ids=NOT_EMPTY)
def test_what_an_index_of_all_graphs_does_not_prove(text, store):
    """The named graphs count."""
    index, values = index_of(store, exact=True, union=True), values_of(store, union=True)
    assert not is_proved_empty(check(parse(PREFIX + text), index, values=values))


@pytest.mark.parametrize("text", EMPTY.values(), ids=EMPTY)
def test_an_index_of_the_default_graph_says_nothing_of_others(text, store):
    """It has not seen them."""
    assert not is_proved_empty(check(parse(PREFIX + text), index_of(store), values=values_of(store)))


def test_graphs_named_by_the_protocol_only_narrow(store):
    """Over an index of all graphs; the ASK gets the parameters of the request, so it names no graph itself."""
    query = parse(PREFIX + "SELECT * FROM :h { ?x a :A ; :q ?y }")
    (finding,) = check(query, index_of(store, union=True), dataset=NAMED)
    assert "FROM" not in finding.confirmation
    (finding,) = check(query, index_of(store, union=True))
    assert "FROM <http://e/h>" in finding.confirmation
    assert check(query, index_of(store), dataset=NAMED) == ()


def test_a_backend_that_fetches_graphs_ends_all_proofs_over_them(store):
    """What FROM names may come from the web; without FROM nothing does."""
    index = index_of(store, union=True)
    described, plain = (parse(f"{PREFIX} SELECT * {f} {{ ?x :none ?y }}") for f in ("FROM :g", ""))
    assert check(described, index, fetches_graphs=True) == ()
    assert check(plain, index, dataset=NAMED, fetches_graphs=True) == ()
    assert is_proved_empty(check(plain, index, fetches_graphs=True))


@pytest.mark.parametrize(
    ("parameter", "union", "expected"),
    [
        (("infer", "false"), False, "infer"),
        (("infer", "true"), False, None),
        (("sameAs", "false"), True, "sameAs"),
        (("union-default-graph", ""), False, "union-default-graph"),
        (("union-default-graph", "true"), True, None),
        (("timeout", "5"), False, None),
    ],
)
def test_parameters_unlike_those_of_the_index(parameter, union, expected, store):
    """Where the request sees other triples than the index did, the data prove nothing; what needs none still does."""
    index = index_of(store, union=union)
    assert unlike_the_index([parameter], index) == expected
    query = parse(PREFIX + "SELECT * { ?x :none ?y }")
    assert is_proved_empty(check(query, index, parameters=[parameter])) is (expected is None)
    assert is_proved_empty(check(parse("SELECT * { ?x ?p ?y FILTER(false) }"), index, parameters=[parameter]))
