"""Machines with folders of their own, and a real Redis or Valkey: one builds the index, the others fetch it."""

import asyncio
import dataclasses
import json

import pytest
import structlog

from proxy.assembly import make_snapshots
from proxy.config import load_config
from proxy.index import archive
from proxy.indexing import archive_path, fingerprint, make_upkeep
from proxy.pipeline import snapshots
from proxy.pipeline.dataset import Dataset
from tests.pipeline.test_refresh import EX, URL, Counting, store, until
from tests.servers.redis_server import RedisServer, require_redis


@pytest.fixture
def server(tmp_path):
    (tmp_path / "redis").mkdir()
    server = RedisServer(require_redis(), tmp_path / "redis")
    server.start()
    yield server
    server.stop()


class Site:
    """Machines over one Redis, each with a folder of its own, all before copies of one graph."""

    def __init__(self, server, folder):
        self._server, self._folder = server, folder
        self.machines = []

    def settings(self, name, **overrides):
        given = {"index.directory": str(self._folder / name), "backend.url": URL, "shared.url": self._server.url}
        return load_config(None, overrides=given | {k.replace("__", "."): v for k, v in overrides.items()})

    def start(self, name, held=None, delay_s=0.0, **overrides):
        settings = self.settings(name, **overrides)
        upkeep = make_upkeep(settings, "d", method="ask")
        upkeep.snapshots = make_snapshots(settings, upkeep.path, upkeep.fingerprint)
        backend = Counting(held or store())
        backend.delay_s = delay_s
        made = Dataset("d", backend, settings, distil=upkeep.build, upkeep=upkeep, rebuild_pause_s=0.0, settle_s=0.02)
        self.machines.append(made)
        made.start()
        return made

    async def keys(self, client):
        return sorted([key async for key in client.scan_iter(b"sparlance:i:*")])


def within(server, folder, steps):
    async def run():
        import redis.asyncio

        site = Site(server, folder)
        async with redis.asyncio.Redis.from_url(server.url) as client:
            try:
                await steps(site, client)
            finally:
                for machine in site.machines:
                    await machine.aclose()

    asyncio.run(run())


async def head_of(client):
    [key] = [k async for k in client.scan_iter(b"sparlance:i:*") if k.count(b":") == 2]
    return key, json.loads(await client.get(key))


def test_another_machine_fetches_what_the_first_has_built(server, tmp_path):
    """Same index, not one query for a chunk; the file is there for the next start without the server."""

    async def steps(site, client):
        one = site.start("one")
        await one.built()
        assert one.builds == 1
        two = site.start("two")
        await two.built()
        assert two.builds == 0 and two.index.matrix == one.index.matrix and two.index.built_at == one.index.built_at
        assert len(two.backend.asked) <= 4 and two.values.lookup("text 1")
        server.kill()
        again = site.start("two")
        await again.built()
        assert again.builds == 0

    within(server, tmp_path, steps)


def test_machines_that_start_together_build_once(server, tmp_path):
    """The lock has the others wait, and then fetch."""

    async def steps(site, client):
        machines = [site.start(name, delay_s=0.01) for name in ("one", "two", "three")]
        for machine in machines:
            await machine.built()
        assert len({machine.index.built_at for machine in machines}) == 1
        assert sorted(len(machine.backend.asked) > 10 for machine in machines) == [False, False, True]
        assert not [key async for key in client.scan_iter(b"sparlance:b:*")], "the lock is free again"

    within(server, tmp_path, steps)


def test_a_builder_that_dies_does_not_keep_the_lock(server, tmp_path, monkeypatch):
    """Its lock ends by itself; a living one renews it."""
    monkeypatch.setattr(snapshots, "LOCK_S", 1.0)
    monkeypatch.setattr(snapshots, "RENEW_S", 0.2)
    monkeypatch.setattr(snapshots, "WAIT_S", 0.05)

    async def steps(site, client):
        one = site.start("one").upkeep.snapshots
        await site.machines[0].built()
        events = []
        async with one.lock(lambda *_: None) as had_to_wait:
            assert not had_to_wait
            await asyncio.sleep(1.5)
            [key] = [k async for k in client.scan_iter(b"sparlance:b:*")]
            token = await client.get(key)
        await client.set(key, token, px=500)  # of one that is no more
        async with one.lock(lambda *told: events.append(told)) as had_to_wait:
            assert had_to_wait and events[0] == ("waiting for another machine that builds it", 0, 0)
            await client.set(key, b"another's")
        assert await client.get(key) == b"another's"

    within(server, tmp_path, steps)


