"""Measure the distiller and the value index on given files, or on a generated graph.

python -m benchmarks.index FILE…                  distil these RDF files from the embedded store
python -m benchmarks.index --triples 200000        distil a generated graph: 40 classes, 120 properties, skewed
python -m benchmarks.index --triples 200000 --download     and compare with one pass over every triple
python -m benchmarks.index --triples 200000 --stores       and compare ways to look values up
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import sqlite3
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from proxy.backends.base import Backend
from proxy.backends.embedded import EmbeddedBackend
from proxy.config import IndexSettings
from proxy.index.normalise import fold, normalise
from proxy.index.trigrams import trigrams
from proxy.index.values import likeness
from proxy.pipeline.distil import Distilled, distil
from proxy.query.term import RDF_TYPE, RDFS_LABEL, XSD, Iri, Literal

EX = "http://example.org/"
WORDS = "alpha beta gamma delta north south river stone green market house valley harbour bridge island winter".split()


def generate(triples: int, *, classes: int, properties: int, multi_typed: float, seed: int = 1) -> Iterator[str]:
    """N-Triples lines: labels, references, texts, integers and dates, eight properties to a class, instances skewed."""
    rng = random.Random(seed)
    of_class = [rng.sample(range(properties), min(8, properties)) for _ in range(classes)]
    nodes, done, node = max(1, triples // 10), 0, 0
    while done < triples:
        c = min(int(rng.paretovariate(0.8)) - 1, classes - 1)
        s = f"<{EX}n{node}>"
        lines = [f"{s} <{RDF_TYPE}> <{EX}C{c}> .", f'{s} <{RDFS_LABEL}> "{rng.choice(WORDS)} {rng.choice(WORDS)} {node}"@en .']
        if rng.random() < multi_typed:
            lines.append(f"{s} <{RDF_TYPE}> <{EX}C{(c + 1) % classes}> .")
        for p in of_class[c]:
            match p % 4:
                case 0:
                    o = f"<{EX}n{rng.randrange(nodes)}>"
                case 1:
                    o = f'"{rng.choice(WORDS)} {rng.choice(WORDS)} {rng.randrange(nodes)}"'
                case 2:
                    o = f'"{rng.randrange(10_000)}"^^<{XSD}integer>'
                case _:
                    o = f'"{rng.randrange(1900, 2020)}-01-{rng.randrange(1, 29):02}"^^<{XSD}date>'
            lines.append(f"{s} <{EX}p{p}> {o} .")
        yield from lines
        done, node = done + len(lines), node + 1


class Phases:
    """Seconds spent in each phase, from the progress calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._phase, self._since = "start", time.perf_counter()

    def __call__(self, phase: str, done: int, total: int) -> None:
        now = time.perf_counter()
        self.seconds[self._phase] += now - self._since
        self._phase, self._since = phase, now


def timed(action: Callable[[], object], times: int) -> float:
    """Milliseconds for one *action*."""
    started = time.perf_counter()
    for _ in range(times):
        action()
    return (time.perf_counter() - started) / times * 1e3


def _misspell(text: str, rng: random.Random) -> str:
    """Leave one letter out."""
    i = rng.randrange(max(1, len(text)))
    return text[:i] + text[i + 1 :]


def peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def report(distilled: Distilled, phases: Phases) -> None:
    shown = distilled.summary()
    shown["classes"] = len(shown["classes"])
    print({k: v for k, v in shown.items() if k not in ("built_at", "class_predicate", "epoch")})
    print("seconds by phase:", {k: round(v, 3) for k, v in phases.seconds.items() if v >= 0.001}, "peak MB:", peak_mb())
    index, values = distilled.index, distilled.values
    sample = [e.text for p in index.properties for c in [None, *index.class_instances] for e in values.examples(c, p, 2)][:200]
    if not sample:
        return
    rng = random.Random(2)
    typos = [_misspell(t, rng) for t in sample]
    print(
        f"lookup {timed(lambda: values.lookup(normalise(rng.choice(sample))), 300):.3f} ms,",
        f"search {timed(lambda: values.search(rng.choice(typos), 10), 100):.2f} ms",
    )


