"""Several requests on one connection of a client: each gets its own answer, nothing else, and no more than it takes."""

import asyncio
import resource
import time

import pytest

from tests.loopback.conftest import OK, answering, wait_until
from tests.loopback.test_direct import ASK, GET, LAST, read_all

pytestmark = pytest.mark.loopback
QUERY = GET % ASK.encode()
UPDATE = (
    b"POST /update HTTP/1.1\r\nHost: a\r\nContent-Type: application/sparql-update\r\nContent-Length: 13\r\n\r\nCLEAR DEFAULT"
)


@pytest.mark.parametrize("path", [b"/sparql?query=ASK%7B%7D", b"/repositories/x/size", b"/sparql?query=ASK%7B%7D&update="])
@pytest.mark.parametrize("count", [1, 3, 40])
def test_what_came_before_garbage_is_answered(serve, stub, count, path):
    """Also where it waits; then the garbage is, and the connection ends."""

    async def script(one, reader, writer):
        while True:
            await one.read_request(reader)
            await asyncio.sleep(0.01)
            writer.write(OK)
            await writer.drain()

    proxy = serve(stub(script).url, backend__kind="graphdb", backend__repository="x")
    raw = read_all(proxy.connect(GET % path * count + b"\0garbage\r\n\r\n"))
    statuses = [part[:3] for part in raw.split(b"HTTP/1.1 ")[1:]]
    assert len(statuses) == count + 1 and len(set(statuses[:-1])) == 1 and statuses[-1] == b"400"


def test_garbage_behind_a_request_of_http_1_0_does_not_cut_its_answer(serve, stub):
    """There the end of the connection is the end of the body."""

    async def script(one, reader, writer):
        await one.read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await one.wait_for_go()
        writer.write(b"3\r\ndef\r\n0\r\n\r\n")
        await writer.drain()

    backend = stub(script)
    client = serve(backend.url).connect(b"GET %b HTTP/1.0\r\n\r\n" % ASK.encode())
    begun = client.recv(1 << 16)
    client.sendall(b"\0garbage\r\n\r\n")
    time.sleep(0.1)
    backend.go.set()
    assert (begun + read_all(client)).endswith(b"abcdef")


def test_nothing_is_done_after_the_last_request(serve, stub):
    """What follows "Connection: close" is not processed, whatever it is and however quickly the last one was answered."""
    backend = stub(answering(OK))
    proxy = serve(backend.url, policy__allow_updates=True)
    for last in (b"/sparql?query=a&query=b", b"/-/live", ASK.encode()):
        assert read_all(proxy.connect(LAST % last + UPDATE)).count(b"HTTP/1.1 ") == 1
    time.sleep(0.1)
    assert not [request for request in backend.requests if b"CLEAR" in request]


def test_a_client_that_reads_nothing_asks_little(serve, stub):
    """Thousands of small answers are one large one: nothing is asked whose answer would be kept here."""
    backend = stub(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 60000\r\n\r\n" + b"x" * 60_000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    client = serve(backend.url).connect(QUERY * 2000 + LAST % ASK.encode())
    asked = -1
    while asked != len(backend.requests):
        asked = len(backend.requests)
        time.sleep(0.3)
    assert asked < 500 and resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000  # kB
    assert read_all(client).count(b"x") >= 2001 * 60_000


def test_one_that_leaves_is_noticed_behind_its_own_requests(serve, stub):
    """The query that is running ends at once, and those behind it are not asked."""

    async def script(one, reader, writer):
        await one.read_request(reader)
        await one.watch(reader)

    backend = stub(script)
    proxy = serve(backend.url)
    client = proxy.connect(QUERY * 5)
    wait_until(lambda: len(backend.requests) == 1)
    client.close()
    assert backend.lost.wait(3)
    wait_until(lambda: proxy.app.datasets[0].backend.pool.open_connections == 0)
    assert len(backend.requests) == 1


@pytest.mark.parametrize("where", ["at once", "on a border of what is read", "a moment later"])
def test_an_answer_that_nobody_asked_for_reaches_nobody(serve, stub, where):
    """A backend that answers twice, or that was made to, shifts no answer to the next request."""
    size = 262_144 - 43 if where == "on a border of what is read" else 2

    async def script(one, reader, writer):
        while True:
            await one.read_request(reader)
            answer = b"HTTP/1.1 200 OK\r\ncontent-length: %06d\r\n\r\n" % size + b"x" * size
            evil = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nEVIL"
            if where == "a moment later":
                writer.write(answer)
                await asyncio.sleep(0.02)
                writer.write(evil)
            else:
                writer.write(answer + evil)
            await writer.drain()

    proxy = serve(stub(script).url)
    for _ in range(5):
        if where == "a moment later":
            raw = b"".join(read_all(proxy.connect(LAST % ASK.encode())) for _ in range(2) if time.sleep(0.05) is None)
        else:
            raw = read_all(proxy.connect(QUERY * 3 + LAST % ASK.encode()))
        assert b"EVIL" not in raw
        assert raw.count(b"HTTP/1.1 200") == (2 if where == "a moment later" else 4)


def test_no_content_has_no_length(serve, stub):
    """Some backends give one, and a body; a client that believed it would wait for that."""
    proxy = serve(stub(answering(b"HTTP/1.1 204 No Content\r\ncontent-length: 4\r\n\r\nEVIL")).url)
    raw = read_all(proxy.connect(QUERY * 3 + LAST % ASK.encode()))
    assert raw.count(b"HTTP/1.1 204") == 4 and b"content-length:" not in raw and b"EVIL" not in raw


def test_trailers_without_end_break_the_transfer(serve, stub):
    """They would be kept as long as they come."""
    backend_sent = 0

    async def script(one, reader, writer):
        nonlocal backend_sent
        await one.read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n")
        for _ in range(2000):
            writer.write(b"x-trailer: " + b"x" * 16_000 + b"\r\n")
            await writer.drain()
            backend_sent += 16_000
        writer.write(b"\r\n")

    proxy = serve(stub(script).url)
    raw = read_all(proxy.connect(LAST % ASK.encode()))
    assert not raw.endswith(b"0\r\n\r\n") and backend_sent < 30_000_000


def test_expect_is_ignored_in_http_1_0(serve, stub):
    """There are no interim responses."""
    proxy = serve(stub(answering(OK)).url)
    fields = b"Expect: 100-continue\r\nContent-Type: application/sparql-query\r\nContent-Length: 5\r\n"
    client = proxy.connect(b"POST /sparql HTTP/1.0\r\n" + fields + b"\r\n")
    time.sleep(0.1)
    client.sendall(b"ASK{}")
    assert read_all(client).startswith(b"HTTP/1.1 200")
