"""Several workers on one port: real processes, killed and stopped for real."""

import asyncio
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from proxy.config import load_config
from proxy.errors import ConfigError
from proxy.protocol.exposition import merge
from tests.loopback.conftest import OK, Stub, answering, wait_until
from tests.servers.oxigraph import Oxigraph
from tests.servers.process import request

pytestmark = [
    pytest.mark.loopback,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="workers need an operating system with fork"),
]
ASK = "/sparql?query=ASK%7B%7D"


class Served:
    """``sparlance serve --workers 2`` as a child process."""

    def __init__(self, *arguments: str, folder: Path) -> None:
        command = [sys.executable, "-m", "proxy", "serve", "--port", "0", "--workers", "2", "--no-index", *arguments]
        self.log = (folder / "log").open("w+")
        environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True, cwd=folder, env=environ)
        assert self.process.stdout is not None
        self.told = self.process.stdout.readline()
        found = re.search(r":(\d+)/sparql", self.told)
        self.port = int(found[1]) if found else 0

    def workers(self) -> set[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return {int(pid) for pid in children.split()}

    def get(self, target: str, timeout_s: float = 10.0) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request("GET", target, headers={"Accept": "application/sparql-results+json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def serving(self) -> int:
        """How many workers give their numbers."""
        return self.get("/-/metrics")[1].count(b"sparlance_start_time_seconds{")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def close(self) -> None:
        self.process.kill()  # then the workers end by themselves: that is a test of its own
        self.process.wait(10)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.log.close()


@pytest.fixture
def serve(tmp_path):
    started = []

    def start(*arguments):
        started.append(Served(*arguments, folder=tmp_path))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def stub():
    started = []

    def start(script):
        started.append(Stub(script))
        return started[-1]

    yield start
    for one in started:
        one.close()


def test_a_worker_that_is_killed_is_replaced_and_nobody_else_notices(serve, stub):
    """Each request on a connection of its own is answered while one worker dies; then there are two again."""
    server = serve("--url", stub(answering(OK)).url)
    wait_until(lambda: server.serving() == 2)
    before = server.workers()
    failed = []
    go_on = True

    def ask():
        while go_on:
            try:
                assert server.get(ASK) == (200, b"{}")
            except (OSError, http.client.HTTPException, AssertionError) as error:
                failed.append(error)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    victim = min(before)
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: len(server.workers()) == 2 and victim not in server.workers() and server.serving() == 2)
    go_on = False
    for thread in threads:
        thread.join(10)
    # At most the requests that the dead one had in hand.
    assert len(failed) <= len(threads)
    assert server.stop() == 0
    server.log.seek(0)
    assert server.log.read().count('"worker_ended"') == 1


def test_running_requests_end_before_the_workers_do(serve, stub):
    """At SIGTERM a request that has begun is answered, no new one is taken, and every process ends."""

    async def script(one, reader, writer):
        await one.read_request(reader)
        await asyncio.sleep(1)
        writer.write(OK)
        await writer.drain()

    backend = stub(script)
    server = serve("--url", backend.url)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(server.get(ASK + "&a=1")), daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    wait_until(lambda: backend.requests)
    workers = server.workers()
    assert server.stop() == 0
    for thread in threads:
        thread.join(10)
    assert answers == [(200, b"{}")] * 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


def test_workers_do_not_outlive_their_supervisor(serve, stub):
    """If it is killed they end by themselves, and the port is free."""
    server = serve("--url", stub(answering(OK)).url)
    wait_until(lambda: server.serving() == 2)
    workers = server.workers()
    server.process.kill()
    server.process.wait(10)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    with pytest.raises(OSError):
        server.get(ASK, timeout_s=1)


def test_workers_that_cannot_start_end_the_whole(serve, tmp_path):
    """Exit code 2, the reason in a sentence, no endless restarts."""
    (tmp_path / "broken.ttl").write_text("this is no turtle")
    server = serve("--load", str(tmp_path / "broken.ttl"))
    assert server.process.wait(20) == 2 and server.told == ""
    server.log.seek(0)
    assert "broken.ttl" in server.log.read()


def test_files_are_served_by_all_workers(serve, tmp_path):
    """Each reads them into a store of its own."""
    (tmp_path / "one.ttl").write_text("<http://a> <http://b> <http://c> .")
    server = serve("--load", str(tmp_path / "one.ttl"))
    wait_until(lambda: server.serving() == 2)
    assert {server.get("/sparql?query=ASK%7B%3Chttp%3A%2F%2Fa%3E%20%3Fp%20%3Fo%7D")[1] for _ in range(8)} == {
        b'{"head":{},"boolean":true}'
    }
    assert server.stop() == 0


def test_a_cache_that_all_share_is_emptied_for_all(serve, tmp_path):
    """With Redis an update through one worker is seen by the next read through any, and unchanged answers are kept."""
    pytest.importorskip("redis", reason="the package redis is not installed")
    program = shutil.which("valkey-server") or shutil.which("redis-server")
    if program is None:
        pytest.skip("neither valkey-server nor redis-server is installed")
    path = tmp_path / "cache.sock"
    command = [program, "--port", "0", "--unixsocket", str(path), "--save", "", "--appendonly", "no"]
    cache = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path)
    try:
        wait_until(path.exists)
        (tmp_path / "config.toml").write_text(f"[cache]\nenabled = true\nurl = 'unix://{path}'\n")
        with Oxigraph() as backend:
            server = serve("--url", backend.url, "--allow-updates")
            wait_until(lambda: server.serving() == 2)
            for i in range(20):
                update = b"DELETE WHERE { ?s ?p ?o } ; INSERT DATA { <http://a> <http://b> %d }" % i
                status, _, _ = request(server.port, "POST", "/sparql", update, {"Content-Type": "application/sparql-update"})
                assert status == 204
                for _ in range(4):
                    _, body = server.get("/sparql?query=SELECT%20%3Fo%20%7B%3Fs%20%3Fp%20%3Fo%7D")
                    assert [row["o"]["value"] for row in json.loads(body)["results"]["bindings"]] == [str(i)]
            events = server.get("/-/metrics")[1].decode()
            hits = re.findall(r'cache_events_total\{.*event="hits"\} (\d+)', events)
            assert sum(map(int, hits)) >= 40
    finally:
        cache.terminate()
        cache.wait(10)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"backend.load": ["a.ttl"]}, "server.workers"),
        ({"backend.url": "http://a", "cache.enabled": True}, "cache.url"),
    ],
)
def test_what_needs_shared_state_is_refused(settings, key):
    """Updates into one of several stores, or past one of several caches, would make answers wrong."""
    common = {"server.workers": 2, "policy.allow_updates": True}
    with pytest.raises(ConfigError) as caught:
        load_config(None, overrides={**common, **settings})
    assert caught.value.key == key
    for harmless in ({"server.workers": 1}, {"policy.allow_updates": False}):
        load_config(None, overrides={**common, **settings, **harmless})


def test_pages_of_workers_become_one():
    """Each metric is there once, with the samples of all workers under it."""
    pages = [f'# HELP a A.\n# TYPE a counter\na{{worker="{n}"}} {n}\n# HELP b B.\n# TYPE b gauge\nb 1\n' for n in (0, 1)]
    assert merge(pages) == (
        '# HELP a A.\n# TYPE a counter\na{worker="0"} 0\na{worker="1"} 1\n# HELP b B.\n# TYPE b gauge\nb 1\nb 1\n'
    )


def test_a_lost_worker_is_not_waited_for(serve, stub):
    """The numbers of one that is stopped are left out after a second; the others answer."""
    server = serve("--url", stub(answering(OK)).url)
    wait_until(lambda: server.serving() == 2)
    stopped = max(server.workers())
    os.kill(stopped, signal.SIGSTOP)
    try:
        for _ in range(20):
            started = time.monotonic()
            try:
                # Whoever takes the connection: the stopped one may have taken it too.
                assert server.get("/-/metrics", timeout_s=3)[1].count(b"sparlance_start_time_seconds{") == 1
                break
            except TimeoutError:
                continue
        assert time.monotonic() - started < 3
    finally:
        os.kill(stopped, signal.SIGCONT)
