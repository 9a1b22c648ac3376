"""Keep an index in its file and true to its graph: load it at start, build it resumably, notice that the data have changed.

One process builds at a time: a lock beside the archive makes other workers wait, and then load what was built. Nothing here may
end forwarding: a file that cannot be read is built anew, a file that cannot be written is an error that is shown while the
index serves from memory.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import structlog

from proxy.backends.base import Backend
from proxy.errors import BackendError, CorruptIndex
from proxy.index import archive
from proxy.index.support import SupportIndex
from proxy.index.values import ValueIndex
from proxy.pipeline.asking import Progress
from proxy.pipeline.distil import Distilled
from proxy.pipeline.journal import Journal
from proxy.pipeline.snapshots import Head, Snapshots

Marker = Callable[[Backend], Awaitable[str | None]]
"""What the backend says of the state of its data, opaque; two that differ mean a change. None: it says nothing."""


class Rebuild(Protocol):
    """Builds in another process."""

    def __call__(self, backend: Backend, progress: Progress, epoch: int) -> AbstractAsyncContextManager[Path | None]:
        """The archive, which need not outlive the context; None: there is no new one."""


Fresh = Callable[[Backend, SupportIndex], Awaitable[bool]]
LOCK_POLL_S = 0.2
START_CHECK_S = 1.0
"""How long a start waits for the backend's change marker before it trusts the file for the moment."""
COST_SHARE = 0.01
"""Of the time, how much asking for change markers may take: a backend that scans for it is asked less often."""


class Build(Protocol):
    """``distil`` with everything settled but these."""

    async def __call__(
        self,
        backend: Backend,
        *,
        progress: Progress,
        epoch: int,
        duty: float,
        journal: Journal | None = None,
        values_path: Path | None = None,
    ) -> Distilled: ...


class Change(Protocol):
    """``redistil`` with everything settled but these."""

    async def __call__(
        self,
        backend: Backend,
        index: SupportIndex,
        values: ValueIndex,
        properties: frozenset[str],
        *,
        progress: Progress,
        epoch: int,
        duty: float,
    ) -> Distilled | None: ...


