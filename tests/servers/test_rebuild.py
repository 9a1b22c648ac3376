"""A rebuild in a process of its own: the server maps what that process wrote, and builds by itself where it could not."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from proxy.app import create_app
from proxy.config import load_config
from proxy.pipeline.dataset import Dataset
from tests.servers.conftest import DATA
from tests.servers.oxigraph import Oxigraph


async def until(condition) -> None:
    ends = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < ends, "it did not happen"
        await asyncio.sleep(0.02)


def opened(server: Oxigraph, folder: Path) -> Dataset:
    overrides = {"backend.url": server.url, "index.directory": str(folder), "nl.enabled": False, "index.duty": 1.0}
    [dataset] = create_app(load_config(None, overrides=overrides)).datasets
    dataset.rebuild_pause_s, dataset.settle_s = 0.0, 0.02
    return dataset


def test_a_rebuild_comes_from_another_process(tmp_path):
    """New data, the next epoch, the same file; nothing of it was asked by this process but the markers."""

    async def check(server: Oxigraph) -> None:
        one = opened(server, tmp_path)
        one.start()
        await one.built()
        server.load(b"<http://example.org/x> <http://example.org/new> 1 .", "text/turtle")
        told = set()
        one.refresh()
        while one.index.epoch == 1:
            told.add(one.index_build.phase)
            await asyncio.sleep(0.01)
        assert "http://example.org/new" in one.index.properties and one.index.epoch == 2
        assert one.upkeep.error == "" and not one.upkeep.has_moved
        assert told & {"downloading", "counting", "writing"}  # a look each 10 ms may miss the first ones of so small a graph
        assert sorted(p.suffix for p in tmp_path.iterdir()) == [".index", ".lock"]
        await one.aclose()

    with Oxigraph(data=DATA) as server:
        asyncio.run(check(server))


def test_where_no_process_can_be_had_this_one_builds(tmp_path, monkeypatch):
    """An interpreter that is not there: logged, and built here."""

    async def check(server: Oxigraph) -> None:
        one = opened(server, tmp_path)
        one.start()
        await one.built()
        monkeypatch.setattr("proxy.rebuild.sys.executable", "/bin/false")
        one.refresh()
        await until(lambda: one.index.epoch == 2)
        await one.aclose()

    with Oxigraph(data=DATA) as server:
        asyncio.run(check(server))


def test_closing_ends_the_other_process(tmp_path):
    """A server that is stopped while a rebuild runs leaves no process behind, and the old file."""

    async def check(server: Oxigraph) -> None:
        one = opened(server, tmp_path)
        one.start()
        await one.built()
        [file] = tmp_path.glob("*.index")
        before = file.read_bytes()
        one.refresh()
        await asyncio.sleep(0.1)
        await asyncio.wait_for(one.aclose(), 5)
        assert file.read_bytes() == before

    with Oxigraph(data=DATA) as server:
        asyncio.run(check(server))
