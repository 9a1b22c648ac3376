"""What the proxy costs: the same requests to Oxigraph direct and through us, alternating, on one machine.

    .venv/bin/python benchmarks/proxy.py [--seconds 2] [--rounds 3] [--connections 16] [--index]

Small: ``SELECT ?p ?o {<entity> ?p ?o}`` by GET over kept-alive connections. Large: ``SELECT *`` over everything, one client.
CPU is user + system time of the server's process divided by the requests, least of the rounds: the figure that other load
disturbs least. The client is asyncio in a process of its own and uses about as much CPU as the proxy, so the rates are lower
bounds; compare the ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from urllib.parse import quote

ENTITIES = 20_000
SERVER = """
import socket, sys, uvicorn
from proxy import log
from proxy.app import create_app
from proxy.config import LogSettings, load_config
listener = socket.create_server(("127.0.0.1", 0))
is_indexed = sys.argv[2] == "index"
config = load_config(None, overrides={"backend.url": sys.argv[1], "index.enabled": is_indexed, "nl.enabled": False})
log.configure(LogSettings(level=sys.argv[3]))
app = create_app(config)
print(listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, http="httptools", lifespan="on", log_config=None, access_log=False, server_header=False,
    date_header=False, proxy_headers=False)).run(sockets=[listener])
