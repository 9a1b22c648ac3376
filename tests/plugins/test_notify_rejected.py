"""plugins/notify_rejected.py: refusals are told to the webhook that is listed, without their text; no request waits."""

import asyncio
import json
from pathlib import Path

import pytest

from proxy.errors import ConfigError
from proxy.pipeline.exchange import Exchange
from proxy.plugin.loading import load_file

FILE = Path(__file__).parents[2] / "plugins" / "notify_rejected.py"


class Hook:
    """A webhook on a free port; answers each POST with the next of *statuses*, then with 204."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.messages: list[dict] = []

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/hook"
        return self

    async def __aexit__(self, *_):
        self.server.close()
        await self.server.wait_closed()

    async def serve(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
        self.messages.append(json.loads(await reader.readexactly(length)))
        status = self.statuses.pop(0) if self.statuses else 204
        location = f"Location: {self.url}\r\n" if status == 302 else ""
        writer.write(f"HTTP/1.1 {status} x\r\n{location}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    @property
    def refused(self) -> list[str]:
        return [refused["request_id"] for message in self.messages for refused in message["refused"]]


def plugin_for(hook: Hook, **options):
    return load_file(FILE, {"url": hook.url, "hosts": ["127.0.0.1"], "pause_s": 0.0, **options}).plugin


async def until(condition) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def test_a_refusal_is_told(server):
    """With the plugin and the rule, and without a word of the query; what passes is not told."""

    async def steps(made):
        async with Hook() as hook:
            made.options += f"[plugins.notify_rejected]\nurl = '{hook.url}'\nhosts = ['127.0.0.1']\npause_s = 0.0\n"

            async def use(client):
                await client.post("/query", data={"query": "ASK { ?s ?p 'private' }"})
                await client.post("/query", data={"query": "SELECT * { ?s ?p 'private' }"}, headers={"x-request-id": "r7"})
                await client.post("/update", data={"update": "CLEAR ALL"}, headers={"x-request-id": "r8"})
                await until(lambda: len(hook.refused) == 2)

            app = made.app()
            await app.startup()
            import httpx

            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
                await use(client)
            await app.shutdown()
            return hook

    made = server(
        enabled=("row_limit", "notify_rejected"), options="[plugins.row_limit]\nmax_rows = 1\nmode = 'refuse'\n"
    )
    hook = asyncio.run(steps(made))
    told = {refused["request_id"]: refused for message in hook.messages for refused in message["refused"]}
    assert (told["r7"]["plugin"], told["r7"]["rules"], told["r7"]["form"]) == ("row_limit", ["plugin-row-limit"], "SELECT")
    assert (told["r8"]["plugin"], told["r8"]["verdict"]) == ("", "refuse")
    assert "private" not in json.dumps(hook.messages)


def test_what_is_too_much_is_dropped_and_counted():
    """The queue is bounded, and the next message says how many are missing."""

    async def steps():
        async with Hook() as hook:
            plugin = plugin_for(hook, at_most=3)
            for i in range(10):
                plugin.verdict(Exchange(f"r{i}", verdict="reject"))
            plugin.startup()
            await until(lambda: plugin.dropped == 0)
            await plugin.shutdown()
            return hook, plugin

    hook, plugin = asyncio.run(steps())
    assert (hook.refused, hook.messages[0]["dropped"], plugin.dropped) == (["r0", "r1", "r2"], 7, 0)


def test_a_webhook_that_fails_once_is_asked_again():
    """Three times at most; then it is counted as dropped."""

    async def steps(*statuses):
        async with Hook(*statuses) as hook:
            plugin = plugin_for(hook)
            plugin.verdict(Exchange("r0", verdict="reject"))
            await plugin.send(attempts=3)
            return len(hook.messages), plugin.dropped

    assert asyncio.run(steps(500)) == (2, 0)
    assert asyncio.run(steps(500, 503, 500)) == (3, 1)


def test_a_redirect_is_not_followed():
    """It could lead anywhere."""

    async def steps():
        async with Hook(302) as hook:
            plugin = plugin_for(hook)
            plugin.verdict(Exchange("r0", verdict="reject"))
            await plugin.send(attempts=1)
            return len(hook.messages), plugin.dropped

    assert asyncio.run(steps()) == (1, 1)


def test_what_waits_is_told_at_the_end():
    """A shutdown sends the rest once."""

    async def steps():
        async with Hook() as hook:
            plugin = plugin_for(hook, pause_s=3600.0)
            plugin.startup()
            plugin.verdict(Exchange("r0", verdict="reject"))
            await asyncio.sleep(0)
            await plugin.shutdown()
            return hook.refused

    assert asyncio.run(steps()) == ["r0"]


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("https://evil.example/", ["good.example"]),
        ("https://good.example@evil.example/", ["good.example"]),
        ("https://user:pass@good.example/", ["good.example"]),
        ("http://good.example/", ["good.example"]),
        ("file:///etc/passwd", ["good.example"]),
        ("https://good.example/", []),
        ("//good.example/", ["good.example"]),
    ],
)
def test_another_url_stops_the_start(url, hosts):
    """https, or this machine; a host that is listed; no password."""
    with pytest.raises(ConfigError, match=r"^plugins\.notify_rejected: url"):
        load_file(FILE, {"url": url, "hosts": hosts})
