"""The GraphDB stand-in does on the wire what GraphDB was found to do beyond RDF4J."""

from __future__ import annotations

import base64
import http.client
import json
import time
import urllib.parse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.servers.conftest import DATA
from tests.servers.graphdb import Graphdb
from tests.servers.process import request

PREFIX = "PREFIX ex: <http://example.org/> PREFIX onto: <http://www.ontotext.com/> "
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
REPOSITORY = "/repositories/test"
Answer = tuple[int, dict[str, str], bytes]


@pytest.fixture
def graphdb() -> Iterator[Graphdb]:
    with Graphdb(data=DATA) as server:
        yield server


def get(server: Graphdb, query: str, headers: dict[str, str] | None = None, **parameters: str) -> Answer:
    target = f"{REPOSITORY}?" + urllib.parse.urlencode({"query": PREFIX + query, **parameters})
    return request(server.port, "GET", target, headers={"Accept": "application/sparql-results+json", **(headers or {})})


def ask(server: Graphdb, pattern: str, clauses: str = "", **parameters: str) -> bool:
    status, _, body = get(server, f"ASK {clauses} {{ {pattern} }}", None, **parameters)
    assert status == 200, body
    return bool(json.loads(body)["boolean"])


def test_inferred_statements(graphdb: Graphdb) -> None:
    """Inference is on unless ``infer=false``; ``sameAs=false`` and the pseudo-graphs choose between kinds of statements."""
    book, twin = "ex:dune a ex:Book", "ex:dune ex:writer ex:frankHerbert"
    assert ask(graphdb, book) and not ask(graphdb, book, infer="false")
    assert ask(graphdb, twin) and not ask(graphdb, twin, sameAs="false")
    assert not ask(graphdb, twin, "FROM onto:disable-sameAs")
    assert not ask(graphdb, book, "FROM onto:explicit") and ask(graphdb, "ex:dune a ex:Novel", "FROM onto:explicit")
    assert ask(graphdb, book, "FROM onto:implicit") and not ask(graphdb, "ex:dune a ex:Novel", "FROM onto:implicit")
    assert ask(graphdb, f"GRAPH onto:implicit {{ {book} }} GRAPH onto:explicit {{ ex:dune a ex:Novel }}")
    graphs = json.loads(get(graphdb, "SELECT DISTINCT ?g { GRAPH ?g { ?s ?p ?o } }")[2])["results"]["bindings"]
    assert [row["g"]["value"] for row in graphs] == ["http://example.org/loans"]


def test_the_default_graph_is_everything(graphdb: Graphdb) -> None:
    """Without FROM a query sees all graphs; ``sesame:nil`` and the parameter value ``null`` name the one without a name."""
    assert ask(graphdb, "ex:dune ex:lentTo ?x ; ex:pages ?n")
    assert not ask(graphdb, "ex:dune ex:lentTo ?x", "FROM sesame:nil")
    assert not ask(graphdb, "ex:dune ex:lentTo ?x", **{"default-graph-uri": "null"})
    assert ask(graphdb, "ex:dune ex:pages ?n", **{"default-graph-uri": "null"})


def test_onto_count_replaces_the_solutions(graphdb: Graphdb) -> None:
    """``FROM onto:count`` gives one solution, the number in every variable."""
    bindings = json.loads(get(graphdb, "SELECT ?s ?n FROM onto:count { ?s ex:pages ?n }")[2])["results"]["bindings"]
    assert [(row["s"]["value"], row["n"]["value"]) for row in bindings] == [("2", "2")]


def test_what_only_graphdb_understands_is_answered(graphdb: Graphdb) -> None:
    """Six prefixes need no declaration; a magic predicate answers without stored triples."""
    assert ask(graphdb, "ex:Novel rdfs:subClassOf ?c . ?x owl:sameAs ?y")
    rank = "<http://www.ontotext.com/owlim/RDFRank#hasRDFRank>"
    assert ask(graphdb, f"ex:dune {rank} ?r")
    assert not ask(graphdb, "?s ?p ?o FILTER(CONTAINS(STR(?p), 'RDFRank'))")


