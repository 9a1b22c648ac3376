"""Does it hold? Clients that read, dawdle and leave, a real Oxigraph that is killed and restarted every minute.

    .venv/bin/python -m benchmarks.soak [--minutes 10] [--clients 64] [--workers 1] [--seed 1]

Every answer with status 200 that is complete must be, byte for byte, the one that Oxigraph gave before the start. An answer
that is visibly broken off, and a 502, 503 or 504 of ours, are right while the backend is down. At the end nothing may be left:
no place in the queue, no connection in use, no task, no descriptor, no growth of memory. Prints what happened and a verdict;
exit code 1 if something was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from tests.servers.oxigraph import Oxigraph
from tests.servers.process import request

SUBJECTS = 20_000
QUERIES = {
    # size → queries with a share of the requests; few texts, so that identical ones meet
    "small": (0.80, [f"SELECT ?p ?o {{ <http://e/s{i}> ?p ?o }}" for i in range(60)]),
    "medium": (0.15, [f"SELECT ?s ?o {{ ?s <http://e/p> ?o }} OFFSET {i * 1000} LIMIT 2000" for i in range(10)]),
    "large": (0.03, ["SELECT ?s ?p ?o { ?s ?p ?o }", "SELECT ?s ?o { ?s <http://e/name> ?o }"]),
    "heavy": (0.02, ["SELECT (COUNT(*) AS ?n) { ?a <http://e/group> ?g . ?b <http://e/group> ?g }"]),
}
ACCEPTS = ("text/csv", "application/sparql-results+json")
DOWN_S = 3.0
GROWTH_MB_PER_MIN = 2.0
QUIET_S = 90.0


@dataclass
class Outcome:
    """What has happened so far."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    unserved: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Sample:
    at_s: float
    rss_mb: float
    descriptors: int


class Broken(Exception):
    """The answer was not complete."""


def data() -> str:
    return "".join(
        f'<http://e/s{i}> <http://e/p> <http://e/s{(i * 7 + 1) % SUBJECTS}> ; <http://e/name> "subject number {i}" ; '
        f"<http://e/group> {i % 400} .\n"
        for i in range(SUBJECTS)
    )


def target(query: str) -> str:
    return "/sparql?query=" + quote(query)


