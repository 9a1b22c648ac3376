"""Another configuration in the middle of a request: between its head and its body, between its answer's head and the rest."""

import asyncio
import socket
import time

import pytest

from proxy.config import load_config
from tests.loopback.conftest import Proxy, Stub, wait_until

pytestmark = pytest.mark.loopback
TRUE = b'{"head":{},"boolean":true}'
SMALL = b"HTTP/1.1 200 OK\r\ncontent-type: application/sparql-results+json\r\ncontent-length: %d\r\n\r\n%b" % (len(TRUE), TRUE)
SIZE = 2_000_000


async def backend(one, reader, writer):
    """Answers; what is asked for with "slow" half at once, and half when it is told to go on."""
    while True:
        asked = await one.read_request(reader)
        if b"slow" in asked:
            await asyncio.sleep(0.3)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/csv\r\ncontent-length: %d\r\n\r\n" % SIZE)
            writer.write(b"x" * (SIZE // 2))
            await writer.drain()
            await one.wait_for_go()
            writer.write(b"x" * (SIZE - SIZE // 2))
        else:
            writer.write(SMALL)
        await writer.drain()


class Site:
    """A proxy before that backend; each reload gives its dataset another time limit, so it is another dataset."""

    def __init__(self):
        self.stub = Stub(backend)
        self.proxy = Proxy(backend__url=self.stub.url)
        self._timeout_s = 50
        self.proxy.app.reread = self._read

    def _read(self):
        self._timeout_s += 1
        settings = {"backend.url": self.stub.url, "backend.timeout_s": self._timeout_s}
        return load_config(None, overrides=settings | {"index.enabled": False, "nl.enabled": False})

    def reload(self):
        before = self.proxy.app.datasets[0]
        assert self.proxy.request("POST", "/-/reload")[0] == 200
        assert self.proxy.app.datasets[0] is not before

    def close(self):
        self.stub.go.set()
        self.proxy.close()
        self.stub.close()


@pytest.fixture
def site():
    one = Site()
    yield one
    one.close()


def rest(client: socket.socket) -> bytes:
    got = b""
    while data := client.recv(65536):
        got += data
    client.close()
    return got


def test_a_body_that_comes_after_the_reload(site):
    """The head came under one configuration, the query under another: it is answered by what serves now."""
    head = b"POST /sparql HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/sparql-query\r\n"
    client = site.proxy.connect(head + b"Content-Length: 5\r\n\r\nASK")
    site.reload()
    site.reload()
    client.sendall(b"{}")
    got = rest(client)
    assert got.startswith(b"HTTP/1.1 200") and got.endswith(TRUE), got


def test_a_request_that_waits_behind_another_over_the_reload(site):
    """Pipelined: the first is answered under the old configuration, the second begins under the new one."""
    one = b"GET /sparql?query=ASK%7B%7D%23slow HTTP/1.1\r\nHost: a\r\n\r\n"
    client = site.proxy.connect(one + one.replace(b"%23slow", b"").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    wait_until(lambda: site.stub.requests)
    site.reload()
    site.stub.go.set()
    got = rest(client)
    assert got.count(b"HTTP/1.1 200") == 2 and got.endswith(TRUE)
    assert got.count(b"x" * 1000) == SIZE // 1000


def test_a_transfer_that_others_had_joined_goes_on(site):
    """Its backend is closed when it has ended, not when those have left who shared it."""
    one = b"GET /sparql?query=ASK%7B%7D%23slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    clients = [site.proxy.connect(one) for _ in range(3)]
    wait_until(lambda: site.stub.requests)
    site.reload()
    got = clients[0].recv(1000)
    for other in clients[1:]:
        other.close()
    time.sleep(0.3)  # nobody else is left in the old configuration
    site.stub.go.set()
    got += rest(clients[0])
    assert got.count(b"x") - got.partition(b"\r\n\r\n")[0].count(b"x") == SIZE
