"""Queries with answers over real graphs (``SPARLANCE_BENCH``: folders of graphs, as for ``benchmarks.mutants``, by ``:``)."""

import asyncio
import os
import random
import sys
from pathlib import Path

import pyoxigraph as ox
import pytest

from proxy.backends.embedded import EmbeddedBackend
from proxy.config import IndexSettings
from proxy.pipeline.distil import distil
from proxy.pipeline.verify import verify
from proxy.query.parse import parse
from proxy.validation.check import check, is_proved_empty

sys.path.append(str(Path(__file__).parent.parent.parent))
from benchmarks.mutants import gold_queries, is_empty, load

BENCH = os.environ.get("SPARLANCE_BENCH")
pytestmark = pytest.mark.skipif(BENCH is None, reason="SPARLANCE_BENCH does not say where graphs with questions lie")
WALKS = 200


def folders():
    roots = [Path(p) for p in BENCH.split(os.pathsep)] if BENCH else []
    return [
        pytest.param(f, id=f"{r.name}/{f.name}") for r in roots for f in sorted(r.iterdir()) if (f / "questions.json").exists()
    ]


def walk(rng, triples, by_subject):
    """A query that its own triples answer: a walk, some of whose nodes and literals stay constants."""
    patterns, names = [], {}
    s, p, o = rng.choice(triples)
    for _ in range(rng.randint(1, 5)):
        places = []
        for term in (s, o):
            if isinstance(term, ox.BlankNode) or (term not in names and rng.random() < 0.6):
                names[term] = f"?v{len(names)}"
            places.append(names.get(term, str(term)))
        patterns.append(f"{places[0]} {p} {places[1]} .")
        following = by_subject.get(o) or by_subject[s]
        s, p, o = rng.choice(following)
    return f"SELECT * {{ {' '.join(patterns)} }}"


@pytest.mark.parametrize("folder", folders())
def test_no_answer_is_lost(folder):
    """Neither a gold query nor a random walk over the graph's own triples is proved empty."""
    store = load(folder)
    distilled = asyncio.run(distil(EmbeddedBackend(store), IndexSettings()))
    triples = [(q.subject, q.predicate, q.object) for q in store]
    by_subject = {}
    for triple in triples:
        by_subject.setdefault(triple[0], []).append(triple)
    rng = random.Random(folder.name)
    try:
        for text in [*gold_queries(folder), *(walk(rng, triples, by_subject) for _ in range(WALKS))]:
            query = parse(text)
            if is_proved_empty(check(query, distilled.index, values=distilled.values)):
                assert is_empty(query, store), text
    finally:
        distilled.values.close()


@pytest.mark.parametrize("method", ["ask", "download"])
@pytest.mark.parametrize("folder", folders())
def test_the_index_verifies(folder, method):
    """Cells of M counted again are the same, and no random path of the live graph is called impossible."""

    async def run():
        backend = EmbeddedBackend(load(folder))
        distilled = await distil(backend, IndexSettings(), method=method)
        try:
            assert distilled.method == method
            return await verify(backend, distilled.index, distilled.values, cells=60, paths=100, seed=1)
        finally:
            distilled.values.close()

    verdict = asyncio.run(run())
    assert verdict.is_true, verdict.wrong
    assert verdict.paths and verdict.cells
