"""The rest of the table of peers: what only a backend of raw bytes can show, behind every adapter.

Headers, statuses, faults, and clients that leave. After each check the process lives: the fixture ``front`` sees to it.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket

import pytest

from tests.contract.conftest import DIRECT, FORM, UPDATE, Front
from tests.loopback.conftest import OK, answering, wait_until

pytestmark = pytest.mark.loopback

ASK = "/sparql?query=ASK%20%7B%7D"


def fields_of(raw: bytes) -> dict[bytes, bytes]:
    lines = raw.split(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    return {name: value for name, _, value in (line.partition(b": ") for line in lines)}


def test_every_parameter_reaches_the_backend(front: Front) -> None:
    """In their order, with their repeats, in the client's own encoding."""
    rest = "timeout=5&x=%C3%A9+y&x=2&named-graph-uri=http%3A%2F%2Fb&default-graph-uri=http%3A%2F%2Fa&default-graph-uri=c"
    stub, proxy = front(answering(OK))
    assert proxy.request("GET", f"{ASK}&{rest}")[0] == 200
    assert stub.requests[0].split(b" ")[1].endswith(f"query=ASK%20%7B%7D&{rest}".encode())


def test_who_the_client_is_reaches_the_backend(front: Front) -> None:
    """User-Agent, Accept and unknown fields as they are; Forwarded and X-Forwarded-For grow by one; no hop-by-hop field."""
    stub, proxy = front(answering(OK))
    sent = {"User_Agent": "me/1", "Accept": "text/csv;q=0.3", "X_Odd": "ä".encode(), "TE": "trailers"}
    proxy.request("GET", ASK, X_Forwarded_For="9.9.9.9", **sent)
    fields = fields_of(stub.requests[0])
    assert fields[b"user-agent"] == b"me/1" and fields[b"accept"] == b"text/csv;q=0.3" and fields[b"x-odd"] == "ä".encode()
    assert fields[b"x-forwarded-for"] == b"9.9.9.9, 127.0.0.1" and fields[b"forwarded"] == b"for=127.0.0.1;proto=http"
    assert b"te" not in fields


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("pass", b"Basic Y2xpZW50"), ("drop", None), ("replace", b"Basic b3Vycw=="), ("auto", b"Basic Y2xpZW50")],
)
def test_authorization(front: Front, adapter: str, policy: str, expected: bytes | None) -> None:
    """Passed, dropped or replaced; by default passed, but for QLever, which refuses every login."""
    settings = {"backend__client_authorization": policy, "backend__authorization": "Basic b3Vycw=="}
    stub, proxy = front(answering(OK), **settings)
    assert proxy.request("GET", ASK, Authorization="Basic Y2xpZW50")[0] == 200
    if policy == "auto" and adapter == "qlever":
        expected = None
    assert fields_of(stub.requests[0]).get(b"authorization") == expected


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nCache-Control: max-age=60\r\nX-SPARQL-MaxRows: 10\r\nVary: Accept\r\n",
        b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Type: text/plain\r\n",
        b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\n",
        b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Disposition: attachment; filename=query-result.srj\r\n",
    ],
    ids=["caching", "429", "500", "503", "disposition"],
)
def test_the_backends_answer_comes_back(front: Front, head: bytes) -> None:
    """Status, end-to-end fields and body; nothing is added but the request id and CORS."""
    body = b'{"exception": "as it is \xc3\xa9"}'
    _, proxy = front(answering(head + b"Content-Length: %d\r\n\r\n" % len(body) + body))
    status, headers, got = proxy.request("GET", ASK)
    assert (status, got) == (int(head.split(b" ")[1]), body)
    sent = {tuple(line.decode().split(": ", 1)) for line in head.split(b"\r\n")[1:-1]}
    ours = {"access-control-allow-origin", "access-control-expose-headers", "x-request-id", "content-length"}
    assert {(n.lower(), v) for n, v in headers.items() if n.lower() not in ours} == {(n.lower(), v) for n, v in sent}


def test_gzip_end_to_end(front: Front) -> None:
    """The client's Accept-Encoding goes out, the coded body comes back as it is."""
    packed = gzip.compress(b'{"head":{},"boolean":true}')
    raw = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed
    stub, proxy = front(answering(raw))
    status, headers, body = proxy.request("GET", ASK, Accept_Encoding="gzip, br")
    assert (status, body, headers["content-encoding"]) == (200, packed, "gzip")
    assert fields_of(stub.requests[0])[b"accept-encoding"] == b"gzip, br"


@pytest.mark.parametrize("size", [8_000, 40_000])
def test_a_long_get_becomes_a_post(front: Front, size: int) -> None:
    """Beyond what the servers take in a head; byte for byte the same parameters, as a form."""
    stub, proxy = front(answering(OK))
    query_string = "query=ASK%7B%7D%23" + "x" * size + "&timeout=3"
    assert proxy.request("GET", "/sparql?" + query_string)[0] == 200
    assert stub.requests[0].startswith(b"POST ") and stub.requests[0].endswith(b"\r\n\r\n" + query_string.encode())
    assert fields_of(stub.requests[0])[b"content-type"].startswith(FORM.encode())


