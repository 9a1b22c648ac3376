"""A response of the backend, or an empty one of ours, to the client."""

from __future__ import annotations

from proxy.backends.base import BackendResponse
from proxy.pipeline.exchange import Exchange
from proxy.pipeline.sparql import EmptyAnswer
from proxy.protocol.asgi import Send, respond
from proxy.protocol.results import empty_result


async def relay(exchange: Exchange, response: BackendResponse, send: Send) -> None:
    """Send a backend's response as it arrives; whatever ends this early closes its connection."""
    exchange.is_relayed = True
    status, headers = response.status, [*response.headers, *exchange.added_headers]
    take = getattr(response, "take_whole", None)
    if take is not None and (body := take()) is not None:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return
    try:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        async for piece in response.chunks():
            is_last = getattr(response, "is_complete", False)
            await send({"type": "http.response.body", "body": piece, "more_body": not is_last})
            if is_last:
                return
        await send({"type": "http.response.body", "body": b""})
    finally:
        await response.aclose()


async def respond_empty(exchange: Exchange, answer: EmptyAnswer, accept: str | None, send: Send) -> None:
    """Answer without solutions, in the format that the client wants."""
    content_type, document = empty_result(answer.form, answer.variables, accept)
    headers = [
        (b"content-type", content_type.encode("ascii")),
        (b"content-length", b"%d" % len(document)),
        *exchange.added_headers,
    ]
    await respond(send, 200, headers, document)
