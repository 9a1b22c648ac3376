"""Classes that a question names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.nl.linking import Linker
from proxy.nl.sketch import Item
from proxy.nl.words import STOPWORDS, stem, stems


@dataclass(frozen=True, slots=True)
class Anchor:
    """A class that the question names at item *at*."""

    class_: str
    score: float
    at: int
    to: int


def anchors(items: Sequence[Item], linker: Linker) -> list[Anchor]:
    """Classes that the question names outright (all their words, or their head word), best first."""
    found: dict[str, Anchor] = {}
    words = [stem(i.lower) if i.kind == "word" else "\x00" for i in items]
    for c in linker.classes:
        for phrase in c.words:
            wanted = stems(phrase)
            n = len(wanted)
            for i in range(len(words) - n + 1):
                if tuple(words[i : i + n]) == wanted or (n > 1 and "".join(wanted) == words[i]):
                    best = found.get(c.iri)
                    if best is None or best.score < 1.0:
                        found[c.iri] = Anchor(c.iri, 1.0, i, i + n)
            if n > 1 and c.iri not in found:
                for i, w in enumerate(words):
                    if w in wanted and w not in STOPWORDS and len(w) > 2:
                        score = 0.62 if w == wanted[-1] else 0.5
                        hits = sum(x in words for x in wanted) / n
                        score = max(score, 0.5 + 0.4 * hits if hits > 0.5 else score)
                        if c.iri not in found or found[c.iri].score < score:
                            found[c.iri] = Anchor(c.iri, score, i, i + 1)
    for i, w in enumerate(words):
        if (general := linker.heads.get(w)) and general not in found:
            found[general] = Anchor(general, 0.99, i, i + 1)
    return sorted(found.values(), key=lambda a: (-a.score, a.at))
