"""One contract, every backend: Sparlance before each kind of server. Each server is started once for the whole session."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from tests.loopback.conftest import Proxy, Script, Stub
from tests.servers.conftest import DATA
from tests.servers.every import JAVA_KINDS, KINDS, Endpoint, running
from tests.servers.process import request

PREFIXES = "PREFIX ex: <http://example.org/> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> "
SELECT = PREFIXES + "SELECT ?label ?pages { ?book rdfs:label ?label ; ex:pages ?pages } ORDER BY ?pages ?label"
CONSTRUCT = PREFIXES + "CONSTRUCT { ex:dune ex:pages ?n } { ex:dune ex:pages ?n }"
LOANS = "http://example.org/loans"
JSON, XML, CSV, TURTLE = "application/sparql-results+json", "application/sparql-results+xml", "text/csv", "text/turtle"
FORM, DIRECT, UPDATE = "application/x-www-form-urlencoded", "application/sparql-query", "application/sparql-update"
TOKEN = "Bearer secret"
Answer = tuple[int, Any, bytes]


@dataclass(frozen=True)
class Subject:
    """Sparlance before one server. reader: as it is by default. writer: updates are allowed.

    endpoint: the server itself; None for the embedded store, which has no other address.
    store: path and query string of the graph of loans in the graph store, as clients write it; None: there is no graph store.
    """

    kind: str
    reader: Proxy
    writer: Proxy
    endpoint: Endpoint | None
    query_path: str
    update_path: str
    store: str | None

    def direct(self, method: str, target: str, body: bytes | None = None, **headers: str) -> Answer:
        """What the server itself says to the same request."""
        assert self.endpoint is not None
        return request(self.endpoint.port, method, target, body, {n.replace("_", "-"): v for n, v in headers.items()})

    def holds(self, pattern: str) -> bool:
        """Whether the server has a solution of *pattern*."""
        asked = self.writer.request("GET", "/sparql" + get(f"{PREFIXES}ASK {{ {pattern} }}"), Accept=JSON)
        return bool(json.loads(asked[2])["boolean"])


def get(text: str, **parameters: str) -> str:
    """The query string of a GET query."""
    return "?" + urlencode({"query": text, **{n.replace("_", "-"): v for n, v in parameters.items()}}, quote_via=quote)


def settings_of(endpoint: Endpoint) -> dict[str, Any]:
    """What a configuration says to be in front of *endpoint*."""
    settings: dict[str, Any] = {"backend__kind": endpoint.backend, "backend__url": endpoint.url}
    if endpoint.repository:
        settings["backend__repository"] = endpoint.repository
    if endpoint.backend == "qlever":
        settings["backend__authorization"] = endpoint.update_headers["Authorization"]
    if endpoint.backend == "sparql":
        settings["backend__url"] = endpoint.url + endpoint.query_path
        settings["backend__update_url"] = endpoint.url + endpoint.update_path
    return settings


def store_of(endpoint: Endpoint) -> str | None:
    graph = "graph=" + quote(LOANS, safe="")
    match endpoint.backend:
        case "oxigraph":
            return f"/store?{graph}"
        case "qlever":
            return f"/?{graph}"
        case "graphdb":
            return f"{endpoint.query_path}/rdf-graphs/service?{graph}"
    return None


PARAMS = [pytest.param(kind, marks=[pytest.mark.java] if kind in JAVA_KINDS else []) for kind in (*KINDS, "embedded")]


@pytest.fixture(scope="session", params=PARAMS)
def started(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    kind = request.param
    with ExitStack() as stack:
        if kind == "embedded":
            settings: dict[str, Any] = {"backend__load": write(tmp_path_factory.mktemp("data"))}
            endpoint, query_path, update_path, store = None, "/query", "/update", "/store?graph=" + quote(LOANS, safe="")
        else:
            endpoint = stack.enter_context(running(kind, DATA))
            settings = settings_of(endpoint)
            query_path, update_path, store = endpoint.query_path, endpoint.update_path, store_of(endpoint)
        proxies = []
        for allowed in (False, True):
            proxies.append(Proxy(policy__allow_updates=allowed, **settings))
            stack.callback(proxies[-1].close)
        yield Subject(kind, proxies[0], proxies[1], endpoint, query_path, update_path, store)


def write(folder: Path) -> list[str]:
    files = []
    for suffix, text in zip(("ttl", "trig"), DATA.values(), strict=True):
        files.append(folder / f"data.{suffix}")
        files[-1].write_text(text, "utf-8")
    return [str(file) for file in files]


@pytest.fixture
def subject(started: Subject) -> Iterator[Subject]:
    """The subject; whatever a test did to it, it must go on answering."""
    yield started
    for proxy in (started.reader, started.writer):
        assert proxy.request("GET", "/-/live")[0] == 200
        status, _, body = proxy.request("GET", "/sparql" + get("ASK {}"), Accept=JSON)
        assert status == 200 and json.loads(body)["boolean"] is True


# -- a scripted backend behind each adapter

ADAPTERS = ("oxigraph", "qlever", "graphdb", "sparql")
Front = Callable[..., tuple[Stub, Proxy]]


@pytest.fixture(params=ADAPTERS)
def adapter(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def front(adapter: str) -> Iterator[Front]:
    """Start a backend of raw bytes with Sparlance before it, as *adapter*; whatever happens, Sparlance must go on answering."""
    with ExitStack() as stack:
        started: list[Proxy] = []

        def start(script: Script, **overrides: Any) -> tuple[Stub, Proxy]:
            stub = Stub(script)
            stack.callback(stub.close)
            settings: dict[str, Any] = {"backend__kind": adapter, "backend__url": stub.url}
            if adapter == "graphdb":
                settings["backend__repository"] = "r"
            if adapter == "sparql":
                settings["backend__url"] += "/sparql"
            started.append(Proxy(**{**settings, **overrides}))
            stack.callback(started[-1].close)
            return stub, started[-1]

        yield start
        for proxy in started:
            assert proxy.request("GET", "/-/live")[0] == 200
