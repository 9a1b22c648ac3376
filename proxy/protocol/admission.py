"""Who a request is counted for, and whether it may be worked on now (plain ASGI)."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Awaitable, Sequence

from proxy.errors import BackendTimeout, ProxyError, RequestError
from proxy.pipeline.exchange import Exchange
from proxy.pipeline.limits import ClientLimits, client_key
from proxy.protocol.access import AccessGate
from proxy.protocol.asgi import App, Receive, Scope, Send
from proxy.protocol.middleware import EXCHANGE

ADMITTED = "sparlance.admitted"
"""Key in the ASGI scope of a request that was admitted before: the limits that it counts for, or None."""


class Admission:
    """Names the client of each request, and holds it to its limits before *app* sees it.

    Args:
        access: tells who asks, by API key; None: nobody is asked.
        limits: None: nobody is limited.
        trusted_proxies: addresses and networks whose X-Forwarded-For is believed; anybody else could write anything there.
    """

    def __init__(
        self,
        app: App,
        limits: ClientLimits | None = None,
        *,
        trusted_proxies: Sequence[str] = (),
        access: AccessGate | None = None,
    ) -> None:
        self._app = app
        self._access = access
        self.limits = limits
        self._trusted = tuple(ipaddress.ip_network(name, strict=False) for name in trusted_proxies)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        exchange: Exchange = scope[EXCHANGE]
        if ADMITTED in scope:
            limits: ClientLimits | None = scope[ADMITTED]
        else:
            limits = self.admit(scope, exchange)
        if limits is None:
            return self._app(scope, receive, send)
        return self._limited(limits, exchange, scope, receive, send)

    def admit(self, scope: Scope, exchange: Exchange) -> ClientLimits | None:
        """Find out who asks, and count the request.

        Returns:
            The limits to ``charge`` when it is over; None: there are none.
        Raises:
            NotAuthenticated, RateLimited
        """
        exchange.client = self.client_of(scope)
        limits = self.limits
        if self._access is not None:
            self._access.identify(scope, exchange)
            principal = exchange.principal
            if principal is not None and principal.key is not None:
                exchange.client = client_key("", account=principal.key.id)
                limits = self._access.limits_of(principal.key) or limits
        if limits is not None:
            limits.require_admitted(exchange.client)
        scope[ADMITTED] = limits
        return limits

    async def _limited(self, limits: ClientLimits, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        error: BaseException | None = None
        try:
            await self._app(scope, receive, send)
        except BaseException as exc:
            error = exc
            raise
        finally:
            self.charge(limits, exchange, error)

    def client_of(self, scope: Scope) -> str:
        """Whose request this is."""
        peer = scope.get("client")
        address = peer[0] if peer else "unknown"
        if self._trusted and self._is_trusted(address):
            address = self._forwarded_for(scope, address)
        return client_key(address)

    @staticmethod
    def charge(limits: ClientLimits, exchange: Exchange, error: BaseException | None) -> None:
        """Count what the request has cost, once it is over; *error*: how it ended, None: with an answer of the backend's.

        The client answers for what it asked: for a refused query, a heavy one, an error status; not for a backend that is
        down or a queue that is full.
        """
        seconds = time.perf_counter() - exchange.asked_at if exchange.asked_at else 0.0
        is_error = isinstance(error, RequestError | BackendTimeout) or (
            not isinstance(error, ProxyError) and exchange.status >= 400
        )
        limits.charge(exchange.client, seconds, is_error=is_error)

    def _is_trusted(self, address: str) -> bool:
        try:
            read = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(read in network for network in self._trusted)

    def _forwarded_for(self, scope: Scope, peer: str) -> str:
        """The last address that a trusted proxy has seen and is none itself: what stands before it is hearsay."""
        listed = b",".join(value for name, value in scope["headers"] if name == b"x-forwarded-for").decode("latin-1")
        found = peer
        for entry in reversed(listed.split(",")):
            try:
                found = str(ipaddress.ip_address(_without_port(entry.strip())))
            except ValueError:
                break
            if not self._is_trusted(found):
                break
        return found


def _without_port(entry: str) -> str:
    """``[::1]:80`` → ``::1``, ``10.0.0.7:80`` → ``10.0.0.7``; some proxies add it."""
    if entry.startswith("["):
        return entry[1:].partition("]")[0]
    return entry.partition(":")[0] if entry.count(":") == 1 else entry
