"""Real sockets: our application in uvicorn, before the real Oxigraph server or before a scripted backend of raw bytes."""

import asyncio
import http.client
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from proxy.app import create_app
from proxy.config import load_config
from proxy.server import configure

Script = Callable[["Stub", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/sparql-results+json\r\ncontent-length: 2\r\n\r\n{}"


class Proxy:
    """Sparlance on a free port, in a thread."""

    def __init__(self, **overrides: Any) -> None:
        settings = {"index.enabled": False, "nl.enabled": False, **{k.replace("__", "."): v for k, v in overrides.items()}}
        self.app = create_app(load_config(None, overrides=settings))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        config = configure(self.app, shutdown_timeout_s=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self.listener]}, daemon=True)
        self._thread.start()
        wait_until(lambda: self._server.started)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)
        self.listener.close()

    def request(self, method: str, target: str, body: bytes | None = None, **headers: str) -> tuple[int, Any, bytes]:
        """One exchange; names of headers with ``_`` for ``-``. Returns status, header fields, body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, target, body, {n.replace("_", "-"): v for n, v in headers.items()})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def connect(self, raw: bytes) -> socket.socket:
        """Open a connection and send *raw*."""
        client = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        client.sendall(raw)
        return client


class Stub:
    """A backend of raw bytes: *script* runs once for each connection."""

    def __init__(self, script: Script, port: int = 0) -> None:
        self._port = port
        self.requests: list[bytes] = []
        self.connections = 0
        self.lost = threading.Event()
        self.go = threading.Event()
        self._script = script
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        wait_until(lambda: hasattr(self, "port"))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            self.connections += 1
            try:
                await self._script(self, reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                self.lost.set()
            finally:
                writer.close()
                tasks.discard(task)

        server = await asyncio.start_server(accept, "127.0.0.1", self._port, limit=1 << 20)
        self.port = server.sockets[0].getsockname()[1]
        await self._stop.wait()
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.02)  # transports close in the next rounds of the loop

    async def read_request(self, reader: asyncio.StreamReader) -> bytes:
        """Read and record one request, head and body."""
        head = await reader.readuntil(b"\r\n\r\n")
        body = b""
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                body = await reader.readexactly(int(line.split(b":")[1]))
            elif line.startswith(b"transfer-encoding: chunked"):
                while not body.endswith(b"0\r\n\r\n"):
                    body += await reader.read(65536)
        self.requests.append(head + body)
        return head + body

    async def wait_for_go(self) -> None:
        while not self.go.is_set():
            await asyncio.sleep(0.01)

    async def watch(self, reader: asyncio.StreamReader) -> None:
        """Wait until the other side closes, then set ``lost``."""
        try:
            while await reader.read(65536):
                pass
        except ConnectionError:
            pass
        self.lost.set()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)


async def when_told(one, reader, writer):
    """Answers every request once ``go`` is set."""
    while True:
        await one.read_request(reader)
        await one.wait_for_go()
        writer.write(OK)
        await writer.drain()


def wait_until(is_true: Callable[[], bool], limit_s: float = 60.0) -> None:
    ends = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < ends, "waited too long"
        time.sleep(0.01)


def answering(*answers: bytes) -> Script:
    """A script that gives *answers* to the requests of each connection, the last one again and again, and keeps it open."""

    async def script(stub: Stub, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        i = 0
        while True:
            await stub.read_request(reader)
            writer.write(answers[min(i, len(answers) - 1)])
            await writer.drain()
            i += 1

    return script


@pytest.fixture
def stub() -> Iterator[Callable[..., Stub]]:
    started: list[Stub] = []

    def start(script: Script, port: int = 0) -> Stub:
        started.append(Stub(script, port))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Proxy]]:
    started: list[Proxy] = []

    def start(url: str = "", **overrides: Any) -> Proxy:
        if url:
            overrides["backend__url"] = url
        started.append(Proxy(**overrides))
        return started[-1]

    yield start
    for one in started:
        one.close()


class Oxigraph:
    """The real server with an empty store in memory."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        binary = Path(sys.executable).with_name("oxigraph")
        command = [str(binary), "serve", "--bind", f"127.0.0.1:{self.port}"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(self._answers)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _answers(self) -> bool:
        try:
            return self.request("GET", "/query?query=ASK%7B%7D")[0] == 200
        except OSError:
            return False

    def request(self, method: str, target: str, body: bytes | None = None, **headers: str) -> tuple[int, Any, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, target, body, {n.replace("_", "-"): v for n, v in headers.items()})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture(scope="session")
def oxigraph() -> Iterator[Oxigraph]:
    server = Oxigraph()
    data = "".join(f"<http://e/s{i}> <http://e/p> {i} ; a <http://e/Thing> .\n" for i in range(50))
    assert server.request("PUT", "/store?default", data.encode(), Content_Type="text/turtle")[0] in (201, 204)
    yield server
    server.close()
