"""The ASGI application: datasets, plugins and pages under one configuration, and how another takes its place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

import structlog

from proxy import __version__, log
from proxy.assembly import Encoders, make_dataset, make_gate, make_limits, make_link, make_tracer, no_progress
from proxy.backends.base import Backend
from proxy.backends.loading import Progress as LoadProgress
from proxy.config import Config
from proxy.errors import ProxyError
from proxy.pipeline.dataset import Dataset
from proxy.pipeline.limits import ClientLimits
from proxy.pipeline.metrics import Metrics
from proxy.pipeline.shared_limits import SharedLimits
from proxy.pipeline.sparql import SparqlPath
from proxy.plugin.chain import PluginChain
from proxy.plugin.loading import load_plugins
from proxy.protocol.access import AccessGate
from proxy.protocol.admission import Admission
from proxy.protocol.asgi import App, Receive, Scope, Send
from proxy.protocol.connection import ClientConnection, Limits, ServerState
from proxy.protocol.direct import SERVED_BY, DirectLane
from proxy.protocol.endpoints import SparqlEndpoints
from proxy.protocol.exposition import expose, merge
from proxy.protocol.middleware import RequestLog
from proxy.protocol.pages import Pages
from proxy.protocol.questions import QuestionAnswers
from proxy.reloading import Reload, carried, changes, hand_over, require_reloadable, start_anew

BUILT_WITHIN_S = 60.0
"""How long a new configuration waits for its indexes before it serves; without them questions would be declined."""

BROKEN_OFF_WITHIN_S = 1.0
"""How long the end waits for requests that lose their backend by it."""


def create_app(
    config: Config,
    *,
    backend: Backend | None = None,
    worker: int | None = None,
    load_progress: LoadProgress = no_progress,
) -> Application:
    """Build the application. Reads the files of ``backend.load`` (this blocks); connects to nothing yet.

    Args:
        backend: in place of the configured one.
        worker: number of this process where there are several.
        load_progress: told how far the files are read.
    Raises:
        ConfigError: a setting, a file or a plugin cannot be used. PluginError: a plugin cannot be loaded.
    """
    plugins = make_plugins(config)
    encoders: Encoders = {}
    datasets = [
        make_dataset(name, own, encoders, backend=backend, load_progress=load_progress)
        for name, own in config.by_dataset().items()
    ]
    return Application(Generation(config, datasets, plugins), worker=worker, encoders=encoders)


def make_plugins(config: Config) -> PluginChain:
    """The configured plugins, in order.

    Raises:
        ConfigError, PluginError
    """
    settings = config.plugins
    return load_plugins(settings.directory, enabled=settings.enabled, options=settings.options, budget_s=settings.budget_s)


class Generation:
    """What serves requests under one configuration. A request ends in the generation in which it began.

    requests: how many are in it. limits, gate (which has those of keys): kept from the generation before, where they are the
    same.
    """

    def __init__(
        self,
        config: Config,
        datasets: list[Dataset],
        plugins: PluginChain,
        *,
        limits: ClientLimits | None = None,
        gate: AccessGate | None = None,
    ) -> None:
        self.config = config
        self.datasets = datasets
        self.plugins = plugins
        self.requests = 0
        self._empty = asyncio.Event()
        self.paths = {dataset.name: SparqlPath(dataset, plugins) for dataset in datasets}
        self.questions = {name: QuestionAnswers(path) for name, path in self.paths.items()}
        self.limits = limits or make_limits(config.limits)
        self.gate = gate or make_gate(config)

    async def listen(self) -> None:
        """Have the plugins told of each new index from now on, and of those that serve already."""
        for dataset in self.datasets:
            dataset.notify = self.plugins.index_refreshed if "index_refreshed" in self.plugins.active else None
            if dataset.notify is not None and dataset.index is not None:
                await dataset.notify(dataset.name, dataset.index)

    def serve(self, pages: Pages) -> None:
        """Put *pages* beside the datasets' own paths; once, before the first request."""
        settings = self.config.server
        self.sparql = sparql = SparqlEndpoints(self.paths, self.questions, body_limit_bytes=settings.body_limit_bytes)

        def answer(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
            app = pages if scope["path"] == "/text2sparql" else sparql
            return app(scope, receive, send)

        trusted = settings.trusted_proxies
        self.admitted = Admission(answer, self.limits, trusted_proxies=trusted, access=self.gate)
        self.own = Admission(pages, None, trusted_proxies=trusted, access=self.gate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.enter()
        try:
            app = self.own if scope["path"].startswith("/-/") else self.admitted
            await app(scope, receive, send)
        finally:
            self.leave()

    def enter(self) -> None:
        """One request more."""
        self.requests += 1

    def leave(self) -> None:
        """One request less."""
        self.requests -= 1
        if not self.requests:
            self._empty.set()

    async def drained(self) -> None:
        """Return when no request is left; none may begin any more."""
        while self.requests:
            self._empty.clear()
            await self._empty.wait()


class Application:
    """The ASGI application. *datasets* may be looked at from outside, for tests and for the command line.

    worker: number of this process where there are several. gather: asks all of them for their numbers, where there are.
    reread: reads the configuration again; None: it cannot be reloaded. tell_others: has the other workers reload, too.
    """

    def __init__(self, generation: Generation, *, worker: int | None = None, encoders: Encoders | None = None) -> None:
        self.worker = worker
        self.gather: Callable[[], Awaitable[list[str]]] | None = None
        self.reread: Callable[[], Config] | None = None
        self.tell_others: Callable[[], None] = lambda: None
        self.is_draining = False
        self.metrics = Metrics()
        self._encoders = encoders if encoders is not None else {}
        self._reloading = asyncio.Lock()
        self._retiring: set[asyncio.Task[None]] = set()
        self.current = generation
        self._link = make_link(generation.config)
        self._shared = None if self._link is None else SharedLimits(self._link, self._accounts)
        self._exchanging: asyncio.Task[None] | None = None
        self._tracer = make_tracer(generation.config)
        trace = None if self._tracer is None else self._tracer.record
        self._http = RequestLog(self._route, self.metrics, trace)
        self._install(generation)

    @property
    def config(self) -> Config:
        return self.current.config

    @property
    def datasets(self) -> list[Dataset]:
        return self.current.datasets

    @property
    def plugins(self) -> PluginChain:
        return self.current.plugins

    @property
    def limits(self) -> ClientLimits | None:
        return self.current.limits

    def _accounts(self) -> Iterable[ClientLimits]:
        """All limits in force."""
        yield from self.current.gate.limits
        if self.limits is not None:
            yield self.limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._http(scope, receive, send)
            case "lifespan":
                await self._lifespan(receive, send)

    def connection(self, state: ServerState, *, keep_alive_s: float, loop: asyncio.AbstractEventLoop) -> ClientConnection:
        """The protocol for one client's connection, for a server that takes it in place of its own."""
        limits = Limits(keep_alive_s=keep_alive_s, send_s=self.config.server.send_timeout_s)
        return ClientConnection(self, state, direct=lambda: self._direct, limits=limits, loop=loop)

    def _route(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        app: App = scope.get(SERVED_BY) or self.current
        return app(scope, receive, send)

    def numbers(self) -> str:
        """This process's page of ``/-/metrics``."""
        self._http.flush()
        plugins = self.plugins.plugins
        return expose(
            self.metrics,
            self.datasets,
            limits=self.limits,
            plugins=plugins,
            shared=self._shared,
            worker=self.worker,
            version=__version__,
        )

    async def _expose(self) -> str:
        return self.numbers() if self.gather is None else merge(await self.gather())

    def _install(self, generation: Generation) -> None:
        pages = Pages(
            generation.paths,
            generation.questions,
            body_limit_bytes=generation.config.server.body_limit_bytes,
            metrics=self._expose,
            reload=self.reload_and_tell,
            is_stopping=lambda: self.is_draining,
        )
        generation.serve(pages)
        self.current = generation
        self._direct = DirectLane(
            self._http,
            generation.admitted,
            generation.sparql,
            app=generation,
            enter=generation.enter,
            leave=generation.leave,
        )

    def drain(self) -> None:
        """Say on ``/-/ready`` that this process is about to stop."""
        self.is_draining = True

    # -- another configuration

    async def reload_and_tell(self) -> Reload:
        """As ``reload``; then the other workers do the same."""
        done = await self.reload()
        self.tell_others()
        return done

    async def reload(self) -> Reload:
        """Read the configuration again and serve by it; requests that have begun end as they began.

        What a dataset or the plugins have in common with before is kept as it is. If anything cannot be used, nothing changes.

        Raises:
            ConfigError, PluginError: what cannot be used; the configuration in effect stays.
        """
        async with self._reloading:
            try:
                return await self._reload()
            except ProxyError as error:
                structlog.get_logger().error("config_refused", error=str(error))
                raise

    async def _reload(self) -> Reload:
        old = self.current
        config = require_reloadable(old.config, self.reread)
        if not (changed := changes(old.config, config)):
            return Reload(())
        kept = carried(old.config, config, old.datasets)
        plugins = make_plugins(config) if "plugins" in changed else old.plugins
        limits = None if "limits" in changed else old.limits
        made, datasets = await start_anew(config, kept, self._encoders, old.datasets)
        gate = None if "access" in changed else old.gate
        has_started = False
        try:
            new = Generation(config, datasets, plugins, limits=limits, gate=gate)
            if plugins is not old.plugins:
                await plugins.startup()
                has_started = True
            await new.listen()
            for dataset in made:
                dataset.start()
            await _built(made)
        except BaseException:  # cancelled, too, as by the end of the process
            await _close(made)
            if has_started:
                await plugins.shutdown()
            raise
        hand_over(old.datasets, made)
        self._install(new)
        if "log" in changed:
            log.configure(config.log)
        structlog.get_logger().info("config_reloaded", changed=", ".join(changed))
        task = asyncio.create_task(self._retire(old, new))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)
        return Reload(tuple(changed))

    async def _retire(self, old: Generation, new: Generation) -> None:
        """Close what only *old* used, when its last request has ended, or this process does."""
        try:
            await old.drained()
        finally:
            await _close([d for d in old.datasets if d not in new.datasets])
            if old.plugins is not new.plugins:
                await old.plugins.shutdown()

    # -- start and end

    async def startup(self) -> None:
        """Start the plugins, then building the indexes.

        Raises:
            PluginError: a plugin failed.
        """
        await self.plugins.startup()
        await self.current.listen()
        for dataset in self.datasets:
            dataset.start()
        if self._shared is not None:
            self._exchanging = asyncio.create_task(self._shared.run(), name="shared limits")

    async def shutdown(self) -> None:
        ending = [*self._retiring, *([self._exchanging] if self._exchanging is not None else [])]
        if self._shared is not None:
            self._shared.is_over = True
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        await _close(self.datasets)
        with suppress(TimeoutError):
            async with asyncio.timeout(BROKEN_OFF_WITHIN_S):
                await self.current.drained()  # what still ran hears of it now, and is to be counted and logged
        await self.plugins.shutdown()
        if self._link is not None:
            await self._link.aclose()
        self._http.flush()
        if self._tracer is not None:
            await asyncio.to_thread(self._tracer.close)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self.startup()
                except Exception as error:  # the server must hear of it, whatever it is
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.shutdown()
                await send({"type": "lifespan.shutdown.complete"})
                return


async def _close(datasets: Sequence[Dataset]) -> None:
    for dataset in datasets:
        await dataset.aclose()


async def _built(datasets: Sequence[Dataset]) -> None:
    """Wait until they can serve, or for BUILT_WITHIN_S."""
    waiting = [asyncio.ensure_future(dataset.built()) for dataset in datasets]
    if waiting:
        _, late = await asyncio.wait(waiting, timeout=BUILT_WITHIN_S)
        for future in late:
            future.cancel()
