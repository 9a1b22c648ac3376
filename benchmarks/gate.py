#!/usr/bin/env python3
"""Fit and measure the gate: how likely a chosen query is wrong, on graphs that neither ranking nor gate was fitted on.

    gate.py collect GRAPHS -o gate.jsonl [--every N] [--part I/N]     run the engine; note traits, answers and what is right
    gate.py fit gate.jsonl… -o proxy/nl/models/gate.json              fit, and print the figures, out of fold

GRAPHS as for fit_ranking.py. Folds are of whole graphs, and nested: in each, the ranking's weights are fitted on the others,
the choices on the graphs left out are labelled right or wrong, and from these the gate is fitted, again by folds of graphs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

# A script's own folder comes first on the path, and this one holds a gate.py: the package must win.
sys.path[0] = str(Path(__file__).resolve().parents[1])

KEPT = 40
"""Candidates of a question that are noted: a ranking of other weights chooses among them."""


def collect(args: argparse.Namespace) -> None:
    from benchmarks.questions import Gold, build, load, run
    from proxy.nl.evidence import Seen, traits
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
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
