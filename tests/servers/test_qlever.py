"""The QLever stand-in does on the wire what QLever was found to do."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import time
import urllib.parse
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.servers.conftest import DATA
from tests.servers.process import request
from tests.servers.qlever import Qlever

PREFIX = "PREFIX ex: <http://example.org/> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> "
PAGES = PREFIX + "SELECT ?s ?n { ?s ex:pages ?n } ORDER BY ?n"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
Answer = tuple[int, dict[str, str], bytes]
SPARQL_JSON = "application/sparql-results+json"


@pytest.fixture
def qlever() -> Iterator[Qlever]:
    with Qlever(data=DATA) as server:
        yield server


def get(server: Qlever, query: str, headers: dict[str, str] | None = None, **parameters: str) -> Answer:
    return request(server.port, "GET", "/?" + urllib.parse.urlencode({"query": query, **parameters}), headers=headers)


def post(server: Qlever, body: str, kind: str = "query", target: str = "/", **headers: str) -> Answer:
    return request(server.port, "POST", target, body.encode(), {"Content-Type": f"application/sparql-{kind}", **headers})


def raw(server: Qlever, data: bytes, *, wait_s: float = 2.0) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=wait_s) as connection:
        connection.sendall(data)
        received = b""
        while piece := connection.recv(65536):
            received += piece
        return received


def test_an_answer_is_chunked_and_says_neither_date_nor_server(qlever: Qlever) -> None:
    """Every answer is chunked, has the CORS fields, and lacks what other servers add."""
    for target in ("/?query=ASK%7B%7D", "/ping", "/nowhere", "/?cmd=stats"):
        _, headers, _ = request(qlever.port, "GET", target)
        assert headers["transfer-encoding"] == "chunked"
        assert headers["access-control-allow-origin"] == "*"
        assert not {"date", "server", "etag", "vary", "content-length"} & set(headers)


def test_sparql_json_has_a_meta_block_and_send_cuts_it(qlever: Qlever) -> None:
    """``send`` truncates standard JSON; only ``result-size-total`` tells."""
    status, headers, body = get(qlever, PAGES, send="1")
    document = json.loads(body)
    assert (status, headers["content-type"]) == (200, SPARQL_JSON)
    assert len(document["results"]["bindings"]) == 1
    assert document["meta"]["result-size-total"] == 2
    assert document["results"]["bindings"][0]["n"] == {
        "type": "literal",
        "value": "412",
        "datatype": "http://www.w3.org/2001/XMLSchema#int",
    }


def test_the_default_graph_is_the_union_without_duplicates(qlever: Qlever) -> None:
    """A query without FROM sees all graphs; GRAPH ?g does not see the one without a name."""
    assert json.loads(get(qlever, PREFIX + "ASK { ex:dune ex:lentTo ?x ; ex:pages ?n }")[2])["boolean"] is True
    graphs = json.loads(get(qlever, "SELECT DISTINCT ?g { GRAPH ?g { ?s ?p ?o } }")[2])["results"]["bindings"]
    assert [row["g"]["value"] for row in graphs] == ["http://example.org/loans"]
    named = get(qlever, "ASK { GRAPH ql:default-graph { ?s <http://example.org/pages> ?o } }")
    assert json.loads(named[2])["boolean"] is True


@pytest.mark.parametrize(
    ("query", "accept", "status", "content_type"),
    [
        (PAGES, "*/*", 200, SPARQL_JSON),
        (PAGES, "application/json", 200, SPARQL_JSON),
        (PAGES, "text/html, text/csv;q=0.5", 200, "text/csv"),
        (PAGES, "text/html", 406, "application/json"),
        (PAGES, "application/rdf+xml", 406, "application/json"),
        (PAGES, "application/octet-stream", 200, "application/octet-stream"),
        ("ASK {}", "text/csv", 200, SPARQL_JSON),
        ("ASK {}", "application/sparql-results+xml", 200, "application/sparql-results+xml"),
        ("CONSTRUCT WHERE { ?s ?p ?o }", "text/plain", 200, "text/turtle"),
        ("CONSTRUCT WHERE { ?s ?p ?o }", "application/n-triples", 200, "application/n-triples"),
    ],
)
def test_negotiation(qlever: Qlever, query: str, accept: str, status: int, content_type: str) -> None:
    """The first type that fits wins; a known one that does not fit gives the default; only unknown ones give 406."""
    got, headers, body = get(qlever, query, {"Accept": accept})
    assert (got, headers["content-type"]) == (status, content_type)
    if got == 406:
        assert json.loads(body)["exception"].startswith("Not a single media type known to this parser was detected")


def test_action_overrides_accept(qlever: Qlever) -> None:
    """``action=`` chooses the format whatever Accept says."""
    _, headers, body = get(qlever, PAGES, {"Accept": SPARQL_JSON}, action="tsv_export")
    assert headers["content-type"] == "text/tab-separated-values"
    assert body.splitlines()[0] == b"?s\t?n"


@pytest.mark.parametrize(
    ("method", "target", "headers", "body", "status", "text"),
    [
        ("GET", "/sparql", {}, "", 404, "Unknown path"),
        ("GET", "/?foo=1", {}, "", 400, "Unknown query parameters"),
        ("GET", "/?update=x", {}, "", 400, "SPARQL Update is not allowed as GET request."),
        ("GET", "/?query=ASK{}", {}, "", 400, "Failed to parse URL"),
        ("GET", "/?query=a&query=b", {}, "", 400, 'Parameter "query" must be given exactly once. Is: 2'),
        (
            "POST",
            "/?a=b",
            {"Content-Type": "application/x-www-form-urlencoded"},
            "query=a",
            400,
            "URL-encoded POST requests must not",
        ),
        (
            "POST",
            "/",
            {"Content-Type": "application/x-www-form-urlencoded"},
            "query=a&update=b",
            400,
            "Request must only contain one",
        ),
        ("POST", "/", {"Content-Type": "text/html"}, "x", 400, 'POST request with content type "text/html" not supported'),
        ("HEAD", "/?query=ASK%7B%7D", {}, "", 400, ""),
        ("PUT", "/", {}, "", 400, "Expecting a Graph Store Protocol request"),
        ("PATCH", "/", {}, "", 405, 'Request method "PATCH" not supported'),
        ("OPTIONS", "/", {}, "", 200, ""),
        ("GET", "/?query=ASK%7B%7D", {"Authorization": "Basic eDp5"}, "", 400, "Authorization header doesn't start with"),
        ("GET", "/?query=ASK%7B%7D", {"Authorization": "Bearer no"}, "", 403, "Access token was provided but it was invalid"),
        (
            "GET",
            "/?query=ASK%7B%7D&access-token=no",
            {"Authorization": "Bearer secret"},
            "",
            400,
            "Access token is specified both",
        ),
        ("GET", "/?cmd=rebuild-index", {}, "", 403, "The command `rebuild-index` requires a valid access token"),
        ("GET", "/?default-query-timeout=1h", {}, "", 403, "setting default-query-timeout requires a valid access token"),
        ("GET", "/?query=ASK%7B%7D&timeout=1h", {}, "", 403, "User submitted timeout was higher"),
    ],
)
def test_errors_before_an_operation_are_text(
    qlever: Qlever, method: str, target: str, headers: dict[str, str], body: str, status: int, text: str
) -> None:
    """Whatever goes wrong before an operation is known is text/plain, with its own words."""
    got, fields, answer = request(qlever.port, method, target, body.encode(), headers)
    assert (got, fields["content-type"]) == (status, "text/plain")
    assert answer.decode().startswith(text)


@pytest.mark.parametrize(
    ("query", "parameters", "status", "exception"),
    [
        ("SELECT * { ?s ?p ", {}, 400, "Invalid SPARQL query: "),
        ("SELECT * { ?s foaf:name ?o }", {}, 400, "Invalid SPARQL query: "),
        ("SELECT (<http://e.org/f>(1) AS ?x) {}", {}, 400, "Not supported: the function <http://e.org/f>"),
        ("SELECT * { <<?s ?p ?o>> ?q ?r }", {}, 400, "Not supported: RDF-star"),
        ("SELECT * { SERVICE ?x { ?s ?p ?o } }", {}, 400, "Not supported: SERVICE with a variable"),
        ("ASK {}", {"timeout": "30"}, 500, "Failed to convert string '30' to duration type."),
        ("ASK {}", {"send": "x"}, 500, "Invalid value for `send`"),
        ("SELECT * {" + " ?s ?p ?o ." * 65 + "}", {}, 500, "At most 64 triples allowed at the moment."),
    ],
)
def test_errors_of_an_operation_are_json(
    qlever: Qlever, query: str, parameters: dict[str, str], status: int, exception: str
) -> None:
    """Once the operation is known, an error is JSON with the echoed text; the parser's ones say where."""
    got, headers, body = get(qlever, query, None, **parameters)
    document = json.loads(body)
    assert (got, headers["content-type"]) == (status, "application/json")
    assert document["exception"].startswith(exception)
    assert (document["query"], document["status"]) == (query, "ERROR")
    assert list(document) == sorted(document)
    if status == 400 and "function" not in exception:
        assert set(document["metadata"]) == {"line", "positionInLine", "startIndex", "stopIndex"}


