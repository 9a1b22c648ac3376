"""What happens when a plugin refuses, breaks or dawdles, hook by hook."""

import asyncio
import time

import pytest
from structlog.testing import capture_logs

from proxy.errors import OperationForbidden, PluginError, QueryRejected
from proxy.pipeline.exchange import Exchange
from proxy.plugin.chain import HOOKS, LoadedPlugin, PluginChain
from proxy.plugin.hooks import Plugin, refusal
from proxy.query.operation import OperationKind, Question, SparqlOperation
from proxy.query.parse import parse

TEXT = "SELECT * { ?s ?p ?o }"
TELLING = ["request", "question", "query", "verdict"]


def exchange() -> Exchange:
    operation = SparqlOperation(OperationKind.QUERY, TEXT)
    return Exchange("r1", operation=operation, parsed=parse(TEXT), question=Question("what?"))


def chain(*plugins: Plugin, **options) -> PluginChain:
    return PluginChain([LoadedPlugin(f"p{i}", p) for i, p in enumerate(plugins)], **options)


class Writer(Plugin):
    """Adds its name on both ways: one hook waits, the other does not."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def query(self, exchange: Exchange) -> None:
        await asyncio.sleep(0)
        exchange.add_header("query", self.name)

    def response(self, exchange: Exchange) -> None:
        exchange.add_header("response", self.name)


class Breaking(Plugin):
    """Changes something, then raises *error* in every hook."""

    def __init__(self, error: Exception, *, may_refuse: bool) -> None:
        self.error = error
        self.may_refuse = may_refuse

    def _break(self, exchange: Exchange) -> None:
        exchange.replace_query("SELECT * { ?a ?b ?c }")
        exchange.add_header("broken", "1")
        exchange.limit_time(3)
        exchange.leave_unchecked()
        exchange.question = None
        raise self.error

    request = question = verdict = response = body = _break

    async def query(self, exchange):
        self._break(exchange)

    def startup(self):
        raise self.error

    async def shutdown(self):
        raise self.error

    def candidate(self, exchange, parsed, text):
        self._break(exchange)

    def backend_request(self, exchange, request):
        self._break(exchange)

    def index_refreshed(self, dataset, index):
        raise self.error


class Dawdling(Plugin):
    """Waits or computes longer than it may."""

    def __init__(self, *, may_refuse: bool, computes: bool = False) -> None:
        self.may_refuse = may_refuse
        self.computes = computes

    async def query(self, exchange):
        if self.computes:
            time.sleep(0.03)
        else:
            await asyncio.sleep(30)


def test_responses_come_back_in_reverse():
    """The plugin that saw the query first sees the response last; a hook may be a coroutine or not."""
    seen = exchange()

    async def both() -> None:
        plugins = chain(Writer("a"), Writer("b"))
        await plugins.query(seen)
        await plugins.response(seen)

    asyncio.run(both())
    assert seen.added_headers == [(b"query", b"a"), (b"query", b"b"), (b"response", b"b"), (b"response", b"a")]


def test_the_chain_knows_which_hooks_anybody_hears():
    """Exactly those that are overridden, so that the others need not be called."""
    assert chain().active == frozenset()
    assert chain(Writer("a"), Plugin()).active == {"query", "response"}
    assert chain(Breaking(KeyError(), may_refuse=False)).active == set(HOOKS)


@pytest.mark.parametrize("hook", [*TELLING, "response", "body"])
def test_a_broken_guard_refuses(hook):
    """The failure of a plugin that may refuse is a refusal that names plugin and hook, and tells nothing of its inside."""
    broken = chain(Writer("a"), Breaking(KeyError("secret"), may_refuse=True))
    with pytest.raises(PluginError, match="p1") as caught:
        asyncio.run(getattr(broken, hook)(exchange()))
    assert (caught.value.plugin, caught.value.hook) == ("p1", hook)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("error", [KeyError("x"), refusal("no")], ids=["bug", "refusal"])
@pytest.mark.parametrize("hook", [*TELLING, "response", "body"])
def test_a_broken_watcher_changes_nothing(hook, error):
    """What a watcher raises is logged and counted, its half-made changes are undone, and later plugins still run."""
    seen, before = exchange(), exchange()
    plugins = chain(Breaking(error, may_refuse=False), Writer("b"))
    with capture_logs() as logs:
        asyncio.run(getattr(plugins, hook)(seen))
    kept = ("operation", "parsed", "question", "is_rewritten", "is_unchecked", "timeout_s")
    assert [getattr(seen, name) for name in kept] == [getattr(before, name) for name in kept]
    assert seen.added_headers == ([(hook.encode(), b"b")] if hook in ("query", "response") else [])
    assert [(e["event"], e["plugin"], e["hook"]) for e in logs] == [("plugin_failed", "p0", hook)]
    assert (plugins.plugins[0].counts[hook].calls, plugins.plugins[0].counts[hook].failures) == (1, 1)


@pytest.mark.parametrize("error", [refusal("no"), OperationForbidden("no")], ids=["rejected", "forbidden"])
@pytest.mark.parametrize("hook", TELLING)
def test_a_guard_refuses_with_its_own_error(hook, error):
    """It passes through as it is, for the client, with the name of the plugin; it is counted as no failure."""
    plugins = chain(Breaking(error, may_refuse=True))
    with pytest.raises(type(error)) as caught:
        asyncio.run(getattr(plugins, hook)(exchange()))
    assert caught.value.plugin == "p0"
    counts = plugins.plugins[0].counts[hook]
    assert (counts.refusals, counts.failures) == (1, 0)


def test_a_guard_may_not_refuse_a_response():
    """A refusal at the response is a failure of the plugin, not a message to the client."""
    with pytest.raises(PluginError):
        asyncio.run(chain(Breaking(refusal("no"), may_refuse=True)).response(exchange()))


def test_a_guard_may_refuse_a_body_that_it_cannot_read():
    """Nothing is sent yet, so that the client gets the reason."""
    with pytest.raises(QueryRejected):
        asyncio.run(chain(Breaking(refusal("no"), may_refuse=True)).body(exchange()))


def test_a_slow_guard_refuses():
    """A guard that does not answer within its budget has not said yes."""
    plugins = chain(Dawdling(may_refuse=True), budget_s=0.02)
    with capture_logs() as logs, pytest.raises(PluginError, match="p0 failed in query: TimeoutError"):
        asyncio.run(plugins.query(exchange()))
    assert logs[0]["event"] == "plugin_slow" and plugins.plugins[0].counts["query"].slow == 1


def test_a_slow_watcher_is_passed_over():
    """The request goes on after the budget."""
    seen = exchange()
    started = time.perf_counter()
    asyncio.run(chain(Dawdling(may_refuse=False), Writer("b"), budget_s=0.02).query(seen))
    assert time.perf_counter() - started < 5 and seen.added_headers == [(b"query", b"b")]


def test_what_computes_too_long_is_counted():
    """It cannot be stopped, and what it said counts; but it is told."""
    plugins = chain(Dawdling(may_refuse=True, computes=True), budget_s=0.01)
    with capture_logs() as logs:
        asyncio.run(plugins.query(exchange()))
    assert [e["event"] for e in logs] == ["plugin_slow"] and plugins.plugins[0].counts["query"].slow == 1


@pytest.mark.parametrize(
    ("error", "may_refuse", "may_be_tried"),
    [(refusal("no"), True, False), (refusal("no"), False, True), (KeyError(), False, True)],
    ids=["guard", "watcher", "broken watcher"],
)
def test_a_candidate_is_dropped_by_a_guard_only(error, may_refuse, may_be_tried):
    """A refusal drops it; a watcher has no say."""
    plugins = chain(Breaking(error, may_refuse=may_refuse))
    assert asyncio.run(plugins.candidate(exchange(), parse(TEXT), TEXT)) is may_be_tried


def test_what_is_refused_stays_so():
    """A plugin that is shown a refusal can neither undo nor replace it."""
    seen = exchange()
    error = QueryRejected("proved empty", findings=refusal("x").findings)
    with capture_logs() as logs:
        asyncio.run(chain(Breaking(refusal("mine"), may_refuse=True)).refused(seen, error))
    assert (seen.refusal, seen.findings) == (error, error.findings)
    assert [e["hook"] for e in logs] == ["verdict"]


def test_a_failing_startup_stops_the_start_and_undoes_it():
    """Plugins that were started are shut down again; so it is for a watcher, too."""
    calls = []

    class Counted(Plugin):
        def startup(self) -> None:
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


def test_a_failure_at_a_new_index_is_logged():
    """Building goes on: even a guard has nothing to refuse there."""
    with capture_logs() as logs:
        asyncio.run(chain(Breaking(OSError("x"), may_refuse=True)).index_refreshed("d", None))
    assert [e["hook"] for e in logs] == ["index_refreshed"]


class Upper:
    """A filter that keeps one byte back."""

    def __init__(self) -> None:
        self.kept = b""

    def feed(self, chunk: bytes) -> bytes:
        data = self.kept + chunk
        self.kept = data[-1:]
        return data[:-1].upper()

    def close(self) -> bytes:
        return self.kept.upper()


class Failing:
    def feed(self, chunk):
        raise KeyError("x")

    def close(self):
        return b""


class Bodies(Plugin):
    def __init__(self, made, *, may_refuse: bool) -> None:
        self.made = made
        self.may_refuse = may_refuse

    def body(self, exchange):
        return self.made


def filtered(*plugins: Plugin) -> bytes:
    body = asyncio.run(chain(*plugins).body(exchange()))
    return b"".join([body.feed(b"ab"), body.feed(b"cd"), body.close()])


def test_filters_of_guards_change_the_body():
    """Also what each keeps back until the end goes through those after it."""
    assert filtered(Bodies(Upper(), may_refuse=True), Bodies(Upper(), may_refuse=True)) == b"ABCD"


def test_filters_of_watchers_only_read():
    """What they give is dropped; a failing one reads no more."""
    assert filtered(Bodies(Upper(), may_refuse=False), Bodies(Failing(), may_refuse=False)) == b"abcd"


def test_a_failing_filter_of_a_guard_breaks_the_body_off():
    """What nobody has filtered is not sent."""
    with pytest.raises(PluginError, match="failed in body"):
        filtered(Bodies(Failing(), may_refuse=True))


def test_who_wants_no_body_is_not_given_one():
    """None from the hook: the body streams past."""
    assert asyncio.run(chain(Bodies(None, may_refuse=True)).body(exchange())) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [("SELECT", "not SPARQL"), ("CLEAR ALL", "another kind")],
)
def test_a_replacement_must_be_the_same_kind_of_operation(text, message):
    """A plugin cannot turn a query into an update, or into nonsense."""
    with pytest.raises(ValueError, match=message):
        exchange().replace_query(text)


def test_text_is_replaced_before_it_is_parsed_only():
    """Afterwards the tree would say something else."""
    with pytest.raises(ValueError, match="not parsed yet"):
        exchange().replace_text("ASK { }")


def test_the_smallest_time_limit_counts():
    """Two plugins that limit it do not undo each other."""
    seen = exchange()
    for seconds in (5, 2, 3):
        seen.limit_time(seconds)
    assert seen.timeout_s == 2
    with pytest.raises(ValueError):
        seen.limit_time(0)


@pytest.mark.parametrize(("name", "value"), [("a b", "x"), ("a", "x\r\nset-cookie: y"), ("", "x"), ("a", "€")])
def test_a_header_cannot_smuggle_another(name, value):
    """Line breaks and what is no Latin-1 are refused."""
    with pytest.raises(ValueError):
        exchange().add_header(name, value)
