"""Supported query graphs for a question: every sketch, with its slots read in several ways, joined along edges that exist.

Bounded: a slot keeps a few readings, combinations are visited best first up to a limit, each is joined in at most three ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from proxy.nl.anchors import Anchor, anchors
from proxy.nl.assemble import assemble
from proxy.nl.conditions import Conditions
from proxy.nl.coverage import Coverage
from proxy.nl.features import features
from proxy.nl.ir import Query
from proxy.nl.linking import Linker, ValueMention
from proxy.nl.plan import Plan
from proxy.nl.planning import Planner
from proxy.nl.policy import Answer
from proxy.nl.requirements import NONE, Requirements
from proxy.nl.schema import Schema
from proxy.nl.size import is_heavy
from proxy.nl.sketch import Item, Sketch
from proxy.nl.tree import Tree, connect
from proxy.nl.verbalise import verbalise

_FARTHER = 4
"""Times as many combinations are visited under requirements, most of which are turned down before they cost anything."""


ENUMERATED, WRITTEN = "enumerated", "written"


@dataclass(slots=True)
class Candidate:
    """A query that may be meant. *features* are what the ranking sees. source: WRITTEN: by a language model, without a plan."""

    plan: Plan
    query: Query
    words: str
    features: dict[str, float]
    note: str = ""
    score: float = 0.0
    sparql: str = ""
    source: str = ENUMERATED


@dataclass(frozen=True, slots=True)
class _Read:
    """The reading that a plan belongs to. *rank*: of its sketch."""

    items: Sequence[Item]
    anchors: Sequence[Anchor]
    sketch: Sketch
    rank: int
    coverage: Coverage


@dataclass(frozen=True, slots=True)
class Enumerator:
    """Makes the candidates of one question after the other; keeps nothing of them."""

    schema: Schema
    linker: Linker
    combinations: int = 90
    language: str = "en"
    """In which names are shown, where all have one in it."""
    answer: Answer = Answer.LABEL

    def candidates(
        self,
        items: Sequence[Item],
        mentions: Sequence[ValueMention],
        found: Sequence[Sketch],
        *,
        limit: int,
        requirements: Requirements = NONE,
    ) -> list[Candidate]:
        """At most *limit* candidates that meet *requirements*, those of likelier sketches first; no two render alike."""
        named = anchors(items, self.linker)
        self._warm(items, found)
        combinations = self.combinations * (_FARTHER if requirements else 1)
        planner = Planner(self.schema, self.linker, items, mentions, named, combinations)
        coverage = Coverage(self.linker, items, mentions)
        seen: set[Query] = set()
        out: list[Candidate] = []
        for rank, sketch in enumerate(found):
            before = len(out)
            for plan, scores in planner.plans(sketch):
                if not requirements.admit(plan):
                    continue
                for candidate in self._joined(_Read(items, named, sketch, rank, coverage), plan, scores):
                    if candidate.query not in seen and requirements.admit_query(candidate.query):
                        seen.add(candidate.query)
                        out.append(candidate)
                if len(out) - before >= limit // (1 if rank == 0 else 2):
                    break
            if len(out) >= limit * 2:
                break
        return out

    def _warm(self, items: Sequence[Item], found: Sequence[Sketch]) -> None:
        """Encode all phrases in one batch; later look-ups hit the encoder's cache."""
        texts: set[str] = set()
        for sketch in found:
            slots = [
                *sketch.select,
                *(c.slot for c in sketch.comparisons),
                sketch.group,
                sketch.order.slot if sketch.order else None,
            ]
            for s in slots:
                if s is not None and s.words:
                    texts |= {s.words, f"{s.context} {s.words}".strip()}
                    if s.context:
                        texts.add(s.context)
        near = Conditions(self.schema, self.linker, items, ())
        for i, item in enumerate(items):
            if item.kind in ("value", "number"):
                for s in near.near(i):
                    texts.add(s.words)
        self.linker.encode(sorted(texts))

    def _joined(self, read: _Read, plan: Plan, scores: dict[str, float]) -> Iterator[Candidate]:
        classes = plan.classes()
        if not classes:
            return
        trees = connect(classes, self.schema, limit=3)
        if not trees:
            return
        shortest = len(trees[0].nodes)
        walks: list[Tree | None] = [None]
        if plan.absent_class is not None or plan.absent:
            target = plan.absent_class or plan.absent[0].attribute.subject_class
            wanted = [target, *(c.attribute.subject_class for c in plan.absent)]
            if all(w == classes[0] for w in wanted):
                walks = [None]
            else:
                walks = list(connect([classes[0], *wanted], self.schema, limit=2))
        light = [t for t in trees if not is_heavy(plan, t, self.schema)]
        for n, tree in enumerate(light):
            for walk in walks:
                if plan.absent_class is not None and (walk is None or len(walk.nodes) < 2):
                    continue
                query = assemble(plan, tree, self.schema, absent_walk=walk, language=self.language, answer=self.answer)
                if query is None:
                    continue
                seen = features(
                    read.items, self.linker, plan, tree, walk, scores, read.sketch, read.rank, read.anchors, read.coverage
                )
                seen["longer_join"] = float(len(tree.nodes) - shortest)
                seen["other_join"] = float(n > 0)
                yield Candidate(plan, query, verbalise(plan, self.schema), seen, read.sketch.note)
