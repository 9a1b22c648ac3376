"""One request that an ASGI application answers: receive and send over a client's connection (ASGI, HTTP spec 2.3)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from proxy.protocol.asgi import App, Message, Scope

if TYPE_CHECKING:
    from proxy.protocol.connection import ClientConnection
    from proxy.protocol.response import ResponseWriter

_NO_CONTENT_TYPE = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"21")]


class AsgiCycle:
    """From the head of a request to the end of its response.

    Args:
        body: what of it has arrived. is_complete: that is all. expects_continue: the client waits to be told to send it.
    """

    def __init__(
        self,
        connection: ClientConnection,
        scope: Scope,
        writer: ResponseWriter,
        body: bytes,
        *,
        is_complete: bool,
        expects_continue: bool = False,
    ) -> None:
        self._connection = connection
        self._scope = scope
        self.writer = writer
        self._body = bytearray(body)
        self._is_complete = is_complete
        self._expects_continue = expects_continue and not is_complete
        self._news = asyncio.Event()
        if body or is_complete:
            self._news.set()
        self._is_gone = False

    # -- the connection's side

    def add_body(self, data: bytes) -> int:
        """Take a piece of the body; returns how much waits to be read."""
        if self.writer.is_over:
            return 0
        self._body += data
        self._news.set()
        return len(self._body)

    def end_body(self) -> None:
        self._is_complete = True
        self._news.set()

    def abandon(self) -> None:
        self._is_gone = True
        self._news.set()

    def resume(self) -> None:
        """Whoever waits in ``send`` is woken by the connection."""

    async def run(self, app: App) -> None:
        writer = self.writer
        try:
            await app(self._scope, self.receive, self.send)
        except asyncio.CancelledError:
            if not writer.is_over:
                self._connection.abort()
            raise
        except Exception as error:
            structlog.get_logger().error("request_failed", path=self._scope["path"], exc_info=error)
        if self._is_gone or writer.is_over:
            return
        if writer.status:
            self._connection.abort()
        else:
            writer.keep_alive = False
            writer.head(500, _NO_CONTENT_TYPE, b"Internal Server Error")
            self._connection.answered(keep_alive=False)

    # -- the application's side

    async def receive(self) -> Message:
        if self._expects_continue and not self._is_gone and not self.writer.status:
            self._expects_continue = False
            self._connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if not self._is_gone and not self.writer.is_over:
            self._connection.resume_reading()
            await self._news.wait()
            self._news.clear()
        if self._is_gone or self.writer.is_over:
            return {"type": "http.disconnect"}
        message = {"type": "http.request", "body": bytes(self._body), "more_body": not self._is_complete}
        self._body.clear()
        return message

    async def send(self, message: Message) -> None:
        connection, writer = self._connection, self.writer
        if connection.is_write_paused:
            await connection.writable()
        if self._is_gone:
            return
        if message["type"] == "http.response.start":
            # A body that was not asked for does not come: the next bytes would be taken for it.
            if self._expects_continue:
                writer.keep_alive = False
            self._expects_continue = False
            writer.head(message["status"], message.get("headers", ()))
            return
        is_last = not message.get("more_body", False)
        writer.body(message.get("body", b""), is_last=is_last)
        if is_last:
            self._news.set()
            connection.answered(keep_alive=writer.keep_alive)
