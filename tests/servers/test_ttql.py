"""The same TTQL document out of every server, over the graphs that the index was built from."""

from __future__ import annotations

import asyncio

import pytest

from proxy.app import create_app
from proxy.config import load_config
from proxy.index.ttql_text import render
from proxy.pipeline.ttql import describe
from tests.pipeline.test_harvest import Graph, verify
from tests.servers.conftest import DATA
from tests.servers.every import JAVA_KINDS, KINDS, Endpoint, running
from tests.servers.test_distil import expected

PARAMS = [pytest.param(kind, marks=[pytest.mark.java] if kind in JAVA_KINDS else []) for kind in KINDS]


def described(endpoint: Endpoint, graphs: str):
    overrides = {
        "backend.kind": endpoint.backend,
        "backend.url": endpoint.url + (endpoint.query_path if endpoint.backend == "sparql" else ""),
        "backend.repository": endpoint.repository,
        "index.directory": "",
        "index.class_predicate": "http://www.w3.org/1999/02/22-rdf-syntax-ns#type",
        "index.graphs": graphs,
        "nl.enabled": False,
    }

    async def run():
        [dataset] = create_app(load_config(None, overrides=overrides)).datasets
        try:
            dataset.start()
            await dataset.built()
            assert dataset.reasons() == []
            return await describe(dataset, [], progress=lambda *_: None, depth=2)
        finally:
            await dataset.aclose()

    return asyncio.run(run())


@pytest.mark.parametrize("kind", PARAMS)
def test_every_server_counts_the_same(kind: str) -> None:
    """All shares as counted triple by triple, in the default graph and in the union; nothing is incomplete."""
    with running(kind, DATA) as endpoint:
        for graphs, is_union in (("default", endpoint.has_union), ("union", True)):
            if graphs == "union" and endpoint.kind == "fuseki":
                continue  # its union is listed by FROM, which leaves out what is in no named graph
            document = described(endpoint, graphs)
            assert not any("incomplete" in note for note in document.notes), render(document)
            assert verify(document, Graph(expected(endpoint, union=is_union)), depth=2, floor=0.01) > 0
            assert '["Der Wüstenplanet"]@de' in render(document)
