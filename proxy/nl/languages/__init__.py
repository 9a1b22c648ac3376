"""Languages other than English: their function words, as data (one JSON file a language), and how a question is read by them.

The rules of shape know one set of words of grammar and measure, the English one. A question in another language has its own
replaced by those, phrase by phrase, longest first; what is left are words of the graph, which its labels know. A new language
is a new file:

* ``phrases``: what stands for which English words ("" drops it).
* ``adjectives``: the same, before any of ``endings``.
* ``postposed``: the same, moved in front of the noun that it follows ("longueur moyenne": "average longueur").
* ``genitives``: what stands for which English words only after a noun ("Länge der Schiffe").
* ``endings``: what plurals and cases add; words that differ only in one, and in accents, are the same.
* ``glossary``: common names of attributes, for superlatives ("oldest" asks for an age) and for graphs without such labels.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources

from proxy.index.normalise import fold, normalise
from proxy.nl.english import AUXILIARY, BREAKS, FILLERS, LEAD
from proxy.nl.words import STOPWORDS, Token, tokenize

_LONGEST = 6
_SHORTEST = 3
"""Letters that are left of a word without its ending."""
_ENGLISH = STOPWORDS | LEAD | BREAKS | AUXILIARY | FILLERS


Labels = Mapping[tuple[str, ...], str]
"""Words of a label, each without its ending (``Language.loose``) → what to read in its place."""


def _key(text: str) -> tuple[str, ...]:
    return tuple(normalise(t.text) for t in tokenize(text))


@dataclass(frozen=True)
class Language:
    """The tables of one language; see the module."""

    code: str
    phrases: Mapping[tuple[str, ...], str]
    adjectives: Mapping[tuple[str, ...], str]
    postposed: Mapping[str, str]
    genitives: Mapping[str, str]
    endings: tuple[str, ...]
    glossary: Mapping[str, str]

    @cached_property
    def function_words(self) -> frozenset[str]:
        """Single words that tell this language from English."""
        return frozenset(fold(w) for key in self.phrases for w in key if w not in _ENGLISH)

    @cached_property
    def _folded(self) -> tuple[Mapping[tuple[str, ...], str], Mapping[tuple[str, ...], str]]:
        """Phrases and adjectives without accents, for questions that are written so."""
        first, second = (
            {tuple(map(fold, k)): v for k, v in reversed(list(table.items()))} for table in (self.phrases, self.adjectives)
        )
        return first, second

    def loose(self, text: str) -> tuple[str, ...]:
        """The words of *text*, folded, without endings."""
        return tuple(self._bare(fold(w)) for w in normalise(text).split())

    def _bare(self, word: str) -> str:
        return next((word[: -len(e)] for e in self.endings if e and word.endswith(e) and len(word) - len(e) >= _SHORTEST), word)

    def translated(self, words: Sequence[str]) -> str | None:
        """The English of a phrase of grammar; None where it is none. *words*: normalised."""
        folded = tuple(map(fold, words))
        if (found := self.phrases.get(tuple(words), self._folded[0].get(folded))) is not None:
            return found
        for ending in (*self.endings, ""):
            if folded[-1].endswith(ending):
                bare = folded[-1][: len(folded[-1]) - len(ending)]
                if (found := self._folded[1].get((*folded[:-1], bare))) is not None:
                    return found
        if len(words) > 1 and self.phrases.get((words[0],)) == "the" and (found := self._adjective(words[1:])):
            return f"the {found}"
        return None

    def _adjective(self, words: Sequence[str]) -> str | None:
        """The superlative that *words* are, where it is one and no phrase."""
        found = self.translated(words)
        return found if found and tuple(words) not in self.phrases and tuple(map(fold, words)) not in self._folded[0] else None

    def canonical(self, tokens: Sequence[Token], labels: Labels) -> list[Token]:
        """*tokens* with English in place of this language's words of grammar, and with the graph's own words in place of its
        *labels* in this language. Offsets stay those of the question."""
        out: list[Token] = []
        i = 0
        while i < len(tokens):
            i += self._read(tokens, i, labels, out)
        return out

    def _read(self, tokens: Sequence[Token], i: int, labels: Labels, out: list[Token]) -> int:
        """Append what stands for the phrase at *i*; the number of tokens it has."""
        after_noun = bool(out) and out[-1].text[0].isalnum() and out[-1].lower not in _ENGLISH
        for size in range(min(_LONGEST, len(tokens) - i), 0, -1):
            part = tokens[i : i + size]
            if not part[-1].text[0].isalnum() and size > 1 and part[-1].text != "'":
                continue
            words = [normalise(t.text) for t in part]
            start, end = part[0].start, part[-1].end
            if size == 1 and after_noun and (moved := self.postposed.get(fold(words[0]))) is not None:
                out.insert(len(out) - 1, Token(moved, start, end))
                return size
            if size == 1 and after_noun and (said := self.genitives.get(fold(words[0]))) is not None:
                out += (Token(w, start, end) for w in said.split())
                return size
            label = labels.get(tuple(self._bare(fold(w)) for w in normalise(" ".join(words).replace(" ' ", "'")).split()))
            english = label if label is not None else self.translated(words)
            if english is not None and not (size == 1 and i and len(part[0].text) == 1 and part[0].text.isupper()):
                out += (Token(w, start, end) for w in english.split())
                return size
        bare = fold(tokens[i].text)
        known = next((self.glossary[b] for b in (bare, self._bare(bare)) if b in self.glossary), None)
        out.append(tokens[i] if known is None else Token(known, tokens[i].start, tokens[i].end))
        return 1

    def in_english(self, label: str) -> str | None:
        """*label* by the glossary; None where it has a word that is not there."""
        if (whole := self.glossary.get(fold(label))) is not None:
            return whole
        parts = [self.glossary.get(fold(w)) for w in label.split()]
        return " ".join(p for p in parts if p) if parts and all(parts) else None


@lru_cache(maxsize=1)
def shipped() -> Mapping[str, Language]:
    """The languages that come with the package, by their two-letter code."""
    found = {}
    for file in sorted(resources.files(__name__).iterdir(), key=lambda f: f.name):
        if file.name.endswith(".json"):
            data = json.loads(file.read_text(encoding="utf-8"))
            found[data["language"]] = Language(
                data["language"],
                {_key(k): v for k, v in data["phrases"].items()},
                {_key(k): v for k, v in data["adjectives"].items()},
                {fold(k): v for k, v in data["postposed"].items()},
                {fold(k): v for k, v in data["genitives"].items()},
                tuple(sorted((fold(e) for e in data["endings"]), key=len, reverse=True)),
                {fold(k): v for k, v in data["glossary"].items()},
            )
    return found


def language_of(tokens: Sequence[Token], tag: str | None = None) -> Language | None:
    """The language of a question: the one its BCP 47 *tag* names, else the one with most function words in it; None: English.

    One word in common ("die", "me", "come") does not make a question foreign: there must be two, and more than English ones.
    """
    if tag:
        code = tag.split("-")[0].lower()
        return shipped().get(code)
    words = [fold(t.text) for t in tokens]
    english = sum(w in _ENGLISH for w in words)
    best = max(shipped().values(), key=lambda x: sum(w in x.function_words for w in words), default=None)
    hits = sum(w in best.function_words for w in words) if best is not None else 0
    return best if hits >= 2 and hits > english else None
