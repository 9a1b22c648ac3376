"""How the distiller asks: one query after another, answers complete or failed with a reason, at a gentle pace."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from proxy.backends.base import Backend, BackendRequest, Headers, Parameters, Solutions
from proxy.errors import BackendBusy, BackendGarbled, BackendRefused, BackendTimeout, BackendUnreachable
from proxy.index import chunks
from proxy.index.build import Row
from proxy.pipeline.journal import Journal
from proxy.query.operation import DatasetDescription, OperationKind, SparqlOperation

if TYPE_CHECKING:
    from proxy.config import Config

ROWS_MOST = 500_000
"""Solutions of one chunk query; a chunk with more is split."""
_ATTEMPTS = 3
_PAUSE_LEAST_S = 0.001

Progress = Callable[[str, int, int], None]
"""Called with (phase, parts done, parts in all)."""
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Failure:
    """A query that brought no complete answer, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Scope:
    """Which graphs the index is about.

    parameters: protocol parameters that choose them. dump: path of the graph store that gives them all; empty: by
    CONSTRUCT, for which Oxigraph keeps every triple in memory to send none twice. is_listed: all named graphs, merged by
    FROM, for a backend that has no parameter for it. covers_named_graphs: the default graph that is read so holds every
    triple of every graph. reads_each: each named graph is read alone too (``read_each``).
    """

    parameters: Parameters = ()
    dump: str = ""
    is_listed: bool = False
    covers_named_graphs: bool = False
    reads_each: bool = False


DEFAULT_SCOPE = Scope()


def scope_of(config: Config) -> Scope:
    """Which graphs are read, and how this backend is told.

    GraphDB and QLever take the union of all graphs for the default graph; Oxigraph has a parameter for it; of any other
    endpoint all graphs are named one by one.
    """
    graphs, kind = config.index.graphs, config.backend.kind
    reads_each = graphs == "each"
    if kind in ("graphdb", "qlever") and graphs != "named":
        return Scope(covers_named_graphs=True, reads_each=reads_each)
    if graphs == "default":
        return Scope(dump="/store?default" if kind == "oxigraph" else "")
    if kind == "oxigraph" and graphs != "named":
        return Scope((("union-default-graph", "true"),), covers_named_graphs=True, reads_each=reads_each)
    return Scope(is_listed=True, covers_named_graphs=True, reads_each=reads_each)


