"""Measure what a TTQL document costs: lines, tokens, queries, seconds, by the length of its paths.

python -m benchmarks.ttql FILE…                    describe these RDF files out of the embedded store, at depth 1 to 5
python -m benchmarks.ttql --demo                   describe the demo graph
python -m benchmarks.ttql FILE… --url ROOT_URL     out of an Oxigraph server instead, which holds the same files
python -m benchmarks.ttql FILE… --budget 2000      and how much of the document these tokens hold
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import tempfile
import time
from pathlib import Path

from proxy import backends
from proxy.backends.base import Backend
from proxy.backends.embedded import EmbeddedBackend
from proxy.config import BackendSettings, IndexSettings
from proxy.demo.coast import graph, ontology
from proxy.index.ttql_parse import parse
from proxy.index.ttql_select import entries, prune
from proxy.index.ttql_text import estimate_tokens, render
from proxy.pipeline.asking import Asker
from proxy.pipeline.distil import distil
from proxy.pipeline.harvest import HarvestSettings, harvest


async def measure(backend: Backend, options: argparse.Namespace) -> None:
    settings = IndexSettings(values_per_property=0)
    distilled = await distil(backend, settings, method="auto")
    index = distilled.index
    print(f"{index.triples} triples, {len(index.class_instances)} classes, {len(index.matrix)} cells of M")
    print("depth  edges  lines  tokens  queries  seconds  parse_ms  incomplete")
    for depth in options.depth:
        asker = Asker(backend, timeout_s=60, concurrency=options.concurrency)
        wanted = HarvestSettings(depth=depth, sample=options.sample, floor=options.floor)
        found = await harvest(asker, index, wanted)
        text = render(found.document)
        started = time.perf_counter()
        assert parse(text) == found.document
        parse_ms = (time.perf_counter() - started) * 1e3
        edges = sum(e.edge is not None for e in entries(found.document))
        print(
            f"{depth:5} {edges:6} {text.count(chr(10)):6} {estimate_tokens(text):7} {found.queries:8} {found.elapsed_s:8.2f}"
            f" {parse_ms:9.0f} {len(found.incomplete):11}",
            flush=True,
        )
        for budget in options.budget:
            started = time.perf_counter()
            small = prune(found.document, budget_tokens=budget)
            kept = sum(e.edge is not None for e in entries(small))
            spent = estimate_tokens(render(small))
            print(f"      in {spent} of {budget} tokens: {kept} edges, {time.perf_counter() - started:.2f} s")
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB with the store" * (not options.url))
    distilled.values.close()
    await backend.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--demo", action="store_true")
    parser.add_argument("--url", default="")
    parser.add_argument("--depth", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--floor", type=float, default=0.01)
    parser.add_argument("--budget", type=int, nargs="+", default=[])
    parser.add_argument("--concurrency", type=int, default=1)
    options = parser.parse_args()
    if options.url:
        asyncio.run(measure(backends.connect(BackendSettings(url=options.url)), options))
        return
    with tempfile.TemporaryDirectory() as folder:
        files = list(options.files)
        for name, text in {"coast.nt": graph(), "ontology.ttl": ontology()}.items() if options.demo else ():
            Path(folder, name).write_text(text, encoding="utf-8")
            files.append(Path(folder, name))
        backend = EmbeddedBackend.load(files)
    asyncio.run(measure(backend, options))


if __name__ == "__main__":
    main()
