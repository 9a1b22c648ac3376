"""The one place that knows everybody: config → backend, index, engine, plugins → one ASGI application."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from proxy import backends
from proxy.backends.base import Backend, Parameters, Solutions
from proxy.backends.loading import Progress as LoadProgress
from proxy.config import Config
from proxy.index.support import SupportIndex
from proxy.pipeline.dataset import Dataset, Distil, MakeEngine, Progress
from proxy.pipeline.distil import Distilled, distil
from proxy.pipeline.sparql import SparqlPath
from proxy.plugin.chain import PluginChain, load_plugins
from proxy.protocol.asgi import Receive, Scope, Send
from proxy.protocol.endpoints import SparqlEndpoints
from proxy.protocol.middleware import RequestLog
from proxy.protocol.pages import Pages
from proxy.protocol.questions import QuestionAnswers

if TYPE_CHECKING:
    from proxy.index.values import ValueIndex
    from proxy.nl.engine import QuestionEngine
    from proxy.nl.onnx import OnnxEncoder

DEFAULT_DATASET = "default"


def create_app(
    config: Config,
    *,
    backend: Backend | None = None,
    load_progress: LoadProgress = lambda name, done, total: None,
) -> Application:
    """Build the application. Reads the files of ``backend.load`` (this blocks); connects to nothing yet.

    Args:
        backend: in place of the configured one.
        load_progress: told how far the files are read.
    Raises:
        ConfigError: a setting, a file or a plugin cannot be used. PluginError: a plugin cannot be loaded.
    """
    plugins = load_plugins(config.plugins.directory, enabled=config.plugins.enabled, options=config.plugins.options)
    backend = backend or make_backend(config, load_progress)
    is_indexed = config.index.enabled
    dataset = Dataset(
        name=DEFAULT_DATASET,
        backend=backend,
        settings=config,
        distil=distiller(config) if is_indexed else None,
        make_engine=engine_maker(config) if is_indexed and config.nl.enabled else None,
    )
    return Application(config, [dataset], plugins)


def make_backend(config: Config, progress: LoadProgress) -> Backend:
    """The server at ``backend.url``, or an embedded store with the files of ``backend.load``.

    Raises:
        ConfigError
    """
    settings = config.backend
    if not settings.load:
        return backends.connect(settings)
    from proxy.backends.embedded import EmbeddedBackend  # late: a proxy in front of a server needs no store

    return EmbeddedBackend.load(settings.load, progress=progress, timeout_s=settings.timeout_s)


def distiller(config: Config) -> Distil:
    """How an index is built under *config*."""
    settings = config.index

    async def run(backend: Backend, progress: Progress, epoch: int) -> Distilled:
        source: Backend = UnionDefaultGraph(backend) if settings.union_default_graph else backend
        return await distil(source, settings, progress=progress, epoch=epoch)

    return run


def engine_maker(config: Config) -> MakeEngine:
    """How a question engine is made; the encoder is loaded once and kept over rebuilds."""
    encoders: list[OnnxEncoder] = []

    def make(index: SupportIndex, values: ValueIndex) -> QuestionEngine:
        from proxy.nl.engine import QuestionEngine
        from proxy.nl.onnx import OnnxEncoder  # late: onnxruntime and transformers are heavy

        if not encoders:
            folder = Path(config.nl.encoder) if config.nl.encoder else None
            encoders.append(OnnxEncoder(folder, threads=config.nl.threads))
        return QuestionEngine(index, values, encoders[0], config.nl)

    return make


class UnionDefaultGraph:
    """A backend whose own queries see all graphs as one (Oxigraph's parameter; other products do so by themselves)."""

    _FLAG = (("union-default-graph", "true"),)

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.name = backend.name
        self.query_path, self.update_path, self.paths = backend.query_path, backend.update_path, backend.paths
        self.refused_parameters = backend.refused_parameters
        self.send, self.probe, self.aclose = backend.send, backend.probe, backend.aclose

    async def select(
        self, query: str, *, timeout_s: float, limit_rows: int | None = None, parameters: Parameters = ()
    ) -> Solutions:
        both = (*parameters, *self._FLAG)
        return await self._backend.select(query, timeout_s=timeout_s, limit_rows=limit_rows, parameters=both)

    async def ask(self, query: str, *, timeout_s: float, parameters: Parameters = ()) -> bool:
        return await self._backend.ask(query, timeout_s=timeout_s, parameters=(*parameters, *self._FLAG))


class Application:
    """The ASGI application. *datasets* may be looked at from outside, for tests and for the command line."""

    def __init__(self, config: Config, datasets: list[Dataset], plugins: PluginChain) -> None:
        self.config = config
        self.datasets = datasets
        self.plugins = plugins
        paths = {dataset.name: SparqlPath(dataset, plugins) for dataset in datasets}
        questions = {name: QuestionAnswers(path) for name, path in paths.items()}
        limit = config.server.body_limit_bytes
        self._sparql = SparqlEndpoints(paths, questions, body_limit_bytes=limit)
        self._pages = Pages(paths, questions, body_limit_bytes=limit).router
        self._http = RequestLog(self._route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._http(scope, receive, send)
            case "lifespan":
                await self._lifespan(receive, send)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path.startswith("/-/") or path == "/text2sparql":
            await self._pages(scope, receive, send)
        else:
            await self._sparql(scope, receive, send)

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
