"""The steps of one operation: what passes, what is refused, and what the live graph has to say."""

import asyncio
import threading
from dataclasses import dataclass, field

import pyoxigraph as ox
import pytest

from proxy.backends.base import BackendRequest
from proxy.backends.embedded import EmbeddedBackend
from proxy.config import load_config
from proxy.errors import BackendTimeout, MalformedQuery, OperationForbidden, PluginError, QueryRejected
from proxy.pipeline.dataset import Dataset
from proxy.pipeline.distil import distil
from proxy.pipeline.exchange import Exchange
from proxy.pipeline.sparql import EmptyAnswer, Handling, SparqlPath, rewritten, scope_parameters, summarise
from proxy.plugin.chain import LoadedPlugin, PluginChain
from proxy.plugin.hooks import Plugin
from proxy.query.model import QueryForm
from proxy.query.operation import DatasetDescription, OperationKind, SparqlOperation
from proxy.query.parse import parse
from proxy.validation.check import check
from proxy.validation.finding import Finding, Severity

TURTLE = b"""@prefix e: <http://e/> .
e:a a e:Person ; e:knows e:b ; e:age 3 . e:b a e:Person ; e:age 4 . e:c a e:City ; e:mayor e:a ."""
EMPTY = "PREFIX e: <http://e/> SELECT ?x ?y { ?x a e:City ; e:age ?y }"


@dataclass
class Recorder(EmbeddedBackend):
    """The embedded store, which also writes down what it is asked."""

    store: ox.Store
    sent: list = field(default_factory=list)
    asked: list = field(default_factory=list)
    fails: bool = False
    is_ours: bool = True

    def sees_what_we_see(self, headers):
        return self.is_ours

    def __post_init__(self):
        EmbeddedBackend.__init__(self, self.store)

    async def send(self, request):
        self.sent.append(request)
        return await super().send(request)

    async def ask(self, query, *, timeout_s, parameters=()):
        self.asked.append((query, parameters))
        if self.fails:
            raise BackendTimeout("too slow", backend="x")
        return await super().ask(query, timeout_s=timeout_s, parameters=parameters)



def operation(text, kind=OperationKind.QUERY, **more):
    return SparqlOperation(kind, text, **more)


def run(op, *, plugin=None, prefer=None, before=None, fails=False, index=True, data=TURTLE, is_ours=True, **settings):
    """Run *op* through a fresh dataset; returns what came out, the exchange, the backend and the dataset."""
    overrides = {key.replace("__", "."): value for key, value in settings.items()}

    async def steps():
        config = load_config(None, overrides=overrides)
        store = ox.Store()
        store.load(data, ox.RdfFormat.TURTLE)
        backend = Recorder(store, fails=False, is_ours=is_ours)
        dataset = Dataset("d", backend, config)
        if index:
            made = await distil(backend, config.index)
            dataset.index, dataset.values = made.index, made.values
        if before is not None:
            store.update(before)
        backend.fails = fails
        backend.asked.clear()
        exchange = Exchange("r", operation=op)
        request = BackendRequest("GET", b"/query?raw", [(b"host", b"a")], b"", op)
        path = SparqlPath(dataset, PluginChain([LoadedPlugin("p", plugin)] if plugin is not None else []))
        try:
            outcome = await path.run(exchange, request, prefer=prefer)
            if not isinstance(outcome, EmptyAnswer):
                outcome = b"".join([piece async for piece in outcome.chunks()])
        except Exception as error:
            outcome = error
        return outcome, exchange, backend, dataset

    return asyncio.run(steps())


def test_sound_query_is_sent_as_it_came():
    """Nothing is rendered, nothing is asked, the request object is the client's."""
    outcome, exchange, backend, _ = run(operation("PREFIX e: <http://e/> SELECT ?x { ?x e:age 3 }", accept="text/csv"))
    assert outcome == b"x\r\nhttp://e/a\r\n"
    assert backend.sent[0].target == b"/query?raw" and backend.asked == []
    assert exchange.verdict == "pass" and exchange.findings == ()


