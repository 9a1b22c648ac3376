"""A store as a backend."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self, TypeVar, cast

import pyoxigraph as ox

from proxy.backends.base import BackendRequest, BackendResponse, Headers, Parameters, PathKind, Solutions
from proxy.backends.embedded.description import describe_service
from proxy.backends.embedded.formats import QUADS, RDF_FORMATS, SOLUTION_WRITERS
from proxy.backends.embedded.graphs import write_graph
from proxy.backends.embedded.reading import (
    Refusal,
    base_iri,
    choose_format,
    graph_of,
    has_flag,
    refusals,
    require_safe,
    scope_of,
)
from proxy.backends.embedded.terms import term_of
from proxy.backends.loading import Progress, Reader, UnreadableFile, format_name
from proxy.backends.streaming import TEXT, BufferedResponse, ThreadStream, detached, tell
from proxy.backends.workers import Workers
from proxy.errors import (
    BackendBusy,
    BackendGarbled,
    BackendRefused,
    BackendTimeout,
    ConfigError,
)
from proxy.query.formats import GRAPH_FORMATS, SOLUTION_FORMATS
from proxy.query.operation import DatasetDescription, OperationKind, SparqlOperation
from proxy.query.term import RdfTerm

SNAPSHOT_S = 600.0
"""How long a snapshot may take; one of 1 M triples takes seconds."""
SNAPSHOT_NICE = 19
T = TypeVar("T")


class EmbeddedBackend:
    """A store as a backend.

    Args:
        max_queries: calls into the store at a time, those included that nobody waits for any more.
        queue_s: how long a call waits for its turn before BackendBusy.
    """

    def __init__(
        self,
        store: ox.Store,
        *,
        name: str = "embedded store",
        timeout_s: float = 60.0,
        max_queries: int = 16,
        queue_s: float = 10.0,
    ) -> None:
        self._store = store
        self._name = name
        self._timeout_s = timeout_s
        self._queue_s = queue_s
        self._max_queries = max_queries
        self._workers = Workers(max_queries)
        self._snapshots = Workers(1)
        self._turns = asyncio.Semaphore(max_queries)
        self.running = 0

    @classmethod
    def load(
        cls,
        files: Sequence[str | Path],
        *,
        progress: Progress = lambda *_: None,
        timeout_s: float = 60.0,
        max_queries: int = 16,
    ) -> Self:
        """Read *files* into a new store in memory; blocks.

        Raises:
            ConfigError: a file cannot be read; it names the file and the line.
        """
        store = ox.Store()
        for file in files:
            path = Path(file)
            try:
                format_ = RDF_FORMATS[format_name(path)]
                with Reader(path, progress) as reader:
                    store.bulk_load(input=cast(IO[bytes], reader), format=format_, base_iri=path.resolve().as_uri())
            except UnreadableFile as error:
                raise ConfigError("backend.load", str(error)) from error
            except SyntaxError as error:
                line = f":{error.lineno}" if error.lineno else ""
                raise ConfigError("backend.load", f"{path}{line}: {error.msg}") from error
            except (OSError, ValueError) as error:
                raise ConfigError("backend.load", f"{path}: {error}") from error
        names = ", ".join(Path(f).name for f in files[:3]) + (", …" if len(files) > 3 else "")
        return cls(store, name=f"embedded store ({names or 'empty'})", timeout_s=timeout_s, max_queries=max_queries)

    async def write_snapshot(self, path: Path) -> None:
        """All quads as they are now into a new file, as N-Quads. The store goes on meanwhile, and so does Python.

        Raises:
            OSError: it cannot be written. BackendTimeout
        """

        def run() -> None:
            # In Linux priority is each thread's own; there is no way back, so this thread does nothing else.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), SNAPSHOT_NICE)
            self._store.dump(str(path), ox.RdfFormat.N_QUADS)

        await self._call(run, SNAPSHOT_S, self._snapshots)

    # -- what a backend is

    @property
    def name(self) -> str:
        return self._name

    @property
    def query_path(self) -> str:
        return "/query"

    @property
    def update_path(self) -> str:
        return "/update"

    @property
    def paths(self) -> Mapping[str, PathKind]:
        return {"/query": PathKind.QUERY, "/update": PathKind.UPDATE, "/store": PathKind.GRAPH_STORE}

    @property
    def refused_parameters(self) -> frozenset[str]:
        return frozenset()

    @property
    def prefixes(self) -> Mapping[str, str]:
        return {}

    @property
    def fetches_graphs(self) -> bool:
        return False

    @property
    def root_url(self) -> str:
        return ""

    @property
    def orphan_s(self) -> float | None:
        return None  # it counts its own orphans: ``max_queries``

    def sees_what_we_see(self, headers: Headers) -> bool:
        return True

    def __len__(self) -> int:
        """Quads in the store."""
        return len(self._store)

    async def send(self, request: BackendRequest) -> BackendResponse:
        base = base_iri(request)
        operation = request.operation
        try:
            if operation is None:
                return describe_service(request, base)
            match operation.kind:
                case OperationKind.QUERY:
                    return await self._query(operation, base)
                case OperationKind.UPDATE:
                    return await self._update(operation, base)
                case OperationKind.GRAPH_STORE:
                    return await self._graph_store(request, operation)
                case OperationKind.TRANSACTION:
                    raise Refusal(404, "The embedded store has no transactions")
        except Refusal as refusal:
            return _text(refusal.status, str(refusal))

    async def select(
        self, query: str, *, timeout_s: float, limit_rows: int | None = None, parameters: Parameters = ()
    ) -> Solutions:
        def run() -> Solutions:
            results = self._evaluate(query, None, *scope_of(parameters))
            if not isinstance(results, ox.QuerySolutions):
                raise Refusal(400, "not a SELECT query")
            variables = tuple(v.value for v in results.variables)
            rows: list[tuple[RdfTerm | None, ...]] = []
            ends = time.monotonic() + timeout_s
            for i, solution in enumerate(results):
                rows.append(tuple(None if term is None else term_of(term) for term in solution))
                if limit_rows is not None and len(rows) > limit_rows:
                    raise BackendGarbled(f"{self._name} gave more than {limit_rows} solutions", backend=self._name)
                if i % 1024 == 0 and time.monotonic() > ends:
                    raise self._timeout(timeout_s)
            return Solutions(variables, rows)

        return await self._own(run, timeout_s)

    async def ask(self, query: str, *, timeout_s: float, parameters: Parameters = ()) -> bool:
        def run() -> bool:
            result = self._evaluate(query, None, *scope_of(parameters))
            if not isinstance(result, ox.QueryBoolean):
                raise Refusal(400, "not an ASK query")
            return bool(result)

        return await self._own(run, timeout_s)

    async def probe(self, *, timeout_s: float) -> None:
        return None

    async def aclose(self) -> None:
        self._workers.close()
        self._snapshots.close()

    # -- queries

    def _evaluate(self, text: str, base: str | None, dataset: DatasetDescription, is_union: bool) -> Any:
        """Begin a query; raises Refusal for what the client can see."""
        require_safe(text)
        if is_union and dataset:
            raise Refusal(400, "union-default-graph cannot be combined with default-graph-uri and named-graph-uri")
        graphs: dict[str, Any] = {}
        with refusals():
            if dataset:
                graphs["default_graph"] = [ox.NamedNode(g) for g in dataset.default_graphs]
                graphs["named_graphs"] = [ox.NamedNode(g) for g in dataset.named_graphs]
            return self._store.query(text, base_iri=base, use_default_graph_as_union=is_union, **graphs)

    async def _query(self, operation: SparqlOperation, base: str | None) -> BackendResponse:
        dataset, is_union = operation.dataset, has_flag(operation.parameters, "union-default-graph")

        def run(stream: ThreadStream) -> None:
            results = self._evaluate(operation.text, base, dataset, is_union)
            is_graph = isinstance(results, ox.QueryTriples)
            chosen = choose_format(operation.accept, GRAPH_FORMATS if is_graph else SOLUTION_FORMATS)
            stream.content_type = chosen.content_type.encode("ascii")
            if isinstance(results, ox.QueryBoolean):
                stream.is_short = True
            try:
                results.serialize(cast(IO[bytes], stream), (RDF_FORMATS if is_graph else SOLUTION_WRITERS)[chosen.name])
            except (RuntimeError, OSError) as error:
                raise Refusal(500, str(error)) from error

        return await self._stream(run)

    async def _update(self, operation: SparqlOperation, base: str | None) -> BackendResponse:
        if operation.dataset or has_flag(operation.parameters, "using-union-graph"):
            raise Refusal(400, "the embedded store does not know using-graph-uri; write USING in the update")

        def run() -> BackendResponse:
            require_safe(operation.text)
            with refusals():
                self._store.update(operation.text, base_iri=base)
            return BufferedResponse(204, (), b"")

        return await self._call(run, self._timeout_s)

    # -- graph store (SPARQL 1.1 Graph Store HTTP Protocol)

    async def _graph_store(self, request: BackendRequest, operation: SparqlOperation) -> BackendResponse:
        graph = graph_of(operation.parameters)
        if request.method in ("GET", "HEAD"):
            if isinstance(graph, ox.NamedNode) and not self._store.contains_named_graph(graph):
                raise Refusal(404, f"The graph {graph} does not exist")
            offers = GRAPH_FORMATS if graph is not None else tuple(f for f in GRAPH_FORMATS if f.name in QUADS)
            chosen = choose_format(operation.accept, offers)

            def dump(stream: ThreadStream) -> None:
                stream.content_type = chosen.content_type.encode("ascii")
                self._store.dump(cast(IO[bytes], stream), RDF_FORMATS[chosen.name], from_graph=graph)

            return await self._stream(dump)
        body = request.body if isinstance(request.body, bytes) else b"".join([piece async for piece in request.body])
        content_type = next((v.decode("latin-1") for n, v in request.headers if n == b"content-type"), "")
        return await self._call(lambda: write_graph(self._store, request.method, graph, body, content_type), self._timeout_s)

    # -- threads

    async def _take_turn(self) -> None:
        try:
            async with asyncio.timeout(self._queue_s):
                await self._turns.acquire()
        except TimeoutError as exc:
            raise BackendBusy(
                f"{self._name}: {self._max_queries} queries are running", backend=self._name, retry_after_s=self._queue_s
            ) from exc
        self.running += 1

    def _end_turn(self) -> None:
        self.running -= 1
        self._turns.release()

    async def _call(self, run: Callable[[], T], timeout_s: float, workers: Workers | None = None) -> T:
        """Run *run* in a thread. Out of time, it is left alone, and keeps its turn until it ends."""
        await self._take_turn()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def finish(value: T | None, error: BaseException | None) -> None:
            self._end_turn()
            if not done.done():
                if error is not None:
                    done.set_exception(error)
                else:
                    done.set_result(value)  # type: ignore[arg-type]

        def job() -> None:
            try:
                value, error = run(), None
            except BaseException as exc:
                value, error = None, detached(exc)
            tell(loop, finish, value, error)

        (workers or self._workers).submit(job)
        try:
            async with asyncio.timeout(timeout_s):
                return await done
        except TimeoutError as exc:
            raise self._timeout(timeout_s) from exc

    async def _own(self, run: Callable[[], T], timeout_s: float) -> T:
        try:
            return await self._call(run, timeout_s)
        except Refusal as refusal:
            text = str(refusal)
            raise BackendRefused(
                f"{self._name} answered {refusal.status}: {text[:300]}", backend=self._name, status=refusal.status, body=text
            ) from refusal

    async def _stream(self, run: Callable[[ThreadStream], None]) -> BackendResponse:
        await self._take_turn()
        stream = ThreadStream(asyncio.get_running_loop(), self._timeout(self._timeout_s), self._timeout_s, self._end_turn)
        self._workers.submit(lambda: stream.work(run))
        try:
            await stream.started()
        except BaseException:
            await stream.aclose()
            raise
        return stream

    def _timeout(self, limit_s: float) -> BackendTimeout:
        return BackendTimeout(f"{self._name} did not answer within {limit_s:g} s", backend=self._name, elapsed_s=limit_s)


def _text(status: int, text: str) -> BufferedResponse:
    return BufferedResponse(status, ((b"content-type", TEXT),), text.encode("utf-8"))
