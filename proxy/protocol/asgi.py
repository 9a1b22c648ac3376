"""The few ASGI moves that the query path needs, without request and response objects (they cost more than the proxying)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from types import TracebackType
from typing import Any, Self

from proxy.backends.base import KnownFields
from proxy.errors import BodyTooLarge

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Fields = Sequence[tuple[bytes, bytes]]

WATCH_AFTER_S = 0.005
"""Most answers are there sooner; only for the others a task that waits for the client's leaving is worth its 15 µs."""


class ClientGone(Exception):
    """The client has closed its connection; there is nobody to answer."""


class ClientWatch:
    """While entered, a client that leaves cancels the task that entered, which then raises ClientGone.

    ASGI servers do not cancel a handler when its client leaves: before the response begins only ``receive`` tells.
    The request body must have been read, or *is_body_read* be False and ``begin`` called when it has.
    """

    def __init__(self, receive: Receive, *, is_body_read: bool = True) -> None:
        self._receive = receive
        self._is_body_read = is_body_read
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._task: asyncio.Task[Any] | None = None
        self._is_gone = False

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        if self._is_body_read:
            self.begin()
        return self

    def begin(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(WATCH_AFTER_S, self._start)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        if self._is_gone:
            assert self._task is not None
            self._task.uncancel()
            if isinstance(error, asyncio.CancelledError):
                raise ClientGone from None

    def _start(self) -> None:
        self._watcher = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        assert self._task is not None
        if not self._task.done():
            self._is_gone = True
            self._task.cancel()


def field(headers: Fields, name: bytes) -> str | None:
    """The value of a field, repeats joined by commas (RFC 9110, 5.3); None if it is not there."""
    if type(headers) is KnownFields:
        return headers.values.get(name)
    found = [value for n, value in headers if n == name]
    if not found:
        return None
    return (found[0] if len(found) == 1 else b", ".join(found)).decode("latin-1")


def _require_announced_fits(headers: Fields, limit_bytes: int) -> None:
    length = field(headers, b"content-length")
    if length is not None and length.isdigit() and int(length) > limit_bytes:
        raise _too_large(limit_bytes)


def require_fits(headers: Fields, body: bytes, *, limit_bytes: int) -> None:
    """Raise BodyTooLarge where a body that has been read, or what was announced of it, is too long."""
    _require_announced_fits(headers, limit_bytes)
    if len(body) > limit_bytes:
        raise _too_large(limit_bytes)


def _too_large(limit_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than {limit_bytes} bytes (server.body_limit_bytes)", limit_bytes=limit_bytes)


async def read_body(headers: Fields, receive: Receive, *, limit_bytes: int) -> bytes:
    """Read the whole request body.

    Raises:
        BodyTooLarge, ClientGone
    """
    _require_announced_fits(headers, limit_bytes)
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        body: bytes = message.get("body", b"")
        if len(body) > limit_bytes:
            raise _too_large(limit_bytes)
        return body
    pieces, size = [], 0
    while True:
        if message["type"] == "http.disconnect":
            raise ClientGone
        piece = message.get("body", b"")
        pieces.append(piece)
        size += len(piece)
        if size > limit_bytes:
            raise _too_large(limit_bytes)
        if not message.get("more_body", False):
            return b"".join(pieces)
        message = await receive()


async def stream_body(
    headers: Fields, receive: Receive, *, limit_bytes: int, at_end: Callable[[], None]
) -> AsyncIterator[bytes]:
    """Yield the request body as it arrives; call *at_end* after its last piece. Raises as ``read_body``."""
    _require_announced_fits(headers, limit_bytes)
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        piece = message.get("body", b"")
        size += len(piece)
        if size > limit_bytes:
            raise _too_large(limit_bytes)
        if piece:
            yield piece
        if not message.get("more_body", False):
            at_end()
            return


async def respond(send: Send, status: int, headers: Fields, body: bytes = b"") -> None:
    """Send a complete response; the caller has set content-length."""
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})
