"""Requests whose fields came before on their connection, byte for byte: read without the parser (pure)."""

from __future__ import annotations

import re

from proxy.backends.base import KnownFields

_PLAIN_GET = re.compile(rb"GET (/[A-Za-z0-9._~%!$&'()*+,;=:@/-]*)\?([A-Za-z0-9._~%!$&'()*+,;=:@/?-]*) HTTP/1\.1\r\n")
"""Request lines of queries that any reader of RFC 9112 reads alike: the characters of RFC 3986, one blank between the parts."""
KNOWN_HEAD_BYTES = 4096
"""Longer heads are not kept."""


class KnownHead:
    """Recognises requests that differ from an earlier one of their connection in their target only: most of a client's do.

    The parser has read that one, and found nothing but its head: a GET of HTTP/1.1 without a body that leaves the connection
    open. Behind a plain request line the same bytes are the same fields. One connection's, so that nobody learns from the
    time which fields others send, and what they hold goes with it.
    """

    __slots__ = ("_block", "_fields", "_known")

    def __init__(self) -> None:
        self._block = b""
        self._fields: list[tuple[bytes, bytes]] = []
        self._known: KnownFields | None = None

    @property
    def fields(self) -> KnownFields:
        """Those of the requests that ``read`` recognises."""
        if self._known is None:
            self._known = KnownFields(self._fields)
        return self._known

    def read(self, data: bytes) -> tuple[bytes, bytes] | None:
        """Path and query string where *data*, which begins a message, is one such request and nothing else."""
        block = self._block
        if not block or not data.endswith(block):
            return None
        line = _PLAIN_GET.fullmatch(data, 0, len(data) - len(block))
        return None if line is None else (line[1], line[2])

    def keep(self, data: bytes, fields: list[tuple[bytes, bytes]]) -> None:
        """Remember the head of *data*, which began a message; the parser has read it to its end as one without a body."""
        if len(data) <= KNOWN_HEAD_BYTES and data.find(b"\r\n\r\n") == len(data) - 4 and (line := _PLAIN_GET.match(data)):
            self._block, self._fields, self._known = data[line.end() :], fields, None
