"""The same index out of every server, embedded too: counted chunk by chunk and by download, whatever the graphs' scope."""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import Iterator
from dataclasses import replace

import pyoxigraph as ox
import pytest

from proxy.assembly import make_backend
from proxy.backends.embedded import EmbeddedBackend
from proxy.config import load_config
from proxy.indexing import make_upkeep
from proxy.pipeline.distil import Distilled
from tests.pipeline.test_distil import seen_cells, true_cells
from tests.servers.conftest import DATA
from tests.servers.every import JAVA_KINDS, KINDS, Endpoint, running
from tests.servers.process import request

PARAMS = [pytest.param(kind, marks=[pytest.mark.java] if kind in JAVA_KINDS else []) for kind in KINDS]


@pytest.fixture(scope="module", params=PARAMS)
def endpoint(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    with running(request.param, DATA) as started:
        yield started


def build(endpoint: Endpoint, **index: object) -> Distilled:
    url = endpoint.url + (endpoint.query_path if endpoint.backend == "sparql" else "")
    overrides = {
        "backend.kind": endpoint.backend,
        "backend.url": url,
        "backend.repository": endpoint.repository,
        "index.directory": "",
        "index.class_predicate": "http://www.w3.org/1999/02/22-rdf-syntax-ns#type",
    }
    config = load_config(None, overrides=overrides | {f"index.{k}": v for k, v in index.items()})

    async def run() -> Distilled:
        backend = make_backend(config, lambda *_: None)
        try:
            return await make_upkeep(config, "d").build(backend, lambda *_: None, 1)
        finally:
            await backend.aclose()

    return asyncio.run(run())


def expected(endpoint: Endpoint, *, union: bool) -> ox.Store:
    """The graph that a server's default graph (or the union of all) shows; where it infers, what it says itself."""
    if endpoint.kind == "graphdb":
        query = urllib.parse.urlencode({"query": "CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }"})
        target = f"{endpoint.query_path}?{query}"
        status, _, body = request(endpoint.port, "GET", target, headers={"Accept": "application/n-triples"})
        assert status == 200
        inferred = ox.Store()
        inferred.load(body, ox.RdfFormat.N_TRIPLES)
        assert len(inferred) > 10
        return inferred
    held = ox.Store()
    for media, text in DATA.items():
        held.load(text.encode(), ox.RdfFormat.from_media_type(media))
    flat = ox.Store()
    for quad in held:
        if union or isinstance(quad.graph_name, ox.DefaultGraph):
            flat.add(ox.Quad(quad.subject, quad.predicate, quad.object))
    return flat


@pytest.mark.parametrize("method", ["ask", "download"])
def test_the_default_graph_is_counted_exactly(endpoint: Endpoint, method: str) -> None:
    """S of a count triple by triple, in the scope that the server's own queries have."""
    made = build(endpoint, method=method)
    assert seen_cells(made) == true_cells(expected(endpoint, union=endpoint.has_union))[0]
    assert made.index.incomplete == ()
    assert made.index.covers_named_graphs is endpoint.has_union
    assert made.method == method


@pytest.mark.parametrize("method", ["ask", "download"])
def test_the_union_of_all_graphs_is_counted_exactly(endpoint: Endpoint, method: str) -> None:
    """By parameter, by nature, or by FROM; where FROM cannot reach the default graph's triples that is written down."""
    made = build(endpoint, method=method, graphs="union")
    assert made.index.covers_named_graphs
    if endpoint.backend == "sparql":
        assert [c.reason for c in made.index.incomplete] == ["the default graph holds triples that are in no named graph"]
        assert not made.index.is_complete_for()
    else:
        assert seen_cells(made) == true_cells(expected(endpoint, union=True))[0]
        assert made.index.incomplete == ()


def test_an_embedded_store_gives_the_same(endpoint: Endpoint) -> None:
    """No server, the same code, the same cells as the server's."""
    config = load_config(None, overrides={"index.directory": "", "index.method": "ask"})

    async def run() -> Distilled:
        backend = EmbeddedBackend(expected(endpoint, union=endpoint.has_union))
        return await make_upkeep(config, "d").build(backend, lambda *_: None, 1)

    assert seen_cells(asyncio.run(run())) == seen_cells(build(endpoint, method="ask"))


def test_named_graphs_only(endpoint: Endpoint) -> None:
    """Their triples, merged; nothing is proved if the default graph has more."""
    made = build(endpoint, method="ask", graphs="named")
    if endpoint.backend == "qlever":
        return  # what stands behind it in tests need not know FROM
    held = ox.Store()
    for media, text in DATA.items():
        held.load(text.encode(), ox.RdfFormat.from_media_type(media))
    named = ox.Store()
    for quad in held:
        if not isinstance(quad.graph_name, ox.DefaultGraph):
            named.add(ox.Quad(quad.subject, quad.predicate, quad.object))
    assert seen_cells(made) == true_cells(named)[0]
    assert not made.index.is_complete_for()


@pytest.mark.parametrize("method", ["ask", "download"])
def test_each_named_graph_alone(endpoint: Endpoint, method: str) -> None:
    """S of every named graph by itself, beside that of all together."""
    made = build(endpoint, method=method, graphs="each")
    if endpoint.backend == "qlever":
        return  # as above
    held = ox.Store()
    for media, text in DATA.items():
        held.load(text.encode(), ox.RdfFormat.from_media_type(media))
    names = {q.graph_name.value for q in held if not isinstance(q.graph_name, ox.DefaultGraph)}
    assert set(made.index.graphs) == names and names
    for name, own in made.index.graphs.items():
        alone = ox.Store()
        found = held.quads_for_pattern(None, None, None, ox.NamedNode(name))
        alone.extend(ox.Quad(q.subject, q.predicate, q.object) for q in found)
        assert seen_cells(replace(made, index=own)) == true_cells(alone)[0]
        assert own.is_complete_for()
    assert made.index.covers_named_graphs