def test_a_newer_one_is_taken_when_the_watch_looks(server, tmp_path):
    """The data change; whoever builds first hands it on, and in the end both have the very same."""

    async def steps(site, client):
        held = store()
        one = site.start("one", held, index__poll_s=0.0)
        await one.built()
        two = site.start("two", held, index__poll_s=0.05)
        await two.built()
        held.update("INSERT DATA { <http://e/n> <http://e/new> 1 }")
        one.refresh()
        await until(lambda: EX + "new" in one.index.properties)
        await until(lambda: EX + "new" in two.index.properties)
        await until(lambda: two.index.built_at == one.index.built_at)

    within(server, tmp_path, steps)


def test_what_is_of_other_data_is_not_taken(server, tmp_path):
    """The marker in the head differs from what the backend says: this machine builds, and hands on its own."""

    async def steps(site, client):
        await site.start("one", store(3)).built()
        two = site.start("two", store(4))
        await two.built()
        assert two.builds == 1 and two.index.triples == 13
        assert (await head_of(client))[1]["built_at"] == two.index.built_at

    within(server, tmp_path, steps)


def _flip(data):
    return data[:3000] + bytes([data[3000] ^ 1]) + data[3001:]


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "foreign", "head", "huge", "type"])
def test_what_is_damaged_is_built_anew(server, tmp_path, damage):
    """It is never trusted: neither pieces nor head; what is built then takes its place."""

    async def steps(site, client):
        await site.start("one").built()
        key, head = await head_of(client)
        piece = key + b":%b:0" % head["id"].encode()
        data = await client.get(piece)
        match damage:
            case "flip":
                await client.set(piece, _flip(data))
            case "cut":
                await client.set(piece, data[:-100])
            case "gone":
                await client.delete(piece)
            case "foreign":
                path = tmp_path / "foreign.index"
                settings = site.settings("one")
                found = archive.load(archive_path(settings, "d"), fingerprint=fingerprint(settings))
                archive.write(path, found.index, found.values, fingerprint="of somebody else")
                found.values.close()
                await client.set(piece, path.read_bytes())
                await client.set(key, json.dumps(head | {"size_bytes": path.stat().st_size}))
            case "head":
                await client.set(key, b'{"id": 1}')
            case "huge":
                await client.set(key, json.dumps(head | {"size_bytes": 1 << 50, "pieces": 1 << 30}))
            case "type":
                await client.delete(key)
                await client.rpush(key, b"a list")
        with structlog.testing.capture_logs() as events:
            two = site.start("two")
            await two.built()
        assert two.builds == 1 and two.index.triples == 10
        assert ("index_snapshot_unusable" in [e["event"] for e in events]) == (damage in ("flip", "foreign"))
        assert not list((tmp_path / "two").glob("*.part"))
        if damage != "type":  # a failed command: the server is left alone for a while
            assert (await head_of(client))[1]["built_at"] == two.index.built_at

    within(server, tmp_path, steps)


def test_one_that_is_too_large_is_not_sent(server, tmp_path):
    """The head says so, so that nobody waits for a lock: each machine builds its own."""

    async def steps(site, client):
        for name in ("one", "two"):
            machine = site.start(name, shared__index_limit_bytes=1000)
            await machine.built()
            assert machine.builds == 1
        _, head = await head_of(client)
        assert head["pieces"] == 0 and head["size_bytes"] > 1000
        assert len(await site.keys(client)) == 1

    within(server, tmp_path, steps)


def test_an_older_one_vanishes(server, tmp_path):
    """The pieces of the file before are kept for those who read them, not for ever; the new ones for days."""

    async def steps(site, client):
        one = site.start("one")
        await one.built()
        key, old = await head_of(client)
        one.refresh()
        await until(lambda: one.builds == 2)
        _, new = await head_of(client)
        lives = [await client.ttl(key + b":%b:0" % head["id"].encode()) for head in (old, new)]
        assert 0 < lives[0] <= snapshots.LINGER_S < lives[1]

    within(server, tmp_path, steps)


def test_without_the_server_each_builds_its_own(server, tmp_path):
    """Nobody waits for a lock that is out of reach."""

    async def steps(site, client):
        server.kill()
        one = site.start("one")
        await one.built()
        assert one.builds == 1 and one.reasons() == []

    within(server, tmp_path, steps)


def test_a_folder_that_takes_no_file(server, tmp_path):
    """What was fetched cannot be kept: it is built, serves from memory, and the account says why."""

    async def steps(site, client):
        await site.start("one").built()
        settings = site.settings("two")
        archive_path(settings, "d").mkdir(parents=True)
        two = site.start("two")
        await two.built()
        assert two.index.triples == 10 and "cannot be kept" in two.summary()["file"]["error"]

    within(server, tmp_path, steps)


def test_other_settings_are_another_file(server, tmp_path):
    """Nothing is fetched that would be another index."""

    async def steps(site, client):
        await site.start("one").built()
        two = site.start("two", index__values_per_property=1)
        await two.built()
        assert two.builds == 1
        assert dataclasses.asdict(await two.upkeep.snapshots.latest())["built_at"] == two.index.built_at

    within(server, tmp_path, steps)
