"""One client's connection, over a real socket and in front of a plain ASGI application: framing, order, limits, the end."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest

from proxy.protocol.asgi import read_body, respond
from proxy.protocol.connection import ClientConnection, Limits

GET = b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n"


class State:
    def __init__(self):
        self.total_requests = 0
        self.connections = set()
        self.tasks = set()


class Nobody:
    """A direct lane that takes nothing."""

    def may_take(self, scope):
        return False


async def echo(scope, receive, send):
    """Answer with path and body."""
    body = await read_body(scope["headers"], receive, limit_bytes=1 << 30)
    answer = scope["path"].encode() + b"|" + body
    await respond(send, 200, [(b"content-length", b"%d" % len(answer))], answer)


@asynccontextmanager
async def served(app=echo, **limits):
    loop, state = asyncio.get_running_loop(), State()
    server = await loop.create_server(
        lambda: ClientConnection(app, state, direct=Nobody, limits=Limits(**limits), loop=loop), "127.0.0.1", 0
    )
    try:
        yield server.sockets[0].getsockname()[1], state
    finally:
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        await asyncio.gather(*state.tasks, return_exceptions=True)


async def exchange(port, sent, *, until_s=5.0):
    """Send, and read until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    try:
        async with asyncio.timeout(until_s):
            return await reader.read(-1)
    finally:
        writer.close()


def run(coroutine):
    return asyncio.run(coroutine)


def test_pipelined_requests_are_answered_in_their_order():
    """However late the first answer is, the second comes after it."""

    async def app(scope, receive, send):
        if scope["path"] == "/slow":
            await asyncio.sleep(0.05)
        await echo(scope, receive, send)

    async def main():
        async with served(app) as (port, state):
            post = b"POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nxyz"
            last = b"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            raw = await exchange(port, GET % b"slow" + post + GET % b"fast" + last)
            bodies = [part.partition(b"HTTP/1.1")[0] for part in raw.split(b"\r\n\r\n")[1:]]
            assert bodies == [b"/slow|", b"/post|xyz", b"/fast|", b"/last|"]
            assert state.total_requests == 4

    run(main())


def test_a_thousand_pipelined_requests():
    """They need no stack."""

    async def main():
        async with served() as (port, state):
            raw = await exchange(port, GET % b"a" * 3000 + b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert raw.count(b"/a|") == 3000 and state.total_requests == 3001

    run(main())


@pytest.mark.parametrize("version, closes", [(b"1.0", True), (b"1.1", False)])
def test_a_body_without_length(version, closes):
    """HTTP/1.1 gets chunks; HTTP/1.0, which knows none, the bytes and the end of the connection."""

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"abc", "more_body": True})
        await send({"type": "http.response.body", "body": b"de"})

    async def main():
        async with served(app, keep_alive_s=0.2) as (port, _):
            raw = await exchange(port, b"GET / HTTP/" + version + b"\r\nHost: a\r\n\r\n")
            head, _, body = raw.partition(b"\r\n\r\n")
            assert body == (b"abcde" if closes else b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
            assert (b"connection: close" in head, b"chunked" in head) == (closes, not closes)

    run(main())


def test_a_broken_body_of_http_1_0_is_no_whole_one():
    """The connection is reset: an orderly end would be the end of the body."""

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"abc", "more_body": True})
        await asyncio.sleep(0.05)

    async def main():
        async with served(app) as (port, _):
            with pytest.raises(ConnectionResetError):
                await exchange(port, b"GET / HTTP/1.0\r\nHost: a\r\n\r\n")

    run(main())


def test_head_without_end():
    """A head beyond the limit is refused, one that does not come ends the connection."""

    async def main():
        async with served(head_bytes=1000, head_s=0.2) as (port, _):
            assert b" 431 " in await exchange(port, b"GET / HTTP/1.1\r\nX: " + b"x" * 2000)
            assert await exchange(port, b"GET / HTTP/1.1\r\nHost: a\r\n") == b""
            assert await exchange(port, b"") == b""

    run(main())


def test_head_in_small_pieces():
    """How it is cut makes no difference."""

    async def main():
        async with served(keep_alive_s=0.2) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for byte in b"POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n":
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
            assert (await reader.read(-1)).endswith(b"/p|hi")
            writer.close()

    run(main())


def test_idle_connections_end():
    """After the time between two requests; a slow answer does not count."""

    async def app(scope, receive, send):
        await asyncio.sleep(0.4)
        await echo(scope, receive, send)

    async def main():
        async with served(app, keep_alive_s=0.1) as (port, state):
            assert (await exchange(port, GET % b"a")).endswith(b"/a|")
            await asyncio.sleep(0.05)
            assert not state.connections

    run(main())


