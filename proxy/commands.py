"""What the commands of ``sparlance`` do, once their arguments are settings."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from proxy import __version__
from proxy.cli import DONE, FAILED, REFUSED
from proxy.config import OF_A_DATASET, SECRETS, SECTIONS, BackendSettings, Config, holds_password, keys
from proxy.errors import (
    Abstained,
    BackendError,
    BackendTimeout,
    BackendUnreachable,
    ConfigError,
    MalformedQuery,
    ProxyError,
)

if TYPE_CHECKING:
    from proxy.index.support import SupportIndex


class ProgressLine:
    """Tells how far long work is: one line that is written over on a terminal, a line for each phase elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._phase = ""
        self._width = 0

    def __call__(self, phase: str, done: int, total: int) -> None:
        if self._is_terminal:
            text = f"{phase} {done}/{total}" if total else phase
            self._stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        elif phase != self._phase:
            self._stream.write(f"{phase} ...\n")
        self._phase = phase
        self._stream.flush()

    def of(self, what: str) -> Callable[[str, int, int], None]:
        """The same, with *what* is done put before each phase."""
        return lambda phase, done, total: self(f"{what} {phase}", done, total)

    def end(self) -> None:
        """Take the line away again."""
        if self._is_terminal and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0


# -- serve, demo


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
        _say(f"sparlance: a new worker starts from the configuration of the start: {error}")
        return config


def demo(config: Config) -> int:
    """Serve the demo graph, with checks and questions on whatever the settings say; print the tour once all of it works."""
    from proxy.demo.coast import graph, ontology
    from proxy.demo.tour import stops

    async def told(url: str, datasets: Sequence[Any]) -> None:
        for dataset in datasets:
            await dataset.built()
            if reasons := dataset.reasons():
                _say(f"sparlance: the demo is not complete: {'; '.join(reasons)}")
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


def require_source(config: Config) -> None:
    """Raise ConfigError, saying what to give, if there is nothing to serve."""
    if not (config.datasets or config.backend.url or config.backend.load):
        raise ConfigError(
            "",
            "nothing to serve: give --load FILE (RDF files), or --backend KIND --url ROOT_URL (a server); try sparlance demo",
        )


Told = Callable[[str, Sequence[Any]], Awaitable[None]]


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
        _say(f"warning: {config.server.host} can be reached by other machines; without an API key they may: {may} ([access])")
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


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# -- check, index, ask: the same parts without a server


@asynccontextmanager
async def _dataset(config: Config, *, nl: bool, is_fresh: bool = False) -> AsyncIterator[Any]:
    """Open the dataset that the settings describe, with its index built; *is_fresh*: anew, whatever file there is.

    Raises:
        ProxyError: it cannot be built.
    """
    require_source(config)
    from proxy.app import create_app
    from proxy.log import configure

    if config.log.level != "debug":
        # What goes wrong is raised below, as one sentence; the event would say it twice.
        configure(msgspec.structs.replace(config.log, level="error"))
    settings = msgspec.structs.replace(
        config,
        nl=msgspec.structs.replace(config.nl, enabled=nl),
        index=msgspec.structs.replace(config.index, enabled=True),
    )
    progress = ProgressLine(sys.stderr)
    [dataset] = create_app(settings, load_progress=progress.of("loading")).datasets
    if is_fresh and dataset.upkeep is not None and dataset.upkeep.path is not None:
        dataset.upkeep.path.unlink(missing_ok=True)
    try:
        dataset.start()
        built = asyncio.create_task(dataset.built())
        while not built.done():
            build = dataset.index_build
            if dataset.index is None and build.phase:
                progress(f"indexing {build.phase}", build.done, build.total)
            elif dataset.index is not None and nl:
                progress("making the question engine", 0, 0)
            await asyncio.wait([built], timeout=0.05)
        progress.end()
        if reasons := dataset.reasons():
            raise ProxyError("; ".join(reasons) + await _advice(dataset.backend))
        if (index := dataset.index) is not None and not index.triples and index.incomplete:
            # A server that is no store refuses every query alike; an index of nothing would be taken for an empty graph.
            advice = await _advice(dataset.backend) or f": {index.incomplete[0].reason}"
            raise ProxyError(f"nothing could be read of the graph behind {dataset.backend.name}{advice}")
        yield dataset
    finally:
        progress.end()
        await dataset.aclose()


