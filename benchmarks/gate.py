#!/usr/bin/env python3
"""Fit and measure the gate: how likely a chosen query is wrong, on graphs that neither ranking nor gate was fitted on.

    gate.py collect GRAPHS -o gate.jsonl [--every N] [--part I/N]     run the engine; note traits, answers and what is right
    gate.py fit gate.jsonl… lacking.jsonl -o proxy/nl/models/gate.json      fit, and print the figures, out of fold
    gate.py table GRAPHS gate.jsonl… [--fold N] [--no-feedback]       correct nothing, everything, or what the gate says

GRAPHS as for fit_ranking.py. Folds are of whole graphs, and nested: in each, the ranking's weights are fitted on the others,
the choices on the graphs left out are labelled right or wrong, and from these the gate is fitted, again by folds of graphs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A script's own folder comes first on the path, and this one holds a gate.py: the package must win.
sys.path[0] = str(Path(__file__).resolve().parents[1])
# ruff: noqa: E402

from proxy.nl.engine import QuestionEngine
from proxy.nl.enumerate import Candidate
from proxy.nl.evidence import LACKING, Seen, evidence
from proxy.nl.gate import Gate
from proxy.nl.requirements import Requirements
from proxy.pipeline.contest import Contest, Switches
from proxy.pipeline.correction import correct
from proxy.query.operation import Question
from proxy.training.linear import softmax_fit

FOLDS = 5
LACKING_ID = "-lacking"
"""How the ids end that lacking.py gives."""
KEPT = 40
"""Candidates of a question that are noted: a ranking of other weights chooses among them."""


def collect(args: argparse.Namespace) -> None:
    from benchmarks.questions import Gold, build, load, run
    from proxy.nl.evidence import traits
    from proxy.nl.onnx import OnnxEncoder
    from proxy.query.model import ParsedQuery
    from proxy.query.operation import Question
    from proxy.query.parse import parse
    from proxy.validation.check import check

    encoder = OnnxEncoder(threads=args.threads)
    part, parts = (int(x) for x in args.part.split("/"))
    folders = [p.parent for p in sorted(args.bench.glob("*/graph.nt.gz")) if p.stat().st_size <= args.most_bytes]
    with args.output.open("w") as out:
        for folder in folders[part::parts]:
            store, records = load(folder)
            engine = build(store, encoder)
            for record in records[args.first :: args.every]:
                gold = Gold(record, store)
                if not gold.forms:
                    continue
                proposal = engine.propose(Question(record["question"]))
                rows = []
                cache: dict[str, tuple[bool, bool, Seen | None]] = {}
                for c in proposal.candidates[:KEPT]:
                    if c.sparql not in cache:
                        answer = run(store, c.sparql)
                        right = gold.is_right(answer)
                        seen = Seen.of(None if answer is None else answer[1])
                        cache[c.sparql] = right, right or gold.is_projection(answer), seen
                    right, near, seen = cache[c.sparql]
                    parsed = parse(c.sparql)
                    found = check(parsed, engine.schema.index) if isinstance(parsed, ParsedQuery) else ()
                    counted = Counter(str(f.severity) for f in found)
                    known = traits(record["question"], c.plan, c.words, c.features, counted)
                    rows.append(
                        {
                            "x": {k: round(v, 4) for k, v in c.features.items() if v},
                            "t": {k: round(v, 4) for k, v in known.items() if v},
                            "right": right,
                            "near": near,
                            "seen": None if seen is None else [seen.rows, seen.columns, seen.is_nothing, seen.signature],
                            "ask": c.query.is_ask,
                        }
                    )
                kept = {"kg": folder.name, "id": gold.id, "question": record["question"], "n": len(proposal.candidates)}
                out.write(json.dumps(kept | {"candidates": rows}) + "\n")
            out.flush()
            print(folder.name, len(records[args.first :: args.every]), flush=True)


Matrix = NDArray[np.float64]


@dataclass(slots=True)
class Case:
    """A candidate that would be run: what the gate sees of it, with execution and without, and whether it is wrong."""

    kg: str
    question: int
    is_chosen: bool
    is_wrong: bool
    executed: dict[str, float]
    unexecuted: dict[str, float]
    is_lacking: bool = False
    """Whether the question asks for what the graph does not have (lacking.py)."""


def cases(records: list[dict[str, Any]], *, execute: int, l2: float) -> list[Case]:
    """Choose for every question by a ranking that was fitted on other graphs, as the pipeline does, and note what is run."""
    _, groups = _groups(records)
    sd = np.maximum(np.concatenate([x for x, _ in groups]).std(axis=0), 0.02)
    folds = [fold_of(r["kg"]) for r in records]
    out: list[Case] = []
    for fold in range(FOLDS):
        train = [(x / sd, y) for (x, y), f in zip(groups, folds, strict=True) if f != fold and y.any() and not y.all()]
        weights = _fitted(train, l2=l2) / sd
        for n, record in enumerate(records):
            if folds[n] == fold:
                out += _run(n, record, groups[n][0] @ weights, execute)
    return out


def _fitted(groups: list[tuple[Matrix, NDArray[np.bool_]]], *, l2: float) -> Matrix:
    x, y = np.concatenate([x for x, _ in groups]), np.concatenate([y for _, y in groups])
    return softmax_fit(x, y, [len(y) for _, y in groups], start=np.zeros(x.shape[1]), l2=l2, steps=400)


def ranking(records: list[dict[str, Any]], *, l2: float) -> dict[str, float]:
    """Weights of a ranking that is fitted on all *records*."""
    names, groups = _groups(records)
    sd = np.maximum(np.concatenate([x for x, _ in groups]).std(axis=0), 0.02)
    weights = _fitted([(x / sd, y) for x, y in groups if y.any() and not y.all()], l2=l2) / sd
    return dict(zip(names, weights.tolist(), strict=True))


def _groups(records: list[dict[str, Any]]) -> tuple[list[str], list[tuple[Matrix, NDArray[np.bool_]]]]:
    """Names of the features, and for each question its candidates' features and which of them are right."""
    names = sorted({k for r in records for c in r["candidates"] for k in c["x"]})
    at = {k: i for i, k in enumerate(names)}
    groups: list[tuple[Matrix, NDArray[np.bool_]]] = []
    for r in records:
        x = np.zeros((len(r["candidates"]), len(names)))
        for i, c in enumerate(r["candidates"]):
            for k, v in c["x"].items():
                x[i, at[k]] = v
        groups.append((x, np.array([c["right"] for c in r["candidates"]])))
    return names, groups


