#!/usr/bin/env python3
"""Ask the question engine, in this process, the questions of a folder of graphs, and say where it loses.

    questions.py BENCH [--kg NAME …] [--limit N] [--every N] [-o out.jsonl] [--show KIND]

BENCH holds one folder per graph: graph.nt.gz or graph.ttl, ontology.ttl if there is one, and questions.json (question, query,
answer, key_vars, ordered, order_groups) or pairs.jsonl (question, sparql). A question counts as right (EX) if the columns of
the answer, in some order, hold the same set of rows as the gold answer; where the gold answer fixes an order, the same rows in
that order, ties free.

Besides EX of the first candidate: EX after execution of the best few, whether a right candidate is among the best 5 and 20 or
anywhere, milliseconds, and what kind of loss it is: *enumeration* (no candidate is right), *ranking* (one is, but another was
chosen),
*projection* (the chosen one has the gold rows among its columns, or the other way round).
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import itertools
import json
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyoxigraph as ox

# A script's own folder comes first on the path, and this one holds a proxy.py: the package must win.
sys.path[0] = str(Path(__file__).resolve().parents[1])
# ruff: noqa: E402

from proxy.config import Config
from proxy.evaluation import score
from proxy.evaluation.score import matches
from proxy.nl.engine import QuestionEngine
from proxy.nl.onnx import OnnxEncoder
from proxy.nl.rank import choose
from proxy.pipeline.distil import distil
from proxy.query.operation import Question
from proxy.query.term import RDF_LANG_STRING, BlankNode, Iri, Literal, RdfTerm

ROWS_MOST = 10_000


class StoreBackend:
    """As much of a backend as distilling and executing candidates need, over a pyoxigraph store."""

    name = "pyoxigraph"

    def __init__(self, store: ox.Store) -> None:
        self.store = store

    async def select(self, query: str, *, timeout_s: float, limit_rows: int | None = None) -> Any:
        from proxy.backends.base import Solutions

        result = self.store.query(query)
        names = tuple(v.value for v in result.variables)
        return Solutions(names, [tuple(term(s[n]) for n in names) for s in result])

    async def ask(self, query: str, *, timeout_s: float) -> bool:
        return bool(self.store.query(query))


def term(found: Any) -> RdfTerm | None:
    match found:
        case ox.NamedNode():
            return Iri(found.value)
        case ox.BlankNode():
            return BlankNode(found.value)
        case ox.Literal():
            return Literal(found.value, RDF_LANG_STRING if found.language else found.datatype.value, found.language)
        case _:
            return None


def comparable(found: Any) -> score.Value:
    if found is None:
        return None
    return score.number_or_text(found.value) if isinstance(found, ox.Literal) else str(found.value)


Answer = tuple[tuple[str, ...], list[tuple[Any, ...]]]


def run(store: ox.Store, query: str) -> Answer | None:
    """Column names and rows; None if the engine refuses the query or it yields too much."""
    try:
        result = store.query(query)
        if isinstance(result, ox.QueryBoolean):
            return ("boolean",), [(bool(result),)]
        names = tuple(v.value for v in result.variables)
        rows = [tuple(comparable(s[n]) for n in names) for s in itertools.islice(result, ROWS_MOST)]
        return names, rows
    except (SyntaxError, ValueError, RuntimeError, OSError):
        return None


def columns_match(gold: Answer, got: Answer, groups: list[int] | None, *, extra: bool = False) -> bool:
    return matches(score.Answer(*gold), score.Answer(*got), groups=groups, may_have_more=extra)


class Gold:
    """The right answer of one question, in its accepted forms."""

    def __init__(self, record: dict[str, Any], store: ox.Store) -> None:
        self.question = record["question"]
        self.id = record["id"]
        text = record.get("query") or record["sparql"]
        self.query = text
        answer = run(store, text)
        self.forms: list[Answer] = []
        self.groups = record.get("order_groups") if record.get("ordered") else None
        if answer is None:
            return
        self.forms.append(answer)
        keys = record.get("key_vars")
        if keys and set(keys) <= set(answer[0]) and list(keys) != list(answer[0]):
            at = [answer[0].index(k) for k in keys]
            self.forms.append((tuple(keys), [tuple(r[i] for i in at) for r in answer[1]]))

    def is_right(self, got: Answer | None) -> bool:
        return got is not None and any(columns_match(f, got, self.groups) for f in self.forms)

    def is_projection(self, got: Answer | None) -> bool:
        if got is None:
            return False
        return any(columns_match(f, got, None, extra=True) or columns_match(got, f, None, extra=True) for f in self.forms)


def load(folder: Path) -> tuple[ox.Store, list[dict[str, Any]]]:
    store = ox.Store()
    if (folder / "graph.ttl").exists():
        store.bulk_load((folder / "graph.ttl").read_bytes(), ox.RdfFormat.TURTLE)
    else:
        store.bulk_load(gzip.open(folder / "graph.nt.gz").read(), ox.RdfFormat.N_TRIPLES)
    if (folder / "ontology.ttl").exists():
        store.bulk_load((folder / "ontology.ttl").read_bytes(), ox.RdfFormat.TURTLE)
    if (folder / "questions.json").exists():
        return store, json.loads((folder / "questions.json").read_text())
    return store, [json.loads(line) for line in (folder / "pairs.jsonl").read_text().splitlines()]


def build(store: ox.Store, encoder: OnnxEncoder) -> QuestionEngine:
    settings = Config()
    distilled = asyncio.run(distil(StoreBackend(store), settings.index))  # type: ignore[arg-type]
    return QuestionEngine(distilled.index, distilled.values, encoder, settings.nl)


def evaluate(folder: Path, encoder: OnnxEncoder, args: argparse.Namespace) -> list[dict[str, Any]]:
    started = time.perf_counter()
    store, records = load(folder)
    engine = build(store, encoder)
    ready_s = time.perf_counter() - started
    out = []
    for record in records[:: args.every][: args.limit or None]:
        gold = Gold(record, store)
        began = time.perf_counter()
        proposal = engine.propose(Question(record["question"]))
        ms = 1000 * (time.perf_counter() - began)
        answers = [run(store, c.sparql) for c in proposal.candidates[:20]]
        right = [gold.is_right(a) for a in answers]
        executed, rows = proposal.candidates[: args.execute], [None if a is None else a[1] for a in answers[: args.execute]]
        best = choose(executed, rows)
        pick = best if best is not None else 0
        anywhere = any(right)
        if not anywhere and not args.quick:
            from proxy.nl.ir import render

            anywhere = any(gold.is_right(run(store, render(c.query))) for c in proposal.candidates[20:400])
        chosen = answers[pick] if answers else None
        kind = "right" if answers and right[pick] else "none" if not answers else "enumeration" if not anywhere else "ranking"
        if kind != "right" and gold.is_projection(chosen):
            kind = "projection" if kind == "ranking" else "projection, not enumerated"
        out.append(
            {
                "kg": folder.name,
                "id": gold.id,
                "question": gold.question,
                "gold": gold.query,
                "ex": float(bool(answers) and right[pick]),
                "first": float(bool(right) and right[0]),
                "at5": float(any(right[:5])),
                "at20": float(any(right)),
                "anywhere": float(anywhere),
                "ms": ms,
                "kind": kind,
                "n": len(proposal.candidates),
                "hardness": record.get("hardness"),
                "query": proposal.candidates[pick].sparql if answers else None,
                "words": proposal.candidates[pick].words if answers else None,
                "shape": proposal.account["shape"],
                "timings": proposal.account["timings_ms"],
                "right": next((c.words for c, r in zip(proposal.candidates, right, strict=False) if r), None),
            }
        )
    print(line(folder.name, out) + f"  ready={ready_s:.1f}s", flush=True)
    return out


def line(name: str, records: list[dict[str, Any]]) -> str:
    def mean(key: str) -> float:
        return statistics.fmean(r[key] for r in records)

    ms = sorted(r["ms"] for r in records)
    kinds = Counter(r["kind"] for r in records)
    lost = " ".join(f"{k}={v}" for k, v in kinds.most_common() if k != "right")
    return (
        f"{name:30} n={len(records):4} ex={mean('ex'):.3f} first={mean('first'):.3f} "
        f"@5={mean('at5'):.3f} @20={mean('at20'):.3f} "
        f"any={mean('anywhere'):.3f} p50={ms[len(ms) // 2]:.0f}ms max={ms[-1]:.0f}ms  {lost}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", type=Path)
    parser.add_argument("--kg", nargs="*")
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--every", type=int, default=1, help="only every Nth question")
    parser.add_argument("--every-graph", type=int, default=1, help="only every Nth graph")
    parser.add_argument("--execute", type=int, default=4)
    parser.add_argument("--quick", action="store_true", help="do not look for a right candidate beyond the first 20")
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    encoder = OnnxEncoder(threads=2)
    everything: list[dict[str, Any]] = []
    folders = sorted({p.parent for name in ("graph.nt.gz", "graph.ttl") for p in args.bench.glob(f"*/{name}")})
    for folder in folders[:: args.every_graph]:
        if not args.kg or folder.name in args.kg:
            everything += evaluate(folder, encoder, args)
    print(line("ALL", everything))
    for level in ("easy", "medium", "hard", "extra"):
        if some := [r for r in everything if r["hardness"] == level]:
            print(line(f"  {level}", some))
    if args.output:
        args.output.write_text("\n".join(json.dumps(r) for r in everything))


if __name__ == "__main__":
    main()
