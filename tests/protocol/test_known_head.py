"""Requests that are recognised in place of being parsed: the application sees what it would have seen, and no more."""

import asyncio
import os
import random

import pytest

from proxy.backends.base import BackendRequest, KnownFields
from proxy.backends.http1 import render_head
from proxy.errors import MalformedRequest
from proxy.protocol import known_head
from proxy.protocol.asgi import field, read_body, respond
from proxy.protocol.connection import ClientConnection, Limits
from proxy.protocol.endpoints import forwarded
from proxy.protocol.middleware import require_one_host
from tests.protocol.test_fuzz import PIECES, WELL_FORMED, Nobody, State, mangled

CASES = int(os.environ.get("SPARLANCE_FUZZ_CASES", "300"))
FIELDS = b"Host: a\r\nAccept: text/csv \r\nX-A:\t1\r\nX-a: 2\r\n\r\n"


def get(target=b"/q?query=ASK%7B%7D", fields=FIELDS):
    return b"GET " + target + b" HTTP/1.1\r\n" + fields


class Client(asyncio.Transport):
    """The other end: keeps what is written to it."""

    def __init__(self):
        super().__init__()
        self.written, self.is_closed = [], False

    def write(self, data):
        if not self.is_closed:
            self.written.append(bytes(data))

    def get_extra_info(self, name, default=None):
        return {"peername": ("127.0.0.1", 4000), "sockname": ("127.0.0.1", 8080)}.get(name, default)

    def is_closing(self):
        return self.is_closed

    def close(self):
        self.is_closed = True

    abort = close

    def pause_reading(self): ...

    def resume_reading(self): ...

    def get_write_buffer_size(self):
        return 0


async def answered(segments, *, waits=True):
    """*waits*: for the answers to each segment before the next one comes.

    (what the application was asked, what the client was sent, whether the connection is closed)
    """
    seen = []

    async def app(scope, receive, send):
        body = await read_body(scope["headers"], receive, limit_bytes=10_000)
        seen.append({**scope, "headers": [*scope["headers"]], "body": body})
        await respond(send, 200, [(b"content-length", b"2")], b"ok")

    state, client = State(), Client()
    connection = ClientConnection(app, state, direct=Nobody, limits=Limits(), loop=asyncio.get_running_loop())
    connection.connection_made(client)
    for segment in segments:
        if client.is_closed:
            break
        connection.data_received(segment)
        for _ in range(200 if waits or segment is segments[-1] else 0):
            await asyncio.sleep(0)
            if not state.tasks and connection._current is None and not connection._waiting:
                break
    closed = client.is_closed
    connection.connection_lost(None)
    await asyncio.gather(*state.tasks, return_exceptions=True)
    return seen, b"".join(client.written), closed


def with_and_without(segments, monkeypatch, *, waits=True):
    """What ``answered`` gives, after a comparison with what it gives where nothing is recognised; how often something was."""
    recognised = []
    read = known_head.KnownHead.read

    def counted(self, data):
        found = read(self, data)
        if found is not None:
            recognised.append(data)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(known_head.KnownHead, "read", counted)
        found = asyncio.run(answered(segments, waits=waits))
    with monkeypatch.context() as patch:
        patch.setattr(known_head.KnownHead, "read", lambda self, data: None)
        assert asyncio.run(answered(segments, waits=waits)) == found, segments
    return found, len(recognised)


def test_the_same_fields_are_read_once(monkeypatch):
    """Whatever the target is; fields with blanks around them and repeated ones included."""
    others = [get(b"/r?query=SELECT+*%7B%7D&x=%C3%A9"), get(b"//b/../%2e?a?b"), get(fields=b"Host: b\r\n\r\n")]
    segments = [get(), *others, get()]
    (seen, _, closed), recognised = with_and_without(segments, monkeypatch)
    assert recognised == 2 and not closed
    assert [scope["path"] for scope in seen] == ["/q", "/r", "//b/../.", "/q", "/q"]
    assert seen[1]["headers"] == [(b"host", b"a"), (b"accept", b"text/csv "), (b"x-a", b"1"), (b"x-a", b"2")]