async def read_answer(reader: asyncio.StreamReader, pause_s: float = 0.0) -> tuple[int, bytes]:
    """Read one answer.

    Raises:
        Broken: it ended before its end.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
        if length is not None:
            return status, await reader.readexactly(int(length[1]))
        if b"chunked" not in head.lower():
            raise Broken("no framing")
        pieces: list[bytes] = []
        while size := int(await reader.readline(), 16):
            pieces.append((await reader.readexactly(size + 2))[:-2])
            if pause_s:
                await asyncio.sleep(pause_s)
        await reader.readexactly(2)
        return status, b"".join(pieces)
    except (asyncio.IncompleteReadError, ConnectionError, ValueError, IndexError) as exc:
        raise Broken(str(exc)) from exc


class Client:
    """One client that asks without pause, on a kept connection as long as it lasts."""

    def __init__(self, port: int, known: dict[tuple[str, str], str], outcome: Outcome, rng: random.Random) -> None:
        self.port, self.known, self.outcome, self.rng = port, known, outcome, rng
        self.sizes = list(QUERIES)
        self.weights = [QUERIES[size][0] for size in self.sizes]
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def run(self, ends: float) -> None:
        while time.monotonic() < ends:
            (size,) = self.rng.choices(self.sizes, self.weights)
            try:
                async with asyncio.timeout(120):
                    await self.once(size)
            except (Broken, ConnectionError) as error:
                self.outcome.counts["broken off"] += 1
                self.outcome.unserved[type(error).__name__] += 1
                self.drop()
                await asyncio.sleep(0.05)
            except TimeoutError:
                self.outcome.wrong.append(f"{size}: no answer and no error within 120 s")
                self.drop()
        self.drop()

    def drop(self) -> None:
        if self.writer is not None:
            self.writer.transport.abort()
            self.writer = None

    async def once(self, size: str) -> None:
        query, accept = self.rng.choice(QUERIES[size][1]), self.rng.choice(ACCEPTS)
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
        assert self.reader is not None
        head = f"GET {target(query)} HTTP/1.1\r\nHost: soak\r\nAccept: {accept}\r\n\r\n"
        self.writer.write(head.encode())
        leaves = self.rng.random()
        if leaves < 0.03:  # before the head, or about then
            await asyncio.sleep(self.rng.random() * 0.02)
            self.outcome.counts["left early"] += 1
            self.drop()
            return
        if leaves < 0.06:  # within the body
            await self.reader.read(self.rng.randint(1, 20_000))
            self.outcome.counts["left late"] += 1
            self.drop()
            return
        status, body = await read_answer(self.reader, 0.02 if leaves < 0.08 else 0.0)
        self.outcome.counts[f"{size} {status}"] += 1
        if status == 200:
            if hashlib.sha256(body).hexdigest() != self.known[query, accept]:
                self.outcome.wrong.append(f"{size} {accept}: {len(body)} bytes that are not the answer: {body[-80:]!r}")
        elif status not in (502, 503, 504):
            self.outcome.wrong.append(f"{size}: status {status}: {body[:200]!r}")
        else:
            self.outcome.counts["unserved"] += 1
            await asyncio.sleep(0.25)


async def torment(server: Oxigraph, ends: float, every_s: float, outcome: Outcome) -> None:
    """Kill the backend and start it again, every *every_s*."""
    while time.monotonic() + every_s < ends:
        await asyncio.sleep(every_s - DOWN_S)
        await asyncio.to_thread(server.stop, kill=True)
        outcome.counts["backend killed"] += 1
        await asyncio.sleep(DOWN_S)
        await asyncio.to_thread(server.start)


async def watch(pids: list[int], samples: list[Sample], started: float) -> None:
    while True:
        rss = sum(resident_mb(pid) for pid in pids)
        samples.append(Sample(time.monotonic() - started, rss, sum(descriptors(pid) for pid in pids)))
        await asyncio.sleep(1)


def resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def numbers(port: int) -> dict[str, float]:
    """/-/metrics, summed over labels."""
    found: Counter[str] = Counter()
    for line in request(port, "GET", "/-/metrics")[2].decode().splitlines():
        if not line.startswith("#"):
            name, value = re.split(r"(?:\{.*\})? (?=[^ ]+$)", line)
            found[name] += float(value)  # type: ignore[assignment]  # a Counter of floats
    return dict(found)


def slope_per_min(samples: list[Sample]) -> float:
    """Of the resident memory over the second half, in MB a minute; least squares."""
    half = samples[len(samples) // 2 :]
    mean_t, mean_m = (sum(values) / len(half) for values in zip(*((s.at_s, s.rss_mb) for s in half), strict=True))
    spread = sum((s.at_s - mean_t) ** 2 for s in half)
    return 60 * sum((s.at_s - mean_t) * (s.rss_mb - mean_m) for s in half) / spread if spread else 0.0


async def soak(options: argparse.Namespace, server: Oxigraph, port: int, pids: list[int], known: dict) -> dict:
    outcome, samples = Outcome(), list[Sample]()
    started = time.monotonic()
    ends = started + options.minutes * 60
    before = numbers(port), sum(descriptors(pid) for pid in pids)
    watcher = asyncio.create_task(watch(pids, samples, started))
    clients = [Client(port, known, outcome, random.Random(options.seed * 1000 + i)) for i in range(options.clients)]
    await asyncio.gather(torment(server, ends, options.kill_every_s, outcome), *(client.run(ends) for client in clients))
    watcher.cancel()
    quiet_from = time.monotonic()
    while True:
        after = numbers(port)
        is_quiet = not any(after[f"sparlance_{name}"] for name in ("queue_running", "queue_waiting", "pool_busy"))
        if (is_quiet and after["sparlance_tasks"] <= before[0]["sparlance_tasks"]) or time.monotonic() - quiet_from > QUIET_S:
            break
        await asyncio.sleep(0.5)
    kept = after["sparlance_pool_idle"]
    grown = sum(descriptors(pid) for pid in pids) - before[1] - kept
    slope, half = slope_per_min(samples), samples[len(samples) // 2 :]
    wrong = list(outcome.wrong)
    for name in ("queue_running", "queue_waiting", "pool_busy", "coalesce_held_bytes"):
        if after[f"sparlance_{name}"]:
            wrong.append(f"{name} is {after[f'sparlance_{name}']:g} although nobody asks any more")
    if after["sparlance_tasks"] > before[0]["sparlance_tasks"]:
        wrong.append(f"{after['sparlance_tasks']:g} tasks, {before[0]['sparlance_tasks']:g} before")
    if grown > 2:
        wrong.append(f"{grown:g} descriptors more than before, {kept:g} kept connections not counted")
    if slope > GROWTH_MB_PER_MIN and half[-1].rss_mb - half[0].rss_mb > 10:
        wrong.append(f"memory grows by {slope:.1f} MB a minute")
    if "small 200" not in outcome.counts or (outcome.counts["backend killed"] == 0 and options.minutes >= 2):
        wrong.append("the test itself did not test: no answers, or no kill")
    return {
        "minutes": options.minutes,
        "requests": sum(n for name, n in outcome.counts.items() if name not in ("backend killed", "unserved")),
        "counts": dict(sorted(outcome.counts.items())),
        "rss_mb": {name: round(s.rss_mb, 1) for name, s in (("first", samples[0]), ("half", half[0]), ("last", samples[-1]))},
        "rss_mb_per_min": round(slope, 2),
        "descriptors": {"before": before[1], "most": max(s.descriptors for s in samples), "left over": grown},
        "coalesced": after["sparlance_coalesced_total"],
        "circuit_opened": after["sparlance_circuit_opened_total"],
        "quiet_after_s": round(time.monotonic() - quiet_from, 1),
        "wrong": wrong[:20],
        "verdict": "wrong" if wrong else "holds",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--kill-every-s", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Oxigraph(data={"text/turtle": data()}, location=Path(folder)) as server:
        server.data = {}  # it is on the disk now, and there after a restart
        known = {}
        for _, queries in QUERIES.values():
            for query in queries:
                for accept in ACCEPTS:
                    address = "/query?query=" + quote(query)
                    status, _, body = server.request("GET", address, headers={"Accept": accept})
                    assert status == 200, body
                    known[query, accept] = hashlib.sha256(body).hexdigest()
        command = [sys.executable, "-m", "proxy", "serve", "--url", server.url, "--no-index", "--port", "0"]
        environ = {**os.environ, "SPARLANCE_LOG_LEVEL": "error"}
        proxy = subprocess.Popen([*command, "--workers", str(options.workers)], stdout=subprocess.PIPE, text=True, env=environ)
        try:
            assert proxy.stdout is not None
            found = re.search(r":(\d+)/sparql", proxy.stdout.readline())
            assert found is not None, "the proxy did not start"
            pids = [proxy.pid]
            if options.workers > 1:
                time.sleep(3)
                children = Path(f"/proc/{proxy.pid}/task/{proxy.pid}/children").read_text().split()
                pids = [int(pid) for pid in children]
            result = asyncio.run(soak(options, server, int(found[1]), pids, known))
        finally:
            proxy.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                proxy.wait(15)
            proxy.kill()
    print(json.dumps(result, indent=2))
    return 0 if result["verdict"] == "holds" else 1


if __name__ == "__main__":
    sys.exit(main())
