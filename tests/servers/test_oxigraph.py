"""The real Oxigraph starts, holds data, stops, and comes back on the same port."""

from __future__ import annotations

import urllib.parse
from pathlib import Path

import pytest

from tests.servers.conftest import DATA, TURTLE
from tests.servers.oxigraph import Oxigraph
from tests.servers.process import ServerDidNotStart

COUNT = "/query?" + urllib.parse.urlencode({"query": "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"})
CSV = {"Accept": "text/csv"}


def test_the_server_holds_files_and_data_under_its_flags(tmp_path: Path) -> None:
    """Files and data are loaded before it is handed out; with the flag the default graph is the union."""
    file = tmp_path / "library.ttl"
    file.write_text(TURTLE, "utf-8")
    with Oxigraph(files=[file], data={"application/trig": DATA["application/trig"]}, flags=["--union-default-graph"]) as server:
        assert server.request("GET", COUNT, headers=CSV)[2] == b"n\r\n11\r\n"
    with Oxigraph(data=DATA) as server:
        assert server.request("GET", COUNT, headers=CSV)[2] == b"n\r\n10\r\n"


def test_a_killed_server_comes_back_on_its_port() -> None:
    """``stop(kill=True)`` is a crash; ``start`` afterwards listens where it did."""
    with Oxigraph(data=DATA) as server:
        port = server.port
        server.stop(kill=True)
        with pytest.raises(ConnectionError):
            server.request("GET", COUNT)
        server.start()
        assert server.port == port
        assert server.request("GET", COUNT, headers=CSV)[0] == 200


def test_a_read_only_server_refuses_updates(tmp_path: Path) -> None:
    """serve-read-only opens what serve has written, and answers an update with 403."""
    with Oxigraph(data=DATA, location=tmp_path):
        pass
    with Oxigraph(location=tmp_path, read_only=True) as server:
        assert server.request("GET", COUNT, headers=CSV)[2] == b"n\r\n10\r\n"
        update = {"Content-Type": "application/sparql-update"}
        assert server.request("POST", "/update", b"CLEAR ALL", update)[0] == 403


def test_a_server_that_cannot_start_says_why() -> None:
    """The message holds what the process wrote."""
    with pytest.raises(ServerDidNotStart, match="--nonsense"), Oxigraph(flags=["--nonsense"]):
        pass
