#!/usr/bin/env python3
"""Correct nothing, everything, or what the gate says: on graphs that neither ranking nor gate was fitted on.

    gate.py GRAPHS samples.jsonl… [--fold N] [--no-feedback] [--every N] [--graphs N] [-o tried.json]

GRAPHS holds folders of graphs with questions; *samples.jsonl* is what ``sparlance train gate --pairs GRAPHS --keep-samples``
wrote. Ranking and gates are fitted on the samples of all folds but one, and the questions of that fold's graphs are asked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

# A script's own folder comes first on the path, and this one holds a gate.py: the package must win.
sys.path[0] = str(Path(__file__).resolve().parents[1])
# ruff: noqa: E402

from benchmarks.questions import Gold, build, load, run
from proxy.backends.embedded import EmbeddedBackend
from proxy.nl.engine import QuestionEngine
from proxy.nl.enumerate import Candidate
from proxy.nl.gate import Gates
from proxy.nl.onnx import OnnxEncoder
from proxy.nl.ranker import Ranker
from proxy.nl.requirements import Requirements
from proxy.pipeline.contest import Contest, Switches
from proxy.pipeline.correction import correct
from proxy.query.operation import Question
from proxy.training.gates import fit_gates
from proxy.training.gating import FOLDS, auc
from proxy.training.linear import fit_weights
from proxy.training.samples import Sample, read_samples
from proxy.training.samples import fold_of as fold_of_sample


def fold_of(graph: str) -> int:
    """The fold that *graph* is in."""
    return fold_of_sample(Sample(graph, "", "", "", ()), FOLDS)


def fitted(collected: Sequence[Path], *, without: Sequence[str] = (), fold: int | None) -> tuple[Ranker, Gates]:
    """Ranking and gates of the samples in *collected*, those of *fold* and of the graphs *without* left out."""
    samples = [s for s in read_samples(collected) if s.options and fold_of(s.graph) != fold and s.graph not in without]
    return Ranker(fit_weights(samples)), fit_gates(samples, prior=None).gates


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
    """Generator alone, everything corrected, and gated."""
    ranker, gates = fitted(args.collected, fold=args.fold)
    encoder = OnnxEncoder(threads=1)
    folders = [p.parent for p in sorted(args.bench.glob("*/graph.nt.gz")) if p.stat().st_size <= args.most_bytes]
    switches = Switches(execution_feedback=not args.no_feedback)
    tried: list[Tried] = []
    for folder in [f for f in folders if args.all or fold_of(f.name) == args.fold][: args.graphs]:
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
    wrong = np.array([not t.is_right for t in tried], dtype=np.bool_)
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
    parser.add_argument("bench", type=Path)
    parser.add_argument("collected", nargs="+", type=Path)
    parser.add_argument("--fold", type=int, default=0, help="the graphs that are held out")
    parser.add_argument("--all", action="store_true", help="ask over all of GRAPHS: none of them is among the samples")
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--first", type=int, default=2)
    parser.add_argument("--graphs", type=int, default=1000, help="graphs at most")
    parser.add_argument("--most-bytes", type=int, default=100_000, help="of a packed graph; larger ones are left out")
    parser.add_argument("-o", "--output", type=Path, help="what came of each question, as JSON")
    parser.add_argument("--no-feedback", action="store_true", help="gate and corrector do not see what queries bring")
    table(parser.parse_args())


if __name__ == "__main__":
    main()