def _run(n: int, record: dict[str, Any], scores: Matrix, execute: int) -> list[Case]:
    order = np.argsort(-scores, kind="stable")
    ranked = [record["candidates"][i] for i in order]
    ordered = scores[order].tolist()
    run = [i for i, c in enumerate(ranked[: 3 * execute]) if c["ask"] or not c["t"].get("proved")][:execute]
    if not run:
        return []
    seen: list[Seen | None] = [None] * len(ranked)
    for i in run:
        seen[i] = Seen(*ranked[i]["seen"]) if ranked[i]["seen"] is not None else None

    def adjusted(i: int) -> float:
        mine = seen[i]
        if mine is None:
            return ordered[i] - 4.5
        agreeing = sum(1 for j in run if j != i and (other := seen[j]) is not None and other.signature == mine.signature)
        return ordered[i] - 1.5 if mine.is_nothing else ordered[i] + 0.3 * agreeing

    chosen = max(run, key=adjusted)
    out = []
    for i in run:
        known = ranked[i]["t"]
        out.append(
            Case(
                record["kg"], n, i == chosen, not ranked[i]["right"],
                evidence(known, ordered, i, seen), evidence(known, ordered, i, seen, is_executed=False),
                record["id"].endswith(LACKING_ID),
            )
        )  # fmt: skip
    return out


def fold_of(kg: str) -> int:
    return zlib.crc32(kg.encode()) % FOLDS