@pytest.mark.parametrize(
    "segments",
    [
        [get(), get(fields=b"Host: a\r\nConnection: close\r\n\r\n"), get()],
        [get(), get(fields=b"Host: a\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"), get()],
        [get(), get(fields=b"Host: a\r\nUp"), b"grade: h2c\r\nConnection: Upgrade\r\n\r\n", get()],
        [get(b"/q?a#b")] * 3,
        [get(b"/q?a"), get(b"/q?a#b"), get(b"/q?\x80"), get(b"/q?{}"), get(b'/q?"')],
        [get(b"/q?a"), get(b"http://b/c?d")],
        [get(b"/q?a"), b"HEAD /q?a HTTP/1.1\r\n" + FIELDS],
        [get(b"/q?a"), b"GET /q?a HTTP/1.0\r\n" + FIELDS],
        [get(b"/q?a"), b"GET  /q?a HTTP/1.1\r\n" + FIELDS],
        [get(b"/q?a"), b"GET /q?a HTTP/1.1\n" + FIELDS],
        [get(b"/q?a"), b"GET /q?a b HTTP/1.1\r\n" + FIELDS],
        [get(b"/q?a"), get(b"/q?a HTTP/1.1\r\nX: y") + get()],
        [get(b"/q?a"), get(b"/q?a")[:30], get(b"/q?a")[30:] + b"GET"],
        [get(fields=b"Host: a\r\nConnection: close\r\n\r\n")] * 3,
        [get(fields=b"Host: a\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n")] * 3,
        [get(fields=b"Host: a\r\nContent-Length: 2\r\n\r\n"), b"xy"] * 3,
        [get(fields=b"Host: a\r\nContent-Length: 2\r\n\r\n") + b"xy"] * 3,
        [get(fields=b"Host: a\r\nTransfer-Encoding: chunked\r\n\r\n"), b"0\r\n\r\n"] * 3,
        [get(fields=b"Host: a\r\nExpect: 100-continue\r\n\r\n")] * 3,
        [get(fields=b"Host: a\r\nX: y\r\n z\r\n\r\n")] * 3,
        [get() + get()] * 3,
        [b"\r\n" + get()] * 3,
        [get(fields=b"\r\n")[:-2] + b"\r\n"] * 2,
    ],
)
def test_what_is_read_by_the_parser_only(segments, monkeypatch):
    """Other methods, versions and targets, bodies, offers, what ends the connection: as before, whatever came before."""
    with_and_without(segments, monkeypatch)
    with_and_without(segments, monkeypatch, waits=False)


def test_a_body_is_not_kept_as_a_head(monkeypatch):
    """The end of a body that looks like a request line, and a request behind it, are no head that was read as one."""
    line, rest = b"GET /a?b HTTP/1.1\r\n", b"GET /c?d HTTP/1.1\r\nHost: a\r\n\r\n"
    post = b"POST /q HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(line)
    (seen, written, closed), recognised = with_and_without([post, line + rest, b"GET /e?f HTTP/1.1\r\n" + rest], monkeypatch)
    assert [scope["path"] for scope in seen] == ["/q", "/c"] and not recognised
    assert closed and written.count(b"HTTP/1.1 400") == 1


def test_any_segments(monkeypatch):
    """Mangled requests among well-formed ones, in segments of any size."""
    recognised = 0
    for seed in range(CASES):
        rng = random.Random(seed)
        segments = []
        for _ in range(rng.randint(2, 6)):
            whole = rng.choice([get(), get(b"/r?x=%d" % rng.randrange(99)), rng.choice(WELL_FORMED)])
            sent = whole if rng.random() < 0.6 else mangled(rng, whole, [*PIECES, get()])
            at = 0
            while at < len(sent):
                size = rng.choice([1, 20, 10_000, 10_000, 10_000])
                segments.append(sent[at : at + size])
                at += size
        recognised += with_and_without(segments, monkeypatch, waits=rng.random() < 0.7)[1]
    assert recognised > CASES // 20


HEADS = [
    [(b"host", b"a")],
    [],
    [(b"host", b"a"), (b"host", b"a")],
    [(b"host", b"a,b"), (b"accept", b"x"), (b"accept", b"y;q=0.1")],
    [(b"host", b"a"), (b"connection", b"x-a, close"), (b"x-a", b"1"), (b"te", b"trailers"), (b"content-length", b"0")],
    [(b"host", b"a"), (b"x-forwarded-for", b"9.9.9.9"), (b"forwarded", b"for=9.9.9.9"), (b"authorization", b"Basic \xff")],
]


@pytest.mark.parametrize("fields", HEADS)
def test_what_is_read_from_known_fields_is_what_is_read_from_fields(fields):
    """Each time, also where it is kept from the first."""
    known = KnownFields(fields)
    for scope_fields in (fields, known):
        scope = {"http_version": "1.1", "headers": scope_fields, "client": ("1.2.3.4", 5), "scheme": "http"}
        hosts = [value for name, value in fields if name == b"host"]
        if len(hosts) == 1:
            require_one_host(scope)
        else:
            with pytest.raises(MalformedRequest):
                require_one_host(scope)
        for _ in range(2):
            onward = forwarded(scope, scope_fields)
            assert [*onward] == [*forwarded(scope, fields)]
            assert render_head(BackendRequest("GET", b"/q", onward), 0) == render_head(
                BackendRequest("GET", b"/q", [*onward]), 0
            )
    for name in (b"host", b"accept", b"authorization", b"x-none"):
        assert field(known, name) == field(fields, name)
