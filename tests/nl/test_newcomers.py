"""The benchmark of graphs in unfamiliar styles (benchmarks/data/newcomers): its golden queries bring the answers worked out by
hand."""

from __future__ import annotations

import json
from pathlib import Path

import pyoxigraph as ox
import pytest

DATA = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "newcomers"


@pytest.mark.parametrize("name", ["archive", "catalogue", "works"])
def test_that_golden_queries_bring_the_answers_worked_out_by_hand(name: str) -> None:
    store = ox.Store()
    store.bulk_load((DATA / name / "graph.ttl").read_bytes(), ox.RdfFormat.TURTLE)
    records = json.loads((DATA / name / "questions.json").read_text(encoding="utf-8"))
    assert len(records) == 20
    for record in records:
        found = store.query(record["query"])
        if isinstance(found, ox.QueryBoolean):
            assert bool(found) is record["answer"], record["question"]
        else:
            assert isinstance(found, ox.QuerySolutions)
            rows = sorted([s[v].value for v in found.variables] for s in found)
            assert rows == record["answer"], record["question"]
