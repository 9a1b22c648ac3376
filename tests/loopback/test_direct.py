"""Queries that are taken without a task keep every promise of those that are not."""

import asyncio
import socket
import time

import pytest

from tests.loopback.conftest import OK, answering, wait_until

pytestmark = pytest.mark.loopback
ASK = "/sparql?query=ASK%7B%7D"
GET = b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n"
LAST = b"GET %b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


def read_all(client: socket.socket) -> bytes:
    pieces = []
    while piece := client.recv(1 << 20):
        pieces.append(piece)
    client.close()
    return b"".join(pieces)


def test_pipelined_with_what_the_application_answers(serve, stub):
    """Queries, pages and mistakes on one connection are answered in order, and none of them ends it."""
    proxy = serve(stub(answering(OK)).url)
    query, mistake = GET % ASK.encode(), GET % b"/sparql?query=a&query=b"
    raw = read_all(proxy.connect(query + GET % b"/-/live" + mistake + query + LAST % b"/nowhere"))
    assert [part[:3] for part in raw.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200", b"400", b"200", b"404"]


def test_many_mistakes_in_one_piece(serve, stub):
    """Each is answered at once, one after the other, without a stack of them."""
    proxy = serve(stub(answering(OK)).url)
    mistake = GET % b"/sparql?query=a&query=b"
    raw = read_all(proxy.connect(mistake * 2000 + LAST % ASK.encode()))
    assert raw.count(b"HTTP/1.1 400") == 2000 and raw.count(b"HTTP/1.1 200") == 1


def endless(lost):
    """A backend that answers as long as somebody reads."""

    async def script(one, reader, writer):
        await one.read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        try:
            while True:
                writer.write(b"%x\r\n%b\r\n" % (100_000, b"x" * 100_000))
                await writer.drain()
        except ConnectionError:
            lost.append(True)

    return script


def test_a_client_that_stops_reading_is_broken_off(serve, stub):
    """After send_timeout_s; its place at the backend is free again."""
    lost = []
    proxy = serve(stub(endless(lost)).url, server__send_timeout_s=0.5)
    client = proxy.connect(LAST % ASK.encode())
    wait_until(lambda: lost)
    wait_until(lambda: proxy.app.datasets[0].gateway.queue.stats().running == 0)
    client.close()


def test_a_client_that_reads_slowly_is_not_broken_off(serve, stub):
    """A little in each span is enough."""
    lost = []
    client = serve(stub(endless(lost)).url, server__send_timeout_s=0.5).connect(LAST % ASK.encode())
    for _ in range(20):
        time.sleep(0.1)
        assert client.recv(50_000)
    assert not lost
    client.close()


def test_a_client_that_does_not_read_slows_the_backend_down(serve, stub):
    """What is not read stays at the backend; then all of it arrives."""
    sent = 0

    async def script(one, reader, writer):
        nonlocal sent
        await one.read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(400):
            writer.write(b"%x\r\n%b\r\n" % (100_000, b"x" * 100_000))
            await writer.drain()
            sent += 100_000
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        await one.watch(reader)

    client = serve(stub(script).url).connect(LAST % ASK.encode())
    before = -1
    while before != sent or not sent:
        before = sent
        time.sleep(0.3)
    assert sent < 25_000_000
    assert read_all(client).count(b"x") >= 40_000_000


def test_a_request_that_changes_lanes_is_counted_once(serve, stub):
    """What names no operation goes to the application, and costs the client one request all the same."""
    proxy = serve(stub(answering(OK)).url, limits__requests_per_minute=1, limits__requests_burst=3)
    assert [proxy.request("GET", "/sparql")[0] for _ in range(4)] == [200, 200, 200, 429]


def test_what_is_held_is_given_back(serve, stub):
    """Answers, mistakes, a backend that dies and clients that leave: no place, connection or request is held in the end."""

    async def script(one, reader, writer):
        await one.read_request(reader)
        if len(one.requests) % 3 == 0:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc")
        elif len(one.requests) % 3 == 1:
            writer.write(OK)
        else:
            await asyncio.sleep(0.05)
        await writer.drain()

    proxy = serve(stub(script).url, load__breaker_failures=1000)
    for i in range(12):
        client = proxy.connect(GET % f"/sparql?query=ASK%7B%3Fs{i}%20%3Fp%201%7D".encode())
        if i % 2:
            client.recv(1)
        client.close()
    gateway, app = proxy.app.datasets[0].gateway, proxy.app
    wait_until(lambda: app.current.requests == 0)
    wait_until(lambda: gateway.queue.stats().running == gateway.queue.stats().orphans)
    assert proxy.app.datasets[0].backend.pool.open_connections == 0
    assert gateway.coalescer.stats().in_flight == 0 and not gateway.coalescer._shares
