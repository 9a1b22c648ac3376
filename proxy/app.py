"""The one place that knows everybody: config → backend, index, engine, plugins → one ASGI application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import structlog

from proxy import __version__, backends
from proxy.access.file import KeyFile
from proxy.access.keys import read_environment, read_roles
from proxy.backends.base import Backend
from proxy.backends.loading import Progress as LoadProgress
from proxy.config import Config
from proxy.errors import ConfigError
from proxy.index.support import SupportIndex
from proxy.indexing import make_upkeep
from proxy.pipeline.cache import CacheStore, MemoryStore, ResponseCache
from proxy.pipeline.dataset import Dataset, MakeEngine
from proxy.pipeline.gateway import Gateway
from proxy.pipeline.limits import PRESETS, Allowance, Allowances, ClientLimits
from proxy.pipeline.metrics import Metrics
from proxy.pipeline.sparql import SparqlPath
from proxy.plugin.chain import PluginChain
from proxy.plugin.loading import load_plugins
from proxy.protocol.access import AccessGate, is_loopback
from proxy.protocol.admission import Admission
from proxy.protocol.asgi import Receive, Scope, Send
from proxy.protocol.endpoints import SparqlEndpoints
from proxy.protocol.exposition import expose, merge
from proxy.protocol.middleware import RequestLog
from proxy.protocol.pages import Pages
from proxy.protocol.questions import QuestionAnswers

if TYPE_CHECKING:
    from proxy.config import CacheSettings, LimitSettings
    from proxy.index.values import ValueIndex
    from proxy.nl.engine import QuestionEngine
    from proxy.nl.onnx import OnnxEncoder

Encoders = dict[tuple[str, int], "OnnxEncoder"]
"""Encoders by what they were loaded from; each takes some hundred MB, and datasets share them."""


def create_app(
    config: Config,
    *,
    backend: Backend | None = None,
    worker: int | None = None,
    load_progress: LoadProgress = lambda name, done, total: None,
) -> Application:
    """Build the application. Reads the files of ``backend.load`` (this blocks); connects to nothing yet.

    Args:
        backend: in place of the configured one.
        worker: number of this process where there are several.
        load_progress: told how far the files are read.
    Raises:
        ConfigError: a setting, a file or a plugin cannot be used. PluginError: a plugin cannot be loaded.
    """
    settings = config.plugins
    plugins = load_plugins(
        settings.directory, enabled=settings.enabled, options=settings.options, budget_s=settings.budget_s
    )
    encoders: Encoders = {}
    datasets = [
        make_dataset(name, own, encoders, backend=backend, load_progress=load_progress)
        for name, own in config.by_dataset().items()
    ]
    return Application(config, datasets, plugins, worker=worker)


def make_dataset(
    name: str,
    config: Config,
    encoders: Encoders,
    *,
    backend: Backend | None = None,
    load_progress: LoadProgress = lambda name, done, total: None,
) -> Dataset:
    """One backend with its index and engine. *config*: of this dataset. *encoders*: those that are loaded, for all datasets.

    Raises:
        ConfigError
    """
    upkeep = make_upkeep(config, name, is_configured=backend is None, rebuilds_elsewhere=True)
    backend = backend or make_backend(config, load_progress)
    is_indexed = config.index.enabled
    return Dataset(
        name=name,
        backend=backend,
        settings=config,
        gateway=Gateway(name, backend, config, cache=make_cache(config.cache)),
        distil=upkeep.build if is_indexed else None,
        upkeep=upkeep if is_indexed else None,
        make_engine=engine_maker(config, encoders) if is_indexed and config.nl.enabled else None,
    )


def make_backend(config: Config, progress: LoadProgress) -> Backend:
    """The server at ``backend.url``, or an embedded store with the files of ``backend.load``.

    Raises:
        ConfigError
    """
    settings = config.backend
    if not settings.load:
        return backends.connect(settings, allowed_parameters=config.policy.allowed_parameters)
    from proxy.backends.embedded import EmbeddedBackend  # late: a proxy in front of a server needs no store

    return EmbeddedBackend.load(settings.load, progress=progress, timeout_s=settings.timeout_s)


def make_cache(settings: CacheSettings) -> ResponseCache | None:
    """The cache of answers, or None where none is wanted; connects to nothing yet.

    Raises:
        ConfigError: ``cache.url`` cannot be used.
    """
    if not settings.enabled:
        return None
    store: CacheStore
    if settings.url:
        from proxy.pipeline.cache_redis import RedisStore  # late: the package is an extra

        store = RedisStore(settings.url)
    else:
        store = MemoryStore(settings.limit_bytes)
    return ResponseCache(
        store,
        ttl_s=settings.ttl_s,
        entry_limit_bytes=settings.entry_limit_bytes,
        keeps_authenticated=settings.keeps_authenticated,
        trusted_s=settings.trusted_s or None,
        is_json=is_json,
    )


def is_json(document: bytes) -> bool:
    """Whether *document* is one JSON object or array and nothing else; seven times as fast as the standard library."""
    try:
        msgspec.json.decode(document, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return document.lstrip()[:1] in (b"{", b"[")


def make_limits(settings: LimitSettings) -> ClientLimits | None:
    """What each client may use, or None where nobody is limited."""
    preset = PRESETS[settings.preset]

    def allowance(per_minute: float, burst: float, default: Allowance | None) -> Allowance | None:
        rate = per_minute or (default.per_minute if default is not None else 0.0)
        if not rate:
            return None
        return Allowance(rate, burst or (default.burst if default is not None and not per_minute else rate))

    allowances = Allowances(
        requests=allowance(settings.requests_per_minute, settings.requests_burst, preset.requests),
        query_seconds=allowance(settings.query_seconds_per_minute, settings.query_seconds_burst, preset.query_seconds),
        errors=allowance(settings.errors_per_minute, settings.errors_burst, preset.errors),
    )
    return None if allowances == Allowances() else ClientLimits(allowances, max_clients=settings.max_clients)


def make_gate(config: Config) -> AccessGate:
    """Who may do what, by the keys in the file and in the environment.

    Raises:
        ConfigError: they cannot be read.
    """
    settings = config.access
    try:
        given = read_environment(settings.keys.value)
    except ValueError as error:
        raise ConfigError("access.keys", str(error)) from error
    path = Path(settings.keys_file) if settings.keys_file else None

    def complain(error: ConfigError) -> None:
        structlog.get_logger().error("keys_unreadable", error=str(error))

    keys = KeyFile(path, given, complain=complain)
    return AccessGate(keys, read_roles(settings.anonymous), is_local=is_loopback(config.server.host))


def engine_maker(config: Config, encoders: Encoders) -> MakeEngine:
    """How a question engine is made; the encoder is loaded once and kept over rebuilds."""

    def make(index: SupportIndex, values: ValueIndex) -> QuestionEngine:
        from proxy.nl.engine import QuestionEngine
        from proxy.nl.onnx import OnnxEncoder  # late: onnxruntime and transformers are heavy

        which = config.nl.encoder, config.nl.threads
        if which not in encoders:
            folder = Path(config.nl.encoder) if config.nl.encoder else None
            encoders[which] = OnnxEncoder(folder, threads=config.nl.threads)
        return QuestionEngine(index, values, encoders[which], config.nl)

    return make


class Application:
    """The ASGI application. *datasets* may be looked at from outside, for tests and for the command line.

    worker: number of this process where there are several. gather: asks all of them for their numbers, where there are.
    """

    def __init__(
        self, config: Config, datasets: list[Dataset], plugins: PluginChain, *, worker: int | None = None
    ) -> None:
        self.worker = worker
        self.gather: Callable[[], Awaitable[list[str]]] | None = None
        self.config = config
        self.datasets = datasets
        self.plugins = plugins
        if "index_refreshed" in plugins.active:
            for dataset in datasets:
                dataset.notify = plugins.index_refreshed
        paths = {dataset.name: SparqlPath(dataset, plugins) for dataset in datasets}
        questions = {name: QuestionAnswers(path) for name, path in paths.items()}
        limit = config.server.body_limit_bytes
        self.metrics = Metrics()
        self.limits = make_limits(config.limits)
        self._sparql = SparqlEndpoints(paths, questions, body_limit_bytes=limit)
        self._pages = Pages(paths, questions, body_limit_bytes=limit, metrics=self._expose)
        access = make_gate(config)
        self._admitted = Admission(
            self._answer, self.limits, trusted_proxies=config.server.trusted_proxies, access=access
        )
        self._own = Admission(self._pages, None, trusted_proxies=config.server.trusted_proxies, access=access)
        self._http = RequestLog(self._route, self.metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._http(scope, receive, send)
            case "lifespan":
                await self._lifespan(receive, send)

    def _route(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        app = self._own if scope["path"].startswith("/-/") else self._admitted
        return app(scope, receive, send)

    def _answer(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        app = self._pages if scope["path"] == "/text2sparql" else self._sparql
        return app(scope, receive, send)

    def numbers(self) -> str:
        """This process's page of ``/-/metrics``."""
        plugins = self.plugins.plugins
        return expose(
            self.metrics, self.datasets, limits=self.limits, plugins=plugins, worker=self.worker, version=__version__
        )

    async def _expose(self) -> str:
        return self.numbers() if self.gather is None else merge(await self.gather())

    async def startup(self) -> None:
        """Start the plugins, then building the indexes.

        Raises:
            PluginError: a plugin failed.
        """
        await self.plugins.startup()
        for dataset in self.datasets:
            dataset.start()

    async def shutdown(self) -> None:
        for dataset in self.datasets:
            await dataset.aclose()
        await self.plugins.shutdown()
        self._http.flush()

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
