"""The real Java servers start, and do what the GraphDB stand-in imitates; RDF4J's own client works with RDF4J's own server."""

from __future__ import annotations

import gzip
import json
import re
import socket
import time
import urllib.parse
from collections.abc import Iterator

import pytest

from tests.servers import fuseki, java_build, rdf4j
from tests.servers.conftest import DATA
from tests.servers.fuseki import Fuseki
from tests.servers.rdf4j import Rdf4jServer, run_client

pytestmark = pytest.mark.java

JSON = {"Accept": "application/sparql-results+json"}
PREFIX = "PREFIX ex: <http://example.org/> "
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def server() -> Iterator[Rdf4jServer]:
    java_build.build_or_skip()
    with Rdf4jServer(data=DATA, inferred=True) as running:
        yield running


def target(query: str, path: str = "/repositories/test", **parameters: str) -> str:
    return f"{path}?" + urllib.parse.urlencode({"query": PREFIX + query, **parameters})


def test_versions_are_those_of_the_maven_project() -> None:
    """What the modules say about versions is what Maven fetches."""
    pom = (java_build.FOLDER / "pom.xml").read_text("utf-8")
    assert f"<rdf4j.server.version>{rdf4j.VERSION}<" in pom
    assert f"<fuseki.version>{fuseki.VERSION}<" in pom


def test_rdf4j_infers_and_counts_what_is_explicit(server: Rdf4jServer) -> None:
    """``infer`` is on by default; size counts explicit statements only; the default graph is everything."""
    book = "ASK { ex:dune a ex:Book ; ex:lentTo ?x }"
    assert json.loads(server.request("GET", target(book), headers=JSON)[2])["boolean"] is True
    assert json.loads(server.request("GET", target(book, infer="false"), headers=JSON)[2])["boolean"] is False
    assert server.request("GET", "/repositories/test/size")[2] == b"11"


def test_rdf4j_answers_as_the_stand_in_does(server: Rdf4jServer) -> None:
    """The fields and the layout that the stand-in imitates."""
    status, headers, body = server.request("GET", target("SELECT ?n { ex:dune ex:pages ?n }"), headers=JSON)
    assert (status, headers["vary"]) == (200, "Accept")
    assert headers["content-disposition"] == "attachment; filename=query-result.srj"
    assert headers["content-type"] == "application/sparql-results+json;charset=UTF-8"
    assert headers["transfer-encoding"] == "chunked"
    assert body.startswith(b'{\n  "head" : {\n    "vars" : [\n      "n"\n    ]\n  },\n  "results" : {\n')
    assert server.request("GET", target("ASK {}"), headers=JSON)[2] == b'{\n  "head" : { },\n  "boolean" : true\n}'


@pytest.mark.parametrize(
    ("request_target", "headers", "status", "text"),
    [
        ("/repositories/test", {}, 400, "Missing parameter: query"),
        ("/repositories/test?query=SELEC", {}, 400, "MALFORMED QUERY: Lexical error at line 1, column 6."),
        ("/repositories/test?query=INSERT%20DATA%20%7B%7D", {}, 400, 'MALFORMED QUERY: Encountered " "insert" "INSERT "'),
        ("/repositories/test?query=ASK%7B%7D&timeout=1.5", {}, 400, "Invalid timeout value: 1.5"),
        ("/repositories/test?query=ASK%7B%7D&default-graph-uri=x", {}, 400, "Illegal IRI for default graph: x"),
        ("/repositories/test?query=ASK%7B%7D&Accept=x/y", {}, 400, "UNSUPPORTED FILE FORMAT: x/y"),
        ("/repositories/test?query=ASK%7B%7D", {"Accept": "text/html"}, 406, "No acceptable file format found."),
        ("/repositories/no?query=ASK%7B%7D", {}, 404, "Unknown repository: no"),
    ],
)
def test_rdf4j_errors_are_text(
    server: Rdf4jServer, request_target: str, headers: dict[str, str], status: int, text: str
) -> None:
    """The texts that the stand-in imitates; Tomcat closes the connection after 400."""
    got, fields, body = server.request("GET", request_target, headers=headers)
    assert (got, body.decode()[: len(text)]) == (status, text)
    assert (fields.get("connection") == "close") == (status == 400)


def test_rdf4j_takes_the_first_of_two_queries(server: Rdf4jServer) -> None:
    """A repeated parameter is no error there, so a proxy that judged the second would judge the wrong one."""
    two = target("ASK {}") + "&query=ASK%20%7B%20FILTER(false)%20%7D"
    assert json.loads(server.request("GET", two, headers=JSON)[2])["boolean"] is True


def test_rdf4j_may_fail_behind_a_200(server: Rdf4jServer) -> None:
    """An error in the first solution comes too late for a status: 200, and no body at all. ASK still gets its 500."""
    unknown = "<http://example.org/nosuch>"
    status, headers, body = server.request("GET", target(f"SELECT ({unknown}(1) AS ?x) {{}}"), headers=JSON)
    assert (status, headers["content-length"], body) == (200, "0", b"")
    status, _, body = server.request("GET", target(f"ASK {{ FILTER({unknown}(1)) }}"), headers=JSON)
    assert (status, body) == (500, b"Query evaluation error: Unknown function 'http://example.org/nosuch'")