async def _advice(backend: Any) -> str:
    """What to do where it is the server that is in the way; empty where it answers, so that the fault is another."""
    try:
        await backend.probe(timeout_s=5.0)
    except (BackendUnreachable, BackendTimeout):
        return ". Start the server, or give the root URL of one that runs with --url; --load RDF_FILE needs none"
    except BackendError:
        return ". Something else answers there: check the root URL (--url), the kind (--backend) and the name (--repository)"
    return ""


def check(config: Config, text: str, *, as_json: bool) -> int:
    """Print the findings on the query *text*; REFUSED if it is not SPARQL, or proved to have no solutions."""
    require_source(config)
    from proxy.query.model import ParsedQuery
    from proxy.query.parse import parse

    try:
        parsed = parse(text)
    except MalformedQuery as error:
        _print_findings([], as_json=as_json, verdict="malformed", error=error)
        return REFUSED
    if not isinstance(parsed, ParsedQuery):
        raise ProxyError("this is an update; only a query can be checked against the graph")
    return asyncio.run(_check(config, parsed, as_json=as_json))


async def _check(config: Config, parsed: Any, *, as_json: bool) -> int:
    from proxy.pipeline.sparql import may_be_refused
    from proxy.validation.check import check as findings_of
    from proxy.validation.finding import Severity

    async with _dataset(config, nl=False) as dataset:
        findings = findings_of(
            parsed, dataset.index, values=dataset.values, fetches_graphs=dataset.backend.fetches_graphs
        )
        verdict = "pass"
        for finding in findings:
            if finding.severity is Severity.PROVED_EMPTY and finding.confirmation and may_be_refused(parsed):
                has_solutions = await dataset.backend.ask(finding.confirmation, timeout_s=config.validation.confirm_timeout_s)
                verdict = verdict if has_solutions else "reject"
    _print_findings(findings, as_json=as_json, verdict=verdict)
    return REFUSED if verdict == "reject" else DONE


def _print_findings(findings: Sequence[Any], *, as_json: bool, verdict: str, error: MalformedQuery | None = None) -> None:
    if as_json:
        shown: dict[str, Any] = {"verdict": verdict, "findings": findings}
        if error is not None:
            shown |= {"message": str(error), "line": error.line, "column": error.column}
        print(msgspec.json.format(msgspec.json.encode(shown)).decode())
        return
    if error is not None:
        where = f"{error.line}:{error.column}: " if error.line else ""
        print(f"{where}{error}")
    for finding in findings:
        print(f"{finding.line}:{finding.column}: {finding.severity}: {finding.pattern}")
        print(f"    {finding.message}")
        for label, lines in (("because", [finding.evidence]), ("try", finding.suggestions)):
            for line in filter(None, lines):
                print(f"    {label}: {line}")
    print(
        {"pass": "pass", "reject": "reject: the query can have no solutions on this graph"}.get(verdict, "reject: not SPARQL")
    )


def show_index(config: Config, *, as_json: bool) -> int:
    """Build the index and print what it holds."""

    async def summary() -> dict[str, Any]:
        async with _dataset(config, nl=False) as dataset:
            shown: dict[str, Any] = dataset.summary()
            shown["properties_by_class"] = {c: _triples_of(dataset.index, c) for c in dataset.index.class_instances}
            return shown

    shown = asyncio.run(summary())
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(shown)).decode())
        return DONE
    print(f"{shown['backend']}: {shown['triples']} triples, {len(shown['classes'])} classes, {shown['properties']} properties")
    for part in shown["incomplete"]:
        print(f"incomplete: class {part['class'] or 'any'}, property {part['property'] or 'any'}: {part['reason']}")
    for class_, instances in shown["classes"].items():
        print(f"\n{class_}  ({instances} instances)")
        for property_, triples in sorted(shown["properties_by_class"][class_].items()):
            print(f"    {property_}  {triples}")
    return DONE


def show_ttql(
    config: Config,
    classes: Sequence[str],
    *,
    depth: int | None,
    sample: int | None,
    floor: float | None,
    budget_tokens: int | None,
    budget_lines: int | None,
) -> int:
    """Build the index and print the TTQL document, or as much of it as is wanted."""
    from proxy.index.ttql_text import render
    from proxy.pipeline.ttql import describe

    async def text() -> str:
        async with _dataset(config, nl=False) as dataset:
            progress = ProgressLine(sys.stderr)
            try:
                document = await describe(
                    dataset, classes, progress=progress.of("describing"), depth=depth, sample=sample, floor=floor,
                    budget_tokens=budget_tokens, budget_lines=budget_lines,
                )  # fmt: skip
            finally:
                progress.end()
            return render(document)

    print(asyncio.run(text()), end="")
    return DONE


