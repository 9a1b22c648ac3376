"""Build an index anew in a process of its own, at the lowest priority: ``python -m proxy.rebuild``, started by a server.

In the server's own process the counting would hold up every request for some milliseconds, again and again
(benchmarks/refresh.py). Settings, secrets among them, come as JSON on standard input, progress goes to standard output, one
JSON line for each step; the result is the archive, which the server then maps.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from proxy.config import SECTIONS, Config, Secret, keys, load_config
from proxy.pipeline.asking import Progress

Rebuild = Callable[[Progress, int], Awaitable[bool]]
NICE = 19


def rebuilder(config: Config, name: str) -> Rebuild:
    """Returns what starts that process: (progress, epoch) → whether there is a new archive."""
    settings = {f"{s}.{k}": _plain(getattr(getattr(config, s), k)) for s in SECTIONS for k in keys(s)}

    async def rebuild(progress: Progress, epoch: int) -> bool:
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
            child.stdin.write(msgspec.json.encode({"settings": settings, "name": name, "epoch": epoch}))
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

    return rebuild


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Secret) else value


async def _build(config: Config, name: str, epoch: int) -> bool:
    from proxy.assembly import make_backend
    from proxy.indexing import make_upkeep

    last = 0.0

    def tell(phase: str, done: int, total: int) -> None:
        nonlocal last
        now = asyncio.get_running_loop().time()
        if now - last > 0.2 or done == total:
            last = now
            print(msgspec.json.encode([phase, done, total]).decode(), flush=True)

    backend = make_backend(config, lambda *_: None)
    upkeep = make_upkeep(config, name)
    upkeep.is_first = False
    try:
        made = await upkeep.build(backend, tell, epoch)
        made.values.close()
    finally:
        await backend.aclose()
    return not upkeep.error


def main() -> int:
    """0: there is a new archive. Ends with the server that started it: its pipe breaks then."""
    os.nice(NICE)
    gc.set_threshold(20_000, 20, 20)  # as in the server; the default costs a sixth of a build
    message = msgspec.json.decode(sys.stdin.buffer.read())
    config = load_config(None, overrides=message["settings"])
    return 0 if asyncio.run(_build(config, message["name"], message["epoch"])) else 1


if __name__ == "__main__":
    sys.exit(main())
