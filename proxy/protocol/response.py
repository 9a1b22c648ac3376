"""Writing one HTTP/1.1 response: status line, fields, framing of the body (RFC 9112, sections 4, 6 and 7)."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.protocol.connection import ClientConnection

_FRAMING = frozenset([b"content-length", b"transfer-encoding", b"connection", b"keep-alive"])
_BODILESS = frozenset([204, 304])


def _status_line(status: int) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {status} {phrase}\r\n".encode("ascii")


_STATUS_LINES = {status: _status_line(status) for status in range(100, 600)}


class ResponseWriter:
    """One response to one request.

    Args:
        is_head: the request was a HEAD: there is no body, whatever is announced.
        version: of the request; a client of HTTP/1.0 knows no chunks: the end of the connection is the end of the body.
    """

    __slots__ = ("_connection", "_is_chunked", "_is_head", "_left", "_version", "is_over", "keep_alive", "size", "status")

    def __init__(self, connection: ClientConnection, *, keep_alive: bool, is_head: bool = False, version: str = "1.1") -> None:
        self._connection = connection
        self._is_head = is_head
        self._version = version
        self._is_chunked = False
        self._left: int | None = None
        self.keep_alive = keep_alive
        self.status = self.size = 0
        self.is_over = False

    def head(
        self, status: int, fields: Iterable[tuple[bytes, bytes]], body: bytes | None = None, *, lines: bytes = b""
    ) -> None:
        """Write the head; *body*: with all of the body, None: it follows. lines: further fields, as they are written.

        Raises:
            ValueError: a field that cannot be sent, or a body that is not as long as announced.
        """
        parts = [_STATUS_LINES[status]]
        self._is_chunked, self._left, is_framed = False, None, False
        for name, value in fields:
            if name in _FRAMING:
                if name == b"content-length":
                    if status == 204:
                        continue  # it has none (RFC 9110, 8.6); some clients would wait for it
                    self._left, is_framed = int(value), True
                else:  # the rest is ours
                    if name == b"connection" and b"close" in value.lower():
                        self.keep_alive = False
                    continue
            parts += (name, b": ", value, b"\r\n")
        self.status = status
        if self._is_head or status in _BODILESS:
            self._left = 0
        elif not is_framed:
            if self._version == "1.1":
                self._is_chunked = True
                parts.append(b"transfer-encoding: chunked\r\n")
            else:
                self.keep_alive = False
        if not self.keep_alive:
            parts.append(b"connection: close\r\n")
        n = 1 + (len(parts) - 1) // 4 + (not self.keep_alive) + self._is_chunked
        parts.append(lines)
        parts.append(b"\r\n")
        written = b"".join(parts)
        n += 1 + lines.count(b"\n")
        if written.count(b"\n") != n or written.count(b"\r") != n or b"\0" in written:
            self.status = 0
            raise ValueError("a field with a line break in it cannot be sent (RFC 9110, 5.5)")
        if body is not None:
            framed = [written]
            self._frame(framed, body, is_last=True)
            written = b"".join(framed)
        self._connection.transport.write(written)
        self.is_over = body is not None

    @property
    def ends_with_connection(self) -> bool:
        """Whether nothing but the end of the connection tells the end of the body."""
        return self.status != 0 and self._left is None and not self._is_chunked

    def body(self, data: bytes, *, is_last: bool) -> None:
        """Write a piece of the body.

        Raises:
            ValueError: it is longer, or shorter, than announced.
        """
        parts: list[bytes] = []
        self._frame(parts, data, is_last=is_last)
        if parts:
            self._connection.transport.write(parts[0] if len(parts) == 1 else b"".join(parts))
        self.is_over = is_last

    def _frame(self, parts: list[bytes], data: bytes, *, is_last: bool) -> None:
        size = len(data)
        self.size += size
        if self._is_chunked:
            if size:
                parts += (b"%x\r\n" % size, data, b"\r\n")
            if is_last:
                parts.append(b"0\r\n\r\n")
            return
        if self._is_head or self.status in _BODILESS:
            return
        if self._left is not None:
            self._left -= size
            if self._left < 0 or (is_last and self._left):
                raise ValueError("the body is not as long as announced")
        if size:
            parts.append(data)
