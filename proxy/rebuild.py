"""Build an index anew in a process of its own, at the lowest priority: ``python -m proxy.rebuild``, started by a server.

In the server's own process the counting would hold up every request for some milliseconds, again and again
(benchmarks/refresh.py). Settings, secrets among them, come as JSON on standard input, progress goes to standard output, one
JSON line for each step; the result is an archive, which the server then maps.

A store in the server's process is handed over as a file: its snapshot, which pyoxigraph writes without holding up Python.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import structlog

from proxy.backends.base import Backend
from proxy.config import SECTIONS, Config, Secret, keys, load_config
from proxy.pipeline.asking import Progress
from proxy.pipeline.refresh import Rebuild

NICE = 19
HERE_MOST_BYTES = 500_000
"""Of a snapshot: with less, an embedded store is read in the server's process in some 50 ms, another one takes a second."""


class _Message(msgspec.Struct):
    """What to do. snapshot, archive: of an embedded store, and where its index is wanted."""

    settings: dict[str, Any]
    name: str
    epoch: int
    snapshot: str = ""
    archive: str = ""


def rebuilder(config: Config, name: str, path: Path | None) -> Rebuild:
    """Returns what starts that process; *path*: of the archive, which a server's index goes to."""
    settings = {f"{s}.{k}": _plain(getattr(getattr(config, s), k)) for s in SECTIONS for k in keys(s)}

    @asynccontextmanager
    async def rebuild(backend: Backend, progress: Progress, epoch: int) -> AsyncIterator[Path | None]:
        message = _Message(settings, name, epoch)
        if config.backend.url:
            yield path if await _succeeds(message, progress) else None
            return
        from proxy.backends.embedded import EmbeddedBackend  # late: a proxy in front of a server needs no store

        if not isinstance(backend, EmbeddedBackend):
            yield None
            return
        with tempfile.TemporaryDirectory(prefix="sparlance-rebuild-", ignore_cleanup_errors=True) as folder:
            message.snapshot, message.archive = f"{folder}/data.nq", f"{folder}/new.index"
            progress("handing over", 0, 0)
            try:
                await backend.write_snapshot(Path(message.snapshot))
                is_small = Path(message.snapshot).stat().st_size < HERE_MOST_BYTES
            except OSError:  # a full disk
                structlog.get_logger().warning("index_rebuild_failed", epoch=epoch)
                yield None
                return
            yield None if is_small or not await _succeeds(message, progress) else Path(message.archive)

    return rebuild


async def _succeeds(message: _Message, progress: Progress) -> bool:
    """Run the other process; whether it has written an archive."""
    if await _run(message, progress):
        return True
    structlog.get_logger().warning("index_rebuild_failed", epoch=message.epoch)
    return False


async def _run(message: _Message, progress: Progress) -> bool:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "proxy.rebuild",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert child.stdin is not None and child.stdout is not None
    try:
        child.stdin.write(msgspec.json.encode(message))
        await child.stdin.drain()
        child.stdin.close()
        async for line in child.stdout:
            progress(*msgspec.json.decode(line, type=tuple[str, int, int]))
        return await child.wait() == 0
    except (ConnectionError, msgspec.DecodeError):
        return False  # it ended at once, or is not what we think it is
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Secret) else value


async def _build(config: Config, message: _Message) -> bool:
    from proxy.assembly import make_backend
    from proxy.backends.embedded import EmbeddedBackend
    from proxy.indexing import make_upkeep

    last = 0.0

    def tell(phase: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()  # the thread that counts tells, too: it has no loop
        if now - last > 0.2 or done == total:
            last = now
            print(msgspec.json.encode([phase, done, total]).decode(), flush=True)

    backend: Backend
    if message.snapshot:
        backend = EmbeddedBackend.load([message.snapshot], timeout_s=config.backend.timeout_s)
        os.unlink(message.snapshot)
        upkeep = make_upkeep(config, message.name, is_configured=False)
        upkeep.path = Path(message.archive)
    else:
        backend = make_backend(config, lambda *_: None)
        upkeep = make_upkeep(config, message.name)
    upkeep.is_first = bool(message.snapshot)  # all of that store's processor time is ours; and whatever is built is wanted
    try:
        made = await upkeep.build(backend, tell, message.epoch)
        made.values.close()
    finally:
        await backend.aclose()
    return not upkeep.error


def main() -> int:
    """0: there is a new archive. Ends with the server that started it: its pipe breaks then."""
    os.nice(NICE)
    gc.set_threshold(20_000, 20, 20)  # as in the server; the default costs a sixth of a build
    message = msgspec.json.decode(sys.stdin.buffer.read(), type=_Message)
    config = load_config(None, overrides=message.settings)
    return 0 if asyncio.run(_build(config, message)) else 1


if __name__ == "__main__":
    sys.exit(main())
