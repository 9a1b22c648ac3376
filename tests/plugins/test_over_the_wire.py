"""Plugins in a server of its own, before a backend of its own: no short way between client and database leads past them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[2]
KEY = "ann-0123456789-0123456789"


class Process:
    """``sparlance serve`` with this configuration, on a free port."""

    def __init__(self, folder: Path, name: str, settings: str, **environ: str) -> None:
        file = folder / f"{name}.toml"
        file.write_text(f"[server]\nport = 0\n{settings}", encoding="utf-8")
        self.log = (folder / f"{name}.log").open("w")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "proxy", "serve", "--config", str(file)],
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        )
        found = re.search(r":(\d+)/sparql", self.process.stdout.readline())
        assert found is not None, (folder / f"{name}.log").read_text(encoding="utf-8")
        self.url = f"http://127.0.0.1:{found[1]}"

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        self.process.stdout.close()
        self.log.close()


@pytest.fixture(scope="module")
def urls(tmp_path_factory):
    """Of a server without plugins, and of one before it: graphs by key, an audit log, stars, and a filter for bodies."""
    folder = tmp_path_factory.mktemp("wire")
    data = '<a:s> <a:p> "open ann@mail.example" <g:open> .\n<a:s> <a:p> "SECRET" <g:hidden> .\n<a:s> <a:p> "SECRET" .\n'
    (folder / "data.nq").write_text(data, encoding="utf-8")
    behind = Process(folder, "behind", "[backend]\nload = ['data.nq']\n[index]\nenabled = false\n")
    settings = (
        f"[backend]\nurl = '{behind.url}'\n[index]\nenabled = false\n"
        f"[plugins]\ndirectory = '{ROOT / 'plugins'}'\nenabled = ['graph_access', 'audit_log', 'pii_mask']\n"
        f"[plugins.graph_access]\nread = {{ann = ['g:open']}}\n[plugins.audit_log]\npath = '{folder / 'audit.jsonl'}'\n"
    )
    front = Process(folder, "front", settings, SPARLANCE_ACCESS_KEYS=f"ann:query:{KEY}")
    yield behind.url, front.url, folder / "audit.jsonl"
    front.stop()
    behind.stop()


def ask(url: str, text: str, method: str, *, key: str = "") -> httpx.Response:
    headers = {"accept": "text/csv"} | ({"authorization": f"Bearer {key}"} if key else {})
    with httpx.Client(base_url=url, headers=headers, trust_env=False) as client:
        if method == "GET":
            return client.get("/query", params={"query": text})
        return client.post("/query", content=text, headers={"content-type": "application/sparql-query"})


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_nothing_passes_by_them(urls, method):
    """The same query, again and again, by the same and by other clients: each gets what its key may see, and it is written."""
    behind, front, log = urls
    text = f"SELECT ?o {{ ?s <a:p> ?o }} # {method}"
    assert "SECRET" in ask(behind, text, method).text
    before = len(log.read_text(encoding="utf-8").splitlines())
    for _ in range(3):
        response = ask(front, text, method, key=KEY)
        assert (response.status_code, response.text.split()) == (200, ["o", "open", "***"])
        assert response.headers["sparlance-graphs"] == "<g:open>"
        assert ask(front, text, method).status_code == 403
    assert len(log.read_text(encoding="utf-8").splitlines()) == before + 3 * 3


def test_metrics_tell_of_them(urls):
    """Calls, refusals and time of each plugin and hook."""
    _, front, _ = urls
    ask(front, "ASK {}", "GET")
    page = httpx.get(f"{front}/-/metrics", trust_env=False).text
    assert re.search(r'sparlance_plugin_calls_total\{plugin="graph_access",hook="request"\} [1-9]', page)
    assert re.search(r'sparlance_plugin_refusals_total\{plugin="graph_access",hook="\w+"\} [1-9]', page)
    assert re.search(r'sparlance_plugin_seconds_total\{plugin="audit_log",hook="verdict"\} 0\.\d', page)
