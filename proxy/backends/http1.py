"""One HTTP/1.1 client connection: asyncio for the bytes, httptools for the syntax (RFC 9112).

Hand-written because query traffic runs through it: an exchange costs some 14 µs of CPU, where a proxy on httpx was measured at
1,500 for a request (docs/performance.md). It does no more than a proxy needs: no redirects, no decoding, no cookies.

Framing is strict. Content-Length together with Transfer-Encoding, lengths that are repeated or not digits, bad chunks, bare
LF and obsolete folding end the connection (llhttp refuses them), and so do transfer codings other than chunked, a status
outside 100 to 599, and an end of stream before the announced end of the body: a body is either complete, or reading it raises.
Trailers are dropped.
"""

from __future__ import annotations

import asyncio
import select
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import cast

import httptools

from proxy.backends.base import HOP_BY_HOP, BackendRequest, Headers, KnownFields, end_to_end
from proxy.errors import BackendError, BackendGarbled, BackendTimeout, BackendUnreachable

HIGH_WATER_BYTES = 256 * 1024
GATHER_AFTER_BYTES = 256 * 1024
GATHER_BYTES = 64 * 1024
GATHER_S = 0.002
"""Of a body that has turned out to be long, pieces wait for others, so long at most: each that goes on costs as much as a small
request, and engines write 4 to 8 KiB at a time."""
HEAD_LIMIT_BYTES = 256 * 1024
"""A response head beyond this is not one. Twice as much in a row within a body that is none of it (trailers) ends it."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits in seconds.

    connect: until the connection (and TLS) stands. first_byte: from the request to the response head.
    idle: between two pieces of a body while we are reading; a client that reads slowly does not count.
    total: from the request to the end of the body, slow readers included; None: no limit.
    """

    connect: float = 5.0
    first_byte: float = 60.0
    idle: float = 60.0
    total: float | None = None


class ConnectionDied(Exception):
    """A kept-alive connection ended before any byte of a response; the request may be sent again if it is safe."""


