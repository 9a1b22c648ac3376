"""A true index passes; one that is wrong anywhere that was looked at does not."""

from __future__ import annotations

import asyncio

import pyoxigraph as ox
import pytest

from proxy.backends.embedded import EmbeddedBackend
from proxy.cli import main
from proxy.config import IndexSettings
from proxy.pipeline.distil import distil
from proxy.pipeline.verify import verify
from tests.pipeline.test_distil import random_graph


async def verdict(before: ox.Store, after: ox.Store, **more):
    made = await distil(EmbeddedBackend(before), IndexSettings())
    return await verify(EmbeddedBackend(after), made.index, made.values, cells=1000, paths=150, **more)


@pytest.mark.parametrize("seed", range(12))
def test_a_true_index_passes(seed):
    """Whatever the seed: every count is met again, and no path of the graph is called impossible."""
    store = random_graph(seed)
    found = asyncio.run(verdict(store, store, seed=seed))
    assert found.is_true, found.wrong
    assert found.cells > 3 and found.paths > 50


def test_a_stale_index_fails():
    """The graph has edges that the index does not know: counts differ, and paths over them would be refused."""
    before = ox.Store()
    before.load(b"@prefix : <http://e/> . :a a :C ; :p :b . :b a :D .", ox.RdfFormat.TURTLE)
    after = ox.Store()
    after.load(b"@prefix : <http://e/> . :a a :C ; :p :b . :b a :D ; :new :a ; :p 1 , 2 .", ox.RdfFormat.TURTLE)
    found = asyncio.run(verdict(before, after))
    assert not found.is_true and not found.counts_agree
    assert any("called impossible" in line for line in found.wrong)
    swapped = ox.Store()
    swapped.load(b"@prefix : <http://e/> . :b a :C ; :p :b . :a a :D .", ox.RdfFormat.TURTLE)
    found = asyncio.run(verdict(before, swapped))
    assert found.counts_agree and any("in the index" in line for line in found.wrong)


def test_the_commands(tmp_path, capsys, monkeypatch):
    """build leaves a file, verify and show start from it; verify's exit code tells."""
    graph = tmp_path / "g.ttl"
    graph.write_text("@prefix : <http://e/> . :a a :C ; :p 1 . :b a :D ; :q :a .")
    monkeypatch.setenv("SPARLANCE_INDEX_DIRECTORY", str(tmp_path / "kept"))
    assert main(["index", "build", "--load", str(graph)]) == 0
    told = capsys.readouterr().out
    assert "4 triples" in told and str(tmp_path / "kept") in told
    [file] = (tmp_path / "kept").glob("*.index")
    before = file.stat().st_mtime_ns
    assert main(["index", "verify", "--load", str(graph), "--cells", "9", "--paths", "9"]) == 0
    assert "0 wrong; the counts of properties and classes agree" in capsys.readouterr().out
    assert main(["index", "show", "--load", str(graph)]) == 0
    assert file.stat().st_mtime_ns == before
    monkeypatch.setenv("SPARLANCE_INDEX_DIRECTORY", "")
    assert main(["index", "build", "--load", str(graph)]) == 2
    assert "index.directory" in capsys.readouterr().err
