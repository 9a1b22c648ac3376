"""How much of what is empty is proved: gold queries with one thing changed, over real graphs.

    python -m benchmarks.mutants FOLDER [FOLDER…] [--per-place 3] [--seed 1]

A FOLDER holds one folder per graph, with ``questions.json`` (a list of objects with ``query``) and RDF files (``.nt.gz``,
``.ttl``). Of every distinct query, each property is exchanged for others of the graph, likewise each class, each text and each
number; each triple pattern is turned round; the object of each that leads to nodes becomes an IRI, of a node and of none.
Mutants that pyoxigraph finds empty are the ones to prove; of the proofs it is counted how many would be lost without one table
or kind of condition. ``--kind-cap 1`` reads single classes in place of kinds. Exits with 1 if a gold query or a mutant with
solutions is proved empty, or if less than 90 % of the empty property mutants are proved.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pyoxigraph as ox

from proxy.backends.embedded import EmbeddedBackend
from proxy.config import IndexSettings
from proxy.errors import MalformedQuery
from proxy.index.build import KIND_CAP
from proxy.index.support import SupportIndex
from proxy.index.values import ValueIndex
from proxy.pipeline.distil import Distilled, distil
from proxy.query.conditions import Bound, Contains, GroupSize, IsLiteral, OneOf
from proxy.query.literals import NUMERIC
from proxy.query.model import (
    BasicGraphPattern,
    Filter,
    Group,
    ParsedQuery,
    QueryForm,
    TriplePattern,
    walk,
)
from proxy.query.parse import parse
from proxy.query.render import render
from proxy.query.required import required
from proxy.query.term import Iri, Literal, Variable
from proxy.validation.check import check, is_proved_empty
from proxy.validation.finding import Severity
from proxy.validation.observed import Observed
from proxy.validation.prove import is_contradicted
from proxy.validation.supports import Supports, supports_of

WANTED = 0.9


def load(folder: Path) -> ox.Store:
    """All RDF files of *folder* in one default graph."""
    store = ox.Store()
    for path in sorted(folder.iterdir()):
        name = path.name.removesuffix(".gz")
        form = ox.RdfFormat.from_extension(name.rpartition(".")[2])
        if form is not None:
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            store.load(data, format=form, base_iri="http://base.invalid/")
    return store


def gold_queries(folder: Path) -> list[str]:
    """Each text once."""
    content = json.loads((folder / "questions.json").read_text())
    listed = content if isinstance(content, list) else content["questions"]
    return list(dict.fromkeys(q["query"] for q in listed))


def exchanged(node: Any, old: object, new: object) -> Any:
    """*node* with the part that *is* old in place of it replaced by *new*, the first time it is met."""
    if node is old:
        return new
    if isinstance(node, tuple):
        for i, part in enumerate(node):
            changed = exchanged(part, old, new)
            if changed is not part:
                return (*node[:i], changed, *node[i + 1 :])
    elif is_dataclass(node) and not isinstance(node, type):
        for f in fields(node):
            part = getattr(node, f.name)
            changed = exchanged(part, old, new)
            if changed is not part:
                return replace(node, **{f.name: changed})
    return node


def mutants(
    query: ParsedQuery, index: SupportIndex, rng: random.Random, per_place: int, nodes: Sequence[str] = ()
) -> Iterator[tuple[str, ParsedQuery]]:
    """(what was changed, the changed query). *nodes*: IRIs of the graph, to put in."""
    properties = [p for p in index.properties if p != index.class_predicate]
    classes = sorted(c for c, n in index.class_instances.items() if n)

    def choices(own: str, among: list[str]) -> list[str]:
        others = [x for x in among if x != own]
        return rng.sample(others, min(per_place, len(others)))

    for pattern in (n for n in walk(query.where) if isinstance(n, TriplePattern)):
        changed: list[tuple[str, TriplePattern]] = []
        if isinstance(pattern.predicate, Iri):
            if pattern.predicate.value != index.class_predicate:
                changed += [
                    ("property", replace(pattern, predicate=Iri(p))) for p in choices(pattern.predicate.value, properties)
                ]
            elif isinstance(pattern.object, Iri):
                changed += [("class", replace(pattern, object=Iri(c))) for c in choices(pattern.object.value, classes)]
        if isinstance(pattern.predicate, Iri) and isinstance(pattern.object, Variable) and nodes:
            if any(not k.is_literal for k in {index.kinds[o] for o in index.object[index.cells(pattern.predicate.value)]}):
                node = rng.choice(nodes)
                for iri in (node, node + "x"):
                    changed.append(("node", replace(pattern, object=Iri(iri))))
        if isinstance(pattern.subject, Variable) and isinstance(pattern.object, Variable):
            changed.append(("direction", replace(pattern, subject=pattern.object, object=pattern.subject)))
        for what, new in changed:
            yield what, exchanged(query, pattern, new)
    for literal in {id(n): n for n in walk((query.where, query.having)) if isinstance(n, Literal)}.values():
        if literal.datatype in NUMERIC:
            for factor in ("7", "-1", "1000003"):
                number = str(int(float(literal.lexical)) * int(factor) + 3)
                yield "number", exchanged(query, literal, Literal(number, literal.datatype))
        elif literal.lexical:
            at = rng.randrange(len(literal.lexical))
            text = literal.lexical
            for new_text in (text.swapcase(), text[:at] + text[at:][1:], text[:at] + "x" + text[at:]):
                if new_text != text:
                    yield "text", exchanged(query, literal, replace(literal, lexical=new_text))


def without(query: ParsedQuery, supports: Supports, left_out: type | None) -> bool:
    """Whether the conditions of *query* contradict each other still if those of one type are left out."""
    alternatives = required(query, covers_named_graphs=supports.index.covers_named_graphs).alternatives
    kept = [tuple(c for c in a if left_out is None or not isinstance(c, left_out)) for a in alternatives]
    return all(a and is_contradicted(a, supports) for a in kept)


class Ablation:
    """The index less one thing at a time."""

    CONDITIONS = (OneOf, Bound, Contains, IsLiteral, GroupSize)

    def __init__(self, index: SupportIndex, values: ValueIndex) -> None:
        self._supports = {"nothing": supports_of(index, values)}
        for name, fields_ in (("nodes", ["nodes"]), ("features", ["features"]), ("both tables", ["nodes", "features"])):
            less = copy(index)
            for field in fields_:
                setattr(less, field, None)
            self._supports[name] = Supports(less, Observed(less, values))
        self._supports["values"] = supports_of(index)
        less = copy(index)
        less.multiplicity = {}
        self._supports["multiplicities"] = Supports(less, Observed(less, values))

    def losses(self, query: ParsedQuery) -> Iterator[str]:
        """What *query*, which is proved empty, would not be without."""
        for name, supports in self._supports.items():
            if not without(query, supports, None):
                yield name
        for condition in self.CONDITIONS:
            if not without(query, self._supports["nothing"], condition):
                yield condition.__name__


def is_empty(query: ParsedQuery, store: ox.Store) -> bool:
    """Whether *query* has no solution; asked of its pattern alone where that decides it."""
    if query.where is not None and not query.having and query.values is None:
        return not store.query(render(ParsedQuery(QueryForm.ASK, where=query.where)))
    answer = store.query(render(query))
    return not answer if isinstance(answer, ox.QueryBoolean) else next(iter(answer), None) is None


def why_not(query: ParsedQuery, store: ox.Store) -> str:
    """Why an empty query is out of reach: what has to be left away until there are solutions."""

    def loosened(node: Any) -> Any:
        if isinstance(node, BasicGraphPattern):
            return BasicGraphPattern(
                tuple(
                    replace(p, object=Variable(f"free{i}")) if isinstance(p.object, Literal) else p
                    for i, p in enumerate(node.patterns)
                )
            )
        if isinstance(node, Group):
            return Group(tuple(loosened(e) for e in node.elements if not isinstance(e, Filter)))
        return node

    if query.where is None:
        return "no pattern"
    without = ParsedQuery(QueryForm.ASK, where=loosened(query.where))
    if store.query(render(without)):
        return "each value occurs, but never with the rest"
    return "the kinds of node are joined so, but no single nodes are"


class Tally:
    """Counts over all graphs."""

    def __init__(self) -> None:
        self.queries = self.unparsed = self.wrong = 0
        self.seen: Counter[tuple[str, str]] = Counter()
        self.rules: dict[str, Counter[str]] = defaultdict(Counter)
        self.reasons: dict[str, Counter[str]] = defaultdict(Counter)
        self.check_s: list[float] = []
        self.losses: dict[str, Counter[str]] = defaultdict(Counter)

    def share(self, what: str) -> float:
        return self.seen[what, "proved"] / max(1, self.seen[what, "empty"])

    def report(self) -> None:
        print(f"{self.queries} gold queries ({self.unparsed} not parsed); {self.wrong} proofs of what has solutions")
        times = sorted(self.check_s)
        print(f"check: median {times[len(times) // 2] * 1e3:.2f} ms, 99 % below {times[len(times) * 99 // 100] * 1e3:.2f} ms")
        print(f"\n{'changed':10} {'mutants':>8} {'empty':>8} {'proved':>8} {'share':>7} {'without values':>15} {'vacuous':>8}")
        for what in ("property", "class", "direction", "text", "number", "node"):
            n = {k: self.seen[what, k] for k in ("mutants", "empty", "proved", "without values", "vacuous")}
            share = f"{self.share(what):7.1%}" if n["empty"] else "      -"
            print(
                f"{what:10} {n['mutants']:8} {n['empty']:8} {n['proved']:8} {share} {n['without values']:15} {n['vacuous']:8}"
            )
        shown = sorted({name for lost in self.losses.values() for name in lost})
        print("\nproofs lost without one thing")
        for name in shown:
            print(f"  {name}: " + ", ".join(f"{what} {lost[name]}" for what, lost in self.losses.items() if lost[name]))
        for what, rules in self.rules.items():
            print(f"\n{what}: proved by " + ", ".join(f"{rule} {n}" for rule, n in rules.most_common()))
            if self.reasons[what]:
                print(f"{what}: not proved, because " + "; ".join(f"{r} ({n})" for r, n in self.reasons[what].most_common()))


async def measure(folder: Path, tally: Tally, per_place: int, rng: random.Random, kind_cap: int) -> None:
    store = load(folder)
    distilled: Distilled = await distil(EmbeddedBackend(store), IndexSettings(), kind_cap=kind_cap)
    index, values = distilled.index, distilled.values
    nodes = sorted({q.subject.value for q in store if isinstance(q.subject, ox.NamedNode)})
    ablation = Ablation(index, values)
    started = time.perf_counter()
    for text in gold_queries(folder):
        try:
            query = parse(text)
        except MalformedQuery:
            tally.unparsed += 1
            continue
        if not isinstance(query, ParsedQuery):
            continue
        tally.queries += 1
        if is_proved_empty(check(query, index, values=values)) and not is_empty(query, store):
            tally.wrong += 1
            print(f"WRONG (gold): {text}", file=sys.stderr)
        is_answered = query.form is QueryForm.ASK or query.is_aggregate_without_group_by
        for what, mutant in mutants(query, index, rng, per_place, nodes):
            tally.seen[what, "mutants"] += 1
            began = time.perf_counter()
            findings = check(mutant, index, values=values)
            tally.check_s.append(time.perf_counter() - began)
            empty = is_empty(mutant, store)
            if is_answered:
                # a count of nothing is an answer: what is proved of its pattern is vacuous
                said = any(f.severity is not Severity.SUSPICIOUS or f.message.startswith("The answer is") for f in findings)
                tally.seen[what, "vacuous"] += empty and said
                continue
            is_proved = is_proved_empty(findings)
            if is_proved and not empty:
                tally.wrong += 1
                print(f"WRONG: {render(mutant)}", file=sys.stderr)
            if empty:
                tally.seen[what, "empty"] += 1
                tally.seen[what, "proved"] += is_proved
                tally.seen[what, "without values"] += is_proved_empty(check(mutant, index))
                if is_proved:
                    tally.losses[what].update(ablation.losses(mutant))
                    tally.rules[what][next(f.rule for f in findings if f.severity is Severity.PROVED_EMPTY)] += 1
                else:
                    tally.reasons[what][why_not(mutant, store)] += 1
    values.close()
    print(f"{folder.name}: {time.perf_counter() - started:.1f} s", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--per-place", type=int, default=3, help="other properties or classes tried in each place")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind-cap", type=int, default=KIND_CAP, help="with more kinds, single classes are read")
    options = parser.parse_args()
    tally = Tally()
    for root in options.folders:
        for folder in sorted(p for p in root.iterdir() if (p / "questions.json").exists()):
            asyncio.run(measure(folder, tally, options.per_place, random.Random(options.seed), options.kind_cap))
    tally.report()
    return 1 if tally.wrong or tally.share("property") < WANTED else 0


if __name__ == "__main__":
    sys.exit(main())