def test_a_body_that_stops_ends_the_connection():
    """Whoever announces a body and sends none keeps no task for ever."""

    async def main():
        async with served(body_s=0.2) as (port, state):
            assert await exchange(port, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc") == b""
            await asyncio.sleep(0.05)
            assert not state.tasks

    run(main())


def test_expect_continue():
    """The client is told to go on when somebody wants its body, and not before."""

    async def main():
        async with served(keep_alive_s=0.2) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /p HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"hi")
            assert (await reader.read(-1)).endswith(b"/p|hi")
            writer.close()

    run(main())


def test_an_early_answer_leaves_the_connection_usable():
    """The rest of a body that nobody reads is dropped, and the next request is understood."""

    async def app(scope, receive, send):
        if scope["method"] == "POST":
            await respond(send, 413, [(b"content-length", b"0")])
        else:
            await echo(scope, receive, send)

    async def main():
        async with served(app, keep_alive_s=0.2) as (port, _):
            post = b"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n" + b"x" * 3_000_000
            raw = await exchange(port, post + GET % b"next")
            assert b" 413 " in raw and raw.endswith(b"/next|")

    run(main())


def test_a_client_that_does_not_read_is_waited_for():
    """No more than the buffers of the system are written ahead; everything arrives when it reads."""
    written = 0

    async def app(scope, receive, send):
        nonlocal written
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(400):
            await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
            written += 100_000
        await send({"type": "http.response.body", "body": b""})

    async def main():
        async with served(app, keep_alive_s=0.2) as (port, _):
            client = socket.create_connection(("127.0.0.1", port))
            client.setblocking(False)
            client.sendall(GET % b"")
            await asyncio.sleep(0.3)
            ahead = written
            assert ahead < 20_000_000
            reader, writer = await asyncio.open_connection(sock=client, limit=1 << 26)
            async with asyncio.timeout(10):
                assert (await reader.read(-1)).count(b"x") == 40_000_000
            writer.close()

    run(main())


@pytest.mark.parametrize("closes_half", [True, False])
def test_a_client_that_leaves_is_noticed(closes_half):
    """Also one that only says that it will send no more: it cannot be told from one that left."""
    heard = []

    async def app(scope, receive, send):
        await receive()
        heard.append((await receive())["type"])

    async def main():
        async with served(app) as (port, state):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET % b"")
            await asyncio.sleep(0.05)
            if closes_half:
                writer.write_eof()
            else:
                writer.close()
            await asyncio.sleep(0.1)
            assert heard == ["http.disconnect"] and not state.connections
            writer.close()

    run(main())


def test_the_server_stops():
    """An idle connection is closed at once, one at work after its answer, which says so."""

    async def app(scope, receive, send):
        await asyncio.sleep(0.1)
        await echo(scope, receive, send)

    async def main():
        async with served(app) as (port, state):
            idle, idle_writer = await asyncio.open_connection("127.0.0.1", port)
            busy, busy_writer = await asyncio.open_connection("127.0.0.1", port)
            busy_writer.write(GET % b"a")
            await asyncio.sleep(0.05)
            for connection in list(state.connections):
                connection.shutdown()
            assert await idle.read(-1) == b""
            raw = await busy.read(-1)
            assert b"connection: close" in raw and raw.endswith(b"/a|")
            idle_writer.close()
            busy_writer.close()

    run(main())


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\nHost: a\n\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
        b"NONSENSE\r\n\r\n",
    ],
)
def test_what_is_no_http_ends_the_connection(raw):
    """Nothing that follows it is read as another request."""

    async def main():
        async with served() as (port, _):
            answer = await exchange(port, raw + GET % b"smuggled")
            assert b"smuggled" not in answer and answer.count(b"HTTP/1.1 200") == 0

    run(main())


def test_a_field_with_a_line_break_is_not_sent():
    """Whoever makes such a field gets an error, the client no field that nobody set."""

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x", b"a\r\nset-cookie: b")]})

    async def main():
        async with served(app) as (port, _):
            raw = await exchange(port, GET % b"")
            assert b" 500 " in raw and b"set-cookie" not in raw

    run(main())


CHUNKED = b"POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n"


@pytest.mark.parametrize(
    "begin, piece",
    [
        (b"0\r\n", b"X-T: " + b"t" * 995 + b"\r\n"),  # many trailers
        (b"0\r\nX-T: ", b"t" * 1000),  # one that does not end
        (b"0\r\n", b"T" * 1000),  # a name that does not end
        (b"2;", b"e" * 1000),  # an extension of a chunk
    ],
)
def test_what_is_in_a_body_and_none_of_it_is_bounded(begin, piece):
    """Trailers and extensions are cut off at the size of a head, and say why; they had no end."""

    async def main():
        async with served(head_bytes=20_000) as (port, state):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(CHUNKED + begin)
            sent = 0
            try:
                while sent < 5_000_000 and not writer.is_closing():
                    writer.write(piece)
                    await writer.drain()
                    sent += len(piece)
                    await asyncio.sleep(0)
            except ConnectionError:
                pass
            assert sent < 2_000_000  # what the buffers of the system take
            async with asyncio.timeout(5):
                while state.connections or state.tasks:
                    await asyncio.sleep(0.01)
            writer.close()

    run(main())