async def download(backend: Backend) -> None:
    """The other way: every triple once over the wire, counted here."""
    started = time.perf_counter()
    rows = (await backend.select("SELECT ?s ?p ?o { ?s ?p ?o }", timeout_s=600)).rows
    fetched = time.perf_counter()
    classes = defaultdict(set)
    for s, p, o in rows:
        if p == Iri(RDF_TYPE) and isinstance(o, Iri):
            classes[s].add(o.value)
    kinds = {s: frozenset(c) for s, c in classes.items()}
    cells, repeats, none = Counter(), Counter(), frozenset()
    values: dict[object, dict[object, list[object]]] = defaultdict(dict)
    for s, p, o in rows:
        kind = kinds.get(s, none)
        cells[kind, p, o.datatype if isinstance(o, Literal) else kinds.get(o, none)] += 1
        repeats[s, p] += 1
        repeats[p, o] += 1
        if isinstance(o, Literal):
            for c in kind or (None,):
                values[c, p].setdefault(o, []).append(s)
    counted = time.perf_counter()
    print(f"download {fetched - started:.2f} s, count {counted - fetched:.2f} s without the value index; MB: {peak_mb()}")


def stores(distilled: Distilled) -> None:
    """Time other ways to look a text up, on the same texts."""
    index = distilled.index
    pairs = [(c, p) for c in (None, *index.class_instances) for p in index.properties]
    texts = sorted({fold(e.text) for c, p in pairs for e in distilled.values.examples(c, p, 100_000)})
    rng = random.Random(3)
    typos = [(_misspell(t, rng), n) for n, t in rng.sample(list(enumerate(texts)), 100)]
    print(len(texts), "texts")
    hits = sum(texts[n] in {fold(e.text) for e, _ in distilled.values.search(t, 96)} for t, n in typos)
    print(f"posting lists: {timed(lambda: distilled.values.search(rng.choice(typos)[0], 10), 100):.2f} ms, found {hits} of 100")
    best = [max(texts, key=lambda other, t=t: likeness(t, other)) == texts[n] for t, n in typos[:5]]
    one = timed(lambda: max(texts, key=lambda other: likeness(typos[0][0], other)), 3)
    print(f"every text in a list: {one:.2f} ms, best right {sum(best)} of 5")
    connection = sqlite3.connect(":memory:")
    connection.executescript(
        "CREATE VIRTUAL TABLE t USING fts5(x, content='', tokenize='trigram');CREATE VIRTUAL TABLE f USING fts5vocab(t, 'row');"
    )
    started = time.perf_counter()
    connection.executemany("INSERT INTO t (rowid, x) VALUES (?, ?)", ((i, f" {t} ") for i, t in enumerate(texts)))
    built = time.perf_counter() - started

    def by_fts(text: str) -> set[int]:
        wanted = sorted(trigrams(text))
        query = f"SELECT term FROM f WHERE term IN ({', '.join('?' * len(wanted))}) ORDER BY doc LIMIT 24"
        known = [row[0].replace('"', '""') for row in connection.execute(query, wanted)]
        if not known:
            return set()
        match = " OR ".join(f'"{t}"' for t in known)
        return {row[0] for row in connection.execute("SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank LIMIT 96", (match,))}

    hits = sum(n in by_fts(t) for t, n in typos)
    print(
        f"FTS5 trigram: {timed(lambda: by_fts(rng.choice(typos)[0]), 100):.2f} ms, found {hits} of 100, built in {built:.2f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--triples", type=int, default=200_000)
    parser.add_argument("--classes", type=int, default=40)
    parser.add_argument("--properties", type=int, default=120)
    parser.add_argument("--multi-typed", type=float, default=0.1, help="share of nodes with two classes")
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--download", action="store_true")
    parser.add_argument("--stores", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = options.files
        if not files:
            files = [Path(folder) / "generated.nt"]
            shape = {"classes": options.classes, "properties": options.properties, "multi_typed": options.multi_typed}
            files[0].write_text("\n".join(generate(options.triples, **shape)) + "\n")
        asyncio.run(measure(EmbeddedBackend.load(files), options))


async def measure(backend: EmbeddedBackend, options: argparse.Namespace) -> None:
    phases = Phases()
    settings = IndexSettings(concurrency=options.concurrency)
    try:
        distilled = await distil(backend, settings, progress=phases)
        phases("", 0, 0)
        report(distilled, phases)
        if options.download:
            await download(backend)
        if options.stores:
            stores(distilled)
        distilled.values.close()
    finally:
        await backend.aclose()


if __name__ == "__main__":
    main()