def test_rdf4j_truncates_in_sound_framing_when_time_is_up(server: Rdf4jServer) -> None:
    """Over the limit in the middle of a result: half a document, the last chunk as if all were well, then the end."""
    product = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . ?m ?n ?o . ?p ?q ?r }"
    head = f"GET {target(product, timeout='1')} HTTP/1.1\r\nHost: x\r\nAccept: text/tab-separated-values\r\n\r\n"
    received, tail = 0, b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30.0) as connection:
        connection.sendall(head.encode())
        started = time.monotonic()
        while piece := connection.recv(1 << 20):
            received, tail = received + len(piece), (tail + piece)[-16:]
    assert time.monotonic() - started < 20.0
    assert received > 100_000
    assert re.search(rb"[^\n]\r\n0\r\n\r\n\Z", tail)


def test_rdf4j_sends_nothing_when_time_is_up_before_the_first_solution(server: Rdf4jServer) -> None:
    """SELECT: 200 and no body; ASK: 503 with words."""
    product = "{ ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l FILTER(?c + ?f + ?i + ?l < 0) }"
    status, headers, body = server.request("GET", target(f"SELECT * {product}", timeout="1"), headers=JSON)
    assert (status, headers["content-length"], body) == (200, "0", b"")
    status, _, body = server.request("GET", target(f"ASK {product}", timeout="1"), headers=JSON)
    assert (status, body) == (503, b"Query evaluation took too long")


def test_rdf4j_unpacks_a_compressed_request(server: Rdf4jServer) -> None:
    """A gzip body is read as what it holds, so a proxy that does not unpack it has not seen the query."""
    headers = {**JSON, "Content-Type": "application/sparql-query; charset=utf-8", "Content-Encoding": "gzip"}
    status, _, body = server.request("POST", "/repositories/test", gzip.compress(b"ASK {}"), headers)
    assert (status, json.loads(body)["boolean"]) == (200, True)


def test_rdf4j_loses_a_form_of_more_than_2_mib(server: Rdf4jServer) -> None:
    """Tomcat drops the parameters of a larger form and the query seems to be missing; a direct POST of that size works."""
    text = b"ASK {} #" + b"x" * (2 << 20)
    form = b"query=" + urllib.parse.quote(text).encode()
    assert server.request("POST", "/repositories/test", form, {**JSON, **FORM})[::2] == (400, b"Missing parameter: query")
    direct = {**JSON, "Content-Type": "application/sparql-query"}
    assert server.request("POST", "/repositories/test", text, direct)[0] == 200


def test_rdf4j_updates(server: Rdf4jServer) -> None:
    """204 without a body; an empty one is refused."""
    update = urllib.parse.urlencode({"update": PREFIX + "INSERT DATA { ex:a ex:b 1 } ; DELETE DATA { ex:a ex:b 1 }"})
    status, headers, body = server.request("POST", "/repositories/test/statements", update.encode(), FORM)
    assert (status, body, "content-type" in headers) == (204, b"", False)
    status, _, body = server.request("POST", "/repositories/test/statements", b"update=", FORM)
    assert (status, body) == (400, b"Updates must be non-empty")


def test_the_rdf4j_client_works_with_the_rdf4j_server(server: Rdf4jServer) -> None:
    """Queries, updates, a transaction and a roll-back, by HTTPRepository and SPARQLRepository."""
    outcomes = run_client(server.url, server.repository)
    assert {name: outcome for name, outcome in outcomes.items() if outcome != "PASS"} == {}
    assert {"http transaction", "http rollback", "http update", "http select", "sparql select", "sparql update"} <= set(
        outcomes
    )


def test_the_rdf4j_client_reports_what_fails(server: Rdf4jServer) -> None:
    """A repository that is not there fails every step that needs it; steps that were not asked for are skipped."""
    outcomes = run_client(server.url, "nosuch", "read-only")
    assert outcomes["http update"] == outcomes["http transaction"] == "SKIP"
    assert outcomes["http select"].startswith("FAIL: ") and "404" in outcomes["http select"]


def test_fuseki_is_a_plain_sparql_endpoint() -> None:
    """Query, update and graph store; its default graph is the one without a name."""
    java_build.build_or_skip()
    with Fuseki(data=DATA) as plain:
        count = target("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }", "/ds/sparql")
        assert plain.request("GET", count, headers={"Accept": "text/csv"})[2].split() == [b"n", b"10"]
        update = {"Content-Type": "application/sparql-update"}
        assert plain.request("POST", "/ds/update", b"DELETE WHERE { ?s ?p ?o }", update)[0] in (200, 204)
        assert plain.request("GET", count, headers={"Accept": "text/csv"})[2].split() == [b"n", b"0"]
        graph = plain.request(
            "GET", "/ds/data?graph=http%3A%2F%2Fexample.org%2Floans", headers={"Accept": "application/n-triples"}
        )
        assert graph[0] == 200 and b"lentTo" in graph[2]


def test_without_java_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """No java command: a skip with words, or a failure where Java is required."""
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv(java_build.REQUIRE, raising=False)
    with pytest.raises(pytest.skip.Exception, match="no java command"):
        java_build.build_or_skip()
    monkeypatch.setenv(java_build.REQUIRE, "1")
    with pytest.raises(pytest.fail.Exception, match="no java command"):
        java_build.build_or_skip()
