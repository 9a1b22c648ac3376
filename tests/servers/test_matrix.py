"""M out of every server and embedded, asked and downloaded, equals a count of the same triples by other means.

The demo graph, generated ones, and every ``*/graph.nt.gz`` in the folders that ``SPARLANCE_BENCH`` names (by ``:``).
"""

from __future__ import annotations

import asyncio
import gzip
import os
import random
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path

import pyoxigraph as ox
import pytest

from benchmarks.graphs import SHAPES
from proxy.assembly import make_backend
from proxy.backends.base import Backend
from proxy.backends.embedded import EmbeddedBackend
from proxy.config import load_config
from proxy.demo.coast import graph, ontology
from proxy.indexing import make_upkeep
from proxy.query.term import RDF_TYPE
from tests.pipeline.test_distil import true_matrix
from tests.servers.every import running

BENCH = [Path(p) for p in os.environ.get("SPARLANCE_BENCH", "").split(os.pathsep) if p]
FILES = [file for folder in BENCH for file in sorted(folder.glob("*/graph.nt.gz"))]
GRAPHS = ["demo", "plain-20", "deep", *map(str, FILES)]
KINDS = ["embedded", "oxigraph", "qlever", pytest.param("rdf4j", marks=pytest.mark.java)]


@cache
def store_of(name: str) -> ox.Store:
    store = ox.Store()
    if name == "demo":
        store.load(graph().encode(), ox.RdfFormat.N_TRIPLES)
        store.load(ontology().encode(), ox.RdfFormat.TURTLE)
    elif name in SHAPES:
        lines = "\n".join(islice(SHAPES[name](1200, random.Random(3)), 1200))
        store.load(lines.encode(), ox.RdfFormat.N_TRIPLES)
    else:
        store.load(gzip.decompress(Path(name).read_bytes()), ox.RdfFormat.N_TRIPLES)
    return store


def written(store: ox.Store) -> str:
    text = store.dump(format=ox.RdfFormat.N_TRIPLES, from_graph=ox.DefaultGraph())
    assert text is not None
    return text.decode()


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module", params=GRAPHS, ids=lambda name: Path(name).parent.name or name)
def served(kind: str, request: pytest.FixtureRequest) -> Iterator[tuple[dict[str, object], ox.Store]]:
    """What a configuration says of the server, and the triples that it has."""
    store = store_of(request.param)
    if kind == "embedded":
        yield {}, store
        return
    with running(kind, {"application/n-triples": written(store)}) as endpoint:
        where = {"kind": endpoint.backend, "url": endpoint.url, "repository": endpoint.repository}
        yield {f"backend.{k}": v for k, v in where.items()}, store


@pytest.mark.parametrize("method", ["ask", "download"])
def test_every_count_is_that_of_another_count(served: tuple[dict[str, object], ox.Store], method: str) -> None:
    """(class or none, property, class, datatype or none) → triples: no cell more, none less, each the same number."""
    where, store = served
    fixed = {"index.directory": "", "index.method": method, "index.class_predicate": RDF_TYPE}
    config = load_config(None, overrides=where | fixed)

    async def run() -> tuple[str, dict[object, int], int]:
        backend: Backend = make_backend(config, lambda *_: None) if where else EmbeddedBackend(store)
        try:
            made = await make_upkeep(config, "d").build(backend, lambda *_: None, 1)
            return made.method, dict(made.index.matrix.items()), len(made.index.incomplete)
        finally:
            await backend.aclose()

    how, matrix, incomplete = asyncio.run(run())
    assert (how, incomplete) == (method, 0)
    assert matrix == dict(true_matrix(store)) and matrix