def test_what_only_qlever_understands_is_answered(qlever: Qlever) -> None:
    """The predeclared prefix, a magic predicate without triples, the language predicate and INTERNAL SORT BY work."""
    magic = "SELECT ?t { ?t ql:contains-word 'radium' }"
    assert json.loads(get(qlever, magic)[2])["results"]["bindings"][0]["t"]["value"] == "http://example.org/text/2"
    everything = json.loads(get(qlever, "SELECT ?p { ?s ?p ?o }")[2])["results"]["bindings"]
    assert not any("builtin-functions" in row["p"]["value"] for row in everything)
    german = PREFIX + "SELECT ?l { ex:dune @de@rdfs:label ?l }"
    assert [row["l"]["value"] for row in json.loads(get(qlever, german)[2])["results"]["bindings"]] == ["Der Wüstenplanet"]
    assert get(qlever, PREFIX + "SELECT ?n { ?s ex:pages ?n } INTERNAL SORT BY ?n")[0] == 200


def test_a_header_block_over_8_kib_drops_the_connection(qlever: Qlever) -> None:
    """8192 bytes of request line and fields are read; more close the connection without a byte."""
    head = b"GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: "
    fits = head + b"a" * (8192 - len(head) - 4) + b"\r\n\r\n"
    assert raw(qlever, fits).startswith(b"HTTP/1.1 200 ")
    assert raw(qlever, fits.replace(b"X: ", b"X: b")) == b""


