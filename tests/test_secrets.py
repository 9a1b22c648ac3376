"""No secret is told: a server with every secret that there is, used, misused, broken and reloaded, and all that it says."""

import base64
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from proxy.errors import ConfigError
from proxy.pipeline.redis_link import RedisLink
from tests.loopback.conftest import OK, Stub, answering, wait_until

ROOT = Path(__file__).parent.parent
WORDS = {
    name: f"{name}-c2VjcmV0-c2VjcmV0"
    for name in ("backend", "other", "anykey", "admin", "cache", "shared", "client", "wrong", "user", "filed")
}
PLUGIN = '''
from proxy import Plugin


def load(options):
    return Breaking()


class Breaking(Plugin):
    """A guard with a bug, which has the whole exchange in its frames."""

    may_refuse = True

    def request(self, exchange):
        if exchange.operation is not None and "break" in getattr(exchange.operation, "text", ""):
            fields = vars(exchange) if hasattr(exchange, "__dict__") else exchange
            raise ZeroDivisionError("a bug", type(fields).__name__)
'''
CONFIG = """
[datasets.one.backend]
kind = "sparql"
url = "{one}/sparql"
[datasets.two.backend]
kind = "sparql"
url = "http://127.0.0.1:{closed}/sparql"
[datasets.one.cache]
enabled = true
[plugins]
enabled = ["breaking"]
[index]
enabled = true
poll_s = 1
[log]
level = "debug"
"""


def spelled(word):
    """How *word* may stand in a text."""
    basic = base64.b64encode(f"u:{word}".encode()).decode()
    return {word, word[:-2], quote(word, safe=""), basic, base64.b64encode(word.encode()).decode()}


class Server:
    """``sparlance serve`` as a child process, with secrets in its environment; *said*: all that was heard of it."""

    def __init__(self, folder, one, closed, format_):
        self.said = []
        (folder / "plugins").mkdir()
        (folder / "plugins" / "breaking.py").write_text(PLUGIN)
        self.file = folder / "config.toml"
        self.file.write_text(CONFIG.format(one=one, closed=closed))
        self.environ = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "SPARLANCE_LOG_FORMAT": format_,
            "SPARLANCE_DATASETS_ONE_BACKEND_AUTHORIZATION": "Bearer " + WORDS["backend"],
            "SPARLANCE_DATASETS_TWO_BACKEND_AUTHORIZATION": "Bearer " + WORDS["other"],
            "SPARLANCE_ACCESS_KEYS": f"any:query+nl+update:{WORDS['anykey']} boss:admin+query:{WORDS['admin']}",
            "SPARLANCE_CACHE_URL": f"redis://:{WORDS['cache']}@127.0.0.1:{closed}/0",
            "SPARLANCE_SHARED_URL": f"redis://u:{WORDS['shared']}@127.0.0.1:{closed}/0",
        }
        self.log = (folder / "log").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "proxy", "serve", "--config", str(self.file), "--port", "0"],
            stdout=subprocess.PIPE, stderr=self.log, text=True, cwd=folder, env=self.environ,
        )  # fmt: skip
        line = self.process.stdout.readline()
        self.said.append(line)
        self.port = int(re.search(r":(\d+)/", line)[1])

    def ask(self, method, target, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, target, body, {n.replace("_", "-"): v for n, v in headers.items()})
            response = connection.getresponse()
            self.said += [str(response.headers), response.read().decode("utf-8", "replace")]
            return response.status
        finally:
            connection.close()

    def raw(self, data):
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as client:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            while piece := client.recv(65536):
                self.said.append(piece.decode("latin-1"))

    def command(self, *arguments):
        command = [sys.executable, "-m", "proxy", *arguments, "--config", str(self.file)]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environ, cwd=self.file.parent, check=False)
        self.said += [done.stdout, done.stderr]
        return done.returncode

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        self.said.append(self.process.stdout.read())
        self.process.stdout.close()
        self.log.seek(0)
        self.said.append(self.log.read())
        self.log.close()


