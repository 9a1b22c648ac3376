"""Read some properties anew and keep the rest of an index: what an update asks for whose text names the properties it touches.

The kinds stay as they are, so a touched class predicate, or a class that was not there before, needs the whole build.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from proxy.backends.base import Backend, Headers
from proxy.index import chunks
from proxy.index.build import number
from proxy.index.support import SupportIndex
from proxy.index.values import ValueIndex, ValueIndexBuilder
from proxy.index.vocabulary import COMMENTS, LABELS, RELATIONS
from proxy.pipeline.asking import DEFAULT_SCOPE, Asker, Failure, Progress, Scope
from proxy.pipeline.distil import Distilled, IndexSettings, Reading
from proxy.query.term import RDF_TYPE, Iri

_DESCRIBING = frozenset((*LABELS, *COMMENTS, *RELATIONS, RDF_TYPE))


async def redistil(
    backend: Backend,
    settings: IndexSettings,
    index: SupportIndex,
    values: ValueIndex,
    properties: Collection[str],
    *,
    progress: Progress = lambda phase, done, total: None,
    epoch: int = 0,
    scope: Scope = DEFAULT_SCOPE,
    duty: float = 1.0,
    headers: Headers = (),
    values_path: Path | None = None,
) -> Distilled | None:
    """Read *properties* anew; None: the whole index has to be built. *index* and *values* stay as they are, and open.

    Raises:
        BackendUnreachable
    """
    touched = sorted(p for p in properties if not p.startswith(tuple(settings.excluded_namespaces)))
    is_whole = any(c.subject_class is None and c.property is None for c in index.incomplete)
    if index.class_predicate in touched or is_whole or scope.is_listed or scope.reads_each:
        return None
    started, built_at = time.perf_counter(), time.time()
    asker = Asker(
        backend,
        timeout_s=settings.chunk_timeout_s,
        concurrency=settings.concurrency,
        duty=duty,
        progress=progress,
        parameters=scope.parameters,
        headers=headers,
    )
    reading = Reading(asker, _Settings(settings, index.class_predicate), progress)
    reading.begin_with(index, touched)
    totals: dict[str, int] = {}
    pairs: list[tuple[str, str]] = []
    for p in touched:
        try:
            rows = await asker.ask(chunks.subject_classes(index.class_predicate, p))
            total = await asker.ask(chunks.triples_of(p))
        except ValueError:  # a property that cannot be written in a query
            return None
        if isinstance(rows, Failure) or isinstance(total, Failure) or not total:
            return None
        classes = [c.value for row in rows if isinstance(c := row["c"], Iri)]
        if not index.class_instances.keys() >= set(classes):
            return None
        totals[p] = number(total[0]["n"])
        pairs += ((c, p) for c in classes)
    await reading.read_properties(totals, pairs)
    vocabulary = index.vocabulary
    if _DESCRIBING.intersection(touched) or not set(index.properties).issuperset(touched):
        vocabulary = await reading.read_vocabulary({*index.properties, *touched})
    builder = await asyncio.to_thread(ValueIndexBuilder.changing, values, touched, values_path)
    try:
        if settings.values_per_property:
            await reading.read_values(builder, touched)
        made = await asyncio.to_thread(builder.finish)
    except BaseException:
        builder.close()
        raise
    fresh = reading.finish(index, vocabulary, built_at=built_at, epoch=epoch)
    return Distilled(fresh, made, asker.queries, time.perf_counter() - started, "partial")


@dataclass(frozen=True, slots=True)
class _Settings:
    """*base* with the class predicate that the index was built by, which need not be the configured word."""

    base: IndexSettings
    class_predicate: str

    @property
    def excluded_namespaces(self) -> Sequence[str]:
        return self.base.excluded_namespaces

    @property
    def chunk_timeout_s(self) -> float:
        return self.base.chunk_timeout_s

    @property
    def concurrency(self) -> int:
        return self.base.concurrency

    @property
    def values_per_property(self) -> int:
        return self.base.values_per_property
