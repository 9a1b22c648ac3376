"""A response whose body goes through the filters of plugins."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Protocol

from proxy.backends.base import BackendResponse, Headers
from proxy.errors import BackendTimeout, PluginError

_ABOUT_THE_BODY = frozenset(
    [
        b"content-length",
        b"content-md5",
        b"content-digest",
        b"repr-digest",
        b"digest",
        b"etag",
        b"accept-ranges",
        b"content-range",
    ]
)
"""Fields that would be wrong of another body."""


class BodyFilters(Protocol):
    """The filters, one after the other."""

    @property
    def changes(self) -> bool: ...

    @property
    def name(self) -> str: ...

    def feed(self, chunk: bytes) -> bytes: ...

    def close(self) -> bytes: ...


class FilteredResponse:
    """*response* with what *filters* make of its body.

    Raises:
        PluginError: the body is coded or is a part, so that nobody can change it.
    """

    def __init__(self, response: BackendResponse, filters: BodyFilters) -> None:
        self._response = response
        self._filters = filters
        self.status = response.status
        self.headers: Headers = response.headers
        if filters.changes:
            coded = any(n == b"content-encoding" and v.strip().lower() != b"identity" for n, v in response.headers)
            if coded or response.status == 206:
                what = "has a content coding" if coded else "is a part of one"
                message = f"plugin {filters.name} cannot read this body: it {what}"
                raise PluginError(message, plugin=filters.name, hook="body")
            self.headers = [field for field in response.headers if field[0] not in _ABOUT_THE_BODY]

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.chunks():
            if shown := self._filters.feed(chunk):
                yield shown
        if rest := self._filters.close():
            yield rest

    async def aclose(self) -> None:
        await self._response.aclose()


class HurriedResponse:
    """*response*, whose body must be over by *deadline* (``time.perf_counter``), *limit_s* after it was asked for."""

    def __init__(self, response: BackendResponse, *, deadline: float, limit_s: float, backend: str) -> None:
        self._response = response
        self._deadline = deadline
        self._limit_s = limit_s
        self._backend = backend
        self.status = response.status
        self.headers = response.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        pieces = aiter(self._response.chunks())
        while True:
            try:
                async with asyncio.timeout(self._deadline - time.perf_counter()):
                    piece = await anext(pieces)
            except StopAsyncIteration:
                return
            except TimeoutError as exc:
                raise out_of_time(self._backend, self._limit_s) from exc
            yield piece

    async def aclose(self) -> None:
        await self._response.aclose()


def out_of_time(backend: str, limit_s: float) -> BackendTimeout:
    """The error of a request that a plugin has given *limit_s*."""
    message = f"{backend} had {limit_s:g} s for this request, and was not done"
    return BackendTimeout(message, backend=backend, elapsed_s=limit_s, limit="plugin")
