#!/usr/bin/env python3
"""How much of the vocabulary that a question needs is among the first ten terms that linking finds for it: schema recall at 10.

    recall.py BENCH [--kg NAME …] [--every N]

BENCH holds one folder per graph: graph.nt.gz, ontology.ttl, pairs.jsonl (question, sparql). What a question needs are the
classes and properties of its gold query, but rdf:type and labels. Three ways to rank them (nl/retrieval.py): *flat*, by shared
words; *encoder*, by the cosine of whole phrases; *full*, by both, and by whether types fit and how far away they are.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

# A script's own folder comes first on the path, and this one holds a proxy.py: the package must win.
sys.path[0] = str(Path(__file__).resolve().parents[1])
# ruff: noqa: E402

from benchmarks.questions import build, load
from proxy.nl.engine import QuestionEngine
from proxy.nl.onnx import OnnxEncoder
from proxy.nl.retrieval import Retrieved, Retriever
from proxy.nl.shape import sketches
from proxy.nl.words import expand
from proxy.query.model import ParsedQuery
from proxy.query.parse import parse
from proxy.query.term import RDF_TYPE, RDFS_LABEL

FIRST = 10


def needed(text: str, engine: QuestionEngine) -> set[str]:
    """IRIs of the schema in the gold query *text*."""
    properties = {p for a in engine.schema.attributes for p in a.path} | {e.property for e in engine.schema.edges}
    known = (engine.schema.classes.keys() | properties) - {RDF_TYPE, RDFS_LABEL, engine.schema.index.class_predicate}
    query = parse(text)
    if not isinstance(query, ParsedQuery):
        return set()
    prefixes = dict(query.prefixes)
    found = set(re.findall(r"<([^<>\s]+)>", text))
    for prefix, local in re.findall(r"([\w-]*):((?:[\w-]|\\.)+)", text):
        if prefix in prefixes:
            found.add(prefixes[prefix] + re.sub(r"\\(.)", r"\1", local))
    return found & known


def first(retriever: Retriever, scores: Iterable[float]) -> list[str]:
    """IRIs of the best terms, by *scores* alone."""
    ranked = sorted(zip(retriever.terms, scores, strict=True), key=lambda x: -x[1])
    return list(dict.fromkeys(Retrieved(t, s).iri for t, s in ranked))[:FIRST]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", type=Path)
    parser.add_argument("--kg", nargs="*")
    parser.add_argument("--every", type=int, default=4)
    args = parser.parse_args()
    encoder = OnnxEncoder(threads=1)
    found: dict[str, list[float]] = defaultdict(list)
    for folder in sorted(p.parent for p in args.bench.glob("*/graph.nt.gz")):
        if args.kg and folder.name not in args.kg:
            continue
        store, records = load(folder)
        engine = build(store, encoder)
        retriever = engine.retriever
        for record in records[:: args.every]:
            wanted = needed(record.get("sparql") or record["query"], engine)
            if not wanted:
                continue
            items, _ = engine.linker.read(expand(record["question"]))
            shapes = sketches(items)
            ways = {
                "flat": first(retriever, retriever.by_words(items)),
                "encoder": first(retriever, retriever.by_meaning(items, shapes)),
                "full": [r.iri for r in retriever.retrieve(items, shapes, FIRST)],
            }
            for name, ranked in ways.items():
                found[name].append(len(wanted & set(ranked)) / len(wanted))
    for name, values in found.items():
        print(f"{name:8} recall@{FIRST} {statistics.fmean(values):.3f} over {len(values)} questions")


if __name__ == "__main__":
    main()
