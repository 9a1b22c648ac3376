"""SIGTERM, with transfers in flight: what runs may end, within a bound, and nobody takes a part for the whole."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.loopback.conftest import Stub, wait_until
from tests.servers.process import free_port, request

pytestmark = pytest.mark.loopback
BODY = b"~" * 30_000
HALF = len(BODY) // 2
TRUE = b'{"head":{},"boolean":true}'
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/sparql-results+json\r\ncontent-length: %d\r\n\r\n%b" % (len(TRUE), TRUE)


async def slow_backend(one, reader, writer):
    """Answers at once, but of a download the second half only when it is told to go on."""
    while True:
        asked = await one.read_request(reader)
        if b"slow" not in asked:
            writer.write(ANSWER)
        elif b"chunked" in asked:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/csv\r\ntransfer-encoding: chunked\r\n\r\n")
            writer.write(b"%x\r\n%b\r\n" % (HALF, BODY[:HALF]))
            await one.wait_for_go()
            writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY) - HALF, BODY[HALF:]))
        else:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/csv\r\ncontent-length: %d\r\n\r\n" % len(BODY))
            writer.write(BODY[:HALF])
            await one.wait_for_go()
            writer.write(BODY[HALF:])
        await writer.drain()


@pytest.fixture
def backend():
    one = Stub(slow_backend)
    yield one
    one.go.set()
    one.close()


@pytest.fixture
def serve(backend, tmp_path):
    started = []

    def start(shutdown_s, drain_s=0.0, plugin=""):
        port = free_port()
        server = f"[server]\nport = {port}\nshutdown_timeout_s = {shutdown_s}\ndrain_s = {drain_s}\n"
        (tmp_path / "config.toml").write_text(f"{server}[backend]\nurl = '{backend.url}'\n{plugin}")
        command = [sys.executable, "-m", "proxy", "serve", "--no-index", "--config", str(tmp_path / "config.toml")]
        environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
        with (tmp_path / "log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environ)
        started.append(process)
        wait_until(lambda: is_live(port), 60)
        return process, port

    yield start
    for process in started:
        process.kill()
        process.wait(10)


def is_live(port):
    try:
        return request(port, "GET", "/-/live")[0] == 200
    except OSError:
        return False


class Download:
    """A transfer of which the first half has arrived."""

    def __init__(self, port, how="", version="1.1"):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._socket.sendall(f"GET /sparql?query=ASK%7B%7D%23slow{how} HTTP/{version}\r\nHost: a\r\n\r\n".encode())
        self.got = b""
        while len(self.got) < HALF:
            self.got += self._socket.recv(65536)

    def rest(self):
        """Read to the end; whether it was an orderly one."""
        try:
            while data := self._socket.recv(65536):
                self.got += data
        except ConnectionResetError:
            return False
        finally:
            self._socket.close()
        return True


def test_running_transfers_end_and_new_requests_are_not_taken(serve, backend):
    """Both are whole, however they are framed; the process ends well before the bound, with 0."""
    process, port = serve(30)
    downloads = [Download(port), Download(port, "chunked")]
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: not is_live(port))
    assert process.poll() is None
    backend.go.set()
    assert [one.rest() for one in downloads] == [True, True]
    assert BODY in downloads[0].got
    assert downloads[1].got.count(b"~") == len(BODY) and downloads[1].got.endswith(b"\r\n0\r\n\r\n")
    assert process.wait(15) == 0


WATCHED = "[plugins]\nenabled = ['audit_log']\n[plugins.audit_log]\npath = 'audit.jsonl'\n"


@pytest.mark.parametrize("plugin", ["", "watched"], ids=["direct", "application"])
def test_what_does_not_end_in_time_is_broken_off_visibly(serve, plugin, tmp_path):
    """A length that is not reached, a last chunk that does not come; without either, a reset."""
    folder = f"directory = '{Path(__file__).parent.parent / 'plugins'}'\n"
    options = WATCHED.replace("[plugins]\n", "[plugins]\n" + folder).replace("audit.jsonl", str(tmp_path / "audit.jsonl"))
    process, port = serve(1, plugin=options if plugin else "")
    downloads = [Download(port), Download(port, "chunked"), Download(port, "chunked", "1.0")]
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    ends = [one.rest() for one in downloads]
    assert process.wait(15) == 0
    assert 0.9 < time.monotonic() - began < 10
    assert all(BODY not in one.got and one.got.count(b"~") < len(BODY) for one in downloads)
    assert not downloads[1].got.endswith(b"\r\n0\r\n\r\n")
    assert not ends[2], "the end of the connection would be the end of the body"
    log = (tmp_path / "log").read_text()
    assert log.count('"event":"exchange"') >= 3 and '"request_failed"' not in log, log[-3000:]


def test_balancers_are_told_before_connections_are_refused(serve, backend):
    """For drain_s new requests are answered while /-/ready says 503 and why; then the rest of the time is theirs who run."""
    process, port = serve(30, drain_s=3)
    assert request(port, "GET", "/-/ready")[0] == 200
    download = Download(port)
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    wait_until(lambda: request(port, "GET", "/-/ready")[0] == 503)
    assert b"the server is stopping" in request(port, "GET", "/-/ready")[2]
    assert request(port, "GET", "/-/live")[0] == 200
    assert request(port, "GET", "/sparql?query=ASK%7B%7D")[0] == 200
    wait_until(lambda: not is_live(port))
    assert time.monotonic() - began > 2.5
    backend.go.set()
    assert download.rest() and BODY in download.got
    assert process.wait(15) == 0


def test_a_second_signal_ends_the_drain(serve):
    """Whoever insists is not kept waiting."""
    process, port = serve(60, drain_s=50)
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: request(port, "GET", "/-/ready")[0] == 503)
    process.send_signal(signal.SIGTERM)
    assert process.wait(15) == 0


def test_http_client_is_told_to_close(serve, backend):
    """A kept connection that asks again while the server stops is answered, and told that it was the last time."""
    process, port = serve(30, drain_s=2)
    kept = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    kept.request("GET", "/sparql?query=ASK%7B%7D")
    assert kept.getresponse().read() == TRUE
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: request(port, "GET", "/-/ready")[0] == 503)
    kept.request("GET", "/sparql?query=ASK%7B%7D")
    assert kept.getresponse().read() == TRUE
    kept.close()
    assert process.wait(15) == 0