def test_an_answer_has_the_fields_of_an_rdf4j_server(graphdb: Graphdb) -> None:
    """Vary when the header chose, a file name, a charset, pretty-printed JSON, chunks."""
    status, headers, body = get(graphdb, "SELECT ?n { ex:dune ex:pages ?n }")
    assert status == 200
    assert headers["vary"] == "Accept"
    assert headers["content-disposition"] == "attachment; filename=query-result.srj"
    assert headers["content-type"] == "application/sparql-results+json;charset=UTF-8"
    assert headers["transfer-encoding"] == "chunked"
    assert body.startswith(
        b'{\n  "head" : {\n    "vars" : [\n      "n"\n    ]\n  },\n  "results" : {\n    "bindings" : [\n      {\n'
    )
    assert json.loads(body)["results"]["bindings"][0]["n"]["value"] == "412"
    _, headers, body = get(graphdb, "SELECT ?n { ex:dune ex:pages ?n }", Accept="text/csv")
    assert "vary" not in headers and body == b"n\r\n412\r\n"
    assert get(graphdb, "ASK {}")[2] == b'{\n  "head" : { },\n  "boolean" : true\n}'


@pytest.mark.parametrize(
    ("method", "target", "headers", "body", "status", "text"),
    [
        ("GET", REPOSITORY, {}, "", 400, "Missing parameter: query"),
        ("GET", f"{REPOSITORY}?query=SELEC", {}, "", 400, "MALFORMED QUERY: Encountered"),
        (
            "GET",
            f"{REPOSITORY}?query=ASK%7B%3Fs%20no:x%201%7D",
            {},
            "",
            400,
            "MALFORMED QUERY: VisitorException: QName 'no:x'",
        ),
        (
            "GET",
            f"{REPOSITORY}?query=INSERT%20DATA%20%7B%7D",
            {},
            "",
            400,
            'MALFORMED QUERY: Encountered " "insert"',
        ),
        ("GET", f"{REPOSITORY}?query=ASK%7B%7D&timeout=1.5", {}, "", 400, "Invalid timeout value: 1.5"),
        ("GET", f"{REPOSITORY}?query=ASK%7B%7D&limit=x", {}, "", 400, "Invalid value for parameter 'limit'"),
        ("GET", f"{REPOSITORY}?query=ASK%7B%7D&default-graph-uri=x", {}, "", 400, "Illegal IRI for default graph: x"),
        ("GET", f"{REPOSITORY}?query=ASK%7B%7D&Accept=x/y", {}, "", 400, "UNSUPPORTED FILE FORMAT: x/y"),
        ("GET", f"{REPOSITORY}?query=ASK%7B%7D", {"Accept": "text/html"}, "", 406, "No acceptable file format found."),
        ("POST", REPOSITORY, {"Content-Type": "text/turtle"}, "x", 415, "Unsupported MIME type: text/turtle"),
        ("GET", "/repositories/no", {}, "", 404, "Unknown repository: no"),
        ("POST", f"{REPOSITORY}/statements", FORM, "update=", 400, "Updates must be non-empty"),
        ("POST", f"{REPOSITORY}/statements", FORM, "update=INSERT", 400, "MALFORMED QUERY: "),
        ("POST", f"{REPOSITORY}/statements", {"Content-Type": "text/turtle"}, "<a", 400, "MALFORMED DATA: "),
        ("GET", f"{REPOSITORY}?query=ASK{{}}", {}, "", 400, "<!doctype html>"),
    ],
)
def test_errors_are_text(
    graphdb: Graphdb, method: str, target: str, headers: dict[str, str], body: str, status: int, text: str
) -> None:
    """RDF4J's statuses and texts; the connection closes after 400."""
    got, fields, answer = request(graphdb.port, method, target, body.encode(), headers)
    assert (got, answer.decode()[: len(text)]) == (status, text)
    assert (fields.get("connection") == "close") == (status == 400)


def test_an_update_answers_204_and_is_inferred_from(graphdb: Graphdb) -> None:
    """204 without a body, both forms; what follows from the new statements is there at once."""
    target = f"{REPOSITORY}/statements"
    text = PREFIX + "INSERT DATA { ex:it a ex:Novel }"
    assert request(graphdb.port, "POST", target, text.encode(), {"Content-Type": "application/sparql-update"})[::2] == (
        204,
        b"",
    )
    assert ask(graphdb, "ex:it a ex:Book")
    body = urllib.parse.urlencode({"update": PREFIX + "DELETE WHERE { ex:it ?p ?o }"}).encode()
    assert request(graphdb.port, "POST", target, body, FORM)[0] == 204
    assert not ask(graphdb, "ex:it a ex:Book")
    assert graphdb.administered == []


