"""A small HTTP/1.1 server in a thread of its own, for stand-ins that must control every byte they send.

Real server libraries add fields, choose the framing and forgive clients; a stand-in must not. The server reads one request
after the other from a connection, keeps all of them in ``requests``, and lets a subclass write the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import urllib.parse
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came. Header names are in lower case; *target* and *body* are the bytes received (chunks joined)."""

    method: str
    target: bytes
    headers: tuple[tuple[str, str], ...]
    body: bytes
    version: str = "HTTP/1.1"

    @property
    def path(self) -> str:
        return self.target.partition(b"?")[0].decode("latin-1")

    @property
    def query_string(self) -> str:
        return self.target.partition(b"?")[2].decode("latin-1")

    def header(self, name: str) -> str | None:
        """Return a field's value, repeats joined by a comma; None if it is absent."""
        values = [value for key, value in self.headers if key == name]
        return ", ".join(values) if values else None

    @property
    def content_type(self) -> str:
        """The media type without its parameters, in lower case."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    def parameters(self) -> list[tuple[str, str]]:
        return urllib.parse.parse_qsl(self.query_string, keep_blank_values=True)

    def form(self) -> list[tuple[str, str]]:
        return urllib.parse.parse_qsl(self.body.decode("utf-8", "replace"), keep_blank_values=True)


@dataclass(slots=True)
class Faults:
    """What goes wrong, or takes long. A test sets the fields; they hold for requests whose target or body has *only_if*.

    compute_s: how long an operation takes before its first result, as measured by a clock, not by work.
    hang: nothing is answered at all.
    close_before_head: the connection closes where the answer should begin.
    garbage: bytes sent in place of an answer, then the connection closes.
    die_after_bytes: the connection is reset once so many body bytes were sent.
    chunk_delay_s: pause before each piece of a body.
    """

    only_if: bytes = b""
    compute_s: float = 0.0
    hang: bool = False
    close_before_head: bool = False
    garbage: bytes | None = None
    die_after_bytes: int | None = None
    chunk_delay_s: float = 0.0


class Gone(Exception):
    """The connection cannot be used any more."""


@dataclass(slots=True, eq=False)
class Connection:
    """One client connection: the answer goes out here, framed as the caller says."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    faults: Faults
    is_chunked: bool = False
    has_body: bool = True
    sent_body_bytes: int = 0
    coder: Any = None

    async def send(self, data: bytes) -> None:
        """Write raw bytes. Raises Gone once the client has closed."""
        try:
            self.writer.write(data)
            await self.writer.drain()
        except OSError as error:
            raise Gone from error

    async def start(self, status: int, reason: str, headers: Headers, *, chunked: bool, body: bool = True) -> None:
        """Send the head; ``write`` and ``end`` follow. *body*: False for answers to HEAD and 204."""
        self.is_chunked, self.has_body, self.sent_body_bytes = chunked and body, body, 0
        lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers)]
        if chunked:
            lines.append("Transfer-Encoding: chunked")
        await self.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    async def write(self, data: bytes) -> None:
        """Send a piece of the body, coded by *coder* if there is one."""
        if self.faults.chunk_delay_s:
            await asyncio.sleep(self.faults.chunk_delay_s)
        await self._frame(self.coder.compress(data) if self.coder else data)

    async def _frame(self, data: bytes) -> None:
        if not data or not self.has_body:
            return
        limit = self.faults.die_after_bytes
        dies = limit is not None and self.sent_body_bytes + len(data) > limit
        if dies:
            assert limit is not None
            data = data[: limit - self.sent_body_bytes]
        self.sent_body_bytes += len(data)
        if data:
            await self.send(b"%x\r\n%b\r\n" % (len(data), data) if self.is_chunked else data)
        if dies:
            self.reset()
            raise Gone

    async def end(self) -> None:
        """Finish the body."""
        if self.coder:
            await self._frame(self.coder.flush())
            self.coder = None
        if self.is_chunked:
            await self.send(b"0\r\n\r\n")

    def reset(self) -> None:
        """Close with a reset (RST), as a process that dies does."""
        sock = self.writer.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class BadFraming(Exception):
    """The request cannot be read: *status* and *reason* to answer with; 0: close without a word."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class WireServer:
    """The server; a context manager that listens on a free loopback port while it is entered.

    Attributes:
        requests: all requests read so far, in order of their arrival.
        faults: see Faults.
        header_limit_bytes: of the request line and all fields.
        header_limit_closes: more than that closes the connection without an answer; else ``refuse`` answers.
        keep_alive_s: how long a connection may be idle before it is closed, without a word.
    """

    header_limit_bytes = 8192
    header_limit_closes = False

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.connections_opened = 0
        self.connections_open = 0
        self.faults = Faults()
        self.keep_alive_s = 30.0
        self.port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._stopping = threading.Event()

    async def handle(self, request: Request, connection: Connection) -> bool:
        """Answer; return True if the connection may be used again."""
        raise NotImplementedError

    async def refuse(self, problem: BadFraming, connection: Connection) -> None:
        """Answer a request that could not be read; the connection closes afterwards."""

    def body_limit_bytes(self) -> int | None:
        return None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        started = threading.Event()
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, args=(started,), name=type(self).__name__, daemon=True)
        self._thread.start()
        if not started.wait(10.0):
            raise RuntimeError("the server thread did not start")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopping.set()
        loop, thread = self._loop, self._thread
        assert loop is not None and thread is not None
        loop.call_soon_threadsafe(self._stop)
        thread.join(10.0)
        if thread.is_alive():
            raise RuntimeError("the server thread did not stop")

    def _run(self, started: threading.Event) -> None:
        asyncio.run(self._main(started))

    async def _main(self, started: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._done = asyncio.Event()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, limit=1 << 20)
        self.port = self._server.sockets[0].getsockname()[1]
        started.set()
        await self._done.wait()
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _stop(self) -> None:
        self._done.set()

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the server's loop, from a test's thread, and wait for it."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30.0)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections_opened += 1
        self.connections_open += 1
        connection = Connection(reader, writer, Faults())
        try:
            while await self._exchange(connection):
                pass
        except (Gone, asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            # Cancelled only by _main. asyncio's own callback would report the cancellation of a connection as an error.
            pass
        finally:
            self._tasks.discard(task)
            self.connections_open -= 1
            writer.close()

    async def _exchange(self, connection: Connection) -> bool:
        try:
            request = await asyncio.wait_for(self._read(connection), self.keep_alive_s)
        except (TimeoutError, EOFError):
            return False
        except BadFraming as problem:
            if problem.status:
                await self.refuse(problem, connection)
            return False
        self.requests.append(request)
        applies = self.faults.only_if in request.target or self.faults.only_if in request.body
        faults = connection.faults = self.faults if applies else type(self.faults)()
        connection.coder = None
        if faults.hang:
            while not self._stopping.is_set():
                await asyncio.sleep(0.05)
            return False
        if faults.close_before_head:
            return False
        if faults.garbage is not None:
            await connection.send(faults.garbage)
            return False
        return await self.handle(request, connection)

    async def _read(self, connection: Connection) -> Request:
        reader = connection.reader
        head = bytearray()
        while True:
            line = await reader.readline()
            if not line:
                raise EOFError
            if head or line.strip():
                head += line
                if len(head) > self.header_limit_bytes:
                    raise BadFraming(0 if self.header_limit_closes else 400, "Request header is too large")
                if line in (b"\r\n", b"\n"):
                    break
        lines = bytes(head).split(b"\n")
        parts = lines[0].strip(b"\r").split(b" ")
        if len(parts) != 3 or not parts[2].startswith(b"HTTP/1."):
            raise BadFraming(400, "Invalid request line")
        headers = []
        for raw in lines[1:]:
            name, colon, value = raw.strip(b"\r").partition(b":")
            if colon:
                headers.append((name.decode("latin-1").lower(), value.strip().decode("latin-1")))
        request = Request(parts[0].decode("latin-1"), parts[1], tuple(headers), b"", parts[2].decode("latin-1"))
        return replace(request, body=await self._read_body(request, connection))

    async def _read_body(self, request: Request, connection: Connection) -> bytes:
        reader, limit = connection.reader, self.body_limit_bytes()
        if (request.header("expect") or "").lower() == "100-continue":
            await connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        if (request.header("transfer-encoding") or "").lower() == "chunked":
            body = bytearray()
            while size := int((await reader.readline()).partition(b";")[0], 16):
                body += await reader.readexactly(size)
                await reader.readline()
                if limit is not None and len(body) > limit:
                    raise BadFraming(413, "too large")
            while (await reader.readline()).strip():
                pass
            return bytes(body)
        length = request.header("content-length")
        if length is None:
            return b""
        if not length.isdigit():
            raise BadFraming(400, "Invalid content length")
        if limit is not None and int(length) > limit:
            raise BadFraming(413, "too large")
        return await reader.readexactly(int(length))


@dataclass(slots=True)
class Cancellation:
    """Why and when a running operation must stop; set from the loop, waited for in a worker thread."""

    deadline: float
    event: threading.Event = field(default_factory=threading.Event)
    is_manual: bool = False

    def cancel(self) -> None:
        self.is_manual = True
        self.event.set()
