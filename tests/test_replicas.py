"""Two Sparlances behind a balancer, before a real Oxigraph and a real Redis: same answers, and what a death costs."""

import asyncio
import contextlib
import http.client
import json
import os
import sys
import threading
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.loopback.conftest import wait_until
from tests.servers.oxigraph import Oxigraph
from tests.servers.process import ServerProcess, request
from tests.servers.redis_server import RedisServer, require_redis

pytestmark = pytest.mark.loopback
CONFIG = """
[server]
trusted_proxies = ["127.0.0.1"]
[backend]
url = "{backend}"
[policy]
allow_updates = true
[nl]
enabled = false
[cache]
enabled = true
url = "{redis}"
[shared]
url = "{redis}"
[limits]
requests_per_minute = 1
requests_burst = 10
[index]
poll_s = 0.5
directory = "index"
"""
DATA = {"text/turtle": "".join(f"<http://e/s{i}> a <http://e/Thing> ; <http://e/p> {i} . " for i in range(50))}
COUNT = "SELECT (COUNT(*) AS ?n) { ?s <http://e/p> ?o }"


class Replica(ServerProcess):
    """``sparlance serve`` with a folder of its own, so an index file of its own."""

    ready_path = "/-/live"

    def __init__(self, folder, config):
        super().__init__()
        folder.mkdir()
        self.file = folder / "config.toml"
        self.file.write_text(config)

    def command(self, port):
        return [sys.executable, "-m", "proxy", "serve", "--config", str(self.file), "--port", str(port)]

    def environment(self):
        # Without the settings that keep other tests from writing index files (conftest.py).
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARLANCE_")}
        return kept | {"PYTHONPATH": str(Path(__file__).parent.parent)}

    def ready(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.request("GET", "/-/ready")[0] == 200
        return False


class Balancer:
    """Gives each connection to the next replica that can be connected to; repeats nothing."""

    def __init__(self, ports):
        self._ports, self._next = list(ports), 0
        self._loop = asyncio.new_event_loop()
        started = threading.Event()

        def run():
            asyncio.set_event_loop(self._loop)
            self._loop.run_until_complete(self._serve(started))
            self._loop.close()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        assert started.wait(10)

    async def _serve(self, started):
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await self._stop.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self, reader, writer):
        self._next += 1
        start = self._next % len(self._ports)
        for port in self._ports[start:] + self._ports[:start]:
            try:
                there, back = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                continue
            await asyncio.gather(self._pipe(reader, back), self._pipe(there, writer))
            return
        writer.close()

    @staticmethod
    async def _pipe(reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    def close(self):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)


class Site:
    def __init__(self, replicas, balancer, redis):
        self.replicas, self.balancer, self.redis = replicas, balancer, redis
        self._clients = 0

    @property
    def ports(self):
        return [replica.port for replica in self.replicas]

    def ask(self, query, *, port=None, client="10.0.0.1"):
        target = "/sparql?query=" + quote(query)
        headers = {"Accept": "application/sparql-results+json", "X-Forwarded-For": client, "Connection": "close"}
        return request(port or self.balancer.port, "GET", target, None, headers)

    def count(self, port, client):
        status, _, body = self.ask(COUNT, port=port, client=client)
        assert status == 200, body
        return int(json.loads(body)["results"]["bindings"][0]["n"]["value"])

    def update(self, port, text, client):
        headers = {"Content-Type": "application/sparql-update", "X-Forwarded-For": client}
        assert request(port, "POST", "/sparql", text.encode(), headers)[0] == 204

    def admitted(self, port, client, times=12):
        """How many of so many requests are not refused."""
        return [self.ask("ASK {}", port=port, client=client)[0] for _ in range(times)].count(200)

    def shares_limits(self):
        """Whether a client that has used nine of ten with one replica has about none left with the other."""
        self._clients += 1
        client = f"10.7.0.{self._clients}"
        one, two = self.ports
        assert self.admitted(one, client, 9) == 9
        time.sleep(1.3)
        assert self.admitted(two, client, 1) == 1
        time.sleep(1.3)
        return self.admitted(two, client) <= 1

    def index(self, replica):
        return json.loads(replica.request("GET", "/-/index")[2])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """One for all tests, as it takes seconds to start: those that write to the graph come last."""
    tmp_path = tmp_path_factory.mktemp("site")
    with contextlib.ExitStack() as stack:
        (tmp_path / "redis").mkdir()
        redis = RedisServer(require_redis(), tmp_path / "redis")
        redis.start()
        stack.callback(redis.stop)
        backend = stack.enter_context(Oxigraph(data=DATA))
        config = CONFIG.format(backend=backend.url, redis=redis.url)
        replicas = [stack.enter_context(Replica(tmp_path / name, config)) for name in ("one", "two")]
        for replica in replicas:
            wait_until(replica.ready, 60)
        balancer = Balancer([replica.port for replica in replicas])
        stack.callback(balancer.close)
        yield Site(replicas, balancer, redis)


