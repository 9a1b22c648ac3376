"""Distil a generated graph out of a real Oxigraph server, and compare with fetching and counting it by hand.

python -m benchmarks.scale SHAPE TRIPLES [--method auto|ask|download|both] [--duty F] [--keep FOLDER]
python -m benchmarks.scale SHAPE TRIPLES --location FOLDER --no-yardstick     a database that is there already (oxigraph load)

In the same run: the time of streaming the whole graph out of that server as N-Triples and counting M in one pass of Python
(the yardstick), and of the build with its archive written. Each is measured in a process of its own, so that peaks of memory
are too.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from benchmarks.graphs import SHAPES, class_predicate, write
from benchmarks.index import Phases, timed
from proxy.backends import connect
from proxy.config import BackendSettings, IndexSettings
from proxy.index import archive
from proxy.index.normalise import normalise
from proxy.pipeline.asking import Scope
from proxy.pipeline.distil import distil


def yardstick(url: str, predicate: str) -> dict[str, Any]:
    """Stream everything, remember the classes, count (class, property, class or datatype)."""
    started = time.perf_counter()
    request = urllib.request.Request(f"{url}/store?default", headers={"Accept": "application/n-triples"})
    type_token = f"<{predicate}>".encode()
    classes: dict[bytes, list[bytes]] = defaultdict(list)
    triples = []
    with urllib.request.urlopen(request) as answer:
        for line in answer:
            s, p, o = line[:-3].split(b" ", 2)
            triples.append((s, p, o))
            if p == type_token:
                classes[s].append(o)
    streamed = time.perf_counter()
    matrix: Counter[tuple[bytes, bytes, bytes]] = Counter()
    none = [b""]
    for s, p, o in triples:
        targets = [o.rpartition(b'"')[2]] if o.startswith(b'"') else classes.get(o, none)
        for c in classes.get(s, none):
            for d in targets:
                matrix[c, p, d] += 1
    return {
        "triples": len(triples),
        "stream_s": round(streamed - started, 2),
        "total_s": round(time.perf_counter() - started, 2),
        "cells": len(matrix),
        "cpu_s": round(time.process_time(), 2),
    }


class Shown(Phases):
    """Tells on standard error, too, where a long build is."""

    def __call__(self, phase: str, done: int, total: int) -> None:
        super().__call__(phase, done, total)
        mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"\r{phase} {done}/{total}, {mb} MB, {time.process_time():.0f} s    ", end="", file=sys.stderr, flush=True)


async def build(url: str, predicate: str, method: str, duty: float, path: Path, *, chunk_timeout_s: float) -> dict[str, Any]:
    gc.set_threshold(20_000, 20, 20)  # as in a server, and in the process that rebuilds
    backend = connect(BackendSettings(url=url))
    settings = IndexSettings(class_predicate=predicate, chunk_timeout_s=chunk_timeout_s)
    phases = Shown()
    host = url.removeprefix("http://").encode()
    started = time.perf_counter()
    made = await distil(
        backend,
        settings,
        progress=phases,
        method=method,  # type: ignore[arg-type]
        values_path=path.with_suffix(".values"),
        duty=duty,
        headers=[(b"host", host)],
        scope=Scope(dump="/store?default"),
    )
    phases("", 0, 0)
    built = time.perf_counter()
    archive.write(path, made.index, made.values, fingerprint="")
    path.with_suffix(".values").unlink()
    written, cpu_s = time.perf_counter(), time.process_time()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    found = archive.load(path, fingerprint="")
    loaded = time.perf_counter()
    index = found.index
    rng = random.Random(1)
    names = [(c, p) for c in index.class_instances for p in index.properties]
    wanted = rng.sample(names, min(2_000, len(names)))
    _ = index.targets(*wanted[0])  # the projection is made once, when it is first asked for
    at = iter(range(10**9))
    lookup_us = timed(lambda: index.targets(*wanted[next(at) % len(wanted)]), 20_000) * 1e3
    texts = [e.text for c, p in wanted[:300] for e in found.values.examples(c, p, 2)] or ["none"]
    value_us = timed(lambda: found.values.lookup(normalise(rng.choice(texts))), 500) * 1e3
    search_ms = timed(lambda: found.values.search(rng.choice(texts)[1:], 10), 30)
    arrays = sum(a.nbytes for a in (index.subject, index.property, index.object, index.count))
    await backend.aclose()
    return {
        "method": made.method,
        "build_s": round(built - started, 2),
        "write_s": round(written - built, 2),
        "load_s": round(loaded - written, 3),
        "cpu_s": round(cpu_s, 2),
        "queries": made.queries,
        "peak_mb": peak_mb,
        "file_mb": round(found.size_bytes / 1e6, 1),
        "classes": len(index.class_instances),
        "kinds": len(index.kinds),
        "cells": len(index.count),
        "bytes_per_cell": round(arrays / max(1, len(index.count)), 1),
        "values": len(found.values),
        "incomplete": len(index.incomplete),
        "lookup_us": round(lookup_us, 2),
        "value_lookup_us": round(value_us, 1),
        "search_ms": round(search_ms, 2),
        "phases_s": {k: round(v, 2) for k, v in phases.seconds.items() if v >= 0.05},
    }


def backend_mb(pid: int) -> int:
    """Peak resident memory of the server so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def server_cpu(pid: int) -> float:
    """Seconds of processor time of the server so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def in_a_process(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.scale", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{arguments[0]} ended with {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure(options: argparse.Namespace) -> None:
    from tests.servers.oxigraph import Oxigraph

    with tempfile.TemporaryDirectory() as folder:
        file = Path(options.file or Path(folder, "graph.nt"))
        if not (options.location or file.exists()):
            write(options.shape, options.triples, file)
        predicate = class_predicate(options.shape)
        location = Path(options.location) if options.location else None
        with Oxigraph(files=[] if location else [file], location=location, read_only=location is not None) as server:
            print(options.shape, options.triples, "server MB:", backend_mb(server.pid), flush=True)
            by_hand = None
            if options.yardstick:
                spent = server_cpu(server.pid)
                by_hand = in_a_process("yardstick", "0", "--url", server.url, "--predicate", predicate)
                by_hand["server_cpu_s"] = round(server_cpu(server.pid) - spent, 2)
                print("yardstick", by_hand, flush=True)
            for method in ("download", "ask") if options.method == "both" else (options.method,):
                path = str(Path(options.keep or folder, f"{options.shape}-{method}.index"))
                same = ("--url", server.url, "--predicate", predicate, "--method", method, "--duty", str(options.duty))
                same += ("--chunk-timeout-s", str(options.chunk_timeout_s))
                spent = server_cpu(server.pid)
                made = in_a_process("build", "0", *same, "--file", path)
                made["server_cpu_s"] = round(server_cpu(server.pid) - spent, 2)
                if by_hand is not None:
                    made["times_yardstick"] = round((made["build_s"] + made["write_s"]) / by_hand["total_s"], 2)
                    cpu_s = made["cpu_s"] + made["server_cpu_s"]
                    made["times_yardstick_cpu"] = round(cpu_s / (by_hand["cpu_s"] + by_hand["server_cpu_s"]), 2)
                print(made, "server MB:", backend_mb(server.pid), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=(*SHAPES, "yardstick", "build"))
    parser.add_argument("triples", type=int)
    parser.add_argument("--method", choices=("auto", "ask", "download", "both"), default="both")
    parser.add_argument("--duty", type=float, default=1.0)
    parser.add_argument("--chunk-timeout-s", type=float, default=60.0, help="for one query; more on a busy machine")
    parser.add_argument("--file", help="the graph, if it is there already")
    parser.add_argument("--location", help="a database of the graph, which is read only, in place of a file")
    parser.add_argument("--no-yardstick", dest="yardstick", action="store_false")
    parser.add_argument("--keep", help="folder for the archives")
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--predicate", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.shape == "yardstick":
        print(json.dumps(yardstick(options.url, options.predicate)))
    elif options.shape == "build":
        where = (options.url, options.predicate, options.method, options.duty, Path(options.file))
        print(json.dumps(asyncio.run(build(*where, chunk_timeout_s=options.chunk_timeout_s))))
    else:
        measure(options)


if __name__ == "__main__":
    main()
