"""An index that is kept in a file and true: starts, changes, workers, damaged files, full disks, kills."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyoxigraph as ox
import pytest
import structlog

from proxy.backends.embedded import EmbeddedBackend
from proxy.config import Config, load_config
from proxy.index import archive
from proxy.indexing import archive_path, fingerprint, make_upkeep
from proxy.pipeline.dataset import Dataset

ROOT = Path(__file__).parent.parent.parent
URL = "http://127.0.0.1:9"
EX = "http://e/"


def store(n: int = 3) -> ox.Store:
    made = ox.Store()
    text = "@prefix e: <http://e/> . e:a e:q e:b . " + "".join(f"e:a{i} a e:C ; e:p {i} ; e:l 'text {i}' . " for i in range(n))
    made.load(text.encode(), ox.RdfFormat.TURTLE)
    return made


def config(folder: Path, **index) -> Config:
    settings = {"index.directory": str(folder), "backend.url": URL} | {f"index.{k}": v for k, v in index.items()}
    return load_config(None, overrides=settings)


class Counting(EmbeddedBackend):
    """Counts our own queries, and can make them slow."""

    def __init__(self, held: ox.Store) -> None:
        super().__init__(held)
        self.held = held
        self.asked: list[str] = []
        self.delay_s = 0.0

    async def select(self, query, **more):
        self.asked.append(query)
        await asyncio.sleep(self.delay_s)
        return await super().select(query, **more)


def dataset(settings: Config, backend, **more) -> Dataset:
    upkeep = make_upkeep(settings, "d", method="ask")
    pauses = {"rebuild_pause_s": 0.0, "settle_s": 0.02, **more}
    return Dataset("d", backend, settings, distil=upkeep.build, upkeep=upkeep, **pauses)


async def until(condition, limit_s: float = 60.0) -> None:
    ends = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < ends, "it did not happen"
        await asyncio.sleep(0.01)


def run(check) -> None:
    asyncio.run(check)


def test_a_restart_is_ready_at_once(tmp_path):
    """The second process reads the file: same index, same epoch, no chunk query; it then compares counts."""

    async def check():
        one = dataset(config(tmp_path), Counting(store()))
        one.start()
        await one.built()
        first, epoch = one.index.matrix, one.index.epoch
        assert one.summary()["file"]["error"] is None and one.summary()["cost"]["queries"] > 10
        await one.aclose()
        assert sorted(p.suffix for p in tmp_path.iterdir()) == [".index", ".lock"]
        backend = Counting(store())
        two = dataset(config(tmp_path), backend)
        two.start()
        await two.built()
        assert two.index.matrix == first and two.index.epoch == epoch and two.builds == 0
        assert two.reasons() == [] and len(backend.asked) <= 4
        await two._checking
        assert not two.is_stale and two.values.lookup("text 1")
        await two.aclose()

    run(check())


def test_data_that_changed_meanwhile_are_read_anew(tmp_path):
    """The change marker differs: the file is passed over before anything is proved by it."""

    async def check():
        one = dataset(config(tmp_path), Counting(store(3)))
        one.start()
        await one.built()
        await one.aclose()
        two = dataset(config(tmp_path), Counting(store(4)))
        two.start()
        await two.built()
        assert two.index.triples == 13 and two.builds == 1
        await two.aclose()

    run(check())


def test_a_change_that_the_marker_missed_is_found_by_the_counts(tmp_path):
    """As many triples as before, but others: ready at once, and built anew in the background."""

    async def check():
        one = dataset(config(tmp_path), Counting(store()))
        one.start()
        await one.built()
        await one.aclose()
        other = store()
        other.update("DELETE DATA { <http://e/a> <http://e/q> <http://e/b> } ; INSERT DATA { <http://e/a> <http://e/new> 1 }")
        two = dataset(config(tmp_path), Counting(other))
        two.start()
        await until(lambda: two.index is not None and EX + "new" in two.index.properties)
        assert two.index.epoch == 2
        await two.aclose()

    run(check())


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "text", "foreign", "unreadable"])
def test_a_bad_file_is_built_anew_and_replaced(tmp_path, damage):
    """Never trusted, never fatal: serving begins, the file is good again afterwards."""
    settings = config(tmp_path)
    path = archive_path(settings, "d")

    async def check():
        one = dataset(settings, Counting(store()))
        one.start()
        await one.built()
        await one.aclose()
        good = path.read_bytes()
        match damage:
            case "flip":
                path.write_bytes(good[:2000] + bytes([good[2000] ^ 1]) + good[2001:])
            case "cut":
                path.write_bytes(good[: len(good) // 2])
            case "empty":
                path.write_bytes(b"")
            case "text":
                path.write_text("hello\n" * 100)
            case "foreign":
                found = archive.load(path, fingerprint=fingerprint(settings))
                archive.write(path, found.index, found.values, fingerprint="of somebody else")
                found.values.close()
            case "unreadable":
                path.unlink()
                path.mkdir()
        two = dataset(settings, Counting(store()))
        two.start()
        await two.built()
        assert two.index.triples == 10 and two.builds == 1
        if damage == "unreadable":
            assert "cannot be kept" in two.summary()["file"]["error"]
        else:
            assert two.summary()["file"]["error"] is None
            archive.load(path, fingerprint=fingerprint(settings)).values.close()
        await two.aclose()

    run(check())


def test_settings_that_shape_the_index_are_in_its_fingerprint(tmp_path):
    """Another class predicate, cap, scope, repository or credential makes a file foreign; a port or a limit does not."""
    base = config(tmp_path)
    same = [{"index.duty": 0.5}, {"server.port": 1}, {"index.refresh_s": 5.0}]
    different = [
        {"index.class_predicate": EX + "P31"},
        {"index.values_per_property": 5},
        {"index.graphs": "union"},
        {"index.excluded_namespaces": [EX]},
        {"backend.url": URL + "1"},
        {"backend.kind": "qlever"},
        {"backend.authorization": "Basic x"},
    ]

    def of(change):
        overrides = {"index.directory": str(tmp_path), "backend.url": URL} | change
        return fingerprint(load_config(None, overrides=overrides))

    assert {of(c) for c in same} == {fingerprint(base)}
    assert len({of(c) for c in different} | {fingerprint(base)}) == len(different) + 1


def test_loaded_files_are_part_of_the_fingerprint(tmp_path):
    """An embedded store is as its files are: a file that was written again is another graph."""
    file = tmp_path / "g.ttl"
    file.write_text("<a> <b> <c> .")
    settings = load_config(None, overrides={"backend.load": [str(file)]})
    before = fingerprint(settings)
    os.utime(file, ns=(1, 1))
    assert fingerprint(settings) != before


def test_an_update_reads_only_what_it_touched(tmp_path):
    """Of the properties that the text names; the rest of the index is kept, and readers had the old one until then."""

    async def check():
        held = store()
        backend = Counting(held)
        one = dataset(config(tmp_path), backend)
        one.start()
        await one.built()
        old = one.index
        held.update("INSERT DATA { <http://e/a1> <http://e/q> 'new' }")
        backend.asked.clear()
        backend.delay_s = 0.01
        one.mark_stale({EX + "q"})
        await asyncio.sleep(0.03)
        assert one.index is old
        await until(lambda: one.index is not old)
        assert one.index.epoch == 2 and one.index.targets(EX + "C", EX + "q") == {"http://www.w3.org/2001/XMLSchema#string": 1}
        assert one.values.lookup("new") and one.values.lookup("text 1")
        assert not [q for q in backend.asked if "<http://e/p>" in q and "VALUES" not in q]
        await one.aclose()
        two = dataset(config(tmp_path), Counting(held))
        two.start()
        await two.built()
        assert two.index.epoch == 2 and two.builds == 0  # the changed index is the one in the file
        await two.aclose()

    run(check())


def test_an_update_of_classes_reads_everything(tmp_path):
    """Kinds may have changed, and with them any cell."""

    async def check():
        held = store()
        one = dataset(config(tmp_path), Counting(held))
        one.start()
        await one.built()
        held.update("INSERT DATA { <http://e/a1> a <http://e/D> }")
        one.mark_stale({"http://www.w3.org/1999/02/22-rdf-syntax-ns#type"})
        await until(lambda: one.index.epoch == 2)
        assert one.index.class_instances == {EX + "C": 3, EX + "D": 1}
        assert one.index.targets(EX + "D", EX + "p")
        await one.aclose()

    run(check())


def test_a_change_behind_our_back_is_noticed_by_the_marker(tmp_path):
    """Polled; the index follows without anybody saying so."""

    async def check():
        held = store()
        one = dataset(config(tmp_path, poll_s=0.05), Counting(held))
        one.start()
        await one.built()
        await asyncio.sleep(0.2)
        assert one.index.epoch == 1
        held.update("INSERT DATA { <http://e/z> <http://e/behind> 1 }")
        await until(lambda: EX + "behind" in one.index.properties)
        await one.aclose()

    run(check())


def test_the_schedule_and_the_demand(tmp_path):
    """refresh_s brings a rebuild by the clock; refresh() brings one now, whatever pause is due."""

    async def check():
        one = dataset(config(tmp_path, refresh_s=0.1, poll_s=0.0), Counting(store()))
        one.start()
        await until(lambda: one.index is not None and one.index.epoch >= 3)
        await one.aclose()
        two = dataset(config(tmp_path / "b"), Counting(store()), rebuild_pause_s=60.0)
        two.start()
        await two.built()
        two.mark_stale()
        await asyncio.sleep(0.1)
        assert two.index.epoch == 1
        two.refresh()
        await until(lambda: two.index.epoch == 2)
        await two.aclose()

    run(check())


def test_a_series_of_updates_costs_one_rebuild(tmp_path):
    """They wait for the pause together, and cannot put it off for ever."""

    async def check():
        one = dataset(config(tmp_path), Counting(store()), settle_s=0.1, rebuild_pause_s=0.2)
        one.start()
        await one.built()
        started = time.monotonic()
        while one.index.epoch == 1:
            one.mark_stale({EX + "q"})
            await asyncio.sleep(0.01)
            assert time.monotonic() - started < 5
        assert one.builds == 2
        await one.aclose()

    run(check())


def test_data_that_move_while_they_are_read_are_read_again(tmp_path):
    """The marker before and after differ: what was built serves, and the next build follows by itself."""

    async def check():
        held = store()
        backend = Counting(held)
        backend.delay_s = 0.01
        one = dataset(config(tmp_path), backend)
        one.start()
        await until(lambda: one.index_build.phase == "classes")
        held.update("INSERT DATA { <http://e/z> <http://e/halfway> 1 }")
        await until(lambda: one.index is not None and EX + "halfway" in one.index.properties)
        await until(lambda: one.index.is_complete_for() and not one.upkeep.has_moved)
        assert one.index.triples == 11
        await one.aclose()

    run(check())


def test_two_workers_build_once(tmp_path):
    """The second waits for the first one's lock, then loads what that one wrote."""

    async def check():
        backends = [Counting(store()), Counting(store())]
        for backend in backends:
            backend.delay_s = 0.005
        both = [dataset(config(tmp_path), b) for b in backends]
        for one in both:
            one.start()
        for one in both:
            await one.built()
        assert both[0].index.matrix == both[1].index.matrix
        asked = sorted(len(b.asked) for b in backends)
        assert asked[0] < 10 < asked[1]
        for one in both:
            await one.aclose()

    run(check())


