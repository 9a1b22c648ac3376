#!/usr/bin/env python3
"""Ask what graphs do not have, and what they have: how much of the first is refused, and of the second not.

    unanswerable.py [BENCH] [--every N] [-o out.json]

benchmarks/data/unanswerable.json holds questions by graph: "demo" is the demo graph, every other name a folder of BENCH
(graph.nt.gz, ontology.ttl, pairs.jsonl), left out without BENCH. Each graph is served by ``sparlance serve`` with its
defaults and asked over HTTP. *Refused* is a 422, *empty* an answer without solutions, which says the same less plainly. The
answerable questions are those of tests/nl/demo_questions.json, and every Nth pair of the same folders.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)
# ruff: noqa: E402

from proxy.demo.coast import graph, ontology

READY_S = 60.0


@contextmanager
def served(files: Sequence[Path]) -> Iterator[str]:
    """A server over *files*; its root URL once it can answer questions."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    loads = [x for f in files for x in ("--load", str(f))]
    command = [sys.executable, "-m", "proxy", "serve", "--port", str(port), *loads]
    environment = os.environ | {"SPARLANCE_INDEX_DIRECTORY": ""}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    root = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + READY_S
        while True:
            try:
                urllib.request.urlopen(f"{root}/-/ready", timeout=2).close()
                break
            except (urllib.error.URLError, OSError):
                if time.monotonic() > until or process.poll() is not None:
                    raise
                time.sleep(0.2)
        yield root
    finally:
        process.terminate()
        process.wait(20)


def ask(root: str, question: str) -> tuple[str, float | None, str]:
    """(refused, empty or answered; the stated risk; the query)"""
    url = f"{root}/sparql?{urllib.parse.urlencode({'nl': question})}"
    request = urllib.request.Request(url, headers={"Accept": "application/sparql-results+json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            risk = answer.headers.get("Sparlance-Risk")
            query = urllib.parse.unquote(answer.headers.get("Sparlance-Query") or "")
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        return ("refused" if error.code == 422 else f"error {error.code}"), None, ""
    rows = found.get("results", {}).get("bindings", [True])
    return ("answered" if rows else "empty"), None if risk is None else float(risk), query


def answerable(name: str, bench: Path | None, every: int) -> list[str]:
    if name == "demo":
        return [q["question"] for q in json.loads((ROOT / "tests/nl/demo_questions.json").read_text(encoding="utf-8"))]
    assert bench is not None
    lines = (bench / name / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["question"] for line in lines[::every]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", type=Path, nargs="?")
    parser.add_argument("--every", type=int, default=4)
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    by_graph = json.loads((Path(__file__).parent / "data" / "unanswerable.json").read_text(encoding="utf-8"))
    totals: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}
    records = []
    for name, questions in by_graph.items():
        if name != "demo" and args.bench is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / "demo.ttl"]
            if name == "demo":
                files[0].write_text(ontology() + graph(), encoding="utf-8")
            else:
                files = [f for n in ("graph.nt.gz", "ontology.ttl") if (f := args.bench / name / n).exists()]
            with served(files) as root:
                for has_answer, asked in ((False, questions), (True, answerable(name, args.bench, args.every))):
                    for question in asked:
                        outcome, risk, query = ask(root, question)
                        totals[has_answer][outcome] += 1
                        records.append(
                            {"graph": name, "question": question, "answerable": has_answer, "outcome": outcome, "risk": risk,
                             "query": query}
                        )  # fmt: skip
        here = Counter((r["answerable"], r["outcome"]) for r in records if r["graph"] == name)
        print(name, {f"{'has' if a else 'lacks'}: {o}": n for (a, o), n in sorted(here.items())}, flush=True)
    for has_answer, found in totals.items():
        n = sum(found.values())
        shares = ", ".join(f"{o} {c} ({c / n:.0%})" for o, c in found.most_common())
        print(f"{'answerable' if has_answer else 'not in the graph'}: {n} questions: {shares}")
    if args.output:
        args.output.write_text("\n".join(json.dumps(r) for r in records), encoding="utf-8")


if __name__ == "__main__":
    main()
