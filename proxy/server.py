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
from types import FrameType
from typing import Any, Protocol, cast

import uvicorn

from proxy.config import ServerSettings
from proxy.errors import ConfigError

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

    Args:
        announce: awaited once, when requests are accepted.
    Returns:
        False if the application could not start.
    """
    config = configure(app, shutdown_timeout_s=settings.shutdown_timeout_s)
    server = _Server(config, announce)
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


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, announce: Announce) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            spare_collector()
            await self._announce()