def test_what_has_passed_is_remembered_for_the_same_question_only():
    """Without a task: one look for a text that passed before, unless parameters, credentials or the index are others."""
    text = "PREFIX e: <http://e/> SELECT ?x { ?x e:age 3 }"

    async def steps():
        config = load_config(None)
        store = ox.Store()
        store.load(TURTLE, ox.RdfFormat.TURTLE)
        backend = Recorder(store)
        dataset = Dataset("d", backend, config)
        dataset.index = (await distil(backend, config.index)).index
        path = SparqlPath(dataset, PluginChain([]))

        def judge(**more):
            op = operation(text, **more)
            exchange = Exchange("r", operation=op)
            sent = path.pass_now(exchange, BackendRequest("GET", b"/query?raw", [(b"host", b"a")], b"", op))
            return sent, exchange

        first, again = judge()[1], judge()[1]
        assert again.parsed is first.parsed and again.verdict == "pass" and list(again.timings_ms) == ["parse", "validate"]
        raw = judge(parameters=(("infer", "false"),))[1]
        assert raw.added_headers == [(b"sparlance-validation", b"unchecked;parameter=infer")]
        backend.is_ours = False
        assert judge()[1].added_headers == [(b"sparlance-validation", b"unchecked;reason=credential")]
        backend.is_ours = True
        assert judge()[0] is not None
        other = ox.Store()
        other.load(b"<http://e/a> <http://e/knows> <http://e/b> .", ox.RdfFormat.TURTLE)
        dataset.index = (await distil(Recorder(other), config.index)).index
        assert judge()[0] is None  # the live graph must agree that it is empty
        dataset.index = None
        assert "validate" not in judge()[1].timings_ms

    asyncio.run(steps())


def test_proved_empty_is_rejected_after_the_live_graph_agreed():
    """One bounded ASK, then QueryRejected with the finding; the backend never sees the query."""
    outcome, exchange, backend, dataset = run(operation(EMPTY))
    assert isinstance(outcome, QueryRejected) and outcome.findings[0].confirmation
    assert len(backend.asked) == 1 and backend.sent == []
    assert exchange.verdict == "reject" and (dataset.counters.confirmed, dataset.counters.rejected) == (1, 1)


def test_who_is_shown_other_data_is_told_nothing():
    """A client's own credential: the query passes unjudged, whatever the index has seen with ours, and says so."""
    outcome, exchange, backend, _ = run(operation(EMPTY, accept="text/csv"), is_ours=False)
    assert outcome == b"x,y\r\n" and backend.asked == [] and exchange.findings == ()
    assert exchange.added_headers == [(b"sparlance-validation", b"unchecked;reason=credential")]


def test_an_empty_graph_refuses_nothing():
    """A new database in front of which everything were an error would be no place to start."""
    outcome, exchange, backend, _ = run(operation(EMPTY, accept="text/csv"), data=b"")
    assert outcome == b"x,y\r\n" and len(backend.sent) == 1 and exchange.findings == ()


def test_live_graph_outranks_the_index():
    """When the data changed, the query passes without a word, and the index is stale."""
    outcome, exchange, backend, dataset = run(operation(EMPTY), before="INSERT DATA { <http://e/c> <http://e/age> 9 }")
    assert b"http://e/c" in outcome and exchange.findings == () and exchange.added_headers == []
    assert dataset.counters.contradicted == 1 and len(backend.sent) == 1


ABSENT = "PREFIX e: <http://e/> SELECT ?x { ?x e:age ?n FILTER(?n > 100) }"


def test_values_prove_too():
    """The confirmation holds the filter; data added behind the index's back outrank it."""
    outcome, _, backend, _ = run(operation(ABSENT))
    assert isinstance(outcome, QueryRejected) and outcome.findings[0].rule == "out-of-range"
    assert backend.asked[0][0] == "ASK { ?x <http://e/age> ?n . FILTER(?n > 100) }"
    outcome, _, _, dataset = run(operation(ABSENT), before="INSERT DATA { <http://e/c> <http://e/age> 101 }")
    assert b"http://e/c" in outcome and dataset.counters.contradicted == 1


@pytest.mark.parametrize("parameter", ["infer", "union-default-graph"])
def test_a_request_that_sees_other_triples_is_not_judged(parameter):
    """It passes, and a header says that nothing was checked."""
    outcome, exchange, backend, _ = run(operation(EMPTY, parameters=((parameter, "false"),)))
    assert isinstance(outcome, bytes) and backend.asked == [] and exchange.findings == ()
    assert dict(exchange.added_headers) == {b"sparlance-validation": b"unchecked;parameter=" + parameter.encode()}


def test_without_confirmation_the_query_passes():
    """A confirmation that fails or is too slow refuses nothing."""
    outcome, _, _, dataset = run(operation(EMPTY), fails=True)
    assert b'"bindings":[]' in outcome and dataset.counters.unconfirmed == 1