def test_the_first_byte_comes_before_the_second_is_there(front: Front) -> None:
    """A result that takes long begins when the backend begins it."""

    async def script(one, reader, writer):
        await one.read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        await one.wait_for_go()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    stub, proxy = front(script)
    client = proxy.connect(b"GET " + ASK.encode() + b" HTTP/1.1\r\nHost: a\r\n\r\n")
    got = b""
    while b"first" not in got:
        got += client.recv(65536)
    stub.go.set()
    client.close()


@pytest.mark.parametrize("begun", [False, True], ids=["before the first byte", "within the body"])
def test_a_client_that_leaves_closes_the_backend(front: Front, begun: bool) -> None:
    """At once, and whether or not the answer has begun."""

    async def script(one, reader, writer):
        request = await one.read_request(reader)
        if b"ASK" in request and begun:
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
            await writer.drain()
        await one.watch(reader)

    stub, proxy = front(script)
    client = proxy.connect(b"GET " + ASK.encode() + b" HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_until(lambda: len(stub.requests) == 1)
    if begun:
        assert b"200 OK" in client.recv(1000)
    assert not stub.lost.is_set()
    client.close()
    assert stub.lost.wait(2)


def test_a_backend_that_dies_within_the_body_breaks_the_transfer(front: Front) -> None:
    """The client sees an unfinished transfer, never a complete 200."""

    async def script(one, reader, writer):
        await one.read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
        await writer.drain()
        await asyncio.sleep(0.05)

    _, proxy = front(script)
    client = proxy.connect(b"GET " + ASK.encode() + b" HTTP/1.1\r\nHost: a\r\n\r\n")
    got = b""
    while piece := client.recv(65536):
        got += piece
    assert got.startswith(b"HTTP/1.1 200") and b"hello" in got and not got.endswith(b"0\r\n\r\n")
    client.close()


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", 502),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 502),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}", 502),
    ],
    ids=["not HTTP", "length and chunks", "two lengths"],
)
def test_malformed_http_is_a_502(front: Front, raw: bytes, status: int) -> None:
    """A problem, in JSON, with one Access-Control-Allow-Origin."""
    _, proxy = front(answering(raw))
    got, headers, body = proxy.request("GET", ASK)
    assert (got, json.loads(body)["status"]) == (status, status)
    assert headers["content-type"] == "application/problem+json"
    assert headers.get_all("access-control-allow-origin") == ["*"]


def test_silence_is_a_504(front: Front) -> None:
    """A backend that hangs is given up at its limit."""

    async def script(one, reader, writer):
        await one.read_request(reader)
        await one.watch(reader)

    _, proxy = front(script, backend__timeout_s=0.3)
    status, headers, body = proxy.request("GET", ASK)
    assert (status, headers["content-type"]) == (504, "application/problem+json") and b"0.3" in body


def test_a_backend_that_refuses_is_a_502_and_we_are_not_ready(front: Front) -> None:
    """And readiness says so; the process goes on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}/"
    _, proxy = front(answering(OK), backend__url=nobody)
    for _ in range(3):
        status, headers, _ = proxy.request("GET", ASK)
        assert (status, headers["content-type"]) == (502, "application/problem+json")
    assert proxy.request("GET", "/-/ready")[0] == 503


def test_an_update_is_sent_once(front: Front) -> None:
    """Not again on a dead connection, whoever might have got it."""

    async def script(one, reader, writer):
        await one.read_request(reader)
        if one.connections == 1:
            writer.write(OK)
            await writer.drain()
            await one.read_request(reader)
        # and closes without an answer

    stub, proxy = front(script, policy__allow_updates=True)
    assert proxy.request("GET", ASK)[0] == 200
    status, _, _ = proxy.request("POST", "/sparql", b"INSERT DATA {}", Content_Type=UPDATE)
    assert status == 502 and sum(b"INSERT" in request for request in stub.requests) == 1


def test_a_read_on_a_dead_idle_connection_is_repeated_once(front: Front) -> None:
    """A backend that drops idle connections costs nobody an answer."""

    async def script(one, reader, writer):
        await one.read_request(reader)
        if one.connections == 1:
            writer.write(OK)
            await writer.drain()
            await one.read_request(reader)
            return
        writer.write(OK)
        await writer.drain()
        await one.watch(reader)

    stub, proxy = front(script)
    assert proxy.request("GET", ASK)[0] == 200
    assert proxy.request("POST", "/sparql", b"ASK {}", Content_Type=DIRECT)[0] == 200
    assert stub.connections == 2


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: 6\r\nContent-Length: 7\r\n\r\nASK {}",
        b"Transfer-Encoding: gzip, chunked\r\nContent-Length: 6\r\n\r\nASK {}",
    ],
)
def test_request_smuggling_ends_at_us(front: Front, framing: bytes) -> None:
    """Two readings of where a request ends reach no backend."""
    stub, proxy = front(answering(OK))
    client = proxy.connect(b"POST /sparql HTTP/1.1\r\nHost: a\r\nContent-Type: application/sparql-query\r\n" + framing)
    client.settimeout(3)
    assert b" 400 " in client.recv(65536).split(b"\r\n")[0]
    client.close()
    assert stub.requests == []
