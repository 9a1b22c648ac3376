"""A query that would overflow the stack of Oxigraph's process does not reach it; one just below the limits does no harm."""

import http.client
import json

import pytest

from proxy.pipeline.stack import NESTING, OPERATORS
from tests.loopback.conftest import OK, answering
from tests.servers.oxigraph import Oxigraph

pytestmark = pytest.mark.loopback

DEEP, LONG = NESTING["oxigraph"], OPERATORS["oxigraph"]
NESTED = {
    "calls": lambda n: "SELECT * { BIND(" + "STR(" * (n - 2) + "?x" + ")" * (n - 2) + " AS ?y) }",
    "groups": lambda n: "SELECT * " + "{" * n + "?s ?p ?o" + "}" * n,
    "EXISTS": lambda n: "SELECT * { ?a ?b ?c " + "FILTER EXISTS { ?s ?p ?o " * (n - 1) + "}" * n,
    "OPTIONAL": lambda n: "SELECT * { ?a ?b ?c " + "OPTIONAL { ?s ?p ?o " * (n - 1) + "}" * n,
    "UNION": lambda n: "SELECT * {" + "{ ?s ?p ?o } UNION { " * (n - 1) + "?s ?p ?o" + "}" * n,
    "subqueries": lambda n: "SELECT * " + "{ SELECT * " * (n - 1) + "{ ?s ?p ?o }" + "}" * (n - 1),
    "paths": lambda n: "SELECT * { ?s " + "(" * (n - 1) + "<http://e/p>" + ")+" * (n - 1) + " ?o }",
    "property lists": lambda n: "SELECT * { ?s ?p " + "[ ?p " * (n - 1) + "1" + "]" * (n - 1) + " }",
    "calls that look like an IRI": lambda n: "SELECT * { FILTER(?o<" + "STR(" * (n - 2) + "1" + ")" * (n - 2) + ">3) }",
    "calls in what we cannot parse": lambda n: "SELECT * { BIND(" + "STR(" * (n - 2) + "?x" + ")" * (n - 2) + " AS ?y) } %",
}
CHAINED = {
    "OPTIONAL": lambda n: "SELECT * { ?s ?p ?o " + "OPTIONAL {} " * (n // 2) + "}",
    "MINUS": lambda n: "SELECT * { ?s ?p ?o " + "MINUS { ?o ?p ?s } " * (n // 2) + "}",
    "BIND": lambda n: "SELECT * { " + " ".join(f"BIND(1 AS ?v{i})" for i in range(n // 2)) + " }",
    "projections": lambda n: "SELECT " + " ".join(f"(1 AS ?v{i})" for i in range(n // 2)) + " {}",
    "UNION": lambda n: "SELECT * { { ?s ?p ?o }" + " UNION { ?s ?p ?o }" * n + " }",
    "FILTER": lambda n: "SELECT * { ?s ?p ?o " + "FILTER(?o > 1) " * n + "}",
    "negations": lambda n: "SELECT * { FILTER(" + "!" * n + "true) }",
    "sums": lambda n: "SELECT * { FILTER(1 < 1" + " + 1" * n + ") }",
    "alternatives of a path": lambda n: "SELECT * { ?s <http://e/p>" + "|<http://e/p>" * n + " ?o }",
    "EXISTS around MINUS": lambda n: (
        "SELECT * { ?a ?b ?c "
        + "FILTER EXISTS { ?s ?p ?o " * (DEEP - 2)
        + "MINUS { ?o ?p ?s } " * ((n - DEEP + 2) // 2)
        + "}" * (DEEP - 1)
    ),
}
CASES = [pytest.param(make, DEEP, b"backend.max_nesting", id=f"nested {name}") for name, make in NESTED.items()] + [
    pytest.param(make, LONG, b"backend.max_operators", id=f"many {name}") for name, make in CHAINED.items()
]


@pytest.fixture(scope="module")
def oxigraph():
    with Oxigraph(data={"text/turtle": "<http://e/s> <http://e/p> 1 ."}) as server:
        yield server


@pytest.mark.parametrize(("make", "limit", "key"), CASES)
def test_the_limit_keeps_the_server_alive(oxigraph, serve, make, limit, key):
    """At the limit the server answers, whatever it thinks of the text; above it is not asked, and a setting is named."""
    proxy = serve(oxigraph.url)
    assert proxy.request("POST", "/sparql", make(limit - 2).encode(), Content_Type="application/sparql-query")[0] in (200, 400)
    status, _, body = proxy.request("POST", "/sparql", make(20 * limit).encode(), Content_Type="application/sparql-query")
    assert status == 403 and key in body and str(limit).encode() in body
    assert json.loads(proxy.request("GET", "/sparql?query=ASK%7B%7D")[2])["boolean"] is True


def test_without_the_limit_the_server_dies(serve):
    """The reason for the limits, and the configuration that lifts one."""
    with Oxigraph() as server:
        proxy = serve(server.url, backend__max_nesting=1_000_000)
        text = NESTED["calls"](600).encode()
        assert proxy.request("POST", "/sparql", text, Content_Type="application/sparql-query")[0] == 502
        with pytest.raises((OSError, http.client.HTTPException)):
            server.request("GET", "/query?query=ASK%7B%7D")


def test_another_backend_has_no_limit_unless_it_is_given_one(serve, stub):
    """The limits are Oxigraph's; for another kind they hold where they are configured."""
    text = NESTED["groups"](600).encode()
    url = stub(answering(OK)).url
    for overrides, status in (({}, 200), ({"backend__max_nesting": 100}, 403)):
        proxy = serve(url, backend__kind="sparql", **overrides)
        assert proxy.request("POST", "/sparql", text, Content_Type="application/sparql-query")[0] == status