def test_a_body_over_the_limit_is_the_one_answer_with_a_length(qlever: Qlever) -> None:
    """413 is text, has a content-length, and closes the connection."""
    qlever.body_limit = 10
    status, headers, body = post(qlever, "SELECT * { ?s ?p ?o }")
    assert (status, headers["content-length"]) == (413, str(len(body)))
    assert body.startswith(b"Request body size exceeds the allowed size")


def test_an_update_needs_the_token_and_counts_what_it_changed(qlever: Qlever) -> None:
    """403 JSON without the token; with it one account per operation, the delta counts going on; a repeat changes nothing."""
    text = "INSERT DATA { <http://e.org/a> <http://e.org/b> 1 } ; DELETE WHERE { <http://example.org/emma> ?p ?o }"
    status, headers, body = post(qlever, text, "update")
    assert (status, headers["content-type"]) == (403, "application/json")
    assert "requires a valid access token" in json.loads(body)["exception"]
    status, _, body = post(qlever, text, "update", Authorization="Bearer secret")
    first, second = json.loads(body)["operations"]
    assert status == 200
    assert first["delta-triples"]["difference"] == {"inserted": 1, "deleted": 0, "total": 1}
    assert second["delta-triples"]["after"] == {"inserted": 1, "deleted": 3, "total": 4}
    again = json.loads(post(qlever, text, "update", target="/?access-token=secret")[2])["operations"][0]["delta-triples"]
    assert again["difference"] == {"inserted": 0, "deleted": 0, "total": 0}
    assert again["before"] == second["delta-triples"]["after"]


