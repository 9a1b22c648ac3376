"""What only QLever does: tokens, commands and settings in the URL, one worker, queries that outlive their client. Stand-in."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from tests.contract.conftest import DIRECT, FORM, JSON, TOKEN, TURTLE, UPDATE, get
from tests.loopback.conftest import Proxy, wait_until
from tests.servers.conftest import DATA
from tests.servers.qlever import Qlever

pytestmark = pytest.mark.loopback


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Qlever, Proxy, Proxy]]:
    with Qlever(data=DATA) as server:
        settings = {"backend__kind": "qlever", "backend__url": server.url, "backend__authorization": TOKEN}
        reader, writer = Proxy(**settings), Proxy(policy__allow_updates=True, policy__allowed_parameters=["send"], **settings)
        yield server, reader, writer
        reader.close()
        writer.close()


@pytest.fixture
def server(servers: tuple[Qlever, Proxy, Proxy]) -> Iterator[Qlever]:
    servers[0].requests.clear()
    yield servers[0]
    servers[0].faults = type(servers[0].faults)()


@pytest.fixture
def reader(servers: tuple[Qlever, Proxy, Proxy]) -> Proxy:
    return servers[1]


@pytest.fixture
def writer(servers: tuple[Qlever, Proxy, Proxy]) -> Proxy:
    return servers[2]


@pytest.mark.parametrize(
    "parameter",
    ["cmd=clear-cache", "cmd=stats", "access-token=secret", "send=1", "default-query-timeout=1h", "cache-max-size=1%20kB"],
)
@pytest.mark.parametrize("path", ["/", "/sparql", "/ping", "/?graph=x"])
def test_clients_do_not_administer(server: Qlever, reader: Proxy, path: str, parameter: str) -> None:
    """Commands, tokens, settings and what cuts answers unnoticed: refused, in the URL and in a form, on every path."""
    joint = "&" if "?" in path else "?"
    for suffix in ("", "&query=ASK%7B%7D"):
        status, _, body = reader.request("GET", f"{path}{joint}{parameter}{suffix}")
        assert status in (400, 403) and (b"allowed_parameters" in body or b"query=" in body)
    if path in ("/", "/sparql"):
        form = f"query=ASK%7B%7D&{parameter}".encode()
        assert reader.request("POST", path, form, Content_Type=FORM)[0] == 403
        status, _, _ = reader.request("GET", f"{path}?query=ASK%7B%7D&%20{parameter}")
        assert status == 403
    assert server.requests == []


def test_a_parameter_that_is_allowed_passes(server: Qlever, writer: Proxy) -> None:
    """``allowed_parameters = ["send"]``: the client has its answer cut, as it asks."""
    text = "SELECT * { ?s ?p ?o }"
    assert len(json.loads(writer.request("GET", "/" + get(text, send="2"), Accept=JSON)[2])["results"]["bindings"]) == 2
    assert writer.request("GET", "/" + get(text, cmd="stats"))[0] == 403


def test_the_token_goes_where_it_is_needed(server: Qlever, writer: Proxy) -> None:
    """Reads carry none, and no client's login either, which would fail them; updates and graph store writes carry ours."""
    for login in ("Basic eDp5", "Bearer wrong"):
        assert writer.request("GET", "/" + get("ASK {}"), Accept=JSON, Authorization=login)[0] == 200
    update = b"INSERT DATA { <http://e/a> <http://e/b> 1 } ; DELETE DATA { <http://e/a> <http://e/b> 1 }"
    assert writer.request("POST", "/", update, Content_Type=UPDATE, Authorization="Basic eDp5")[0] == 200
    assert writer.request("PUT", "/?graph=http://e/g", b"<http://e/a> <http://e/b> 1 .", Content_Type=TURTLE)[0] in (200, 201)
    assert writer.request("DELETE", "/?graph=http://e/g")[0] == 200
    assert [r.header("authorization") for r in server.requests] == [None, None, TOKEN, TOKEN, TOKEN]


