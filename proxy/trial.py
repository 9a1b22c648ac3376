"""``sparlance plugin new`` and ``plugin test``: begin a plugin, and send one every kind of request there is."""

from __future__ import annotations

import asyncio
import difflib
import inspect
import keyword
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from proxy.app import Application, create_app
from proxy.config import Config, LogSettings, PluginSettings, load_config
from proxy.errors import ProxyError
from proxy.log import configure
from proxy.plugin.chain import HOOKS, LoadedPlugin
from proxy.plugin.hooks import Plugin
from proxy.plugin.loading import load_file
from proxy.protocol.asgi import Message

TEMPLATE = '''"""Say which query form was asked.

Options:
    header: name of the field of the response. Default: X-Query-Form.
"""

import msgspec

from proxy import Exchange, Plugin


class Options(msgspec.Struct, frozen=True):
    header: str = "X-Query-Form"


def load(options: Options) -> Plugin:
    return QueryForm(options)


class QueryForm(Plugin):
    may_refuse = False  # True: a guard, whose failure refuses the request

    def __init__(self, options: Options) -> None:
        self.header = options.header

    def query(self, exchange: Exchange) -> None:
        if exchange.parsed is not None:
            exchange.add_header(self.header, getattr(exchange.parsed, "form", "UPDATE"))
'''
GRAPH = """
<http://example.org/ann> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://example.org/Person> .
<http://example.org/ann> <http://example.org/knows> <http://example.org/bob> .
<http://example.org/ann> <http://www.w3.org/2000/01/rdf-schema#label> "Ann"@en .
<http://example.org/bob> <http://example.org/knows> <http://example.org/ann> <http://example.org/graph> .
"""
QUERY, UPDATE = b"application/sparql-query", b"application/sparql-update"
REQUESTS: tuple[tuple[str, str, str, bytes, bytes], ...] = (
    # what it is, method, path, Content-Type, body
    ("SELECT", "POST", "/query", QUERY, b"SELECT * { ?s <http://example.org/knows> ?o }"),
    ("SELECT of everything", "POST", "/query", QUERY, b"SELECT * { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }"),
    ("ASK by GET", "GET", "/query?query=ASK%20%7B%7D", b"", b""),
    ("CONSTRUCT", "POST", "/query", QUERY, b"CONSTRUCT WHERE { ?s ?p ?o }"),
    ("DESCRIBE", "POST", "/query", QUERY, b"DESCRIBE <http://example.org/ann>"),
    ("query of another dataset", "POST", "/query?default-graph-uri=http://example.org/graph", QUERY, b"SELECT * { ?s ?p ?o }"),
    ("query that can have no answer", "POST", "/query", QUERY, b"SELECT * { ?s <http://example.org/unknown> ?o }"),
    ("text that is no SPARQL", "POST", "/query", QUERY, b"SELECT * { ?s ?p"),
    ("update", "POST", "/update", UPDATE, b"INSERT DATA { <http://example.org/a> <http://example.org/b> 1 }"),
    ("update of everything", "POST", "/update", UPDATE, b"DELETE WHERE { ?s <http://example.org/b> ?o }"),
    ("graph by the graph store", "GET", "/store?graph=http://example.org/graph", b"", b""),
    ("whole store", "GET", "/store", b"", b""),
    ("head of a graph", "HEAD", "/store?default", b"", b""),
    ("upload", "PUT", "/store?graph=http://example.org/new", b"text/turtle", b"<urn:a> a <urn:b> ."),
    ("service description", "GET", "/query", b"", b""),
    ("check", "POST", "/-/check", QUERY, b"SELECT * { ?s ?p ?o }"),
    ("question", "GET", "/query?nl=whom%20does%20Ann%20know", b"", b""),
)


def new_plugin(config: Config, name: str) -> Path:
    """Write the beginning of plugin *name* into the folder of plugins.

    Raises:
        ProxyError: it cannot have this name, or is there already.
    """
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name) or name.startswith("_"):
        raise ProxyError(f'"{name}" is no name for a plugin: letters, digits and _, as of a Python module')
    file = Path(config.plugins.directory) / f"{name}.py"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as out:
            out.write(TEMPLATE)
    except FileExistsError as exc:
        raise ProxyError(f"{file} is there already") from exc
    except OSError as exc:
        raise ProxyError(f"cannot write {file}: {exc.strerror}") from exc
    return file


