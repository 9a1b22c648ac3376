"""Run the application in uvicorn: one socket, bound before anything is loaded, so that a taken port is noticed at once."""

from __future__ import annotations

import asyncio
import errno
import gc
import ipaddress
import math
import signal
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from types import FrameType
from typing import Any, Protocol, cast

import uvicorn

from proxy.config import ServerSettings
from proxy.errors import ConfigError

ACCEPT_AGAIN_S = 1.0
GIVE_WAY_S = 0.001
Announce = Callable[[], Awaitable[None]]


def bind(settings: ServerSettings) -> socket.socket:
    """Listen on the configured address; port 0 takes a free one.

    Raises:
        ConfigError: the address is taken, not this machine's, or not allowed.
    """
    try:
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except socket.gaierror as exc:
        raise ConfigError(
            "server.host", f'found "{settings.host}", which names no address; accepted: 127.0.0.1, ::1 …'
        ) from exc
    except OSError as exc:
        if exc.errno == errno.EADDRINUSE:
            raise ConfigError(
                "server.port", f"{settings.port} is in use; stop what uses it, or choose another (--port)"
            ) from exc
        if exc.errno == errno.EACCES:
            raise ConfigError("server.port", f"{settings.port} is not allowed for this user; choose one above 1023") from exc
        raise ConfigError("server.host", f"cannot listen on {settings.host}: {exc.strerror}") from exc


def url_of(listener: socket.socket) -> str:
    """Where a client on this machine reaches *listener*: ``http://127.0.0.1:8080``."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine can reach it."""
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


class Served(Protocol):
    """An ASGI application that brings its own protocol for a client's connection."""

    def __call__(self, scope: Any, receive: Any, send: Any) -> Awaitable[None]: ...

    def connection(self, state: Any, *, keep_alive_s: float, loop: asyncio.AbstractEventLoop) -> asyncio.Protocol: ...

    def drain(self) -> None: ...


def configure(app: Served, *, shutdown_timeout_s: float) -> uvicorn.Config:
    """uvicorn's part: start, signals, graceful end. What travels over a connection is the application's own business."""

    def connection(
        config: uvicorn.Config, server_state: object, app_state: object, _loop: asyncio.AbstractEventLoop | None = None
    ) -> asyncio.Protocol:
        loop = _loop or asyncio.get_running_loop()
        return app.connection(server_state, keep_alive_s=config.timeout_keep_alive, loop=loop)

    return uvicorn.Config(
        app,
        http=cast(type[asyncio.Protocol], connection),  # it is only ever called
        loop="auto",  # uvloop, where there is one
        ws="none",
        lifespan="on",
        log_config=None,  # proxy.log decides
        access_log=False,  # the event "exchange" says more
        proxy_headers=False,  # the application decides whom to believe
        timeout_graceful_shutdown=math.ceil(shutdown_timeout_s),
    )


def run(app: Served, listener: socket.socket, settings: ServerSettings, *, announce: Announce) -> bool:
    """Serve *app* until a signal says stop; then running requests get ``shutdown_timeout_s``. Closes *listener*.

    SIGTERM comes from whoever manages processes, and there may be a balancer that goes on sending until it has looked at
    ``/-/ready``: for ``drain_s`` of that time new requests are taken, too. A second signal, or Ctrl-C, ends that at once.

    Args:
        announce: awaited once, when requests are accepted.
    Returns:
        False if the application could not start.
    """
    config = configure(app, shutdown_timeout_s=settings.shutdown_timeout_s - settings.drain_s)
    drain_s = settings.drain_s
    server = _Server(config, announce, drain=app.drain, drain_s=drain_s, is_shared=settings.workers > 1)
    # uvicorn stops gracefully at a signal and then raises it again; to us, having stopped as told is success.
    before = {number: signal.signal(number, _ignore) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with listener:
            server.run(sockets=[listener])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return server.started


def spare_collector() -> None:
    """Have Python's collector of cycles look at what is there now no more, and at what is new less often.

    Requests leave no cycles behind, and each makes some hundred objects: with the defaults the collector runs every few
    requests, for a tenth of their CPU.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _ignore(number: int, frame: FrameType | None) -> None:
    """A signal that uvicorn has dealt with."""


class TurnTaking:
    """Accepts from a socket that other processes accept from too, so that each gets its share.

    An event loop's own server accepts all that wait, so that of a few connections opened at once the first worker that looks
    gets all, and the others have nothing to do. Here a worker that has connections lets the others go first for a moment, and
    then takes few; one that has many takes more at once, so that nobody waits long where many come.

    Args:
        connection: makes the protocol of a connection. count: how many connections there are now.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: socket.socket,
        connection: Callable[[], asyncio.Protocol],
        count: Callable[[], int],
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._connection = connection
        self._count = count
        self._opening: set[asyncio.Task[Any]] = set()
        self._is_closed = False
        listener.setblocking(False)
        self._listen()

    def _listen(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listener.fileno(), self._look)

    def _look(self) -> None:
        self._loop.remove_reader(self._listener.fileno())
        if self._count() or self._opening:
            self._loop.call_later(GIVE_WAY_S, self._take)
        else:
            self._take()

    def _take(self) -> None:
        if self._is_closed:
            return
        pause_s = 0.0
        for _ in range(1 + self._count() // 4):
            try:
                if not self._accept():
                    break
            except OSError as exc:
                if exc.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    raise
                pause_s = ACCEPT_AGAIN_S  # nothing can be opened now
                break
        if pause_s:
            self._loop.call_later(pause_s, self._listen)
        else:
            self._listen()

    def _accept(self) -> bool:
        try:
            client, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False  # another process was quicker, or the client has left
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(self._loop.connect_accepted_socket(self._connection, client))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        return True

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._listener.fileno())

    async def wait_closed(self) -> None:
        """There is nothing to wait for: connections have their own end."""


class _Server(uvicorn.Server):
    """Args: drain: told that the end is near. is_shared: other processes accept from the same sockets."""

    def __init__(
        self,
        config: uvicorn.Config,
        announce: Announce,
        *,
        drain: Callable[[], None],
        drain_s: float = 0.0,
        is_shared: bool = False,
    ) -> None:
        super().__init__(config)
        self._announce = announce
        self._is_shared = is_shared
        self._drain, self._drain_s = drain, drain_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_draining = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._drain()
        if sig != signal.SIGTERM or not self._drain_s or self._is_draining or self._loop is None:
            super().handle_exit(sig, frame)
            return
        self._is_draining = True
        stop = partial(super().handle_exit, sig, frame)
        self._loop.call_soon_threadsafe(self._loop.call_later, self._drain_s, stop)  # a signal comes at any moment

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets=[] if self._is_shared else sockets)
        if self.started and self._is_shared:
            loop = asyncio.get_running_loop()

            def connection() -> asyncio.Protocol:
                make: Any = self.config.http_protocol_class
                protocol: asyncio.Protocol = make(
                    config=self.config, server_state=self.server_state, app_state=self.lifespan.state, _loop=loop
                )
                return protocol

            servers: list[Any] = self.servers  # which it only closes
            count = self.server_state.connections.__len__
            servers += [TurnTaking(loop, listener, connection, count) for listener in sockets or ()]
        if self.started:
            spare_collector()
            await self._announce()
