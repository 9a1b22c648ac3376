#!/usr/bin/env python3
"""Make questions about what graphs do not have, and note what the engine would answer: all of it is wrong.

    lacking.py GRAPHS -o lacking.jsonl [--every N] [--part I/N] [--kg NAME …]

For ``gate.py fit gate.jsonl lacking.jsonl``: a gate that has only seen answerable questions does not know what to refuse. In a
question about a graph, one noun that names something of it is replaced by one that nothing in this graph is like (cosine below
0.45): "the *population* of Seal Island" becomes "the *dialect* of Seal Island". GRAPHS and the records are as gate.py's.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

# A script's own folder comes first on the path, and this one holds a gate.py: the package must win.
sys.path[0] = str(Path(__file__).resolve().parents[1])
# ruff: noqa: E402

from benchmarks.gate import KEPT, LACKING_ID
from benchmarks.questions import build, load, run
from proxy.nl.coverage import Coverage
from proxy.nl.engine import QuestionEngine
from proxy.nl.evidence import Seen, traits
from proxy.nl.linking import Linker
from proxy.nl.onnx import OnnxEncoder
from proxy.nl.words import expand, stem
from proxy.query.model import ParsedQuery
from proxy.query.operation import Question
from proxy.query.parse import parse
from proxy.validation.check import check

FAR = 0.45
NOUNS = """
blood passport antenna recipe sculpture mortgage orchestra parachute vaccine satellite diploma landlord
costume trophy helmet barcode umbrella fertiliser lawyer dialect allergy furniture pension voltage bacteria
anthem verdict ballot calorie dowry gearbox hostage curator fossil glacier ransom subtitle warranty thesis
orbit plumbing religion hairstyle refund mascot toll latitude tattoo sibling
""".split()
"""Of many subjects."""


def corrupted(question: str, linker: Linker, number: int) -> str | None:
    """*question* with a noun of the graph's replaced by one that it knows nothing like; None where it has no such noun."""
    items, mentions = linker.read(expand(question))
    nouns = {w for w, is_noun in Coverage(linker, items, mentions).words if is_noun and w in linker.schema_stems}
    places = [i for i in items if i.kind == "word" and stem(i.lower) in nouns]
    terms = [w for t in (*linker.classes, *linker.attributes) for w in t.words[:1]]
    cosines = linker.encode(NOUNS) @ linker.encode(terms).T
    unknown = [n for n, row in zip(NOUNS, cosines, strict=True) if row.max() < FAR and stem(n) not in linker.schema_stems]
    if not places or not unknown:
        return None
    place, noun = places[number % len(places)], unknown[number % len(unknown)]
    return re.sub(rf"\b{re.escape(place.text)}\b", noun + ("s" if place.text.endswith("s") else ""), question, count=1)


def noted(question: str, engine: QuestionEngine, store: object) -> dict[str, object]:
    """Number of candidates, and as many of them as gate.py keeps: a gate that saw fewer here would learn their number."""
    rows = []
    candidates = engine.propose(Question(question)).candidates
    for c in candidates[:KEPT]:
        answer = run(store, c.sparql)  # type: ignore[arg-type]
        seen = Seen.of(None if answer is None else answer[1])
        parsed = parse(c.sparql)
        found = check(parsed, engine.schema.index) if isinstance(parsed, ParsedQuery) else ()
        known = traits(question, c.plan, c.words, c.features, Counter(str(f.severity) for f in found))
        rows.append(
            {
                "x": {k: round(v, 4) for k, v in c.features.items() if v},
                "t": {k: round(v, 4) for k, v in known.items() if v},
                "right": False,
                "near": False,
                "seen": None if seen is None else [seen.rows, seen.columns, seen.is_nothing, seen.signature],
                "ask": c.query.is_ask,
            }
        )
    return {"n": len(candidates), "candidates": rows}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--every", type=int, default=12)
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--kg", nargs="*")
    args = parser.parse_args(arguments)
    encoder = OnnxEncoder(threads=1)
    part, parts = (int(x) for x in args.part.split("/"))
    folders = sorted(p.parent for p in args.bench.glob("*/graph.nt.gz"))[part::parts]
    with args.output.open("w") as out:
        for folder in folders:
            if args.kg and folder.name not in args.kg:
                continue
            store, records = load(folder)
            engine = build(store, encoder)
            for record in records[1 :: args.every]:
                asked = corrupted(record["question"], engine.linker, zlib.crc32(record["question"].encode()))
                if asked is None:
                    continue
                kept = {"kg": folder.name, "id": record["id"] + LACKING_ID, "question": asked}
                out.write(json.dumps(kept | noted(asked, engine, store)) + "\n")
            out.flush()
            print(folder.name, flush=True)


if __name__ == "__main__":
    main()
