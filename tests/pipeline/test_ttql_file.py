"""The TTQL document outlives the process: a restart answers from the file and asks the backend for nothing."""

from __future__ import annotations

import asyncio

import pytest

from proxy.index.ttql_text import render
from tests.pipeline.test_refresh import EX, Counting, config, dataset, store, until


def test_a_restart_asks_for_nothing(tmp_path):
    """The same document, from the file; the only queries are those that compare the index with the live counts."""

    async def check() -> None:
        backend = Counting(store())
        one = dataset(config(tmp_path), backend)
        one.start()
        await one.built()
        first = await one.ttql.document(wait_s=60)
        await one.aclose()
        again = Counting(backend.held)
        two = dataset(config(tmp_path), again)
        two.start()
        await two.built()
        await two.check_freshness()
        asked = len(again.asked)
        second = await two.ttql.document(wait_s=60)
        assert len(again.asked) == asked and two.builds == 0
        assert render(second.document) == render(first.document) and EX + "C" in {p.class_ for p in second.document.patterns}
        assert (second.queries, second.incomplete) == (first.queries, first.incomplete)
        await two.aclose()

    asyncio.run(check())


@pytest.mark.parametrize("change", ["text", "head", "cut", "empty", "folder", "settings", "data"])
def test_what_does_not_fit_is_made_anew(tmp_path, change):
    """A damaged file, other settings, another build of the index: never shown, and replaced where it can be."""

    async def check() -> None:
        backend = Counting(store())
        one = dataset(config(tmp_path), backend)
        one.start()
        await one.built()
        await one.ttql.document(wait_s=60)
        await one.aclose()
        [file] = tmp_path.glob("*.ttql")
        good = file.read_bytes()
        match change:
            case "text":
                file.write_bytes(good.replace(b"(1.00)", b"(0.50)", 1))
            case "head":
                file.write_bytes(b"?" + good)
            case "cut":
                file.write_bytes(good[: len(good) // 2])
            case "empty":
                file.write_bytes(b"")
            case "folder":
                file.unlink()
                file.mkdir()
            case "data":
                backend.held.update("INSERT DATA { <http://e/z> a <http://e/Z> ; <http://e/l> 'new' }")
        two = dataset(config(tmp_path, **({"ttql_depth": 1} if change == "settings" else {})), backend)
        two.start()
        await two.built()
        await two.check_freshness()
        await until(lambda: change != "data" or EX + "Z" in two.index.class_instances)
        before = len(backend.asked)
        made = await two.ttql.document(wait_s=60)
        assert len(backend.asked) > before
        assert (EX + "Z" in {p.class_ for p in made.document.patterns}) == (change == "data")
        if change == "folder":
            assert "cannot be kept on disk" in two.upkeep.error
        else:
            is_same = file.read_bytes().partition(b"\n")[2] == good.partition(b"\n")[2]
            assert is_same == (change not in ("settings", "data"))
        await two.aclose()

    asyncio.run(check())
