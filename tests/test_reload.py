"""Another configuration while serving: what changes, what stays, what is refused as a whole."""

import asyncio
import http.client
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from proxy.access.file import change
from proxy.access.keys import Role, mint
from proxy.app import create_app
from proxy.config import load_config
from proxy.errors import ConfigError
from proxy.pipeline.dataset import Dataset
from proxy.pipeline.refresh import Upkeep
from tests.loopback.conftest import wait_until

ROOT = Path(__file__).parent.parent
ONE = """
[server]
port = 0
[index]
enabled = false
[datasets.a.backend]
load = ["a.nt"]
[datasets.a.policy]
allow_updates = true
"""
TWO = ONE + '[datasets.b.backend]\nload = ["b.nt"]\n'
NAMES = "SELECT ?o { ?s ?p ?o }"


@pytest.fixture
def file(tmp_path):
    (tmp_path / "a.nt").write_text('<x:a> <x:is> "a" .\n')
    (tmp_path / "b.nt").write_text('<x:b> <x:is> "b" .\n')
    path = tmp_path / "config.toml"
    path.write_text(ONE)
    return path


class Site:
    """An application in this process, and a client of it."""

    def __init__(self, file):
        self.file = file
        self.app = create_app(self.read())
        self.app.reread = self.read
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://localhost")

    def read(self):
        return load_config(self.file, environ={})

    async def get(self, path):
        response = await self.client.get(path, params={"query": NAMES}, headers={"accept": "text/csv"})
        return response.text.split()[1:] if response.status_code == 200 else response.status_code


def within(file, steps):
    async def run():
        site = Site(file)
        await site.app.startup()
        try:
            async with site.client:
                return await steps(site)
        finally:
            await site.app.shutdown()

    return asyncio.run(run())


def test_a_dataset_comes_and_goes(file):
    """The other one, unchanged, is the very same; what left answers 404."""

    async def steps(site):
        kept = site.app.datasets[0]
        assert await site.get("/b/sparql") == 404
        file.write_text(TWO)
        assert (await site.client.post("/-/reload")).json() == {"changed": ["datasets.b"]}
        assert await site.get("/b/sparql") == ["b"]
        assert site.app.datasets[0] is kept
        file.write_text(ONE)
        assert (await site.client.post("/-/reload")).json() == {"changed": ["datasets.b"]}
        assert await site.get("/b/sparql") == 404
        assert (await site.client.post("/-/reload")).json() == {"changed": []}
        assert await site.get("/sparql") == ["a"]

    within(file, steps)


def test_a_store_in_memory_keeps_what_updates_have_written(file):
    """Another policy for the same files does not read the files again."""

    async def steps(site):
        written = await site.client.post("/update", data={"update": 'INSERT DATA { <x:a> <x:is> "new" }'})
        assert written.status_code == 204
        file.write_text(ONE.replace("allow_updates = true", "allow_updates = false"))
        assert (await site.client.post("/-/reload")).json() == {"changed": ["datasets.a"]}
        assert sorted(await site.get("/sparql")) == ["a", "new"]
        assert (await site.client.post("/update", data={"update": "CLEAR ALL"})).status_code == 403
        file.write_text(ONE)
        await site.client.post("/-/reload")
        assert (await site.client.post("/update", data={"update": "CLEAR ALL"})).status_code == 204
        assert await site.get("/sparql") == []

    within(file, steps)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "is not TOML"),
        (TWO.replace('load = ["b.nt"]', 'load = ["missing.nt"]'), "missing.nt"),
        (TWO + "[plugins]\nenabled = ['nowhere']\n", "nowhere"),
        (TWO.replace("port = 0", "port = 1"), "server.port: found 0 → 1, which takes a restart"),
        (TWO + "[limits]\nrequests = 1\n", "limits.requests"),
        (TWO + "[shared]\nurl = 'redis://h'\n", "shared.url: found another one, which takes a restart"),
        (TWO + "[tracing]\nendpoint = 'http://h'\n", "tracing.endpoint: found another one, which takes a restart"),
    ],
)
def test_what_cannot_be_used_changes_nothing(file, text, words):
    """Not even the part that could be; the answer says what is wrong, and the next good one is taken."""

    async def steps(site):
        before = site.app.current
        file.write_text(text)
        refused = await site.client.post("/-/reload")
        assert refused.status_code == 500
        assert words in refused.json()["detail"]
        assert site.app.current is before
        assert await site.get("/b/sparql") == 404
        assert await site.get("/sparql") == ["a"]
        file.write_text(TWO)
        await site.client.post("/-/reload")
        assert await site.get("/b/sparql") == ["b"]

    within(file, steps)


def test_a_request_ends_in_the_configuration_in_which_it_began(file):
    """What only it uses is closed afterwards, not before."""

    async def steps(site):
        file.write_text(TWO)
        await site.app.reload()
        old = site.app.datasets[1]
        closed = []
        close = old.backend.aclose

        async def watched():
            closed.append(True)
            await close()

        old.backend.aclose = watched
        go_on, send = asyncio.Event(), old.backend.send

        async def slow(request):
            await go_on.wait()
            return await send(request)

        old.backend.send = slow
        waiting = asyncio.create_task(site.get("/b/sparql"))
        await asyncio.sleep(0.05)
        file.write_text(ONE)
        await site.app.reload()
        assert await site.get("/b/sparql") == 404
        assert not closed
        go_on.set()
        assert await waiting == ["b"]
        await asyncio.sleep(0.05)
        assert closed

    within(file, steps)


