"""Which predicate says what a node is, in a graph that does not use rdf:type for it (Wikidata says ``P31``).

Decided by structure: a class predicate leads from most nodes to few others, and what it leads to either is described as a
class (declared, in a hierarchy) or tells apart which properties the nodes have. Names only break ties. A wrong choice costs
answers to questions, never a proof: any predicate makes a sound index (docs/index.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from proxy.index.build import Row, number
from proxy.index.chunks import classes, iri
from proxy.index.normalise import local_name
from proxy.pipeline.asking import Asker, Failure
from proxy.query.term import OWL, RDF, RDF_TYPE, RDFS, BlankNode, Iri, Literal

AUTO = "auto"
SCHEMA = (OWL, RDF, RDFS, "http://www.w3.org/ns/shacl#")
"""What is an instance of a class from here belongs to a vocabulary, not to the data."""
TYPED_ENOUGH = 0.01
"""Instances per triple; with more of them rdf:type is not even doubted."""
CANDIDATES_MOST = 40
OBJECTS_MOST = 20_000
SAMPLED_OBJECTS, SAMPLED_SUBJECTS, DESCRIBED_OBJECTS = 8, 60, 40
WORTH = 0.4
"""Least score of a predicate that replaces rdf:type; its product of coverage and evidence, each from 0 to 1."""
_NAMES = frozenset("p31 type a isa instanceof class kind".split())
_NAME_BONUS = 0.02


@dataclass(frozen=True, slots=True)
class ClassPredicate:
    """What was chosen, and why, as a clause for the log. *rows*: its classes with their numbers, ?c ?n."""

    predicate: str
    reason: str
    rows: list[Row] | Failure


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """The settings of a build, with the class predicate known."""

    class_predicate: str
    excluded_namespaces: Sequence[str]
    chunk_timeout_s: float
    concurrency: int
    values_per_property: int


@dataclass(frozen=True, slots=True)
class _Evidence:
    """Of one predicate. described: share of its objects that are described as classes. telling: see ``_telling``."""

    predicate: str
    triples: int
    described: float
    telling: float
    rows: list[Row]

    def score(self, most: int) -> float:
        named = local_name(self.predicate).replace(" ", "").replace("_", "").lower() in _NAMES
        return self.triples / most * max(self.described, self.telling) + _NAME_BONUS * named


async def choose(asker: Asker, totals: Mapping[str, int | None], excluded: Collection[str] = ()) -> ClassPredicate:
    """Choose the class predicate of the graph behind *asker*. At most some 400 small queries, one if rdf:type is in use.

    totals: triples of each property. excluded: properties that are not to be read.
    """
    rows = await asker.ask(classes(RDF_TYPE))
    if isinstance(rows, Failure):
        return ClassPredicate(RDF_TYPE, "its classes could not be listed", rows)
    typed = sum(number(r["n"]) for r in rows if isinstance(c := r["c"], Iri) and not c.value.startswith(SCHEMA))
    if typed and typed >= TYPED_ENOUGH * sum(n or 0 for n in totals.values()):
        return ClassPredicate(RDF_TYPE, f"{typed} instances", rows)
    known = {p: n for p, n in totals.items() if n and p not in excluded and not p.startswith(SCHEMA)}
    likely = sorted(known, key=lambda p: (-known[p], p))[:CANDIDATES_MOST]
    found = [e for p in likely if known[p] > 10 * typed and (e := await _evidence(asker, p, known[p])) is not None]
    if found:
        # A literal is on a node as often as the class is, or oftener: only predicates between nodes are compared.
        most = max(e.triples for e in found)
        best = max(found, key=lambda e: (e.score(most), e.triples, e.predicate))
        if best.score(most) >= WORTH:
            why = f"{len(best.rows)} objects of {best.triples} triples, {best.described:.0%} of them described as classes"
            return ClassPredicate(best.predicate, f"{why}, {best.telling:.0%} of the nodes' properties told apart", best.rows)
    return ClassPredicate(RDF_TYPE, "no other predicate behaves like it", rows)


async def _evidence(asker: Asker, predicate: str, triples: int) -> _Evidence | None:
    """What speaks for *predicate*; None if it cannot be one: it leads to literals, or to about as many nodes as from."""
    edge = iri(predicate)
    sample = await asker.ask(f"SELECT ?c {{ ?s {edge} ?c }} LIMIT 50")
    if isinstance(sample, Failure) or not sample or any(isinstance(r["c"], (Literal, BlankNode)) for r in sample):
        return None
    rows = await asker.ask(classes(predicate), limit_rows=OBJECTS_MOST)
    if isinstance(rows, Failure) or any(isinstance(r["c"], Literal) for r in rows) or 2 * len(rows) > triples:
        return None
    objects = [c.value for r in sorted(rows, key=lambda r: -number(r["n"])) if isinstance(c := r["c"], Iri)]
    described = await _described(asker, objects[:DESCRIBED_OBJECTS])
    return _Evidence(predicate, triples, described, await _telling(asker, predicate, objects[:SAMPLED_OBJECTS]), rows)


async def _described(asker: Asker, objects: Sequence[str]) -> float:
    """The share of *objects* that are declared as classes, or stand in a class hierarchy."""
    names = " ".join(_writable(objects))
    declared = f"?c {iri(RDF_TYPE)} ?k . FILTER(?k IN ({iri(OWL + 'Class')}, {iri(RDFS + 'Class')}))"
    below, above = f"?c {iri(RDFS + 'subClassOf')} ?k", f"?k {iri(RDFS + 'subClassOf')} ?c"
    query = f"SELECT DISTINCT ?c {{ VALUES ?c {{ {names} }} {{ {declared} }} UNION {{ {below} }} UNION {{ {above} }} }}"
    rows = await asker.ask(query) if names else []
    return 0.0 if isinstance(rows, Failure) or not objects else len(rows) / len(objects)


async def _telling(asker: Asker, predicate: str, objects: Sequence[str]) -> float:
    """How well the object tells which properties a node has: the share of variance between objects, adjusted for their number.

    Nodes of one class have the same properties and those of another class others; nodes of one country do not.
    """
    groups: list[tuple[int, Counter[str]]] = []
    for o in _writable(objects):
        some = f"{{ SELECT ?s {{ ?s {iri(predicate)} {o} }} LIMIT {SAMPLED_SUBJECTS} }}"
        rows = await asker.ask(f"SELECT DISTINCT ?s ?p {{ {some} ?s ?p ?o }}")
        if isinstance(rows, Failure):
            continue
        if (size := len({r["s"] for r in rows})) > 1:
            groups.append((size, Counter(p.value for r in rows if isinstance(p := r["p"], Iri))))
    nodes = sum(size for size, _ in groups)
    if len(groups) < 2 or nodes <= len(groups):
        return 0.0
    within = total = 0.0
    for name in {name for _, having in groups for name in having} - {predicate}:
        share = sum(having[name] for _, having in groups) / nodes
        total += nodes * share * (1 - share)
        within += sum(having[name] * (1 - having[name] / size) for size, having in groups)
    if not total:
        return 0.0
    return max(0.0, 1 - (within / (nodes - len(groups))) / (total / (nodes - 1)))


def _writable(objects: Sequence[str]) -> list[str]:
    out = []
    for o in objects:
        try:
            out.append(iri(o))
        except ValueError:
            continue
    return out
