"""Walking over a question: phrases up to the next break, numbers, and what is taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from proxy.nl.english import BREAKS, NEGATIONS, NUMBER_WORDS
from proxy.nl.sketch import Item


@dataclass(slots=True)
class Cursor:
    """The items of a question, and which of them some part of the reading has taken already (*used*)."""

    items: Sequence[Item]
    used: list[bool] = field(default_factory=list)
    w: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.used = [False] * len(self.items)
        self.w = [i.lower if i.kind != "value" else "\x00value" for i in self.items]

    def is_open(self, i: int) -> bool:
        return 0 <= i < len(self.items) and not self.used[i]

    def take(self, start: int, end: int) -> None:
        for i in range(start, min(end, len(self.items))):
            self.used[i] = True

    def phrase(self, start: int, *, limit: int = 6) -> tuple[str, str, int]:
        """Words from *start* to the next break: (before "of", after "of", end)."""
        words: list[str] = []
        context: list[str] = []
        i, of = start, False
        while self.is_open(i) and len(words) + len(context) < limit:
            item, w = self.items[i], self.w[i]
            if item.kind in ("mark", "number") or self._breaks(i) or w in NEGATIONS:
                break
            if w == "of":
                if of and context:
                    break
                of = True
            elif w == "'s":
                context, words = words + context, []
            elif w not in (
                "the",
                "a",
                "an",
                "all",
                "any",
                "their",
                "its",
                "each",
                "every",
                "his",
                "her",
                "different",
                "distinct",
            ):
                if item.kind == "value":
                    if not words and not of:
                        i += 1
                        continue
                    break
                (context if of else words).append(w)
            i += 1
        return " ".join(words), " ".join(context), i

    def _breaks(self, i: int) -> bool:
        """Whether item *i* ends a phrase; an order that is placed, not asked for, does not."""
        if self.w[i] in ("order", "rank"):
            return (i > 0 and self.w[i - 1] in ("in", "and", "ascending", "descending")) or self.w[i + 1 : i + 2] in (
                ["by"],
                ["them"],
            )
        return self.w[i] in BREAKS

    def phrase_before(self, end: int, *, limit: int = 4) -> tuple[str, int]:
        """The words right before position *end*, back to a break."""
        words: list[str] = []
        i = end - 1
        while i >= 0 and self.w[i] in (
            "is",
            "are",
            "was",
            "were",
            "a",
            "an",
            "the",
            "have",
            "has",
            "of",
            "be",
            "being",
            "had",
            "with",
            "and",
        ):
            if self.w[i] in ("with", "of") and words:
                break
            i -= 1
        while i >= 0 and len(words) < limit:
            item, w = self.items[i], self.w[i]
            if self.used[i] or item.kind != "word" or w in BREAKS or w in NEGATIONS or w in ("the", "of", "a", "an", "whose"):
                break
            words.insert(0, w)
            i -= 1
        return " ".join(words), i + 1

    def number_at(self, i: int) -> float | None:
        if not 0 <= i < len(self.items):
            return None
        item = self.items[i]
        if item.number is not None:
            return item.number
        return NUMBER_WORDS.get(self.w[i])
