"""One client's HTTP/1.1 connection: asyncio for the bytes, httptools for the syntax (RFC 9112).

Takes the place of uvicorn's own protocol, whose server drives it. Requests are answered one after the other, in the order in
which they came. A query that need not wait for anything goes from here to the backend without a task (``direct``); everything
else goes to the ASGI application (``cycle``).

Framing is strict. Content-Length together with Transfer-Encoding, lengths that are repeated or not digits, bad chunks, bare LF
and obsolete folding are refused by llhttp, and end the connection: what follows could not be told from another request.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import re
import socket
import struct
import sys
import termios
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import unquote

import httptools

from proxy.backends.base import Headers
from proxy.protocol.asgi import App, Scope
from proxy.protocol.cycle import AsgiCycle
from proxy.protocol.known_head import KnownHead
from proxy.protocol.response import ResponseWriter

if TYPE_CHECKING:
    from proxy.protocol.direct import DirectLane

BODY_HIGH_WATER_BYTES = 64 * 1024
"""Of a request body that the application has not read yet; then the client waits."""
DIRECT_BODY_BYTES = 64 * 1024
"""A longer body goes to the application as it arrives."""
READ_AHEAD_REQUESTS = 8
"""Requests that may wait behind the one being answered. While we read we also see that the client leaves."""
_ASGI = {"version": "3.0", "spec_version": "2.3"}
_SPECIAL = frozenset([b"content-length", b"transfer-encoding", b"expect"])
_DIRECT_METHODS = frozenset(["GET", "POST"])
_BAD_REQUEST = b"Invalid HTTP request received."


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may take.

    head_bytes: of request line and fields; four times the longest GET that must pass. Also of what may come in a row within a
        body and is none of it (sizes and extensions of chunks, trailers), which the parser keeps or throws away.
    head_s: from the first byte of a head to its end, and to the first byte on a new connection.
    body_s: between two pieces of a request body. keep_alive_s: between two requests.
    send_s: within which it must read something of an answer that is waiting for it.
    """

    head_bytes: int = 256 * 1024
    head_s: float = 60.0
    body_s: float = 120.0
    keep_alive_s: float = 5.0
    send_s: float = 60.0


class ServerState(Protocol):
    """What uvicorn's server shares with its connections."""

    total_requests: int
    connections: set[Any]
    tasks: set[asyncio.Task[None]]


class Answering(Protocol):
    """Who answers a request: an ``AsgiCycle`` or a ``DirectExchange``."""

    def abandon(self) -> None:
        """The client has gone."""

    def resume(self) -> None:
        """The client takes bytes again."""


class Request:
    """One request as far as it has arrived. answering: None until it is its turn."""

    __slots__ = (
        "answering",
        "body",
        "expects_continue",
        "has_body",
        "headers",
        "is_complete",
        "keep_alive",
        "lane",
        "scope",
        "url",
        "writer",
    )

    def __init__(self) -> None:
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.body: list[bytes] = []
        self.scope: Scope = {}
        self.answering: Answering | None = None
        self.writer: ResponseWriter | None = None
        self.lane: DirectLane | None = None
        self.is_complete = self.has_body = self.expects_continue = False
        self.keep_alive = True


_NOT_ASCII = re.compile(rb"[\x80-\xff]")


def escape_request_line(data: bytes) -> bytes:
    """Percent-encode what is not ASCII in the request line at the start of *data*.

    Browsers and libraries send a target as RFC 3986 has it; people who write one for curl do not, and nginx passes it on.
    """
    line, end, rest = data.partition(b"\r\n")
    if line.isascii():
        return data
    return _NOT_ASCII.sub(lambda byte: b"%%%02X" % byte[0][0], line) + end + rest


_OFFER = re.compile(rb"\r\nupgrade:[^\r\n]*(?=\r\n)", re.IGNORECASE)


def without_offers(data: bytes) -> bytes:
    """Remove Upgrade from the head at the start of *data*: we take no offer (RFC 9110, 7.8).

    Java's HttpClient offers HTTP/2 with its first request, also with a POST, and httptools reads no body after an offer.
    """
    before, end, after = data.partition(b"\r\n\r\n")
    return _OFFER.sub(b"", before + end) + after


