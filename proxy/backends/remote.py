"""A database behind HTTP. What differs between products is data: a ``Product`` (product.py) and the rules for it (adapt.py)."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from urllib.parse import quote, urlencode, urlsplit

from proxy.backends.adapt import adapt, with_one_type, with_timeout, without
from proxy.backends.answer import NotADocument, read_boolean, read_solutions
from proxy.backends.base import (
    NAME,
    BackendRequest,
    BackendResponse,
    Headers,
    KnownFields,
    Parameters,
    PathKind,
    Solutions,
    StartedResponse,
)
from proxy.backends.cancel import CANCEL_LIMIT_S, cancel_by_delete, cancel_by_watch, name_query, target_of
from proxy.backends.http1 import Timeouts
from proxy.backends.pool import ConnectionPool
from proxy.backends.product import Product
from proxy.errors import BackendGarbled, BackendRefused, BackendTimeout
from proxy.query.operation import OperationKind

SAFE_METHODS = frozenset(["GET", "HEAD", "OPTIONS"])
CONTROL_CONNECTIONS = 4
_LOCATED = frozenset([201, 301, 302, 303, 307, 308])
_AUTHORIZATION = frozenset([b"authorization"])
_CREDENTIALS = frozenset([b"authorization", b"cookie", b"x-api-key", b"x-auth-token"])
OWN_ANSWER_LIMIT_BYTES = 512 * 1024 * 1024
"""An answer to one of our own queries beyond this is a wrong bound of ours."""


class RemoteBackend:
    """A SPARQL 1.1 endpoint at *url* (the root of the product, to which its paths are added).

    Args:
        timeout_s: until the answer begins. idle_timeout_s: between two pieces of it; None: the same.
        total_timeout_s: for a whole answer; 0: no limit.
        authorization: the Authorization field of our own queries.
        client_authorization: what becomes of a client's: pass, drop, or replace (by ours); auto: as the product has it.
        accepts_one_type: send one media type upstream (``with_one_type``).
        forwards_timeout: give *timeout_s* to the product where the client gives no timeout.
        allowed_parameters: of the product's refused ones, those that may pass.
    """

    def __init__(
        self,
        url: str,
        product: Product,
        *,
        timeout_s: float = 60.0,
        idle_timeout_s: float | None = None,
        total_timeout_s: float = 0.0,
        connect_timeout_s: float = 5.0,
        max_connections: int = 64,
        authorization: str = "",
        client_authorization: str = "auto",
        accepts_one_type: bool = False,
        forwards_timeout: bool = False,
        allowed_parameters: frozenset[str] = frozenset(),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"not an http(s) URL: {url!r}")
        is_tls = parts.scheme == "https"
        port = parts.port or (443 if is_tls else 80)
        authority = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        if parts.port is not None:
            authority += f":{parts.port}"
        self._product = product
        self._prefix = parts.path.rstrip("/")
        self._host = authority.encode("ascii")
        self._authorization = authorization
        self._client_authorization = product.client_authorization if client_authorization == "auto" else client_authorization
        self._accepts_one_type = accepts_one_type
        self._timeout_parameter = product.timeout(timeout_s) if forwards_timeout and product.timeout is not None else None
        self._refused_parameters = product.refused_parameters - allowed_parameters
        self._stops_queries = product.monitor is not None
        self._cancelling: set[asyncio.Task[bool]] = set()
        self._timeouts = Timeouts(
            connect=connect_timeout_s,
            first_byte=timeout_s,
            idle=timeout_s if idle_timeout_s is None else idle_timeout_s,
            total=total_timeout_s or None,
        )
        self._root_url = f"{parts.scheme}://{authority}{self._prefix}"
        self._name = f"{product.kind} at {parts.scheme}://{authority}{self._prefix}"
        self._address = parts.hostname, port
        self._tls = (tls or ssl.create_default_context()) if is_tls else None
        self.pool = self._pool(max_connections)
        # Not the pool of the queries: it may be full of them when one is to be stopped.
        self._control = self._pool(CONTROL_CONNECTIONS)

    def _pool(self, max_connections: int) -> ConnectionPool:
        host, port = self._address
        return ConnectionPool(
            name=self._name, host=host, port=port, tls=self._tls, max_connections=max_connections, timeouts=self._timeouts
        )

    @property
    def name(self) -> str:
        return self._name

    @property
    def query_path(self) -> str:
        return self._product.query_path

    @property
    def update_path(self) -> str:
        return self._product.update_path

    @property
    def paths(self) -> Mapping[str, PathKind]:
        return self._product.paths

    @property
    def refused_parameters(self) -> frozenset[str]:
        return self._refused_parameters

    @property
    def prefixes(self) -> Mapping[str, str]:
        return self._product.prefixes

    @property
    def fetches_graphs(self) -> bool:
        return self._product.fetches_graphs

    @property
    def root_url(self) -> str:
        return self._root_url

    @property
    def orphan_s(self) -> float | None:
        return None if self._stops_queries else self._timeouts.first_byte

    def sees_what_we_see(self, headers: Headers) -> bool:
        if self._client_authorization != "pass":
            return b"cookie" not in map(NAME, headers)
        if _CREDENTIALS.isdisjoint(headers.values if type(headers) is KnownFields else map(NAME, headers)):
            return True
        ours = self._authorization.encode("latin-1") if self._authorization else None
        return all(value == ours for name, value in headers if name in _CREDENTIALS)

    async def send(self, request: BackendRequest) -> BackendResponse:
        operation = request.operation
        wants_head_only = request.method == "HEAD"
        request = self._prepared(request)
        if operation is None or operation.kind is not OperationKind.QUERY:
            response: BackendResponse = await self.pool.send(request, is_safe=request.method in SAFE_METHODS)
            if response.status in _LOCATED:
                response = Relocated(response, self._relocate(response.headers, request))
        elif self._product.monitor is None:
            response = await self.pool.send(request, is_safe=True)
        else:
            response = await self._send_stoppable(request)
        return HeadOnly(response) if wants_head_only and request.method != "HEAD" else response

    def start(self, request: BackendRequest, listener: Callable[[], None]) -> StartedResponse | None:
        if self._product.monitor is not None or request.method == "HEAD":
            return None
        return self.pool.start(self._prepared(request), listener)

    def _prepared(self, request: BackendRequest) -> BackendRequest:
        """*request* as this product takes it, with what the configuration adds and removes."""
        request = adapt(request, self._product)
        if self._prefix:
            request = replace(request, target=self._prefix.encode("ascii") + request.target)
        if self._client_authorization != "pass":
            request = self._authorized(request)
        operation = request.operation
        if operation is not None and operation.kind is OperationKind.QUERY:
            if self._timeout_parameter is not None:
                request = with_timeout(request, self._timeout_parameter)
            if self._accepts_one_type:
                request = with_one_type(request, self._product)
        return request

    def _authorized(self, request: BackendRequest) -> BackendRequest:
        """Drop or replace the client's Authorization; ours where the product wants it for writes."""
        headers = without(request, _AUTHORIZATION)
        operation = request.operation
        is_write = operation is not None and (
            operation.kind in (OperationKind.UPDATE, OperationKind.TRANSACTION)
            or (operation.kind is OperationKind.GRAPH_STORE and request.method not in SAFE_METHODS)
        )
        if self._client_authorization == "replace" or (is_write and self._product.writes_need_authorization):
            headers += self._own_authorization()
        return replace(request, headers=headers)

    def _own_authorization(self) -> list[tuple[bytes, bytes]]:
        return [(b"authorization", self._authorization.encode("latin-1"))] if self._authorization else []

    def _relocate(self, headers: Headers, request: BackendRequest) -> Headers:
        """Make the address of what was created one of ours: without the backend's host, and without its prefix."""
        client = next((v for n, v in request.headers if n == b"host"), self._host)
        secure = any(n == b"forwarded" and v.endswith(b"proto=https") for n, v in request.headers)
        ours = (b"https://" if secure else b"http://") + client
        prefix = self._prefix.encode("ascii")
        relocated = []
        for name, value in headers:
            if name == b"location":
                for host in (client, self._host):
                    scheme, found, path = value.partition(b"://" + host)
                    if found and scheme in (b"http", b"https") and path.startswith(prefix + b"/"):
                        value = ours + path[len(prefix) :]
                        break
                else:
                    if prefix and value.startswith(prefix + b"/"):
                        value = value[len(prefix) :]
            relocated.append((name, value))
        return relocated

    # -- queries that can be stopped

    async def _send_stoppable(self, request: BackendRequest) -> BackendResponse:
        assert self._product.monitor is not None
        request, name = name_query(request, self._product.monitor)
        try:
            response = await self.pool.send(request, is_safe=True)
        except BackendTimeout:
            self._stop(name, request)
            raise
        except asyncio.CancelledError:
            # Nobody waits for us but the queue: its place is given back when the query is stopped.
            await asyncio.wait([self._stop(name, request)], timeout=CANCEL_LIMIT_S)
            raise
        return Stoppable(response, lambda: self._stop(name, request))

    def _stop(self, name: str, request: BackendRequest) -> asyncio.Task[bool]:
        task = asyncio.create_task(self._cancel(name, request), name=f"stop {name}")
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)
        return task

    async def _cancel(self, name: str, request: BackendRequest) -> bool:
        monitor = self._product.monitor
        assert monitor is not None
        target = target_of(monitor, name, self._prefix)
        if monitor.kind == "watch":
            host, port = self._address
            is_stopped = await cancel_by_watch(host, port, target, authority=self._host, tls=self._tls)
        else:
            credentials = self._own_authorization() or [f for f in request.headers if f[0] in _AUTHORIZATION]
            is_stopped = await cancel_by_delete(self._control, target, [(b"host", self._host), *credentials])
        # A product that does not let us stop its queries lets none be stopped: from now on they count until they end.
        self._stops_queries = is_stopped
        return is_stopped

    async def select(
        self, query: str, *, timeout_s: float, limit_rows: int | None = None, parameters: Parameters = ()
    ) -> Solutions:
        data = await self._own(query, timeout_s, parameters)
        try:
            variables, rows = read_solutions(data)
        except NotADocument as error:
            raise self._incomplete(data, error) from error
        if limit_rows is not None and len(rows) > limit_rows:
            raise BackendGarbled(f"{self._name} gave {len(rows)} solutions, more than {limit_rows}", backend=self._name)
        return Solutions(variables, rows)

    async def ask(self, query: str, *, timeout_s: float, parameters: Parameters = ()) -> bool:
        data = await self._own(query, timeout_s, parameters)
        try:
            return read_boolean(data)
        except NotADocument as error:
            raise self._incomplete(data, error) from error

    async def probe(self, *, timeout_s: float) -> None:
        await self.ask("ASK {}", timeout_s=timeout_s)

    async def aclose(self) -> None:
        for task in tuple(self._cancelling):
            task.cancel()
        await asyncio.gather(*self._cancelling, return_exceptions=True)
        await self._control.aclose()
        await self.pool.aclose()

    # -- our own queries

    async def _own(self, query: str, timeout_s: float, parameters: Parameters) -> bytes:
        target = self._prefix + self._product.query_path
        if self._product.query_string:
            target += "?" + self._product.query_string.decode("ascii")
        if parameters:
            target += ("&" if "?" in target else "?") + urlencode(parameters, quote_via=quote)
        headers = [
            (b"host", self._host),
            (b"accept", b"application/sparql-results+json"),
            (b"content-type", b"application/sparql-query"),
            (b"user-agent", b"sparlance"),
        ]
        headers += self._own_authorization()
        request = BackendRequest("POST", target.encode("ascii"), headers, query.encode("utf-8"))
        started = time.perf_counter()
        try:
            async with asyncio.timeout(timeout_s):
                response = await self.pool.send(
                    request,
                    is_safe=True,
                    timeouts=replace(self._timeouts, first_byte=timeout_s, idle=timeout_s, total=None),
                )
                status = response.status
                try:
                    data = await self._read(response)
                finally:
                    await response.aclose()
        except TimeoutError as exc:
            raise BackendTimeout(
                f"{self._name} did not answer within {timeout_s:g} s",
                backend=self._name,
                elapsed_s=time.perf_counter() - started,
            ) from exc
        if status != 200:
            body = data[:2000].decode("utf-8", "replace")
            if any(mark in data for mark in self._product.cancelled):
                raise BackendTimeout(f"{self._name} cancelled the query", backend=self._name)
            raise BackendRefused(
                f"{self._name} answered {status}: {body[:300]}", backend=self._name, status=status, body=body
            )
        return data

    async def _read(self, response: BackendResponse) -> bytes:
        pieces: list[bytes] = []
        size = 0
        async for piece in response.chunks():
            pieces.append(piece)
            size += len(piece)
            if size > OWN_ANSWER_LIMIT_BYTES:
                raise BackendGarbled(f"{self._name} gave more than {OWN_ANSWER_LIMIT_BYTES} bytes", backend=self._name)
        return b"".join(pieces)

    def _incomplete(self, data: bytes, error: NotADocument) -> BackendGarbled | BackendTimeout:
        tail = data[-400:]
        if any(mark in tail for mark in self._product.cancelled):
            return BackendTimeout(f"{self._name} cancelled the query", backend=self._name)
        shown = tail.decode("utf-8", "replace")[-120:]
        message = f"{self._name} gave no complete result document ({error}; it ends: {shown!r})"
        return BackendGarbled(message, backend=self._name)