def test_a_full_disk_does_not_stop_serving(tmp_path):
    """In a process that may write files of a few kilobytes only: ready, with the error shown."""
    program = f"""
import asyncio, json, resource, signal, sys
sys.path.insert(0, {str(ROOT)!r})
from tests.pipeline.test_refresh import *
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (6000, resource.RLIM_INFINITY))
async def main():
    one = dataset(config(Path({str(tmp_path)!r})), Counting(store(50)))
    one.start()
    await one.built()
    shown = one.summary()
    print(json.dumps([shown["state"], one.index.triples, shown["file"]["error"], len(one.values.lookup("text 7"))]))
    await one.aclose()
from proxy.log import configure
configure(load_config(None, overrides={{"log.level": "error"}}).log)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    state, triples, error, found = json.loads(done.stdout)
    assert (state, triples, found) == ("ready", 151, 1)
    assert "cannot be kept on disk" in error
    assert not list(tmp_path.glob("*.part")) and not list(tmp_path.glob("*.values"))


@pytest.mark.parametrize("kind", ["a file", "below a file", "no files there", "read-only"])
def test_a_folder_that_takes_no_files_does_not_stop_serving(tmp_path, kind):
    """Whatever is wrong with index.directory: an index in memory, ready, the error shown, and logged once."""
    folder = tmp_path / "kept"
    match kind:
        case "a file" | "below a file":
            folder.write_text("")
            folder = folder / "deeper" if kind == "below a file" else folder
        case "no files there":
            folder = Path("/proc/sparlance")
        case "read-only":
            folder.mkdir()
            folder.chmod(0o500)
            if os.access(folder, os.W_OK):
                pytest.skip("root may write everywhere")

    async def check():
        backend = Counting(store())
        one = dataset(config(folder), backend)
        with structlog.testing.capture_logs() as logged:
            one.start()
            await one.built()
            first = one.index.epoch
            one.mark_stale()
            await until(lambda: one.index.epoch > first)
        assert one.summary()["state"] == "ready" and one.index.triples > 0 and len(one.values.lookup("text 1")) == 1
        assert "cannot be kept on disk" in one.summary()["file"]["error"]
        assert [e["event"] for e in logged].count("index_file_unwritable") == 1
        await one.aclose()

    run(check())


def test_scratch_files_of_the_dead_are_removed(tmp_path):
    """A process that was killed cannot tidy up: the next start does, built or loaded; what a living process writes stays."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    name = archive_path(config(tmp_path), "d").name
    dead = [tmp_path / f"{name}.{ended.pid}.{kind}" for kind in ("values", "part")]
    kept = [tmp_path / n for n in (f"{name}.{os.getppid()}.values", f"other-{name}.{ended.pid}.values", f"{name}.x.values")]

    async def check():
        for start in ("builds", "loads"):
            for file in (*dead, *kept):
                file.write_text("left")
            backend = Counting(store())
            one = dataset(config(tmp_path), backend)
            one.start()
            await one.built()
            assert not [f for f in dead if f.exists()] and all(f.exists() for f in kept), start
            assert one.upkeep.error == ""
            await one.aclose()

    run(check())


