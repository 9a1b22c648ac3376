#!/usr/bin/env python3
"""Fit the ranking's weights and the confidence's calibration on question–query pairs over many graphs.

    fit_ranking.py collect BENCH -o features.jsonl [--every N] [--part I/N]    run the engine, note which candidates are right
    fit_ranking.py fit features.jsonl… -o proxy/nl/models/weights.json

*fit* maximises, over the questions that have a right candidate, the softmax probability of the right ones among all (linear in
the features, L2, full-batch Adam), with graphs split in five folds for an honest figure, then on everything. The calibration is
a logistic model on out-of-fold choices. What is written are two dozen numbers; no question and no graph is in them.
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A script's own folder comes first on the path, and this one holds a proxy.py: the package must win.
sys.path[0] = str(Path(__file__).resolve().parents[1])

KEPT = 100


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
                    rows.append({"x": {k: round(v, 4) for k, v in c.features.items() if v}, "right": right, "empty": empty})
                out.write(json.dumps({"kg": folder.name, "id": gold.id, "candidates": rows}) + "\n")
            out.flush()
            print(folder.name, len(records[:: args.every]), flush=True)


Matrix = NDArray[np.float64]


def softmax_fit(
    groups: list[tuple[Matrix, NDArray[np.bool_]]], start: Matrix, *, l2: float, steps: int = 400, rate: float = 0.05
) -> Matrix:
    x = np.concatenate([g[0] for g in groups])
    right = np.concatenate([g[1] for g in groups])
    bounds = np.cumsum([0, *(len(g[1]) for g in groups)])
    owner = np.repeat(np.arange(len(groups)), np.diff(bounds))
    w, m, v = start.copy(), np.zeros_like(start), np.zeros_like(start)
    for step in range(1, steps + 1):
        s = x @ w
        s -= np.maximum.reduceat(s, bounds[:-1])[owner]
        e = np.exp(s)
        p = e / np.add.reduceat(e, bounds[:-1])[owner]
        pr = e * right
        q = pr / np.maximum(np.add.reduceat(pr, bounds[:-1])[owner], 1e-12)
        gradient = x.T @ (p - q) / len(groups) + l2 * w
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        w -= rate * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    return w


def logistic_fit(x: Matrix, y: NDArray[np.float64], *, l2: float = 1e-3) -> Matrix:
    w = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ w))
        hessian = (x * (p * (1 - p))[:, None]).T @ x / len(y) + l2 * np.eye(len(w))
        w -= np.linalg.solve(hessian, x.T @ (p - y) / len(y) + l2 * w)
    return w


def fit(args: argparse.Namespace) -> None:
    records = [json.loads(line) for path in args.features for line in Path(path).read_text().splitlines()]
    left_out = set(args.without.read_text().split()) if args.without else set()
    records = [r for r in records if r["candidates"] and r["kg"] not in left_out]
    names = sorted({k for r in records for c in r["candidates"] for k in c["x"]})
    at = {k: i for i, k in enumerate(names)}
    data = []
    for r in records:
        x = np.zeros((len(r["candidates"]), len(names)))
        for i, c in enumerate(r["candidates"]):
            for k, v in c["x"].items():
                x[i, at[k]] = v
        data.append(
            (r["kg"], x, np.array([c["right"] for c in r["candidates"]]), np.array([c["empty"] for c in r["candidates"]]))
        )
    sd = np.concatenate([d[1] for d in data]).std(axis=0) + 1e-6
    sd = np.maximum(sd, 0.02)

    def solve(train: list[Any]) -> Matrix:
        groups = [(x / sd, y) for _, x, y, _ in train if y.any() and not y.all()]
        return softmax_fit(groups, np.zeros(len(names)), l2=args.l2) / sd

    def first(w: Matrix, test: list[Any]) -> list[tuple[int, float]]:
        return [(int(np.argmax(x @ w)), 0.0) for _, x, _, _ in test]

    fold = {kg: zlib.crc32(kg.encode()) % 5 for kg in {d[0] for d in data}}
    hits, hits_evidence, total = 0, 0, 0
    xs: list[list[float]] = []
    ys: list[float] = []
    for k in range(5):
        train = [d for d in data if fold[d[0]] != k]
        test = [d for d in data if fold[d[0]] == k]
        if not test or not train:
            continue
        w = solve(train)
        for _, x, y, empty in test:
            s = x @ w
            order = np.argsort(-s)
            hits += bool(y[order[0]])
            head = order[: args.execute]
            best = head[int(np.argmax(s[head] - args.empty * empty[head]))]
            hits_evidence += bool(y[best])
            total += 1
            rivals = [s[i] for i in order[:12] if i != best]
            f = dict(zip(names, x[best].tolist(), strict=True))
            row = {
                "bias": 1.0,
                "lead": min(3.0, float(s[best] - max(rivals))) if rivals else 3.0,
                "empty": float(empty[best]),
                "cosine": f.get("cosine", 0.0),
                "coverage": f.get("coverage", 0.0),
                "least": f.get("least", 0.0),
                "dropped": f.get("dropped", 0.0),
                "chosen": f.get("chosen", 0.0),
                "sketch_rank": f.get("sketch_rank", 0.0),
                "precision": f.get("precision", 0.0),
                "bridges": f.get("bridges", 0.0),
            }
            xs.append(list(row.values()))
            ys.append(float(y[best]))
            keys = list(row)
    oracle = sum(d[2].any() for d in data) / len(data)
    figures = f"first {hits / total:.3f}, with evidence {hits_evidence / total:.3f}, oracle {oracle:.3f}"
    print(f"questions {total}, graphs {len(fold)}: out of fold {figures}")
    x, y = np.array(xs), np.array(ys)
    calibration = logistic_fit(x, y)
    p = 1 / (1 + np.exp(-x @ calibration))
    ranked = np.argsort(np.argsort(p)) + 1
    n1 = y.sum()
    auc = (ranked[y == 1].sum() - n1 * (n1 + 1) / 2) / (n1 * (len(y) - n1))
    print(
        f"confidence AUC {auc:.3f}; share answered and right among them at 0.2 / 0.35 / 0.5: "
        + " ".join(f"{(p >= t).mean():.2f}/{y[p >= t].mean():.2f}" for t in (0.2, 0.35, 0.5))
    )
    w = solve(data)
    for k, v in sorted(zip(names, w.tolist(), strict=True), key=lambda kv: -abs(kv[1])):
        print(f"  {k:40} {v:8.3f}  (x sd {v * sd[at[k]]:6.3f})")
    if args.output:
        args.output.write_text(
            json.dumps(
                {
                    "note": "Fitted by benchmarks/fit_ranking.py on pairs over many graphs (docs/questions.md); numbers only.",
                    "questions": total,
                    "graphs": len(fold),
                    "out_of_fold": {"first": round(hits / total, 3), "with_evidence": round(hits_evidence / total, 3)},
                    "weights": {k: round(v, 4) for k, v in zip(names, w.tolist(), strict=True)},
                    "calibration": {k: round(v, 4) for k, v in zip(keys, calibration.tolist(), strict=True)},
                },
                indent=1,
                ensure_ascii=False,
            )
            + "\n"
        )


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
    f.add_argument("features", nargs="+")
    f.add_argument("-o", "--output", type=Path)
    f.add_argument("--l2", type=float, default=0.003)
    f.add_argument("--without", type=Path, help="file with the names of graphs to leave out")
    f.add_argument("--execute", type=int, default=4)
    f.add_argument("--empty", type=float, default=1.5)
    args = parser.parse_args()
    (collect if args.command == "collect" else fit)(args)


if __name__ == "__main__":
    main()
