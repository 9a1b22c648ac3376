"""What of the question a candidate leaves unsaid: the evidence that something asked for is not in the graph.

A word is *said* by a candidate whose terms have it, or a word near in meaning. What is left over is the residual, from 0 (said)
to 1 (nothing of the candidate is like it). Nouns weigh more than verbs, and what is asked for more than what surrounds it.
What nothing in the whole graph is like, said by a candidate or not, is *foreign*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from proxy.nl.english import (
    AGGREGATES,
    AUXILIARY,
    BREAKS,
    COMPARATIVES,
    DIMENSIONS,
    FILLERS,
    HOW,
    LEAD,
    MOST_ADJECTIVES,
    NUMBER_WORDS,
    UNITS,
)
from proxy.nl.linking import Linker, ValueMention
from proxy.nl.plan import Condition, Plan
from proxy.nl.sketch import Item, Sketch
from proxy.nl.words import STOPWORDS, stem, stems

GENERIC = frozenset(
    """name number information info detail data list kind type record entry item thing value amount one person people
    database table dataset result row answer question order ascending descending alphabetical alphabetically each exist exists
    ever currently call called named use used using make made belong located associated related involved corresponding
    respectively overall possible available first last top rest both entire whole them those word text string instance case
    pair category times occurrence prior various certain particular""".split()
)
"""Words that ask for nothing by themselves."""
_BEFORE_VERBS = frozenset("to do does did who that which not can could has have had will would they it".split())
_FUNCTION = (
    STOPWORDS | GENERIC | LEAD | BREAKS | AUXILIARY | FILLERS | UNITS | COMPARATIVES.keys() | DIMENSIONS.keys()
    | MOST_ADJECTIVES.keys() | AGGREGATES.keys() | HOW.keys() | NUMBER_WORDS.keys()
)  # fmt: skip
_NEVER = 1.0
_FAR = 0.5
"""Least distance in meaning that counts as far: of unrelated words most are farther, of words for one thing most are nearer."""


@dataclass(slots=True)
class Coverage:
    """The content words of one question, and how far each is from what a candidate says. Keeps what it has compared."""

    linker: Linker
    items: Sequence[Item]
    mentions: Sequence[ValueMention]
    words: list[tuple[str, bool]] = field(init=False)
    """(stem, whether it is a noun) of each content word."""
    names: frozenset[str] = field(init=False)
    """Stems of those that are written as names."""
    foreign: dict[str, float] = field(init=False)
    """What the graph has nothing like; the same for every candidate."""
    _known: dict[tuple[str, str], float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        found: dict[str, bool] = {}
        forms: dict[str, str] = {}
        for i, item in enumerate(self.items):
            if item.kind == "word" and is_content(item.lower):
                noun = self._is_noun(i)
                found[stem(item.lower)] = found.get(stem(item.lower), False) or noun
                forms.setdefault(stem(item.lower), item.lower)
        self.words = list(found.items())
        self.names = frozenset(stem(x.lower) for x in self.items[1:] if x.kind == "word" and x.text[:1].isupper())
        self.linker.encode(list(found))
        self.foreign = self._foreign(forms)

    def _is_noun(self, i: int) -> bool:
        word = self.items[i].lower
        before = self.items[i - 1].lower if i else ""
        return not word.endswith(("ed", "ing")) and before not in _BEFORE_VERBS

    def _foreign(self, forms: Mapping[str, str]) -> dict[str, float]:
        """Distances of the words, *forms* by stem, to the nearest of the graph; 0 for what it has a name or value of."""
        names = self.linker.schema_stems
        unnamed = [w for w in forms if w not in names and not any(_alike(w, s) for s in names)]
        odd = [w for w in unnamed if not self.linker.is_value(forms[w])]
        near = self.linker.likeness([forms[w] for w in odd])
        far = {w: 1.0 - n for w, n in zip(odd, near, strict=True)}
        nouns = [far[w] for w, is_noun in self.words if is_noun and w in far]
        most = max(nouns, default=0.0)
        return {
            "foreign_noun": most,
            "foreign_far": max(0.0, most - _FAR),
            "foreign_word": max(far.values(), default=0.0),
            "foreign_sum": sum(max(0.0, far[w] - 0.4) * (1.0 if is_noun else 0.5) for w, is_noun in self.words if w in far),
        }

    def features(self, plan: Plan, said: Iterable[str], sketch: Sketch) -> dict[str, float]:
        """Residuals of *plan*, which says the phrases *said* (of its classes, attributes and edges)."""
        phrases = list(dict.fromkeys(said))
        stemmed = {s for p in phrases for s in stems(p)} | self._literals(plan)
        rest = {w: self._residual(w, stemmed, phrases) for w, _ in self.words}
        nouns = [rest[w] for w, is_noun in self.words if is_noun]
        shown = [p for s in plan.shown for p in s.term.words[:2]]
        asked = {stem(w) for s in sketch.select for w in s.words.split() if is_content(w)}
        own = {s for p in shown for s in stems(p)}
        classes = {s for p in phrases for s in stems(p)}
        asked_rest = [min(self._residual(w, own, shown), 0.0 if w in classes else _NEVER) for w in asked]
        used = _conditions(plan)
        unknown = sum(1.0 for m in self.mentions if not m.entries)
        return {
            **self.foreign,
            "residual_most": max(rest.values(), default=0.0),
            "residual_sum": sum(max(0.0, r - 0.35) for r in rest.values()),
            "residual_noun": max(nouns, default=0.0),
            "residual_name": max((rest[w] for w, _ in self.words if w in self.names), default=0.0),
            "residual_asked": max(asked_rest, default=0.0),
            "mentions_unknown": unknown,
            "mentions_unused": float(max(0, len(self.mentions) - sum(len(c.literals) + len(c.periods) for c in used))),
        }

    def _literals(self, plan: Plan) -> set[str]:
        """Words of the literals that the conditions name."""
        return {s for c in _conditions(plan) for x in c.literals for s in stems(x.lexical)}

    def _residual(self, word: str, stemmed: set[str], phrases: Sequence[str]) -> float:
        if word in stemmed or any(_alike(word, s) for s in stemmed):
            return 0.0
        return 1.0 - max((self._likeness(word, p) for p in phrases), default=0.0)

    def _likeness(self, word: str, phrase: str) -> float:
        key = (word, phrase)
        if key not in self._known:
            a, b = self.linker.encode([word, phrase])
            self._known[key] = max(0.0, float(a @ b))
        return self._known[key]


def _conditions(plan: Plan) -> tuple[Condition, ...]:
    inside = [x for c in plan.conditions for x in c.within]
    return (*plan.conditions, *plan.also, *plan.absent, *plan.either, *inside)


def is_content(word: str) -> bool:
    """Whether *word* may name something of the graph: it is neither grammar nor generic."""
    return len(word) > 1 and word[0].isalpha() and word not in _FUNCTION and stem(word) not in _FUNCTION


def _alike(a: str, b: str) -> bool:
    """Two forms of one word: operates, operated, operation."""
    return len(a) > 4 and len(b) > 4 and a[:5] == b[:5]
