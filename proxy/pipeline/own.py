"""Our own queries, counted like everybody's: index, live confirmations, probes, and the trials of a question.

A database bears so many queries at once whoever asks them. So ours take places in its queue too: behind the clients' what we
ask for ourselves, among them what a question tries on its way to an answer. No request holds a place while it waits for one of
these, so that nobody waits for himself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from proxy.backends.base import Backend, BackendRequest, BackendResponse, Headers, Parameters, PathKind, Solutions
from proxy.pipeline.queue import BackendQueue

T = TypeVar("T")
QUESTIONS = "questions"
"""The line in which the trials of all questions stand, among the clients' lines."""
LEAST_S = 0.05
"""Left for a query that had to wait for its place nearly as long as it may take."""


class OwnQueries:
    """*backend*, with a place in *queue* for every query; itself a ``Backend``.

    Args:
        orphan_bound_s: how long a query may keep its place that we no longer wait for.
        is_asked_for: a client waits for it: it stands among the clients' requests, not behind them.
        is_timed_whole: the time limit of a query holds for its wait too; else it may wait for as long again.
    """

    def __init__(
        self,
        backend: Backend,
        queue: BackendQueue,
        *,
        orphan_bound_s: float = 60.0,
        is_asked_for: bool = False,
        is_timed_whole: bool = True,
    ) -> None:
        self._backend = backend
        self._queue = queue
        self._orphan_bound_s = orphan_bound_s
        self._is_asked_for = is_asked_for
        self._is_timed_whole = is_timed_whole

    async def select(
        self, query: str, *, timeout_s: float, limit_rows: int | None = None, parameters: Parameters = ()
    ) -> Solutions:
        async def work(left_s: float) -> Solutions:
            if parameters:
                return await self._backend.select(query, timeout_s=left_s, limit_rows=limit_rows, parameters=parameters)
            return await self._backend.select(query, timeout_s=left_s, limit_rows=limit_rows)

        return await self._placed(work, timeout_s)

    async def ask(self, query: str, *, timeout_s: float, parameters: Parameters = ()) -> bool:
        return await self._placed(lambda left_s: self._backend.ask(query, timeout_s=left_s, parameters=parameters), timeout_s)

    async def probe(self, *, timeout_s: float) -> None:
        """As the backend's, but for a full queue: BackendBusy says that it works, for others."""
        await self._placed(lambda left_s: self._backend.probe(timeout_s=left_s), timeout_s)

    async def send(self, request: BackendRequest) -> BackendResponse:
        """A download. It keeps its place only until the head: where there is one place, all clients would wait for its end."""
        return await self._placed(lambda _: self._backend.send(request), self._orphan_bound_s)

    async def _placed(self, work: Callable[[float], Awaitable[T]], timeout_s: float) -> T:
        orphan_s = self._backend.orphan_s
        bound_s = None if orphan_s is None else min(orphan_s, self._orphan_bound_s)

        async def placed(waited_s: float) -> T:
            return await work(max(timeout_s - waited_s, LEAST_S) if self._is_timed_whole else timeout_s)

        client = QUESTIONS if self._is_asked_for else None
        return await self._queue.run(placed, client=client, wait_s=timeout_s, orphan_bound_s=bound_s)

    async def aclose(self) -> None:
        """The backend is not ours."""

    # -- what the backend says of itself

    @property
    def name(self) -> str:
        return self._backend.name

    @property
    def query_path(self) -> str:
        return self._backend.query_path

    @property
    def update_path(self) -> str:
        return self._backend.update_path

    @property
    def paths(self) -> Mapping[str, PathKind]:
        return self._backend.paths

    @property
    def refused_parameters(self) -> frozenset[str]:
        return self._backend.refused_parameters

    @property
    def prefixes(self) -> Mapping[str, str]:
        return self._backend.prefixes

    @property
    def fetches_graphs(self) -> bool:
        return self._backend.fetches_graphs

    @property
    def root_url(self) -> str:
        return self._backend.root_url

    @property
    def orphan_s(self) -> float | None:
        return self._backend.orphan_s

    def sees_what_we_see(self, headers: Headers) -> bool:
        return self._backend.sees_what_we_see(headers)
