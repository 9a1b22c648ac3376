"""The RDF4J client library, which GraphDB's own clients are, through us to a real RDF4J Server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.loopback.conftest import Proxy
from tests.servers.conftest import DATA
from tests.servers.every import running
from tests.servers.process import request
from tests.servers.rdf4j import Rdf4jServer, run_client

pytestmark = [pytest.mark.java, pytest.mark.loopback]


@pytest.fixture(scope="module")
def server() -> Iterator[Rdf4jServer]:
    with running("rdf4j", DATA) as endpoint:
        assert isinstance(endpoint.server, Rdf4jServer)
        yield endpoint.server


def front(server: Rdf4jServer, **policy: bool) -> Proxy:
    return Proxy(backend__kind="graphdb", backend__url=server.url, backend__repository=server.repository, **policy)


def test_everything_works_where_updates_are_allowed(server: Rdf4jServer) -> None:
    """HTTPRepository and SPARQLRepository: every form, bindings, statements, update, transaction and roll-back."""
    before = server.request("GET", f"{server.path}/size")[2]
    proxy = front(server, policy__allow_updates=True)
    try:
        outcomes = run_client(f"http://127.0.0.1:{proxy.port}", server.repository)
    finally:
        proxy.close()
    assert {name: outcome for name, outcome in outcomes.items() if outcome != "PASS"} == {}
    assert {"http transaction", "http rollback", "http update", "http select", "http size", "sparql update"} <= set(outcomes)
    assert server.request("GET", f"{server.path}/size")[2] == before


def test_reading_works_by_default_and_writing_does_not(server: Rdf4jServer) -> None:
    """With the defaults, all that reads works; an update and a transaction fail with our reason, and change nothing."""
    before = server.request("GET", f"{server.path}/size")[2]
    proxy = front(server)
    try:
        outcomes = run_client(f"http://127.0.0.1:{proxy.port}", server.repository)
    finally:
        proxy.close()
    failed = {name: outcome for name, outcome in outcomes.items() if outcome != "PASS"}
    assert set(failed) == {"http update", "http transaction", "http rollback", "sparql update"}
    assert all("not allowed" in outcome or "403" in outcome for outcome in failed.values())
    assert server.request("GET", f"{server.path}/size")[2] == before


def test_a_repository_survives_those_who_would_remove_it(server: Rdf4jServer) -> None:
    """By its own path, and by paths that lead there through the graph store, as the real Tomcat resolves them."""
    proxy = front(server, policy__allow_updates=True)
    try:
        for path in ("", "/rdf-graphs/..", "/rdf-graphs/x/../..", "/rdf-graphs/%2e%2e", "/rdf-graphs/..;x=y"):
            assert proxy.request("DELETE", server.path + path)[0] in (404, 405)
    finally:
        proxy.close()
    assert request(server.port, "GET", f"{server.path}/size")[0] == 200
