"""A backend that fails, a client that leaves: a clear error or a visibly broken transfer, and the process lives."""

import asyncio
import http.client
import json
import socket
import time

import pytest

from tests.loopback.conftest import OK, answering, wait_until

pytestmark = pytest.mark.loopback

ASK = "/sparql?query=ASK%7B%7D"
UPDATE = b"INSERT DATA { <http://a> <http://b> <http://c> }"
GARBAGE = {
    "not HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
    "length and chunked": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    "bare line feeds": b"HTTP/1.1 200 OK\ncontent-length: 2\n\n{}",
    "folded field": b"HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 2\r\n\r\n{}",
    "status 999": b"HTTP/1.1 999 No\r\ncontent-length: 2\r\n\r\n{}",
    "status 600": b"HTTP/1.1 600 No\r\ncontent-length: 2\r\n\r\n{}",
    "status 099": b"HTTP/1.1 099 No\r\ncontent-length: 2\r\n\r\n{}",
    "status 000": b"HTTP/1.1 000 No\r\ncontent-length: 2\r\n\r\n{}",
    "gzip, chunked": b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "gzip and chunked": b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "gzip to the end": b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n{}",
    "chunked, gzip": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, gzip\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "chunked twice": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("raw", GARBAGE.values(), ids=GARBAGE)
def test_malformed_http_is_502(serve, stub, raw):
    """What is not HTTP/1.1 by the letter becomes a problem, not a guess."""
    status, headers, body = serve(stub(answering(raw)).url).request("GET", ASK)
    problem = json.loads(body)
    assert status == problem["status"] == 502 and headers["content-type"] == "application/problem+json"
    assert problem["request_id"] == headers["x-request-id"]
    assert headers.get_all("access-control-allow-origin") == ["*"]


def test_trailers_are_no_fields_of_the_head(serve, stub):
    """What follows a chunked body cannot become a field of the answer; the connection is used again."""
    raw = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx-late: 1\r\nset-cookie: a=b\r\n\r\n"
    backend = stub(answering(raw, OK))
    proxy = serve(backend.url)
    status, headers, body = proxy.request("GET", ASK)
    assert (status, body) == (200, b"{}") and not {"x-late", "set-cookie"} & {n.lower() for n in headers}
    assert proxy.request("GET", ASK)[2] == b"{}" and backend.connections == 1


@pytest.mark.parametrize("status", [100, 200, 204, 299, 418, 451, 499, 520, 599])
def test_status_without_a_name_is_passed_on(serve, stub, status):
    """Any status of three digits in the five classes is an answer, whether it has a name or not."""
    raw = b"HTTP/1.1 %d x\r\n%b\r\n" % (status, b"" if status in (100, 204) else b"content-length: 0\r\n")
    sent = raw + OK if status == 100 else raw
    assert serve(stub(answering(sent)).url).request("GET", ASK)[0] == (200 if status == 100 else status)


@pytest.mark.parametrize("hosts", [b"", b"Host: a\r\nHost: b\r\n", b"Host: a\r\n" * 2], ids=["none", "two", "same twice"])
@pytest.mark.parametrize("target", [ASK, "/", "/health"])
def test_one_host_in_every_request(serve, stub, hosts, target):
    """RFC 9112, 3.2: 400, and the backend does not hear of it. HTTP/1.0 needs none."""
    backend = stub(answering(OK))
    proxy = serve(backend.url)
    with proxy.connect(b"GET %b HTTP/1.1\r\n%bConnection: close\r\n\r\n" % (target.encode(), hosts)) as client:
        assert client.makefile("rb").read().startswith(b"HTTP/1.1 400 ")
    assert backend.requests == []
    if not hosts and target == ASK:
        with proxy.connect(b"GET %b HTTP/1.0\r\n\r\n" % target.encode()) as client:
            assert client.makefile("rb").read().endswith(b"{}")


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\nXX\r\n",
    ],
    ids=["length", "chunked", "bad chunk"],
)
def test_death_within_the_body_is_visible(serve, stub, raw):
    """A body that ends early is never passed on as a complete one; the next request is served."""

    async def script(one, reader, writer):
        await one.read_request(reader)
        writer.write(OK if len(one.requests) > 1 else raw)
        await writer.drain()

    proxy = serve(stub(script).url)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        proxy.request("GET", ASK)
    assert proxy.request("GET", ASK)[2] == b"{}"


def test_silence_is_504(serve, stub):
    """No answer within backend.timeout_s is a timeout, and the backend connection is closed."""

    async def script(one, reader, writer):
        await one.read_request(reader)
        await one.watch(reader)

    backend = stub(script)
    status, _, body = serve(backend.url, backend__timeout_s=0.3).request("GET", ASK)
    assert status == 504 and json.loads(body)["title"] == "Backend timeout"
    assert backend.lost.wait(2)


def test_silence_within_the_body_breaks_the_transfer(serve, stub):
    """A backend that stops in the middle of a body is given up; the client sees an incomplete body."""

    async def script(one, reader, writer):
        await one.read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
        await one.watch(reader)

    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        serve(stub(script).url, backend__idle_timeout_s=0.3).request("GET", ASK)