def build_index(config: Config) -> int:
    """Build the index anew and leave it in its file; FAILED if it cannot be kept there."""
    from proxy.indexing import archive_path

    require_source(config)
    if not config.index.directory:
        raise ConfigError("index.directory", "not set; accepted: the folder that the index is kept in")

    async def build() -> tuple[dict[str, Any], str]:
        async with _dataset(config, nl=False, is_fresh=True) as dataset:
            shown: dict[str, Any] = dataset.summary()
            return shown, str(archive_path(config, dataset.name))

    shown, path = asyncio.run(build())
    cost = shown["cost"]
    print(
        f"{shown['backend']}: {shown['triples']} triples, {shown['cells']} cells, {cost['queries']} queries, "
        f"{cost['elapsed_s']} s, {cost.get('replayed', 0)} answers from a build before"
    )
    for part in shown["incomplete"]:
        print(f"incomplete: class {part['class'] or 'any'}, property {part['property'] or 'any'}: {part['reason']}")
    if error := shown["file"]["error"]:
        raise ProxyError(error)
    print(f"kept in {path}, {cost['file_bytes']} bytes")
    return DONE


def verify_index(config: Config, *, cells: int, paths: int, seed: int, as_json: bool) -> int:
    """Hold the index (the one in the file, if there is one) against the live graph; REFUSED if it is wrong anywhere."""
    from proxy.pipeline.asking import scope_of
    from proxy.pipeline.verify import verify

    async def run() -> dict[str, Any]:
        progress = ProgressLine(sys.stderr)
        async with _dataset(config, nl=False) as dataset:
            try:
                found = await verify(
                    dataset.backend,
                    dataset.index,
                    dataset.values,
                    cells=cells,
                    paths=paths,
                    seed=seed,
                    timeout_s=config.index.chunk_timeout_s,
                    parameters=scope_of(config).parameters,
                    progress=progress.of("verifying"),
                )
            finally:
                progress.end()
            return found.summary() | {"epoch": dataset.index.epoch, "built_at": dataset.index.built_at}

    shown = asyncio.run(run())
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(shown)).decode())
    else:
        for line in shown["wrong"]:
            print(f"wrong: {line}")
        agree = "agree" if shown["counts_agree"] else "do not agree"
        print(
            f"{shown['cells']} cells counted again, {shown['paths']} paths walked, {shown['skipped']} skipped, "
            f"{len(shown['wrong'])} wrong; the counts of properties and classes {agree}"
        )
    return DONE if shown["is_true"] else REFUSED


def _triples_of(index: SupportIndex, class_: str) -> dict[str, int]:
    """Property → triples whose subject has *class_*, each counted once, however many classes its object has."""
    totals: dict[str, int] = {}
    with_class = index.kinds_with_class(class_)
    for position in with_class[index.subject].nonzero()[0].tolist():
        cell = index.cell(position)
        totals[cell.property] = totals.get(cell.property, 0) + cell.count
    return totals


def ask(config: Config, question: str, *, language: str | None, style: str) -> int:
    """Print the answer to *question*, or only its query; REFUSED if no answer is good enough."""
    require_source(config)
    try:
        return asyncio.run(_ask(config, question, language=language, style=style))
    except Abstained as error:
        _say(f"sparlance: {error}")
        return REFUSED


async def _ask(config: Config, question: str, *, language: str | None, style: str) -> int:
    from proxy.pipeline.question import translate
    from proxy.query.model import ParsedQuery, QueryForm
    from proxy.query.operation import Question
    from proxy.query.parse import parse

    async with _dataset(config, nl=True) as dataset:
        translation = await translate(Question(question, language), dataset)
        if style == "query":
            print(translation.query)
            return DONE
        parsed = parse(translation.query)
        if isinstance(parsed, ParsedQuery) and parsed.form is QueryForm.ASK:
            answer = await dataset.backend.ask(translation.query, timeout_s=config.nl.timeout_s)
            print(msgspec.json.encode({"head": {}, "boolean": answer}).decode() if style == "json" else ("no", "yes")[answer])
            return DONE
        solutions = await dataset.backend.select(translation.query, timeout_s=config.nl.timeout_s)
    if style == "json":
        bindings = [
            {v: _as_json(t) for v, t in zip(solutions.variables, row, strict=True) if t is not None} for row in solutions.rows
        ]
        document = {"head": {"vars": solutions.variables}, "results": {"bindings": bindings}}
        print(msgspec.json.format(msgspec.json.encode(document)).decode())
    else:
        rows = [["" if t is None else _as_text(t) for t in row] for row in solutions.rows]
        print(table(list(solutions.variables), rows))
    return DONE


