"""The embedded store: files in, and answers as Oxigraph's server gives them."""

import asyncio
import gzip
import threading
import time
from collections.abc import Coroutine
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pyoxigraph as ox
import pytest

from proxy.backends.base import BackendRequest
from proxy.backends.embedded import EmbeddedBackend
from proxy.errors import BackendBusy, BackendGarbled, BackendRefused, BackendTimeout, ConfigError
from proxy.query.operation import DatasetDescription, OperationKind, SparqlOperation
from proxy.query.term import BlankNode, Iri, Literal

TRIPLE = "<http://e/a> <http://e/p> <http://e/b> ."
FILES = {
    "x.nt": TRIPLE,
    "x.ttl": "@prefix e: <http://e/> . e:a e:p e:b .",
    "x.nq": TRIPLE,
    "x.trig": "@prefix e: <http://e/> . { e:a e:p e:b . }",
    "x.rdf": '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/">'
    '<rdf:Description rdf:about="http://e/a"><e:p rdf:resource="http://e/b"/></rdf:Description></rdf:RDF>',
}


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(coroutine)


def store_of(turtle: str) -> ox.Store:
    store = ox.Store()
    store.load(turtle.encode(), ox.RdfFormat.TRIG)
    return store


def numbers(n: int) -> ox.Store:
    return store_of("".join(f"<http://e/{i}> <http://e/p> {i} ." for i in range(n)))


def query(text: str, accept: str | None = None, **more: Any) -> BackendRequest:
    operation = SparqlOperation(OperationKind.QUERY, text, accept=accept, **more)
    return BackendRequest("GET", b"/query", [(b"host", b"data.example")], operation=operation)


async def answer(backend: EmbeddedBackend, request: BackendRequest) -> tuple[int, str, bytes]:
    response = await backend.send(request)
    body = b"".join([piece async for piece in response.chunks()])
    return response.status, dict(response.headers).get(b"content-type", b"").decode(), body


@pytest.mark.parametrize("name", [*FILES, *(f"{n}.gz" for n in FILES)])
def test_load(tmp_path, name):
    """Every format is read by its suffix, gzipped too, and progress is told up to the end."""
    data = FILES[name.removesuffix(".gz")].encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    told = []
    backend = EmbeddedBackend.load([tmp_path / name], progress=lambda *step: told.append(step))
    assert run(backend.ask("ASK { <http://e/a> <http://e/p> <http://e/b> }", timeout_s=5))
    assert told[-1][0] == name and told[-1][1] == told[-1][2] == (tmp_path / name).stat().st_size


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("x.ttl", b"@prefix e: <http://e/> .\ne:a e:b e:c .\ne:a e:b d:c .\n", "x.ttl:3: "),
        ("x.nt", b"<http://a> <http://b> .\n", "x.nt:1: "),
        ("x.nt.gz", b"not gzip", "not a complete gzip file"),
        ("x.ttl.gz", gzip.compress(b"<http://a> <http://b> 1 ." * 99)[:-9], "not a complete gzip file"),
        ("x.csv", b"a,b", "unknown suffix"),
        ("x.ttl", None, "No such file"),
    ],
    ids=["turtle", "n-triples", "not gzip", "cut gzip", "suffix", "missing"],
)
def test_broken_file_is_named(tmp_path, name, data, message):
    """A file that cannot be loaded is a ConfigError with its path, and the line where there is one."""
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(ConfigError, match=r"backend\.load") as caught:
        EmbeddedBackend.load([tmp_path / name])
    assert message in str(caught.value) and str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "accept", "status", "content_type", "body"),
    [
        ("ASK { ?s ?p 7 }", None, 200, "application/sparql-results+json", b'{"head":{},"boolean":true}'),
        ("SELECT ?s { ?s ?p 7 }", "text/csv", 200, "text/csv; charset=utf-8", b"s\r\nhttp://e/7\r\n"),
        ("SELECT ?s { ?s ?p 7 }", "text/plain", 200, "text/csv; charset=utf-8", b"s\r\nhttp://e/7\r\n"),
        (
            "SELECT ?s { ?s ?p 7 }",
            "text/tab-separated-values, text/csv;q=0.5",
            200,
            "text/tab-separated-values; charset=utf-8",
            b"?s\n<http://e/7>\n",
        ),
        ("CONSTRUCT WHERE { ?s ?p 7 }", None, 200, "application/n-quads", None),
        ("CONSTRUCT WHERE { ?s ?p 7 }", "text/turtle", 200, "text/turtle", b"<http://e/7> <http://e/p> 7 .\n"),
        ("SELECT (<rel> AS ?x) {}", "text/csv", 200, "text/csv; charset=utf-8", b"x\r\nhttp://data.example/rel\r\n"),
        ("SELECT * {", None, 400, "text/plain; charset=utf-8", None),
        ("SELECT ?s {}", "image/png", 406, "text/plain; charset=utf-8", None),
        ("SELECT ?s {}", "garbage", 400, "text/plain; charset=utf-8", b"Invalid media type: 'garbage'"),
        ("SELECT (<http://f>(1) AS ?x) {}", None, 500, "text/plain; charset=utf-8", None),
    ],
)
def test_answers(text, accept, status, content_type, body):
    """Formats, negotiation, base IRI and errors are those of the server."""
    got = run(answer(EmbeddedBackend(numbers(10)), query(text, accept)))
    assert got[:2] == (status, content_type)
    assert body is None or got[2] == body