class Asker:
    """Runs the distiller's queries.

    Args:
        timeout_s: for one query.
        concurrency: queries at once. duty: share of the time, over 0 up to 1, in which one is running; the rest is pause.
        journal: answers of a build that was killed; it is asked first, and told every answer.
        headers: host and credential, for what goes through ``Backend.send``.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        timeout_s: float,
        concurrency: int = 1,
        duty: float = 1.0,
        progress: Progress = lambda phase, done, total: None,
        journal: Journal | None = None,
        parameters: Parameters = (),
        headers: Headers = (),
        dump: str = "",
    ) -> None:
        self._backend = backend
        self._timeout_s = timeout_s
        self._concurrency = concurrency
        self._duty = duty
        self._progress = progress
        self._journal = journal
        self._parameters = parameters
        self._headers = headers
        self._dump = dump
        self._from = ""
        self.queries = 0

    @property
    def backend_name(self) -> str:
        return self._backend.name

    def of_named_graphs(self) -> Asker:
        """The same, of named graphs only (``read_from``): without the parameters that choose others."""
        alone = copy(self)
        alone._parameters, alone._dump, alone._from, alone.queries = (), "", "", 0
        return alone

    def read_from(self, graphs: Iterable[str]) -> None:
        """From now on every query reads these graphs, merged (FROM)."""
        self._from = "".join(f"FROM {chunks.iri(g)} " for g in graphs)

    def _scoped(self, query: str) -> str:
        # The first brace opens the pattern of the whole query: nothing before it can hold one.
        return query.replace("{", self._from + "{", 1) if self._from else query

    async def ask(self, query: str, *, limit_rows: int = ROWS_MOST) -> list[Row] | Failure:
        """Run *query*; every way in which an answer can be missing becomes a Failure, but for a backend that is gone.

        A query that is too much for the backend is given up; a backend that answers nothing any more ends the build, which
        else would end with an index of nothing. Which of the two it is, the cheapest query of all tells.

        Raises:
            BackendError: the backend is gone, or does not answer that one either.
        """
        query = self._scoped(query)
        if self._journal is not None and (known := self._journal.get(query)) is not None:
            await asyncio.sleep(0)
            return _rows(known)
        for attempt in range(1, _ATTEMPTS + 1):
            self.queries += 1
            started = time.perf_counter()
            try:
                solutions = await self._select(query, limit_rows)
            except BackendTimeout:
                return await self._failure(f"no answer within {self._timeout_s:g} s")
            except BackendRefused as error:
                said = " ".join(error.body.split())[:200]
                return await self._failure(f"the backend refused with status {error.status}: {said}")
            except BackendGarbled as error:
                return await self._failure(f"the answer was not complete: {error}")
            except BackendBusy as error:
                if attempt == _ATTEMPTS:
                    return Failure("the backend was busy")
                await asyncio.sleep(error.retry_after_s)
            except BackendUnreachable as error:
                if attempt == _ATTEMPTS:
                    return await self._failure(f"the connection broke: {error}")
                await asyncio.sleep(0.2 * attempt)
            else:
                if self._journal is not None:
                    self._journal.put(query, solutions)
                return _rows(solutions)
            finally:
                await self._pause(time.perf_counter() - started)
        raise AssertionError("the last attempt returns or raises")

    async def _failure(self, reason: str) -> Failure:
        """Give a query up for *reason*, if the backend still answers others."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._backend.probe(timeout_s=self._timeout_s)
                break
            except (BackendRefused, BackendGarbled, BackendTimeout, BackendUnreachable):
                if attempt == _ATTEMPTS:
                    raise
                await asyncio.sleep(0.2 * attempt)
            except BackendBusy:
                break  # it works for others
        return Failure(reason)

    async def _select(self, query: str, limit_rows: int) -> Solutions:
        if self._parameters:
            return await self._backend.select(
                query, timeout_s=self._timeout_s, limit_rows=limit_rows, parameters=self._parameters
            )
        return await self._backend.select(query, timeout_s=self._timeout_s, limit_rows=limit_rows)

    async def _pause(self, busy_s: float) -> None:
        pause_s = busy_s * (1 - self._duty) / self._duty
        if pause_s > _PAUSE_LEAST_S:
            await asyncio.sleep(pause_s)

    async def each(self, phase: str, items: Iterable[Item], work: Callable[[Item], Awaitable[None]]) -> None:
        """Do *work* on all *items*, as many at once as *concurrency* allows."""
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
                for _ in range(min(self._concurrency, len(parts))):
                    group.create_task(worker())
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def stream(self) -> AsyncIterator[bytes]:
        """The whole graph as N-Triples, in pieces.

        Raises:
            BackendError: there is no complete answer, or another format comes.
        """
        query = f"CONSTRUCT {{ ?s ?p ?o }} {self._from}WHERE {{ ?s ?p ?o }}"
        self.queries += 1
        if self._dump:
            request = _dump(self._dump, self._headers)
        else:
            request = _download(query, self._backend.query_path, self._parameters, self._headers)
        response = await self._backend.send(request)
        try:
            content_type = next((v for n, v in response.headers if n == b"content-type"), b"")
            is_right = content_type.partition(b";")[0].strip().lower() in (b"application/n-triples", b"text/plain")
            if response.status != 200 or not is_right:
                found = f"{response.status} {content_type.decode('latin-1')}"
                raise BackendGarbled(f"no N-Triples, but {found}", backend=self._backend.name)
            async for piece in response.chunks():
                started = time.perf_counter()
                yield piece
                # The time that counting takes is time in which we keep others from this processor.
                await self._pause(time.perf_counter() - started)
        finally:
            await response.aclose()


def _rows(solutions: Solutions) -> list[Row]:
    return [dict(zip(solutions.variables, row, strict=True)) for row in solutions.rows]


_N_TRIPLES = "application/n-triples"


def _dump(target: str, own: Headers) -> BackendRequest:
    parameters = tuple(parse_qsl(urlsplit(target).query, keep_blank_values=True))
    operation = SparqlOperation(OperationKind.GRAPH_STORE, "", DatasetDescription(), parameters, _N_TRIPLES)
    headers = [*own, (b"accept", _N_TRIPLES.encode("ascii")), (b"user-agent", b"sparlance")]
    return BackendRequest("GET", target.encode("ascii"), headers, b"", operation)


def _download(query: str, path: str, parameters: Parameters, own: Headers) -> BackendRequest:
    operation = SparqlOperation(OperationKind.QUERY, query, DatasetDescription(), tuple(parameters), _N_TRIPLES)
    target = path + ("?" + urlencode(parameters, quote_via=quote) if parameters else "")
    headers = [
        *own,
        (b"accept", _N_TRIPLES.encode("ascii")),
        (b"content-type", b"application/sparql-query"),
        (b"user-agent", b"sparlance"),
    ]
    return BackendRequest("POST", target.encode("ascii"), headers, query.encode("utf-8"), operation)
