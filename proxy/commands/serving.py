"""``serve`` and ``demo``."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from proxy import __version__
from proxy.commands import DONE, FAILED
from proxy.commands.opening import require_source
from proxy.commands.output import ProgressLine, say
from proxy.config import BackendSettings, Config
from proxy.errors import ProxyError

Told = Callable[[str, Sequence[Any]], Awaitable[None]]


def serve(config: Config, *, reread: Callable[[], Config]) -> int:
    """Serve until a signal says stop; SIGHUP: go on by what *reread* returns then."""

    def again() -> Config:
        read = reread()
        require_source(read)
        return read

    require_source(config)
    if hasattr(signal, "SIGHUP"):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])  # it waits until there is a handler; the default would end us
    if config.server.workers > 1:
        return _serve_by_workers(config, again)
    app, listener = _prepare(config)
    app.reread = again
    return _run(app, listener, told=_nothing_more)


def _serve_by_workers(config: Config, reread: Callable[[], Config]) -> int:
    """Take the port, then have workers serve it; each makes its own application."""
    from proxy.log import configure
    from proxy.workers import Siblings, Supervisor, Worker

    configure(config.log)
    with _listen(config) as listener, tempfile.TemporaryDirectory(prefix="sparlance-") as folder:

        def work(worker: Worker) -> int:
            is_speaker = worker.is_first and worker.number == 0
            app = _load(config if worker.is_first else _latest(config, reread), worker=worker.number, is_quiet=not is_speaker)
            app.reread, app.tell_others = reread, worker.tell_hangup
            siblings = Siblings(Path(folder), worker.number, app.numbers)
            app.gather = siblings.pages

            async def told(url: str, datasets: Sequence[Any]) -> None:
                await siblings.start()
                worker.tell_ready()

            return _run(app, listener, told=told, is_quiet=not is_speaker)

        server = config.server
        return Supervisor(work, workers=server.workers, shutdown_s=server.shutdown_timeout_s, failed=FAILED).run()


def _latest(config: Config, reread: Callable[[], Config]) -> Config:
    """What a worker that takes another's place is to serve: what is in the file, unless it cannot be used."""
    from proxy.reloading import require_reloadable

    try:
        return require_reloadable(config, reread)
    except ProxyError as error:
        say(f"sparlance: a new worker starts from the configuration of the start: {error}")
        return config


def demo(config: Config) -> int:
    """Serve the demo graph, with checks and questions on whatever the settings say; print the tour once all of it works."""
    from proxy.demo.coast import graph, ontology
    from proxy.demo.tour import stops

    async def told(url: str, datasets: Sequence[Any]) -> None:
        for dataset in datasets:
            await dataset.built()
            if reasons := dataset.reasons():
                say(f"sparlance: the demo is not complete: {'; '.join(reasons)}")
                return
        lines = ["", "Three things to paste into another terminal:"]
        for stop in stops(url):
            lines += ["", f"# {stop.promise}", stop.command]
        print(*lines, "", "Ctrl-C ends the demo.", sep="\n", flush=True)

    with tempfile.TemporaryDirectory(prefix="sparlance-demo-") as folder:
        files = {"coast.nt": graph(), "ontology.ttl": ontology()}
        for name, text in files.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        settings = msgspec.structs.replace(
            config,
            backend=BackendSettings(load=tuple(str(Path(folder, name)) for name in files)),
            server=msgspec.structs.replace(config.server, workers=1),
            index=msgspec.structs.replace(config.index, enabled=True, directory=""),
            validation=msgspec.structs.replace(config.validation, policy="reject"),
            nl=msgspec.structs.replace(config.nl, enabled=True),
            datasets={},
        )
        prepared = _prepare(settings)  # reads the files; after that they are not needed
    return _run(*prepared, told=told)


async def _nothing_more(url: str, datasets: Sequence[Any]) -> None:
    """The address is all that ``serve`` prints."""


def _prepare(config: Config) -> tuple[Any, socket.socket]:
    """Take the port, then make the application, which reads the files."""
    from proxy.log import configure

    configure(config.log)
    listener = _listen(config)
    try:
        return _load(config), listener
    except BaseException:
        listener.close()
        raise


def _listen(config: Config) -> socket.socket:
    from proxy.server import bind, is_loopback

    listener = bind(config.server)
    if not is_loopback(listener) and config.access.anonymous:
        may = ", ".join(config.access.anonymous)
        say(f"warning: {config.server.host} can be reached by other machines; without an API key they may: {may} ([access])")
    return listener


def _load(config: Config, *, worker: int | None = None, is_quiet: bool = False) -> Any:
    """Make the application, showing how far the files are read."""
    from proxy.app import create_app

    if is_quiet:
        return create_app(config, worker=worker)
    progress = ProgressLine(sys.stderr)
    try:
        return create_app(config, worker=worker, load_progress=progress.of("loading"))
    finally:
        progress.end()


def _run(app: Any, listener: socket.socket, *, told: Told, is_quiet: bool = False) -> int:
    import structlog

    from proxy.server import run, url_of

    url = url_of(listener)
    tasks: set[asyncio.Task[None]] = set()

    async def reload() -> None:
        with suppress(ProxyError):  # it is in the log, and the configuration in effect stays
            await app.reload()

    def hang_up() -> None:
        task = asyncio.create_task(reload())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def announce() -> None:
        if app.reread is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hang_up)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])  # the supervisor of workers has it blocked
        datasets = tuple(app.datasets)
        names = ", ".join(dataset.backend.name for dataset in datasets)
        structlog.get_logger().info("serving", url=url, backend=names, version=__version__)
        if not is_quiet:
            is_built = any(dataset.distil is not None for dataset in datasets)
            waits = "; the index is being built, /-/ready tells when" if is_built else ""
            print(f"Sparlance answers at {url}/sparql, in front of {names}{waits}", flush=True)
        tasks.add(asyncio.create_task(_coroutine(told(url, datasets))))

    return DONE if run(app, listener, app.config.server, announce=announce) else FAILED


async def _coroutine(awaitable: Awaitable[None]) -> None:
    await awaitable
