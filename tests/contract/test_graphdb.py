"""What GraphDB has beyond SPARQL: its clients' first calls, statements, transactions, the monitor. Before the stand-in."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.contract.conftest import DIRECT, FORM, JSON, TURTLE, UPDATE, Answer, get
from tests.loopback.conftest import OK, Proxy, Stub, answering, wait_until
from tests.servers.conftest import DATA
from tests.servers.graphdb import Graphdb
from tests.servers.process import request

pytestmark = pytest.mark.loopback

R = "/repositories/test"
TRIPLE = b"<http://example.org/new> <http://example.org/pages> 1 ."


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Graphdb, Proxy, Proxy]]:
    with Graphdb(data=DATA) as server:
        settings = {"backend__kind": "graphdb", "backend__url": server.url, "backend__repository": server.repository}
        reader, writer = Proxy(**settings), Proxy(policy__allow_updates=True, **settings)
        yield server, reader, writer
        reader.close()
        writer.close()


@pytest.fixture
def server(servers: tuple[Graphdb, Proxy, Proxy]) -> Iterator[Graphdb]:
    servers[0].requests.clear()
    yield servers[0]
    servers[0].faults = type(servers[0].faults)()


@pytest.fixture
def reader(servers: tuple[Graphdb, Proxy, Proxy]) -> Proxy:
    return servers[1]


@pytest.fixture
def writer(servers: tuple[Graphdb, Proxy, Proxy]) -> Proxy:
    return servers[2]


@pytest.fixture
def behind() -> Iterator[tuple[Stub, Proxy]]:
    """A backend that says yes to everything, behind the adapter, with updates allowed."""
    backend = Stub(answering(OK))
    proxy = Proxy(
        backend__kind="graphdb", backend__url=backend.url, backend__repository="test", policy__allow_updates=True
    )
    yield backend, proxy
    proxy.close()
    backend.close()


@pytest.mark.parametrize(
    "path",
    ["/protocol", "/repositories", f"{R}/size", f"{R}/contexts", f"{R}/namespaces", f"{R}/health"],
)
def test_what_clients_ask_first_passes(server: Graphdb, reader: Proxy, path: str) -> None:
    """Status and body are the server's, its addresses ours; only reading is possible there."""
    status, _, body = reader.request("GET", path, Accept="*/*")
    assert (status, body) == request(
        server.port, "GET", path, headers={"Accept": "*/*", "Host": f"127.0.0.1:{reader.port}"}
    )[::2]
    assert status == 200
    for method in ("PUT", "POST", "DELETE"):
        status, headers, _ = reader.request(method, path, b"x" if method != "DELETE" else None, Content_Type="text/plain")
        assert status == 405 and headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", R),
        ("DELETE", R),
        ("PUT", "/repositories/other"),
        ("DELETE", "/repositories/other"),
        ("PUT", f"{R}/namespaces/x"),
        ("DELETE", f"{R}/namespaces"),
        ("POST", "/rest/repositories"),
        ("DELETE", "/rest/repositories/test"),
        ("POST", "/rest/login"),
        ("DELETE", "/rest/monitor/repository/test/query?query=x"),
        ("PUT", f"{R}/config"),
        ("PUT", f"{R}/rdf-graphs/../../other"),
        ("PUT", f"{R}/rdf-graphs/%2e%2e/%2e%2e/other"),
        ("PUT", f"{R}/rdf-graphs/..;a=b/..;/other"),
        ("PUT", f"{R}/rdf-graphs/x/..%2f..%2f..%2fother"),
        ("DELETE", f"{R}/transactions/../../other"),
    ],
)
def test_administration_is_never_forwarded(server: Graphdb, writer: Proxy, method: str, path: str) -> None:
    """Not even where updates are allowed, and not by a path that only begins as one of ours."""
    status, _, _ = writer.request(method, path, b"x" if method != "DELETE" else None, Content_Type=TURTLE)
    assert status in (404, 405)
    assert server.requests == [] and server.administered == []


