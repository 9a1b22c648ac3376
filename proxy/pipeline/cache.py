"""Keep answers to reads for a while: complete ones only, and none across a change of the data.

Every dataset has a *generation*, a token that is replaced whenever its data may have changed. An answer is kept under the
generation that held when its request began, and served while that is the current one; so an answer that was read before an
update, or while one ran, is never given to who comes after it. Of changes that nobody tells us about, the time to live bounds
the harm.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import NewType, Protocol

from proxy.backends.base import BackendResponse, Headers
from proxy.pipeline.complete import is_complete
from proxy.pipeline.key import IGNORED_HEADERS, IGNORED_PREFIXES, RequestKey

Generation = NewType("Generation", bytes)
ENTRY_OVERHEAD_BYTES = 1024
"""Counted for each entry besides its body and headers."""
UNSETTLED_S = 120.0
"""How long nothing is kept after an update of which nobody knows whether, or when, it took effect."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A complete answer with status 200. ttl_s: for how long it may be kept. age_s: how old it is, in seconds."""

    headers: Headers
    body: bytes
    ttl_s: float
    age_s: float = 0.0

    @property
    def size(self) -> int:
        return ENTRY_OVERHEAD_BYTES + len(self.body) + sum(len(name) + len(value) for name, value in self.headers)


class CacheStore(Protocol):
    """Where entries and generations are kept. Nothing here raises: a store that fails is a store that is empty."""

    async def look_up(self, dataset: str, digest: bytes) -> tuple[Generation | None, Entry | None]:
        """The current generation, and the entry if it has that one. No generation: keep nothing now."""

    def put(self, dataset: str, digest: bytes, generation: Generation, entry: Entry) -> None:
        """Keep *entry*; returns at once, and may forget it."""

    async def renew(self, dataset: str, *, unsettled_s: float = 0.0) -> None:
        """Begin a new generation; for *unsettled_s* there is none, so nothing is kept."""

    async def aclose(self) -> None: ...


