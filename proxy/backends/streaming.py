"""Results on their way from a worker thread to the event loop, in bounded pieces."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence

from proxy.backends.base import Headers
from proxy.errors import BackendGarbled, BackendTimeout, ProxyError

PIECE_BYTES = 32 * 1024
PIECES = 4
"""Pieces of one result that may wait for a slow client."""
FLUSH_S = 0.05
TEXT = b"text/plain; charset=utf-8"


class Aborted(Exception):
    """Nobody wants the rest of a result."""


class ThreadStream:
    """A result on its way from a worker thread, which calls ``write``, to a client, who reads ``chunks``."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, timeout: BackendTimeout, timeout_s: float, ended: Callable[[], None]
    ) -> None:
        self.content_type = TEXT
        self.is_short = False
        self._loop = loop
        self._timeout = timeout
        self._timeout_s = timeout_s
        self._ended = ended
        self._room = threading.Semaphore(PIECES)
        self._is_aborted = False
        self._buffer = bytearray()
        self._flushed_at = time.monotonic()
        # on the event loop:
        self._pieces: deque[bytes] = deque()
        self._is_complete = False
        self._error: BaseException | None = None
        self._news = asyncio.Event()

    # in the worker thread

    def work(self, run: Callable[[ThreadStream], None]) -> None:
        error: BaseException | None = None
        try:
            run(self)
            self._flush()
        except BaseException as exc:
            error = detached(exc)
        tell(self._loop, self._finish, error)

    def write(self, data: bytes) -> int:
        if self._is_aborted:
            raise Aborted
        self._buffer += data
        now = time.monotonic()
        if len(self._buffer) >= PIECE_BYTES or (now - self._flushed_at > FLUSH_S and not self.is_short):
            self._flush()
            self._flushed_at = now
        return len(data)

    def flush(self) -> None:
        """pyoxigraph calls it at the end; ``work`` flushes."""

    def _flush(self) -> None:
        if self._buffer:
            self._room.acquire()
            if self._is_aborted:
                raise Aborted
            tell(self._loop, self._deliver, bytes(self._buffer))
            self._buffer.clear()

    # on the event loop

    def _deliver(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._news.set()

    def _finish(self, error: BaseException | None) -> None:
        self._error = error
        self._is_complete = True
        self._ended()
        self._news.set()

    async def _wait(self) -> None:
        self._news.clear()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._news.wait()
        except TimeoutError as exc:
            raise self._timeout from exc

    async def started(self) -> None:
        """Return when there is a first piece, or the end; raise what went wrong before."""
        while not self._pieces and not self._is_complete:
            await self._wait()
        if not self._pieces and self._error is not None:
            raise self._error

    @property
    def status(self) -> int:
        return 200

    @property
    def headers(self) -> Headers:
        if self._is_complete and self._error is None:
            length = sum(len(p) for p in self._pieces)
            return ((b"content-type", self.content_type), (b"content-length", b"%d" % length))
        return ((b"content-type", self.content_type),)

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            while self._pieces:
                piece = self._pieces.popleft()
                self._room.release()
                yield piece
            if self._is_complete:
                break
            await self._wait()
        if self._error is not None:
            backend = self._timeout.backend
            if isinstance(self._error, ProxyError):
                raise self._error
            raise BackendGarbled(f"{backend} failed within the result: {self._error}", backend=backend) from self._error

    @property
    def is_complete(self) -> bool:
        return self._is_complete and self._error is None and not self._pieces

    async def aclose(self) -> None:
        self._is_aborted = True
        self._room.release(PIECES)


class BufferedResponse:
    """A short answer that is there as a whole."""

    def __init__(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        self.status = status
        self.headers: Headers = headers if status == 204 else (*headers, (b"content-length", b"%d" % len(body)))
        self._body = body

    is_complete = True  # the only piece is the last one

    async def chunks(self) -> AsyncIterator[bytes]:
        if self._body:
            yield self._body

    async def aclose(self) -> None:
        return None


def tell(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *arguments: object) -> None:
    """Call *callback* on *loop* from another thread; nothing happens if the loop is closed."""
    try:
        loop.call_soon_threadsafe(callback, *arguments)
    except RuntimeError:
        pass  # the loop is closed: nobody is left to be told


def detached(error: BaseException) -> BaseException:
    """Cut the stack frames off *error*, in place, before it leaves its thread.

    They hold pyoxigraph results, which may be freed only in the thread that made them.
    """
    seen: BaseException | None = error
    while seen is not None:
        seen.__traceback__ = None
        seen = seen.__cause__ or seen.__context__
    return error