@pytest.mark.loopback
@pytest.mark.parametrize("format_", ["json", "console"])
def test_nothing_that_is_said_holds_a_secret(tmp_path, format_):
    """Log, tracebacks, problems, pages, metrics, commands; good requests and bad; of two backends one does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = free.getsockname()[1]
    stub = Stub(answering(OK))
    server = Server(tmp_path, stub.url, closed, format_)
    try:
        boss = {"Authorization": "Bearer " + WORDS["admin"]}
        basic = {"Authorization": "Basic " + base64.b64encode(f"u:{WORDS['anykey']}".encode()).decode()}
        own = {"Authorization": "Basic " + base64.b64encode(f"u:{WORDS['client']}".encode()).decode()}
        statuses = [
            server.ask("GET", "/one/sparql?query=ASK%7B%7D", **headers)
            for headers in ({}, boss, basic, own, {"X_API_Key": WORDS["anykey"]}, {"X_API_Key": WORDS["wrong"]})
        ]
        assert statuses == [200, 200, 200, 200, 200, 401]
        assert server.ask("GET", "/one/sparql?query=ASK%7B%7D", Authorization="Bearer spl_abc_" + WORDS["wrong"]) == 401
        assert server.ask("GET", "/two/sparql?query=ASK%7B%7D", **own) == 502
        assert server.ask("GET", "/one/sparql?query=ASK%7B%7D%23break", **own) == 500  # the plugin's traceback
        assert server.ask("GET", "/one/sparql?query=x&query=y", **boss) == 400
        assert server.ask("POST", "/one/sparql", b"\xff", Content_Type="application/sparql-query", **basic) == 400
        assert server.ask("GET", "/two/sparql?nl=who+is+it", **own) in (422, 503)
        server.raw(b"GET / HTTP/1.1\r\nAuthorization: Bearer " + WORDS["user"].encode() + b"\r\nHost : x\r\n\r\n")
        server.raw(b"GET /one/sparql?query=ASK{} HTTP/1.1\r\nAuthorization: Bearer " + WORDS["user"].encode() + b"\r\n\r\n")
        for page in ("live", "ready", "index", "ttql", "metrics", "openapi.json", "nonsense"):
            server.ask("GET", "/-/" + page, **boss)
            server.ask("GET", "/-/" + page + "?dataset=two", **boss)
        text = server.file.read_text()
        for broken in (
            text + f'[datasets.one.backend]\nauthorization = "{WORDS["filed"]}"\n',
            text.replace('kind = "sparql"', f'kind = "sparql"\nauthorization = "Bearer {WORDS["filed"]}"', 1),
            text + f'[cache]\nurl = "redis://:{WORDS["filed"]}@h/0"\n',
            text + f'[shared]\nurl = "redi://:{WORDS["filed"]}@h/0"\n',
            text + f'[access]\nkeys = "a:query:{WORDS["filed"]}"\n',
            text.replace("http://127", f"http://u:{WORDS['filed']}@127"),
        ):
            server.file.write_text(broken)
            assert server.ask("POST", "/-/reload", **boss) >= 400
            assert server.command("config", "check") != 0
        server.file.write_text(text.replace("poll_s = 1", "poll_s = 2"))
        assert server.ask("POST", "/-/reload", **boss) == 200
        assert server.command("config", "show") == 0
        assert server.command("key", "list") in (0, 1, 2)
        wait_until(lambda: any(WORDS["backend"].encode() in request for request in stub.requests))
    finally:
        server.close()
        stub.close()
    said = "\n".join(server.said)
    log = server.said[-1]
    assert "ZeroDivisionError" in log and "NotAuthenticated" in log and "config_refused" in log  # it was said, without them
    if format_ == "json":
        refused = [event for event in map(json.loads, log.splitlines()) if event.get("outcome") == "NotAuthenticated"]
        assert refused and not any("key" in event for event in refused)  # told, without whose key it was not
    told = {name: form for name, word in WORDS.items() for form in spelled(word) if form in said}
    assert told == {}
    sent = b"".join(stub.requests)
    assert WORDS["anykey"].encode() not in sent and basic["Authorization"].encode() not in sent  # keys are ours
    assert WORDS["admin"].encode() not in sent and WORDS["other"].encode() not in sent  # nor another backend's credential
    assert own["Authorization"].encode() in sent  # a client's own is meant for it


@pytest.mark.parametrize("url", ["redis://:c2Vj/cmV0@h:1/0", "redis://u:c2VjcmV0@h:c2VjcmV0/0", "c2VjcmV0://x"])
def test_the_error_of_a_redis_url_repeats_nothing(url):
    """Half of a password with a slash is taken for the port."""
    with pytest.raises(ConfigError) as caught:
        RedisLink(url, setting="cache.url")
    assert "c2Vj" not in str(caught.value)