def test_statements_are_read(server: Graphdb, reader: Proxy) -> None:
    """GET of the statements, by pattern; the parameters arrive as they were written."""
    target = f"{R}/statements?subj=%3Chttp://example.org/dune%3E&infer=false"
    status, _, body = reader.request("GET", target, Accept="application/n-triples")
    assert status == 200 and b"Dune" in body and b"Emma" not in body
    assert server.requests[-1].target == target.encode()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_raw_statements_are_written_with_permission_only(
    server: Graphdb, reader: Proxy, behind: tuple[Stub, Proxy], method: str
) -> None:
    """POST adds, PUT replaces all, DELETE removes all."""
    body = None if method == "DELETE" else TRIPLE
    status, _, answer = reader.request(method, f"{R}/statements", body, Content_Type=TURTLE)
    assert status == 403 and b"allow_updates" in answer and server.requests == []
    backend, allowed = behind
    assert allowed.request(method, f"{R}/statements", body, Content_Type=TURTLE)[0] == 200
    assert backend.requests[0].startswith(f"{method} {R}/statements HTTP/1.1".encode())


@pytest.mark.parametrize(
    ("query_string", "content_type", "body"),
    [
        ("", "application/x-rdftransaction", b"<transaction/>"),
        ("?update=LOAD%20%3Chttp%3A%2F%2F127.0.0.1%3A9%2F%3E", TURTLE, TRIPLE),
        ("", "application/sparql-update-1", b"LOAD <http://127.0.0.1:9/>"),
        ("", UPDATE, b"LOAD <http://127.0.0.1:9/>"),
        ("", FORM, b"update=LOAD+%3Chttp%3A%2F%2F127.0.0.1%3A9%2F%3E"),
        ("?update=CLEAR+ALL", FORM, b"update=LOAD+%3Chttp%3A%2F%2F127.0.0.1%3A9%2F%3E"),
        ("", "multipart/form-data; boundary=x", b"--x--"),
    ],
)
def test_no_update_hides_in_an_upload(
    behind: tuple[Stub, Proxy], query_string: str, content_type: str, body: bytes
) -> None:
    """What the server could take for an update is judged as one, or refused."""
    backend, proxy = behind
    status, _, _ = proxy.request("POST", f"{R}/statements{query_string}", body, Content_Type=content_type)
    assert status in (400, 403, 415) and backend.requests == []


STEP = f"{R}/transactions/7"


def test_transactions_need_permission(server: Graphdb, reader: Proxy) -> None:
    """From the first step on."""
    for method, path in (("POST", f"{R}/transactions"), ("PUT", f"{STEP}?action=COMMIT"), ("DELETE", STEP)):
        status, _, body = reader.request(method, path)
        assert status == 403 and b"allow_updates" in body
    assert server.requests == []


@pytest.mark.parametrize(
    ("method", "query_string", "content_type", "body"),
    [
        ("PUT", "?action=ADD&preserveNodeId=true", "application/x-binary-rdf", b"\x00\x01"),
        ("PUT", "?action=DELETE", "application/x-binary-rdf", b"\x00"),
        ("PUT", "?action=QUERY&query&infer=true", DIRECT + "; charset=utf-8", "ASK { ?s ?p 'é' }".encode()),
        ("POST", "?action=QUERY", FORM, b"query=ASK%7B%7D&infer=true"),
        ("PUT", "?action=UPDATE", UPDATE, b"DELETE WHERE { ?s ?p ?o }"),
        ("PUT", "?action=SIZE", "", None),
        ("PUT", "?action=PING", "", None),
        ("PUT", "?action=COMMIT", "", None),
        ("DELETE", "", "", None),
    ],
)
def test_a_step_of_a_transaction_passes_as_it_came(
    behind: tuple[Stub, Proxy], method: str, query_string: str, content_type: str, body: bytes | None
) -> None:
    """Target and body byte for byte."""
    backend, proxy = behind
    headers = {"Content_Type": content_type} if content_type else {}
    assert proxy.request(method, STEP + query_string, body, **headers)[0] == 200
    assert backend.requests[0].startswith(f"{method} {STEP}{query_string} HTTP/1.1\r\n".encode())
    assert backend.requests[0].endswith(b"\r\n\r\n" + (body or b""))