def test_commands(qlever: Qlever) -> None:
    """Commands answer in JSON; the index id says what was indexed, not what was updated."""
    index = request(qlever.port, "GET", "/?cmd=get-index-id")
    assert index[2].startswith(b"#stand-in.")
    post(qlever, "INSERT DATA { <http://e.org/a> <http://e.org/b> 1 }", "update", Authorization="Bearer secret")
    assert request(qlever.port, "GET", "/?cmd=get-index-id")[2] == index[2]
    assert json.loads(request(qlever.port, "GET", "/?cmd=clear-delta-triples&access-token=secret")[2])["total"] == 0
    request(qlever.port, "GET", "/?default-query-timeout=1h&access-token=secret")
    assert json.loads(request(qlever.port, "GET", "/?cmd=get-settings")[2])["default-query-timeout"] == "1h"
    assert json.loads(request(qlever.port, "GET", "/?cmd=clear-cache")[2])["num-results-unpinned"] == 0


def test_a_slow_query_ends_with_429(qlever: Qlever) -> None:
    """The limit has a unit; over it the answer is 429 JSON."""
    qlever.faults.compute_s = 5.0
    status, _, body = get(qlever, PAGES, timeout="100ms")
    assert status == 429
    assert json.loads(body)["exception"].startswith("Operation timed out.")


def test_the_clock_runs_while_a_query_waits_for_the_only_worker(qlever: Qlever) -> None:
    """With one worker the second query waits, and its time with it."""
    qlever.faults.compute_s, qlever.faults.only_if = 0.5, b"slow"
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(get, qlever, "ASK {} # slow")
        time.sleep(0.1)
        started = time.monotonic()
        assert get(qlever, "ASK {}", timeout="100ms")[0] == 429
        assert time.monotonic() - started > 0.2
        assert slow.result()[0] == 200


def test_a_query_runs_to_its_end_when_the_client_has_gone(qlever: Qlever) -> None:
    """Closing the connection cancels nothing."""
    qlever.faults.compute_s = 0.3
    with socket.create_connection(("127.0.0.1", qlever.port)) as connection:
        connection.sendall(b"GET /?query=ASK%7B%7D HTTP/1.1\r\nHost: x\r\nQuery-Id: gone\r\n\r\n")
        time.sleep(0.1)
    assert qlever.finished == []
    until = time.monotonic() + 30.0
    while qlever.finished != ["gone"] and time.monotonic() < until:
        time.sleep(0.02)
    assert (qlever.finished, qlever.cancelled) == (["gone"], [])


def frame(text: bytes) -> bytes:
    return bytes([0x81, 0x80 | len(text)]) + b"\0\0\0\0" + text


@pytest.mark.parametrize("message", [b"cancel", b"cancel_on_close"])
def test_the_watch_socket_cancels_a_running_query(qlever: Qlever, message: bytes) -> None:
    """``cancel`` ends the query of that Query-Id with 429 at once; ``cancel_on_close`` when the socket closes."""
    qlever.faults.compute_s = 20.0
    with ThreadPoolExecutor() as pool:
        running = pool.submit(get, qlever, "ASK {}", {"Query-Id": "mine"})
        time.sleep(0.1)
        with socket.create_connection(("127.0.0.1", qlever.port), timeout=5.0) as watch:
            key = base64.b64encode(b"0123456789abcdef")
            watch.sendall(
                b"GET /watch/mine HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key + b"\r\n\r\n"
            )
            assert watch.recv(4096).startswith(b"HTTP/1.1 101 ")
            watch.sendall(frame(message))
        status, _, body = running.result(5.0)
    assert (status, qlever.cancelled) == (429, ["mine"])
    assert json.loads(body)["exception"].startswith("Operation was manually cancelled.")


def test_a_query_id_in_use_is_a_conflict(qlever: Qlever) -> None:
    """409 while the first query of that id runs; free again afterwards."""
    qlever.faults.compute_s, qlever.faults.only_if = 0.5, b"slow"
    with ThreadPoolExecutor() as pool:
        first = pool.submit(get, qlever, "ASK {} # slow", {"Query-Id": "x"})
        time.sleep(0.1)
        status, _, body = get(qlever, "ASK {}", {"Query-Id": "x"})
        assert (status, json.loads(body)["exception"]) == (409, "Query id 'x' is already in use!")
        assert first.result()[0] == 200
    assert get(qlever, "ASK {}", {"Query-Id": "x"})[0] == 200


def fill(server: Qlever, count: int) -> None:
    server.engine.load(
        "".join(f"<http://e.org/s> <http://e.org/filler> {number} .\n" for number in range(count)), "text/turtle"
    )