def test_limits_that_stay_the_same_forget_nothing(file):
    """Reloading is no way to a fresh account."""
    limits = "[limits]\nrequests_per_minute = 2\n"
    file.write_text(ONE + limits)

    async def steps(site):
        assert await site.get("/sparql") == ["a"]
        file.write_text(TWO + limits)
        await site.app.reload()
        assert [await site.get("/sparql"), await site.get("/sparql")] == [["a"], 429]

    within(file, steps)


def test_limits_of_a_key_forget_nothing_either(file):
    """They are kept with the keys, and those are the same."""
    token, key = mint("wiki", [Role.QUERY], created="2026-01-01T00:00:00Z", requests_per_minute=2)
    change(file.parent / "keys.json", lambda keys: [*keys, key])
    access = "[access]\nkeys_file = 'keys.json'\n"
    file.write_text(ONE + access)

    async def steps(site):
        site.client.headers["x-api-key"] = token
        assert await site.get("/sparql") == ["a"]
        file.write_text(TWO + access)
        await site.app.reload()
        assert [await site.get("/sparql"), await site.get("/sparql")] == [["a"], 429]

    within(file, steps)


def indexed(text):
    return text.replace("enabled = false", "enabled = true\ndirectory = ''\n[nl]\nenabled = false", 1)


@pytest.mark.parametrize("when", ["installed", "on the way"])
def test_a_dataset_that_leaves_while_its_index_is_built(file, monkeypatch, when):
    """Its build ends with it, and so does what it had open. A reload that is cancelled leaves nothing behind."""
    begun, ended, closed = [], [], []

    async def endless(self, *_):
        begun.append(self)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(self)

    async def steps(site):
        await asyncio.wait_for(site.app.datasets[0].built(), 20)
        monkeypatch.setattr(Upkeep, "build", endless)
        monkeypatch.setattr("proxy.app.BUILT_WITHIN_S", 0.2 if when == "installed" else 60)
        close = Dataset.aclose

        async def watched(self):
            await close(self)
            closed.append(self.name)

        monkeypatch.setattr(Dataset, "aclose", watched)
        file.write_text(indexed(TWO))
        if when == "installed":
            await site.app.reload()
            assert await site.get("/b/sparql") == ["b"]
            file.write_text(indexed(ONE))
            await site.app.reload()
            await asyncio.sleep(0.05)
            assert await site.get("/b/sparql") == 404
        else:
            reloading = asyncio.create_task(site.app.reload())
            while not begun:
                await asyncio.sleep(0.01)
            reloading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reloading
            assert await site.get("/b/sparql") == 404
        assert len(begun) == len(ended) == 1 and closed == ["b"]
        assert await site.get("/sparql") == ["a"]
        monkeypatch.undo()

    file.write_text(indexed(ONE))
    within(file, steps)


def test_without_a_source_there_is_nothing_to_reload(file):
    """An embedded application says so."""

    async def steps(site):
        site.app.reread = None
        with pytest.raises(ConfigError, match="could be read again"):
            await site.app.reload()

    within(file, steps)


class Served:
    """``sparlance serve`` as a child process."""

    def __init__(self, file, *arguments):
        command = [sys.executable, "-m", "proxy", "serve", "--config", str(file), *arguments]
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "SPARLANCE_LOG_FORMAT": "json"}
        self.log = (file.parent / "log").open("w+")
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.log, text=True, cwd=file.parent, env=environ
        )
        self.port = int(re.search(r":(\d+)/sparql", self.process.stdout.readline())[1])

    def get(self, target, method="GET"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, target)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(20)
        self.process.stdout.close()
        self.log.close()
        return code


@pytest.mark.loopback
@pytest.mark.parametrize("workers", [1, 2])
def test_a_signal_reloads_and_drops_no_request(file, workers):
    """Requests go on all the while, each on a connection of its own; with workers, all of them take the new one."""
    one, two = (text.replace("allow_updates = true", "allow_updates = false") for text in (ONE, TWO))  # workers share no store
    file.write_text(one)
    server = Served(file, "--workers", str(workers))
    statuses, go_on = [], True

    def ask():
        while go_on:
            statuses.append(server.get("/sparql?query=ASK%7B%7D"))

    asking = [threading.Thread(target=ask) for _ in range(3)]
    try:
        for thread in asking:
            thread.start()
        log = file.parent / "log"
        for done, (text, expected) in enumerate(((two, 200), (one, 404), ("[", 404), (two, 200))):
            file.write_text(text)
            if text is two:
                server.process.send_signal(signal.SIGHUP)
            else:
                server.get("/-/reload", "POST")
            events = workers * (done + (text != "[") - (done > 2))
            wait_until(lambda wanted=events: log.read_text().count("config_reloaded") == wanted)
            assert {server.get("/b/sparql?query=ASK%7B%7D") for _ in range(4)} == {expected}
        time.sleep(0.1)
    finally:
        go_on = False
        for thread in asking:
            thread.join()
        code = server.close()
    assert code == 0
    assert set(statuses) == {200}
    assert "config_refused" in log.read_text()