def evaluate(
    config: Config,
    questions: Path,
    *,
    compare: Path | None,
    save: Path | None,
    limit: int | None,
    languages: Sequence[str],
    plots: Path | None = None,
    without: Sequence[str] = (),
) -> int:
    """Ask the questions of a file, print the report, and with *save* keep the run for a later *compare*.

    without: parts of the engine to leave out. Memory is never used: what is in it may be the questions asked here.
    """
    from proxy.ablation import leave_out
    from proxy.evaluating import evaluate as ask_all
    from proxy.evaluating import graph_of, read_questions, read_run, save_run
    from proxy.evaluation.parts import Part
    from proxy.evaluation.report import compare as difference
    from proxy.evaluation.report import markdown

    asked = read_questions(questions, languages=languages)[:limit]
    old = read_run(compare) if compare is not None else []
    if not (config.backend.url or config.backend.load) and (files := graph_of(questions)):
        config = msgspec.structs.replace(config, backend=msgspec.structs.replace(config.backend, load=tuple(files)))
    require_source(config)

    async def run() -> int:
        progress = ProgressLine(sys.stderr)
        async with _dataset(config, nl=True) as dataset:
            switches = dataclasses.replace(leave_out(map(Part, without), dataset), memory=False)
            outcomes = await ask_all(asked, dataset, progress=progress, switches=switches)
        progress.end()
        if len(outcomes) < len(asked):
            _say(f"sparlance: {len(asked) - len(outcomes)} gold queries do not run on this graph; they are left out")
        if not outcomes:
            return FAILED
        if save is not None:
            save_run(save, outcomes)
        title = f"{questions.name}{''.join(f', without {part}' for part in without)}"
        print(markdown(outcomes, title=title, differences=difference(old, outcomes)), end="")
        if plots is not None:
            from proxy.evaluation.plots import write_plots

            _say(f"sparlance: wrote {', '.join(str(p) for p in write_plots(plots, outcomes))}")
        return DONE

    return asyncio.run(run())


# -- train, pairs


def train_ranker(
    config: Config,
    pairs: Sequence[Path],
    output: Path,
    *,
    samples: Sequence[Path],
    keep: Path | None,
    limit: int | None,
    from_scratch: bool,
    encoder: Path | None,
    epochs: int,
    seed: int,
) -> int:
    """Fit a ranking, write it into the folder *output*, and print its model card."""
    from proxy.train import train_ranker as train
    from proxy.training.crossencoder import Recipe
    from proxy.training.fitting import Source

    if not pairs and not samples:
        raise ConfigError("pairs", "nothing to train on: name a file or folder with --pairs, or --samples")
    _quiet(config)
    source = Source(encoder, Recipe(epochs=epochs, seed=seed)) if encoder is not None else None
    progress = ProgressLine(sys.stderr)
    try:
        card = train(
            config, pairs, output, samples=samples, keep=keep, limit=limit, from_scratch=from_scratch, source=source,
            command="sparlance train ranker", told=progress,
        )  # fmt: skip
    finally:
        progress.end()
    print(card, end="")
    return DONE


def synthesize(config: Config, output: Path, *, count: int, seed: int) -> int:
    """Write synthetic pairs about the graph that *config* serves."""
    from proxy.train import synthesize as make

    require_source(config)
    _quiet(config)
    progress = ProgressLine(sys.stderr)
    try:
        made, tried = make(config, output, count=count, seed=seed, told=progress)
    finally:
        progress.end()
    _say(f"sparlance: {made} pairs in {output}; {tried} wordings were tried")
    return DONE if made else FAILED


def _quiet(config: Config) -> None:
    """Log errors only: what goes wrong is raised as one sentence, and the event would say it twice."""
    from proxy.log import configure

    if config.log.level != "debug":
        configure(msgspec.structs.replace(config.log, level="error"))


