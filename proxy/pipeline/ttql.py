"""Keep the TTQL document of a dataset: harvested when somebody asks for it, kept until the index is a new one.

Where the index has a file, the document has one beside it (``ttql_file``), for the next start and for other workers.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.errors import BackendGarbled, MalformedRequest, ModelError
from proxy.index import chunks
from proxy.index.support import SupportIndex
from proxy.index.ttql import Document
from proxy.index.ttql_select import above, cut, fragments, only, prune
from proxy.pipeline import ttql_file
from proxy.pipeline.asking import Asker, Failure, Progress, scope_of
from proxy.pipeline.harvest import Harvested, HarvestSettings, harvest
from proxy.query.term import Iri

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.config import IndexSettings
    from proxy.pipeline.dataset import Dataset

DEPTH_MOST = 8
"""Edges on a path; the number of paths grows with every one."""


def harvest_settings(settings: IndexSettings, *, depth: int | None = None, sample: int | None = None) -> HarvestSettings:
    """What ``[index]`` says about TTQL, where *depth* and *sample* do not say otherwise."""
    return HarvestSettings(
        depth=settings.ttql_depth if depth is None else depth,
        sample=settings.ttql_sample if sample is None else sample,
        queries_most=settings.ttql_queries,
        excluded_namespaces=tuple(settings.excluded_namespaces),
    )


async def asker(dataset: Dataset, progress: Progress, *, duty: float) -> Asker:
    """One that reads the graphs that the index was built from.

    Raises:
        BackendGarbled: the graphs could not be listed. BackendUnreachable
    """
    settings, scope = dataset.settings.index, scope_of(dataset.settings)
    made = Asker(
        dataset.reading,
        timeout_s=settings.chunk_timeout_s,
        concurrency=settings.concurrency,
        duty=duty,
        progress=progress,
        parameters=scope.parameters,
    )
    if scope.is_listed:
        rows = await made.ask(chunks.graphs())
        if isinstance(rows, Failure):
            name = dataset.backend.name
            raise BackendGarbled(f"the graphs could not be listed: {rows.reason}", backend=name)
        made.read_from(g.value for row in rows if isinstance(g := row["g"], Iri) and chunks.is_writable(g.value))
    return made


class TtqlKeeper:
    """The document of one dataset. Safe to use from many tasks of one event loop; they share one harvest."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._harvested: Harvested | None = None
        self._of: SupportIndex | None = None
        self._task: asyncio.Task[None] | None = None
        self.progress = ""

    async def document(self, *, wait_s: float) -> Harvested | None:
        """The document, or None if it is not there within *wait_s* seconds. While a new one is made the old one serves.

        Raises:
            BackendUnreachable: the backend is gone.
        """
        index = self._dataset.index
        if index is None:
            return None
        if self._of is not index and self._task is None:
            self._task = asyncio.create_task(self._harvest(index), name=f"TTQL of {self._dataset.name}")
            # Where nobody waits, because an older document serves, the next request tries again.
            self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        if self._harvested is None and (task := self._task) is not None:
            done, _ = await asyncio.wait([task], timeout=wait_s)
            if done:
                task.result()
        return self._harvested

    async def _harvest(self, index: SupportIndex) -> None:
        settings = self._dataset.settings.index

        def told(phase: str, done: int, total: int) -> None:
            self.progress = f"{phase} {done}/{total}"

        wanted, upkeep = harvest_settings(settings), self._dataset.upkeep
        path = None if upkeep is None or upkeep.path is None else upkeep.path.with_suffix(".ttql")
        key = "" if upkeep is None else ttql_file.key_of(index, wanted, fingerprint=upkeep.fingerprint)
        try:
            found = None if path is None else await asyncio.to_thread(ttql_file.read, path, key)
            if found is None:
                asking = await asker(self._dataset, told, duty=settings.duty)
                found = await harvest(asking, index, wanted)
                if path is not None and upkeep is not None:
                    try:
                        await asyncio.to_thread(ttql_file.write, path, key, found)
                    except OSError as error:
                        upkeep.note_unwritable(error)
            self._harvested, self._of = found, index
        finally:
            self._task = None

    async def aclose(self) -> None:
        """Stop harvesting."""
        if (task := self._task) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def select(
    document: Document,
    *,
    classes: Sequence[str] = (),
    properties: Sequence[str] = (),
    depth: int | None = None,
    floor: float | None = None,
    budget_tokens: int | None = None,
    budget_lines: int | None = None,
) -> Document:
    """Choose from *document*; with *properties*, the slice that connects them with *classes* (``fragments``).

    Raises:
        MalformedRequest: a class or property that the document does not have.
    """
    chosen = [_known(document, c, {p.class_ for p in document.patterns if p.class_ is not None}) for c in classes]
    wanted = [_known(document, p, _properties(document)) for p in properties]
    if depth is not None:
        document = cut(document, depth)
    if floor is not None:
        document = above(document, floor)
    if wanted:
        return fragments(document, chosen, wanted, budget_tokens=budget_tokens)
    if chosen:
        document = only(document, chosen)
    if budget_tokens is None and budget_lines is None:
        return document
    return prune(document, budget_tokens=budget_tokens, budget_lines=budget_lines)


async def describe(
    dataset: Dataset,
    classes: Sequence[str],
    *,
    progress: Progress,
    depth: int | None = None,
    sample: int | None = None,
    floor: float | None = None,
    budget_tokens: int | None = None,
    budget_lines: int | None = None,
) -> Document:
    """Harvest a document of *classes* (none: of all) at once, without keeping it.

    Raises:
        MalformedRequest: a class that the index does not have, or a depth over DEPTH_MOST. BackendUnreachable
    """
    index, settings = dataset.index, dataset.settings.index
    if index is None:
        raise ModelError("there is no index")
    if depth is not None and depth > DEPTH_MOST:
        raise MalformedRequest(f"the depth is at most {DEPTH_MOST}")
    names = {c.removeprefix("<").removesuffix(">") for c in classes}
    if unknown := sorted(names - index.class_instances.keys()):
        raise MalformedRequest(f"the graph has no instances of {', '.join(unknown)}")
    harvested = await harvest(
        await asker(dataset, progress, duty=1.0),
        index,
        harvest_settings(settings, depth=depth, sample=sample),
        classes=names or None,
    )
    return select(harvested.document, floor=floor, budget_tokens=budget_tokens, budget_lines=budget_lines)


def _properties(document: Document) -> set[str]:
    return {edge.property for pattern in document.patterns for edge in pattern.edges}


def _known(document: Document, term: str, known: set[str]) -> str:
    """*term* as an IRI: in full, in angle brackets or not, or prefixed as the document has it."""
    iri = term.removeprefix("<").removesuffix(">")
    prefix, colon, local = term.partition(":")
    if iri not in known and colon and prefix in document.prefixes:
        iri = document.prefixes[prefix] + local
    if iri not in known:
        raise MalformedRequest(f"the graph shows nothing of {term}; the document names what there is")
    return iri
