"""A whole server over a few statements, with the plugins of the repository as a configuration would have them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from proxy.app import Application, create_app
from proxy.config import load_config

PLUGINS = Path(__file__).parents[2] / "plugins"


@dataclass
class Server:
    """keys: name of each API key → the key. enabled: plugins."""

    folder: Path
    data: str = ""
    enabled: tuple[str, ...] = ()
    options: str = ""
    settings: str = "[index]\nenabled = false\n"
    allow_updates: bool = False
    keys: dict[str, str] = field(default_factory=dict)

    def app(self) -> Application:
        (self.folder / "data.nq").write_text(self.data, encoding="utf-8")
        (self.folder / "config.toml").write_text(
            f"[backend]\nload = ['data.nq']\n{self.settings}\n[policy]\nallow_updates = {str(self.allow_updates).lower()}\n"
            f"[plugins]\ndirectory = '{PLUGINS}'\nenabled = {list(self.enabled)}\n{self.options}",
            encoding="utf-8",
        )
        keys = " ".join(f"{name}:query+nl+update+admin:{key}" for name, key in self.keys.items())
        return create_app(load_config(self.folder / "config.toml", environ={"SPARLANCE_ACCESS_KEYS": keys}))

    def run(self, use: Callable, *, key: str = "") -> object:
        """Start it, let *use* talk to it by an httpx client, stop it; returns what *use* returns."""

        async def steps():
            app = self.app()
            await app.startup()
            try:
                headers = {"x-api-key": self.keys[key]} if key else {}
                transport = httpx.ASGITransport(app)
                async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
                    client.app = app
                    return await use(client)
            finally:
                await app.shutdown()

        return asyncio.run(steps())

    def send(self, method: str, path: str, *, key: str = "", **more) -> httpx.Response:
        return self.run(lambda client: client.request(method, path, **more), key=key)

    def ask(self, text: str, *, key: str = "", accept: str = "*/*", **parameters) -> httpx.Response:
        return self.send("POST", "/query", key=key, data={"query": text, **parameters}, headers={"accept": accept})

    def ask_all(self, texts, *, key: str = "") -> dict[str, tuple[int, str]]:
        """Each text → status and body (CSV or Turtle, without the request id), all from one server."""

        async def use(client):
            found = {}
            for text in texts:
                response = await client.post("/query", data={"query": text}, headers={"accept": "text/csv, text/turtle;q=0.5"})
                found[text] = response.status_code, response.text.replace(response.headers["x-request-id"], "")
            return found

        return self.run(use, key=key)

    def update(self, text: str, *, key: str = "", **parameters) -> httpx.Response:
        return self.send("POST", "/update", key=key, data={"update": text, **parameters})


@pytest.fixture(scope="module")
def ask_all(tmp_path_factory) -> Callable[..., dict[str, tuple[int, str]]]:
    """What a server of these settings answers to each text; made once for a module."""

    def ask(texts, *, key: str = "", **settings):
        return Server(tmp_path_factory.mktemp("server"), **settings).ask_all(texts, key=key)

    return ask


@pytest.fixture
def server(tmp_path) -> Callable[..., Server]:
    """Make a server; each in a folder of its own."""
    made = []

    def make(**settings) -> Server:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Server(folder, **settings))
        return made[-1]

    return make