def test_graph_parameters():
    """default-graph-uri and union-default-graph choose the graphs."""
    backend = EmbeddedBackend(store_of("<http://e/a> <http://e/p> 1 . <http://g> { <http://e/b> <http://e/p> 2 . }"))
    count = "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"
    union = (("union-default-graph", ""),)
    named = DatasetDescription(("http://g",))
    assert run(answer(backend, query(count, "text/csv")))[2] == b"n\r\n1\r\n"
    assert run(answer(backend, query(count, "text/csv", parameters=union)))[2] == b"n\r\n2\r\n"
    assert run(answer(backend, query("SELECT ?o { ?s ?p ?o }", "text/csv", dataset=named)))[2] == b"o\r\n2\r\n"
    assert run(answer(backend, query(count, parameters=union, dataset=named)))[0] == 400


def test_own_queries():
    """select gives terms, ask a boolean; too many rows and refusals are errors."""
    backend = EmbeddedBackend(store_of('<http://e/a> <http://e/p> "x"@en, 3, _:b .'))
    solutions = run(backend.select("SELECT ?o ?u { ?s ?p ?o }", timeout_s=5))
    assert solutions.variables == ("o", "u")
    assert {type(row[0]) for row in solutions.rows} == {Literal, BlankNode} and all(row[1] is None for row in solutions.rows)
    language = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
    assert (Literal("x", language, "en"), None) in solutions.rows
    assert run(backend.select("SELECT ?s { ?s ?p 3 }", timeout_s=5)).rows == [(Iri("http://e/a"),)]
    with pytest.raises(BackendGarbled):
        run(backend.select("SELECT * { ?s ?p ?o }", timeout_s=5, limit_rows=2))
    with pytest.raises(BackendRefused):
        run(backend.ask("ASK {", timeout_s=5))


class Recorder(BaseHTTPRequestHandler):
    seen: list[str]

    def do_POST(self) -> None:
        self.seen.append(self.path)
        self.send_response(500)
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *args: Any) -> None:
        pass


