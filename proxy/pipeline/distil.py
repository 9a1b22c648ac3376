"""Read a whole graph through its backend, chunk by chunk, into the indexes that validation and questions rest on.

Exhaustive, never sampled: every chunk ends complete, or is written down as incomplete with its reason, and nothing is proved
there. A chunk that is too heavy is split along the other dimension, (class) into (class, property), before it is given up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from proxy.backends.base import Backend, Headers
from proxy.errors import BackendGarbled
from proxy.index import chunks
from proxy.index.build import KIND_CAP, Distribution, IndexBuilder, Row, kind_of, number, text
from proxy.index.chunks import Subjects
from proxy.index.gather import IDENTIFYING, NAMES_MOST
from proxy.index.literals import NUMBERS, TIMES, as_number, as_text, describe, entries, named_by_iri
from proxy.index.summary import summary
from proxy.index.support import UNTYPED, Kind, SupportIndex, Vocabulary
from proxy.index.values import LONGEST, PairSummary, ValueEntry, ValueIndex, ValueIndexBuilder
from proxy.index.vocabulary import (
    CLASS_CLASSES,
    COMMENTS,
    LABELS,
    PROPERTY_CLASSES,
    RELATIONS,
    VocabularyBuilder,
)
from proxy.pipeline.asking import DEFAULT_SCOPE, Asker, Failure, Progress, Scope
from proxy.pipeline.class_predicate import AUTO, ReadSettings, choose
from proxy.pipeline.download import Tallied, download
from proxy.pipeline.download_parts import Spooled, download_in_parts
from proxy.pipeline.journal import Journal
from proxy.pipeline.nodes import read_features, read_more_nodes, read_nodes
from proxy.query.term import OWL, RDF, RDF_LANG_STRING, RDFS, XSD_STRING, Iri

MULTIPLICITY_MOST = 2_000_000
"""Triples; for a property with more, how often it repeats is not asked."""
VOCABULARY_MOST = 50_000
"""Solutions of one vocabulary query. Hints only, so cutting them off costs no proof."""
TERMS_AT_ONCE = 200
_ORDERS = 8

Method = Literal["auto", "ask", "download"]
"""ask: chunk by chunk. download: every triple once, counted here. auto: download what is small enough (``_way``)."""
GRAPHS_MOST = 100
"""Named graphs that are read each for itself; every triple is read once more for it."""
DOWNLOAD_MOST = 1_500_000
"""Triples held at a time; downloading was faster at any measured size, but takes up to 650 bytes for each (docs/index.md)."""
IN_PARTS_MOST = 20_000_000
"""Triples that ``auto`` downloads a few properties at a time, if no property has more than DOWNLOAD_MOST: 2 GB of disk."""


class IndexSettings(Protocol):
    """The part of the configuration that matters here (``[index]``)."""

    @property
    def class_predicate(self) -> str:
        """An IRI, or ``auto``: found by what the graph does with it."""
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
    """A graph's two indexes, and what making them cost: *queries* sent, *elapsed_s* seconds. Close *values* after use.

    method: how the graph was read. replayed: answers taken from the journal of a build that was killed.
    predicate_reason: why the index's class predicate is that one, as a clause.
    """

    index: SupportIndex
    values: ValueIndex
    queries: int
    elapsed_s: float
    method: str = "ask"
    replayed: int = 0
    predicate_reason: str = ""

    def summary(self) -> dict[str, Any]:
        found = summary(self.index, self.values, queries=self.queries, elapsed_s=self.elapsed_s)
        return found | {"class_predicate_reason": self.predicate_reason}


async def distil(
    backend: Backend,
    settings: IndexSettings,
    *,
    progress: Progress = lambda phase, done, total: None,
    values_path: Path | None = None,
    kind_cap: int = KIND_CAP,
    epoch: int = 0,
    method: Method = "ask",
    scope: Scope = DEFAULT_SCOPE,
    duty: float = 1.0,
    journal: Journal | None = None,
    headers: Headers = (),
) -> Distilled:
    """Enumerate the graph behind *backend*, as *scope* shows it.

    Args:
        method, scope, duty, journal, headers: as in ``Method``, ``Scope`` and ``Asker``.
        values_path: file for the value index, to be created; None: in memory, 200 to 300 bytes for each value.
        kind_cap: with more kinds than this, or where they cannot be listed, single classes stand in for them.
        epoch: handed on to the index.
    Raises:
        BackendError: the backend is gone, or answers nothing any more, and did not come back while we waited a little.
    """
    asker = Asker(
        backend,
        timeout_s=settings.chunk_timeout_s,
        concurrency=settings.concurrency,
        duty=duty,
        progress=progress,
        journal=journal,
        parameters=scope.parameters,
        headers=headers,
        dump=scope.dump,
    )
    folder = None if values_path is None else values_path.parent
    run = Reading(asker, settings, progress, kind_cap, method, scope, folder=folder)
    values = ValueIndexBuilder(values_path)
    try:
        found = await run.distil(values, epoch)
        if scope.reads_each:
            started = time.perf_counter()
            alone = asker.of_named_graphs()
            graphs = await read_each(alone, found.index, settings, progress, kind_cap, method)
            found = replace(
                found,
                index=found.index.with_graphs(graphs),
                queries=found.queries + alone.queries,
                elapsed_s=found.elapsed_s + time.perf_counter() - started,
            )
        return found if journal is None else replace(found, replayed=journal.replayed)
    except BaseException:
        values.close()
        raise


async def read_each(
    asker: Asker, index: SupportIndex, settings: IndexSettings, progress: Progress, kind_cap: int, method: Method
) -> dict[str, SupportIndex]:
    """S of each named graph alone, the largest GRAPHS_MOST of them; a graph that is left out is covered by the union only."""
    rows = await asker.ask(chunks.graph_sizes())
    if isinstance(rows, Failure):
        return {}
    sizes = {g.value: number(row["n"]) for row in rows if isinstance(g := row["g"], Iri) and chunks.is_writable(g.value)}
    narrow = ReadSettings(
        index.class_predicate, settings.excluded_namespaces, settings.chunk_timeout_s, settings.concurrency, 0
    )
    graphs: dict[str, SupportIndex] = {}
    for graph in sorted(sizes, key=lambda g: (-sizes[g], g))[:GRAPHS_MOST]:
        progress("named graphs", len(graphs), min(len(sizes), GRAPHS_MOST))
        asker.read_from([graph])
        values = ValueIndexBuilder()
        try:
            reading = Reading(asker, narrow, lambda *_: None, kind_cap, method, has_vocabulary=False)
            made = await reading.distil(values, index.epoch)
            graphs[graph] = made.index
        except BackendGarbled:
            continue  # it answers nothing about this one
        finally:
            values.close()
    return graphs


class Reading:
    """One build: what has been found so far, and the phases in their order."""

    def __init__(
        self,
        asker: Asker,
        settings: IndexSettings,
        progress: Progress,
        kind_cap: int = KIND_CAP,
        method: Method = "ask",
        scope: Scope = DEFAULT_SCOPE,
        *,
        has_vocabulary: bool = True,
        folder: Path | None = None,
    ) -> None:
        self._has_vocabulary = has_vocabulary
        self._folder = folder
        self._asker = asker
        self._settings = settings
        self._progress = progress
        self._kind_cap = kind_cap
        self._method = method
        self._scope = scope
        self._builder = IndexBuilder(class_predicate=settings.class_predicate)
        self._predicate_reason = "as configured"
        self._instances: dict[str, int] = {}
        self._totals: dict[str, int | None] = {}
        self._excluded: frozenset[str] = frozenset()
        self._multi_typed: set[str] = set()
        self._co_classes: dict[str, frozenset[str]] = {}
        self._vocabulary = VocabularyBuilder()

    async def distil(self, values: ValueIndexBuilder, epoch: int) -> Distilled:
        started, built_at = time.perf_counter(), time.time()
        if self._scope.is_listed:
            await self._list_graphs()
        are_listed = await self._list_properties()
        if not await self._list_classes() and not are_listed:
            reasons = "; ".join(chunk.reason for chunk in self._builder.incomplete)
            raise BackendGarbled(f"there is nothing to build an index of: {reasons}", backend=self._asker.backend_name)
        tallied = await self._download()
        if tallied is None:
            await self._enumerate()
            if self._has_vocabulary:
                await self._read_vocabulary()
            if self._settings.values_per_property:
                await self._read_values(values)
        else:
            self._progress("counting", 0, 0)
            count = (self._builder, self._vocabulary, values, self._excluded)
            await asyncio.to_thread(tallied.hand_over, *count, kind_cap=self._kind_cap)
        self._progress("writing", 0, 0)
        made = await asyncio.to_thread(values.finish)
        index = self._builder.finish(
            vocabulary=self._vocabulary.finish(),
            covers_named_graphs=self._scope.covers_named_graphs,
            built_at=built_at,
            epoch=epoch,
        )
        how = "ask" if tallied is None else tallied.how
        return Distilled(
            index, made, self._asker.queries, time.perf_counter() - started, how, predicate_reason=self._predicate_reason
        )

    async def _enumerate(self) -> None:
        await self._find_kinds()
        await self._asker.each("classes", self._instances, self._read_class)
        # A property that the list of step one did not have (a write, a list cut short) is read without a total to compare.
        unlisted = sorted(self._builder.properties() - self._totals.keys())
        properties = [p for p in (*self._totals, *unlisted) if p not in self._excluded]
        await self._asker.each("nodes without a class", properties, self._read_untyped)
        await self._asker.each("multiplicity", properties, self._read_multiplicity)
        await read_nodes(self._asker, self._builder, self._instances)
        if not self._builder.are_kinds_exact:
            await read_features(self._asker, self._builder, self._co_classes, properties)

    async def _download(self) -> Tallied | Spooled | None:
        """Fetch every triple, if that is the way to go; None: it is not, or what came was not what was counted before."""
        totals = {p: n for p, n in self._totals.items() if n is not None}
        is_counted = len(totals) == len(self._totals) and not any(
            c.subject_class is None and c.property is None for c in self._builder.incomplete
        )
        way = self._way(totals) if is_counted else "ask"
        found: Tallied | Spooled | None = None
        if way == "whole":
            found = await download(self._asker, self._settings, self._progress, sum(totals.values()))
        elif way == "in parts":
            found = await download_in_parts(self._asker, self._settings, self._progress, totals, self._folder)
        return found if found is not None and found.agrees_with(self._totals, self._instances) else None

    def _way(self, totals: Mapping[str, int]) -> Literal["ask", "whole", "in parts"]:
        """How to read a graph of so many triples of each property."""
        total, most = sum(totals.values()), max(totals.values(), default=0)
        if self._method == "ask":
            return "ask"
        if total <= DOWNLOAD_MOST:
            return "whole"
        # Elsewhere than in a dump, a server may hold all it sends (``Scope``); one property is held here.
        is_fit = bool(self._scope.dump) and total <= IN_PARTS_MOST and most <= DOWNLOAD_MOST
        return "in parts" if is_fit or self._method == "download" else "ask"

    # -- a part of it (pipeline/partial.py)

    def begin_with(self, index: SupportIndex, touched: Collection[str]) -> None:
        """Take everything of *index* but what it has of *touched* properties."""
        self._builder.begin_with(index, touched)
        self._instances = dict(index.class_instances)
        several = [k.classes for k in index.kinds if len(k.classes) > 1]
        self._multi_typed = set().union(*several) if index.are_kinds_exact else set(self._instances)

    async def read_properties(self, totals: Mapping[str, int], pairs: Iterable[tuple[str, str]]) -> None:
        """Read anew the properties in *totals* (with their triples); *pairs*: (class, property) that have any."""
        self._totals = dict(totals)

        async def read_pair(pair: tuple[str, str]) -> None:
            class_, property_ = pair
            part = Distribution()
            if (failed := await self._fill(part, self._subjects(class_), property_)) is None:
                self._builder.add(part, class_)
            else:
                self._builder.give_up(class_, property_, failed.reason)

        await self._asker.each("classes", pairs, read_pair)
        await self._asker.each("nodes without a class", totals, self._read_untyped)
        await self._asker.each("multiplicity", totals, self._read_multiplicity)
        if self._builder.has_nodes and not await read_more_nodes(self._asker, self._builder, totals):
            self._builder.drop_nodes()

    async def read_vocabulary(self, properties: Iterable[str]) -> Vocabulary:
        """Read names and hierarchy; *properties*: all that the graph has."""
        self._totals = {p: self._totals.get(p) for p in properties}
        await self._read_vocabulary()
        return self._vocabulary.finish()

    async def read_values(self, values: ValueIndexBuilder, properties: Collection[str]) -> None:
        """Read the literals of *properties*."""
        await self._read_values(values, properties)

    def finish(self, index: SupportIndex, vocabulary: Vocabulary, *, built_at: float, epoch: int) -> SupportIndex:
        """The new index in place of *index*."""
        covers = index.covers_named_graphs
        return self._builder.finish(vocabulary=vocabulary, covers_named_graphs=covers, built_at=built_at, epoch=epoch)

    # -- graphs

    async def _list_graphs(self) -> None:
        """Have every later query read all named graphs, merged; note it if the default graph holds more."""
        rows = await self._asker.ask(chunks.graphs())
        beside = await self._asker.ask(chunks.beside_named_graphs())
        if isinstance(rows, Failure) or isinstance(beside, Failure):
            reason = next(r.reason for r in (rows, beside) if isinstance(r, Failure))
            self._builder.give_up(None, None, f"the graphs could not be listed: {reason}")
            return
        if beside:
            self._builder.give_up(None, None, "the default graph holds triples that are in no named graph")
        if not (names := [g.value for row in rows if isinstance(g := row["g"], Iri) and chunks.is_writable(g.value)]):
            return
        self._asker.read_from(names)

    # -- classes, properties, kinds

    async def _list_classes(self) -> bool:
        if self._settings.class_predicate == AUTO:
            rows = await self._choose_class_predicate()
        else:
            rows = await self._asker.ask(chunks.classes(self._settings.class_predicate))
        if isinstance(rows, Failure):
            self._builder.give_up(None, None, f"the classes could not be listed: {rows.reason}")
            return False
        counts = {c.value: number(row["n"]) for row in rows if isinstance(c := row["c"], Iri)}
        for class_ in sorted(counts, key=lambda c: (-counts[c], c)):
            if chunks.is_writable(class_):
                self._instances[class_] = counts[class_]
            else:
                self._builder.give_up(class_, None, "its IRI cannot be written in a query")
                self._multi_typed.add(class_)
        return True

    async def _choose_class_predicate(self) -> list[Row] | Failure:
        old = self._settings
        chosen = await choose(self._asker, self._totals, self._excluded)
        self._builder.class_predicate = chosen.predicate
        self._predicate_reason = chosen.reason
        self._settings = ReadSettings(
            chosen.predicate, old.excluded_namespaces, old.chunk_timeout_s, old.concurrency, old.values_per_property
        )
        return chosen.rows

    async def _list_properties(self) -> bool:
        rows = await self._asker.ask(chunks.properties())
        if isinstance(rows, Failure):
            rows = await self._asker.ask(chunks.property_names())
        if isinstance(rows, Failure):
            self._builder.give_up(None, None, f"the properties could not be listed: {rows.reason}")
            return False
        self._totals = {text(row["p"]): number(row["n"]) if "n" in row else None for row in rows}
        excluded = {p for p in self._totals if p.startswith(tuple(self._settings.excluded_namespaces))}
        unwritable = {p for p in self._totals if not chunks.is_writable(p)}
        for p in sorted(excluded | unwritable):
            reason = "excluded by the configuration" if p in excluded else "its IRI cannot be written in a query"
            self._builder.give_up(None, p, reason)
        self._excluded = frozenset(excluded | unwritable)
        return True

    async def _find_kinds(self) -> None:
        kinds: dict[Kind, int] = {}
        can_list = True

        async def read(class_: str) -> None:
            rows = await self._asker.ask(chunks.co_classes(self._settings.class_predicate, class_))
            if not isinstance(rows, Failure):
                self._co_classes[class_] = frozenset(text(row["c"]) for row in rows)
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
            rows = await self._asker.ask(chunks.kinds_of(self._settings.class_predicate, class_), limit_rows=most)
            if isinstance(rows, Failure):
                can_list = False
                return
            counted: dict[Kind, int] = {}
            for row in rows:
                kind = kind_of(text(row["k"]))
                counted[kind] = counted.get(kind, 0) + number(row["n"])
            kinds.update(counted)
            can_list = len(kinds) <= self._kind_cap

        await self._asker.each("kinds", self._instances, read)
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
        names = await self._asker.ask(chunks.property_names(subjects))
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
        rows = await self._asker.ask(chunks.shapes(subjects, property_))
        if isinstance(rows, Failure):
            return rows
        found.add_shapes(rows, subject, property_)
        if not found.nodes:
            return None
        rows = await self._asker.ask(chunks.object_classes(subjects, property_))
        if isinstance(rows, Failure):
            return rows
        are_multi_typed = any(text(row["j"]) in self._multi_typed for row in rows)
        if are_multi_typed and self._builder.are_kinds_exact:
            rows = await self._asker.ask(chunks.object_kinds(subjects, property_))
        elif are_multi_typed:
            typed = await self._asker.ask(chunks.typed_objects(subjects, property_))
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
            rows = await self._asker.ask(chunks.multiplicity(property_, of="subject" if side == "subject" else "object"))
            if isinstance(rows, Failure) or not rows:
                return
            most.append(number(rows[0]["n"]))
        self._builder.set_multiplicity(property_, objects=most[0], subjects=most[1])

    # -- vocabulary

    async def _read_vocabulary(self) -> None:
        """Read names, descriptions and hierarchy; a query that fails here costs a hint and is passed over."""

        async def read_declared(class_: str) -> None:
            rows = await self._asker.ask(chunks.declared(class_, limit=VOCABULARY_MOST))
            if not isinstance(rows, Failure):
                self._vocabulary.add_declared(class_, rows)

        async def read_relation(relation: str) -> None:
            rows = await self._asker.ask(chunks.statements(relation, limit=VOCABULARY_MOST))
            if not isinstance(rows, Failure):
                self._vocabulary.add_relation(relation, rows)

        await self._asker.each("declarations", (*CLASS_CLASSES, *PROPERTY_CLASSES), read_declared)
        await self._asker.each("hierarchy", [r for r in RELATIONS if r in self._totals], read_relation)
        declared = self._vocabulary.declared_classes() | self._vocabulary.declared_properties()
        terms = sorted(t for t in declared.union(self._instances, self._totals) if chunks.is_writable(t))
        described = [p for p in (*LABELS, *COMMENTS) if p in self._totals]
        parts = [(p, terms[i : i + TERMS_AT_ONCE]) for p in described for i in range(0, len(terms), TERMS_AT_ONCE)]

        async def read_texts(part: tuple[str, Sequence[str]]) -> None:
            rows = await self._asker.ask(chunks.statements_about(part[1], part[0]))
            if not isinstance(rows, Failure):
                self._vocabulary.add_texts(part[0], rows)

        await self._asker.each("labels", parts, read_texts)

    # -- values

    async def _read_values(self, values: ValueIndexBuilder, only: Collection[str] | None = None) -> None:
        """Read the literals of all pairs, and what names nodes that have none; or of some properties."""
        pairs = {pair: n for pair, n in self._builder.literal_cells().items() if only is None or pair[1] in only}
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
            rows = await self._asker.ask(chunks.names(self._subjects(class_), LABELS, limit=limit))
            if not isinstance(rows, Failure):
                async with writing:
                    await asyncio.to_thread(values.add, named_by_iri(rows, class_))

        await self._asker.each("values", pairs, read_pair)
        if only is not None:
            return
        nameless = [
            c for c, n in self._instances.items() if named.get(c, 0) < IDENTIFYING * n and not c.startswith((OWL, RDF, RDFS))
        ]
        await self._asker.each("names", nameless, read_names)

    async def _values_of(
        self, class_: str | None, property_: str, datatypes: Mapping[str, int]
    ) -> tuple[list[ValueEntry], PairSummary]:
        """Read the literals of one pair; *datatypes*: how many triples of each there are."""
        cap = self._settings.values_per_property
        subjects = Subjects(self._settings.class_predicate, class_)
        rows = await self._asker.ask(chunks.values(subjects, property_, limit=cap + 1, longest=LONGEST), limit_rows=cap + 1)
        found = [] if isinstance(rows, Failure) else await asyncio.to_thread(entries, rows, class_, property_)
        if sum(e.count for e in found) == sum(datatypes.values()) and len(found) <= cap:
            return found, describe(found, is_complete=True, distinct=len(found))
        counted = await self._asker.ask(chunks.distinct_values(subjects, property_))
        distinct = None if isinstance(counted, Failure) or not counted else number(counted[0]["n"])
        low, high = await self._extremes(subjects, property_, datatypes.keys() & NUMBERS)
        earliest, latest = await self._extremes(subjects, property_, datatypes.keys() & TIMES)
        about = PairSummary(distinct, as_number(low), as_number(high), as_text(earliest), as_text(latest), is_complete=False)
        return found[:cap], about

    async def _extremes(self, subjects: Subjects, property_: str, datatypes: Iterable[str]) -> tuple[Any, Any]:
        wanted = sorted(datatypes)
        rows = await self._asker.ask(chunks.extremes(subjects, property_, wanted)) if wanted else []
        return (None, None) if isinstance(rows, Failure) or not rows else (rows[0]["lo"], rows[0]["hi"])
