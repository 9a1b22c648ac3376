"""Every triple over the wire once, but a few properties at a time in memory: for graphs too large to be held (index/parts.py).

As with ``download``, what comes must be as many triples of every property and instances of every class as the backend counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from proxy.errors import BackendError, BackendUnreachable
from proxy.index.arrays import sorted_unique
from proxy.index.build import IndexBuilder, Row
from proxy.index.gather import NAMES_MOST, gather_descriptions, gather_hierarchy, gather_values, unnamed
from proxy.index.gather_nodes import NodesOfParts
from proxy.index.literals import named_by_iri
from proxy.index.ntriples import NotNTriples, read_iri
from proxy.index.parts import Part, numbers_of
from proxy.index.values import ValueIndexBuilder
from proxy.index.vocabulary import COMMENTS, LABELS, VocabularyBuilder
from proxy.pipeline.asking import Asker, Progress
from proxy.pipeline.download import Settings
from proxy.pipeline.spool import Spool
from proxy.query.term import Iri

PART_MOST = 500_000
"""Triples in memory at a time, unless one property has more."""


def places_of(properties: Mapping[str, int], part_most: int) -> dict[str, int]:
    """Property → the part that it is counted in, each of at most *part_most* triples or one property.

    What names and describes comes last, in its order, when it is known which terms are classes and properties.
    """
    last = [p for p in (*LABELS, *COMMENTS) if p in properties]
    first = sorted(properties.keys() - set(last), key=lambda p: (-properties[p], p))
    places: dict[str, int] = {}
    place = -1
    for group in (first, last):
        left = -1
        for p in group:
            if properties[p] > left:
                place, left = place + 1, part_most
            places[p] = place
            left -= properties[p]
    return places


class Spooled:
    """A graph that was downloaded, and waits on disk to be counted."""

    how = "download in parts"

    def __init__(self, spool: Spool, settings: Settings, progress: Progress, places: Mapping[str, int]) -> None:
        self._spool = spool
        self._settings = settings
        self._progress = progress
        self._places = places

    def agrees_with(self, properties: Mapping[str, int | None], classes: Mapping[str, int]) -> bool:
        """As ``Tallied.agrees_with``."""
        seen = self._spool.typings.counts
        does = self._spool.counts == properties and all(seen.get(c) == n for c, n in classes.items())
        if not does:
            self._spool.remove()
        return does

    def hand_over(
        self,
        builder: IndexBuilder,
        vocabulary: VocabularyBuilder,
        values: ValueIndexBuilder,
        excluded: frozenset[str],
        *,
        kind_cap: int,
    ) -> None:
        """As ``Tallied.hand_over``, one part after another; takes minutes."""
        cap = self._settings.values_per_property
        nodes: NodesOfParts | None = NodesOfParts()
        named: dict[str, float] = {}
        size = max(self._places.values(), default=-1) + 1
        try:
            for place in range(size):
                self._progress("counting", place, size)
                if (part := self._count(place, builder)) is None:
                    nodes = None  # some are missing
                    continue
                part.count_into(builder, excluded, kind_cap=kind_cap)
                if nodes is not None:
                    nodes.add(part)
                gather_hierarchy(part, vocabulary)
                gather_descriptions(part, vocabulary, self._spool.counts)
                if cap:
                    for class_, n in gather_values(part, values, excluded, cap=cap).items():
                        named[class_] = max(named.get(class_, 0), n)
                del part
            if nodes is not None:
                nodes.hand_over(builder)
            if cap:
                self._gather_names(values, unnamed(self._spool.typings.counts, named), min(NAMES_MOST, cap))
        finally:
            self._spool.remove()

    def _count(self, place: int, builder: IndexBuilder) -> Part | None:
        """The triples of one file; None, and a note in *builder*: they cannot be read, or the count was met by chance."""
        part = Part(self._settings.class_predicate, self._spool.typings)
        try:
            for piece in self._spool.read(place):
                part.add(piece)
            part.close()
            came_twice = [p for p, n in part.properties.items() if n != self._spool.counts[p]]
            reason = "a triple came twice, so another one may be missing" if came_twice else ""
        except NotNTriples as error:
            reason = str(error)
        if not reason:
            return part
        for property_ in (p for p, own in self._places.items() if own == place):
            is_needed_by_all = property_ == self._settings.class_predicate
            builder.give_up(None, None if is_needed_by_all else property_, reason)
        return None

    def _gather_names(self, values: ValueIndexBuilder, classes: Sequence[str], limit: int) -> None:
        """As ``gather.gather_names``, from the files."""
        typings = self._spool.typings
        token_of = dict(zip(typings.counts, typings.tokens, strict=True))
        wanted: dict[bytes, list[bytes]] = {token_of[c]: [] for c in classes}
        if not wanted:
            return
        hashes = [numbers_of([s for s, _ in some])[0] for p in LABELS for some in self._spool.pairs(p)]
        labelled = sorted_unique(np.concatenate([*hashes, np.empty(0, dtype=np.int64)]))
        for some in self._spool.pairs(self._settings.class_predicate):
            some = [(s, o) for s, o in some if s.startswith(b"<") and o in wanted and len(wanted[o]) < limit]
            has_none = ~np.isin(numbers_of([s for s, _ in some])[0], labelled)
            for i in np.flatnonzero(has_none).tolist():
                wanted[some[i][1]].append(some[i][0])
        for class_ in classes:
            rows: list[Row] = []
            for subject in wanted[token_of[class_]][:limit]:
                with suppress(NotNTriples):  # which has left its part incomplete
                    rows.append({"s": Iri(read_iri(subject))})
            values.add(named_by_iri(rows, class_))


async def download_in_parts(
    asker: Asker, settings: Settings, progress: Progress, totals: Mapping[str, int], folder: Path | None
) -> Spooled | None:
    """Read the whole graph into files; None: it does not come as N-Triples, or not whole, or there is no room for it.

    Args:
        totals: property → triples, by the backend's count. folder: for the files, about 100 bytes a triple.

    Raises:
        BackendUnreachable
    """
    places, total = places_of(totals, PART_MOST), sum(totals.values())
    progress("downloading", 0, total)
    try:
        spool = Spool(places, settings.class_predicate, folder)
    except OSError:
        return None
    try:
        async for piece in asker.stream():
            if spool.add(piece):
                await asyncio.to_thread(spool.sort)
                progress("downloading", spool.lines, total)
        await asyncio.to_thread(spool.close)
    except (BackendError, NotNTriples, OSError) as error:
        spool.remove()
        if isinstance(error, BackendUnreachable):
            raise
        return None
    except BaseException:
        spool.remove()
        raise
    return Spooled(spool, settings, progress, places)
