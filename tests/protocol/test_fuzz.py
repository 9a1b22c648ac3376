"""Bytes that nobody foresaw, on a client's connection and in one request: an answer or an end, never an exception of ours.

``SPARLANCE_FUZZ_CASES=100000 pytest tests/protocol/test_fuzz.py`` tries longer.
"""

import asyncio
import os
import random
import re
import zlib

import pytest

from proxy.errors import RequestError
from proxy.protocol.asgi import read_body, respond
from proxy.protocol.connection import ClientConnection, Limits
from proxy.protocol.request import read_operation, split_media_type, trim_names, unpack
from proxy.query.operation import OperationKind, Question, SparqlOperation

CASES = int(os.environ.get("SPARLANCE_FUZZ_CASES", "300"))
WELL_FORMED = [
    b"GET /sparql?query=ASK%7B%7D HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n",
    b"POST /sparql HTTP/1.1\r\nHost: a\r\nContent-Type: application/sparql-query\r\nContent-Length: 5\r\n\r\nASK{}",
    b"POST /sparql HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nASK\r\n2\r\n{}\r\n0\r\nX-T: 1\r\n\r\n",
    b"HEAD http://b/c?d#e HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n",
    b"GET /a HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
]
PIECES = [
    b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b";", b",", b"%", b"%00", b"%0d%0a", b"#", b"?", b"//", b"/../",
    b"\xff", "é".encode(), b"Content-Length: 3\r\n", b"Content-Length: -1\r\n", b"Content-Length: 99999999999999999999\r\n",
    b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: identity\r\n",
    b"Transfer-Encoding: chunked, chunked\r\n", b"0\r\n\r\n", b"ffffffff\r\n", b"Connection: close\r\n",
    b"Expect: 100-continue\r\n", b"Host: b\r\n", b"HTTP/1.1", b"HTTP/0.9", b"HTTP/2.0", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"CONNECT a:1 HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\n\r\n", b"x" * 3000,
]  # fmt: skip


def mangled(rng, whole, pieces):
    data = bytearray(whole)
    for _ in range(rng.randint(0, 4)):
        at, length = rng.randrange(len(data) + 1), rng.choice([0, 0, 1, 2, 9])
        data[at : at + length] = rng.choice([*pieces, bytes([rng.randrange(256)]), b""])
    return bytes(data)


class State:
    def __init__(self):
        self.total_requests, self.connections, self.tasks = 0, set(), set()


class Nobody:
    def may_take(self, scope):
        return False


async def echo(scope, receive, send):
    """Read all, and answer with what was understood."""
    body = await read_body(scope["headers"], receive, limit_bytes=10_000)
    answer = scope["raw_path"] + b"|" + body
    await respond(send, 200, [(b"content-length", b"%d" % len(answer))], answer)


HEAD = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n((?:[!-9;-~]+: [^\r\n\0]*\r\n)*)\r\n")


def responses(raw, methods=()):
    """Statuses of the responses in *raw*; fails where it is not one whole response after the other."""
    statuses, at = [], 0
    while at < len(raw):
        found = HEAD.match(raw, at)
        assert found is not None, raw[at : at + 200]
        statuses.append(int(found[1]))
        at = found.end()
        length = re.search(rb"(?im)^content-length: (\d+)", found[2])
        if length is None or raw[at:].startswith(b"HTTP/1.1 ") or at == len(raw):
            continue  # 100, or an answer to HEAD
        at += int(length[1])
    return statuses


