"""Loading plugins from a folder, and what happens when one refuses or breaks."""

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from proxy.errors import ConfigError, PluginError, QueryRejected
from proxy.pipeline.exchange import Exchange
from proxy.plugin.chain import LoadedPlugin, PluginChain, available, load_plugins
from proxy.plugin.hooks import Plugin
from proxy.query.operation import OperationKind, SparqlOperation
from proxy.query.parse import parse

TEXT = "SELECT * { ?s ?p ?o }"


def exchange() -> Exchange:
    return Exchange("r1", operation=SparqlOperation(OperationKind.QUERY, TEXT), parsed=parse(TEXT))


def write(folder: Path, name: str, body: str) -> None:
    (folder / f"{name}.py").write_text(
        f'"""Plugin {name}."""\nfrom proxy import Plugin, QueryRejected\n{body}', encoding="utf-8"
    )


class Writer(Plugin):
    """Adds its name on both ways."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def query(self, exchange: Exchange) -> None:
        exchange.add_header("query", self.name)

    async def response(self, exchange: Exchange) -> None:
        exchange.add_header("response", self.name)


class Breaking(Plugin):
    """Changes something, then raises *error* in every hook."""

    def __init__(self, error: Exception, *, may_refuse: bool) -> None:
        self.error = error
        self.may_refuse = may_refuse

    async def startup(self) -> None:
        raise self.error

    async def shutdown(self) -> None:
        raise self.error

    async def query(self, exchange: Exchange) -> None:
        exchange.replace_query("SELECT * { ?a ?b ?c }")
        exchange.add_header("broken", "1")
        raise self.error

    async def response(self, exchange: Exchange) -> None:
        exchange.add_header("broken", "1")
        raise self.error


def chain(*plugins: Plugin) -> PluginChain:
    return PluginChain([LoadedPlugin(f"p{i}", p) for i, p in enumerate(plugins)])


def refusal() -> QueryRejected:
    return QueryRejected("no", findings=[])


def test_responses_come_back_in_reverse():
    """The plugin that saw the query first sees the response last."""
    seen = exchange()

    async def both() -> None:
        plugins = chain(Writer("a"), Writer("b"))
        await plugins.query(seen)
        await plugins.response(seen)

    asyncio.run(both())
    assert seen.added_headers == [(b"query", b"a"), (b"query", b"b"), (b"response", b"b"), (b"response", b"a")]


@pytest.mark.parametrize("hook", ["query", "response"])
def test_a_broken_guard_refuses(hook):
    """The failure of a plugin that may refuse is a refusal that names plugin and hook, and tells nothing of its inside."""
    broken = chain(Writer("a"), Breaking(KeyError("secret"), may_refuse=True))
    with pytest.raises(PluginError, match="p1") as caught:
        asyncio.run(getattr(broken, hook)(exchange()))
    assert (caught.value.plugin, caught.value.hook) == ("p1", hook)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("error", [KeyError("x"), refusal()], ids=["bug", "refusal"])
def test_a_broken_watcher_changes_nothing(error):
    """What a watcher raises is logged, whatever it is; its half-made changes are undone; later plugins still run."""
    seen = exchange()
    with capture_logs() as logs:
        asyncio.run(chain(Breaking(error, may_refuse=False), Writer("b")).query(seen))
    assert (seen.operation.text, seen.parsed, seen.is_rewritten) == (TEXT, parse(TEXT), False)
    assert seen.added_headers == [(b"query", b"b")]
    assert [(e["event"], e["plugin"], e["hook"]) for e in logs] == [("plugin_failed", "p0", "query")]


def test_a_watcher_that_breaks_on_the_response_is_logged():
    """The response goes on with the headers of the others."""
    seen = exchange()
    with capture_logs() as logs:
        asyncio.run(chain(Writer("a"), Breaking(KeyError("x"), may_refuse=False)).response(seen))
    assert seen.added_headers == [(b"response", b"a")]
    assert logs[0]["hook"] == "response"


def test_a_guard_refuses_with_its_own_error():
    """QueryRejected passes through as it is, for the client."""
    with pytest.raises(QueryRejected):
        asyncio.run(chain(Breaking(refusal(), may_refuse=True)).query(exchange()))


def test_a_guard_may_not_refuse_a_response():
    """A refusal at the response is a failure of the plugin, not a message to the client."""
    with pytest.raises(PluginError):
        asyncio.run(chain(Breaking(refusal(), may_refuse=True)).response(exchange()))


def test_a_failing_startup_stops_the_start_and_undoes_it():
    """Plugins that were started are shut down again; so it is for a watcher, too."""
    calls = []

    class Counted(Plugin):
        async def startup(self) -> None:
            calls.append("up")

        async def shutdown(self) -> None:
            calls.append("down")

    with pytest.raises(PluginError, match="startup"):
        asyncio.run(chain(Counted(), Breaking(OSError("x"), may_refuse=False), Counted()).startup())
    assert calls == ["up", "down"]


def test_a_failing_shutdown_stops_nobody():
    """Every plugin is shut down; the failure is logged."""
    with capture_logs() as logs:
        asyncio.run(chain(Writer("a"), Breaking(OSError("x"), may_refuse=True)).shutdown())
    assert [e["hook"] for e in logs] == ["shutdown"]


def test_plugins_load_in_the_order_of_the_configuration(tmp_path):
    """Not in that of the folder; the options of each reach its load()."""
    body = "class P(Plugin):\n    pass\ndef load(options):\n    p = P()\n    p.options = options\n    return p\n"
    for name in ("a", "b", "c"):
        write(tmp_path, name, body)
    loaded = load_plugins(tmp_path, enabled=["b", "a"], options={"a": {"x": 1}})
    assert [p.name for p in loaded.plugins] == ["b", "a"]
    assert [p.plugin.options for p in loaded.plugins] == [{}, {"x": 1}]


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("def load(options):\n    raise ValueError('x: too small')\n", ConfigError, "plugins.a: x: too small"),
        ("def load(options):\n    return 1\n", PluginError, "returned int"),
        ("def load(options):\n    return 1 / 0\n", PluginError, r"a\.py, line 4: ZeroDivisionError: division by zero$"),
        ("import does_not_exist\n", PluginError, r"a\.py, line 3: ModuleNotFoundError: No module named 'does_not_exist'$"),
        ("def lode(options): ...\n", PluginError, r"a\.py has no function load\(options\)$"),
        ("def (", PluginError, r"a\.py, line 3: invalid syntax$"),
        ("raise LookupError\n", PluginError, r"a\.py, line 3: LookupError$"),
    ],
    ids=["options", "no plugin", "bug", "import", "no load", "syntax", "no words"],
)
def test_a_plugin_that_cannot_be_loaded_stops_the_start(tmp_path, body, error, message):
    """The error names the plugin, file and line; its options are the configuration's fault, the rest is the plugin's."""
    write(tmp_path, "a", body)
    with pytest.raises(error, match=message):
        load_plugins(tmp_path, enabled=["a"])


@pytest.mark.parametrize("name", ["nowhere", "../a", "a.b", ""])
def test_an_unknown_plugin_is_named_with_what_there_is(tmp_path, name):
    """A name is a file in the folder, never a path out of it."""
    write(tmp_path, "a", "")
    with pytest.raises(ConfigError, match="it holds a") as caught:
        load_plugins(tmp_path, enabled=[name])
    assert caught.value.key == "plugins.enabled"


@pytest.mark.parametrize("enabled", [[], ["guard"]], ids=["none", "another"])
def test_options_of_a_plugin_that_is_not_there_stop_the_start(tmp_path, enabled):
    """A misspelt [plugins.NAME] would leave the plugin without its options; the key and the nearest name are told."""
    write(tmp_path, "guard", "class P(Plugin):\n    pass\ndef load(options):\n    return P()\n")
    with pytest.raises(ConfigError, match='Did you mean "guard"') as caught:
        load_plugins(tmp_path, enabled=enabled, options={"gaurd": {"x": 1}})
    assert caught.value.key == "plugins.gaurd"


def test_options_of_a_plugin_that_is_off_are_kept(tmp_path):
    """They are for the day it is on; the file is not even read."""
    write(tmp_path, "guard", "def (")
    assert load_plugins(tmp_path, enabled=[], options={"guard": {"x": 1}}).plugins == ()


def test_available_runs_nothing(tmp_path):
    """Listing plugins reads their docstrings only."""
    write(tmp_path, "a", "raise SystemExit\n")
    write(tmp_path, "b", "def (")
    assert available(tmp_path) == {"a": "Plugin a.", "b": "(cannot be loaded: invalid syntax, line 3)"}


@pytest.mark.parametrize(
    ("text", "message"),
    [("SELECT", "not SPARQL"), ("CLEAR ALL", "another kind")],
)
def test_a_replacement_must_be_the_same_kind_of_operation(text, message):
    """A plugin cannot turn a query into an update, or into nonsense."""
    with pytest.raises(ValueError, match=message):
        exchange().replace_query(text)


@pytest.mark.parametrize(("name", "value"), [("a b", "x"), ("a", "x\r\nset-cookie: y"), ("", "x"), ("a", "€")])
def test_a_header_cannot_smuggle_another(name, value):
    """Line breaks and what is no Latin-1 are refused."""
    with pytest.raises(ValueError):
        exchange().add_header(name, value)
