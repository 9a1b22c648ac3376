"""Every triple over the wire once, and counted here (index/tally.py): what to do with small graphs.

N-Triples has no end that could be missing, so the count of every property and class is compared with what the backend itself
counts; where they differ the chunk queries decide.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from proxy.errors import BackendError, BackendUnreachable
from proxy.index.build import IndexBuilder
from proxy.index.gather import gather_descriptions, gather_hierarchy, gather_names, gather_values
from proxy.index.gather_nodes import gather_nodes
from proxy.index.ntriples import NotNTriples
from proxy.index.tally import Tally
from proxy.index.values import ValueIndexBuilder
from proxy.index.vocabulary import VocabularyBuilder
from proxy.pipeline.asking import Asker, Progress


class Settings(Protocol):
    """The part of ``[index]`` that matters here."""

    @property
    def class_predicate(self) -> str: ...
    @property
    def values_per_property(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Tallied:
    """A graph that was downloaded and counted."""

    tally: Tally
    settings: Settings
    how: str = "download"

    def agrees_with(self, properties: Mapping[str, int | None], classes: Mapping[str, int]) -> bool:
        """Whether the backend counts the same triples of every property and instances of every class."""
        seen = self.tally.classes
        return self.tally.properties == properties and all(seen.get(c) == n for c, n in classes.items())

    def hand_over(
        self,
        builder: IndexBuilder,
        vocabulary: VocabularyBuilder,
        values: ValueIndexBuilder,
        excluded: frozenset[str],
        *,
        kind_cap: int,
    ) -> None:
        """Fill what the chunk queries would have filled. Takes seconds: for a worker thread."""
        self.tally.count_into(builder, excluded, kind_cap=kind_cap)
        gather_nodes(self.tally, builder)
        gather_hierarchy(self.tally, vocabulary)
        gather_descriptions(self.tally, vocabulary, self.tally.properties)
        if cap := self.settings.values_per_property:
            named = gather_values(self.tally, values, excluded, cap=cap)
            gather_names(self.tally, values, named, cap=cap)


async def download(asker: Asker, settings: Settings, progress: Progress, total: int) -> Tallied | None:
    """Read the whole graph, *total* triples by the backend's count; None: it does not come as N-Triples, or not whole.

    Raises:
        BackendUnreachable
    """
    tally = Tally(settings.class_predicate)
    progress("downloading", 0, total)
    try:
        async for piece in asker.stream():
            tally.add(piece)
            progress("downloading", tally.lines, total)
        await asyncio.to_thread(tally.close)
    except BackendUnreachable:
        raise
    except (BackendError, NotNTriples):
        return None
    return Tallied(tally, settings)