class Connection(asyncio.Protocol):
    """One connection to *backend* (a name for messages). Carries one exchange at a time, in the order acquire-send-read."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._writable: asyncio.Future[None] | None = None
        self._is_write_paused = False
        self._is_read_paused = False
        self._poll: select.poll | None = None
        self.is_closed = False
        self.is_idle = True
        self.exchanges = 0
        self.idle_since = 0.0
        self._gathering: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = self._expires_at = 0.0
        self._is_feeding = False
        self._reset()

    def _reset(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._pieces: deque[bytes] = deque()
        self._buffered = self._received = 0
        self._head_bytes = 0
        self._has_bytes = False
        self._is_head_complete = False
        self._is_complete = False
        self._is_framed = False
        self._may_reuse = False
        self._is_sent = False
        self._is_read = False
        self._is_head_request = False
        self._error: BackendError | ConnectionDied | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._listener: Callable[[], None] | None = None
        self._started = time.perf_counter()
        self._deadline: float | None = None
        self._total_s = 0.0

    # -- what the pool and the response call

    @property
    def is_reusable(self) -> bool:
        """Whether another request may follow: the exchange is over, both sides agree to keep the connection."""
        if not (self._is_complete and self._may_reuse and self._is_sent) or self.is_closed or self._error is not None:
            return False
        return self._transport is not None and self._transport.get_write_buffer_size() == 0

    @property
    def is_quiet(self) -> bool:
        """Whether nothing has arrived that was not read yet: on an idle connection that is an answer which nobody asked for, to
        be taken for the next one, or its end."""
        return self._poll is None or not self._poll.poll(0)

    @property
    def is_drained(self) -> bool:
        """Whether the body is complete and read."""
        return self._is_complete and not self._pieces

    @property
    def is_head_complete(self) -> bool:
        """Whether status and fields of the answer are there."""
        return self._is_head_complete

    @property
    def error(self) -> BackendError | ConnectionDied | None:
        """Why the answer cannot be completed; None: nothing is wrong so far. What arrived before can still be taken."""
        return self._error

    def start(self, request: BackendRequest, *, timeouts: Timeouts, listener: Callable[[], None]) -> None:
        """Write *request*, whose body is bytes, and return at once: the way of ``send`` and ``read`` without a task.

        Args:
            listener: called whenever there is something new to look at: the head, bytes of the body, its end, an error. It
                looks at ``is_head_complete``, ``take``, ``is_drained`` and ``error``.
        """
        assert isinstance(request.body, bytes) and self._transport is not None
        self._reset()
        self.is_idle = False
        self.exchanges += 1
        self._is_head_request = request.method == "HEAD"
        self._listener, self._timeouts = listener, timeouts
        if timeouts.total is not None:
            self._deadline, self._total_s = self._started + timeouts.total, timeouts.total
        self._transport.write(render_head(request, len(request.body)) + request.body)
        self._is_sent = True
        self._expect(timeouts.first_byte)

    def ignore(self) -> None:
        """Tell the listener nothing more; ``read`` works from here on."""
        self._listener = None

    def news(self) -> tuple[bytes, bool, BackendError | ConnectionDied | None]:
        """The bytes of the body that have arrived, whether they are the last ones, and why there will be no more."""
        return self.take(), self._is_complete, self._error

    def take(self) -> bytes:
        """The bytes of the body that have arrived; b"": none."""
        pieces = self._pieces
        if not pieces:
            return b""
        self._is_read = True
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._buffered = 0
        if self._is_read_paused and self._transport is not None and not self.is_closed:
            self._is_read_paused = False
            self._transport.resume_reading()
        return data

    async def send(self, request: BackendRequest, *, timeouts: Timeouts) -> None:
        """Write *request*; return when the head of the response is there.

        Raises:
            ConnectionDied: a reused connection was dead; nothing of a response came.
            BackendUnreachable, BackendTimeout, BackendGarbled
        """
        self._reset()
        self.is_idle = False
        self.exchanges += 1
        self._is_head_request = request.method == "HEAD"
        if timeouts.total is not None:
            self._deadline, self._total_s = self._started + timeouts.total, timeouts.total
        if self.is_closed:
            raise ConnectionDied
        assert self._transport is not None
        try:
            if isinstance(request.body, bytes):
                self._transport.write(render_head(request, len(request.body)) + request.body)
                self._is_sent = True
                await self._wait(timeouts.first_byte, lambda: self._is_head_complete)
            else:
                await self._send_stream(request, request.body, timeouts)
        except BaseException:
            self.close()
            raise

    async def _send_stream(self, request: BackendRequest, body: AsyncIterator[bytes], timeouts: Timeouts) -> None:
        assert self._transport is not None
        length = announced_length(request.headers)
        sent = 0
        self._transport.write(render_head(request, length))
        async for piece in body:
            if self._is_head_complete or self._error is not None:
                break  # the backend has answered before it read all: it will not read the rest
            if not piece:
                continue
            sent += len(piece)
            self._transport.write(piece if length is not None else b"%x\r\n%b\r\n" % (len(piece), piece))
            if self._is_write_paused:
                self._writable = self._loop.create_future()
                try:
                    await asyncio.wait_for(self._writable, timeouts.idle)
                except TimeoutError:
                    raise self._timeout(f"took no byte of the request body for {timeouts.idle:g} s", "idle") from None
        else:
            if length is None:
                self._transport.write(b"0\r\n\r\n")
            self._is_sent = length is None or sent == length
            if not self._is_sent:
                raise self._garbled(f"was to get {length} bytes of request body, and the client sent {sent}")
        await self._wait(timeouts.first_byte, lambda: self._is_head_complete)

    async def read(self, *, idle_s: float) -> bytes:
        """Return the next bytes of the body, all that have arrived; b"" at its end.

        Raises:
            BackendGarbled, BackendTimeout, BackendUnreachable: the body cannot be completed.
        """
        if self._deadline is not None and time.perf_counter() > self._deadline and not self._is_complete:
            raise self._out_of_time()
        self._is_read = True
        if not self._pieces:
            if self._is_complete:
                return b""
            await self._wait(idle_s, lambda: bool(self._pieces) or self._is_complete, is_body=True)
            if not self._pieces:
                return b""
        return self.take()

    def take_whole(self) -> bytes | None:
        """The body, if it is complete and nothing of it was read; else None."""
        if not self._is_complete or self._is_read:
            return None
        self._is_read = True
        return self.take()

    def close(self) -> None:
        """Drop the connection at once, also when bytes are still to be sent or read."""
        if not self.is_closed:
            self.is_closed = True
            if self._timer is not None:
                self._timer.cancel()
            if self._transport is not None:
                self._transport.abort()

    def rest(self) -> None:
        """Note that the connection lies idle from now on."""
        self.is_idle = True
        self.idle_since = self._loop.time()
        self._listener = None

    # -- waiting

    async def _wait(self, limit_s: float, is_there: Callable[[], bool], *, is_body: bool = False) -> None:
        while not is_there():
            if self._error is not None:
                raise self._error
            wait_s = limit_s if self._deadline is None else min(limit_s, max(self._deadline - time.perf_counter(), 0.0))
            self._waiter = self._loop.create_future()
            timer = self._loop.call_later(wait_s, self._expire, self._waiter)
            try:
                await self._waiter
            except TimeoutError:
                if wait_s < limit_s:
                    raise self._out_of_time() from None
                if is_body:
                    raise self._timeout(f"sent nothing more for {limit_s:g} s", "idle") from None
                raise self._timeout(f"did not answer within {limit_s:g} s", "first-byte") from None
            finally:
                timer.cancel()
                self._waiter = None

    @staticmethod
    def _expire(waiter: asyncio.Future[None]) -> None:
        if not waiter.done():
            waiter.set_exception(TimeoutError())

    def _out_of_time(self) -> BackendTimeout:
        return self._timeout(f"did not end its answer within {self._total_s:g} s", "total")

    def _timeout(self, what: str, limit: str) -> BackendTimeout:
        self.close()
        message = f"{self._backend} {what} (the {limit} limit)"
        return BackendTimeout(message, backend=self._backend, elapsed_s=self.elapsed_s, limit=limit)

    @property
    def elapsed_s(self) -> float:
        return time.perf_counter() - self._started

    def _expect(self, limit_s: float) -> None:
        """Have the listener told of a timeout unless something comes within *limit_s*.

        One timer for many exchanges: it looks, when it goes off, whether its time has come. To set and cancel one for each
        piece would cost more than to read it.
        """
        self._expires_at = expires_at = self._loop.time() + limit_s
        if self._timer is None or expires_at < self._timer_at:
            self._set_timer(expires_at)

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._deadline is not None:
            at = min(at, self._loop.time() + max(self._deadline - time.perf_counter(), 0.0))
        self._timer, self._timer_at = self._loop.call_at(at, self._look_at_time), at

    def _look_at_time(self) -> None:
        self._timer = None
        if self._listener is None or self._is_complete or self._error is not None or self.is_closed:
            return
        limits = self._timeouts
        if self._deadline is not None and time.perf_counter() >= self._deadline:
            self._error = self._out_of_time()
        elif self._pieces:
            self._set_timer(self._loop.time() + limits.idle)  # the client reads slowly: that is not the backend's time
            return
        elif self._loop.time() < self._expires_at - 0.002:
            self._set_timer(self._expires_at)
            return
        elif self._is_head_complete:
            self._error = self._timeout(f"sent nothing more for {limits.idle:g} s", "idle")
        else:
            self._error = self._timeout(f"did not answer within {limits.first_byte:g} s", "first-byte")
        self._notify()

    def _notify(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        elif self._listener is not None and not self._is_feeding:
            self._listener()

    def _fail(self, error: BackendError | ConnectionDied) -> None:
        if self._error is None and not self._is_complete:
            self._error = error
        self._may_reuse = False
        self.close()
        self._notify()

    def _garbled(self, what: str) -> BackendGarbled:
        return BackendGarbled(f"{self._backend} {what}", backend=self._backend, elapsed_s=self.elapsed_s)

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's have the methods without the class
        if (found := transport.get_extra_info("socket")) is not None:
            self._poll = select.poll()
            self._poll.register(found.fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        if self.is_idle or self._is_complete:
            self._may_reuse = False
            self.close()  # a byte nobody asked for: what follows could not be told from an answer
            return
        self._has_bytes = True
        received = self._received
        if not self._is_head_complete:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_LIMIT_BYTES + len(data):
                self._fail(self._garbled("sent a response head without end"))
                return
        self._is_feeding = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(self._garbled("switched protocols unasked"))
        except httptools.HttpParserError as error:
            self._fail(self._garbled(f"sent malformed HTTP: {error}"))
        self._is_feeding = False
        if self._received != received:
            self._head_bytes = 0
        elif self._is_head_complete and not self._is_complete:
            self._head_bytes += len(data)
            if self._head_bytes > 2 * HEAD_LIMIT_BYTES:
                self._fail(self._garbled("sent trailers without end"))
        if self._listener is not None and self._is_news():
            self._listener()  # once for all that was in *data*
        if self._buffered > HIGH_WATER_BYTES and not self._is_read_paused and not self.is_closed:
            assert self._transport is not None
            self._is_read_paused = True
            self._transport.pause_reading()

    def _is_news(self) -> bool:
        """Whether the listener should look now; not while pieces of a long body are gathered."""
        if self._is_complete or self._error is not None:
            return True
        if not self._is_head_complete:
            return False
        self._expect(self._timeouts.idle)
        if self._received < GATHER_AFTER_BYTES or self._buffered >= GATHER_BYTES:
            return True
        if self._gathering is None:
            self._gathering = self._loop.call_later(GATHER_S, self._gathered)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._resume_writer()
        if self.is_idle or self._is_complete or self._error is not None:
            self._notify()
            return
        if self._is_head_complete:
            if exc is None and not self._is_framed:
                self._is_complete = True  # the end of the stream is the end of the body (RFC 9112, 6.3, rule 8)
                self._notify()
            else:
                self._fail(self._garbled("ended the connection before the end of the body"))
        elif self._has_bytes:
            self._fail(self._garbled("ended the connection within the response head"))
        elif self.exchanges > 1:
            self._fail(ConnectionDied())
        else:
            self._fail(
                BackendUnreachable(
                    f"{self._backend} closed the connection without an answer", backend=self._backend, elapsed_s=self.elapsed_s
                )
            )

    def eof_received(self) -> bool:
        return False  # we never answer on a half-closed connection

    def pause_writing(self) -> None:
        self._is_write_paused = True

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self._resume_writer()

    def _resume_writer(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    # -- httptools callbacks

    def on_message_begin(self) -> None:
        if self._is_complete:
            self._may_reuse = False  # a second answer to one request

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_head_complete:  # what comes later is a trailer: not ours to merge into the head (RFC 9110, 6.5.1)
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._is_complete or self._is_head_complete or self._error is not None:
            return
        status = self._parser.get_status_code()
        if not 100 <= status <= 599:
            self._fail(self._garbled(f"answered with status {status:03}, which is none (RFC 9110, 15)"))
            return
        if 100 <= status < 200:
            self.headers = []  # an interim response (RFC 9110, 15.2); only the final one is the client's
            return
        codings = [c.strip().lower() for n, v in self.headers if n == b"transfer-encoding" for c in v.split(b",")]
        if codings not in ([], [b"chunked"], [b"identity"]):
            shown = b", ".join(codings).decode("latin-1")[:100]
            self._fail(self._garbled(f"sent a body in the transfer coding {shown!r}, and only chunked is understood"))
            return
        self.status = status
        self._is_framed = status in (204, 304) or codings == [b"chunked"]
        if not self._is_framed:
            self._is_framed = any(name == b"content-length" for name, _ in self.headers)
        self.headers = end_to_end(self.headers)
        self._is_head_complete = True
        if self._is_head_request:
            # There is no body by definition, and some servers send one all the same: nothing can follow on this connection.
            self._is_complete = True
            self.close()
        self._notify()

    def on_body(self, body: bytes) -> None:
        if not self._is_complete:
            self._pieces.append(body)
            size = len(body)
            self._buffered += size
            self._received += size
            if self._listener is not None:
                return
            if self._received < GATHER_AFTER_BYTES or self._buffered >= GATHER_BYTES:
                self._notify()
            elif self._gathering is None:
                self._gathering = self._loop.call_later(GATHER_S, self._gathered)

    def _gathered(self) -> None:
        self._gathering = None
        self._notify()

    def on_message_complete(self) -> None:
        if self._is_complete or not self._is_head_complete:
            return
        self._is_complete = True
        self._may_reuse = self._parser.should_keep_alive()
        self._notify()


def announced_length(headers: Headers) -> int | None:
    """Return the value of Content-Length, or None."""
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return None


_NOT_RENDERED = HOP_BY_HOP | {b"content-length"}


def render_head(request: BackendRequest, length: int | None) -> bytes:
    """Write request line and fields; *length* of the body, None for chunked. Framing fields of the client are replaced."""
    headers = request.headers
    fields = headers.rendered if type(headers) is KnownFields else None
    if fields is None:
        fields = _render_fields(headers)
        if type(headers) is KnownFields:
            headers.rendered = fields
    lines = [request.method.encode("ascii"), b" ", request.target, b" HTTP/1.1\r\n", fields]
    if length is None:
        lines.append(b"transfer-encoding: chunked\r\n")
    elif length or request.method not in ("GET", "HEAD", "OPTIONS", "DELETE"):
        lines.append(b"content-length: %d\r\n" % length)
    if request.method == "HEAD":
        lines.append(b"connection: close\r\n")
    lines.append(b"\r\n")
    return b"".join(lines)


def _render_fields(headers: Headers) -> bytes:
    lines: list[bytes] = []
    for name, value in headers:
        if name not in _NOT_RENDERED:
            lines += (name, b": ", value, b"\r\n")
    return b"".join(lines)
