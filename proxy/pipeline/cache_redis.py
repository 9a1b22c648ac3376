"""A cache store that several processes and machines share, in Redis or Valkey.

Whatever goes wrong there is a miss; then the server is left alone for a while (redis_link.py).
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable, Coroutine
from typing import Any

from proxy.pipeline.cache import Entry, Generation
from proxy.pipeline.redis_link import RedisLink

PENDING_WRITES = 64
"""Entries on their way to the server; more are forgotten."""
_UNSETTLED = b"?"
_TOKEN_BYTES = 12


class RedisStore:
    """Entries with a time to live, under ``{prefix}:e:{dataset}:{digest}``; generations under ``{prefix}:g:{dataset}``.

    The server bounds the memory (``maxmemory`` with ``maxmemory-policy allkeys-lru``). A generation that it evicts comes back
    as another one, as they are random, so what was kept under it is never served again.

    Args:
        url: redis://, rediss:// or unix://.
        timeout_s: for each command; small, as a request waits for it.
    Raises:
        ConfigError: the package ``redis`` is not installed, or the URL is none.
    """

    def __init__(
        self, url: str, *, prefix: str = "sparlance", timeout_s: float = 0.25, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._link = link = RedisLink(url, setting="cache.url", timeout_s=timeout_s, now=now)
        self._client, self._faults = link.client, link.faults
        self._prefix = prefix.encode("utf-8")
        self._now = now
        self._unrenewed: dict[str, float] = {}
        """Datasets whose change could not be written yet → until when they are unsettled."""
        self._writes: set[asyncio.Task[None]] = set()

    @property
    def failures(self) -> int:
        """Commands that failed."""
        return self._link.failures

    async def look_up(self, dataset: str, digest: bytes) -> tuple[Generation | None, Entry | None]:
        if self._link.is_out:
            return None, None
        if dataset in self._unrenewed:
            await self.renew(dataset)
            if dataset in self._unrenewed:
                return None, None
        generation_key, entry_key = self._generation_key(dataset), self._entry_key(dataset, digest)
        try:
            pipe = self._client.pipeline(transaction=True)
            pipe.get(generation_key)
            pipe.get(entry_key)
            pipe.pttl(entry_key)
            generation, packed, left_ms = await pipe.execute()
            if generation is None:
                # Two processes may do this at once: the first wins, both go on with what it wrote.
                pipe = self._client.pipeline(transaction=True)
                pipe.set(generation_key, secrets.token_bytes(_TOKEN_BYTES), nx=True)
                pipe.get(generation_key)
                generation = (await pipe.execute())[1]
        except self._faults:
            self._link.note_failure()
            return None, None
        if generation == _UNSETTLED:
            return None, None
        found = None if packed is None or left_ms <= 0 else unpack(packed, left_s=left_ms / 1000)
        if found is None or found[0] != generation:
            return Generation(generation), None
        return Generation(generation), found[1]

    def put(self, dataset: str, digest: bytes, generation: Generation, entry: Entry) -> None:
        if len(self._writes) < PENDING_WRITES and not self._link.is_out:
            self._spawn(self._write(self._entry_key(dataset, digest), pack(generation, entry), entry.ttl_s))

    async def renew(self, dataset: str, *, unsettled_s: float = 0.0) -> None:
        key = self._generation_key(dataset)
        # Until the change is written, this process does not use what is kept, also if it is cancelled in between.
        until = self._unrenewed[dataset] = max(self._now() + unsettled_s, self._unrenewed.get(dataset, 0.0))
        if self._link.is_out:
            return
        unsettled_s = until - self._now()
        try:
            if unsettled_s > 0.001:
                await self._client.set(key, _UNSETTLED, px=max(int(unsettled_s * 1000), 1))
            else:
                # An unsettled time that another update has asked for goes on to its end.
                await self._client.eval(_REPLACE, 1, key, secrets.token_bytes(_TOKEN_BYTES))
        except self._faults:
            self._link.note_failure()
        else:
            del self._unrenewed[dataset]

    async def aclose(self) -> None:
        if self._writes:
            await asyncio.gather(*self._writes, return_exceptions=True)
        await self._link.aclose()

    # -- inside

    def _generation_key(self, dataset: str) -> bytes:
        return b"%b:g:%b" % (self._prefix, dataset.encode("utf-8"))

    def _entry_key(self, dataset: str, digest: bytes) -> bytes:
        return b"%b:e:%b:%b" % (self._prefix, dataset.encode("utf-8"), digest.hex().encode("ascii"))

    async def _write(self, key: bytes, packed: bytes, ttl_s: float) -> None:
        try:
            await self._client.set(key, packed, px=max(int(ttl_s * 1000), 1))
        except self._faults:
            self._link.note_failure()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)


_REPLACE = """
if redis.call('GET', KEYS[1]) ~= '?' then redis.call('SET', KEYS[1], ARGV[1]) end
"""


def pack(generation: Generation, entry: Entry) -> bytes:
    """One line of JSON, then the body."""
    head = {
        "generation": generation.hex(),
        "ttl_s": entry.ttl_s,
        "age_s": entry.age_s,
        "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in entry.headers],
    }
    return json.dumps(head).encode("ascii") + b"\n" + entry.body


def unpack(packed: bytes, *, left_s: float) -> tuple[Generation, Entry] | None:
    """The opposite of ``pack``; None for what was not written by it. left_s: of its time to live."""
    head, _, body = packed.partition(b"\n")
    try:
        read = json.loads(head)
        headers = tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in read["headers"])
        age_s = read["age_s"] + max(read["ttl_s"] - left_s, 0.0)
        return Generation(bytes.fromhex(read["generation"])), Entry(headers, body, read["ttl_s"], age_s)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
