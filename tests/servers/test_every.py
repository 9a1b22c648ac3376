"""What a suite for all backends may rely on holds without a proxy between."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator

import pytest

from tests.servers.conftest import DATA
from tests.servers.every import JAVA_KINDS, KINDS, Endpoint, running
from tests.servers.process import request

PREFIX = "PREFIX ex: <http://example.org/> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> "
JSON = {"Accept": "application/sparql-results+json"}


PARAMS = [pytest.param(kind, marks=[pytest.mark.java] if kind in JAVA_KINDS else []) for kind in KINDS]


@pytest.fixture(scope="module", params=PARAMS)
def endpoint(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    with running(request.param, DATA) as started:
        yield started


def query(endpoint: Endpoint, text: str) -> tuple[int, dict[str, str], bytes]:
    target = f"{endpoint.query_path}?" + urllib.parse.urlencode({"query": PREFIX + text})
    return request(endpoint.port, "GET", target, headers=JSON)


def test_the_same_query_has_the_same_solutions(endpoint: Endpoint) -> None:
    """Standard SPARQL JSON; the languages and the values are those of the data."""
    status, headers, body = query(endpoint, "SELECT ?l ?n { ?s rdfs:label ?l ; ex:pages ?n } ORDER BY ?n")
    solutions = json.loads(body)["results"]["bindings"]
    assert (status, headers["content-type"].partition(";")[0]) == (200, JSON["Accept"])
    assert {(row["l"]["value"], row["l"]["xml:lang"]) for row in solutions} == {
        ("Dune", "en"),
        ("Der Wüstenplanet", "de"),
        ("Emma", "en"),
    }
    assert [row["n"]["value"] for row in solutions] == ["412", "412", "474"]


def test_the_default_graph_is_what_is_said(endpoint: Endpoint) -> None:
    """A triple of a named graph is in the default graph of the union backends only."""
    seen = json.loads(query(endpoint, "ASK { ex:dune ex:lentTo ?x }")[2])["boolean"]
    assert seen is endpoint.has_union


def test_an_update_changes_the_next_answer(endpoint: Endpoint) -> None:
    """An update by direct POST, with whatever credential the backend wants."""
    headers = {"Content-Type": "application/sparql-update", **endpoint.update_headers}
    for verb, expected in (("INSERT", True), ("DELETE", False)):
        body = f"{PREFIX}{verb} DATA {{ ex:new ex:pages 7 }}".encode()
        assert request(endpoint.port, "POST", endpoint.update_path, body, headers)[0] in (200, 204)
        assert json.loads(query(endpoint, "ASK { ex:new ex:pages 7 }")[2])["boolean"] is expected


def test_what_is_no_query_is_a_400(endpoint: Endpoint) -> None:
    """Every backend refuses with 400 and a body that says something."""
    status, _, body = query(endpoint, "SELECT * { ?s ?p ")
    assert status == 400 and body
