"""Any SPARQL 1.1 endpoint: its URL may have a path and a query string, its updates may go elsewhere, it may fetch graphs."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from proxy.backends import connect
from proxy.config import BackendSettings
from proxy.errors import ConfigError
from tests.contract.conftest import DIRECT, FORM, UPDATE, get
from tests.loopback.conftest import OK, Proxy, Stub, answering

pytestmark = pytest.mark.loopback


@pytest.fixture
def stub() -> Iterator[Stub]:
    backend = Stub(answering(OK))
    yield backend
    backend.close()


def test_the_query_string_of_the_url_is_sent_first(stub: Stub) -> None:
    """With every form; updates have their own URL."""
    proxy = Proxy(
        backend__kind="sparql",
        backend__url=f"{stub.url}/a/b?key=1&default-graph-uri=http%3A%2F%2Fg",
        backend__update_url=f"{stub.url}/c?key=2",
        policy__allow_updates=True,
    )
    try:
        fixed = "key=1&default-graph-uri=http%3A%2F%2Fg"
        proxy.request("GET", "/sparql" + get("ASK {}", x="1"))
        proxy.request("GET", "/a/b" + get("ASK {}"))
        proxy.request("POST", "/sparql", b"ASK {}", Content_Type=DIRECT)
        proxy.request("POST", "/sparql", b"query=ASK%7B%7D", Content_Type=FORM)
        proxy.request("POST", "/sparql?y=2", b"CLEAR ALL", Content_Type=UPDATE)
        proxy.request("GET", "/-/ready")
        targets = [r.split(b" ")[1].decode() for r in stub.requests]
        ask = get("ASK {}").removeprefix("?")
        assert targets == [
            f"/a/b?{fixed}&{ask}&x=1",
            f"/a/b?{fixed}&{ask}",
            f"/a/b?{fixed}",
            f"/a/b?{fixed}",
            "/c?key=2&y=2",
            f"/a/b?{fixed}",
        ]
    finally:
        proxy.close()


def test_updates_go_to_the_same_server() -> None:
    """A second server would be a second backend, with connections and limits of its own."""
    settings = BackendSettings(kind="sparql", url="http://127.0.0.1:1/sparql", update_url="http://127.0.0.1:2/update")
    with pytest.raises(ConfigError, match="not on the server"):
        connect(settings)


FETCHING = [
    ("query=" + quote("SELECT * FROM <http://169.254.169.254/x> { ?s ?p ?o }"), ""),
    ("query=" + quote("SELECT * FROM NAMED <http://169.254.169.254/x> { GRAPH ?g { ?s ?p ?o } }"), ""),
    ("query=" + quote("SELECT * { ?s ?p ?o }"), "?default-graph-uri=http://169.254.169.254/x"),
    ("query=" + quote("SELECT * { ?s ?p ?o }"), "?named-graph-uri=http://169.254.169.254/x"),
    ("query=" + quote("SELECT * FROM <http://169.254.169.254/x> { << ?a ?b ?c >> ?d ?e ; } }"), ""),
    ("update=" + quote("DELETE { ?s ?p ?o } USING <http://169.254.169.254/x> WHERE { ?s ?p ?o }"), ""),
    ("update=" + quote("CLEAR ALL"), "?using-graph-uri=http://169.254.169.254/x"),
]


@pytest.mark.parametrize(("form", "query_string"), FETCHING)
def test_graphs_that_the_server_would_fetch_are_held_to_the_list(stub: Stub, form: str, query_string: str) -> None:
    """``fetches_graphs = true``: FROM, USING and the parameters are as SERVICE; what is listed passes."""
    settings = {
        "backend__kind": "sparql",
        "backend__url": stub.url,
        "backend__fetches_graphs": True,
        "policy__allow_updates": True,
        "policy__allowed_services": ["http://e/listed"],
    }
    proxy = Proxy(**settings)
    try:
        for _ in range(2):  # the verdict on a text is remembered, that on the graphs of the protocol is not
            status, _, _ = proxy.request("POST", "/sparql" + query_string, form.encode(), Content_Type=FORM)
            assert status == 403 and stub.requests == []
        listed = form.replace("169.254.169.254/x", "e/listed"), query_string.replace("169.254.169.254/x", "e/listed")
        if "%3C%3C" not in form:
            assert proxy.request("POST", "/sparql" + listed[1], listed[0].encode(), Content_Type=FORM)[0] == 200
    finally:
        proxy.close()