def logistic(found: list[dict[str, float]], wrong: NDArray[np.bool_], *, l2: float) -> tuple[dict[str, float], float]:
    """Weights of the raw values, and the bias: standardised, L2, by Newton's method."""
    names = sorted({k for f in found for k in f})
    x = np.array([[f.get(k, 0.0) for k in names] for f in found])
    mean, sd = x.mean(axis=0), x.std(axis=0)
    used = sd > 1e-9
    z = np.column_stack([(x[:, used] - mean[used]) / sd[used], np.ones(len(x))])
    penalty = np.full(z.shape[1], l2)
    penalty[-1] = 0.0
    w, y = np.zeros(z.shape[1]), wrong.astype(float)
    for _ in range(30):
        p = 1 / (1 + np.exp(-z @ w))
        hessian = (z * (p * (1 - p))[:, None]).T @ z / len(y) + np.diag(penalty)
        w -= np.linalg.solve(hessian, z.T @ (p - y) / len(y) + penalty * w)
    raw = w[:-1] / sd[used]
    kept = [n for n, u in zip(names, used, strict=True) if u]
    return dict(zip(kept, raw.tolist(), strict=True)), float(w[-1] - raw @ mean[used])


def auc(risk: Matrix, wrong: NDArray[np.bool_]) -> float:
    """Probability that a wrong one has a greater risk than a right one; ties count half."""
    right, bad = np.sort(risk[~wrong]), risk[wrong]
    below, upto = np.searchsorted(right, bad, "left"), np.searchsorted(right, bad, "right")
    return float(((below + upto) / 2).mean() / len(right))


