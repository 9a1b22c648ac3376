"""The server's side of a WebSocket (RFC 6455), as far as a stand-in needs it: text frames, ping, close."""

from __future__ import annotations

import base64
import hashlib
import struct

from tests.servers.wire import Connection, Gone, Request

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


def is_upgrade(request: Request) -> bool:
    connection = (request.header("connection") or "").lower()
    return (request.header("upgrade") or "").lower() == "websocket" and "upgrade" in connection


async def accept(request: Request, connection: Connection) -> None:
    """Answer the opening handshake."""
    key = (request.header("sec-websocket-key") or "").encode()
    digest = base64.b64encode(hashlib.sha1(key + _GUID.encode(), usedforsecurity=False).digest()).decode()
    headers = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", digest)]
    await connection.start(101, "Switching Protocols", headers, chunked=False, body=False)


async def send(connection: Connection, opcode: int, payload: bytes) -> None:
    """Send one unmasked frame."""
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", 0x80 | opcode, size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", 0x80 | opcode, 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 127, size)
    await connection.send(head + payload)


async def receive(connection: Connection) -> str | None:
    """Return the next text message; None once the client closes. Pings are answered.

    Raises:
        Gone: a frame that a client may not send (unmasked, or fragmented, which no client of QLever does).
    """
    reader = connection.reader
    while True:
        try:
            first, second = await reader.readexactly(2)
        except EOFError:
            return None
        size = second & 0x7F
        if size == 126:
            (size,) = struct.unpack("!H", await reader.readexactly(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", await reader.readexactly(8))
        if not second & 0x80 or not first & 0x80:
            raise Gone
        mask = await reader.readexactly(4)
        payload = bytes(byte ^ mask[i % 4] for i, byte in enumerate(await reader.readexactly(size)))
        match first & 0x0F:
            case 1:
                return payload.decode()
            case 8:
                await send(connection, CLOSE, payload[:2])
                return None
            case 9:
                await send(connection, PONG, payload)