def test_any_bytes_on_a_connection():
    """Every connection ends, with whole responses or none; no task is left, and the next client is served."""
    failures = []

    async def main():
        loop, state = asyncio.get_running_loop(), State()
        loop.set_exception_handler(lambda _, context: failures.append(context))
        limits = Limits(head_bytes=2000, head_s=0.5, body_s=0.5, keep_alive_s=0.5)

        def made():
            return ClientConnection(echo, state, direct=Nobody, limits=limits, loop=loop)

        server = await loop.create_server(made, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        async def one(seed):
            rng = random.Random(seed)
            sent = b"".join(mangled(rng, rng.choice(WELL_FORMED), PIECES) for _ in range(rng.randint(1, 3)))
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                at = 0
                while at < len(sent):
                    size = rng.choice([1, 7, 10_000])
                    writer.write(sent[at : at + size])
                    await asyncio.sleep(0)
                    at += size
                async with asyncio.timeout(30):
                    raw = await reader.read(-1)
            except ConnectionError:
                return
            finally:
                writer.close()
            assert all(100 <= status < 600 for status in responses(raw)), sent

        for first in range(0, CASES, 100):
            await asyncio.gather(*map(one, range(first, min(first + 100, CASES))))
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        async with asyncio.timeout(10):
            while state.connections or state.tasks:
                await asyncio.sleep(0.02)
        server.close()

    asyncio.run(main())
    assert failures == []


FORMS = [
    b"query=ASK%7B%7D&default-graph-uri=http%3A%2F%2Fa", b"update=CLEAR+ALL&using-graph-uri=u", b"nl=who+is+it&lang=en",
    b"a=b",
]  # fmt: skip
IN_FORMS = [
    b"%", b"%zz", b"%00", b"%ff", b"%C3%A9", b"&", b"=", b"+", b"&&", b";", b"%26", b"%3d", b"query=", b"&query=x",
    b"&update=x", b"&nl=x", b"+query=x", b"query%20=x", b"\xff", b"\0", b"&" * 11_000, b"a" * 5000,
]  # fmt: skip
TYPES = [
    None, "", ";", "application/x-www-form-urlencoded", "application/sparql-query",
    "application/sparql-update; charset=utf-8", "text/plain", "application/sparql-query; charset=utf-16",
    "APPLICATION/SPARQL-QUERY ;;=;charset", "multipart/form-data; boundary=x", "\xff;\0",
]  # fmt: skip


@pytest.mark.parametrize("part", range(4))
def test_any_request(part):
    """It is understood or a RequestError; what is understood has one text, and a write came by POST."""
    for seed in range(part * CASES, (part + 1) * CASES):
        rng = random.Random(seed)
        method = rng.choice(["GET", "POST", "QUERY", "PUT", "HEAD", "", "get"])
        arguments = {
            "method": method,
            "query_string": mangled(rng, rng.choice([b"", *FORMS]), IN_FORMS),
            "content_type": rng.choice(TYPES),
            "body": mangled(rng, rng.choice([b"", b"ASK {}", *FORMS]), IN_FORMS),
            "expected": rng.choice([None, *OperationKind]),
        }
        try:
            operation = read_operation(**arguments)
        except RequestError:
            continue
        assert operation is None or isinstance(operation, Question | SparqlOperation)
        if isinstance(operation, SparqlOperation) and operation.kind is OperationKind.UPDATE:
            assert method == "POST" and arguments["expected"] is not OperationKind.QUERY
        if isinstance(operation, Question):
            assert operation.text.strip()


def test_names_are_trimmed_and_nothing_else_changes():
    """What the backend reads after the trimming is what we read before it; and there is nothing left to trim."""
    for seed in range(CASES):
        rng = random.Random(seed)
        encoded = mangled(rng, rng.choice(FORMS), IN_FORMS)
        once = trim_names(encoded)
        assert trim_names(once) == once
        assert once.count(b"&") == encoded.count(b"&")


def test_any_content_coding():
    """A body is unpacked to no more than the limit, or refused; a bomb costs what the limit allows."""
    bomb = zlib.compress(bytes(50_000_000))
    for seed in range(CASES):
        rng = random.Random(seed)
        body = mangled(rng, rng.choice([zlib.compress(b"ASK {}"), bomb, b"ASK {}", b""]), PIECES)
        coding = rng.choice([None, "", "identity", "gzip", "x-gzip", "deflate", "GZIP ", "br", "gzip, gzip", "\0"])
        try:
            data = unpack(body, coding, limit_bytes=100_000)
        except RequestError:
            continue
        assert len(data) <= 100_000 or data is body


def test_any_media_type():
    for seed in range(CASES):
        rng = random.Random(seed)
        text = mangled(rng, b'text/plain; charset="UTF-8"; q=1', PIECES).decode("latin-1")
        media, charset = split_media_type(text)
        assert media is None or media == media.strip().lower()
        assert charset is None or isinstance(charset, str)