def complaints(plugin: Plugin) -> Iterator[str]:
    """What its author probably did not mean: hooks with other arguments than they are called with, and misspelt ones."""
    for cls in type(plugin).__mro__[:-2]:
        for name, value in vars(cls).items():
            if not inspect.isfunction(value) or name.startswith("_"):
                continue
            if name in HOOKS:
                wanted = list(inspect.signature(getattr(Plugin, name)).parameters)
                try:
                    inspect.signature(value).bind(*wanted)
                except TypeError:
                    yield f"{name}{inspect.signature(value)} is called with ({', '.join(wanted)})"
            elif cls is not Plugin and (close := difflib.get_close_matches(name, HOOKS, n=1, cutoff=0.8)):
                yield f"{name} is no hook, and is never called; did you mean {close[0]}?"


def try_plugin(config: Config, file: Path) -> bool:
    """Send the plugin in *file*, with its options in *config*, requests of every kind, and print what became of them.

    They are about a graph of four statements; the configured data are not touched. What the plugin itself does to files and
    servers, it does.

    Returns:
        Whether nothing failed; refusing is no failure.
    Raises:
        ProxyError: there is no such file, or it cannot be loaded.
    """
    if not file.is_file():
        raise ProxyError(f"there is no file {file}")
    configure(LogSettings(level="warning"))
    options = config.plugins.options.get(file.stem, {})
    wrong = list(complaints(load_file(file, options).plugin))
    with tempfile.TemporaryDirectory(prefix="sparlance-") as folder:
        data = Path(folder) / "data.nq"
        data.write_text(GRAPH, encoding="utf-8")
        overrides = {"backend.load": [str(data)], "nl.enabled": False, "policy.allow_updates": True, "index.directory": ""}
        settings = PluginSettings(
            directory=str(file.parent), enabled=(file.stem,), options={file.stem: options}, budget_s=config.plugins.budget_s
        )
        app = create_app(msgspec.structs.replace(load_config(overrides=overrides), plugins=settings))
        answers = asyncio.run(_send_all(app))
    [loaded] = app.plugins.plugins
    print(f"{file}: a {'guard' if loaded.plugin.may_refuse else 'watcher'}; hooks: {', '.join(loaded.counts) or 'none'}\n")
    for what, answer in answers:
        print(f"  {what:<30} {answer}")
    _print_counts(loaded)
    for complaint in wrong:
        print(f"\n{complaint}")
    failures = sum(counts.failures for counts in loaded.counts.values())
    print(f"\n{failures} failures" if failures else "\nno hook failed")
    return not failures and not wrong


def _print_counts(loaded: LoadedPlugin) -> None:
    print(f"\n  {'hook':<18}{'calls':>8}{'failures':>10}{'refusals':>10}{'slow':>6}{'mean ms':>10}")
    for hook, c in loaded.counts.items():
        if c.calls:
            print(f"  {hook:<18}{c.calls:>8}{c.failures:>10}{c.refusals:>10}{c.slow:>6}{1000 * c.seconds / c.calls:>10.3f}")


async def _send_all(app: Application) -> list[tuple[str, str]]:
    await app.startup()
    try:
        await app.datasets[0].built()
        return [(r[0], await _send(app, *r[1:])) for r in REQUESTS]
    finally:
        await app.shutdown()


async def _send(app: Application, method: str, target: str, content_type: bytes, body: bytes) -> str:
    """The status of the answer to one request, and who refused it."""
    path, _, query = target.partition("?")
    headers = [(b"host", b"localhost"), (b"accept", b"*/*")]
    if content_type:
        headers += [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    sent: list[Message] = []
    is_read = False

    async def receive() -> Message:
        nonlocal is_read
        if is_read:
            await asyncio.Event().wait()  # the client stays until it is cancelled
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    if not sent:
        return "no answer"
    if sent[-1].get("more_body") or sent[-1]["type"] != "http.response.body":
        return f"{sent[0]['status']}, broken off"
    status, text = sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])
    if status < 400:
        return str(status)
    try:
        problem = msgspec.json.decode(text)
        by = f" by {problem['plugin']}" if "plugin" in problem else ""
        return f"{status}{by}: {problem['detail']}"[:150]
    except (msgspec.DecodeError, KeyError, TypeError):
        return str(status)
