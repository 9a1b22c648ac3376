"""Our own pages: which methods they take, and what the check leaves out."""

import asyncio

import httpx
import pytest

from proxy.app import create_app
from proxy.config import load_config

GUARD = '''"""Refuses everything."""
from proxy import OperationForbidden, Plugin

def load(options):
    return No()

class No(Plugin):
    may_refuse = True

    async def query(self, exchange):
        raise OperationForbidden("no")
'''


@pytest.fixture
def ask(tmp_path):
    """Sends one request to an application over one triple, with a guard that refuses everything."""
    (tmp_path / "one.nt").write_text("<a:s> <a:p> <a:o> .\n", encoding="utf-8")
    (tmp_path / "no.py").write_text(GUARD, encoding="utf-8")
    (tmp_path / "config.toml").write_text(
        "[backend]\nload = ['one.nt']\n[nl]\nenabled = false\n[plugins]\ndirectory = '.'\nenabled = ['no']\n", encoding="utf-8"
    )

    async def send(method: str, path: str, content: str, headers: dict[str, str]) -> httpx.Response:
        app = create_app(load_config(tmp_path / "config.toml"))
        await app.startup()
        await app.datasets[0].built()
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            response = await client.request(method, path, content=content, headers=headers)
        await app.shutdown()
        return response

    return lambda method, path, content="", headers=None: asyncio.run(send(method, path, content, headers or {}))


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/-/live", "GET, HEAD"),
        ("DELETE", "/-/ready", "GET, HEAD"),
        ("PUT", "/-/index", "GET, HEAD, POST"),
        ("POST", "/-/ttql", "GET, HEAD"),
        ("POST", "/-/metrics", "GET, HEAD"),
        ("GET", "/-/check", "POST"),
        ("HEAD", "/-/check", "POST"),
        ("POST", "/text2sparql", "GET, HEAD"),
    ],
)
def test_a_method_that_a_page_does_not_take_is_a_problem(ask, method, path, allowed):
    """405 with every method that it does take in Allow, as problem+json like all our errors."""
    response = ask(method, path)
    assert (response.status_code, response.headers["allow"]) == (405, allowed)
    assert response.headers["content-type"] == "application/problem+json"
    assert method == "HEAD" or response.json()["detail"].startswith(f"{path} takes ")


@pytest.mark.parametrize("path", ["/-/", "/-/chek", "/-/live/", "/-/%0a"])
def test_a_page_that_is_not_there_is_a_problem(ask, path):
    """404 that names the pages there are."""
    response = ask("GET", path)
    assert (response.status_code, response.headers["content-type"]) == (404, "application/problem+json")
    assert "/-/check" in response.json()["detail"]


def test_head_is_read_as_get(ask):
    """As everywhere in HTTP (RFC 9110, 9.3.2)."""
    assert ask("HEAD", "/-/live").status_code == 200


def test_the_check_runs_no_plugin(ask):
    """What a guard refuses as a request is checked all the same: the check says what the index says."""
    assert ask("GET", "/sparql?query=ASK%20%7B%7D").status_code == 403
    assert ask("POST", "/-/check", "ASK {}").json() == {"verdict": "pass", "findings": []}


@pytest.mark.parametrize(
    ("content", "media", "status", "said"),
    [
        ("SELECT * { ?s ?p ?o }", "application/x-www-form-urlencoded", 400, "the form has no query=; a query is wanted"),
        ("SELECT * { ?s ?p ?o }", "text/turtle", 415, "text/turtle; a query is wanted: its text"),
        ("update=CLEAR+ALL", "application/x-www-form-urlencoded", 400, "Content-Type: application/sparql-query or none"),
        ("", None, 400, "there is no query in the text"),
        ("SELEKT", None, 400, "line 1, column 1: expected SELECT"),
    ],
)
def test_a_check_of_something_else_says_what_to_send(ask, content, media, status, said):
    """Not what other paths take."""
    response = ask("POST", "/-/check", content, {"content-type": media} if media else {})
    assert response.status_code == status and said in response.json()["detail"]


def test_a_check_of_what_is_too_large_passes(ask):
    """As the query does on its way to the backend; why nothing is said of it is a finding."""
    said = ask("POST", "/-/check", "SELECT * " + "{" * 1_000 + "}" * 1_000).json()
    [finding] = said["findings"]
    assert said["verdict"] == "pass" and (finding["severity"], finding["rule"]) == ("not-analysed", "size")
    assert (finding["line"], finding["column"]) == (1, 51)
