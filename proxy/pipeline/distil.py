"""Read a whole graph through its backend, chunk by chunk, into the indexes that validation and questions rest on.

Exhaustive, never sampled: every chunk ends complete, or is written down as incomplete with its reason, and nothing is proved
there. A chunk that is too heavy is split along the other dimension, (class) into (class, property), before it is given up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from proxy.backends.base import Backend
from proxy.errors import (
    BackendBusy,
    BackendGarbled,
    BackendRefused,
    BackendTimeout,
    BackendUnreachable,
)
from proxy.index import chunks
from proxy.index.build import KIND_CAP, Distribution, IndexBuilder, Row, kind_of, number, text
from proxy.index.chunks import Subjects
from proxy.index.literals import NUMBERS, TIMES, as_number, as_text, describe, entries, named_by_iri
from proxy.index.summary import summary
from proxy.index.support import UNTYPED, Kind, SupportIndex
from proxy.index.values import LONGEST, PairSummary, ValueEntry, ValueIndex, ValueIndexBuilder
from proxy.index.vocabulary import (
    CLASS_CLASSES,
    COMMENTS,
    LABELS,
    PROPERTY_CLASSES,
    RELATIONS,
    VocabularyBuilder,
)
from proxy.query.term import OWL, RDF, RDF_LANG_STRING, RDFS, XSD_STRING, Iri

ROWS_MOST = 500_000
"""Solutions of one chunk query; a chunk with more is split."""
MULTIPLICITY_MOST = 2_000_000
"""Triples; for a property with more, how often it repeats is not asked."""
VOCABULARY_MOST = 50_000
"""Solutions of one vocabulary query. Hints only, so cutting them off costs no proof."""
NAMES_MOST = 5_000
"""Instances of one class that are kept by the words in their IRI, where nothing else names them."""
TERMS_AT_ONCE = 200
_ATTEMPTS = 3
_ORDERS = 8
_IDENTIFYING = 0.9

Progress = Callable[[str, int, int], None]
"""Called with (phase, parts done, parts in all)."""
Item = TypeVar("Item")


class IndexSettings(Protocol):
    """The part of the configuration that matters here (``[index]``)."""

    @property
    def class_predicate(self) -> str: ...
    @property
    def excluded_namespaces(self) -> Sequence[str]: ...
    @property
    def chunk_timeout_s(self) -> float: ...
    @property
    def concurrency(self) -> int: ...
    @property
    def values_per_property(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Distilled:
    """A graph's two indexes, and what making them cost: *queries* sent, *elapsed_s* seconds. Close *values* after use."""

    index: SupportIndex
    values: ValueIndex
    queries: int
    elapsed_s: float

    def summary(self) -> dict[str, Any]:
        return summary(self.index, self.values, queries=self.queries, elapsed_s=self.elapsed_s)


@dataclass(frozen=True, slots=True)
class Failure:
    """A query that brought no complete answer, and why."""

    reason: str


async def distil(
    backend: Backend,
    settings: IndexSettings,
    *,
    progress: Progress = lambda phase, done, total: None,
    values_path: Path | None = None,
    kind_cap: int = KIND_CAP,
    epoch: int = 0,
) -> Distilled:
    """Enumerate the graph behind *backend* as its default graph shows it.

    Args:
        values_path: file for the value index, to be created; None: in memory, 200 to 300 bytes for each value.
        kind_cap: with more kinds than this, or where they cannot be listed, single classes stand in for them.
        epoch: handed on to the index.
    Raises:
        BackendUnreachable: the backend is gone, and did not come back while we waited a little.
    """
    run = _Run(backend, settings, progress, kind_cap)
    values = ValueIndexBuilder(values_path)
    try:
        return await run.distil(values, epoch)
    except BaseException:
        values.close()
        raise