@pytest.mark.parametrize(
    ("query_string", "content_type", "body"),
    [
        ("?action=QUERY", DIRECT, b"ASK { SERVICE <http://127.0.0.1:9/> {} }"),
        ("?action=QUERY", DIRECT, b"CLEAR ALL"),
        ("?action=QUERY&query=ASK%7B%7D", DIRECT, b"ASK { SERVICE ?x {} }"),
        ("?action=QUERY&query=ASK%7BSERVICE%20?x%7B%7D%7D", "", b""),
        ("?action=QUERY", FORM, b"query=ASK%7BSERVICE+%3Fx%7B%7D%7D"),
        ("?action=QUERY", FORM, b"query=ASK%7B%7D&action=UPDATE&update=CLEAR+ALL"),
        ("?action=QUERY", UPDATE, b"CLEAR ALL"),
        ("?action=UPDATE", UPDATE, b"LOAD <http://127.0.0.1:9/>"),
        ("?action=UPDATE", UPDATE, b"ASK {}"),
        ("?action=UPDATE&update=CLEAR%20ALL", UPDATE, b"LOAD <http://127.0.0.1:9/>"),
        ("?action=ADD&action=UPDATE", UPDATE, b"LOAD <http://127.0.0.1:9/>"),
        ("?action=ADD&update=LOAD%20%3Cx%3E", TURTLE, TRIPLE),
        ("?action=update", UPDATE, b"LOAD <http://127.0.0.1:9/>"),
        ("?action=SOMETHING", "", b""),
        ("", UPDATE, b"LOAD <http://127.0.0.1:9/>"),
        ("?action=QUERY&queryLn=SeRQL", DIRECT, b"ASK {}"),
    ],
)
def test_each_step_of_a_transaction_is_judged(
    behind: tuple[Stub, Proxy], query_string: str, content_type: str, body: bytes
) -> None:
    """A query as a query, an update as an update; what could be read in two ways, or is unknown, is refused."""
    backend, proxy = behind
    headers = {"Content_Type": content_type} if content_type else {}
    status, _, _ = proxy.request("PUT", STEP + query_string, body or None, **headers)
    assert status in (400, 403, 415) and backend.requests == []


