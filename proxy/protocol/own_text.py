"""What we write ourselves for a request, as a plugin would have it: problems, pages, the account of a question."""

from __future__ import annotations

from collections.abc import Callable

from proxy.pipeline.exchange import Exchange
from proxy.protocol.asgi import Message, Send

_LENGTH = b"content-length"
_OURS = b"sparlance-"


class OwnText:
    """Sends a response of *exchange* on, changed by *change*; the body of a backend's has had plugins' filters, and stays.

    Each message is changed for itself: ours are whole, be it a document or an event.
    """

    def __init__(self, exchange: Exchange, change: Callable[[bytes], bytes], send: Send) -> None:
        self._exchange = exchange
        self._change = change
        self._send = send
        self._start: Message | None = None

    async def __call__(self, message: Message) -> None:
        change = self._change
        if message["type"] == "http.response.start":
            message["headers"] = [(n, change(v) if n.startswith(_OURS) else v) for n, v in message["headers"]]
            if self._exchange.is_relayed:
                await self._send(message)
            else:
                self._start = message  # its length is known with the body
            return
        if self._exchange.is_relayed and self._start is None:
            await self._send(message)
            return
        body = change(message.get("body", b""))
        if (start := self._start) is not None:
            self._start = None
            is_whole = not message.get("more_body", False)
            fields = [f for f in start["headers"] if f[0] != _LENGTH]
            if is_whole and len(fields) < len(start["headers"]):
                fields.append((_LENGTH, b"%d" % len(body)))
            await self._send({**start, "headers": fields})
        await self._send({**message, "body": body})
