#!/usr/bin/env python3
"""How long questions take on a graph of any size, before a real Oxigraph server: python -m benchmarks.question_times TRIPLES

The graph is the demo graph as often as it takes, each coast with names of its own ("MS Kestrel 17"), so that the forty
questions of tests/nl/demo_questions.json are about the whole of it. ``sparlance serve`` with its defaults stands before the
server: once without an index file and once with the one that it left. Printed: seconds until ready both times, peak memory of
the proxy (VmHWM), processor time and wall time of each question, calls to the backend, how many answers are those of the gold
query, and the load average before and after.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from proxy.demo.coast import NAMESPACE, THINGS, graph, ontology
from proxy.evaluation.report import percentile
from tests.servers.oxigraph import Oxigraph, binary

ROOT = Path(__file__).resolve().parents[1]
QUESTIONS = ROOT / "tests" / "nl" / "demo_questions.json"
PREFIXES = f"PREFIX : <{NAMESPACE}> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> "
TICKS = os.sysconf("SC_CLK_TCK")
READY_S = 900.0


def coasts(triples: int) -> Iterator[str]:
    """N-Triples of as many coasts as make *triples*, the first as it is."""
    first = graph()
    for number in range(max(1, round(triples / first.count("\n")))):
        if number == 0:
            yield first
            continue
        own = first.replace(f"<{THINGS}", f"<{THINGS}{number}/")
        yield re.sub(r'"@(\w\w) \.\n', rf' {number}"@\1 .\n', own)


@contextmanager
def served(url: str, folder: Path) -> Iterator[tuple[str, int, float]]:
    """Root URL and process of a proxy before *url* with its index in *folder*, and the seconds until it was ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "proxy", "serve", "--port", str(port), "--url", url]
    environment = os.environ | {"SPARLANCE_INDEX_DIRECTORY": str(folder)}
    started = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    root = f"http://127.0.0.1:{port}"
    try:
        while True:
            try:
                urllib.request.urlopen(f"{root}/-/ready", timeout=10).close()
                break
            except (urllib.error.URLError, OSError):
                if time.monotonic() - started > READY_S or process.poll() is not None:
                    raise
                time.sleep(0.1)
        yield root, process.pid, time.monotonic() - started
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def peak_mb(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0]) // 1024


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rows(found: dict[str, Any]) -> set[tuple[str, ...]]:
    if "boolean" in found:
        return {(str(found["boolean"]),)}
    names = found["head"]["vars"]
    return {tuple(b[n]["value"] if n in b else "" for n in names) for b in found["results"]["bindings"]}


def fetch(url: str, accept: str) -> dict[str, Any]:
    request = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=120) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def select(server: str, query: str) -> set[tuple[str, ...]]:
    return rows(fetch(f"{server}/query?{urllib.parse.urlencode({'query': query})}", "application/sparql-results+json"))


def same(want: set[tuple[str, ...]], got: set[tuple[str, ...]]) -> bool:
    """Whether the rows are equal with the columns in some order."""
    width = len(next(iter(got), ()))
    return any({tuple(r[i] for i in order) for r in got} == want for order in itertools.permutations(range(width)))


def ask(root: str, pid: int, server: str, question: dict[str, Any]) -> dict[str, Any]:
    before, started = cpu_s(pid), time.monotonic()
    try:
        account = fetch(f"{root}/sparql?{urllib.parse.urlencode({'nl': question['question']})}", "application/json")
    except urllib.error.HTTPError as error:
        account = {"status": error.code}
    seconds = time.monotonic() - started
    query, details = account.get("query"), account.get("account", {})
    golds = [question["query"], *question.get("also", ())]
    got = select(server, query) if query else set()
    return {
        "question": question["question"],
        "s": round(seconds, 3),
        "cpu_s": round(cpu_s(pid) - before, 2),
        "calls": details.get("endpoint_calls"),
        "right": any(same(select(server, PREFIXES + g), got) for g in golds),
        "query": query,
        "executed": details.get("executed"),
        "timings_ms": details.get("timings_ms"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("triples", type=int)
    parser.add_argument("-o", "--output", type=Path, help="every question, as JSON lines")
    options = parser.parse_args()
    questions = json.loads(QUESTIONS.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as scratch:
        file, folder = Path(scratch, "coasts.nt"), Path(scratch, "index")
        with file.open("w", encoding="utf-8") as out:
            out.writelines(coasts(options.triples))
        words, location = Path(scratch, "ontology.ttl"), Path(scratch, "db")
        words.write_text(ontology(), encoding="utf-8")
        load = [str(binary()), "load", "--location", str(location), "--file", str(file), str(words)]
        subprocess.run(load, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with Oxigraph(location=location, read_only=True) as server:
            print("load", os.getloadavg(), flush=True)
            with served(server.url, folder) as (root, pid, ready_s):
                print(
                    f"no index: ready after {ready_s:.1f} s, {cpu_s(pid):.1f} s of processor time, {peak_mb(pid)} MB",
                    flush=True,
                )
            with served(server.url, folder) as (root, pid, ready_s):
                print(
                    f"with index: ready after {ready_s:.1f} s, {cpu_s(pid):.1f} s of processor time, {peak_mb(pid)} MB",
                    flush=True,
                )
                found = [ask(root, pid, server.url, q) for q in questions]
                print(f"after questions: {peak_mb(pid)} MB, load {os.getloadavg()}")
    for name in ("s", "cpu_s"):
        times = [f[name] for f in found]
        print(f"{name}: p50 {percentile(times, 0.5):.2f}, p95 {percentile(times, 0.95):.2f}, most {max(times):.2f}")
    calls = [f["calls"] for f in found if f["calls"] is not None]
    print(
        f"calls: mean {statistics.fmean(calls):.1f}, most {max(calls)}; right {sum(f['right'] for f in found)} of {len(found)}"
    )
    if options.output:
        options.output.write_text("\n".join(json.dumps(f) for f in found), encoding="utf-8")


if __name__ == "__main__":
    main()
