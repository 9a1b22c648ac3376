#!/usr/bin/env python3
"""What each part of the question engine is worth, and what a user's own pairs add, on graphs that nothing was fitted on.

    ablations.py parts GRAPHS [samples.jsonl…] [--fold N] [--every N] [--graphs N] [-o runs.json]
    ablations.py pairs GRAPHS samples.jsonl… [--kg NAME …] [--sizes 0 20 50 100]

*parts* asks with everything, and with one part left out at a time (``sparlance eval --without``): ranking and gate are fitted
on the other folds of *samples.jsonl* (as of gate.py). Without any such file all GRAPHS are asked, with the ranking and the gate
of the package; that is fair for graphs that these were not fitted on. *pairs* puts pairs of the graph itself into its memory
and asks others of them, once with no template of a query in both, once drawn at random, so that paraphrases may be in both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

sys.path[0] = str(Path(__file__).resolve().parents[1])
# ruff: noqa: E402

from benchmarks.gate import fitted, fold_of
from benchmarks.questions import load
from proxy.ablation import leave_out
from proxy.backends.embedded import EmbeddedBackend
from proxy.config import Config
from proxy.evaluating import evaluate
from proxy.evaluation.parts import Part
from proxy.evaluation.questions import GoldQuestion, from_records
from proxy.evaluation.report import Outcome, compare, percentile
from proxy.nl.engine import Proposal, QuestionEngine, Tell
from proxy.nl.gate import Gates, shipped_gates
from proxy.nl.memory import Confirmed, Memory
from proxy.nl.onnx import OnnxEncoder
from proxy.nl.ranker import Ranker, shipped_ranker
from proxy.pairs import template
from proxy.pipeline.contest import ALL_ON
from proxy.pipeline.dataset import Dataset
from proxy.pipeline.distil import distil
from proxy.pipeline.memory import Feedback, MemoryKeeper
from proxy.query.operation import Question

SEED = 5


class Once(QuestionEngine):
    """Enumerates a question once, however often it is asked; what memory says is worked out anew."""

    def propose(self, question: Question, *, told: Tell = lambda stage, value: None, memory: Memory | None = None) -> Proposal:
        kept: dict[str, Proposal] = self.__dict__.setdefault("kept", {})
        if question.text not in kept:
            kept[question.text] = super().propose(question)
        first = kept[question.text]
        candidates = [replace(c, features=dict(c.features)) for c in first.candidates]
        if memory is not None:
            candidates = memory.favour(first.understanding.text, candidates, self._encoder)
        account = first.account | {"timings_ms": dict(first.account["timings_ms"])}
        return Proposal(candidates, account, first.understanding)


async def opened(folder: Path, encoder: OnnxEncoder, ranker: Ranker, gates: Gates) -> tuple[Dataset, list[GoldQuestion]]:
    store, records = load(folder)
    config = Config()
    backend = EmbeddedBackend(store)
    distilled = await distil(backend, config.index)
    config = msgspec.structs.replace(config, nl=msgspec.structs.replace(config.nl, memory=""))
    dataset = Dataset("default", backend, config, index=distilled.index, values=distilled.values)
    dataset.engine = Once(distilled.index, distilled.values, encoder, config.nl, ranker)
    dataset.engine.gates = gates
    return dataset, from_records(records)


def parts(args: argparse.Namespace) -> None:
    ranker, gates = fitted(args.collected, fold=args.fold) if args.collected else (shipped_ranker(), shipped_gates())
    encoder = OnnxEncoder(threads=1)
    folders = [p.parent for p in sorted(args.bench.glob("*/graph.nt.gz")) if p.stat().st_size <= args.most_bytes]
    runs: dict[str, list[Outcome]] = {}

    async def one(folder: Path) -> None:
        dataset, questions = await opened(folder, encoder, ranker, gates)
        everything = dataset.engine
        for part in (None, *Part):
            dataset.engine = everything
            switches = leave_out([part] if part is not None else [], dataset)
            assert dataset.engine is not None
            dataset.engine.gates = gates
            found = await evaluate(questions[args.first :: args.every], dataset, switches=replace(switches, memory=False))
            name = "all" if part is None else str(part)
            runs.setdefault(name, []).extend(replace(o, id=f"{folder.name}/{o.id}") for o in found)
        await dataset.aclose()

    for folder in [f for f in folders if not args.collected or fold_of(f.name) == args.fold][: args.graphs]:
        asyncio.run(one(folder))
        print(folder.name, len(runs["all"]), flush=True)
        if args.output:
            args.output.write_text(json.dumps({k: [o.as_json() for o in v] for k, v in runs.items()}))
    print("| without | strict | columns | set F1 | difference, strict (95 %) | refused | right if given | calls | p50, p95 |")
    print("| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: |")
    for name, run in runs.items():
        difference = next((d for d in compare(runs["all"], run) if d.metric == "strict"), None)
        text = (
            ""
            if difference is None or name == "all"
            else f"{difference.mean:+.3f} ({difference.low:+.3f} to {difference.high:+.3f})"
        )
        given = [o for o in run if o.risk is not None]
        times = [o.milliseconds / 1000 for o in run]
        cells = [
            f"{statistics.fmean(o.strict for o in run):.3f}", f"{statistics.fmean(o.columns for o in run):.3f}",
            f"{statistics.fmean(o.f1 for o in run):.3f}", text, str(len(run) - len(given)),
            f"{statistics.fmean(o.strict for o in given):.3f}", f"{statistics.fmean(o.calls for o in run):.1f}",
            f"{percentile(times, 0.5):.2f} s, {percentile(times, 0.95):.2f} s",
        ]  # fmt: skip
        print(f"| {name} | {' | '.join(cells)} |")


def pairs(args: argparse.Namespace) -> None:
    ranker, gates = fitted(args.collected, without=args.kg, fold=None)
    encoder = OnnxEncoder(threads=1)
    scores: dict[tuple[str, int], list[float]] = {}

    async def one(folder: Path) -> None:
        dataset, questions = await opened(folder, encoder, ranker, gates)
        shuffled = random.Random(SEED)
        for kind in ("no template in both", "at random"):
            groups: dict[str, list[GoldQuestion]] = {}
            for q in questions:
                groups.setdefault(template(q.query) if kind == "no template in both" else q.id, []).append(q)
            names = sorted(groups)
            shuffled.shuffle(names)
            ordered = [q for name in names for q in groups[name]]
            tested, own = ordered[: args.tested], ordered[args.tested :]
            own = [q for q in own if q.id not in {t.id for t in tested}]
            if kind == "no template in both":
                own = [q for q in own if template(q.query) not in {template(t.query) for t in tested}]
            shuffled.shuffle(own)
            for size in args.sizes:
                if size > len(own):
                    continue
                with tempfile.TemporaryDirectory() as scratch:
                    nl = msgspec.structs.replace(dataset.settings.nl, memory=scratch if size else "")
                    asked = Dataset("default", dataset.backend, msgspec.structs.replace(dataset.settings, nl=nl))
                    asked.index, asked.values, asked.engine = dataset.index, dataset.values, dataset.engine
                    if size:
                        keeper: Any = asked.memory
                        assert isinstance(keeper, MemoryKeeper)
                        keeper.add(*(Feedback(Confirmed(q.text, q.query)) for q in own[:size]))
                    found = await evaluate(tested, asked, switches=ALL_ON)
                    scores.setdefault((kind, size), []).extend(o.strict for o in found)
                    print(folder.name, kind, size, f"{statistics.fmean(o.strict for o in found):.3f}", flush=True)
        await dataset.aclose()

    for name in args.kg:
        asyncio.run(one(args.bench / name))
    print("| pairs | questions | kind | strict |\n| ---: | ---: | --- | ---: |")
    for (kind, size), found in scores.items():
        print(f"| {size} | {len(found)} | {kind} | {statistics.fmean(found):.3f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    p = commands.add_parser("parts")
    p.add_argument("bench", type=Path)
    p.add_argument("collected", nargs="*", type=Path)
    p.add_argument("--fold", type=int, default=1)
    p.add_argument("--every", type=int, default=6)
    p.add_argument("--first", type=int, default=3)
    p.add_argument("--graphs", type=int, default=1000)
    p.add_argument("--most-bytes", type=int, default=20_000)
    p.add_argument("-o", "--output", type=Path)
    p.set_defaults(run=parts)
    q = commands.add_parser("pairs")
    q.add_argument("bench", type=Path)
    q.add_argument("collected", nargs="+", type=Path)
    q.add_argument("--kg", nargs="+", default=["college_1", "hr_1", "soccer_2", "allergy_1", "dorm_1", "driving_school"])
    q.add_argument("--sizes", nargs="+", type=int, default=[0, 20, 50])
    q.add_argument("--tested", type=int, default=24)
    q.set_defaults(run=pairs)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
