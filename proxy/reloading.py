"""What another configuration changes, and what of the running server it leaves as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from proxy.assembly import Encoders, make_dataset
from proxy.config import OF_A_DATASET, SECTIONS, Config
from proxy.errors import ConfigError
from proxy.pipeline.dataset import Dataset

FIXED = (
    "server.host",
    "server.port",
    "server.workers",
    "server.shutdown_timeout_s",
    "server.drain_s",
    "shared.url",
    "shared.index_limit_bytes",
    "tracing.endpoint",
)
"""What was settled when the socket was opened and the processes were started."""


@dataclass(frozen=True, slots=True)
class Reload:
    """*changed*: sections and datasets that are different now, by name; empty: nothing is."""

    changed: tuple[str, ...]


def require_reloadable(old: Config, reread: Callable[[], Config] | None) -> Config:
    """Read the configuration again.

    Raises:
        ConfigError: it cannot be used, or takes a restart.
    """
    if reread is None:
        raise ConfigError("", "this server was not started from a configuration that could be read again")
    new = reread()
    for key in FIXED:
        section, _, name = key.partition(".")
        before, after = getattr(getattr(old, section), name), getattr(getattr(new, section), name)
        if before != after:
            # A URL may hold a password.
            found = "another one" if name in ("url", "endpoint") else f"{before} → {after}"
            raise ConfigError(key, f"found {found}, which takes a restart; the configuration in effect stays")
    return new


def changes(old: Config, new: Config) -> list[str]:
    """Names of what differs: sections for all datasets, then ``datasets.NAME``."""
    shared = [name for name in SECTIONS if name not in OF_A_DATASET and getattr(old, name) != getattr(new, name)]
    before, after = old.by_dataset(), new.by_dataset()
    names = [*after, *(name for name in before if name not in after)]
    own = [name for name in names if not (name in before and name in after and is_same(before[name], after[name]))]
    if not own and list(before) != list(after):
        own = names[:1]  # another one is at the root
    return shared + [f"datasets.{name}" for name in own]


def is_same(old: Config, new: Config) -> bool:
    """Whether one dataset can serve both."""
    return all(getattr(old, section) == getattr(new, section) for section in OF_A_DATASET)


def carried(old: Config, new: Config, datasets: Sequence[Dataset]) -> Mapping[str, Dataset]:
    """The datasets that stay as they are, by name."""
    before, after = old.by_dataset(), new.by_dataset()
    return {d.name: d for d in datasets if d.name in after and d.name in before and is_same(before[d.name], after[d.name])}


async def start_anew(
    config: Config, kept: Mapping[str, Dataset], encoders: Encoders, old: Sequence[Dataset]
) -> tuple[list[Dataset], list[Dataset]]:
    """Make the datasets of *config* that are not *kept*; returns those, and all in their order.

    A store in memory is handed on where it is the same files: what updates have written is nowhere else.

    Raises:
        ConfigError: one cannot be made; then none is.
    """
    stores = {d.name: d for d in old if d.settings.backend.load}
    made: list[Dataset] = []
    datasets = []
    try:
        for name, own in config.by_dataset().items():
            if name in kept:
                datasets.append(kept[name])
                continue
            before = stores.get(name)
            store = before.backend if before is not None and before.settings.backend == own.backend else None
            dataset = await asyncio.to_thread(make_dataset, name, own, encoders, backend=store, is_configured=True)
            dataset.keeps_backend = store is not None
            made.append(dataset)
            datasets.append(dataset)
    except BaseException:
        for dataset in made:
            await dataset.aclose()
        raise
    return made, datasets


def hand_over(old: Sequence[Dataset], made: Sequence[Dataset]) -> None:
    """From now on it is the new dataset that closes the store which it shares with an old one."""
    for dataset in made:
        for before in old:
            if before.backend is dataset.backend:
                before.keeps_backend, dataset.keeps_backend = True, False