def test_a_form_has_no_query_string_upstream(server: Qlever, reader: Proxy) -> None:
    """QLever refuses both together; the members of the URL follow those of the form."""
    form = urlencode({"query": "ASK {}"}).encode()
    assert reader.request("POST", "/?timeout=5s&x=%C3%A9", form, Accept=JSON, Content_Type=FORM)[0] == 200
    assert (server.requests[-1].target, server.requests[-1].body) == (b"/", form + b"&timeout=5s&x=%C3%A9")


def test_a_long_head_costs_no_answer(server: Qlever, reader: Proxy) -> None:
    """It would drop the connection without a word."""
    assert reader.request("GET", "/" + get("ASK {} #" + "x" * 9_000), Accept=JSON)[0] == 200
    assert server.requests[-1].method == "POST"


@pytest.mark.parametrize(
    ("target", "status", "text"),
    [
        (get("SELECT * {"), 400, b'"exception"'),
        (get("ASK {}", timeout="5"), 500, b'"exception"'),
        (get("ASK {}", timeout="9h"), 403, b"User submitted timeout was higher"),
        ("?nothing=1", 400, b"Unknown query parameters"),
        ("", 404, b"Unknown path"),
    ],
)
def test_errors_are_text_or_json_as_it_has_them(server: Qlever, reader: Proxy, target: str, status: int, text: bytes) -> None:
    """QLever's own words and shape."""
    got, _, body = reader.request("GET", "/" + target)
    assert got == status and text in body


def test_an_error_within_the_result_passes_as_it_is(server: Qlever, reader: Proxy) -> None:
    """QLever writes it into the body and ends it well; the bytes are the client's to read."""
    server.faults.export_error, server.faults.export_error_at = "no more", 1_200_000
    values = " ".join(f'"{i:04}{"x" * 60}"' for i in range(200))
    text = f"SELECT * {{ VALUES ?a {{ {values} }} VALUES ?b {{ {values} }} }} LIMIT 20000"
    status, _, body = reader.request("POST", "/", text.encode(), Accept=JSON, Content_Type=DIRECT)
    assert status == 200 and b"!!!!>>#" in body and b"no more" in body


def test_liveness(server: Qlever, reader: Proxy) -> None:
    """``/ping`` is QLever's own, and runs nothing."""
    assert reader.request("GET", "/ping") [2] == b"This QLever server is up and running\n"
    assert reader.request("POST", "/ping", b"query=ASK%7B%7D", Content_Type=FORM)[0] == 405
    assert reader.request("GET", "/metrics")[0] == reader.request("GET", "/watch/x")[0] == 404


@pytest.mark.parametrize("name", [None, "mine"])
def test_a_client_that_leaves_stops_its_query(server: Qlever, reader: Proxy, name: str | None) -> None:
    """By its Query-Id, ours or its own; the one worker is free for the next at once."""
    server.faults.compute_s, server.faults.only_if = 20.0, b"%23slow"
    server.cancelled.clear()
    header = b"" if name is None else b"Query-Id: mine\r\n"
    target = "/" + get("ASK { ?s ?p ?o } #slow")
    client = reader.connect(b"GET " + target.encode() + b" HTTP/1.1\r\nHost: a\r\n" + header + b"\r\n")
    wait_until(lambda: len(server.requests) == 1)
    identifier = server.requests[0].header("query-id")
    assert identifier is not None and (name is None or identifier == name)
    started = time.monotonic()
    client.close()
    wait_until(lambda: server.cancelled == [identifier], 5)
    assert reader.request("GET", "/" + get("ASK {}"), Accept=JSON)[0] == 200
    assert time.monotonic() - started < 4


def test_our_own_limit_stops_the_query() -> None:
    """A query that we give up is given up by the server too."""
    with Qlever(data=DATA) as server:
        server.faults.compute_s = 20.0
        proxy = Proxy(backend__kind="qlever", backend__url=server.url, backend__timeout_s=0.5)
        try:
            assert proxy.request("GET", "/" + get("ASK { ?s ?p ?o }"))[0] == 504
            wait_until(lambda: len(server.cancelled) == 1, 5)
        finally:
            proxy.close()


def test_predeclared_prefix(server: Qlever, reader: Proxy) -> None:
    """``ql:`` needs no declaration to be judged by the tree."""
    text = "SELECT * { ?t ql:contains-word 'service <x>' }"
    assert reader.request("GET", "/" + get(text), Accept=JSON)[0] == 200