"""


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def wait_for(url: str, limit_s: float = 60.0) -> None:
    ends = time.monotonic() + limit_s
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.05)


class Client(asyncio.Protocol):
    """One kept-alive connection that sends the next request as soon as the answer is complete."""

    def __init__(self, host: bytes, latencies: list[float], texts: list[bytes], ends: float) -> None:
        self.head, self.latencies, self.texts, self.ends = host, latencies, texts, ends
        self.done = asyncio.get_running_loop().create_future()
        self.i = 0
        self.tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.send()

    def send(self) -> None:
        self.started = time.perf_counter()
        self.i += 1
        self.transport.write(  # type: ignore[attr-defined]
            b"GET /query?query=" + self.texts[self.i % len(self.texts)] + b" HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n"
        )

    def data_received(self, data: bytes) -> None:
        self.tail = (self.tail + data)[-5:]
        if self.tail == b"0\r\n\r\n":
            now = time.perf_counter()
            self.latencies.append(now - self.started)
            if now < self.ends:
                self.send()
            else:
                self.transport.close()
                self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("closed"))


async def load(port: int, connections: int, seconds: float, distinct: int) -> list[float]:
    texts = [
        quote(f"SELECT ?p ?o {{<http://e/s{i}> ?p ?o}}").encode() for i in range(0, ENTITIES, max(1, ENTITIES // distinct))
    ]
    latencies: list[float] = []
    ends = time.perf_counter() + seconds
    loop = asyncio.get_running_loop()
    clients = [
        (await loop.create_connection(lambda: Client(b"", latencies, texts, ends), "127.0.0.1", port))[1]
        for _ in range(connections)
    ]
    await asyncio.gather(*(c.done for c in clients))
    return latencies


def run_load(port: int, connections: int, seconds: float, distinct: int) -> list[float]:
    import uvloop

    return uvloop.run(load(port, connections, seconds, distinct))


def large(port: int) -> tuple[float, float, int]:
    """Seconds in all, seconds to the first byte, bytes."""
    client = socket.create_connection(("127.0.0.1", port))
    started = time.perf_counter()
    query = quote("SELECT * {?s ?p ?o}").encode()
    client.sendall(b"GET /query?query=" + query + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    size, first = 0, 0.0
    while piece := client.recv(1 << 18):
        first = first or time.perf_counter() - started
        size += len(piece)
    return time.perf_counter() - started, first, size


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--distinct", type=int, default=1000, help="different queries; over 2048 miss the caches")
    parser.add_argument("--index", action="store_true", help="with validation")
    parser.add_argument("--log-level", default="warning", help="info logs a line for each request")
    options = parser.parse_args()
    root = Path(__file__).resolve().parent.parent
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    binary = str(Path(sys.executable).with_name("oxigraph"))
    backend = subprocess.Popen([binary, "serve", "--bind", f"127.0.0.1:{port}"], **quiet)  # type: ignore[call-overload]
    proxy = None
    try:
        wait_for(f"http://127.0.0.1:{port}/query?query=ASK%7B%7D")
        data = "".join(
            f"<http://e/s{i}> a <http://e/C{i % 20}> ; <http://e/name> \"entity {i}\" ; <http://e/n> {i} ; "
            + " ; ".join(f"<http://e/p{j}> <http://e/s{(i * 7 + j) % ENTITIES}>" for j in range(7))
            + " .\n"
            for i in range(ENTITIES)
        )
        request = urllib.request.Request(f"http://127.0.0.1:{port}/store?default", data.encode(), method="PUT")
        request.add_header("Content-Type", "text/turtle")
        urllib.request.urlopen(request).close()
        proxy = subprocess.Popen(
            [sys.executable, "-c", SERVER, f"http://127.0.0.1:{port}", "index" if options.index else "-", options.log_level],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=root,
        )
        assert proxy.stdout is not None
        own_port = int(proxy.stdout.readline())
        wait_for(f"http://127.0.0.1:{own_port}/-/ready")
        print(json.dumps(measure(options, port, own_port, proxy.pid), indent=2))
    finally:
        backend.kill()
        if proxy is not None:
            proxy.terminate()
            proxy.wait(10)
        backend.wait()


def measure(options: argparse.Namespace, port: int, own_port: int, pid: int) -> dict[str, object]:
    rates: dict[str, list[float]] = {"direct": [], "proxy": []}
    costs, latencies = [], {"direct": [0.0], "proxy": [0.0]}
    for _ in range(options.rounds):
        for name, at in (("direct", port), ("proxy", own_port)):
            before, started = cpu_s(pid), time.perf_counter()
            latencies[name] = run_load(at, options.connections, options.seconds, options.distinct)
            rates[name].append(len(latencies[name]) / (time.perf_counter() - started))
            if name == "proxy":
                costs.append((cpu_s(pid) - before) / len(latencies[name]) * 1e6)
    single = {name: run_load(at, 1, options.seconds, options.distinct) for name, at in (("direct", port), ("proxy", own_port))}
    idle_mb = peak_mb(pid)
    big: dict[str, list[tuple[float, float, int]]] = {"direct": [], "proxy": []}
    big_cpu = []
    for _ in range(options.rounds):
        big["direct"].append(large(port))
        before = cpu_s(pid)
        big["proxy"].append(large(own_port))
        big_cpu.append((cpu_s(pid) - before) / (big["proxy"][-1][2] / 1e8))
    direct, through = statistics.median(rates["direct"]), statistics.median(rates["proxy"])
    return {
        "small": {
            "connections": options.connections,
            "direct_per_s": round(direct),
            "proxy_per_s": round(through),
            "ratio": round(through / direct, 3),
            "cpu_us_per_request": round(min(costs), 1),
            "p50_p99_ms": {n: [round(percentile(v, 0.5), 3), round(percentile(v, 0.99), 3)] for n, v in latencies.items()},
            "one_connection_p50_p99_ms": {
                n: [round(percentile(v, 0.5), 3), round(percentile(v, 0.99), 3)] for n, v in single.items()
            },
        },
        "large": {
            "megabytes": round(big["direct"][0][2] / 1e6, 1),
            **{f"{n}_mb_per_s": round(max(size / s for s, _, size in v) / 1e6, 1) for n, v in big.items()},
            **{f"{n}_first_byte_ms": round(min(f for _, f, _ in v) * 1000, 2) for n, v in big.items()},
            "cpu_s_per_100_mb": round(min(big_cpu), 3),
            "peak_rss_mb": round(peak_mb(pid), 1),
            "peak_rss_before_mb": round(idle_mb, 1),
        },
    }


if __name__ == "__main__":
    main()
