"""A rebuild in a process of its own: the server maps what that process wrote, and builds by itself where it could not."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from proxy import rebuild
from proxy.app import create_app
from proxy.config import load_config
from proxy.pipeline import distil as distil_module
from proxy.pipeline import download_parts
from proxy.pipeline.dataset import Dataset
from tests.servers.conftest import DATA
from tests.servers.oxigraph import Oxigraph


async def until(condition) -> None:
    ends = time.monotonic() + 60
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


def test_a_graph_too_large_to_be_held_is_rebuilt_too(tmp_path, monkeypatch, capsys):
    """Counted in parts, in a thread, which tells how far it is; what that process does, done here."""
    monkeypatch.setattr(distil_module, "DOWNLOAD_MOST", 20)
    monkeypatch.setattr(download_parts, "PART_MOST", 5)
    with Oxigraph(data=DATA) as server:
        overrides = {"backend.url": server.url, "index.directory": str(tmp_path), "index.method": "download"}
        config = load_config(None, overrides=overrides)
        assert asyncio.run(rebuild._build(config, rebuild._Message({}, "default", 2)))
    assert '["counting",' in capsys.readouterr().out
    assert [p.suffix for p in sorted(tmp_path.iterdir())] == [".index", ".lock"]


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


def embedded(tmp_path: Path, triples: int, **overrides) -> Dataset:
    data = tmp_path / "data.ttl"
    line = "<http://e/{0}> a <http://e/C> ; <http://e/l> 'text {0}' , <http://e/{1}> .\n"
    data.write_text("".join(line.format(i, i % 7) for i in range(triples // 3)))
    settings = {"backend.load": (str(data),), "index.directory": "", "nl.enabled": False, "index.duty": 1.0} | overrides
    [dataset] = create_app(load_config(None, overrides=settings)).datasets
    dataset.rebuild_pause_s, dataset.settle_s = 0.0, 0.02
    return dataset


@pytest.mark.parametrize("directory", ["", "kept"], ids=["memory only", "with a file"])
def test_an_embedded_store_is_handed_over(tmp_path, monkeypatch, directory):
    """Its rebuild is of the data as they are, updates included, in another process; the archive of the loaded files stays."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("proxy.rebuild.HERE_MOST_BYTES", 0)

    async def check() -> None:
        one = embedded(tmp_path, 3_000, **{"index.directory": directory and str(tmp_path / directory)})
        one.start()
        await one.built()
        archived = {f: f.read_bytes() for f in tmp_path.glob("kept/*.index")}
        new = "<http://e/x> <http://e/new> 1 . GRAPH <http://e/g> { <http://e/x> a <http://e/D> }"
        one.backend._store.update(f"INSERT DATA {{ {new} }}")
        told = set()
        one.refresh()
        while one.index.epoch == 1:
            told.add(one.index_build.phase)
            await asyncio.sleep(0.005)
        assert one.upkeep.cost["queries"] and told & {"handing over", "downloading", "counting"}
        assert one.index.targets(None, "http://e/new") == {"http://www.w3.org/2001/XMLSchema#integer": 1}
        assert one.values.lookup("text 7") and not one.upkeep.has_moved and one.upkeep.error == ""
        assert {f: f.read_bytes() for f in tmp_path.glob("kept/*.index")} == archived and len(archived) == bool(directory)
        assert not list(tmp_path.glob("sparlance-rebuild-*"))
        await one.aclose()

    asyncio.run(check())


def test_where_a_snapshot_cannot_be_written_this_process_builds(tmp_path, monkeypatch):
    """No room for it, or another process that fails: the new index is there all the same."""
    monkeypatch.setattr("proxy.rebuild.HERE_MOST_BYTES", 0)

    async def check() -> None:
        one = embedded(tmp_path, 300)
        one.start()
        await one.built()

        async def full(path: Path) -> None:
            raise OSError(28, "No space left on device")

        one.backend.write_snapshot = full
        one.refresh()
        await until(lambda: one.index.epoch == 2)
        del one.backend.write_snapshot
        monkeypatch.setattr("proxy.rebuild.sys.executable", "/bin/false")
        one.refresh()
        await until(lambda: one.index.epoch == 3)
        await one.aclose()

    asyncio.run(check())
