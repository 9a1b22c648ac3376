"""What a request costs in our own code: CPU in µs, in one process, without sockets; the steady instrument beside throughput.py.

    .venv/bin/python -m benchmarks.request_path [--requests 2000] [--rounds 9] [--profile off|cached|uncached]

uvicorn's protocol reads a request from memory, the whole application runs, and the pool's connection reads an answer from
memory. Of all rounds, taken in turn, the least counts: other load only adds. What the kernel does for sockets is not in it
(on 2 shared cores about 40 µs a request).
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import io
import json
import os
import pstats
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from proxy import log
from proxy.app import create_app
from proxy.backends.embedded import EmbeddedBackend
from proxy.backends.http1 import Connection
from proxy.backends.remote import RemoteBackend
from proxy.config import LogSettings, load_config
from proxy.pipeline.distil import distil
from proxy.server import spare_collector

ROW = b'{"p":{"type":"uri","value":"http://e/p"},"o":{"type":"literal","value":"an entity"}}'
BODY = b'{"head":{"vars":["p","o"]},"results":{"bindings":[' + b",".join([ROW] * 15) + b"]}}"
ANSWER = (
    b"HTTP/1.1 200 OK\r\nserver: Oxigraph/0.5.0\r\ncontent-type: application/sparql-results+json\r\n"
    b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
)
GRAPH = "".join(
    f'<http://e/s{i}> a <http://e/C{i % 20}> ; <http://e/name> "entity {i}" ; <http://e/n> {i} ; '
    f"<http://e/p{i % 7}> <http://e/s{i * 7 % 500}> .\n"
    for i in range(500)
)


class Upstream(asyncio.Transport):
    """Answers whatever is written, at the loop's next turn."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection
        self._loop = asyncio.get_running_loop()

    def write(self, data: Any) -> None:
        self._loop.call_soon(self._connection.data_received, ANSWER)

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        pass


class Client(asyncio.Transport):
    """Takes what the server writes; *done* is told of the last byte of each answer."""

    def __init__(self) -> None:
        super().__init__()
        self.done: asyncio.Future[None] | None = None

    def write(self, data: Any) -> None:
        if data[-5:] == b"0\r\n\r\n" and self.done is not None:
            self.done.set_result(None)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 40000), "sockname": ("127.0.0.1", 8080)}.get(name, default)

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def close(self) -> None: ...


def make_request(i: int) -> bytes:
    """A text for each *i*, all about entities that there are."""
    text = quote(f"SELECT ?p ?o {{<http://e/s{i % 500}> ?p ?o}} LIMIT {i + 1000}")
    return (
        b"GET /query?query=%b HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAccept: application/sparql-results+json\r\n"
        b"User-Agent: curl/8.5.0\r\n\r\n" % text.encode()
    )


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """What uvicorn and an application that does nothing cost: the least there is."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"a/b")]})
    await send({"type": "http.response.body", "body": BODY})


def serve(app: Any) -> tuple[Any, Client]:
    """A connection of uvicorn's own protocol, or of the application's where it brings one."""
    state, client = ServerState(), Client()
    if hasattr(app, "connection"):
        protocol = app.connection(state, keep_alive_s=5.0, loop=asyncio.get_running_loop())
    else:
        config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False, server_header=False, date_header=False)
        config.load()
        protocol = HttpToolsProtocol(config, state, {})
    protocol.connection_made(client)
    return protocol, client


class Bench:
    """One application in front of a backend in memory."""

    def __init__(self, *, level: str) -> None:
        self.level = level
        self.count = 0

    async def start(self) -> Bench:
        config = load_config(None, overrides={"backend.url": "http://127.0.0.1:1", "nl.enabled": False})
        self.app = create_app(config)
        dataset = self.app.datasets[0]
        backend = dataset.backend
        assert isinstance(backend, RemoteBackend)

        async def connect(timeouts: object) -> Connection:
            connection = Connection("memory")
            connection.connection_made(Upstream(connection))
            return connection

        backend.pool._connect = connect  # type: ignore[method-assign]
        with tempfile.NamedTemporaryFile("w", suffix=".ttl") as file:
            file.write(GRAPH)
            file.flush()
            store = EmbeddedBackend.load([file.name])
        self.index = (await distil(store, config.index)).index
        self.ours, self.bare = serve(self.app), serve(bare)
        spare_collector()
        return self

    async def run(self, requests: int, *, mode: str) -> float:
        """µs of CPU a request."""
        self.app.datasets[0].index = None if mode == "off" else self.index
        log.configure(LogSettings(level=self.level, format="json"))
        loop = asyncio.get_running_loop()
        if mode == "uncached":
            raw = [make_request(self.count + i) for i in range(requests)]
            self.count += requests
        else:
            raw = [make_request(-100 + i % 100) for i in range(requests)]
        protocol, client = self.bare if mode == "bare" else self.ours
        started = time.process_time()
        for request in raw:
            client.done = loop.create_future()
            protocol.data_received(request)
            await client.done
        return (time.process_time() - started) / requests * 1e6


CASES = ("bare", "off, log warning", "off", "cached", "uncached")
"""bare: uvicorn alone. off: without an index. cached, uncached: the verdict. The log is at info unless it says otherwise."""


async def measure(requests: int, rounds: int) -> dict[str, float]:
    bench = await Bench(level="info").start()
    best: dict[str, float] = {}
    for n in range(rounds + 1):
        for name in CASES:
            mode, _, level = name.partition(", log ")
            bench.level = level or "info"
            us = await bench.run(requests, mode=mode)
            if n:
                best[name] = min(us, best.get(name, us))
    return {name: round(us, 1) for name, us in best.items()}


async def profile(mode: str, requests: int) -> None:
    bench = await Bench(level="info").start()
    await bench.run(requests, mode=mode)
    profiler = cProfile.Profile()
    profiler.enable()
    await bench.run(requests, mode=mode)
    profiler.disable()
    out = io.StringIO()
    pstats.Stats(profiler, stream=out).sort_stats("tottime").print_stats(60)
    print(out.getvalue())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--profile", choices=["off", "cached", "uncached"])
    options = parser.parse_args()
    # The log lines are written, but not to the terminal.
    sys.stderr.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    run: Callable[[Any], Any] = uvloop.run
    if options.profile:
        run(profile(options.profile, options.requests))
    else:
        print(json.dumps(run(measure(options.requests, options.rounds)), indent=2))


if __name__ == "__main__":
    main()