class _Run:
    """One build: what has been found so far, and the phases in their order."""

    def __init__(self, backend: Backend, settings: IndexSettings, progress: Progress, kind_cap: int) -> None:
        self._backend = backend
        self._settings = settings
        self._progress = progress
        self._kind_cap = kind_cap
        self._queries = 0
        self._builder = IndexBuilder(class_predicate=settings.class_predicate)
        self._instances: dict[str, int] = {}
        self._totals: dict[str, int | None] = {}
        self._excluded: frozenset[str] = frozenset()
        self._multi_typed: set[str] = set()
        self._vocabulary = VocabularyBuilder()

    async def distil(self, values: ValueIndexBuilder, epoch: int) -> Distilled:
        started, built_at = time.perf_counter(), time.time()
        await self._list_classes()
        await self._list_properties()
        await self._find_kinds()
        await self._each("classes", self._instances, self._read_class)
        # A property that the list of step one did not have (a write, a list cut short) is read without a total to compare.
        unlisted = sorted(self._builder.properties() - self._totals.keys())
        properties = [p for p in (*self._totals, *unlisted) if p not in self._excluded]
        await self._each("nodes without a class", properties, self._read_untyped)
        await self._each("multiplicity", properties, self._read_multiplicity)
        await self._read_vocabulary()
        if self._settings.values_per_property:
            await self._read_values(values)
        index = self._builder.finish(vocabulary=self._vocabulary.finish(), built_at=built_at, epoch=epoch)
        return Distilled(index, await asyncio.to_thread(values.finish), self._queries, time.perf_counter() - started)

    # -- asking

    async def _ask(self, query: str, *, limit_rows: int = ROWS_MOST) -> list[Row] | Failure:
        """Run *query*; every way in which an answer can be missing becomes a Failure, but for a backend that is gone."""
        timeout_s = self._settings.chunk_timeout_s
        for attempt in range(1, _ATTEMPTS + 1):
            self._queries += 1
            try:
                solutions = await self._backend.select(query, timeout_s=timeout_s, limit_rows=limit_rows)
            except BackendTimeout:
                return Failure(f"no answer within {timeout_s:g} s")
            except BackendRefused as error:
                return Failure(f"the backend refused with status {error.status}: {' '.join(error.body.split())[:200]}")
            except BackendGarbled as error:
                return Failure(f"the answer was not complete: {error}")
            except BackendBusy as error:
                if attempt == _ATTEMPTS:
                    return Failure("the backend was busy")
                await asyncio.sleep(error.retry_after_s)
            except BackendUnreachable as error:
                if attempt == _ATTEMPTS:
                    # A query that makes the server drop the connection is given up; a server that is down ends the build.
                    await self._backend.probe(timeout_s=timeout_s)
                    return Failure(f"the connection broke: {error}")
                await asyncio.sleep(0.2 * attempt)
            else:
                return [dict(zip(solutions.variables, row, strict=True)) for row in solutions.rows]
        raise AssertionError("the last attempt returns or raises")

    async def _each(self, phase: str, items: Iterable[Item], work: Callable[[Item], Awaitable[None]]) -> None:
        """Do *work* on all *items*, as many at once as the settings allow."""
        parts = list(items)
        rest, done = iter(parts), 0
        self._progress(phase, 0, len(parts))

        async def worker() -> None:
            nonlocal done
            for item in rest:
                await work(item)
                done += 1
                self._progress(phase, done, len(parts))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._settings.concurrency, len(parts))):
                    group.create_task(worker())
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None

    # -- classes, properties, kinds

    async def _list_classes(self) -> None:
        rows = await self._ask(chunks.classes(self._settings.class_predicate))
        if isinstance(rows, Failure):
            self._builder.give_up(None, None, f"the classes could not be listed: {rows.reason}")
            return
        counts = {c.value: number(row["n"]) for row in rows if isinstance(c := row["c"], Iri)}
        for class_ in sorted(counts, key=lambda c: (-counts[c], c)):
            if self._is_writable(class_):
                self._instances[class_] = counts[class_]
            else:
                self._builder.give_up(class_, None, "its IRI cannot be written in a query")
                self._multi_typed.add(class_)

    async def _list_properties(self) -> None:
        rows = await self._ask(chunks.properties())
        if isinstance(rows, Failure):
            rows = await self._ask(chunks.property_names())
        if isinstance(rows, Failure):
            self._builder.give_up(None, None, f"the properties could not be listed: {rows.reason}")
            return
        self._totals = {text(row["p"]): number(row["n"]) if "n" in row else None for row in rows}
        excluded = {p for p in self._totals if p.startswith(tuple(self._settings.excluded_namespaces))}
        unwritable = {p for p in self._totals if not self._is_writable(p)}
        for p in sorted(excluded | unwritable):
            reason = "excluded by the configuration" if p in excluded else "its IRI cannot be written in a query"
            self._builder.give_up(None, p, reason)
        self._excluded = frozenset(excluded | unwritable)

    @staticmethod
    def _is_writable(iri: str) -> bool:
        try:
            chunks.iri(iri)
        except ValueError:
            return False
        return True

    async def _find_kinds(self) -> None:
        kinds: dict[Kind, int] = {}
        can_list = True

        async def read(class_: str) -> None:
            rows = await self._ask(chunks.co_classes(self._settings.class_predicate, class_))
            if not isinstance(rows, Failure) and all(text(row["c"]) == class_ for row in rows):
                kinds[Kind(frozenset([class_]))] = self._instances[class_]
                return
            # Not known is treated as multi-typed: dearer to read, never wrong.
            self._multi_typed.add(class_)
            nonlocal can_list
            if not can_list:
                return
            # One kind comes in as many solutions as its classes have orders; a store uses few of them.
            most = _ORDERS * self._kind_cap
            rows = await self._ask(chunks.kinds_of(self._settings.class_predicate, class_), limit_rows=most)
            if isinstance(rows, Failure):
                can_list = False
                return
            counted: dict[Kind, int] = {}
            for row in rows:
                kind = kind_of(text(row["k"]))
                counted[kind] = counted.get(kind, 0) + number(row["n"])
            kinds.update(counted)
            can_list = len(kinds) <= self._kind_cap

        await self._each("kinds", self._instances, read)
        if not can_list or len(kinds) > self._kind_cap:
            self._builder.are_kinds_exact = False
            kinds = {Kind(frozenset([c])): n for c, n in self._instances.items()}
        for kind, n in kinds.items():
            self._builder.set_instances(kind, n)

    # -- cells

    async def _read_class(self, class_: str) -> None:
        subjects = self._subjects(class_)
        found = Distribution()
        failed = await self._fill(found, subjects, None)
        if failed is None:
            self._builder.add(found.without(self._excluded), class_)
            return
        names = await self._ask(chunks.property_names(subjects))
        properties = self._totals if isinstance(names, Failure) else sorted(text(row["p"]) for row in names)
        for p in properties:
            if p in self._excluded:
                continue
            part = Distribution()
            if (failed := await self._fill(part, subjects, p)) is None:
                self._builder.add(part, class_)
            else:
                self._builder.give_up(class_, p, failed.reason)

    def _subjects(self, class_: str | None) -> Subjects:
        with_kinds = self._builder.are_kinds_exact and class_ in self._multi_typed
        return Subjects(self._settings.class_predicate, class_, with_kinds)

    async def _fill(self, found: Distribution, subjects: Subjects, property_: str | None) -> Failure | None:
        """Read one chunk into *found*; a Failure leaves *found* unusable."""
        subject = UNTYPED if subjects.class_ is None else Kind(frozenset([subjects.class_]))
        rows = await self._ask(chunks.shapes(subjects, property_))
        if isinstance(rows, Failure):
            return rows
        found.add_shapes(rows, subject, property_)
        if not found.nodes:
            return None
        rows = await self._ask(chunks.object_classes(subjects, property_))
        if isinstance(rows, Failure):
            return rows
        are_multi_typed = any(text(row["j"]) in self._multi_typed for row in rows)
        if are_multi_typed and self._builder.are_kinds_exact:
            rows = await self._ask(chunks.object_kinds(subjects, property_))
        elif are_multi_typed:
            typed = await self._ask(chunks.typed_objects(subjects, property_))
            if isinstance(typed, Failure):
                return typed
            found.add_typed(typed, subject, property_)
        if isinstance(rows, Failure):
            return rows
        found.add_objects(rows, subject, property_)
        return None

    async def _read_untyped(self, property_: str) -> None:
        """Read the triples of *property_* whose subject has no class, if there can be any; compare with the total."""
        total = self._totals.get(property_)
        known = self._builder.typed_triples(property_)
        can_subtract = (
            self._builder.are_kinds_exact
            and total is not None
            and not any(chunk.property in (None, property_) for chunk in self._builder.incomplete)
        )
        if can_subtract and total == known:
            return
        found = Distribution()
        if (failed := await self._fill(found, self._subjects(None), property_)) is not None:
            self._builder.give_up(None, property_, failed.reason)
            return
        self._builder.add(found, None)
        seen = known + sum(found.triples().values())
        if can_subtract and seen != total:
            self._builder.give_up(None, property_, f"{total} triples were counted but {seen} enumerated")

    async def _read_multiplicity(self, property_: str) -> None:
        total = self._totals.get(property_)
        if total is None or total > MULTIPLICITY_MOST:
            return
        most = []
        for side in ("subject", "object"):
            rows = await self._ask(chunks.multiplicity(property_, of="subject" if side == "subject" else "object"))
            if isinstance(rows, Failure) or not rows:
                return
            most.append(number(rows[0]["n"]))
        self._builder.set_multiplicity(property_, objects=most[0], subjects=most[1])

    # -- vocabulary

    async def _read_vocabulary(self) -> None:
        """Read names, descriptions and hierarchy; a query that fails here costs a hint and is passed over."""

        async def read_declared(class_: str) -> None:
            rows = await self._ask(chunks.declared(class_, limit=VOCABULARY_MOST))
            if not isinstance(rows, Failure):
                self._vocabulary.add_declared(class_, rows)

        async def read_relation(relation: str) -> None:
            rows = await self._ask(chunks.statements(relation, limit=VOCABULARY_MOST))
            if not isinstance(rows, Failure):
                self._vocabulary.add_relation(relation, rows)

        await self._each("declarations", (*CLASS_CLASSES, *PROPERTY_CLASSES), read_declared)
        await self._each("hierarchy", [r for r in RELATIONS if r in self._totals], read_relation)
        declared = self._vocabulary.declared_classes() | self._vocabulary.declared_properties()
        terms = sorted(t for t in declared.union(self._instances, self._totals) if self._is_writable(t))
        described = [p for p in (*LABELS, *COMMENTS) if p in self._totals]
        parts = [(p, terms[i : i + TERMS_AT_ONCE]) for p in described for i in range(0, len(terms), TERMS_AT_ONCE)]

        async def read_texts(part: tuple[str, Sequence[str]]) -> None:
            rows = await self._ask(chunks.statements_about(part[1], part[0]))
            if not isinstance(rows, Failure):
                self._vocabulary.add_texts(part[0], rows)

        await self._each("labels", parts, read_texts)

    # -- values

    async def _read_values(self, values: ValueIndexBuilder) -> None:
        pairs = self._builder.literal_cells()
        named: dict[str, float] = {}
        writing = asyncio.Lock()

        async def read_pair(pair: tuple[str | None, str]) -> None:
            class_, property_ = pair
            found, about = await self._values_of(class_, property_, pairs[pair])
            if class_ is not None and pairs[pair].keys() & {XSD_STRING, RDF_LANG_STRING}:
                # What was kept stands for the rest: a class with more values than the cap is not asked about in vain.
                total, seen = sum(pairs[pair].values()), sum(e.count for e in found)
                naming = total if property_ in LABELS else total * sum(e.subject is not None for e in found) / max(1, seen)
                named[class_] = max(named.get(class_, 0), naming)
            async with writing:
                await asyncio.to_thread(values.add, found)
                values.describe(class_, property_, about)

        async def read_names(class_: str) -> None:
            limit = min(NAMES_MOST, self._settings.values_per_property)
            rows = await self._ask(chunks.names(self._subjects(class_), LABELS, limit=limit))
            if not isinstance(rows, Failure):
                async with writing:
                    await asyncio.to_thread(values.add, named_by_iri(rows, class_))

        await self._each("values", pairs, read_pair)
        nameless = [
            c for c, n in self._instances.items() if named.get(c, 0) < _IDENTIFYING * n and not c.startswith((OWL, RDF, RDFS))
        ]
        await self._each("names", nameless, read_names)

    async def _values_of(
        self, class_: str | None, property_: str, datatypes: Mapping[str, int]
    ) -> tuple[list[ValueEntry], PairSummary]:
        """Read the literals of one pair; *datatypes*: how many triples of each there are."""
        cap = self._settings.values_per_property
        subjects = Subjects(self._settings.class_predicate, class_)
        rows = await self._ask(chunks.values(subjects, property_, limit=cap + 1, longest=LONGEST), limit_rows=cap + 1)
        found = [] if isinstance(rows, Failure) else await asyncio.to_thread(entries, rows, class_, property_)
        if sum(e.count for e in found) == sum(datatypes.values()) and len(found) <= cap:
            return found, describe(found, is_complete=True, distinct=len(found))
        counted = await self._ask(chunks.distinct_values(subjects, property_))
        distinct = None if isinstance(counted, Failure) or not counted else number(counted[0]["n"])
        low, high = await self._extremes(subjects, property_, datatypes.keys() & NUMBERS)
        earliest, latest = await self._extremes(subjects, property_, datatypes.keys() & TIMES)
        about = PairSummary(distinct, as_number(low), as_number(high), as_text(earliest), as_text(latest), is_complete=False)
        return found[:cap], about

    async def _extremes(self, subjects: Subjects, property_: str, datatypes: Iterable[str]) -> tuple[Any, Any]:
        wanted = sorted(datatypes)
        rows = await self._ask(chunks.extremes(subjects, property_, wanted)) if wanted else []
        return (None, None) if isinstance(rows, Failure) or not rows else (rows[0]["lo"], rows[0]["hi"])
