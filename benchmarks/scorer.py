#!/usr/bin/env python3
"""Does a language model help to choose? Ask questions of a folder of graphs with and without it, at several weights.

    scorer.py GRAPHS MODEL [--kg NAME …] [--limit N] [--most N]

GRAPHS holds one folder per graph (graph.nt.gz, ontology.ttl, pairs.jsonl or questions.json). Counts, over N questions a graph:
how often the first of the best eight candidates is right (its answer is the gold answer) by the ranking alone, and with the
likelihood added at each weight; how often any of the eight is. Prints processor seconds a question, too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])
# ruff: noqa: E402

import msgspec

from proxy.config import Config
from proxy.evaluating import answer_of, graph_of, read_questions
from proxy.evaluation.score import matches
from proxy.nl.lm.prefixes import PrefixCache
from proxy.nl.lm.scorer import LmScorer
from proxy.nl.lm.step import OnnxStepModel
from proxy.pipeline.judging import JUDGED
from proxy.query.operation import Question
from proxy.train import _opened

WEIGHTS = (0.25, 0.5, 1.0, 2.0, 4.0)


async def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("graphs", type=Path)
    arguments.add_argument("model", type=Path)
    arguments.add_argument("--kg", action="append")
    arguments.add_argument("--limit", type=int, default=8)
    arguments.add_argument("--seconds", type=float, default=1e9, help="stop after so many")
    given = arguments.parse_args()
    model = OnnxStepModel(given.model)
    scorer = LmScorer(model, PrefixCache(model))
    right: dict[str, list[bool]] = {}
    spent, started = 0.0, time.monotonic()
    for name in given.kg or sorted(p.name for p in given.graphs.iterdir() if p.is_dir()):
        folder = given.graphs / name
        backend = msgspec.structs.replace(Config().backend, load=tuple(graph_of(folder)))
        settings = msgspec.structs.replace(Config(), backend=backend)
        questions = read_questions(folder)
        step = max(1, len(questions) // given.limit)
        async with _opened(name, settings, {}, lambda *_: None) as dataset:
            for gold in questions[::step][: given.limit]:
                if time.monotonic() - started > given.seconds:
                    break
                wanted = await answer_of(gold.query, dataset, limit_rows=10_000)
                best = dataset.engine.propose(Question(gold.text)).candidates[:JUDGED]
                if wanted is None or not best:
                    continue
                before = time.process_time()
                values = scorer.score(gold.text, [c.words for c in best], clock=time.monotonic, deadline=float("inf"))
                spent += time.process_time() - before
                is_right = []
                for c in best:
                    got = await answer_of(c.sparql, dataset, limit_rows=10_000)
                    is_right.append(got is not None and matches(wanted, got))
                right.setdefault("any of the eight", []).append(any(is_right))
                for w in (0.0, *WEIGHTS):
                    at = max(range(len(best)), key=lambda i: best[i].score + w * values[i])
                    right.setdefault(f"weight {w:g}", []).append(is_right[at])
                right.setdefault("likelihood alone", []).append(is_right[max(range(len(best)), key=lambda i: values[i])])
        n = len(right.get("weight 0", ()))
        print(name, n, json.dumps({k: sum(v) for k, v in right.items()}), f"{spent / max(1, n):.2f} CPU s each", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
