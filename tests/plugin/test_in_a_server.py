"""Which hooks a request comes by, in which order, through the whole application."""

import asyncio
import sys

import httpx
import pytest

from proxy.app import create_app
from proxy.config import load_config

RECORDER = '''"""Writes down what it is called with."""
from dataclasses import replace

from proxy import Plugin, refusal

CALLS = []


def load(options):
    return Recorder()


class Recorder(Plugin):
    may_refuse = True

    def startup(self): CALLS.append("startup")
    def shutdown(self): CALLS.append("shutdown")
    def index_refreshed(self, dataset, index): CALLS.append(f"index_refreshed {dataset} {index.triples}")
    async def question(self, exchange): CALLS.append("question")
    def candidate(self, exchange, parsed, text): CALLS.append("candidate")

    def request(self, exchange):
        kind = exchange.operation.kind if exchange.operation else "none"
        CALLS.append(f"request {exchange.method} {exchange.path} {kind} {exchange.dataset}".strip())
        if exchange.operation and "REPLACE" in exchange.operation.text:
            exchange.replace_text("SELECT ?new { ?new ?p ?o }")

    async def query(self, exchange):
        CALLS.append(f"query {type(exchange.parsed).__name__}")
        if exchange.operation and "REFUSE" in exchange.operation.text:
            raise refusal("no")

    def verdict(self, exchange):
        CALLS.append(f"verdict {exchange.verdict} {type(exchange.refusal).__name__}")

    def backend_request(self, exchange, request):
        CALLS.append(f"backend_request {request.method}")
        if exchange.operation and "AS CSV" in exchange.operation.text:
            return replace(request, operation=replace(request.operation, accept="text/csv"))

    def response(self, exchange):
        CALLS.append(f"response {exchange.status}")

    def body(self, exchange):
        CALLS.append("body")
'''


@pytest.fixture
def calls(tmp_path):
    """Send one request to a server of four statements with the recorder; returns the response and the calls between."""
    (tmp_path / "recorder.py").write_text(RECORDER, encoding="utf-8")
    (tmp_path / "data.nt").write_text("<a:s> <a:p> <a:o> .\n<a:s> <a:q> <a:x> .\n", encoding="utf-8")
    (tmp_path / "config.toml").write_text(
        "[backend]\nload = ['data.nt']\n[index]\ndirectory = ''\n[nl]\nenabled = false\n[policy]\nallow_updates = true\n"
        "[plugins]\ndirectory = '.'\nenabled = ['recorder']\n",
        encoding="utf-8",
    )

    def send(method, path, **more):
        async def steps():
            app = create_app(load_config(tmp_path / "config.toml"))
            seen = sys.modules["_sparlance_plugin_recorder"].CALLS
            await app.startup()
            await app.datasets[0].built()
            before = len(seen)
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
                response = await client.request(method, path, **more)
            after = len(seen)
            await app.shutdown()
            return response, seen[:before], seen[before:after], seen[after:]

        return asyncio.run(steps())

    return send


def query(text: str) -> dict:
    return {"content": text, "headers": {"content-type": "application/sparql-query", "accept": "*/*"}}


def test_a_server_starts_and_ends_with_them(calls):
    """The plugin is started before the index is built, and told of it; it is shut down last."""
    _, before, _, after = calls("GET", "/-/live")
    assert (before, after) == (["startup", "index_refreshed default 2"], ["shutdown"])


PASSED = ["backend_request POST", "response 200", "body"]


@pytest.mark.parametrize(
    ("text", "expected", "status"),
    [
        ("SELECT * { ?s <a:p> ?o }", ["query ParsedQuery", "verdict pass NoneType", *PASSED], 200),
        ("SELECT * { ?s <a:p> ?o } # REFUSE", ["query ParsedQuery", "verdict reject QueryRejected"], 400),
        ("SELECT * { ?s <a:none> ?o }", ["query ParsedQuery", "verdict reject QueryRejected"], 400),
        ("SELECT * { SERVICE <a:x> {} }", ["query ParsedQuery", "verdict refuse OperationForbidden"], 403),
        ("SELECT * {", ["query NoneType", "verdict unparsed NoneType", "backend_request POST", "response 400", "body"], 400),
        ("INSERT DATA { <a:x> <a:y> 1 }", ["query ParsedUpdate", "verdict refuse MalformedRequest"], 400),
    ],
    ids=["passes", "refused by it", "proved empty", "policy", "unparsed", "update as query"],
)
def test_a_query_comes_by_in_order(calls, text, expected, status):
    """From the request to the body, or to the verdict that ends it; a refusal of its own comes by as well."""
    response, _, seen, _ = calls("POST", "/query", **query(text))
    assert seen == ["request POST /query query default", *expected]
    assert (response.status_code, response.json().get("plugin") if "REFUSE" in text else None) == (
        status,
        "recorder" if "REFUSE" in text else None,
    )


@pytest.mark.parametrize(
    ("method", "path", "more", "expected"),
    [
        ("GET", "/store?default", {}, ["request GET /store graph-store default", "verdict pass NoneType"]),
        ("GET", "/-/index", {}, ["request GET  none default"]),
        ("POST", "/-/check", query("ASK {}"), ["request POST  none default"]),
        ("GET", "/query", {}, ["request GET /query none default", "backend_request GET"]),
        ("POST", "/update", {"data": {"update": "CLEAR ALL"}}, ["request POST /update update default", "query ParsedUpdate"]),
        ("GET", "/query?nl=who", {}, ["question"]),
        ("GET", "/-/ready", {}, []),
    ],
)
def test_everything_that_tells_of_data_comes_by_request(calls, method, path, more, expected):
    """The graph store, the service description, our own pages about the data; health does not."""
    _, _, seen, _ = calls(method, path, **more)
    assert seen[: len(expected)] == expected and bool(seen) == bool(expected)


def test_the_text_can_be_replaced_before_it_is_parsed(calls):
    """What no parser reads becomes a query; the response says what was asked."""
    response, _, _, _ = calls("POST", "/query", **query("REPLACE me"))
    assert response.json()["head"]["vars"] == ["new"]
    assert response.headers["sparlance-query"] == "SELECT%20%3Fnew%20%7B%20%3Fnew%20%3Fp%20%3Fo%20%7D"


def test_the_request_to_the_backend_can_be_replaced(calls):
    """Here: another format."""
    response, _, _, _ = calls("POST", "/query", **query("SELECT ?o { ?s <a:p> ?o } # AS CSV"))
    assert response.text.split() == ["o", "a:o"]