def test_refused_connection_is_502_and_the_process_lives(serve):
    """Without a backend there are problems, an unready /-/ready, and a live /-/live."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    proxy = serve(f"http://127.0.0.1:{port}")
    assert proxy.request("GET", ASK)[0] == 502
    status, _, body = proxy.request("GET", "/-/ready")
    assert status == 503 and "does not answer" in json.loads(body)["reasons"][0]
    assert proxy.request("GET", "/-/live")[0] == 200


async def closes_after_each(one, reader, writer):
    """Answers once, promising to keep the connection, and closes it."""
    await one.read_request(reader)
    writer.write(OK)
    await writer.drain()


async def dies_on_reuse(one, reader, writer):
    """Answers once; the second request on a connection gets nothing but its end."""
    await one.read_request(reader)
    writer.write(OK)
    await writer.drain()
    await one.read_request(reader)


def test_closed_idle_connection_costs_nothing(serve, stub):
    """A server that drops idle connections is simply connected to again."""
    backend = stub(closes_after_each)
    proxy = serve(backend.url)
    for _ in range(3):
        assert proxy.request("GET", ASK)[0] == 200
        time.sleep(0.05)
    assert len(backend.requests) == 3


def test_read_is_repeated_once_on_a_dead_connection(serve, stub):
    """A query that meets a dead kept connection is sent again on a new one, also when it came by POST."""
    backend = stub(dies_on_reuse)
    proxy = serve(backend.url)
    assert proxy.request("GET", ASK)[0] == 200
    assert proxy.request("POST", "/query", b"ASK {}", Content_Type="application/sparql-query")[0] == 200
    assert len(backend.requests) == 3  # the second request was seen twice
    assert backend.requests[1] == backend.requests[2]


def test_update_is_never_sent_twice(serve, stub):
    """An update gets a new connection, and one that dies without an answer is an error, not a repetition."""

    async def script(one, reader, writer):
        request = await one.read_request(reader)
        if b"INSERT" not in request:
            writer.write(OK)
            await writer.drain()
            await one.watch(reader)

    backend = stub(script)
    proxy = serve(backend.url, policy__allow_updates=True)
    assert proxy.request("GET", ASK)[0] == 200
    assert proxy.request("POST", "/update", UPDATE, Content_Type="application/sparql-update")[0] == 502
    assert sum(b"INSERT" in request for request in backend.requests) == 1


def test_client_that_leaves_before_the_first_byte_closes_the_backend(serve, stub):
    """The backend's connection goes as soon as the client's does, though nothing was sent yet."""

    async def script(one, reader, writer):
        await one.read_request(reader)
        await one.watch(reader)

    backend = stub(script)
    client = serve(backend.url).connect(b"GET " + ASK.encode() + b" HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_until(lambda: len(backend.requests) == 1)
    assert not backend.lost.is_set()
    client.close()
    assert backend.lost.wait(1)


def test_client_that_leaves_within_the_body_closes_the_backend(serve, stub):
    """Likewise in the middle of an endless result."""

    async def script(one, reader, writer):
        await one.read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"5\r\nhello\r\n")
            await writer.drain()
            await asyncio.sleep(0.005)

    backend = stub(script)
    client = serve(backend.url).connect(b"GET " + ASK.encode() + b" HTTP/1.1\r\nHost: a\r\n\r\n")
    assert b"200 OK" in client.recv(1000)
    client.close()
    assert backend.lost.wait(2)


def test_slow_reader_holds_the_backend_back(serve, stub):
    """A client that does not read stops the backend; nothing piles up in between."""
    sent = 0

    async def script(one, reader, writer):
        nonlocal sent
        await one.read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 200000000\r\n\r\n")
        for _ in range(200):
            writer.write(b"x" * 1_000_000)
            await writer.drain()
            sent += 1_000_000

    client = serve(stub(script).url).connect(b"GET " + ASK.encode() + b" HTTP/1.1\r\nHost: a\r\n\r\n")
    assert b"200 OK" in client.recv(1000)
    time.sleep(0.5)
    before = sent
    time.sleep(0.3)
    assert sent == before < 60_000_000  # kernel buffers on both hops, and ours
    client.close()


def test_all_connections_busy_is_503_with_retry_after(serve, stub):
    """More requests than connections wait, and are told when the wait is over without success."""

    async def script(one, reader, writer):
        await one.read_request(reader)
        await one.watch(reader)

    backend = stub(script)
    proxy = serve(backend.url, backend__max_connections=1, load__max_wait_s=0.2)
    proxy.app.datasets[0].backend.pool.queue_s = 0.2
    client = proxy.connect(b"GET " + ASK.encode() + b" HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_until(lambda: len(backend.requests) == 1)
    status, headers, _ = proxy.request("GET", "/sparql?query=ASK%7B%3Fs%20%3Fp%201%7D")  # the same one would join the first
    assert status == 503 and int(headers["retry-after"]) >= 1
    client.close()