SLOW = "SELECT * { ?s ?p ?o }"


def test_a_query_over_its_limit_may_be_a_200(graphdb: Graphdb) -> None:
    """503; or a complete document with too little; or half a document in sound framing; or a reset."""
    whole = len(json.loads(get(graphdb, SLOW)[2])["results"]["bindings"])
    graphdb.faults.compute_s = 5.0
    status, _, body = get(graphdb, SLOW, timeout="1")
    assert (status, body) == (503, b"Query evaluation took too long")
    graphdb.query_timeout_s = 0.2
    for ending, expected in (("empty", 0), ("partial", whole // 2)):
        graphdb.faults.on_timeout = ending  # type: ignore[assignment]
        status, _, body = get(graphdb, SLOW, timeout="0")
        assert (status, len(json.loads(body)["results"]["bindings"])) == (200, expected)
    graphdb.faults.on_timeout = "truncated"
    status, _, body = get(graphdb, SLOW)
    assert status == 200
    with pytest.raises(ValueError):
        json.loads(body)
    graphdb.faults.on_timeout = "nothing"
    status, headers, body = get(graphdb, SLOW)
    assert (status, headers["content-length"], body) == (200, "0", b"")
    assert get(graphdb, "ASK { ?s ?p ?o }")[0] == 503
    graphdb.faults.on_timeout = "reset"
    with pytest.raises((ConnectionError, http.client.IncompleteRead)):
        get(graphdb, SLOW)


def test_an_error_in_evaluation_is_a_500_or_comes_too_late(graphdb: Graphdb) -> None:
    """Newer servers answer 500; older ones have said 200 by then, and send nothing."""
    query = "SELECT (<http://example.org/nosuch>(1) AS ?x) {}"
    assert get(graphdb, query)[::2] == (500, b"Query evaluation error: Unknown function 'http://example.org/nosuch'")
    graphdb.faults.late_errors = True
    assert get(graphdb, query)[::2] == (200, b"")


def test_memory_and_result_limit(graphdb: Graphdb) -> None:
    """Want of heap is a 500 that may pass; queryLimitResults cuts without a word."""
    graphdb.faults.memory = True
    status, _, body = get(graphdb, SLOW)
    assert status == 500 and b"NotEnoughMemoryForDistinctGroupBy" in body
    graphdb.faults.memory = False
    graphdb.query_limit_results = 1
    assert len(json.loads(get(graphdb, SLOW)[2])["results"]["bindings"]) == 1


def test_paging_and_bindings(graphdb: Graphdb) -> None:
    """``limit``, ``offset`` and ``$name`` change the answer from outside the text."""
    query = "SELECT ?s ?n { ?s ex:pages ?n } ORDER BY ?n"
    numbers = [row["n"]["value"] for row in json.loads(get(graphdb, query, offset="1", limit="5")[2])["results"]["bindings"]]
    assert numbers == ["474"]
    bound = json.loads(get(graphdb, query, None, **{"$s": "<http://example.org/dune>"})[2])["results"]["bindings"]
    assert [row["n"]["value"] for row in bound] == ["412"]


def test_a_query_is_aborted_by_its_track_alias(graphdb: Graphdb) -> None:
    """The monitor call lists what runs and stops it by the alias in X-GraphDB-Track-Alias."""
    graphdb.faults.compute_s = 20.0
    monitor = "/rest/monitor/repository/test/query"
    with ThreadPoolExecutor() as pool:
        running = pool.submit(get, graphdb, SLOW, {"X-GraphDB-Track-Alias": "mine"})
        until = time.monotonic() + 30.0
        while not json.loads(request(graphdb.port, "GET", monitor)[2]) and time.monotonic() < until:
            time.sleep(0.02)
        assert request(graphdb.port, "DELETE", f"{monitor}?query=mine")[0] == 204
        assert running.result(5.0)[0] == 503
    assert graphdb.aborted == ["mine"]
    assert graphdb.administered == []


def test_what_clients_ask_first(graphdb: Graphdb) -> None:
    """Protocol, repositories, size, contexts, namespaces, health, settings."""
    assert request(graphdb.port, "GET", "/protocol")[2] == b"12"
    accept = {"Accept": "application/sparql-results+json"}
    rows = json.loads(request(graphdb.port, "GET", "/repositories", headers=accept)[2])["results"]["bindings"]
    assert [row["id"]["value"] for row in rows] == ["test"]
    assert request(graphdb.port, "GET", f"{REPOSITORY}/size")[2] == b"11"
    counts = json.loads(request(graphdb.port, "GET", "/rest/repositories/test/size")[2])
    assert counts["explicit"] == 11 and counts["inferred"] > 0
    contexts = request(graphdb.port, "GET", f"{REPOSITORY}/contexts", headers=accept)
    assert b"http://example.org/loans" in contexts[2]
    assert b'"ex"' in request(graphdb.port, "GET", f"{REPOSITORY}/namespaces", headers=accept)[2]
    settings = json.loads(request(graphdb.port, "GET", "/rest/repositories/test")[2])["params"]
    assert settings["throwQueryEvaluationExceptionOnTimeout"]["value"] == "false"
    for health, status in (("green", 200), ("yellow", 206), ("red", 500)):
        graphdb.health = health  # type: ignore[assignment]
        answer = request(graphdb.port, "GET", f"{REPOSITORY}/health?passive=1")
        assert (answer[0], json.loads(answer[2])["status"]) == (status, health)
    assert request(graphdb.port, "GET", "/repositories/no/health")[0] == 404


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("PUT", "/repositories/new"),
        ("DELETE", REPOSITORY),
        ("PUT", f"{REPOSITORY}/statements"),
        ("DELETE", f"{REPOSITORY}/statements"),
        ("POST", f"{REPOSITORY}/statements"),
        ("POST", "/rest/repositories"),
        ("DELETE", "/rest/repositories/test"),
    ],
)
def test_administration_is_done_and_recorded(graphdb: Graphdb, method: str, target: str) -> None:
    """What a proxy must not let through works here, as it would there, and leaves a trace."""
    request(graphdb.port, method, target, b"", {"Content-Type": "text/turtle"})
    assert graphdb.administered == [(method, target)]


