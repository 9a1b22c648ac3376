"""A database behind HTTP. What differs between products is data: a ``Product``."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import quote, urlencode, urlsplit

from proxy.backends.answer import NotADocument, read_boolean, read_solutions
from proxy.backends.base import BackendRequest, BackendResponse, Parameters, Solutions
from proxy.backends.http1 import Timeouts
from proxy.backends.pool import ConnectionPool
from proxy.errors import BackendGarbled, BackendRefused, BackendTimeout
from proxy.query.operation import OperationKind

SAFE_METHODS = frozenset(["GET", "HEAD", "OPTIONS"])
OWN_ANSWER_LIMIT_BYTES = 512 * 1024 * 1024
"""An answer to one of our own queries beyond this is a wrong bound of ours."""


@dataclass(frozen=True, slots=True)
class Product:
    """What makes one product's HTTP interface differ from another's.

    paths: the product's own paths that clients may use, ``*`` at the end for all that begin so.
    head_limit_bytes: of request line and fields; a longer GET query travels as POST. None: no known limit.
    refused_parameters: with these a client could administer the product; they are not forwarded.
    cancelled: texts that the product appends to a result when it gave up, taken as BackendTimeout in answers to us.
    """

    kind: str
    query_path: str
    update_path: str
    paths: Mapping[str, OperationKind] = field(default_factory=dict)
    head_limit_bytes: int | None = None
    refused_parameters: frozenset[str] = frozenset()
    cancelled: tuple[bytes, ...] = ()


class RemoteBackend:
    """A SPARQL 1.1 endpoint at *url* (the root of the product, to which its paths are added).

    Args:
        authorization: the Authorization field of our own queries; a client's is passed as it is.
    """

    def __init__(
        self,
        url: str,
        product: Product,
        *,
        timeout_s: float = 60.0,
        connect_timeout_s: float = 5.0,
        max_connections: int = 64,
        authorization: str = "",
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
        self._timeouts = Timeouts(connect=connect_timeout_s, first_byte=timeout_s, idle=timeout_s)
        self._name = f"{product.kind} at {parts.scheme}://{authority}{self._prefix}"
        self.pool = ConnectionPool(
            name=self._name,
            host=parts.hostname,
            port=port,
            tls=(tls or ssl.create_default_context()) if is_tls else None,
            max_connections=max_connections,
            timeouts=self._timeouts,
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
    def paths(self) -> Mapping[str, OperationKind]:
        return self._product.paths

    @property
    def refused_parameters(self) -> frozenset[str]:
        return self._product.refused_parameters

    async def send(self, request: BackendRequest) -> BackendResponse:
        operation = request.operation
        is_query = operation is not None and operation.kind is OperationKind.QUERY
        if self._prefix:
            request = replace(request, target=self._prefix.encode("ascii") + request.target)
        limit = self._product.head_limit_bytes
        if limit is not None and is_query and request.method == "GET" and head_size(request) > limit:
            request = as_post(request)
        return await self.pool.send(request, is_safe=is_query or request.method in SAFE_METHODS)

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
        await self.pool.aclose()

    # -- our own queries

    async def _own(self, query: str, timeout_s: float, parameters: Parameters) -> bytes:
        target = self._prefix + self._product.query_path
        if parameters:
            target += ("&" if "?" in target else "?") + urlencode(parameters, quote_via=quote)
        headers = [
            (b"host", self._host),
            (b"accept", b"application/sparql-results+json"),
            (b"content-type", b"application/sparql-query"),
            (b"user-agent", b"sparlance"),
        ]
        if self._authorization:
            headers.append((b"authorization", self._authorization.encode("latin-1")))
        request = BackendRequest("POST", target.encode("ascii"), headers, query.encode("utf-8"))
        started = time.perf_counter()
        try:
            async with asyncio.timeout(timeout_s):
                response = await self.pool.send(
                    request,
                    is_safe=True,
                    timeouts=replace(self._timeouts, first_byte=timeout_s, idle=timeout_s),
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


def head_size(request: BackendRequest) -> int:
    """Bytes of request line and fields, about."""
    return len(request.target) + 16 + sum(len(name) + len(value) + 4 for name, value in request.headers)


def as_post(request: BackendRequest) -> BackendRequest:
    """Move the query string of a GET query into a form body, byte for byte (Protocol, 2.1.2: they are the same encoding)."""
    path, _, query_string = request.target.partition(b"?")
    headers = [field for field in request.headers if field[0] not in (b"content-type", b"content-encoding")]
    headers.append((b"content-type", b"application/x-www-form-urlencoded"))
    return replace(request, method="POST", target=path, headers=headers, body=query_string)