def test_an_error_late_in_an_export_is_text_behind_a_200(qlever: Qlever) -> None:
    """Up to the first megabyte an error is a status; after it, text at the end of a stream that ends normally."""
    fill(qlever, 20_000)
    query = "SELECT * { ?s <http://e.org/filler> ?o }"
    qlever.faults.export_error = "out of luck"
    status, _, body = get(qlever, query)
    assert status == 200
    assert len(body) > 1_000_000 and body.endswith(b"out of luck") and b"\n !!!!>># " in body
    qlever.faults.export_error_at = 1000
    status, _, body = get(qlever, query)
    assert (status, json.loads(body)["exception"]) == (500, "out of luck")


@pytest.mark.parametrize(
    ("offered", "coding"),
    [("gzip, deflate", "deflate"), ("gzip", "gzip"), ("gzip;q=1.0", None), ("identity", None), ("br", None)],
)
def test_compression_by_whole_tokens(qlever: Qlever, offered: str, coding: str | None) -> None:
    """deflate before gzip; a token with a quality is not recognised."""
    _, headers, body = get(qlever, PAGES, {"Accept-Encoding": offered})
    assert headers.get("content-encoding") == coding
    plain = zlib.decompress(body, wbits=47) if coding else body
    assert json.loads(plain)["meta"]["result-size-total"] == 2


def test_the_graph_store(qlever: Qlever) -> None:
    """PUT makes and replaces, POST adds, TSOP takes away, DELETE removes; Turtle and N-Triples, and only with the token."""
    target, turtle = "/?graph=http%3A%2F%2Fe.org%2Fg", {"Content-Type": "text/turtle", "Authorization": "Bearer secret"}

    def send(method: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        return request(qlever.port, method, target, body, headers)

    assert send("PUT", b"<http://a> <http://b> 1 .", {"Content-Type": "text/turtle"})[0] == 403
    assert send("PUT", b"<http://a> <http://b> 1 .", turtle)[0] == 201
    assert send("PUT", b"<http://a> <http://b> 2 .", turtle)[0] == 200
    assert send("POST", b"<http://a> <http://b> 3 .", turtle)[0] == 200
    assert send("TSOP", b"<http://a> <http://b> 2 .", turtle)[0] == 200
    assert send("POST", b"", turtle)[0] == 204
    assert send("POST", b"{}", {**turtle, "Content-Type": "application/ld+json"})[0] == 415
    status, headers, body = send("GET", None, {})
    assert (status, headers["content-type"]) == (200, "text/turtle")
    assert b'"3"' in body and b'"2"' not in body
    assert send("DELETE", None, turtle)[0] == 200
    assert send("DELETE", None, turtle)[0] == 404


def test_faults_and_the_record_of_requests(qlever: Qlever) -> None:
    """Requests are kept as they came; a fault holds for those it names only."""
    qlever.faults.only_if, qlever.faults.die_after_bytes = b"broken", 10
    with pytest.raises((ConnectionError, http.client.IncompleteRead)):
        get(qlever, PAGES + " # broken")
    assert get(qlever, PAGES)[0] == 200
    assert [seen.method for seen in qlever.requests] == ["GET", "GET"]
    assert qlever.requests[1].target == b"/?" + urllib.parse.urlencode({"query": PAGES}).encode()


def test_an_idle_connection_is_closed_without_a_word(qlever: Qlever) -> None:
    """After the keep-alive time the server closes, as a pool will find out."""
    qlever.keep_alive_s = 0.2
    with socket.create_connection(("127.0.0.1", qlever.port), timeout=5.0) as connection:
        connection.sendall(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
        received, started = b"", time.monotonic()
        while piece := connection.recv(4096):
            received += piece
    assert received.endswith(b"0\r\n\r\n")
    assert 0.1 < time.monotonic() - started < 4.0


def test_a_stand_in_can_stop_and_come_back_on_its_port() -> None:
    """The port is free at once and the data are still there."""
    server = Qlever(data=DATA)
    with server:
        port = server.port
        assert get(server, PAGES)[0] == 200
    with pytest.raises(ConnectionError):
        get(server, PAGES)
    with server:
        assert (server.port, get(server, PAGES)[0]) == (port, 200)
