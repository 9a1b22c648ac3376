"""The dataset that a command is about, opened without a server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from proxy.commands.output import ProgressLine
from proxy.config import Config
from proxy.errors import BackendError, BackendTimeout, BackendUnreachable, ConfigError, ProxyError


def require_source(config: Config) -> None:
    """Raise ConfigError, saying what to give, if there is nothing to serve."""
    if not (config.datasets or config.backend.url or config.backend.load):
        raise ConfigError(
            "",
            "nothing to serve: give --load FILE (RDF files), or --backend KIND --url ROOT_URL (a server); try sparlance demo",
        )


def quiet(config: Config) -> None:
    """Log errors only: what goes wrong is raised as one sentence, and the event would say it twice."""
    from proxy.log import configure

    if config.log.level != "debug":
        configure(msgspec.structs.replace(config.log, level="error"))


@asynccontextmanager
async def opened(config: Config, *, nl: bool, is_fresh: bool = False) -> AsyncIterator[Any]:
    """Open the dataset that the settings describe, with its index built; *is_fresh*: anew, whatever file there is.

    Raises:
        ProxyError: it cannot be built.
    """
    require_source(config)
    from proxy.app import create_app

    quiet(config)
    settings = msgspec.structs.replace(
        config,
        nl=msgspec.structs.replace(config.nl, enabled=nl),
        index=msgspec.structs.replace(config.index, enabled=True),
    )
    progress = ProgressLine(sys.stderr)
    [dataset] = create_app(settings, load_progress=progress.of("loading")).datasets
    if is_fresh and dataset.upkeep is not None and dataset.upkeep.path is not None:
        dataset.upkeep.path.unlink(missing_ok=True)
    try:
        dataset.start()
        built = asyncio.create_task(dataset.built())
        while not built.done():
            build = dataset.index_build
            if dataset.index is None and build.phase:
                progress(f"indexing {build.phase}", build.done, build.total)
            elif dataset.index is not None and nl:
                progress("making the question engine", 0, 0)
            await asyncio.wait([built], timeout=0.05)
        progress.end()
        if reasons := dataset.reasons():
            raise ProxyError("; ".join(reasons) + await _advice(dataset.backend))
        if (index := dataset.index) is not None and not index.triples and index.incomplete:
            # A server that is no store refuses every query alike; an index of nothing would be taken for an empty graph.
            advice = await _advice(dataset.backend) or f": {index.incomplete[0].reason}"
            raise ProxyError(f"nothing could be read of the graph behind {dataset.backend.name}{advice}")
        yield dataset
    finally:
        progress.end()
        await dataset.aclose()


async def _advice(backend: Any) -> str:
    """What to do where it is the server that is in the way; empty where it answers, so that the fault is another."""
    try:
        await backend.probe(timeout_s=5.0)
    except (BackendUnreachable, BackendTimeout):
        return ". Start the server, or give the root URL of one that runs with --url; --load RDF_FILE needs none"
    except BackendError:
        return ". Something else answers there: check the root URL (--url), the kind (--backend) and the name (--repository)"
    return ""
