"""Whatever path a request takes to the backend, plugins see it and its response."""

import pytest

from tests.loopback.conftest import wait_until

pytestmark = pytest.mark.loopback

WATCHER = '''
from proxy import Plugin

class Watcher(Plugin):
    async def request(self, exchange):
        self.note("request", exchange)

    async def response(self, exchange):
        self.note("response", exchange, exchange.status)

    def note(self, hook, exchange, *more):
        with open(FILE, "a") as file:
            print(hook, exchange.method, exchange.path, *more, file=file)

def load(options):
    return Watcher()
'''
REQUESTS = {
    "query": ("GET", "/sparql?query=ASK%7B%7D", "/query"),
    "graph store": ("GET", "/store?default", "/store"),
    "graph store, head only": ("HEAD", "/store?default", "/store"),
    "service description": ("GET", "/query", "/query"),
    "service description at our path": ("GET", "/sparql", "/query"),
}


@pytest.mark.parametrize(("method", "target", "path"), REQUESTS.values(), ids=REQUESTS)
def test_request_and_response_are_seen(serve, oxigraph, tmp_path, method, target, path):
    """Reads of the graph store and the service description no less than queries."""
    seen = tmp_path / "seen"
    (tmp_path / "watcher.py").write_text(f"FILE = {str(seen)!r}\n{WATCHER}")
    proxy = serve(oxigraph.url, plugins__directory=str(tmp_path), plugins__enabled=["watcher"])
    assert proxy.request(method, target)[0] == 200
    assert seen.read_text().splitlines() == [f"request {method} {path}", f"response {method} {path} 200"]


def test_a_broken_transfer_is_one_event(serve, stub, capfd):
    """A backend that dies within its answer costs one line that says so, besides the request's own, and no traceback."""

    async def script(backend, reader, writer):
        await backend.read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/csv\r\ncontent-length: 9\r\n\r\nabc")
        await writer.drain()

    proxy = serve(stub(script).url)
    with proxy.connect(b"GET /sparql?query=ASK%7B%7D HTTP/1.1\r\nHost: a\r\n\r\n") as client:
        assert b"".join(iter(lambda: client.recv(65536), b"")).endswith(b"abc")
    lines = []
    wait_until(lambda: lines.extend(_lines(capfd)) or any(" exchange " in line for line in lines))
    assert len([line for line in lines if "transfer_broken" in line]) == 1
    assert len(lines) == 2 and not [line for line in lines if "Traceback" in line]


def _lines(capfd):
    out, err = capfd.readouterr()
    return [line for line in (out + err).splitlines() if line.strip()]