class ClientConnection(asyncio.Protocol):
    """One connection of a client; made by uvicorn's server, with its configuration and state.

    Args:
        app: the ASGI application. direct: gives who takes the queries that need no task; looked at anew for each request.
    """

    def __init__(
        self,
        app: App,
        state: ServerState,
        *,
        direct: Callable[[], DirectLane],
        limits: Limits,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._app = app
        self._state = state
        self._direct = direct
        self._limits = limits
        self._loop = loop
        self._parser = httptools.HttpRequestParser(self)
        # After "Connection: close" a client may have sent more: the request before it is answered all the same.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._reading: Request | None = None
        self._current: Request | None = None
        self._waiting: deque[Request] = deque()
        self._head_bytes = 0
        self._has_body_come = False
        self._is_read_paused = self._is_write_paused = self._is_stopping = False
        self._known = KnownHead()
        self._is_in_line = False
        """The request line has begun, and what comes next belongs to it."""
        self._refusal: tuple[int, bytes] | None = None
        self._writable: asyncio.Event | None = None
        self._due = self._timer_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._state.connections.add(self)
        self._server, self._client = _address(transport, "sockname"), _address(transport, "peername")
        self._scheme = "https" if transport.get_extra_info("sslcontext") else "http"
        self._expect(self._limits.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.connections.discard(self)
        for timer in (self._timer, self._send_timer):
            if timer is not None:
                timer.cancel()
        self._waiting.clear()
        self._is_write_paused = False
        if self._writable is not None:
            self._writable.set()
        if (current := self._current) is not None and current.answering is not None:
            current.answering.abandon()
        self._current = self._reading = None

    def eof_received(self) -> bool:
        # A client that has closed its half cannot be told from one that has left; like nginx, we take it as the latter.
        return False

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        last = self._reading
        is_line = is_between = last is None or last.is_complete
        if is_between and (last is None or last.keep_alive) and (target := self._known.read(data)) is not None:
            self._read_known(*target)
            return
        is_head = last is None or not last.scope
        self._has_body_come = False
        if is_line or (is_head and self._is_in_line):
            is_line = True
            if not data.isascii():
                data = escape_request_line(data)
            if b"pgrade" in data or b"PGRADE" in data:
                data = without_offers(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # an offer in pieces that ``without_offers`` did not see: the request is answered as it is
        except httptools.HttpParserError:
            self._refuse(400, _BAD_REQUEST)
            return
        reading = self._reading
        if reading is not None and not reading.scope:
            self._is_in_line = is_line and b"\n" not in data
            self._head_bytes = self._head_bytes + len(data) if is_head else len(data)
        elif reading is None or reading.is_complete or not reading.has_body or self._has_body_come or is_head:
            self._head_bytes = 0
        else:
            self._head_bytes += len(data)
        if is_between and reading is not None and reading is not last and reading.is_complete and _is_plain(reading):
            self._known.keep(data, reading.headers)
        if self._head_bytes > self._limits.head_bytes:
            self._refuse(431, b"The request head is larger than %d bytes." % self._limits.head_bytes)
        elif reading is not None and reading.has_body and reading.scope and not reading.is_complete:
            self._expect(self._limits.body_s)

    def pause_writing(self) -> None:
        self._is_write_paused = True
        self._watch_reader()

    def resume_writing(self) -> None:
        self._is_write_paused = False
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None
        if self._writable is not None:
            self._writable.set()
        if (current := self._current) is None:
            self._begin_next()
        elif current.answering is not None:
            current.answering.resume()

    # -- httptools callbacks

    def on_message_begin(self) -> None:
        self._reading = Request()
        if self._current is None:
            self._due = self._loop.time() + self._limits.head_s

    def on_url(self, url: bytes) -> None:
        assert self._reading is not None
        self._reading.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        reading = self._reading
        assert reading is not None
        if reading.scope:
            return  # a trailer: not ours to merge into the head (RFC 9110, 6.5.1)
        name = name.lower()
        if name in _SPECIAL:
            if name == b"expect":
                reading.expects_continue = value.lower() == b"100-continue"
            elif name == b"transfer-encoding" or value != b"0":
                reading.has_body = True
                if name == b"transfer-encoding" and value.lower() != b"chunked":
                    raise ValueError("a transfer coding that we do not undo (RFC 9112, 6.1)")
        reading.headers.append((name, value))

    def _read_known(self, path: bytes, query_string: bytes) -> None:
        """Do what the parser's callbacks would, for a request that ``KnownHead`` has read."""
        self._head_bytes = 0
        self._has_body_come = self._is_in_line = False
        self.on_message_begin()
        reading = self._reading
        assert reading is not None
        self._end_head(reading, self._known.fields, "1.1", "GET", path, query_string)
        self.on_message_complete()

    def on_headers_complete(self) -> None:
        reading, parser = self._reading, self._parser
        assert reading is not None
        version, method = parser.get_http_version(), parser.get_method()
        raw_path, _, query_string = reading.url.partition(b"#")[0].partition(b"?")
        if not raw_path.startswith(b"/"):
            url = httptools.parse_url(reading.url)
            raw_path, query_string = url.path or b"/", url.query or b""
        # What follows an offer to upgrade is not parsed.
        reading.keep_alive = version == "1.1" and parser.should_keep_alive() and not parser.should_upgrade()
        if version != "1.1":
            reading.expects_continue = False  # there were no interim responses before (RFC 9110, 10.1.1)
        self._end_head(reading, reading.headers, version, method.decode("ascii"), raw_path, query_string)

    def _end_head(
        self, reading: Request, fields: Headers, version: str, method: str, raw_path: bytes, query_string: bytes
    ) -> None:
        path = raw_path.decode("latin-1")
        reading.scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "server": self._server,
            "client": self._client,
            "scheme": self._scheme,
            "root_path": "",
            "method": method,
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query_string,
            "headers": fields,
        }
        if method in _DIRECT_METHODS and not reading.expects_continue:
            lane = self._direct()
            if lane.may_take(reading.scope) and (not reading.has_body or _announced(reading.headers) <= DIRECT_BODY_BYTES):
                reading.lane = lane
        if reading.has_body and reading.lane is None:
            self._queue(reading)

    def on_body(self, body: bytes) -> None:
        reading = self._reading
        assert reading is not None
        self._has_body_come = True
        answering = reading.answering
        if isinstance(answering, AsgiCycle):
            if answering.add_body(body) > BODY_HIGH_WATER_BYTES:
                self.pause_reading()
        else:
            reading.body.append(body)

    def on_message_complete(self) -> None:
        reading = self._reading
        assert reading is not None
        reading.is_complete = True
        if isinstance(reading.answering, AsgiCycle):
            reading.answering.end_body()
        elif reading.lane is not None or not reading.has_body:
            self._queue(reading)

    # -- one request after the other

    def _queue(self, request: Request) -> None:
        if self.transport.is_closing():
            return  # after "Connection: close" nothing is processed any more (RFC 9112, 9.6)
        if self._current is None and not self._waiting and not self._is_write_paused:
            self._begin(request)
        else:
            self._waiting.append(request)
            if self._is_ahead:
                self.pause_reading()

    def _begin(self, request: Request) -> None:
        self._current = request
        if self._is_stopping:
            request.keep_alive = False
        request.writer = writer = ResponseWriter(
            self,
            keep_alive=request.keep_alive,
            is_head=request.scope["method"] == "HEAD",
            version=request.scope["http_version"],
        )
        if request.lane is not None:
            lane = self._direct()  # not the one of its head: another configuration may serve by now
            body = b"".join(request.body) if request.body else b""
            # It may be over when this returns.
            if lane.take(self, request, writer, body):
                return
            request.body = [body] if body else []
        self.run(request, writer)

    def run(self, request: Request, writer: ResponseWriter) -> None:
        """Have the ASGI application answer *request*."""
        cycle = AsgiCycle(
            self,
            request.scope,
            writer,
            b"".join(request.body),
            is_complete=request.is_complete,
            expects_continue=request.expects_continue,
        )
        request.body = []
        request.answering = cycle
        task = self._loop.create_task(cycle.run(self._app))
        self._state.tasks.add(task)
        task.add_done_callback(self._state.tasks.discard)

    def answered(self, *, keep_alive: bool) -> None:
        """The response to the current request is written: go on with the next one, or close."""
        self._state.total_requests += 1
        self._current = None
        if not keep_alive or self._is_stopping:
            self.transport.close()
            return
        if self._waiting:
            self._loop.call_soon(self._begin_next)  # not from here: thousands may wait, each answered at once
        elif self._refusal is not None:
            self._refuse(*self._refusal)
        else:
            self.resume_reading()
            self._expect(self._limits.keep_alive_s)

    def _begin_next(self) -> None:
        # A client that does not take its answers asks nothing more: they would be kept for it.
        if self._waiting and self._current is None and not self._is_write_paused and not self.transport.is_closing():
            request = self._waiting.popleft()
            self.resume_reading()
            self._begin(request)

    # -- for who answers

    @property
    def is_closing(self) -> bool:
        return self.transport.is_closing()

    @property
    def is_write_paused(self) -> bool:
        """Whether the client has not taken what was written; more should wait for ``resume``."""
        return self._is_write_paused

    async def writable(self) -> None:
        """Wait until the client takes bytes again, or has gone."""
        while self._is_write_paused:
            self._writable = asyncio.Event()
            await self._writable.wait()

    def pause_reading(self) -> None:
        if not self._is_read_paused and not self.transport.is_closing():
            self._is_read_paused = True
            self.transport.pause_reading()

    @property
    def _is_ahead(self) -> bool:
        """Whether enough waits for its turn; the body of what waits is not read."""
        waiting = self._waiting
        return bool(waiting) and (len(waiting) >= READ_AHEAD_REQUESTS or (waiting[-1].has_body and not waiting[-1].is_complete))

    def resume_reading(self) -> None:
        if self._is_read_paused and not self._is_ahead and not self.transport.is_closing():
            self._is_read_paused = False
            self.transport.resume_reading()

    def abort(self) -> None:
        """Break the connection off, so that nobody takes a part of a response for the whole."""
        current = self._current
        if current is not None and current.writer is not None and current.writer.ends_with_connection:
            # The orderly end of the connection would be the end of the body.
            found = self.transport.get_extra_info("socket")
            if found is not None:
                found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    # -- limits and the end

    def _watch_reader(self) -> None:
        self._send_timer = self._loop.call_later(self._limits.send_s, self._look_at_reader, self._unread())

    def _look_at_reader(self, before: int) -> None:
        """Break off what the client reads nothing of: it would hold its place at the backend for ever."""
        self._send_timer = None
        if self._is_write_paused and not self.transport.is_closing():
            if self._unread() >= before:
                self.abort()
            else:
                self._watch_reader()

    def _unread(self) -> int:
        """Bytes of the answer that wait here or in the kernel (Linux: SIOCOUTQ); nothing is added to them while paused."""
        found = self.transport.get_extra_info("socket")
        waiting = 0
        if found is not None and hasattr(termios, "TIOCOUTQ"):
            with contextlib.suppress(OSError):
                waiting = int.from_bytes(fcntl.ioctl(found.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
        return self.transport.get_write_buffer_size() + waiting

    def _refuse(self, status: int, message: bytes) -> None:
        """Answer what is no HTTP, after all that came before it, and close."""
        if self._refusal is None:
            logging.getLogger("uvicorn.error").warning("%s", message.decode("ascii"))
            self._refusal = status, message
        current = self._current
        if current is not None and not current.is_complete and current.writer is not None and not current.writer.status:
            # Its own body is at fault: whoever waits for the rest is told that none comes, and the client hears why.
            if current.answering is not None:
                current.answering.abandon()
            self._current = current = None
        if self._waiting or (current is not None and current.is_complete):
            return  # those were in order, and are owed their answers
        if current is not None:
            self.abort()  # its answer has begun, and ends with this
            return
        if not self.transport.is_closing():
            writer = ResponseWriter(self, keep_alive=False)
            length = b"%d" % len(message)
            writer.head(status, [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", length)], message)
        self.transport.close()

    def _expect(self, limit_s: float) -> None:
        """Close the connection unless the client sends, or gets, something within *limit_s*. One timer for many requests."""
        self._due = due = self._loop.time() + limit_s
        if self._timer is None or self._timer_at > due:
            self._set_timer(due)

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = self._loop.call_at(at, self._look_at_time), at

    def _look_at_time(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        current = self._current
        if self._waiting or (current is not None and (current.is_complete or self._is_read_paused)):
            self._set_timer(self._loop.time() + self._limits.keep_alive_s)  # it is not the client that we wait for
        elif self._loop.time() < self._due - 0.002:
            self._set_timer(self._due)
        else:
            self.transport.close()

    def shutdown(self) -> None:
        """Close once the current request is answered; called by the server."""
        self._is_stopping = True
        if self._current is None:
            self.transport.close()
        elif self._current.writer is not None:
            self._current.writer.keep_alive = False


def _address(transport: asyncio.BaseTransport, name: str) -> tuple[str, int] | None:
    found = transport.get_extra_info(name)
    return (str(found[0]), int(found[1])) if isinstance(found, tuple) and len(found) >= 2 else None


def _is_plain(request: Request) -> bool:
    """Whether the parser has read all there is of *request* with its head, and goes on as if nothing had been."""
    is_get = request.scope["method"] == "GET" and request.scope["http_version"] == "1.1"
    return is_get and request.keep_alive and not request.has_body and not request.expects_continue


def _announced(headers: list[tuple[bytes, bytes]]) -> float:
    """The length of the body; infinite where it comes in chunks."""
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return float("inf")