def test_a_new_transaction_has_an_address_of_ours() -> None:
    """Also if the server is below a path of its own, or does not look at Host."""
    location = b"http://127.0.0.1:%d/rdf4j-server/repositories/test/transactions/9"

    async def script(one, reader, writer):
        await one.read_request(reader)
        where = location % one.port
        writer.write(b"HTTP/1.1 201 Created\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % where)
        await writer.drain()
        await one.watch(reader)

    backend = Stub(script)
    proxy = Proxy(
        backend__kind="graphdb",
        backend__url=backend.url + "/rdf4j-server",
        backend__repository="test",
        policy__allow_updates=True,
    )
    try:
        status, headers, _ = proxy.request("POST", f"{R}/transactions")
        assert (status, headers["location"]) == (201, f"http://127.0.0.1:{proxy.port}{R}/transactions/9")
        assert backend.requests[0].startswith(b"POST /rdf4j-server/repositories/test/transactions ")
    finally:
        proxy.close()
        backend.close()


def ask(proxy: Proxy, text: str, **parameters: str) -> Answer:
    return proxy.request("GET", R + get(text, **parameters), Accept=JSON)


def test_inference_is_the_clients_choice(server: Graphdb, reader: Proxy) -> None:
    """``infer`` reaches the server, and its default is the server's."""
    text = "ASK { <http://example.org/dune> a <http://example.org/Book> }"
    assert json.loads(ask(reader, text)[2])["boolean"] is True
    assert json.loads(ask(reader, text, infer="false")[2])["boolean"] is False


def test_prefixes_of_the_server_are_known(server: Graphdb, reader: Proxy) -> None:
    """A text with an undeclared ``rdfs:`` is parsed, so that it is judged by its tree and not by its words."""
    status, _, body = ask(reader, "SELECT * { ?s rdfs:label 'SERVICE <x>' }")
    assert status == 200 and json.loads(body)["results"]["bindings"] == []
    assert ask(reader, "SELECT * { ?s rdfs:label ?l SERVICE rdfs:x {} }")[0] == 403


def test_another_query_language_is_refused(server: Graphdb, reader: Proxy) -> None:
    """What is not SPARQL cannot be judged."""
    assert ask(reader, "ASK {}", queryLn="SPARQL")[0] == 200
    assert ask(reader, "ASK {}", queryLn="SeRQL")[0] == 403


@pytest.mark.parametrize("ending", ["503", "empty", "truncated", "nothing"])
def test_a_time_limit_of_the_server_is_told_as_it_tells_it(server: Graphdb, reader: Proxy, ending: str) -> None:
    """503 with its words, or a 200 with too few rows: nothing is made of it that is not there."""
    server.faults.compute_s, server.faults.on_timeout, server.query_timeout_s = 0.3, ending, 0.1  # type: ignore[assignment]
    try:
        text = "SELECT * { ?s ?p ?o } ORDER BY ?s"
        status, _, body = ask(reader, text)
        assert status == (503 if ending == "503" else 200)
        assert body == {"503": b"Query evaluation took too long", "nothing": b""}.get(ending, body)
        if ending == "truncated":
            with pytest.raises(ValueError):
                json.loads(body)
    finally:
        server.query_timeout_s = 0.0


@pytest.mark.parametrize("alias", [None, "mine"])
def test_a_client_that_leaves_stops_its_query(server: Graphdb, reader: Proxy, alias: str | None) -> None:
    """By the track alias, ours or its own, and the monitor."""
    server.faults.compute_s = 20.0
    server.aborted.clear()
    header = b"" if alias is None else b"X-GraphDB-Track-Alias: mine\r\n"
    client = reader.connect(b"GET " + (R + get("ASK { ?s ?p ?o }")).encode() + b" HTTP/1.1\r\nHost: a\r\n" + header + b"\r\n")
    wait_until(lambda: any(b"ASK" in r.target for r in server.requests))  # beside queries of our own
    [asked] = [r for r in server.requests if b"ASK" in r.target]
    named = asked.header("x-graphdb-track-alias")
    assert named is not None and (alias is None or named == alias)
    started = time.monotonic()
    client.close()
    wait_until(lambda: server.aborted == [named], 5)
    assert time.monotonic() - started < 3


def test_logins_pass(server: Graphdb, reader: Proxy) -> None:
    """With security on, the client's own login decides, and the server's 401 comes back with its challenge."""
    server.users = {"ada": "secret"}
    try:
        status, headers, _ = ask(reader, "ASK {}")
        assert status == 401 and headers["www-authenticate"].startswith("Basic")
        status, _, _ = reader.request("GET", R + get("ASK {}"), Accept=JSON, Authorization="Basic YWRhOnNlY3JldA==")
        assert status == 200
    finally:
        server.users = None


def test_braces_in_a_target_are_escaped(server: Graphdb, reader: Proxy) -> None:
    """Tomcat refuses them; the text means the same."""
    client = reader.connect(f"GET {R}?query=ASK{{}} HTTP/1.1\r\nHost: a\r\nAccept: {JSON}\r\n\r\n".encode())
    assert client.recv(65536).startswith(b"HTTP/1.1 200")
    client.close()
    assert server.requests[-1].target == f"{R}?query=ASK%7B%7D".encode()


def test_explicit_accept_and_timeout() -> None:
    """If configured: one type upstream, the one that the client likes best; our limit where the client gives none."""
    backend = Stub(answering(OK))
    proxy = Proxy(
        backend__kind="graphdb",
        backend__url=backend.url,
        backend__repository="test",
        backend__accept="explicit",
        backend__forward_timeout=True,
        backend__timeout_s=30.0,
    )
    try:
        text = "SELECT * {}"
        proxy.request("GET", R + get(text), Accept="*/*;q=0.1, text/csv;q=0.9, application/sparql-results+xml;q=0.5")
        proxy.request("GET", R + get("CONSTRUCT {} {}", timeout="3"))
        proxy.request("POST", R, b"query=ASK%7B%7D", Content_Type=FORM)
        first, second, third = backend.requests
        assert b"\r\naccept: text/csv\r\n" in first and first.split(b" ")[1].endswith(b"&timeout=30")
        assert b"\r\naccept: text/turtle\r\n" in second and second.count(b"timeout=") == 1
        assert third.endswith(b"\r\n\r\nquery=ASK%7B%7D&timeout=30") and b"accept: application/sparql-results+json\r\n" in third
    finally:
        proxy.close()
        backend.close()


def test_graph_names_arrive_as_they_are(behind: tuple[Stub, Proxy]) -> None:
    """Direct and indirect names of graphs, with their own escapes."""
    backend, proxy = behind
    for path in (f"{R}/rdf-graphs/a%20b", f"{R}/rdf-graphs/service?graph=" + quote("http://e/ü", safe="")):
        assert proxy.request("GET", path)[0] == 200
        assert backend.requests[-1].split(b" ")[1] == path.encode()
