"""Stop a query that nobody waits for any more, where the product has a way (docs/backends.md, "When the client leaves").

QLever reads ``cancel`` from a WebSocket. The client side of RFC 6455 that this takes is one handshake and one masked frame, in
sixty lines; a WebSocket library would be a dependency for one message that never has an answer.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import os
import secrets
import ssl
from collections.abc import Sequence
from urllib.parse import quote

from proxy.backends.base import BackendRequest, BackendResponse
from proxy.backends.pool import ConnectionPool
from proxy.backends.product import Monitor
from proxy.errors import BackendError

CANCEL_LIMIT_S = 2.0
"""For the whole attempt. The backend is there, or it is not; nobody waits for this but a place in the queue."""
CLOSE_LIMIT_S = 0.5
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT, _CLOSE = 0x81, 0x88


def name_query(request: BackendRequest, monitor: Monitor) -> tuple[BackendRequest, str]:
    """Return *request* with a name for its query, its own if it has one, and that name."""
    for field, value in request.headers:
        if field == monitor.field:
            return request, value.decode("latin-1")
    name = "sparlance-" + secrets.token_hex(8)
    headers = [*request.headers, (monitor.field, name.encode("ascii"))]
    return BackendRequest(request.method, request.target, headers, request.body, request.operation), name


async def cancel_by_delete(pool: ConnectionPool, target: str, headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """DELETE *target*; return whether the backend said that it did."""
    request = BackendRequest("DELETE", target.encode("ascii"), [(b"user-agent", b"sparlance"), *headers])
    try:
        async with asyncio.timeout(CANCEL_LIMIT_S):
            response: BackendResponse = await pool.send(request, is_safe=False)
            status = response.status
            await response.aclose()
    except (BackendError, TimeoutError):
        return False
    return 200 <= status < 300


async def cancel_by_watch(
    host: str, port: int, target: str, *, authority: bytes, tls: ssl.SSLContext | None = None
) -> bool:
    """Send ``cancel`` to the WebSocket at *target*; return whether it could be sent."""
    try:
        async with asyncio.timeout(CANCEL_LIMIT_S):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls, server_hostname=host if tls else None)
            try:
                return await _say(reader, writer, target, authority, b"cancel")
            finally:
                writer.close()
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return False


async def _say(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str, authority: bytes, message: bytes
) -> bool:
    key = base64.b64encode(os.urandom(16))
    writer.write(
        b"GET %b HTTP/1.1\r\nhost: %b\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
        b"sec-websocket-version: 13\r\nsec-websocket-key: %b\r\n\r\n" % (target.encode("ascii"), authority, key)
    )
    head = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
    fields = {n.strip().lower(): v.strip() for n, _, v in (line.partition(b":") for line in head[1:])}
    expected = base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())
    if head[0].split(b" ")[1:2] != [b"101"] or fields.get(b"sec-websocket-accept") != expected:
        return False
    writer.write(frame(_TEXT, message) + frame(_CLOSE, b"\x03\xe8"))  # 1000: done
    await writer.drain()
    # The server's close says that it has read what came before; the states that it sends meanwhile do not matter.
    with contextlib.suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(CLOSE_LIMIT_S):
            while await reader.read(65536):
                pass
    return True


def frame(opcode: int, payload: bytes) -> bytes:
    """One final, masked frame; *payload* shorter than 126 bytes (RFC 6455, section 5.2)."""
    mask = os.urandom(4)
    return bytes([opcode, 0x80 | len(payload)]) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload))


def target_of(monitor: Monitor, name: str, prefix: str) -> str:
    """Where the query *name* is stopped."""
    return prefix + monitor.path.format(name=quote(name, safe=""))
