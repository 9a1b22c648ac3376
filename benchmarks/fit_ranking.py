#!/usr/bin/env python3
"""Fit the ranking's weights on question–query pairs over many graphs, in parts that run at the same time.

    fit_ranking.py collect BENCH -o features.jsonl [--every N] [--part I/N]    run the engine, note which candidates are right
    fit_ranking.py fit features.jsonl… -o proxy/nl/models/weights.json

The procedure is that of ``sparlance train ranker --from-scratch`` (proxy/training), which asks one graph after another.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

# A script's own folder comes first on the path, and this one holds a proxy.py: the package must win.
sys.path[0] = str(Path(__file__).resolve().parents[1])
# ruff: noqa: E402

from proxy.training.fitting import STRENGTHS, ranking_document
from proxy.training.fitting import fit as fit_ranking
from proxy.training.samples import Option, Sample

KEPT = 40


def collect(args: argparse.Namespace) -> None:
    from benchmarks.questions import Gold, build, load, run
    from proxy.nl.ir import render
    from proxy.nl.onnx import OnnxEncoder
    from proxy.query.operation import Question

    encoder = OnnxEncoder(threads=args.threads)
    part, parts = (int(x) for x in args.part.split("/"))
    folders = sorted(p.parent for p in args.bench.glob("*/graph.nt.gz"))
    with args.output.open("w") as out:
        for number, folder in enumerate(folders):
            if (
                number % parts != part
                or (folder / "graph.nt.gz").stat().st_size > 700_000
                or (args.kg and folder.name not in args.kg)
            ):
                continue
            store, records = load(folder)
            engine = build(store, encoder)
            for record in records[:: args.every]:
                gold = Gold(record, store)
                if not gold.forms:
                    continue
                proposal = engine.propose(Question(record["question"]))
                rows = []
                cache: dict[str, tuple[bool, bool]] = {}
                for c in proposal.candidates[:KEPT]:
                    text = c.sparql or render(c.query)
                    if text not in cache:
                        answer = run(store, text)
                        empty = answer is None or not answer[1] or answer[1] == [(0.0,)]
                        cache[text] = gold.is_right(answer), empty
                    right, empty = cache[text]
                    features = {k: round(v, 4) for k, v in c.features.items() if v}
                    rows.append({"x": features, "right": right, "empty": empty, "words": c.words})
                asked = {"kg": folder.name, "id": gold.id, "question": record["question"]}
                out.write(json.dumps(asked | {"candidates": rows}) + "\n")
            out.flush()
            print(folder.name, len(records[:: args.every]), flush=True)


def samples(paths: list[Path], without: set[str]) -> list[Sample]:
    """What *collect* wrote, less the graphs in *without*."""
    records = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    return [
        Sample(
            r["kg"], r["id"], r.get("question", ""), r["id"],
            tuple(Option(c.get("words", ""), c["x"], c["right"], c["empty"]) for c in r["candidates"][:KEPT]),
        )
        for r in records
        if r["candidates"] and r["kg"] not in without
    ]  # fmt: skip


def fit(args: argparse.Namespace) -> None:
    left_out = set(args.without.read_text().split()) if args.without else set()
    fitted = fit_ranking(samples(args.features, left_out), prior=None, strengths=args.l2 or STRENGTHS)
    print(f"{fitted.questions} questions, {fitted.graphs} graphs, strength {fitted.strength:g}")
    for name, (share, low, high) in fitted.figures.items():
        print(f"{name:32} {share:.3f} ({low:.3f} to {high:.3f})")
    for k, v in sorted(fitted.weights.items(), key=lambda kv: -abs(kv[1])):
        print(f"  {k:40} {v:8.3f}")
    if args.output:
        document = ranking_document(fitted, made_by="benchmarks/fit_ranking.py")
        args.output.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    c = commands.add_parser("collect")
    c.add_argument("bench", type=Path)
    c.add_argument("-o", "--output", type=Path, required=True)
    c.add_argument("--every", type=int, default=4)
    c.add_argument("--part", default="0/1")
    c.add_argument("--kg", nargs="*")
    c.add_argument("--threads", type=int, default=1)
    f = commands.add_parser("fit")
    f.add_argument("features", nargs="+", type=Path)
    f.add_argument("-o", "--output", type=Path)
    f.add_argument("--l2", type=float, nargs="*", help="strengths of the prior to choose among")
    f.add_argument("--without", type=Path, help="file with the names of graphs to leave out")
    args = parser.parse_args()
    (collect if args.command == "collect" else fit)(args)


if __name__ == "__main__":
    main()
