"""The connections to one origin: kept alive, counted, handed out one exchange at a time."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Callable

from proxy.backends.base import BackendRequest, Headers
from proxy.backends.http1 import Connection, ConnectionDied, Timeouts
from proxy.errors import BackendBusy, BackendError, BackendTimeout, BackendUnreachable

_ERRNO = re.compile(r"\[Errno (\d+)\]")
_DIED = "{} closed the connection without an answer"
IDLE_LIMIT_S = 15.0
"""Servers close idle connections after 20 s and more; ours go first, so that requests seldom meet a dead one."""


class PooledResponse:
    """A response whose connection goes back to its pool at the end of the body.

    connection: None: it is still to be made. request: kept where it may have to be sent (again) later.
    """

    __slots__ = ("_connection", "_idle_s", "_is_connecting", "_pool", "_request")

    def __init__(
        self, pool: ConnectionPool, connection: Connection | None, idle_s: float, request: BackendRequest | None = None
    ) -> None:
        self._pool = pool
        self._request = request
        self._connection = connection
        self._is_connecting = connection is None
        self._idle_s = idle_s

    @property
    def status(self) -> int:
        assert self._connection is not None
        return self._connection.status

    @property
    def headers(self) -> Headers:
        assert self._connection is not None
        return self._connection.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        connection = self._connection
        assert connection is not None
        while True:
            data = await connection.read(idle_s=self._idle_s)
            if not data:
                await self.aclose()
                return
            yield data

    @property
    def is_complete(self) -> bool:
        return not self._is_connecting if self._connection is None else self._connection.is_drained

    def take_whole(self) -> bytes | None:
        """The whole body if it is all there, nothing of it read yet, and the connection with it given back; else None."""
        connection = self._connection
        if connection is None or (body := connection.take_whole()) is None:
            return None
        self._connection = None
        self._pool.release(connection)
        return body

    async def aclose(self) -> None:
        self.release()

    # -- without a task (``base.StartedResponse``)

    @property
    def is_head_there(self) -> bool:
        return self._connection is not None and self._connection.is_head_complete

    @property
    def error(self) -> BackendError | None:
        """Why there is no complete answer; ``is_unsent`` tells where the request can be sent again."""
        error = None if self._connection is None else self._connection.error
        if isinstance(error, ConnectionDied):
            return BackendUnreachable(_DIED.format(self._pool.name), backend=self._pool.name)
        return error

    @property
    def is_unsent(self) -> bool:
        """Whether the request has no connection yet, or met a kept one that had been closed."""
        connection = self._connection
        return self._is_connecting if connection is None else isinstance(connection.error, ConnectionDied)

    def news(self) -> tuple[bytes, bool, BackendError | None]:
        connection = self._connection
        if connection is None:
            return b"", self.is_complete, None
        data, is_last, error = connection.news()
        return data, is_last, None if error is None else self.error

    def ignore(self) -> None:
        if self._connection is not None:
            self._connection.ignore()

    def release(self) -> None:
        if (connection := self._connection) is not None:
            self._connection = None
            self._pool.release(connection)
        elif self._is_connecting:
            self._is_connecting = False
            self._pool.give_place()

    async def connect(self, listener: Callable[[], None]) -> None:
        """Send the request on a new connection, where it ``is_unsent``.

        Raises:
            BackendUnreachable, BackendTimeout: there is no connection.
        """
        pool, request, dead = self._pool, self._request, self._connection
        assert request is not None
        if dead is not None:
            self._connection, self._is_connecting = None, True
            pool.give_up(dead)
        self._connection = await pool.connect()
        self._is_connecting = False
        if self._connection.is_closed:  # by the other side, in the same moment
            raise BackendUnreachable(_DIED.format(pool.name), backend=pool.name)
        self._connection.start(request, timeouts=pool.timeouts, listener=listener)


class ConnectionPool:
    """At most *max_connections* connections to one origin.

    Args:
        name: of the backend, for messages.
        tls: None for plain TCP.
        queue_s: how long a request waits for a free connection before BackendBusy.
    """

    def __init__(
        self,
        *,
        name: str,
        host: str,
        port: int,
        tls: ssl.SSLContext | None = None,
        max_connections: int = 64,
        timeouts: Timeouts | None = None,
        queue_s: float = 10.0,
    ) -> None:
        self.name = name
        self._host, self._port, self._tls = host, port, tls
        self._max = max_connections
        self.timeouts = timeouts or Timeouts()
        self.queue_s = queue_s
        self._idle: deque[Connection] = deque()
        self._in_use: set[Connection] = set()
        self._places = max_connections
        self._waiters: deque[asyncio.Future[None]] = deque()
        self.retries = 0

    @property
    def idle_connections(self) -> int:
        """Connections that are kept for the next exchange."""
        return len(self._idle)

    @property
    def open_connections(self) -> int:
        """Connections that carry an exchange now."""
        return self._max - self._places

    async def send(self, request: BackendRequest, *, is_safe: bool, timeouts: Timeouts | None = None) -> PooledResponse:
        """Send *request*; return when the response head is there.

        Args:
            is_safe: it may be sent twice. It then travels on a kept connection, and once more on a new one if that turns out
                to be dead. What is not safe gets a new connection at once, where "it closed" always means "it failed".
        Raises:
            BackendBusy, BackendUnreachable, BackendTimeout, BackendGarbled
        """
        timeouts = timeouts or self.timeouts
        if self._places > 0 and not self._waiters:
            self._places -= 1
        else:
            await self._wait_for_place()
        connection: Connection | None = None
        try:
            # A HEAD may be answered with a body against the rules (Oxigraph's 404), so it never shares a connection.
            if is_safe and request.method != "HEAD" and (connection := self._take_idle()) is not None:
                try:
                    await connection.send(request, timeouts=timeouts)
                except ConnectionDied:
                    connection = None
                    if not isinstance(request.body, bytes):
                        raise BackendUnreachable(f"{self.name} closed a kept connection", backend=self.name) from None
                    self.retries += 1
            if connection is None:
                connection = await self._connect(timeouts)
                await connection.send(request, timeouts=timeouts)
        except ConnectionDied:
            self.give_place()
            raise BackendUnreachable(_DIED.format(self.name), backend=self.name) from None
        except BaseException:
            if connection is not None:
                connection.close()
            self.give_place()
            raise
        self._in_use.add(connection)
        return PooledResponse(self, connection, timeouts.idle)

    def start(self, request: BackendRequest, listener: Callable[[], None]) -> PooledResponse | None:
        """Send a safe *request*, whose body is bytes, and return at once.

        Returns:
            None where it would have to wait for a place, and nothing has happened. One that ``is_unsent`` takes ``connect``.
        """
        if self._places <= 0 or self._waiters:
            return None
        self._places -= 1
        connection = self._take_idle()
        if connection is not None:
            self._in_use.add(connection)
            connection.start(request, timeouts=self.timeouts, listener=listener)
        return PooledResponse(self, connection, self.timeouts.idle, request)

    async def connect(self) -> Connection:
        """A new connection, in use.

        Raises:
            BackendUnreachable, BackendTimeout
        """
        connection = await self._connect(self.timeouts)
        self._in_use.add(connection)
        return connection

    def give_up(self, dead: Connection) -> None:
        """Another connection will take the place of this one, which turned out to be dead."""
        self._in_use.discard(dead)
        self.retries += 1

    def release(self, connection: Connection) -> None:
        """Take *connection* back; one that has not come to the end of its exchange is closed."""
        self._in_use.discard(connection)
        if connection.is_reusable:
            connection.rest()
            self._idle.append(connection)
        else:
            connection.close()
        self.give_place()

    async def aclose(self) -> None:
        for connection in (*self._idle, *self._in_use):
            connection.close()
        self._idle.clear()

    # -- inside

    def _take_idle(self) -> Connection | None:
        oldest_ok = asyncio.get_running_loop().time() - IDLE_LIMIT_S
        while self._idle:
            connection = self._idle.pop()
            if connection.is_closed:
                continue
            if connection.idle_since >= oldest_ok and connection.is_quiet:
                return connection
            connection.close()
        return None

    async def _connect(self, timeouts: Timeouts) -> Connection:
        started = time.perf_counter()
        while len(self._idle) > 0 and len(self._idle) + self.open_connections > self._max:
            self._idle.popleft().close()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeouts.connect):
                _, connection = await loop.create_connection(
                    lambda: Connection(self.name),
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._host if self._tls is not None else None,
                )
        except TimeoutError as exc:
            raise BackendTimeout(
                f"{self.name}: no connection within {timeouts.connect:g} s (the connect limit)",
                backend=self.name,
                limit="connect",
                elapsed_s=time.perf_counter() - started,
            ) from exc
        except OSError as exc:  # ssl.SSLError is one
            raise BackendUnreachable(
                f"{self.name} cannot be reached: {_reason(exc)}", backend=self.name, elapsed_s=time.perf_counter() - started
            ) from exc
        return connection

    async def _wait_for_place(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(self.queue_s):
                await waiter
        except BaseException as exc:
            if waiter.done() and not waiter.cancelled():
                self.give_place()  # it came in the same moment as the end of the wait
            else:
                self._waiters.remove(waiter)
            if isinstance(exc, TimeoutError):
                raise BackendBusy(
                    f"{self.name}: all {self._max} connections were busy for {self.queue_s:g} s",
                    backend=self.name,
                    retry_after_s=self.queue_s,
                ) from exc
            raise

    def give_place(self) -> None:
        """Let another request have the place of one that has ended."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._places += 1


def _reason(error: OSError) -> str:
    """Why there is no connection, in the words of the system: asyncio's own are Python values, one for each address tried."""
    numbers = dict.fromkeys(int(number) for number in _ERRNO.findall(str(error)))
    return ", ".join(os.strerror(number) for number in numbers) or error.strerror or str(error)
