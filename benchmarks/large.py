"""What a large result costs: rate beside the direct one, CPU, and how much memory the proxy takes for it.

    .venv/bin/python -m benchmarks.large [--megabytes 118] [--gigabyte] [--out FILE.json]

A stand-in server in a process of its own sends chunks of 8 KiB, as fast as they are taken; so the proxy is the limit, not an
engine. Cases: one download, four at once, and with --gigabyte one of 1 GB; each direct, then through ``serve --no-index``.
Clients read with curl, which checks that the chunks end as they should. Peak memory is the kernel's (VmHWM), set back before
each case; CPU is user + system time of the proxy.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

PIECE = b"x" * 8192
TICKS = os.sysconf("SC_CLK_TCK")


def answer(client: socket.socket) -> None:
    """Give each request as many MB as its query names."""
    piece = b"%x\r\n%b\r\n" % (len(PIECE), PIECE)
    with contextlib.suppress(OSError), client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = b""
        while data := client.recv(65536):
            head += data
            if b"\r\n\r\n" not in head:
                continue
            megabytes = int(head.partition(b"megabytes")[2].partition(b"%")[0] or 0)
            head = b""
            client.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/csv\r\ntransfer-encoding: chunked\r\n\r\n")
            for _ in range(megabytes * 1_000_000 // len(PIECE)):
                client.sendall(piece)
            client.sendall(b"0\r\n\r\n")


def stand_in(listener: socket.socket) -> None:
    while True:
        client, _ = listener.accept()
        threading.Thread(target=answer, args=(client,), daemon=True).start()


@contextlib.contextmanager
def proxy(url: str) -> Iterator[tuple[int, int]]:
    """Process and port of ``serve --no-index`` in front of *url*."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ["--backend", "oxigraph", "--url", url, "--no-index", "--port", str(port)]
    command, nowhere = [sys.executable, "-m", "proxy", "serve", *options], subprocess.DEVNULL
    server = subprocess.Popen(command, stdout=nowhere, stderr=nowhere)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/-/live").read()
                break
            time.sleep(0.1)
        yield server.pid, port
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def memory_mb(pid: int, name: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) / 1024


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def download(port: int, megabytes: int, *, at_once: int) -> float:
    """Seconds for *at_once* downloads; raises where one is not complete."""
    url = f"http://127.0.0.1:{port}/query?query=SELECT%20%3Fmegabytes{megabytes}%20%7B%7D"
    started = time.perf_counter()
    command = ["curl", "-sS", "--fail", "-o", "/dev/null", "-w", "%{size_download}", url]
    clients = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(at_once)]
    for client in clients:
        size, _ = client.communicate()
        if client.returncode or int(size) < megabytes * 999_000:
            raise SystemExit(f"a download is not complete: {size} bytes, curl {client.returncode}")
    return time.perf_counter() - started


def measure(direct: int, pid: int, port: int, megabytes: int, *, at_once: int, rounds: int) -> dict[str, float]:
    total = megabytes * at_once
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    idle, cpu, straight, through = memory_mb(pid, "VmRSS"), cpu_s(pid), 0.0, 0.0
    for _ in range(rounds):  # in turn, as other load changes
        straight += download(direct, megabytes, at_once=at_once)
        through += download(port, megabytes, at_once=at_once)
    return {
        "direct_mb_s": round(total * rounds / straight),
        "mb_s": round(total * rounds / through),
        "ratio": round(straight / through, 3),
        "cpu_s_100_mb": round((cpu_s(pid) - cpu) / total / rounds * 100, 3),
        "idle_rss_mb": round(idle, 1),
        "peak_rss_mb": round(memory_mb(pid, "VmHWM"), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=118)
    parser.add_argument("--gigabyte", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results = {}
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        server = multiprocessing.get_context("fork").Process(target=stand_in, args=(listener,), daemon=True)
        server.start()
        direct = listener.getsockname()[1]
        try:
            with proxy(f"http://127.0.0.1:{direct}") as (pid, port):
                results["one"] = measure(direct, pid, port, options.megabytes, at_once=1, rounds=3)
                results["four at once"] = measure(direct, pid, port, options.megabytes, at_once=4, rounds=1)
                if options.gigabyte:
                    results["1 GB"] = measure(direct, pid, port, 1000, at_once=1, rounds=1)
        finally:
            server.kill()
    print(json.dumps(results, indent=2))
    if options.out:
        options.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
