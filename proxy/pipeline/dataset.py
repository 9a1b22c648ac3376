"""A dataset that we serve: one backend, the index of its graph, and the engine that answers questions about it.

Serving starts at once. The index is built in the background; until it is there, queries are forwarded unvalidated and questions
are declined. A failed build is logged, shown, and tried again; it never stops forwarding.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from proxy.backends.base import Backend
from proxy.errors import BackendBusy, BackendError, ProxyError
from proxy.pipeline.gateway import Gateway
from proxy.pipeline.metrics import QuestionMetrics
from proxy.pipeline.own import OwnQueries
from proxy.pipeline.unforeseen import Failures

if TYPE_CHECKING:
    from proxy.config import Config
    from proxy.index.support import SupportIndex
    from proxy.index.values import ValueIndex
    from proxy.nl.engine import QuestionEngine
    from proxy.pipeline.judging import Judge
    from proxy.pipeline.memory import MemoryKeeper
    from proxy.pipeline.refresh import Upkeep
    from proxy.pipeline.ttql import TtqlKeeper
    from proxy.pipeline.writing import Writer

RETRY_FIRST_S = 2.0
RETRY_MOST_S = 60.0
REBUILD_PAUSE_S = 30.0
"""At least, between the end of one build and the start of the next that a change of the data asks for."""
SETTLE_S = 2.0
"""After a change, so that a series of updates costs one rebuild."""

UNMADE: Any = None
"""In place of a gateway; the dataset then makes one."""
Progress = Callable[[str, int, int], None]
"""Called with (phase, parts done, parts in all)."""


class Distilled(Protocol):
    """What the distiller hands over."""

    @property
    def index(self) -> SupportIndex: ...

    @property
    def values(self) -> ValueIndex: ...


Distil = Callable[[Backend, Progress, int], Awaitable[Distilled]]
"""(backend, progress, epoch of the index to be built) → indexes."""
Notify = Callable[[str, "SupportIndex"], Awaitable[None]]
"""(name of the dataset, its index); must not raise."""
MakeEngine = Callable[["SupportIndex", "ValueIndex"], "QuestionEngine"]


class BuildState(StrEnum):
    OFF = "off"
    BUILDING = "building"
    READY = "ready"
    FAILED = "failed"


@dataclass(slots=True)
class Build:
    """Where the building of something stands.

    phase, done, total: of the build that is under way; phase is empty where none is. A rebuild does not change *state*: the
    older index serves meanwhile. error: a sentence when *state* is FAILED.
    """

    state: BuildState = BuildState.OFF
    phase: str = ""
    done: int = 0
    total: int = 0
    error: str = ""
    elapsed_s: float = 0.0

    def describe(self, what: str) -> str | None:
        """Say why *what* is not ready, or None if nothing is missing."""
        match self.state:
            case BuildState.BUILDING:
                part = f" ({self.phase} {self.done}/{self.total})" if self.phase else ""
                return f"the {what} is being built{part}"
            case BuildState.FAILED:
                return f"the {what} could not be built: {self.error}"
            case BuildState.OFF | BuildState.READY:
                return None


@dataclass(slots=True)
class Counters:
    """What happened to queries so far."""

    confirmed: int = 0
    contradicted: int = 0
    unconfirmed: int = 0
    rejected: int = 0


@dataclass(slots=True)
class Dataset:
    """One backend with its index and engine. Safe to use from many tasks of one event loop.

    name: as in the paths of several datasets; ``default`` for the only one.
    distil: builds the index; None turns the index (and so validation and questions) off.
    gateway: sends to the backend; None: one without a cache is made.
    upkeep: keeps the index in its file and notices changes behind our back; None: memory only, and none noticed.
    make_engine: called in a worker thread after each build; None turns questions off.
    judge: a language model that has a say in choices, shared by datasets; None: none.
    writer: a language model that writes queries; None: none.
    keeps_backend: another dataset goes on with the backend, so it is not closed with this one.
    notify: told of each index that begins to serve.
    retry_first_s: pause after the first failed build; it doubles. rebuild_pause_s, settle_s: see the constants.
    index, values, engine: None until built. They are replaced, never changed, by a rebuild: take one reference per request.
    """

    name: str
    backend: Backend
    settings: Config
    distil: Distil | None = None
    make_engine: MakeEngine | None = None
    judge: Judge | None = None
    writer: Writer | None = None
    upkeep: Upkeep | None = None
    index: SupportIndex | None = None
    values: ValueIndex | None = None
    engine: QuestionEngine | None = None
    index_build: Build = field(default_factory=Build)
    engine_build: Build = field(default_factory=Build)
    retry_first_s: float = RETRY_FIRST_S
    rebuild_pause_s: float = REBUILD_PAUSE_S
    settle_s: float = SETTLE_S
    is_stale: bool = False
    keeps_backend: bool = False
    _touched: set[str] | None = field(default_factory=set)
    _is_urgent: bool = False
    builds: int = 0
    counters: Counters = field(default_factory=Counters)
    failures: Failures = field(default_factory=Failures)
    questions: QuestionMetrics = field(default_factory=QuestionMetrics)
    gateway: Gateway = field(default_factory=lambda: UNMADE)
    notify: Notify | None = None
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None
    _checking: asyncio.Task[None] | None = None
    _retired: list[ValueIndex] = field(default_factory=list)
    reading: OwnQueries = field(init=False)
    """The backend for what we read ourselves, patiently: the index, and what is derived from it."""
    checking: OwnQueries = field(init=False)
    """The backend for what has to be known within its time limit, or not at all: confirmations, probes."""
    trying: OwnQueries = field(init=False)
    """The backend for what a question tries, which a client waits for."""
    _memory: MemoryKeeper | None = field(default=None, init=False)
    _ttql: TtqlKeeper | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.gateway is UNMADE:
            self.gateway = Gateway(self.name, self.backend, self.settings)
        own = partial(OwnQueries, self.backend, self.gateway.queue, orphan_bound_s=self.settings.load.orphan_bound_s)
        self.reading, self.checking, self.trying = own(is_timed_whole=False), own(), own(is_asked_for=True)

    @property
    def ttql(self) -> TtqlKeeper:
        """The description of the graph, made when somebody asks for it."""
        if self._ttql is None:
            from proxy.pipeline.ttql import TtqlKeeper  # late: it brings in what only an index needs

            self._ttql = TtqlKeeper(self)
        return self._ttql

    @property
    def memory(self) -> MemoryKeeper | None:
        """What people confirmed about this dataset; None where nothing is kept."""
        if self._memory is None and self.settings.nl.memory:
            from proxy.pipeline.memory import MemoryKeeper  # late: it brings in what only questions need

            self._memory = MemoryKeeper(Path(self.settings.nl.memory) / f"{self.name}.jsonl")
        return self._memory

    def start(self) -> None:
        """Begin to build the index in the background; call once, in the event loop."""
        if self.distil is not None and self._task is None:
            self.index_build.state = BuildState.BUILDING
            if self.make_engine is not None:
                self.engine_build.state = BuildState.BUILDING
            self._task = asyncio.create_task(self._keep_built(), name=f"index of {self.name}")

    async def aclose(self) -> None:
        """Stop building, close the values; then the backend."""
        if self._task is not None:
            self._task.cancel()
            if self._checking is not None:
                self._checking.cancel()
            await asyncio.gather(self._task, *filter(None, [self._checking]), return_exceptions=True)
        if self._ttql is not None:
            await self._ttql.aclose()
        if self.writer is not None:
            await self.writer.aclose()
        for values in (*self._retired, *([self.values] if self.values is not None else [])):
            values.close()
        if self.upkeep is not None:
            await self.upkeep.aclose()
        await self.gateway.aclose()
        if not self.keeps_backend:
            await self.backend.aclose()

    def mark_stale(self, touched: Collection[str] | None = None) -> None:
        """Note that the data are no longer what was indexed; a rebuild follows, at most one every REBUILD_PAUSE_S.

        Args:
            touched: the properties that can have changed, if that is known; only they are read anew then.
        """
        if self.distil is not None and touched != frozenset():
            self._touched = None if touched is None or self._touched is None else {*self._touched, *touched}
            self.is_stale = True
            self._wake.set()

    def refresh(self) -> None:
        """Build the whole index anew, now."""
        self._is_urgent = True
        self.mark_stale()

    async def check_freshness(self) -> None:
        """Compare an index that was read from a file with the live counts of all properties; mark it stale if they differ."""
        if self.index is not None and self.upkeep is not None and not await self.upkeep.is_fresh(self.reading, self.index):
            self.mark_stale()

    def reasons(self) -> list[str]:
        """Sentences on what is not ready yet; empty when index and engine can serve. Says nothing about the backend."""
        if (reason := self.index_build.describe("index")) is not None:
            return [reason]
        return [] if (reason := self.engine_build.describe("question engine")) is None else [reason]

    async def readiness(self, *, timeout_s: float = 5.0) -> list[str]:
        """As ``reasons``, and ask the backend too."""
        reasons = self.reasons()
        try:
            await self.checking.probe(timeout_s=timeout_s)
        except BackendBusy:
            # All places are taken: it works, for all we know; the circuit opens if those get no answers.
            try:
                self.gateway.breaker.require_passable()
            except BackendError as error:
                reasons.append(f"the backend does not answer: {error}")
        except ProxyError as error:
            reasons.append(f"the backend does not answer: {error}")
        return reasons

    async def built(self) -> None:
        """Wait until nothing is being built any more, well or not."""
        while self.index_build.state is BuildState.BUILDING or (
            self.index_build.state is BuildState.READY and self.engine_build.state is BuildState.BUILDING
        ):
            await asyncio.sleep(0.02)

    def summary(self) -> dict[str, Any]:
        """What ``/-/index`` shows of this dataset, JSON-ready."""
        build = self.index_build
        shown: dict[str, Any] = {
            "dataset": self.name,
            "backend": self.backend.name,
            "state": str(build.state),
            "progress": {"phase": build.phase, "done": build.done, "total": build.total} if build.phase else None,
            "error": build.error or None,
            "build_s": round(build.elapsed_s, 3),
            "builds": self.builds,
            "stale": self.is_stale,
            "file": None
            if self.upkeep is None or self.upkeep.path is None
            else {"path": str(self.upkeep.path), "error": self.upkeep.error or None},
            "cost": self.upkeep.cost if self.upkeep is not None else {},
            "engine": {"state": str(self.engine_build.state), "error": self.engine_build.error or None},
            "queries": {
                "proofs_confirmed": self.counters.confirmed,
                "proofs_contradicted": self.counters.contradicted,
                "proofs_unconfirmed": self.counters.unconfirmed,
                "rejected": self.counters.rejected,
            },
        }
        if (index := self.index) is not None:
            shown |= {
                "built_at": index.built_at,
                "age_s": round(max(0.0, time.time() - index.built_at), 1),
                "epoch": index.epoch,
                "is_complete": index.is_complete_for(),
                "are_kinds_exact": index.are_kinds_exact,
                "covers_named_graphs": index.covers_named_graphs,
                "triples": index.triples,
                "class_predicate": index.class_predicate,
                "kinds": len(index.kinds),
                "properties": len(index.properties),
                "cells": len(index.count),
                "classes": dict(sorted(index.class_instances.items(), key=lambda item: (-item[1], item[0]))),
                "incomplete": [
                    {"class": c.subject_class, "property": c.property, "reason": c.reason} for c in index.incomplete
                ],
            }
        return shown

    # -- building

    async def _keep_built(self) -> None:
        pause_s = self.retry_first_s
        is_built = await self._load_once()
        while True:
            if not is_built:
                self._wake.clear()
                self.is_stale = self._is_urgent = False
                touched, self._touched = self._touched, set()
                is_built = await self._build_once(touched if self.index is not None else None)
            if is_built:
                pause_s = self.retry_first_s
                ended = time.perf_counter()
                await self._wait_for_change()
                is_built = False
                await self._pause(max(time.perf_counter() + self.settle_s, ended + self.rebuild_pause_s))
            else:
                self._touched = None  # what was to be read anew was not
                await self._pause(time.perf_counter() + pause_s)
                pause_s = min(pause_s * 2, RETRY_MOST_S)

    async def _pause(self, until: float) -> None:
        """Wait until that time of the clock, or until ``refresh``; more changes meanwhile cost nothing more."""
        while not self._is_urgent and (left_s := until - time.perf_counter()) > 0:
            self._wake.clear()
            try:
                async with asyncio.timeout(left_s):
                    await self._wake.wait()
            except TimeoutError:
                break

    async def _wait_for_change(self) -> None:
        """Return when somebody says that the index is stale, or the upkeep finds so."""
        if self.upkeep is None or self.index is None or self._wake.is_set():
            await self._wake.wait()
            return
        waits = [asyncio.create_task(w) for w in (self._wake.wait(), self.upkeep.watch(self.reading, self.index))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if not self._wake.is_set():
                self.mark_stale()  # nobody said what was touched
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _load_once(self) -> bool:
        """Take the index of an earlier process, if there is one that fits; it is compared with the graph afterwards."""
        if self.upkeep is None or (found := await self.upkeep.load(self.reading)) is None:
            return False
        await self._install(found)
        self.index_build.state = BuildState.READY
        structlog.get_logger().info("index_loaded", dataset=self.name, triples=found.index.triples, epoch=found.index.epoch)
        if self.make_engine is not None:
            await self._build_engine(found)
        self._checking = asyncio.create_task(self.check_freshness())
        return True

    async def _distil(self, touched: set[str] | None) -> Distilled:
        assert self.distil is not None
        epoch = self.builds + 1 if self.index is None else self.index.epoch + 1
        if touched and self.upkeep is not None and self.index is not None and self.values is not None:
            changing = (self.reading, self.index, self.values, frozenset(touched), self._note_progress, epoch)
            if (found := await self.upkeep.change(*changing)) is not None:
                return found
        return await self.distil(self.reading, self._note_progress, epoch)

    async def _build_once(self, touched: set[str] | None = None) -> bool:
        log = structlog.get_logger().bind(dataset=self.name)
        started = time.perf_counter()
        try:
            distilled = await self._distil(touched)
        except Exception as error:  # the outermost handler of this task: whatever fails here must not end forwarding
            self._fail(self.index_build, error, started)
            log.warning("index_failed", error=self.index_build.error, exc_info=not isinstance(error, ProxyError))
            return False
        finally:
            self._note_progress("", 0, 0)
        if self.index is not None and self.index.triples != distilled.index.triples:
            await self.gateway.renew()  # somebody has changed the data behind our back
        await self._install(distilled)
        self.builds += 1
        self.index_build.elapsed_s = time.perf_counter() - started
        self.index_build.error = ""
        self.index_build.state = BuildState.READY
        index = distilled.index
        counts = {"triples": index.triples, "cells": len(index.count), "class_predicate": index.class_predicate}
        log.info("index_built", elapsed_s=round(self.index_build.elapsed_s, 3), **counts)
        return await self._build_engine(distilled) if self.make_engine is not None else True

    async def _build_engine(self, distilled: Distilled) -> bool:
        log = structlog.get_logger().bind(dataset=self.name)
        assert self.make_engine is not None
        started = time.perf_counter()
        try:
            self.engine = await asyncio.to_thread(self.make_engine, distilled.index, distilled.values)
        except Exception as error:  # as above
            self._fail(self.engine_build, error, started)
            log.warning("engine_failed", error=self.engine_build.error, exc_info=not isinstance(error, ProxyError))
            # A model that is missing now will be missing in a minute: only a rebuild of the index tries again.
            return True
        self.engine_build.elapsed_s = time.perf_counter() - started
        self.engine_build.error = ""
        self.engine_build.state = BuildState.READY
        log.info("engine_built", elapsed_s=self.engine_build.elapsed_s)
        return True

    def _note_progress(self, phase: str, done: int, total: int) -> None:
        self.index_build.phase, self.index_build.done, self.index_build.total = phase, done, total

    def _fail(self, build: Build, error: Exception, started: float) -> None:
        build.elapsed_s = time.perf_counter() - started
        build.error = str(error) or type(error).__name__
        # An older index still serves: its proofs are confirmed live, so age costs no correctness.
        build.state = BuildState.READY if self.index is not None and build is self.index_build else BuildState.FAILED

    async def _install(self, distilled: Distilled) -> None:
        await asyncio.to_thread(distilled.index.prepare)
        for old in self._retired:
            old.close()
        # A question under way may still read the values that it began with; they are closed one rebuild later.
        self._retired = [] if self.values is None else [self.values]
        if self.notify is not None:
            await self.notify(self.name, distilled.index)
        self.index, self.values = distilled.index, distilled.values