class Stoppable:
    """A response whose query is stopped in the backend if its end is not wanted."""

    __slots__ = ("_response", "_stop")

    def __init__(self, response: BackendResponse, stop: Callable[[], object]) -> None:
        self._response = response
        self._stop = stop

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Headers:
        return self._response.headers

    @property
    def is_complete(self) -> bool:
        return getattr(self._response, "is_complete", False)

    def take_whole(self) -> bytes | None:
        take = getattr(self._response, "take_whole", None)
        body: bytes | None = None if take is None else take()
        return body

    def chunks(self) -> AsyncIterator[bytes]:
        return self._response.chunks()

    async def aclose(self) -> None:
        if not self.is_complete:
            self._stop()
        await self._response.aclose()


class Relocated:
    """A response with other fields."""

    __slots__ = ("_response", "headers", "status")

    def __init__(self, response: BackendResponse, headers: Headers) -> None:
        self._response = response
        self.status = response.status
        self.headers: Headers = headers

    @property
    def is_complete(self) -> bool:
        return getattr(self._response, "is_complete", False)

    def chunks(self) -> AsyncIterator[bytes]:
        return self._response.chunks()

    async def aclose(self) -> None:
        await self._response.aclose()


class HeadOnly:
    """The answer to a HEAD, from a product that answers only GET: its head, and its body left."""

    __slots__ = ("_response", "headers", "status")

    is_complete = True

    def __init__(self, response: BackendResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Headers = response.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        nothing: tuple[bytes, ...] = ()
        for piece in nothing:
            yield piece

    async def aclose(self) -> None:
        await self._response.aclose()
