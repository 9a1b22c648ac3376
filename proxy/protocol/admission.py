"""Who a request is counted for, and whether it may be worked on now (plain ASGI)."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Awaitable, Sequence

from proxy.errors import BackendTimeout, ProxyError, RequestError
from proxy.pipeline.exchange import Exchange
from proxy.pipeline.limits import ClientLimits, client_key
from proxy.protocol.asgi import App, Receive, Scope, Send
from proxy.protocol.middleware import EXCHANGE


class Admission:
    """Names the client of each request, and holds it to its limits before *app* sees it.

    Args:
        limits: None: nobody is limited.
        trusted_proxies: addresses and networks whose X-Forwarded-For is believed; anybody else could write anything there.
    """

    def __init__(self, app: App, limits: ClientLimits | None = None, *, trusted_proxies: Sequence[str] = ()) -> None:
        self._app = app
        self.limits = limits
        self._trusted = tuple(ipaddress.ip_network(name, strict=False) for name in trusted_proxies)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        exchange: Exchange = scope[EXCHANGE]
        exchange.client = self.client_of(scope)
        if self.limits is None:
            return self._app(scope, receive, send)
        return self._limited(self.limits, exchange, scope, receive, send)

    async def _limited(self, limits: ClientLimits, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        limits.require_admitted(exchange.client)
        error: BaseException | None = None
        try:
            await self._app(scope, receive, send)
        except BaseException as exc:
            error = exc
            raise
        finally:
            self._charge(limits, exchange, error)

    def client_of(self, scope: Scope) -> str:
        """Whose request this is."""
        peer = scope.get("client")
        address = peer[0] if peer else "unknown"
        if self._trusted and self._is_trusted(address):
            address = self._forwarded_for(scope, address)
        return client_key(address)

    def _charge(self, limits: ClientLimits, exchange: Exchange, error: BaseException | None) -> None:
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
