"""Around every request: its id, its log line, errors made into problems, and the CORS fields.

Plain ASGI. Errors are rendered here and nowhere else; once a response has begun there is no error response, the transfer is
broken off instead, so that no client takes a part for the whole.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from operator import countOf

import structlog

from proxy import log
from proxy.backends.base import NAME, KnownFields
from proxy.errors import MalformedRequest, ProxyError, QueryRejected, RequestError
from proxy.pipeline.exchange import Exchange
from proxy.pipeline.metrics import Metrics
from proxy.protocol.asgi import App, ClientGone, Message, Receive, Scope, Send, field, respond
from proxy.protocol.own_text import OwnText
from proxy.protocol.problems import render, render_internal

EXCHANGE = "sparlance.exchange"
"""Key of the Exchange in the ASGI scope."""
LOG_AFTER_S = 0.005
"""So long the line of a request may wait for others: written in a row they cost half as much, and no answer waits for them."""
INTERNAL_ERROR = "internal-error"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_ALLOW_ORIGIN = b"access-control-allow-origin"
# With a wildcard, browsers send no credentials; saying otherwise would be an error (Fetch, "CORS protocol and credentials").
_CORS = (
    (_ALLOW_ORIGIN, b"*"),
    (
        b"access-control-expose-headers",
        b"content-length, retry-after, sparlance-query, sparlance-risk, sparlance-status, sparlance-validation, x-request-id",
    ),
)
_OWN_LINES = b"".join([b"%b: %b\r\n" % field for field in _CORS]) + b"x-request-id: "
OWN_NAMES = frozenset(
    [_ALLOW_ORIGIN, b"access-control-allow-credentials", b"access-control-expose-headers", b"x-request-id"]
)
PREFLIGHT_METHODS = b"GET, HEAD, POST, PUT, DELETE, OPTIONS"


Trace = Callable[[Mapping[str, object], Sequence[tuple[bytes, bytes]], float, int], None]
"""(fields of the log line, headers of the request, how long it took in s, when it was over in ns)."""


class RequestLog:
    """The outermost application: every request gets an Exchange, a request id, and ends in one log event ``exchange``.

    Args:
        metrics: counts every request; None: nobody does. trace: makes a span of what the log says; None: there are none.
    """

    def __init__(self, app: App, metrics: Metrics | None = None, trace: Trace | None = None) -> None:
        self._trace = trace
        self._app = app
        self._metrics = metrics
        self._ended: list[tuple[Scope, Exchange, int, int, str, bool, float, int]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = scope["headers"]
        exchange: Exchange = scope.get(EXCHANGE) or self.open(scope)
        request_id = exchange.request_id
        structlog.contextvars.bind_contextvars(request_id=request_id)
        status = size = 0
        sender = send

        def counted(message: Message) -> Awaitable[None]:
            nonlocal status, size, sender
            if message["type"] == "http.response.start":
                if exchange.own_text is not None:
                    sender = OwnText(exchange, exchange.own_text, send)
                status = message["status"]
                message["headers"] = with_own_fields(message["headers"], request_id)
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
            return sender(message)

        outcome, is_broken = "", False
        try:
            require_one_host(scope)
            if scope["method"] == "OPTIONS":
                await respond(counted, 204, preflight(headers))
            else:
                await self._app(scope, receive, counted)
        except ClientGone:
            outcome = "client-gone"
        except ProxyError as error:
            outcome = outcome_of(error, exchange)
            if not status:
                await respond(counted, *render(error, request_id=request_id, accept=field(headers, b"accept")))
            else:
                is_broken = True
                structlog.get_logger().warning("transfer_broken", error=str(error))
        except Exception:
            outcome = INTERNAL_ERROR
            structlog.get_logger().exception("request_failed", path=scope["path"])
            if not status:
                await respond(counted, *render_internal(request_id=request_id, accept=field(headers, b"accept")))
        finally:
            self.over(scope, exchange, status, size, outcome, is_broken=is_broken)

    @staticmethod
    def open(scope: Scope) -> Exchange:
        """Begin the record of a request, under the id that it brings or one of ours."""
        sent_id = field(scope["headers"], b"x-request-id")
        is_usable = sent_id is not None and _REQUEST_ID.fullmatch(sent_id) is not None
        exchange = scope[EXCHANGE] = Exchange(sent_id if sent_id and is_usable else f"{random.getrandbits(64):016x}")
        return exchange

    def over(
        self, scope: Scope, exchange: Exchange, status: int, size: int, outcome: str, *, is_broken: bool = False
    ) -> None:
        """Count and log a request that has ended. status: 0: nothing was sent. size: bytes of the body."""
        if not self._ended:
            asyncio.get_running_loop().call_later(LOG_AFTER_S, self.flush)
        total_s = time.perf_counter() - exchange.started_at
        self._ended.append((scope, exchange, status, size, outcome, is_broken, total_s, time.time_ns()))

    def flush(self) -> None:
        """Count the requests that have ended, and write their lines."""
        ended, self._ended = self._ended, []
        metrics, trace, is_logged = self._metrics, self._trace, log.is_info()
        lines: list[tuple[dict[str, object], int]] = []
        for scope, exchange, status, size, outcome, is_broken, total_s, now_ns in ended:
            if metrics is not None:
                metrics.observe(exchange, status, size, total_s, is_broken=is_broken)
            if is_logged or trace is not None:
                fields = _fields(scope, exchange, status, size, outcome, total_s)
                if trace is not None:
                    trace(fields, scope["headers"], total_s, now_ns)
                if is_logged:
                    lines.append((fields, now_ns))
        log.exchanges(lines)


def _fields(
    scope: Scope, exchange: Exchange, status: int, size: int, outcome: str, total_s: float
) -> dict[str, object]:
    """What the log says of a request."""
    operation, parsed = exchange.operation, exchange.parsed
    fields: dict[str, object] = {
        "method": scope["method"],
        "path": scope["path"],
        "status": status,
        "bytes": size,
        "total_ms": _hundredths(total_s * 1000),
        "request_id": exchange.request_id,
    }
    for name, ms in exchange.timings_ms.items():
        fields[name + "_ms"] = _hundredths(ms)
    if parsed is not None:
        fields["form"] = str(getattr(parsed, "form", "UPDATE"))
    elif operation is not None:
        fields["form"] = str(operation.kind)
    if exchange.verdict:
        fields["verdict"] = exchange.verdict
    if exchange.question is not None:
        fields["question"] = True
    if exchange.principal is not None and exchange.principal.key is not None:
        fields["key"] = exchange.principal.key.id
    if exchange.source:
        fields["source"] = exchange.source
    if outcome:
        fields["outcome"] = outcome
    return fields


def _hundredths(number: float) -> float:
    """Rounded to two digits; ``round`` goes by way of the decimal text, at ten times the cost."""
    return int(number * 100 + 0.5) / 100


def require_one_host(scope: Scope) -> None:
    """Raise MalformedRequest where it is not clear which host is asked (RFC 9112, 3.2)."""
    headers = scope["headers"]
    if type(headers) is KnownFields and "," not in headers.values.get(b"host", ","):
        return
    if scope.get("http_version") == "1.1" and countOf(map(NAME, headers), b"host") != 1:
        raise MalformedRequest("a request in HTTP/1.1 has exactly one Host field (RFC 9112, 3.2)")


def outcome_of(error: ProxyError, exchange: Exchange) -> str:
    """How the log calls the end of a request by *error*; notes the verdict where the request itself was at fault."""
    if isinstance(error, RequestError) and not exchange.verdict:
        exchange.verdict = "reject" if isinstance(error, QueryRejected) else "refuse"
    return type(error).__name__


def lines_of_own(request_id: str) -> bytes:
    """What ``with_own_fields`` adds, as it is written."""
    return b"%b%b\r\n" % (_OWN_LINES, request_id.encode("latin-1"))


def with_own_fields(headers: Sequence[tuple[bytes, bytes]], request_id: str) -> list[tuple[bytes, bytes]]:
    """Add the request id and exactly one Access-Control-Allow-Origin, whatever the backend says about either."""
    kept = [f for f in headers if f[0] not in OWN_NAMES]
    return [*kept, *_CORS, (b"x-request-id", request_id.encode("latin-1"))]


def preflight(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The fields of an answer to OPTIONS; with Origin and Access-Control-Request-Method it is a CORS preflight."""
    answer = [(b"allow", PREFLIGHT_METHODS)]
    if field(headers, b"access-control-request-method") is not None:
        answer.append((b"access-control-allow-methods", PREFLIGHT_METHODS))
        wanted = field(headers, b"access-control-request-headers")
        if wanted is not None and re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,2000}", wanted):
            # "*" does not cover Authorization, so the names are repeated.
            answer.append((b"access-control-allow-headers", wanted.encode("latin-1")))
            answer.append((b"vary", b"access-control-request-headers"))
        answer.append((b"access-control-max-age", b"600"))
    return answer