@pytest.mark.parametrize(
    "template",
    [
        "SELECT * {{ SERVICE <{url}> {{ ?s ?p ?o }} }}",
        "SELECT * {{ \\u0053ervice SILENT <{url}> {{ ?s ?p ?o }} }}",
        "SELECT * {{ ?a ?b 1SERVICE <{url}> {{ ?s ?p ?o }} }}",
        "SELECT * {{ VALUES ?s {{ <{url}> }} SERVICE ?s {{ ?s ?p ?o }} }}",
        "ASK {{ FILTER EXISTS {{ {{ SELECT * {{ SERVICE <{url}> {{ ?s ?p ?o }} }} }} }} }}",
        "VERSION '1.2' SELECT * {{ LATERAL {{ SERVICE <{url}> {{ ?s ?p ?o }} }} }}",
    ],
)
def test_no_request_leaves_the_store(template):
    """SERVICE is refused in every spelling, parsable or not, for clients and for ourselves."""
    Recorder.seen = []
    with HTTPServer(("127.0.0.1", 0), Recorder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        text = template.format(url=f"http://127.0.0.1:{server.server_port}/x")
        backend = EmbeddedBackend(numbers(2))
        assert run(answer(backend, query(text)))[0] == 400
        with pytest.raises(BackendRefused):
            run(backend.ask(text, timeout_s=5))
        server.shutdown()
    assert Recorder.seen == []


def test_updates_and_their_limits():
    """An update changes the store and is 204; LOAD is refused."""

    def update(text: str) -> BackendRequest:
        return BackendRequest("POST", b"/update", [], operation=SparqlOperation(OperationKind.UPDATE, text))

    backend = EmbeddedBackend(ox.Store())
    assert run(answer(backend, update("INSERT DATA { <http://e/a> <http://e/p> 1 }")))[0] == 204
    assert len(backend) == 1
    assert run(answer(backend, update("LOAD <http://127.0.0.1:9/x>")))[0] == 400
    assert run(answer(backend, update("INSERT DATA {")))[0] == 400


def test_graph_store():
    """PUT, GET, POST and DELETE of one graph, with the server's statuses."""
    backend = EmbeddedBackend(ox.Store())

    def store(method: str, body: bytes = b"", *, graph: str = "http://g") -> tuple[int, str, bytes]:
        operation = SparqlOperation(OperationKind.GRAPH_STORE, "", parameters=(("graph", graph),), accept="text/turtle")
        headers = [(b"content-type", b"text/turtle; charset=utf-8")]
        return run(answer(backend, BackendRequest(method, b"/store", headers, body, operation)))

    assert store("GET")[0] == store("DELETE")[0] == 404
    assert store("PUT", b"<http://a> <http://b> 1 .")[0] == 201
    assert store("POST", b"<http://a> <http://b> 2 .")[0] == 204
    assert store("GET")[2] in (b"<http://a> <http://b> 1 , 2 .\n", b"<http://a> <http://b> 2 , 1 .\n")
    assert store("PUT", b"<http://a> <http://b> oops")[0] == 400
    assert store("PUT", b"<http://a> <http://b> 3 .")[0] == 204
    assert b"1" not in store("GET")[2].replace(b"http", b"")
    assert store("DELETE")[0] == 204 and store("GET")[0] == 404


def test_result_streams_with_back_pressure():
    """A large result comes in pieces; while nobody reads, the store stops."""

    async def check() -> None:
        backend = EmbeddedBackend(numbers(20_000))
        response = await backend.send(query("SELECT * { ?s ?p ?o }"))
        assert b"content-length" not in dict(response.headers)
        await asyncio.sleep(0.3)
        assert backend.running == 1
        size = sum([len(piece) async for piece in response.chunks()])
        assert size > 1_000_000
        assert backend.running == 0

    run(check())


def test_client_that_leaves_stops_the_store():
    """Closing a response in the middle frees its thread."""

    async def check() -> None:
        backend = EmbeddedBackend(numbers(20_000))
        response = await backend.send(query("SELECT * { ?s ?p ?o }"))
        await response.aclose()
        ends = time.monotonic() + 30
        while backend.running:
            assert time.monotonic() < ends
            await asyncio.sleep(0.01)

    run(check())


def test_query_out_of_time_keeps_its_place():
    """A blocking aggregate is BackendTimeout; it still counts, so that the next one finds the store busy."""
    seconds = "SELECT (COUNT(*) AS ?n) { ?a ?p ?x . ?b ?p ?y . ?c ?p ?z }"

    async def check() -> None:
        backend = EmbeddedBackend(numbers(200), timeout_s=0.2, max_queries=1, queue_s=0.1)
        with pytest.raises(BackendTimeout):
            await backend.send(query(seconds))
        assert backend.running == 1
        with pytest.raises(BackendBusy):
            await backend.send(query("ASK {}"))
        ends = time.monotonic() + 60
        while backend.running:
            assert time.monotonic() < ends
            await asyncio.sleep(0.05)
        assert (await answer(backend, query("ASK {}")))[0] == 200

    run(check())
