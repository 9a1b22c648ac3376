"""Index files that one machine builds and the others fetch, by way of a Redis or Valkey server.

A file goes there in pieces, under an id of its own; the head, which is written last, names the newest. Who reads an older one
meanwhile has LINGER_S to end. What comes from there is never trusted: whoever fetches verifies it as any file
(index/archive.py), and whatever is missing, damaged or too large is built instead. A lock, which its holder has to renew, has
one machine build at a time. Without the server each machine builds its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from proxy.pipeline.redis_link import RedisLink

PIECE_BYTES = 1 << 20
KEPT_S = 7 * 86_400
"""So long a file stays that nobody replaces; then the next machine that starts builds anew."""
LINGER_S = 300
LOCK_S = 30.0
"""After so long without a sign of life the lock of a machine that builds is anybody's."""
RENEW_S = 5.0
WAIT_S = 0.5
"""Between looks at a lock that another machine holds."""


@dataclass(frozen=True, slots=True)
class Head:
    """The newest file. marker: of the data that it was built from. pieces: 0: it was too large to be kept."""

    id: str
    size_bytes: int
    pieces: int
    built_at: float
    marker: str | None


class Snapshots:
    """Of one dataset. Nothing here raises because of the server.

    Args:
        name: of the dataset, as the others call it, and of everything that shapes its index.
        limit_bytes: of a file; a larger one is neither sent nor fetched.
    """

    def __init__(self, link: RedisLink, name: str, *, limit_bytes: int, prefix: str = "sparlance") -> None:
        self._link = link
        self._limit = limit_bytes
        digest = hashlib.blake2b(name.encode("utf-8"), digest_size=16).hexdigest()
        self._key = f"{prefix}:i:{digest}"
        self._lock_key = f"{prefix}:b:{digest}"

    async def latest(self) -> Head | None:
        """The newest file; None: there is none, or the server is away."""
        return _read(await self._ask("get", self._key))

    async def fetch(self, head: Head, path: Path) -> bool:
        """Write the file of *head* to *path*; False: it is not all there any more.

        Raises:
            OSError: *path* cannot be written.
        """
        if not 0 < head.size_bytes <= self._limit or head.pieces != -(-head.size_bytes // PIECE_BYTES):
            return False
        left = head.size_bytes
        with path.open("wb") as file:
            for n in range(head.pieces):
                key = self._piece(head.id, n)
                piece = await self._ask("get", key)
                if not isinstance(piece, bytes) or len(piece) != min(left, PIECE_BYTES):
                    return False
                await asyncio.to_thread(file.write, piece)
                left -= len(piece)
        return True

    async def publish(self, path: Path, *, built_at: float, marker: str | None) -> bool:
        """Send the file at *path*, in place of an older one; False: it did not get there.

        Raises:
            OSError: *path* cannot be read.
        """
        id_ = secrets.token_hex(8)
        with path.open("rb") as file:
            size = path.stat().st_size
            pieces = -(-size // PIECE_BYTES) if size <= self._limit else 0
            for n in range(pieces):
                piece = await asyncio.to_thread(file.read, PIECE_BYTES)
                key = self._piece(id_, n)
                if not await self._ask("set", key, piece, ex=LINGER_S):
                    return False
        kept = [self._piece(id_, n) for n in range(pieces)]
        # Pieces without a head vanish by themselves, as those of an older head do.
        if not await self._let_live(kept, KEPT_S):
            return False
        head = json.dumps(asdict(Head(id_, size, pieces, built_at, marker)))
        before = await self._ask("set", self._key, head, ex=KEPT_S, get=True)
        if (old := _read(before)) is not None:
            most = self._limit // PIECE_BYTES + 1
            await self._let_live([self._piece(old.id, n) for n in range(min(old.pieces, most))], LINGER_S)
        return True

    @asynccontextmanager
    async def lock(self, progress: Callable[[str, int, int], None]) -> AsyncIterator[bool]:
        """Hold the lock for building; yields whether another machine held it first. Without the server nobody waits."""
        token = secrets.token_bytes(12)
        had_to_wait = False
        while not self._link.is_out:
            is_held = await self._ask("set", self._lock_key, token, nx=True, px=int(LOCK_S * 1000))
            if is_held or self._link.is_out:
                break
            had_to_wait = True
            progress("waiting for another machine that builds it", 0, 0)
            await asyncio.sleep(WAIT_S)
        over = asyncio.Event()  # not a cancellation: a command under way may take it for its own time-out
        renewing = asyncio.create_task(self._renew(token, over))
        try:
            yield had_to_wait
        finally:
            over.set()
            await renewing
            await self._ask("eval", _RELEASE, 1, self._lock_key, token)

    async def aclose(self) -> None:
        await self._link.aclose()

    # -- inside

    async def _renew(self, token: bytes, over: asyncio.Event) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(RENEW_S):
                    await over.wait()
            if over.is_set():
                return
            await self._ask("eval", _RENEW, 1, self._lock_key, token, int(LOCK_S * 1000))

    async def _let_live(self, keys: list[str], seconds: int) -> bool:
        """Have *keys* vanish in *seconds*; False: the server is away, or one has vanished already."""
        for key in keys:
            if not await self._ask("expire", key, seconds):
                return False
        return True

    async def _ask(self, command: str, *arguments: Any, **options: Any) -> Any:
        """What the server says to *command*, a method of its client; None where it is away."""
        if self._link.is_out:
            return None
        try:
            return await getattr(self._link.client, command)(*arguments, **options)
        except self._link.faults:
            self._link.note_failure()
            return None

    def _piece(self, id_: str, n: int) -> str:
        return f"{self._key}:{id_}:{n}"


_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"
_RENEW = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end"


def _read(written: object) -> Head | None:
    """A head as ``publish`` writes it; None for anything else."""
    try:
        head = Head(**json.loads(written)) if isinstance(written, bytes) else None
    except (ValueError, TypeError, RecursionError):
        return None
    if head is None or [type(v) for v in (head.id, head.size_bytes, head.pieces, head.built_at)] != [str, int, int, float]:
        return None
    return head if isinstance(head.marker, str | None) else None
