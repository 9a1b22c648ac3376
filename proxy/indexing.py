"""How an index is built, kept and refreshed under a configuration."""

from __future__ import annotations

import hashlib
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from proxy.backends.base import Backend, Headers
from proxy.backends.marker import change_marker
from proxy.config import BackendSettings, Config
from proxy.index.archive import FORMAT_VERSION
from proxy.index.support import SupportIndex
from proxy.index.values import ValueIndex
from proxy.pipeline.asking import Progress, scope_of
from proxy.pipeline.distil import Distilled, Method, distil
from proxy.pipeline.freshness import is_fresh
from proxy.pipeline.journal import Journal
from proxy.pipeline.partial import redistil
from proxy.pipeline.refresh import Upkeep
from proxy.rebuild import rebuilder

REVISION = 1
"""Grows when the same graph would give another index than before, so that files of older releases are built anew."""


def make_upkeep(
    config: Config,
    name: str,
    *,
    is_configured: bool = True,
    method: Method | None = None,
    rebuilds_elsewhere: bool = False,
) -> Upkeep:
    """The upkeep of dataset *name*. *is_configured*: its backend is that of the settings; another one has no file.

    rebuilds_elsewhere: in a process of their own, where the backend can be reached from there.
    """
    settings = config.index
    scope, headers = scope_of(config), own_headers(config.backend)

    async def build(
        backend: Backend,
        *,
        progress: Progress,
        epoch: int,
        duty: float,
        journal: Journal | None = None,
        values_path: Path | None = None,
    ) -> Distilled:
        return await distil(
            backend,
            settings,
            progress=progress,
            epoch=epoch,
            duty=duty,
            journal=journal,
            values_path=values_path,
            method=method or settings.method,
            scope=scope,
            headers=headers,
        )

    async def change(
        backend: Backend,
        index: SupportIndex,
        values: ValueIndex,
        properties: frozenset[str],
        *,
        progress: Progress,
        epoch: int,
        duty: float,
    ) -> Distilled | None:
        how = {"progress": progress, "epoch": epoch, "duty": duty, "scope": scope, "headers": headers}
        return await redistil(backend, settings, index, values, properties, **how)  # type: ignore[arg-type]

    async def fresh(backend: Backend, index: SupportIndex) -> bool:
        # What graphs were merged by FROM is not asked again: only the change marker and the clock tell then.
        return scope.is_listed or await is_fresh(backend, index, settings.chunk_timeout_s, parameters=scope.parameters)

    path = archive_path(config, name) if is_configured else None
    can_rebuild = rebuilds_elsewhere and (path is not None or not config.backend.url)
    kind = "oxigraph" if config.backend.load or not config.backend.url else config.backend.kind
    return Upkeep(
        build,
        change,
        change_marker(
            kind, repository=config.backend.repository, headers=headers, timeout_s=settings.chunk_timeout_s
        ),
        fresh,
        path=path,
        fingerprint=fingerprint(config),
        rebuild=rebuilder(config, name, path) if can_rebuild else None,
        keeps_changes=bool(config.backend.url),
        duty=settings.duty,
        refresh_s=settings.refresh_s,
        poll_s=settings.poll_s if config.backend.url else 0.0,  # into an embedded store all ways lead through us
    )


def own_headers(settings: BackendSettings) -> Headers:
    """Host and credential of our own requests."""
    if not settings.url:
        return []
    headers = [(b"host", urlsplit(settings.url).netloc.rpartition("@")[2].encode("ascii", "replace"))]
    if settings.authorization:
        headers.append((b"authorization", settings.authorization.value.encode("latin-1", "replace")))
    return headers


def archive_path(config: Config, name: str) -> Path | None:
    """The file of dataset *name* before this backend; None: memory only."""
    if not config.index.directory:
        return None
    backend = config.backend
    files = [str(Path(f).resolve()) for f in backend.load]
    identity = msgspec.json.encode([backend.kind, backend.url, backend.repository, files])
    return Path(config.index.directory, f"{name}-{hashlib.blake2b(identity, digest_size=4).hexdigest()}.index")


def fingerprint(config: Config) -> str:
    """Of everything but the data of a server that shapes an index: the settings, what credential reads, the files' state."""
    backend, index = config.backend, config.index
    files = []
    for file in backend.load:
        try:
            state = Path(file).stat()
            files.append([str(Path(file).resolve()), state.st_size, state.st_mtime_ns])
        except OSError:
            files.append([file, 0, 0])
    parts: list[object] = [FORMAT_VERSION, REVISION, backend.kind, backend.url, backend.repository, files]
    parts += [backend.authorization.value, index.class_predicate, index.excluded_namespaces]
    parts += [index.values_per_property, index.graphs]
    return hashlib.blake2b(msgspec.json.encode(parts), digest_size=16).hexdigest()