BUILDER = """
import asyncio, sys
sys.path.insert(0, {root!r})
from tests.pipeline.test_refresh import *
class Slow(Counting):
    async def select(self, query, **more):
        found = await super().select(query, **more)
        print(len(self.asked), flush=True)
        await asyncio.sleep(0.02)
        return found
async def main():
    one = dataset(config(Path({folder!r})), Slow(store({n})))
    one.start()
    await one.built()
asyncio.run(main())
"""


@pytest.mark.parametrize("changed", [False, True])
def test_a_build_that_is_killed_goes_on(tmp_path, changed):
    """kill -9 half-way: the next process asks only for what is missing; if the data changed in between, for all of it."""
    program = BUILDER.format(root=str(ROOT), folder=str(tmp_path), n=3)
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert child.stdout is not None
    for line in child.stdout:
        if line.strip() == "20":
            child.send_signal(signal.SIGKILL)
            break
    child.wait()
    child.stdout.close()
    [journal] = tmp_path.glob("*.journal")
    assert journal.stat().st_size > 1000 and not list(tmp_path.glob("*.index"))

    async def check():
        fresh = Counting(store(4 if changed else 3))
        other = dataset(config(tmp_path / "elsewhere"), fresh)
        other.start()
        await other.built()
        backend = Counting(store(4 if changed else 3))
        one = dataset(config(tmp_path), backend)
        one.start()
        await one.built()
        assert one.index.matrix == other.index.matrix
        assert len(one.values) == len(other.values)
        replayed = one.upkeep.cost["replayed"]
        if changed:
            assert replayed == 0 and len(backend.asked) == len(fresh.asked)
        else:
            assert replayed >= 15 and len(backend.asked) <= len(fresh.asked) - 15
        assert not list(tmp_path.glob("*.journal"))
        await one.aclose()
        await other.aclose()

    run(check())