class Upkeep:
    """For one dataset.

    Args:
        path: of the archive; None: memory only.
        fingerprint: of everything but the data that shapes the index.
        rebuild: builds in another process; None: in this one, whose requests then feel the counting.
        keeps_changes: whether what is written through us is still there after a restart (not so with an embedded store).
        duty: share of the time in which a *re*build asks; the first build, which everybody waits for, does not pause.
        refresh_s: seconds between rebuilds, poll_s: between looks at the change marker; 0: never.
    """

    def __init__(
        self,
        build: Build,
        change: Change,
        marker: Marker,
        is_fresh: Fresh,
        *,
        path: Path | None = None,
        fingerprint: str = "",
        rebuild: Rebuild | None = None,
        keeps_changes: bool = True,
        duty: float = 1.0,
        refresh_s: float = 0.0,
        poll_s: float = 0.0,
    ) -> None:
        self._build = build
        self._change = change
        self._marker = marker
        self.is_fresh = is_fresh
        """Compares an index with the live counts of its properties and classes."""
        self.fingerprint = fingerprint
        self._rebuild = rebuild
        self._keeps_changes = keeps_changes
        self._duty = duty
        self.is_first = True
        """Whether everybody waits for this build: nothing serves yet."""
        self._seen_marker: str | None = None
        self._marker_cost_s = 0.0
        self._file_marker: str | None = None
        self._built_at = 0.0
        self.snapshots: Snapshots | None = None
        """Where other machines put what they have built; None: each builds its own."""
        self.path = path
        self.refresh_s = refresh_s
        self.poll_s = poll_s
        self.has_moved = False
        """Whether the data changed while they were read last."""
        self.error = ""
        """Why the file cannot be used or written; empty while all is well."""
        self._is_unwritable = False
        self._is_outdone = False
        """Whether another machine was seen to have a newer index."""
        self._holds_lock = False
        self.cost: dict[str, Any] = {}

    # -- the file

    async def load(self, backend: Backend) -> Distilled | None:
        """What an earlier process left, or another machine has built, if it fits; None: build. Never raises."""
        if self.path is None:
            return None
        await asyncio.to_thread(self._sweep_at_start)
        if (found := await self._load_fitting(backend)) is not None or self.snapshots is None:
            return found
        head = await self.snapshots.latest()
        return await self._load_fitting(backend) if head is not None and await self._fetch(head) else None

    async def _load_fitting(self, backend: Backend) -> Distilled | None:
        assert self.path is not None
        found = await asyncio.to_thread(self._load, self.path)
        if found is None:
            return None
        try:
            async with asyncio.timeout(START_CHECK_S):
                now = await self._ask_marker(backend)
        except TimeoutError:
            now = None
        if now is not None and found.marker is not None and now != found.marker:
            structlog.get_logger().info("index_outdated", path=str(self.path))
            await asyncio.to_thread(found.values.close)
            return None
        return self._take(found)

    def _load(self, path: Path) -> archive.Archived | None:
        try:
            found = archive.load(path, fingerprint=self.fingerprint)
        except FileNotFoundError:
            return None
        except (CorruptIndex, OSError) as error:
            self.error = str(error)
            structlog.get_logger().warning("index_file_unusable", error=self.error)
            return None
        self._file_marker = found.marker
        return found

    def _take(self, found: archive.Archived) -> Distilled:
        self.is_first = False
        self._seen_marker = found.marker
        self._built_at = found.index.built_at
        self.cost = {"queries": found.queries, "elapsed_s": round(found.elapsed_s, 3), "file_bytes": found.size_bytes}
        return Distilled(found.index, found.values, found.queries, found.elapsed_s, "archive")

    def _save(self, made: Distilled, marker: str | None) -> Distilled:
        """Write the file and go on from it; what cannot be written serves from memory."""
        self.cost = {"queries": made.queries, "elapsed_s": round(made.elapsed_s, 3), "replayed": made.replayed}
        self._built_at = made.index.built_at
        if self.path is None:
            return made
        try:
            archive.write(
                self.path,
                made.index,
                made.values,
                fingerprint=self.fingerprint,
                marker=marker,
                queries=made.queries,
                elapsed_s=made.elapsed_s,
            )
            found = archive.load(self.path, fingerprint=self.fingerprint)
        except (OSError, CorruptIndex, sqlite3.Error) as error:
            self.note_unwritable(error)
            return made
        self.error = ""
        self._file_marker = marker
        self._is_unwritable = False
        self.cost["file_bytes"] = found.size_bytes
        made.values.close()
        return Distilled(found.index, found.values, made.queries, made.elapsed_s, made.method, made.replayed)

    def note_unwritable(self, error: Exception) -> None:
        """Show the last reason, and log the first: one cause meets several files, and every build anew."""
        self.error = f"the index cannot be kept on disk: {error}"
        if not self._is_unwritable:
            self._is_unwritable = True
            structlog.get_logger().warning("index_file_unwritable", error=self.error)

    def _leftovers(self) -> list[Path]:
        """Scratch files of processes that have died, killed in the middle of a build; none of them is of use to anybody."""
        assert self.path is not None
        pattern = re.compile(re.escape(self.path.stem) + r"\.(?:index|ttql)\.([0-9]{1,10})\.(?:values|part)")
        try:
            found = [(file, pattern.fullmatch(file.name)) for file in self.path.parent.iterdir()]
        except OSError:
            return []
        return [file for file, match in found if match is not None and not _is_alive(int(match[1]))]

    def _sweep(self) -> None:
        """Remove what dead processes have left; only while holding the lock, without which nobody writes scratch files."""
        for file in self._leftovers():
            _remove(file)

    def _sweep_at_start(self) -> None:
        """The same for a start that has nothing to build; what holds the lock will do it, or has a build to end."""
        assert self.path is not None
        if not self._leftovers():
            return
        try:
            handle = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError:
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._sweep()
        except OSError:  # BlockingIOError: somebody builds
            pass
        finally:
            os.close(handle)

    # -- building

    async def build(self, backend: Backend, progress: Progress, epoch: int) -> Distilled:
        """Build the whole index, going on where a build that was killed had come to; or load what somebody else has built.

        Raises:
            BackendError: the backend is gone.
        """
        shared = self.snapshots
        head = None if shared is None else await shared.latest()
        if shared is None or self.path is None or (head is not None and not head.pieces):
            return await self._build_here(backend, progress, epoch)
        async with shared.lock(progress) as had_to_wait:
            if (found := await self._take_snapshot(backend, had_to_wait)) is not None:
                return found
            made = await self._build_here(backend, progress, epoch)
            await self._publish()
            return made

    async def _take_snapshot(self, backend: Backend, had_to_wait: bool) -> Distilled | None:
        """What another machine has built since; None: nothing, or it is of other data than there are now."""
        assert self.snapshots is not None and self.path is not None
        head = await self.snapshots.latest()
        if head is None or head.built_at <= self._built_at:
            return None
        now = await self._ask_marker(backend)
        is_known = now is not None and head.marker is not None
        is_wanted = now == head.marker if is_known else had_to_wait or self.is_first or self._is_outdone
        self._is_outdone = False
        if not is_wanted or not await self._fetch(head):
            return None
        found = await asyncio.to_thread(self._load, self.path)
        return None if found is None else self._take(found)

    async def _fetch(self, head: Head) -> bool:
        """Put the file of *head* in place of ours, if it is one that could be ours."""
        assert self.snapshots is not None and self.path is not None
        part = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if not await self.snapshots.fetch(head, part):
                return False
            found = await asyncio.to_thread(archive.load, part, fingerprint=self.fingerprint)
            await asyncio.to_thread(found.values.close)
            os.replace(part, self.path)
        except CorruptIndex as error:
            structlog.get_logger().warning("index_snapshot_unusable", error=str(error))
            return False
        except OSError as error:
            self.note_unwritable(error)
            return False
        finally:
            _remove(part)
        structlog.get_logger().info("index_fetched", path=str(self.path), bytes=head.size_bytes)
        return True

    async def _publish(self) -> None:
        """Hand the file on to other machines, unless they have one that is as new."""
        if self.snapshots is None or self.path is None or self._is_unwritable:
            return
        head = await self.snapshots.latest()
        if head is not None and head.built_at >= self._built_at:
            return
        with suppress(OSError):  # somebody has removed it
            await self.snapshots.publish(self.path, built_at=self._built_at, marker=self._file_marker)

    async def _build_here(self, backend: Backend, progress: Progress, epoch: int) -> Distilled:
        duty = 1.0 if self.is_first else self._duty
        if self._rebuild is not None and not self.is_first and not self._is_unwritable:
            elsewhere = await self._build_elsewhere(backend, progress, epoch)
            if elsewhere is not None:
                return elsewhere
        if self.path is None:
            before = await self._ask_marker(backend)
            made = await self._build(backend, progress=progress, epoch=epoch, duty=duty)
            return await self._finish(backend, made, before)
        asked_at = time.time()
        async with self._lock(progress) as had_to_wait:
            if had_to_wait and (found := await asyncio.to_thread(self._load, self.path)) is not None:
                if found.index.built_at >= asked_at - 1 or self.is_first:
                    return self._take(found)
                found.values.close()
            if self._holds_lock:
                await asyncio.to_thread(self._sweep)
            before = await self._ask_marker(backend)
            journal = self._open_journal(before)
            values_path = self.path.with_name(f"{self.path.name}.{os.getpid()}.values")
            try:
                made = await self._build_on_disk(backend, progress, epoch, duty, journal, values_path)
            except BaseException:
                _remove(values_path)
                raise
            finally:
                if journal is not None:
                    journal.close()
            try:
                if journal is not None:
                    try:
                        journal.discard()
                    except OSError as error:
                        self.note_unwritable(error)
                return await self._finish(backend, made, before)
            finally:
                _remove(values_path)

    async def _build_elsewhere(self, backend: Backend, progress: Progress, epoch: int) -> Distilled | None:
        """Have another process build, and load what it wrote; None: it could not."""
        assert self._rebuild is not None
        async with self._rebuild(backend, progress, epoch) as path:
            found = None if path is None else await asyncio.to_thread(self._load, path)
        if found is None:
            return None
        made = self._take(found)
        now = await self._ask_marker(backend)
        self.has_moved = now is not None and found.marker is not None and now != found.marker
        self._seen_marker = now
        self.error = ""
        return made

    async def _build_on_disk(
        self, backend: Backend, progress: Progress, epoch: int, duty: float, journal: Journal | None, values_path: Path
    ) -> Distilled:
        """Where the folder takes no file, or the disk is full, in memory."""
        _remove(values_path)
        how: dict[str, Any] = {"progress": progress, "epoch": epoch, "duty": duty, "journal": journal}
        try:
            return await self._build(backend, **how, values_path=values_path)
        except (OSError, sqlite3.Error) as error:
            # Once more in memory, with the answers that the journal still has.
            self.note_unwritable(error)
            _remove(values_path)
            return await self._build(backend, **how)

    def _open_journal(self, marker: str | None) -> Journal | None:
        assert self.path is not None
        try:
            return Journal.open(self.path.with_suffix(".journal"), state=f"{self.fingerprint} {marker}")
        except OSError as error:
            self.note_unwritable(error)
            return None

    async def _finish(self, backend: Backend, made: Distilled, before: str | None) -> Distilled:
        after = await self._ask_marker(backend)
        self.has_moved = before is not None and after is not None and before != after
        self._seen_marker = after
        # An index of data that moved meanwhile is kept under the marker from before, so that nobody takes it for fresh.
        saved = await asyncio.to_thread(self._save, made, before) if self._keeps_changes or self.is_first else made
        self.is_first = False
        return saved

    async def change(
        self,
        backend: Backend,
        index: SupportIndex,
        values: ValueIndex,
        properties: frozenset[str],
        progress: Progress,
        epoch: int,
    ) -> Distilled | None:
        """Read *properties* anew and keep the rest; None: that is not enough, all of it has to be built."""
        before = await self._ask_marker(backend)
        made = await self._change(
            backend, index, values, properties, progress=progress, epoch=epoch, duty=self._duty
        )
        if made is None:
            return None
        saved = await self._finish(backend, made, before)
        await self._publish()
        return saved

    @asynccontextmanager
    async def _lock(self, progress: Progress) -> AsyncIterator[bool]:
        """Hold the lock of the archive; yields whether another process held it first."""
        assert self.path is not None
        had_to_wait = self._holds_lock = False
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            self.note_unwritable(error)
            yield False
            return
        try:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    had_to_wait = True
                    progress("waiting for another process that builds it", 0, 0)
                    await asyncio.sleep(LOCK_POLL_S)
            self._holds_lock = True
            yield had_to_wait
        finally:
            self._holds_lock = False
            os.close(handle)

    # -- change

    async def _ask_marker(self, backend: Backend) -> str | None:
        started = time.perf_counter()
        try:
            return await self._marker(backend)
        except BackendError:
            return None
        finally:
            self._marker_cost_s = time.perf_counter() - started

    async def watch(self, backend: Backend, index: SupportIndex) -> None:
        """Return when the index should be built anew by itself: it is due, the data moved, or another machine has built it."""
        if self.has_moved:
            return
        while True:
            wait_s = [max(self.poll_s, self._marker_cost_s / COST_SHARE)] if self.poll_s else []
            if self.refresh_s:
                wait_s.append(max(0.0, index.built_at + self.refresh_s - time.time()))
            await (asyncio.sleep(min(wait_s)) if wait_s else asyncio.Event().wait())
            if self.refresh_s and time.time() >= index.built_at + self.refresh_s:
                return
            if self.poll_s:
                now = await self._ask_marker(backend)
                if now is not None and self._seen_marker is not None and now != self._seen_marker:
                    return
                self._seen_marker = now if self._seen_marker is None else self._seen_marker
                head = None if self.snapshots is None else await self.snapshots.latest()
                if head is not None and head.pieces and head.built_at > index.built_at:
                    self._is_outdone = True
                    return

    async def aclose(self) -> None:
        if self.snapshots is not None:
            await self.snapshots.aclose()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # PermissionError: another user's
        return True
    return True


def _remove(file: Path) -> None:
    """Remove *file*, if it is there; it is no error if it cannot be there at all."""
    with suppress(OSError):
        file.unlink()