def figures(risk: Matrix, wrong: NDArray[np.bool_]) -> dict[str, float]:
    """What the gate is worth: AUC, calibration error in ten bins, false positives where 80 % of the wrong ones are found."""
    threshold = np.sort(risk[wrong])[int(0.2 * wrong.sum())]
    bins = np.clip((risk * 10).astype(int), 0, 9)
    error = sum(abs(wrong[bins == b].mean() - risk[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins))
    low = risk < 0.5
    return {
        "auc": auc(risk, wrong),
        "ece": float(error),
        "fpr_at_recall_80": float((risk[~wrong] >= threshold).mean()),
        "share_below_half": float(low.mean()),
        "right_below_half": float(1 - wrong[low].mean()),
    }


def fit(args: argparse.Namespace) -> None:
    records = [json.loads(line) for path in args.collected for line in Path(path).read_text().splitlines()]
    left_out = set(args.without.read_text().split()) if args.without else set()
    records = [r for r in records if r["candidates"] and r["kg"] not in left_out]
    found = cases(records, execute=args.execute, l2=args.ranking_l2)
    wrong = np.array([c.is_wrong for c in found])
    folds = np.array([fold_of(c.kg) for c in found])
    chosen = np.array([c.is_chosen for c in found])
    graphs = len({c.kg for c in found})
    print(f"{chosen.sum()} questions, {graphs} graphs; right {1 - wrong[chosen].mean():.3f}")
    document: dict[str, Any] = {
        "note": "Fitted by benchmarks/gate.py on the engine's choices for questions about many graphs (docs/questions.md).",
        "questions": int(chosen.sum()), "graphs": graphs,
    }  # fmt: skip
    for name in ("executed", "unexecuted"):
        known = [getattr(c, name) for c in found]
        risk = np.zeros(len(found))
        for fold in range(FOLDS):
            train = np.flatnonzero(folds != fold)
            weights, bias = logistic([known[i] for i in train], wrong[train], l2=args.l2)
            gate = Gate(weights, bias)
            for i in np.flatnonzero(folds == fold):
                risk[i] = gate.risk(known[i])
        result = {k: round(v, 3) for k, v in figures(risk[chosen], wrong[chosen]).items()}
        print(name, result)
        for low in np.arange(0, 1, 0.1):
            held = chosen & (risk >= low) & (risk < low + 0.1)
            if held.any():
                print(f"  {low:.1f}  {held.sum():5}  stated {risk[held].mean():.2f}  wrong {wrong[held].mean():.2f}")
        weights, bias = logistic(known, wrong, l2=args.l2)
        document[name] = {
            "out_of_fold": result, "bias": round(bias, 4), "weights": {k: round(v, 4) for k, v in weights.items()},
        }  # fmt: skip
    document["lacking"] = _lacking([c for c in found if c.is_chosen], l2=args.lacking_l2)
    if args.output:
        args.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _lacking(chosen: list[Case], *, l2: float) -> dict[str, Any]:
    """The model of what graphs lack, from the *chosen* queries; prints, out of fold, what each threshold refuses and loses."""
    known = [{k: v for k, v in c.unexecuted.items() if k in LACKING} for c in chosen]
    lacks, right = np.array([c.is_lacking for c in chosen]), np.array([not c.is_wrong for c in chosen])
    folds = np.array([fold_of(c.kg) for c in chosen])
    probability = np.zeros(len(chosen))
    for fold in range(FOLDS):
        train = np.flatnonzero(folds != fold)
        gate = Gate(*logistic([known[i] for i in train], lacks[train], l2=l2))
        for i in np.flatnonzero(folds == fold):
            probability[i] = gate.risk(known[i])
    area = auc(probability, lacks)
    print(f"lacking: {lacks.sum()} of {len(chosen)} questions, AUC {area:.3f}")
    for threshold in np.arange(0.3, 1.0, 0.1):
        above = probability > threshold
        refused, lost = above[lacks].mean(), above[right].sum() / (~lacks).sum()
        print(f"  {threshold:.1f}  refused {refused:.3f}  points of EX lost {lost:.3f}")
    weights, bias = logistic(known, lacks, l2=l2)
    return {
        "out_of_fold": {"auc": round(area, 3)}, "bias": round(bias, 4), "weights": {k: round(v, 4) for k, v in weights.items()},
    }  # fmt: skip


@dataclass(slots=True)
class Tried:
    """One question, corrected whatever its risk. steps: of each correction its risk, whether it was accepted, whether right."""

    is_right: bool
    risk: float
    made_s: float
    corrected_s: float
    steps: list[tuple[float, bool, bool]]

    def at(self, threshold: float) -> tuple[bool, bool]:
        """Whether it is right, and was corrected, where the gate fires from *threshold* on."""
        right, risk = self.is_right, self.risk
        if risk < threshold:
            return right, False
        for step_risk, accepted, step_right in self.steps:
            if accepted:
                right, risk = step_right, step_risk
            if risk < threshold:
                break
        return right, True

    @property
    def blindly(self) -> bool:
        """Whether the last correction is right, had it been taken without asking the gate."""
        return self.steps[-1][2] if self.steps else self.is_right


def table(args: argparse.Namespace) -> None:
    """Generator alone, everything corrected, and gated, on graphs that neither ranking nor gate has seen."""
    from benchmarks.questions import Gold, build, load, run
    from proxy.backends.embedded import EmbeddedBackend
    from proxy.nl.gate import Gates
    from proxy.nl.onnx import OnnxEncoder
    from proxy.nl.ranker import Ranker

    records = [json.loads(line) for path in args.collected for line in Path(path).read_text().splitlines()]
    records = [r for r in records if r["candidates"] and fold_of(r["kg"]) != args.fold]
    found = cases(records, execute=4, l2=args.ranking_l2)
    wrong = np.array([c.is_wrong for c in found])
    gates = Gates(*(Gate(*logistic([getattr(c, n) for c in found], wrong, l2=args.l2)) for n in ("executed", "unexecuted")))
    ranker = Ranker(ranking(records, l2=args.ranking_l2))
    encoder = OnnxEncoder(threads=1)
    folders = [p.parent for p in sorted(args.bench.glob("*/graph.nt.gz")) if p.stat().st_size <= args.most_bytes]
    switches = Switches(execution_feedback=not args.no_feedback)
    tried: list[Tried] = []
    for folder in [f for f in folders if fold_of(f.name) == args.fold][: args.graphs]:
        store, questions = load(folder)
        engine = build(store, encoder)
        engine.ranker, engine.gates = ranker, gates
        backend = EmbeddedBackend(store)
        for record in questions[args.first :: args.every]:
            gold = Gold(record, store)
            if gold.forms:

                def is_right(query: str, gold: Gold = gold, store: Any = store) -> bool:
                    return gold.is_right(run(store, query))

                tried.append(asyncio.run(_tried(record["question"], engine, backend, switches, is_right)))
        print(folder.name, len(tried), flush=True)
        if args.output:
            args.output.write_text(json.dumps([asdict(t) for t in tried]))
    _print_table(tried)


async def _tried(text: str, engine: QuestionEngine, backend: Any, switches: Switches, is_right: Callable[[str], bool]) -> Tried:
    started = time.perf_counter()
    question = Question(text)
    proposal = engine.propose(question)
    contest = Contest(question, engine.schema.index, backend, engine.gates, 10_000, switches)
    await contest.enter(proposal.candidates, wanted=4, timeout_s=5.0)
    first = contest.best()
    if first is None:
        return Tried(False, 1.0, time.perf_counter() - started, 0.0, [])
    risk = contest.risk(first)
    made = time.perf_counter()

    async def revise(requirements: Requirements) -> list[Candidate]:
        return engine.revise(proposal.understanding, requirements)

    done = await correct(
        contest, first, risk, proposal.understanding, engine.schema, revise,
        above=0.0, budget=3, timeout_s=5.0, told=lambda stage, found: None,
    )  # fmt: skip
    corrected = time.perf_counter()
    steps = [(s["risk"], s["accepted"], is_right(s["query"])) for s in done.steps if s["query"] is not None]
    return Tried(is_right(first.candidate.sparql), risk, made - started, corrected - made, steps)


def _print_table(tried: list[Tried]) -> None:
    n = len(tried)
    wrong = np.array([not t.is_right for t in tried])
    made, corrected = sum(t.made_s for t in tried), sum(t.corrected_s for t in tried)
    print(f"\n{n} questions; AUC {auc(np.array([t.risk for t in tried]), wrong):.3f}\n")
    heads = ["", "right", "triggered", "recall", "FPR", "time", "triggered: before → after", "wrong: right after"]
    print(f"| {' | '.join([*heads, 'right: right after'])} |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |")
    print(f"| generator alone | {1 - wrong.mean():.3f} | | | | {made / n:.2f} s | | | |")
    blind = np.array([t.blindly for t in tried])
    cells = f"{blind[wrong].mean():.3f} | {blind[~wrong].mean():.3f} |"
    print(f"| everything, unasked | {blind.mean():.3f} | 1 | 1 | 1 | {(made + corrected) / n:.2f} s | | {cells}")
    for name, threshold in [("everything, must outrank", 0.0)] + [(f"gated from {t}", t) for t in (0.25, 0.5, 0.75)]:
        after = np.array([t.at(threshold)[0] for t in tried])
        hit = np.array([t.at(threshold)[1] for t in tried])
        seconds = made + sum(t.corrected_s for t, h in zip(tried, hit, strict=True) if h)
        before_after = f"{1 - wrong[hit].mean():.3f} → {after[hit].mean():.3f}" if hit.any() else ""
        print(
            f"| {name} | {after.mean():.3f} | {hit.mean():.3f} | {hit[wrong].mean():.3f} | {hit[~wrong].mean():.3f} "
            f"| {seconds / n:.2f} s | {before_after} | {after[wrong].mean():.3f} | {after[~wrong].mean():.3f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    c = commands.add_parser("collect")
    c.add_argument("bench", type=Path)
    c.add_argument("-o", "--output", type=Path, required=True)
    c.add_argument("--every", type=int, default=2)
    c.add_argument("--first", type=int, default=0)
    c.add_argument("--part", default="0/1")
    c.add_argument("--threads", type=int, default=1)
    c.add_argument("--most-bytes", type=int, default=100_000, help="of a packed graph; larger ones are left out")
    c.set_defaults(run=collect)
    f = commands.add_parser("fit")
    f.add_argument("collected", nargs="+")
    f.add_argument("-o", "--output", type=Path)
    f.add_argument("--l2", type=float, default=0.01)
    f.add_argument("--lacking-l2", type=float, default=0.003)
    f.add_argument("--ranking-l2", type=float, default=0.003)
    f.add_argument("--without", type=Path, help="file with the names of graphs to leave out")
    f.add_argument("--execute", type=int, default=4)
    f.set_defaults(run=fit)
    t = commands.add_parser("table")
    t.add_argument("bench", type=Path)
    t.add_argument("collected", nargs="+")
    t.add_argument("--fold", type=int, default=0, help="the graphs that are held out")
    t.add_argument("--every", type=int, default=5)
    t.add_argument("--first", type=int, default=2)
    t.add_argument("--graphs", type=int, default=1000, help="held-out graphs at most")
    t.add_argument("--l2", type=float, default=0.01)
    t.add_argument("--ranking-l2", type=float, default=0.003)
    t.add_argument("--most-bytes", type=int, default=100_000)
    t.add_argument("-o", "--output", type=Path, help="what came of each question, as JSON")
    t.add_argument("--no-feedback", action="store_true", help="gate and corrector do not see what queries bring")
    t.set_defaults(run=table)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