def test_replicas_give_the_same_answers(site):
    """Answers, problems and indexes are the same; the second has fetched what the first has built."""
    queries = [COUNT, "SELECT ?s { ?s <http://e/p> 7 }", "SELECT ?s { ?s <http://e/nowhere> ?o }", "SELECT nonsense {"]
    for query in queries:
        answers = [site.ask(query, port=port) for port in site.ports]
        ids = [head["x-request-id"].encode() for _, head, _ in answers]
        shown = [(s, head["content-type"], body.replace(i, b"")) for (s, head, body), i in zip(answers, ids, strict=True)]
        assert shown[0] == shown[1]
    assert site.ask(queries[2])[0] == 400, "the index knows that there is no such property"
    indexes = [site.index(replica) for replica in site.replicas]
    assert indexes[0]["built_at"] == indexes[1]["built_at"]
    assert sum(index["builds"] for index in indexes) == 1


def test_a_replica_that_is_killed_costs_its_open_connections(site):
    """kill -9 under load: at most the requests that it had in hand fail, and none is wrong; back again, it needs no build."""
    failed, wrong, done = [], [], []
    go_on = True

    def ask(n):
        while go_on:
            try:
                status, _, body = site.ask(COUNT, client=f"10.{n}.{len(done) // 8 % 256}.{len(done) // 2048}")
            except (OSError, http.client.HTTPException) as error:
                failed.append(error)
                continue
            done.append(n)
            if status not in (200, 429) or (status == 200 and b'"50"' not in body):
                wrong.append((status, body))

    threads = [threading.Thread(target=ask, args=(n,), daemon=True) for n in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(done) > 20)
    victim = site.replicas[0]
    victim.stop(kill=True)
    before = len(done)
    wait_until(lambda: len(done) > before + 20)
    victim.start()
    wait_until(victim.ready, 60)
    go_on = False
    for thread in threads:
        thread.join(10)
    assert wrong == []
    # What each had in hand, and perhaps once more: the front may find another kept connection to the dead one.
    assert len(failed) <= 2 * len(threads)
    assert site.index(victim)["builds"] == 0


def test_a_client_has_its_limits_once_with_all(site):
    """Ten at once, through whichever replica; told within a second or so, not by each request."""
    wait_until(site.shares_limits, 40)  # at once, but on a machine so busy that an exchange takes seconds
    assert site.admitted(site.ports[1], "10.9.0.2") == 10


def test_an_update_through_one_empties_the_cache_of_the_other(site):
    """The next read through any replica sees it; what nobody changed is answered from what the other has kept."""
    known = site.count(site.ports[0], "10.0.1.9")
    for i in range(4):
        writes, reads = site.ports[i % 2], site.ports[1 - i % 2]
        assert [site.count(reads, f"10.0.1.{i}") for _ in range(2)] == [known + i] * 2
        site.update(writes, f"INSERT DATA {{ <http://e/n{i}> <http://e/p> {i} }}", f"10.0.2.{i}")
        assert site.count(reads, f"10.0.1.{i}") == known + i + 1
    for port in site.ports:
        assert b'cache_events_total{dataset="default",event="hits"} 0' not in request(port, "GET", "/-/metrics")[2]


def test_a_lost_redis_leaves_local_limits_and_the_backend(site):
    """Killed: each replica limits for itself and asks the backend. Back: cache and limits are shared again, by themselves."""
    one, two = site.ports
    known = site.count(one, "10.8.0.1")
    site.redis.kill()
    assert [site.count(port, "10.8.0.1") for port in (one, two)] == [known] * 2
    assert [site.admitted(port, "10.8.0.2") for port in (one, two)] == [10, 10]
    site.update(one, "INSERT DATA { <http://e/n> <http://e/p> 1 }", "10.8.0.3")
    assert [site.count(port, "10.8.0.3") for port in (one, two)] == [known + 1] * 2
    assert all(replica.ready() for replica in site.replicas)
    site.redis.start()
    wait_until(site.shares_limits, 40)
    site.update(two, "INSERT DATA { <http://e/m> <http://e/p> 1 }", "10.8.0.4")
    assert [site.count(port, "10.8.0.4") for port in (one, two)] == [known + 2] * 2