def test_confirmation_looks_at_the_graphs_of_the_client():
    """The ASK has the client's graph parameters, and others that change the solutions; none of presentation."""
    description = DatasetDescription(("http://g",), ("http://n",))
    op = operation(EMPTY, dataset=description, parameters=(("infer", "false"), ("format", "json"), ("timeout", "3")))
    assert scope_parameters(op) == (("default-graph-uri", "http://g"), ("named-graph-uri", "http://n"), ("infer", "false"))


@pytest.mark.parametrize(
    ("policy", "prefer", "expected"),
    [
        ("reject", None, "reject"),
        ("empty", None, "empty"),
        ("annotate", None, "annotate"),
        ("off", None, "off"),
        ("reject", Handling.ANNOTATE, "annotate"),
        ("annotate", Handling.REJECT, "reject"),
    ],
)
def test_policies(policy, prefer, expected):
    """Configured, or preferred by the client for one request."""
    outcome, exchange, backend, _ = run(operation(EMPTY), prefer=prefer, validation__policy=policy)
    fields = dict(exchange.added_headers)
    match expected:
        case "reject":
            assert isinstance(outcome, QueryRejected)
        case "empty":
            assert outcome == EmptyAnswer(QueryForm.SELECT, ("x", "y")) and backend.sent == []
            assert fields[b"sparlance-validation"].startswith(b"proved-empty;line=1;")
        case "annotate":
            assert b'"bindings":[]' in outcome and fields[b"sparlance-validation"].startswith(b"proved-empty;line=1;")
            assert backend.asked == []
        case "off":
            assert b'"bindings":[]' in outcome and fields == {} and exchange.findings == ()


@pytest.mark.parametrize(
    "text",
    [
        "PREFIX e: <http://e/> ASK { ?x a e:City ; e:age ?y }",
        "PREFIX e: <http://e/> SELECT (COUNT(*) AS ?n) { ?x a e:City ; e:age ?y }",
    ],
    ids=["ask", "count"],
)
def test_false_and_zero_are_answers(text):
    """ASK and an aggregate without GROUP BY are never refused."""
    outcome, _, backend, _ = run(operation(text))
    assert isinstance(outcome, bytes) and len(backend.sent) == 1


def test_without_index_nothing_is_checked():
    """The pure proxy forwards."""
    outcome, _, backend, _ = run(operation(EMPTY), index=False)
    assert isinstance(outcome, bytes) and backend.asked == []


def test_unparsable_query_is_for_the_backend_to_judge():
    """It is forwarded, and the backend's own error comes back."""
    outcome, exchange, backend, _ = run(operation("SELECT nonsense"))
    assert outcome.startswith(b"error at 1:") and len(backend.sent) == 1 and exchange.verdict == "unparsed"


@pytest.mark.parametrize(
    "text",
    ["SELECT * {} INSERT DATA { <http://a> <http://b> 1 }", "SELECT * { SERVICE <http://x> { ?a ?b } } oops"],
    ids=["update", "service"],
)
def test_unparsable_text_with_power_is_refused(text):
    """Where a rule of the policy might apply and nobody can tell, nothing is forwarded."""
    outcome, _, backend, _ = run(operation(text))
    assert isinstance(outcome, OperationForbidden) and backend.sent == []


def test_unparsable_can_be_refused_altogether():
    """policy.unparsable = "refuse"."""
    outcome, _, backend, _ = run(operation("SELECT nonsense"), policy__unparsable="refuse")
    assert isinstance(outcome, MalformedQuery) and backend.sent == []


def test_update_makes_the_index_stale():
    """An update that passes is followed by a rebuild, where there is an index to rebuild."""

    async def never(backend, progress, epoch):
        raise AssertionError("not started here")

    config = load_config(None, overrides={"policy.allow_updates": True})

    async def steps():
        dataset = Dataset("d", EmbeddedBackend(ox.Store()), config, distil=never)
        op = operation("INSERT DATA { <http://a> <http://b> 1 }", OperationKind.UPDATE)
        response = await SparqlPath(dataset, PluginChain()).run(
            Exchange("r", operation=op), BackendRequest("POST", b"/update", [], b"", op)
        )
        return response.status, dataset.is_stale

    assert asyncio.run(steps()) == (204, True)


class Rewriter(Plugin):
    may_refuse = True

    async def query(self, exchange):
        exchange.replace_query(exchange.operation.text + " LIMIT 1")


def test_plugin_changes_the_query():
    """The new text is what is checked and sent, with all other parameters, and the response says so."""
    op = operation("SELECT * { ?s ?p ?o }", parameters=(("union-default-graph", "true"),), accept="text/csv")
    outcome, exchange, backend, _ = run(op, plugin=Rewriter())
    assert outcome.count(b"\n") == 2
    sent = backend.sent[0]
    assert (sent.method, sent.target) == ("POST", b"/query?union-default-graph=true")
    assert sent.body == b"SELECT * { ?s ?p ?o } LIMIT 1"
    assert dict(exchange.added_headers)[b"sparlance-query"].endswith(b"%20LIMIT%201")


