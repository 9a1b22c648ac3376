"""What a bug of ours in parser, policy or prover costs: the proof, a line in the log, and no answer."""

import asyncio

import pyoxigraph as ox
import pytest
import structlog

from proxy.backends.base import BackendRequest
from proxy.config import load_config
from proxy.errors import MalformedQuery, OperationForbidden
from proxy.pipeline.dataset import Dataset
from proxy.pipeline.distil import distil
from proxy.pipeline.exchange import Exchange
from proxy.pipeline.sparql import SparqlPath
from proxy.pipeline.unforeseen import Failures
from proxy.plugin.chain import PluginChain
from tests.pipeline.test_sparql import EMPTY, TURTLE, Recorder, operation

SOUND = "PREFIX e: <http://e/> SELECT ?x { ?x e:age 3 }"
SECRET = "http://e/secret"
UNCHECKED = [(b"sparlance-validation", b"unchecked;reason=internal")]
PLACES = {
    "parse": "proxy.pipeline.sparql.parse",
    "policy": "proxy.pipeline.sparql.require_allowed",
    "check": "proxy.validation.check.required",
    "prove": "proxy.validation.check.is_contradicted",
    "headers": "proxy.pipeline.sparql.summarise",
}
"""Stage → what fails."""


def broken(*args, **more):
    raise KeyError(SECRET)


async def made(**settings):
    config = load_config(None, overrides={key.replace("__", "."): value for key, value in settings.items()})
    store = ox.Store()
    store.load(TURTLE, ox.RdfFormat.TURTLE)
    backend = Recorder(store)
    dataset = Dataset("d", backend, config)
    found = await distil(backend, config.index)
    dataset.index, dataset.values = found.index, found.values
    return SparqlPath(dataset, PluginChain([])), backend


async def send(path, text, *, at_once=False):
    """The exchange, and the answer's bytes."""
    op = operation(text)
    exchange = Exchange("r", operation=op)
    request = BackendRequest("GET", b"/query?raw", [(b"host", b"a")], b"", op)
    if at_once and path.pass_now(exchange, request) is not None:
        return exchange, None
    response = await path.run(exchange, request)
    return exchange, b"".join([piece async for piece in response.chunks()])


@pytest.mark.parametrize("stage", PLACES)
@pytest.mark.parametrize("size", [0, 3_000, 20_000], ids=["short", "long", "not kept"])
def test_a_failure_of_ours_is_no_answer(monkeypatch, stage, size):
    """The query is forwarded as it came, its field says that it was not checked, and the log tells once without its words."""
    text = EMPTY + " " * size

    async def steps():
        path, backend = await made()
        monkeypatch.setattr(PLACES[stage], broken)
        if stage == "headers":
            monkeypatch.setattr("proxy.pipeline.sparql.may_be_refused", lambda parsed: False)
        with structlog.testing.capture_logs() as lines:
            for _ in range(2):
                exchange, answer = await send(path, text)
                assert exchange.added_headers == UNCHECKED and b'"bindings":[]' in answer
            assert (await send(path, text, at_once=True))[0].added_headers == UNCHECKED
        assert len(backend.sent) >= 2 and backend.sent[-1].target == b"/query?raw"
        [line] = [x for x in lines if x["event"] == "analysis_failed"]
        assert line["error"] == "KeyError" and "broken" in line["trace"] and "http://e/" not in str(line)
        assert sum(path.dataset.failures.counts.values()) >= 1

    asyncio.run(steps())


def test_a_failing_confirmation_is_no_answer(monkeypatch):
    """Whatever goes wrong with the live ASK: without it nothing is refused."""

    async def steps():
        path, backend = await made()
        monkeypatch.setattr(backend, "ask", broken)
        exchange, answer = await send(path, EMPTY)
        assert exchange.added_headers[-1:] == UNCHECKED and exchange.findings == () and b'"bindings":[]' in answer

    asyncio.run(steps())


@pytest.mark.parametrize("stage", ["parse", "policy"])
@pytest.mark.parametrize(
    ("text", "settings", "error"),
    [
        ("SELECT * { SERVICE <http://x/> { ?s ?p ?o } }", {}, OperationForbidden),
        ("DELETE WHERE { ?s ?p ?o }", {}, OperationForbidden),
        ("SELECT * { ?s ?p ?o }", {"policy__unparsable": "refuse"}, MalformedQuery),
    ],
    ids=["service", "update", "refuse"],
)
def test_what_cannot_be_guaranteed_is_refused(monkeypatch, stage, text, settings, error):
    """The guards go by the words of the text then, as of any text that nobody can parse."""

    async def steps():
        path, backend = await made(**settings)
        monkeypatch.setattr(PLACES[stage], broken)
        for at_once in (False, True):
            with pytest.raises(error):
                await send(path, text, at_once=at_once)
        assert backend.sent == []

    asyncio.run(steps())


def test_the_check_says_that_it_does_not_know(monkeypatch):
    """/-/check: one finding, not-analysed; it is counted by stage."""

    async def steps():
        path, _ = await made()
        monkeypatch.setattr(PLACES["check"], broken)
        [finding] = await path.check(operation(SOUND))
        assert (str(finding.severity), finding.rule) == ("not-analysed", "internal")
        monkeypatch.setattr(PLACES["parse"], broken)
        [finding] = await path.check(operation(SOUND + " "))
        assert (str(finding.severity), finding.rule) == ("not-analysed", "internal")
        return path.dataset

    dataset = asyncio.run(steps())
    assert dict(dataset.failures.counts) == {"check": 1, "parse": 1}


def test_what_was_told_of_is_bounded():
    """Ten thousand texts that fail are counted all, each is told of once in a row, and the first are forgotten by then."""
    failures = Failures()
    with structlog.testing.capture_logs() as lines:
        for i in range(10_000):
            failures.note(str(i), "check", ValueError())
            failures.note(str(i), "check", ValueError())
        failures.note("0", "check", ValueError())
    assert failures.counts["check"] == 20_001 and len(lines) == 10_001
