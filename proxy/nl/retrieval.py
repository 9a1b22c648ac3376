"""Which part of the vocabulary a question is about: classes, attributes and edges, ranked.

A phrase is taken as one unit, by its words and by its meaning, and compared with what a class, property or edge is called. Then
types count: an attribute or an edge of a class that the question is not about loses, the more the farther that class is away.
Nothing is removed, because what the question does not say is no evidence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proxy.nl.linking import Linker, overlap
from proxy.nl.schema import Attribute, ClassTerm, Edge
from proxy.nl.sketch import Item, Sketch, Slot
from proxy.nl.words import STOPWORDS, stem, stems

Term = ClassTerm | Attribute | Edge
_FARTHER = 0.06
_NO_EDGE = 4
_LIKELY = 0.55
_LONGEST = 4


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A term with its score, 0 to 1."""

    term: Term
    score: float

    @property
    def iri(self) -> str:
        """The class, or the property that comes last."""
        match self.term:
            case ClassTerm():
                return self.term.iri
            case Attribute():
                return self.term.path[-1]
            case _:
                return self.term.property


class Retriever:
    """Ranks the vocabulary of one graph; the three parts of the score can be had apart, to measure what each is worth."""

    def __init__(self, linker: Linker) -> None:
        self._linker = linker
        schema = linker.schema
        self.terms: list[Term] = [
            *schema.classes.values(), *(a for a in schema.attributes if not a.operator), *schema.edges
        ]  # fmt: skip
        self._words = [(t.words,) if isinstance(t, Edge) else t.words[:2] for t in self.terms]
        self._stems = [[frozenset(stems(w)) for w in words] for words in self._words]
        self._first = linker.encode([words[0] for words in self._words])
        self._neighbours: dict[str, set[str]] = {c: set() for c in schema.classes}
        for e in schema.edges:
            self._neighbours[e.subject_class].add(e.object_class)
            self._neighbours[e.object_class].add(e.subject_class)

    def by_words(self, items: Sequence[Item]) -> list[float]:
        """The share of words in common with the best run of words, for each term."""
        said = [stem(i.lower) for i in items if i.kind == "word" and i.lower not in STOPWORDS]
        grams = [frozenset(said[i : i + n]) for n in range(1, _LONGEST + 1) for i in range(len(said) - n + 1)]
        return [max((overlap(g, o) for g in grams for o in own), default=0.0) for own in self._stems]

    def by_meaning(self, items: Sequence[Item], sketches: Sequence[Sketch]) -> list[float]:
        """The cosine with the nearest phrase, for each term."""
        phrases = {p for s in sketches[:1] for slot in slots(s) for p in (slot.words, slot.context) if p}
        phrases |= {i.lower for i in items if i.kind == "word" and i.lower not in STOPWORDS}
        if not phrases or not self.terms:
            return [0.0] * len(self.terms)
        vectors = self._linker.encode(sorted(phrases))
        found: list[float] = np.maximum(0.0, (vectors @ self._first.T).max(axis=0)).tolist()
        return found

    def retrieve(self, items: Sequence[Item], sketches: Sequence[Sketch], limit: int = 10) -> list[Retrieved]:
        """The best *limit* terms, one for each IRI, best first."""
        scores = [
            max(0.95 * w, 0.5 * w + 0.5 * m)
            for w, m in zip(self.by_words(items), self.by_meaning(items, sketches), strict=True)
        ]
        likely = {t.iri: s for t, s in zip(self.terms, scores, strict=True) if isinstance(t, ClassTerm) and s >= _LIKELY}
        away = self._distances(likely)
        ranked = []
        for t, score in zip(self.terms, scores, strict=True):
            match t:
                case ClassTerm():
                    factor = 1.0
                case Attribute():
                    factor = 1.0 - _FARTHER * away.get(t.subject_class, _NO_EDGE)
                case Edge():
                    ends = [likely.get(c, 0.0) for c in (t.subject_class, t.object_class)]
                    factor = 1.0 - _FARTHER * min(away.get(t.subject_class, _NO_EDGE), away.get(t.object_class, _NO_EDGE))
                    score = max(score, 0.9 * min(ends))  # two classes that are both meant are joined by what joins them
            ranked.append(Retrieved(t, score * factor))
        ranked.sort(key=lambda r: -r.score)
        best: dict[str, Retrieved] = {}
        for r in ranked:
            best.setdefault(r.iri, r)
        return list(best.values())[:limit]

    def _distances(self, sources: dict[str, float]) -> dict[str, int]:
        """Edges from each class to the nearest of *sources*."""
        away = dict.fromkeys(sources, 0)
        queue = deque(sources)
        while queue:
            here = queue.popleft()
            for neighbour in sorted(self._neighbours[here] - away.keys()):
                away[neighbour] = away[here] + 1
                queue.append(neighbour)
        return away


def slots(sketch: Sketch) -> list[Slot]:
    """All that *sketch* has words for."""
    found = [*sketch.select, *(c.slot for c in sketch.comparisons), sketch.group, sketch.order.slot if sketch.order else None]
    return [s for s in found if s is not None and s.words]