class Smuggler(Plugin):
    async def query(self, exchange):
        exchange.replace_query("SELECT * { SERVICE <http://x> { ?s ?p ?o } }")


def test_policy_comes_after_the_plugins():
    """What a plugin writes is held to the same rules."""
    assert isinstance(run(operation("SELECT * { ?s ?p ?o }"), plugin=Smuggler())[0], OperationForbidden)


class Broken(Plugin):
    may_refuse = True

    async def response(self, exchange):
        raise RuntimeError("boom")


def test_failing_response_hook_lets_go_of_the_backend():
    """The result is given up when nobody will read it: its thread ends."""
    outcome, _, backend, _ = run(operation("SELECT * { ?s ?p ?o }"), plugin=Broken())
    assert isinstance(outcome, PluginError) and len(backend.sent) == 1


def test_rewritten_update_names_its_graphs():
    """An update's graphs travel as using-graph-uri."""
    op = operation("CLEAR ALL", OperationKind.UPDATE, dataset=DatasetDescription(("http://g x",), ("http://n",)))
    request = rewritten(BackendRequest("POST", b"/x", [(b"content-type", b"old"), (b"a", b"1")]), op, path="/update")
    assert request.target == b"/update?using-graph-uri=http%3A%2F%2Fg%20x&using-named-graph-uri=http%3A%2F%2Fn"
    assert request.headers == [(b"a", b"1"), (b"content-type", b"application/sparql-update")]


def test_what_was_not_analysed_is_said():
    """A text beyond the parser's limits, one that is no SPARQL, and a pattern with more alternatives than are looked at."""
    deep = "SELECT * { " + "{ " * 60 + "?x ?y ?z" + " }" * 60 + " }"
    assert run(operation(deep))[1].added_headers == [(b"sparlance-validation", b"unchecked;reason=size")]
    assert run(operation("SELECT nonsense"))[1].added_headers == [(b"sparlance-validation", b"unchecked;reason=syntax")]
    unions = " ".join("{ ?x e:age ?y } UNION { ?x e:knows ?y }" for _ in range(7))
    ((name, value),) = run(operation(f"PREFIX e: <http://e/> SELECT * {{ {unions} }}"))[1].added_headers
    assert name == b"sparlance-validation" and b"not-analysed;line=1;column=1;rule=bound" in value


def test_long_texts_are_parsed_and_heavy_ones_checked_off_the_event_loop(monkeypatch):
    """The thread that works is not the one that serves; what it finds is remembered, and the same."""
    threads = []

    def noted(function):
        def call(*args, **more):
            threads.append((function.__name__, threading.current_thread() is threading.main_thread()))
            return function(*args, **more)

        return call

    monkeypatch.setattr("proxy.pipeline.sparql.parse", noted(parse))
    monkeypatch.setattr("proxy.validation.check.check", noted(check))
    outcome, *_ = run(operation(EMPTY))
    assert isinstance(outcome, QueryRejected) and threads == [("parse", True), ("check", True)]
    threads.clear()
    many = " ".join(f". ?x{i} e:age ?y" for i in range(150))
    outcome, *_ = run(operation(EMPTY.replace("}", many + "}")))
    assert isinstance(outcome, QueryRejected) and threads == [("parse", False), ("check", False)]
    threads.clear()
    heavy = " ".join(f"FILTER(?y = {i} || ?x = {i + 1})" for i in range(6))
    outcome, *_ = run(operation(EMPTY.replace("}", heavy + "}")))
    assert isinstance(outcome, QueryRejected) and threads == [("parse", True), ("check", True), ("check", False)]


def test_a_summary_is_ten_of_the_worst():
    """The field stays short; what was not analysed is in it, and how many are left out."""
    kinds = [Severity.SUSPICIOUS] * 30 + [Severity.PROVED_EMPTY, Severity.NOT_ANALYSED]
    found = [Finding(severity, "", 1, i, "", "") for i, severity in enumerate(kinds)]
    listed = summarise(found).decode().split(", ")
    assert listed[0] == "proved-empty;line=1;column=30" and listed[-2:] == ["not-analysed;line=1;column=31", "more;count=22"]
    assert len(listed) == 11 and listed[1] == "suspicious;line=1;column=0"
    assert summarise(found[:10]).count(b"suspicious") == 10 and b"more" not in summarise(found[:10])
