"""deploy/nginx.conf and deploy/Caddyfile, in real servers in front of a real Sparlance: only ports and names are replaced."""

import json
import shutil
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.servers.process import ServerProcess

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
pytestmark = pytest.mark.loopback
LIMITS = "[limits]\nrequests_per_minute = 30\n"


class Sparlance(ServerProcess):
    """Over one triple, with a limit that tells clients apart."""

    ready_path = "/-/live"

    def __init__(self, folder):
        super().__init__()
        (folder / "one.nt").write_text('<a:s> <a:p> "ü" .\n', encoding="utf-8")
        self.config = folder / "config.toml"
        self.config.write_text(
            '[server]\ntrusted_proxies = ["127.0.0.1"]\n[backend]\nload = ["one.nt"]\n[policy]\nallow_updates = true\n'
            "[index]\nenabled = false\n" + LIMITS
        )

    def command(self, port):
        return [sys.executable, "-m", "proxy", "serve", "--config", str(self.config), "--port", str(port)]


class Nginx(ServerProcess):
    """The file as the http context of an nginx without privileges."""

    ready_path = "/-/live"
    binary = "nginx"

    def __init__(self, folder, upstream):
        super().__init__()
        self.folder, self.upstream = folder, upstream

    def command(self, port):
        site = (DEPLOY / "nginx.conf").read_text()
        site = site.replace("127.0.0.1:8080", f"127.0.0.1:{self.upstream}").replace("listen 80;", f"listen 127.0.0.1:{port};")
        temporary = "".join(
            f"{kind}_temp_path {self.folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        http = f"http {{ access_log off; {temporary}\n{site}\n}}\n"
        whole = f"pid {self.folder}/pid;\ndaemon off;\nerror_log stderr;\nevents {{}}\n{http}"
        (self.folder / "nginx.conf").write_text(whole)
        return [self.binary, "-p", str(self.folder), "-e", "stderr", "-c", str(self.folder / "nginx.conf")]


class Caddy(Nginx):
    """The file with a plain address in place of the name, so that no certificate is asked for."""

    binary = "caddy"

    def command(self, port):
        text = (DEPLOY / "Caddyfile").read_text()
        text = text.replace("127.0.0.1:8080", f"127.0.0.1:{self.upstream}").replace("sparql.example.org", f"http://127.0.0.1:{port}")
        (self.folder / "Caddyfile").write_text("{\n\tadmin off\n}\n" + text)
        return [self.binary, "run", "--config", str(self.folder / "Caddyfile"), "--adapter", "caddyfile"]

    def environment(self):
        return {"HOME": str(self.folder), "XDG_DATA_HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder)}


@pytest.fixture(scope="module", params=[Nginx, Caddy], ids=["nginx", "caddy"])
def front(request, tmp_path_factory):
    if shutil.which(request.param.binary) is None:
        pytest.skip(f"{request.param.binary} is not installed here")
    with Sparlance(tmp_path_factory.mktemp("sparlance")) as behind:
        with request.param(tmp_path_factory.mktemp("front"), behind.port) as server:
            yield server


def ask(front, method, target, body=None, **headers):
    return front.request(method, target, body, {n.replace("_", "-"): v for n, v in headers.items()})


def asking(name):
    """Fields of a client of its own: each test has its own account of requests."""
    return {"x_forwarded_for": f"198.51.100.{name}", "accept": "application/sparql-results+json"}


def test_results_come_through(front):
    """Bytes, status and our fields."""
    status, headers, body = ask(front, "GET", "/sparql?query=" + quote("SELECT ?o { ?s ?p ?o }"), **asking(1))
    assert status == 200
    assert json.loads(body)["results"]["bindings"][0]["o"]["value"] == "ü"
    assert headers["x-request-id"]


def test_a_query_of_64_kb_in_the_address(front):
    """Servers in front have smaller limits by themselves."""
    query = "ASK {} #" + "x" * 60_000
    assert ask(front, "GET", "/sparql?query=" + quote(query), **asking(2))[0] == 200


def test_a_large_body(front):
    """An update of 20 MB."""
    update = "INSERT DATA {} #" + "x" * 20_000_000
    fields = asking(3) | {"content_type": "application/sparql-update"}
    assert ask(front, "POST", "/update", update.encode(), **fields)[0] == 204


def test_errors_are_ours(front):
    """With their status and body, not a page of the server in front."""
    status, headers, body = ask(front, "GET", "/nowhere", **asking(4))
    assert (status, headers["content-type"]) == (404, "application/problem+json")
    assert b"nothing is served" in body


def test_admin_pages_are_not_there(front):
    """From outside."""
    assert ask(front, "POST", "/-/reload", **asking(6))[0] == 404
    assert ask(front, "GET", "/-/metrics", **asking(6))[0] == 404
    assert ask(front, "GET", "/-/ready", **asking(6))[0] == 200


def test_the_description_names_the_address_in_front(front):
    """A client that reads it must come back through it."""
    status, _, body = ask(front, "GET", "/sparql", **asking(7) | {"accept": "application/n-triples"})
    assert status == 200
    assert f"http://127.0.0.1:{front.port}/sparql".encode() in body


def test_clients_are_counted_by_the_address_that_the_front_saw(front):
    """All of these come from this machine, whose account is soon empty. nginx passes on what the client says of its address
    too: here that is believed, as this machine is a trusted proxy; Caddy drops it."""
    statuses = [ask(front, "GET", "/sparql?query=ASK%7B%7D", accept="*/*")[0] for _ in range(31)]
    assert statuses[-1] == 429
    other = ask(front, "GET", "/sparql?query=ASK%7B%7D", **asking(8))[0]
    assert other == (200 if type(front) is Nginx else 429)
