"""A large result in constant memory, measured on a process of its own."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.loopback.conftest import wait_until

pytestmark = pytest.mark.loopback
MEGABYTES = 100
SERVER = """
import socket, sys, uvicorn
from proxy.app import create_app
from proxy.config import load_config
from proxy.server import configure
listener = socket.create_server(("127.0.0.1", 0))
app = create_app(load_config(None, overrides={
    "backend.url": sys.argv[1], "index.enabled": False, "nl.enabled": False}))
print(listener.getsockname()[1], flush=True)
uvicorn.Server(configure(app, shutdown_timeout_s=1)).run(sockets=[listener])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_large_result_in_constant_memory(stub):
    """100 MB pass with the memory of the process growing by less than 16 MB."""

    async def script(one, reader, writer):
        while True:
            request = await one.read_request(reader)
            pieces = MEGABYTES if b"large" in request else 1
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            for _ in range(pieces):
                writer.write(b"%x\r\n%b\r\n" % (1 << 20, b"x" * (1 << 20)))
                await writer.drain()
            writer.write(b"0\r\n\r\n")

    backend = stub(script)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", SERVER, backend.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            drain = threading.Thread(target=process.stdout.read, daemon=True)
            drain.start()
            assert fetch(port, "small") == 1 << 20
            before = peak_kilobytes(process.pid)
            assert fetch(port, "large") == MEGABYTES << 20
            assert peak_kilobytes(process.pid) - before < 16 * 1024
        finally:
            process.terminate()


def fetch(port: int, word: str) -> int:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def is_up() -> bool:
        try:
            connection.connect()
        except OSError:
            return False
        return True

    wait_until(is_up)
    connection.request("GET", f"/sparql?query=ASK%7B%7D%23{word}")
    response = connection.getresponse()
    size = 0
    while piece := response.read(1 << 18):
        size += len(piece)
    connection.close()
    return size


def peak_kilobytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