def lint_pairs(config: Config, files: Sequence[Path]) -> int:
    """Say what is wrong with a user's pairs on this graph; fails if one cannot be used."""
    from proxy.pairs import lint, read

    pairs = read(files)

    async def run() -> int:
        async with _dataset(config, nl=False) as dataset:
            return await lint(pairs, dataset, print)

    bad = asyncio.run(run())
    _say(f"sparlance: {len(pairs)} pairs, {bad} of them cannot be used")
    return REFUSED if bad else DONE


def import_pairs(config: Config, files: Sequence[Path]) -> int:
    """Put a user's pairs into the memory of the dataset; those that do not fit the graph are left out, and said."""
    from proxy.pairs import read, remember

    pairs = read(files)

    async def run() -> tuple[int, list[str]]:
        async with _dataset(config, nl=False) as dataset:
            return await remember(pairs, dataset)

    held, left_out = asyncio.run(run())
    for line in left_out:
        print(line)
    _say(f"sparlance: {len(pairs) - len(left_out)} of {len(pairs)} pairs taken; the memory holds {held}")
    return DONE if len(left_out) < len(pairs) else REFUSED


def split_pairs(files: Sequence[Path], folder: Path, *, share: float) -> int:
    """Write train.jsonl and test.jsonl, which have no template of a query in common."""
    from proxy.pairs import read, split, write

    train, test = split(read(files), share=share)
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "train.jsonl", train)
    write(folder / "test.jsonl", test)
    _say(f"sparlance: {len(train)} pairs in {folder / 'train.jsonl'}, {len(test)} in {folder / 'test.jsonl'}")
    return DONE


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell, with a rule under the heads."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [heads, ["-" * w for w in widths], *rows]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def _as_text(term: Any) -> str:
    from proxy.query.term import BlankNode, Iri, Literal

    match term:
        case Iri():
            return str(term)
        case Literal():
            return str(term.lexical)
        case BlankNode():
            return f"_:{term.label}"
    return f"<< {_as_text(term.subject)} {_as_text(term.predicate)} {_as_text(term.object)} >>"


def _as_json(term: Any) -> dict[str, Any]:
    """A term as in SPARQL 1.1 Query Results JSON Format, section 3.2.2."""
    from proxy.query.term import XSD_STRING, BlankNode, Iri, Literal

    match term:
        case Iri():
            return {"type": "uri", "value": term.value}
        case BlankNode():
            return {"type": "bnode", "value": term.label}
        case Literal(language=str() as language):
            return {"type": "literal", "value": term.lexical, "xml:lang": language}
        case Literal():
            datatype = {} if term.datatype == XSD_STRING else {"datatype": term.datatype}
            return {"type": "literal", "value": term.lexical, **datatype}
    parts = {"subject": term.subject, "predicate": term.predicate, "object": term.object}
    return {"type": "triple", "value": {name: _as_json(part) for name, part in parts.items()}}


# -- config


def config_as_toml(config: Config) -> str:
    """The settings in effect, as a file that would bring them about; secrets are not in it."""
    lines: list[str] = []
    for section in SECTIONS:
        lines += [f"[{section}]", *_settings_as_toml(config, section, keys(section))]
        for name, options in config.plugins.options.items() if section == "plugins" else ():
            lines += ["", f"[plugins.{name}]", *(f"{_toml_key(k)} = {_toml(v)}" for k, v in options.items())]
        lines.append("")
    for name, own in config.datasets.items():
        for section in OF_A_DATASET:
            base, settings = getattr(config, section), getattr(own, section)
            differing = [k for k in keys(section) if getattr(settings, k) != getattr(base, k)]
            if shown := _settings_as_toml(own, section, differing):
                lines += [f"[datasets.{name}.{section}]", *shown, ""]
    return "\n".join(lines)


def _settings_as_toml(config: Config, section: str, names: Iterable[str]) -> list[str]:
    settings, lines = getattr(config, section), []
    for k in names:
        key, value = f"{section}.{k}", getattr(settings, k)
        if key not in SECRETS and not holds_password(key, value):
            lines.append(f"{k} = {_toml(value)}")
    return lines


def _toml_key(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else _toml(name)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml_key(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool | str):
        return msgspec.json.encode(value).decode()  # a JSON string is a TOML basic string
    return str(value)