def test_small_chunks_and_short_trailers_are_read():
    """A body of many small chunks is longer on the wire than a head may be, and right."""

    async def main():
        async with served(head_bytes=1000, keep_alive_s=0.2) as (port, _):
            body = b"1;a=b\r\nx\r\n" * 5000 + b"0\r\nX-Sum: 1\r\n\r\n"
            raw = await exchange(port, CHUNKED + body + GET % b"next")
            assert b"/p|hi" + b"x" * 5000 in raw and raw.endswith(b"/next|")

    run(main())


@pytest.mark.parametrize("rest", [b"zz\r\n", b"2\r\nabcd\r\n", b"-1\r\n", b"2\nhi\r\n", b"ffffffffffffffffff\r\n"])
def test_a_body_that_is_no_http_is_answered_400(rest):
    """Whoever reads it is told that the client has gone; nothing behind it is a request."""
    heard = []

    async def app(scope, receive, send):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect" or not message["more_body"]:
                heard.append(message["type"])
                return

    async def main():
        async with served(app) as (port, state):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(CHUNKED)
            await asyncio.sleep(0.05)
            writer.write(rest + GET % b"smuggled")
            raw = await asyncio.wait_for(reader.read(-1), 5)
            assert raw.startswith(b"HTTP/1.1 400 ") and raw.count(b"HTTP/1.1") == 1
            await asyncio.sleep(0.05)
            assert heard == ["http.disconnect"] and not state.tasks
            writer.close()

    run(main())


def test_empty_lines_keep_no_connection_open():
    """They are skipped before a request (RFC 9112, 2.2), and are no sign of one."""

    async def main():
        async with served(keep_alive_s=0.2, body_s=60) as (port, state):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(CHUNKED + b"0\r\n\r\n")
            ends = asyncio.get_running_loop().time() + 3
            while state.connections and asyncio.get_running_loop().time() < ends:
                writer.write(b"\r\n")
                await asyncio.sleep(0.02)
            assert not state.connections
            writer.close()

    run(main())


@pytest.mark.parametrize("keep", [b"", b"x: y\r\n"])
@pytest.mark.parametrize("name", [b"Upgrade", b"upgrade", b"UPGRADE"])
def test_an_offer_of_another_protocol_costs_no_body(name, keep):
    """As Java's HttpClient sends it with its first POST; what looks like one within a body is left alone."""

    async def main():
        async with served(keep_alive_s=0.2) as (port, _):
            fields = (
                b"Connection: " + name + b", HTTP2-Settings\r\n" + name + b": h2c\r\n" + keep + b"HTTP2-Settings: AAEAAEAA\r\n"
            )
            body = b"ASK{}\r\nUpgrade: h2c\r\n"
            post = b"POST /p HTTP/1.1\r\nHost: a\r\n" + fields + b"Content-Length: %d\r\n\r\n" % len(body) + body
            raw = await exchange(port, post + GET % b"next")
            assert b"/p|" + body + b"HTTP/1.1" in raw and raw.endswith(b"/next|")

    run(main())


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"gzip", b"chunked, chunked", b"identity", b"xchunked"])
def test_a_transfer_coding_that_is_not_undone_is_refused(coding):
    """Its body would be taken for what it is not."""

    async def main():
        async with served() as (port, _):
            post = b"POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: " + coding + b"\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
            raw = await exchange(port, post)
            assert raw.startswith(b"HTTP/1.1 400") and raw.count(b"HTTP/1.1") == 1

    run(main())


@pytest.mark.parametrize("cut", [1, 7, 8, 14, 15, 16, 22])
def test_a_target_with_raw_utf8_in_pieces(cut):
    """A long one never comes in one piece; what comes after the request line is left as it is."""

    async def main():
        async with served(keep_alive_s=0.2) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            line = "GET /aé HTTP/1.1\r\n".encode()
            head = "POST /ü/ö HTTP/1.1\r\nHost: a\r\nX: é\r\nContent-Length: 2\r\n\r\nö".encode()
            for piece in (line[:cut], line[cut:], b"Host: a\r\n\r\n", head[:cut], head[cut : cut + 9], head[cut + 9 :]):
                writer.write(piece)
                await asyncio.sleep(0.02)
            raw = await reader.read(-1)
            assert "/aé|".encode() in raw and raw.endswith("/ü/ö|ö".encode())
            writer.close()

    run(main())
