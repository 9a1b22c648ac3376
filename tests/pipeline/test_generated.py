"""Generated graphs of every shape: M and S are those of a count triple by triple, both ways, also for Wikidata's shape."""

from __future__ import annotations

import asyncio
import random
from itertools import islice

import pyoxigraph as ox
import pytest

from benchmarks.graphs import SHAPES, class_predicate
from proxy.backends.embedded import EmbeddedBackend
from proxy.config import IndexSettings
from proxy.pipeline.distil import distil
from proxy.pipeline.verify import verify
from tests.pipeline.test_distil import seen_cells, true_cells


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("method", ["ask", "download"])
def test_every_shape_is_counted_exactly(shape, method):
    """Many classes, deep hierarchies, another class predicate; nothing of the graph is called impossible."""
    store = ox.Store()
    lines = "\n".join(islice(SHAPES[shape](1500, random.Random(2)), 1500))
    store.load(lines.encode(), ox.RdfFormat.N_TRIPLES)
    predicate = class_predicate(shape)

    async def run():
        backend = EmbeddedBackend(store)
        made = await distil(backend, IndexSettings(class_predicate=predicate), method=method)
        return made, await verify(backend, made.index, made.values, cells=30, paths=60)

    made, verdict = asyncio.run(run())
    assert made.method == method and made.index.incomplete == ()
    assert seen_cells(made) == true_cells(store, predicate)[0]
    assert verdict.is_true, verdict.wrong
