"""Queries that need not wait for anything, taken from connection to connection without a task.

The same steps as in the ASGI application, by the same functions: who asks (``Admission``), what is asked (``SparqlEndpoints``),
whether it may pass (``SparqlPath``), the way to the backend (``Gateway``), the log line (``RequestLog``). Where a step would
have to wait, or a plugin listens, the request goes to the application, which begins anew with what is known already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from proxy.backends.base import NAME, BackendResponse
from proxy.errors import BackendError, ProxyError
from proxy.pipeline.exchange import Exchange
from proxy.protocol.admission import Admission
from proxy.protocol.asgi import App, Scope, field
from proxy.protocol.endpoints import ANSWER, SparqlEndpoints
from proxy.protocol.middleware import (
    EXCHANGE,
    INTERNAL_ERROR,
    OWN_NAMES,
    RequestLog,
    lines_of_own,
    outcome_of,
    require_one_host,
    with_own_fields,
)
from proxy.protocol.problems import render, render_internal

if TYPE_CHECKING:
    from proxy.pipeline.flight import Flight
    from proxy.pipeline.limits import ClientLimits
    from proxy.protocol.connection import ClientConnection, Request
    from proxy.protocol.response import ResponseWriter


SERVED_BY = "sparlance.served-by"
"""Key in the ASGI scope of a request that began here and goes on there: the application that it began in."""


class DirectLane:
    """Takes what it can of the requests of all connections.

    Args:
        app: which the rest of a request goes to, although another one may serve by then.
        enter, leave: told of each request that begins and ends here.
    """

    def __init__(
        self,
        log: RequestLog,
        admission: Admission,
        endpoints: SparqlEndpoints,
        *,
        app: App,
        enter: Callable[[], None],
        leave: Callable[[], None],
    ) -> None:
        self.app, self.enter, self.leave = app, enter, leave
        self.log = log
        self._admission = admission
        self._endpoints = endpoints

    def may_take(self, scope: Scope) -> bool:
        """Whether a request with this head may be one for here; its body is needed to be sure."""
        return self._endpoints.route_of_query(scope) is not None

    def take(self, connection: ClientConnection, request: Request, writer: ResponseWriter, body: bytes) -> bool:
        """Begin to answer *request*, perhaps to the end; False: the application must."""
        scope = request.scope
        exchange = self.log.open(scope)
        self.enter()
        direct = DirectExchange(self, connection, request, writer, exchange)
        try:
            require_one_host(scope)
            direct.limits = self._admission.admit(scope, exchange)
            began = self._begin(direct, scope, exchange, body)
        except ProxyError as error:
            direct.refuse(error)
            return True
        except Exception:
            direct.stumble()
            return True
        if not began:
            self.leave()
            scope[EXCHANGE] = afresh(exchange)
            return False
        request.answering = direct
        return True

    def _begin(self, direct: DirectExchange, scope: Scope, exchange: Exchange, body: bytes) -> bool:
        route = self._endpoints.route_of_query(scope)
        if route is None or not route.path.may_pass_now:
            return False
        read = self._endpoints.read_query(scope, route, exchange, body)
        if read is None:
            return False
        asked, prefer = read
        request = route.path.pass_now(exchange, asked, prefer=prefer)
        if request is None:
            return False
        direct.flight = route.path.dataset.gateway.start(exchange, request, direct)
        return direct.flight is not None


def afresh(exchange: Exchange) -> Exchange:
    """The record of a request that begins anew: who asks is known, and when it came."""
    return Exchange(
        exchange.request_id, client=exchange.client, principal=exchange.principal, started_at=exchange.started_at
    )


class DirectExchange:
    """One request and its flight; told of news by both sides."""

    __slots__ = ("_connection", "_exchange", "_is_over", "_lane", "_request", "_writer", "flight", "limits")

    def __init__(
        self,
        lane: DirectLane,
        connection: ClientConnection,
        request: Request,
        writer: ResponseWriter,
        exchange: Exchange,
    ) -> None:
        self._lane = lane
        self._connection = connection
        self._request = request
        self._writer = writer
        self._exchange = exchange
        self.flight: Flight | None = None
        self.limits: ClientLimits | None = None
        self._is_over = False

    # -- told by the flight

    def advance(self) -> None:
        flight, writer = self.flight, self._writer
        if flight is None or (self._connection.is_write_paused and writer.status):
            return
        try:
            response = flight.response
            data, is_last, error = response.news()
            if not writer.status:
                exchange = self._exchange
                headers = response.headers
                if exchange.added_headers or not OWN_NAMES.isdisjoint(map(NAME, headers)):
                    headers = [f for f in (*headers, *exchange.added_headers) if f[0] not in OWN_NAMES]
                lines = lines_of_own(exchange.request_id)
                writer.head(response.status, headers, data if is_last else None, lines=lines)
                if data and not is_last:
                    writer.body(data, is_last=False)
            elif data or is_last:
                writer.body(data, is_last=is_last)
        except Exception:
            self.stumble()
            return
        if is_last:
            self._end("")
        elif error is not None:
            self._break(error)

    def fail(self, error: BackendError) -> None:
        self.flight = None
        self.refuse(error)

    def hand_over(self, response: BackendResponse) -> None:
        self.flight = None
        scope = self._request.scope
        scope[ANSWER], scope[SERVED_BY] = response, self._lane.app
        self._connection.run(self._request, self._writer)
        # Not before the application has counted it: what serves it is closed when the last request has left.
        asyncio.get_running_loop().call_soon(self._lane.leave)

    # -- told by the connection

    def abandon(self) -> None:
        self._end("client-gone", is_gone=True)

    def resume(self) -> None:
        if self._writer.status:  # else it has not begun
            self.advance()

    # -- the end

    def refuse(self, error: ProxyError) -> None:
        """Answer with the problem that *error* is."""
        exchange = self._exchange
        outcome = outcome_of(error, exchange)
        self._respond(*render(error, request_id=exchange.request_id, accept=self._accept))
        self._end(outcome, error=error)

    def stumble(self) -> None:
        """Deal with an exception that nobody foresaw; called while it is handled."""
        exchange = self._exchange
        structlog.get_logger().exception("request_failed", path=self._request.scope["path"], request_id=exchange.request_id)
        if self._writer.status:
            self._connection.abort()
        else:
            self._respond(*render_internal(request_id=exchange.request_id, accept=self._accept))
        self._end(INTERNAL_ERROR)

    def _break(self, error: BackendError) -> None:
        """Break the transfer off: there is no error response once a response has begun."""
        structlog.get_logger().warning("transfer_broken", error=str(error), request_id=self._exchange.request_id)
        self._connection.abort()
        self._end(type(error).__name__, error=error, is_broken=True)

    def _respond(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        self._writer.head(status, with_own_fields(headers, self._exchange.request_id), body)

    def _end(self, outcome: str, *, error: ProxyError | None = None, is_broken: bool = False, is_gone: bool = False) -> None:
        if self._is_over:
            return  # a connection that we abort tells us that it is lost
        self._is_over = True
        flight, self.flight = self.flight, None
        if flight is not None:
            flight.release()
        self._request.answering = None  # no cycle is left for the collector
        exchange, writer = self._exchange, self._writer
        if self.limits is not None:
            Admission.charge(self.limits, exchange, error)
        self._lane.leave()
        self._lane.log.over(self._request.scope, exchange, writer.status, writer.size, outcome, is_broken=is_broken)
        if not is_gone and writer.is_over:
            self._connection.answered(keep_alive=writer.keep_alive)

    @property
    def _accept(self) -> str | None:
        return field(self._request.scope["headers"], b"accept")