def test_deleting_a_repository_deletes_it(graphdb: Graphdb) -> None:
    """DELETE on the query URL is not harmless."""
    assert request(graphdb.port, "DELETE", REPOSITORY)[0] == 204
    assert get(graphdb, "ASK {}")[0] == 404


def test_logins() -> None:
    """Basic and GDB tokens; 401 with a challenge unless the client is a script in a page; anonymous reads if they are free."""
    with Graphdb(data=DATA, users={"ada": "pass"}) as server:
        status, headers, _ = get(server, "ASK {}")
        assert (status, headers["www-authenticate"]) == (401, 'Basic realm="GraphDB"')
        status, headers, _ = get(server, "ASK {}", {"X-Requested-With": "XMLHttpRequest"})
        assert status == 401 and "www-authenticate" not in headers
        basic = "Basic " + base64.b64encode(b"ada:pass").decode()
        assert get(server, "ASK {}", {"Authorization": basic})[0] == 200
        assert get(server, "ASK {}", {"Authorization": "Basic " + base64.b64encode(b"ada:no").decode()})[0] == 401
        wrong = json.dumps({"username": "ada", "password": "x"}).encode()
        assert request(server.port, "POST", "/rest/login", wrong)[0] == 401
        right = json.dumps({"username": "ada", "password": "pass"}).encode()
        _, headers, _ = request(server.port, "POST", "/rest/login", right)
        assert get(server, "ASK {}", {"Authorization": headers["authorization"]})[0] == 200
        assert request(server.port, "GET", "/protocol")[0] == 200
        server.free_access = True
        assert get(server, "ASK {}")[0] == 200


def test_the_graph_store(graphdb: Graphdb) -> None:
    """PUT replaces a graph, POST adds, DELETE empties; 204 each."""
    target = f"{REPOSITORY}/rdf-graphs/service?graph=http%3A%2F%2Fe.org%2Fg"
    turtle = {"Content-Type": "text/turtle"}
    assert request(graphdb.port, "PUT", target, b"<http://a> <http://b> 1 .", turtle)[0] == 204
    assert request(graphdb.port, "POST", target, b"<http://a> <http://b> 2 .", turtle)[0] == 204
    status, headers, body = request(graphdb.port, "GET", target, headers={"Accept": "application/n-triples"})
    assert (status, headers["content-type"], body.count(b"\n")) == (200, "application/n-triples;charset=UTF-8", 2)
    assert request(graphdb.port, "DELETE", target)[0] == 204
    assert request(graphdb.port, "GET", target, headers={"Accept": "application/n-triples"})[2] == b""
    assert graphdb.administered == []