class MemoryStore:
    """Entries of this process, at most *limit_bytes*, the least recently used dropped first."""

    def __init__(self, limit_bytes: int, *, now: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit_bytes
        self._now = now
        self._entries: OrderedDict[tuple[str, bytes], tuple[Generation, float, Entry]] = OrderedDict()
        self._generations: dict[str, Generation] = {}
        self._unsettled: dict[str, float] = {}
        self._renewals = 0
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    async def look_up(self, dataset: str, digest: bytes) -> tuple[Generation | None, Entry | None]:
        generation = self._generation(dataset)
        found = self._entries.get((dataset, digest))
        if found is None:
            return generation, None
        kept_under, stored_at, entry = found
        age_s = self._now() - stored_at
        if kept_under != generation or age_s >= entry.ttl_s:
            self._drop((dataset, digest))
            return generation, None
        self._entries.move_to_end((dataset, digest))
        return generation, replace(entry, age_s=entry.age_s + age_s)

    def put(self, dataset: str, digest: bytes, generation: Generation, entry: Entry) -> None:
        if entry.size > self._limit or generation != self._generation(dataset):
            return
        self._drop((dataset, digest))
        self._entries[dataset, digest] = generation, self._now(), entry
        self.held_bytes += entry.size
        while self.held_bytes > self._limit:
            self._drop(next(iter(self._entries)))

    async def renew(self, dataset: str, *, unsettled_s: float = 0.0) -> None:
        self._renewals += 1
        self._generations[dataset] = Generation(self._renewals.to_bytes(8, "big"))
        if unsettled_s > 0:
            self._unsettled[dataset] = max(self._now() + unsettled_s, self._unsettled.get(dataset, 0.0))
        # Entries of before go when they are looked up or are the oldest: to sweep them would delay every update.

    async def aclose(self) -> None:
        self._entries.clear()
        self.held_bytes = 0

    def _generation(self, dataset: str) -> Generation | None:
        if self._unsettled and (until := self._unsettled.get(dataset)) is not None:
            if self._now() < until:
                return None
            del self._unsettled[dataset]
        return self._generations.get(dataset, Generation(b""))

    def _drop(self, key: tuple[str, bytes]) -> None:
        if (found := self._entries.pop(key, None)) is not None:
            self.held_bytes -= found[2].size


@dataclass(slots=True)
class CacheCounters:
    """For metrics; totals. passed: requests that may not be answered from here, or find the store out of order.

    unfit: answers that may not be kept; incomplete: answers with 200 that do not close, which is worth a warning.
    """

    hits: int = 0
    misses: int = 0
    passed: int = 0
    stored: int = 0
    unfit: int = 0
    incomplete: int = 0
    renewals: int = 0


@dataclass(frozen=True, slots=True)
class Lookup:
    """What was found. response: to be served as it is. generation: to keep what the backend answers; None: keep nothing."""

    key: RequestKey
    generation: Generation | None
    response: CachedResponse | None


class ResponseCache:
    """The rules (RFC 9111, as a shared cache) over a store.

    Args:
        ttl_s: for how long an answer is kept at most; the backend's max-age can only shorten it.
        entry_limit_bytes: a larger body is not kept. It also bounds the time that checking an answer takes (docs/load.md).
        keeps_authenticated: also answers to requests with a credential, for the same credential.
        trusted_s: an answer that took as long or longer is not kept: GraphDB, unless told to raise, ends a query at its
            repository's queryTimeout and answers 200 with what it has. None: all are.
        is_json: a faster ``complete.closes_json``, where there is one.
    """

    def __init__(
        self,
        store: CacheStore,
        *,
        ttl_s: float = 60.0,
        entry_limit_bytes: int = 256 * 1024,
        keeps_authenticated: bool = False,
        trusted_s: float | None = None,
        is_json: Callable[[bytes], bool] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self.counters = CacheCounters()
        self._ttl_s = ttl_s
        self._entry_limit = entry_limit_bytes
        self._keeps_authenticated = keeps_authenticated
        self._trusted_s = trusted_s
        self._is_json = is_json
        self._now = now

    async def look_up(self, key: RequestKey) -> Lookup:
        """Find the answer to *key*, and note which generation of the data holds now: before the backend is asked."""
        if key.is_authenticated and not self._keeps_authenticated:
            self.counters.passed += 1
            return Lookup(key, None, None)
        generation, entry = await self.store.look_up(key.dataset, key.digest)
        if generation is None:
            self.counters.passed += 1
        elif entry is None or not key.may_use_stored or (key.max_age_s is not None and entry.age_s > key.max_age_s):
            self.counters.misses += 1
        else:
            self.counters.hits += 1
            return Lookup(key, generation, CachedResponse(entry))
        return Lookup(key, generation if key.may_store else None, None)

    def record(self, lookup: Lookup, response: BackendResponse, *, elapsed_s: float = 0.0) -> BackendResponse:
        """Read *response* through what this returns: once read to its end it is kept, if it is fit to be.

        Args:
            elapsed_s: how long the backend took to the head; compared with *trusted_s*, together with the time of the body.
        """
        generation = lookup.generation
        if generation is None or response.status != 200:
            return response
        head = read_head(response.headers)
        if head.lifetime_s is None or (head.length is not None and head.length > self._entry_limit):
            self.counters.unfit += 1
            return response
        return _Recorded(self, lookup.key, generation, response, head, self._now() - elapsed_s)

    async def renew(self, dataset: str) -> None:
        """The data of *dataset* have changed: forget all answers. For the index's change detection."""
        self.counters.renewals += 1
        await self.store.renew(dataset)

    @asynccontextmanager
    async def update(self, dataset: str) -> AsyncIterator[None]:
        """Surround an update, from before it is sent until its answer's head is there and before the client sees that.

        An exception means that nobody knows whether it took effect; then nothing is kept for UNSETTLED_S.
        """
        await self.renew(dataset)
        try:
            yield
        except BaseException:
            await self.store.renew(dataset, unsettled_s=UNSETTLED_S)
            raise
        await self.renew(dataset)

    def _keep(self, recorded: _Recorded, body: bytes) -> None:
        head, key = recorded.head, recorded.key
        if self._trusted_s is not None and self._now() - recorded.began_at >= self._trusted_s:
            self.counters.unfit += 1
        elif not is_complete(
            body, media_type=head.media_type, coding=head.coding, content_length=head.length, is_json=self._is_json
        ):
            self.counters.incomplete += 1
        else:
            assert head.lifetime_s is not None
            headers = tuple((name, value) for name, value in recorded.headers if name not in (b"age", b"content-length"))
            headers += ((b"content-length", b"%d" % len(body)),)
            entry = Entry(headers, body, min(self._ttl_s, head.lifetime_s), age_s=head.age_s)
            self.store.put(key.dataset, key.digest, recorded.generation, entry)
            self.counters.stored += 1


class CachedResponse:
    """A kept answer, as a backend's response: its own headers, and ``age`` and ``cache-status`` (RFC 9211) added."""

    __slots__ = ("_body", "headers", "is_complete", "status")

    def __init__(self, entry: Entry) -> None:
        self.is_complete = True  # with the one piece that chunks gives
        self.status = 200
        self._body = entry.body
        self.headers: Headers = (
            *entry.headers,
            (b"age", b"%d" % entry.age_s),
            (b"cache-status", b"sparlance; hit"),
        )

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body

    async def aclose(self) -> None:
        """There is nothing to let go of."""


class _Recorded:
    """A backend's response that is copied as it is read."""

    __slots__ = ("_cache", "_response", "began_at", "generation", "head", "headers", "key", "status")

    def __init__(
        self,
        cache: ResponseCache,
        key: RequestKey,
        generation: Generation,
        response: BackendResponse,
        head: Head,
        began_at: float,
    ) -> None:
        self._cache = cache
        self._response = response
        self.key = key
        self.generation = generation
        self.head = head
        self.began_at = began_at
        self.status = response.status
        self.headers = response.headers

    @property
    def is_complete(self) -> bool:
        return getattr(self._response, "is_complete", False)

    async def chunks(self) -> AsyncIterator[bytes]:
        copied: list[bytes] | None = []
        left = self._cache._entry_limit
        async for chunk in self._response.chunks():
            if copied is not None:
                left -= len(chunk)
                if left < 0:
                    copied = None
                    self._cache.counters.unfit += 1
                else:
                    copied.append(chunk)
                    if self.is_complete:  # then nobody may ask for more
                        self._cache._keep(self, b"".join(copied))
                        copied = None
            yield chunk
        if copied is not None:
            self._cache._keep(self, b"".join(copied))

    async def aclose(self) -> None:
        await self._response.aclose()


@dataclass(frozen=True, slots=True)
class Head:
    """What the head of an answer says about keeping it. lifetime_s: None: not at all; infinite: nothing was said."""

    lifetime_s: float | None
    media_type: bytes = b""
    coding: bytes = b""
    length: int | None = None
    age_s: float = 0.0


def read_head(headers: Headers) -> Head:
    """Read what matters for a shared cache (RFC 9111, section 3)."""
    lifetime_s, shared_s = float("inf"), None
    media_type = coding = b""
    length: int | None = None
    age_s = 0.0
    for name, value in headers:
        if name == b"content-type":
            media_type = value.partition(b";")[0].strip().lower()
        elif name == b"content-length":
            length = int(value) if value.isdigit() else None
        elif name == b"content-encoding":
            coding = value.strip().lower()
        elif name == b"age":
            age_s = float(value) if value.isdigit() else 0.0
        elif name in (b"set-cookie", b"content-range"):
            return Head(None)
        elif name == b"vary" and not _is_keyed(value):
            return Head(None)
        elif name == b"cache-control":
            for directive in value.lower().split(b","):
                word, _, argument = directive.strip().partition(b"=")
                if word in (b"no-store", b"private", b"no-cache"):
                    return Head(None)
                if word in (b"max-age", b"s-maxage"):
                    seconds = argument.strip(b' "')
                    number = float(seconds) if seconds.isdigit() else 0.0
                    if word == b"s-maxage":
                        shared_s = number
                    else:
                        lifetime_s = min(lifetime_s, number)
    lifetime_s = (lifetime_s if shared_s is None else shared_s) - age_s
    return Head(lifetime_s if lifetime_s > 0 else None, media_type, coding, length, age_s)


def _is_keyed(vary: bytes) -> bool:
    """Whether all fields that the answer varies with are part of the key; ``*`` is not."""
    names = [name.strip().lower() for name in vary.split(b",")]
    return not any(name == b"*" or name in IGNORED_HEADERS or name.startswith(IGNORED_PREFIXES) for name in names)
