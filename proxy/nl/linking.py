"""From words to terms: which values, classes and attributes a stretch of the question may stand for.

Overlaps are kept and every stretch keeps several candidates; choosing is left to the ranking, which sees whole queries.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property
from typing import Protocol

import numpy as np

from proxy.index.normalise import normalise
from proxy.index.values import ValueEntry
from proxy.nl.aliases import aliases, corrected, in_vocabulary, initials
from proxy.nl.dates import PATTERN as DATE_IN_WORDS
from proxy.nl.dates import Period, period
from proxy.nl.english import NUMBER_WORDS
from proxy.nl.languages import Labels, Language
from proxy.nl.onnx import Encoder, Vectors
from proxy.nl.schema import Attribute, ClassTerm, Schema
from proxy.nl.sketch import Item, Slot
from proxy.nl.words import STOPWORDS, Token, stem, stems, tokenize


class Values(Protocol):
    """What linking asks of the value index."""

    def lookup(self, normalised: str) -> list[ValueEntry]: ...

    def search(self, text: str, limit: int = 10) -> list[tuple[ValueEntry, float]]: ...

    def examples(self, class_: str | None, property_: str, limit: int = 5) -> list[ValueEntry]: ...

    def distinct(self, class_: str | None, property_: str) -> int | None: ...


@dataclass(frozen=True, slots=True)
class ValueMention:
    """A stretch that is, or may be, a literal of the graph. start, end: offsets."""

    text: str
    start: int
    end: int
    entries: tuple[tuple[ValueEntry, float], ...]
    is_quoted: bool = False

    @property
    def period(self) -> Period | None:
        """The time that the mention names, where it is a date."""
        return period(self.text)


@dataclass(frozen=True, slots=True)
class Link:
    """A slot read as *term*, with a score from 0 to 1."""

    term: Attribute | ClassTerm
    score: float


_QUOTED = re.compile(r"\"([^\"]+)\"|“([^”]+)”|‘([^’]+)’|(?<!\w)'([^']+(?:'\w[^']*)?)'(?!\w)|«([^»]+)»|„([^“”]+)[“”]")
_DATE = re.compile(
    r"\b\d{4}-\d{1,2}-\d{1,2}(?:[ T]\d{1,2}:\d{2}(?::\d{2})?)?\b|\b\d{1,2}/\d{1,2}/\d{2,4}\b|\b\d{1,2}:\d{2}(?::\d{2})?\b"
)
_LONGEST_GRAM = 7
_LONGEST_ALIAS = 4
_LONGEST_ACRONYM = 6
_NAMES_READ = 2_000
"""Names of each class whose initials are known."""


class Linker:
    """Links the questions about one graph."""

    def __init__(self, schema: Schema, values: Values, encoder: Encoder) -> None:
        self.schema = schema
        self._values = values
        self._encoder = encoder
        self.attributes = schema.attributes
        self.classes = sorted(schema.classes.values(), key=lambda c: c.iri)
        self._class_words = {c.iri: c.words[0] for c in self.classes}
        self._class_stems = {c.iri: [frozenset(stems(w)) for w in c.words] for c in self.classes}
        self._attribute_stems = [[frozenset(stems(w)) for w in a.words] for a in self.attributes]
        self._joined = [{"".join(stems(w)) for w in a.words} for a in self.attributes]
        self._bare = encoder.encode([a.words[0] for a in self.attributes])
        self._full = encoder.encode([f"{self._class_words[a.subject_class]} {a.words[0]}" for a in self.attributes])
        self._class_vectors = encoder.encode([c.words[0] for c in self.classes])
        self.schema_stems = {s for sets in (*self._class_stems.values(), *self._attribute_stems) for one in sets for s in one}
        own = [s for a, s in zip(self.attributes, self._attribute_stems, strict=True) if a not in schema.relations]
        nouns = frozenset(s for sets in (*self._class_stems.values(), *own) for one in sets for s in one)
        for e in schema.edges:
            self.schema_stems.update(stems(e.words))
        self._verbs = frozenset(s[:_VERB] for s in self.schema_stems - nouns if len(s) >= _VERB)
        self._spellings = sorted(self.schema_stems)
        self._run_together = {
            "".join(parts[:-1]) + stem(parts[-1]): parts
            for words in (*(c.words for c in self.classes), *(a.words for a in self.attributes if a not in schema.relations))
            for w in words
            if 1 < len(parts := normalise(w).split()) <= _LONGEST_ALIAS
        }
        """Names of several words, written as one ("dataset") → their words."""
        self.heads = self._only_heads()
        self._labels: dict[str, Labels] = {}
        spoken = [*(c.words for c in self.classes), *(a.words for a in self.attributes), *((e.words,) for e in schema.edges)]
        # Now, in batches: questions compare single words with them.
        self._name_vectors = encoder.encode(list(dict.fromkeys(w for words in spoken for w in words[:2])))

    def _labels_in(self, language: Language) -> Labels:
        """What to read for the labels in *language*: the first words of the class or property, English ones if there are."""
        if language.code not in self._labels:
            found: dict[tuple[str, ...], set[str]] = {}
            for label, words in self.schema.labels_in(language.code):
                found.setdefault(language.loose(label), set()).add(words)
            self._labels[language.code] = {k: next(iter(v)) for k, v in found.items() if k and len(v) == 1}
        return self._labels[language.code]

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of *texts*, by the encoder that the links rest on."""
        return self._encoder.encode(texts)

    def likeness(self, words: Sequence[str]) -> list[float]:
        """How near in meaning the nearest name of the graph is to each of *words*: the highest cosine, 0 to 1."""
        if not words:
            return []
        names = [v for v in (self._name_vectors, self._full) if len(v)]
        vectors = self.encode(words)
        return [max((max(0.0, float((v @ w).max())) for v in names), default=0.0) for w in vectors]

    def is_value(self, word: str) -> bool:
        """Whether a literal of the graph is *word* and nothing else."""
        return bool(self._values.lookup(normalise(word)))

    # -- values

    def read(self, text: str, language: Language | None = None) -> tuple[list[Item], list[ValueMention]]:
        """Tokens of the question, those that make a value joined into one item, and the values.

        language: of the question, where it is not English; its words of grammar come out in English.
        """
        tokens = tokenize(text)
        tokens = [t for i, t in enumerate(tokens) if t.text not in _CURRENCIES or not _is_amount(tokens, i)]
        if language is not None:
            tokens = language.canonical(tokens, self._labels_in(language))
        mentions: list[ValueMention] = []
        taken: list[tuple[int, int]] = []
        for m in _QUOTED.finditer(text):
            inner = next(g for g in m.groups() if g is not None).strip()
            if inner and len(inner) < 120:
                mentions.append(ValueMention(inner, m.start(), m.end(), self._entries(inner, is_fuzzy=True), True))
                taken.append((m.start(), m.end()))
        for m in itertools.chain(_DATE.finditer(text), DATE_IN_WORDS.finditer(text)):
            if not any(s < m.end() and m.start() < e for s, e in taken):
                mentions.append(ValueMention(m.group(), m.start(), m.end(), self._entries(m.group(), is_fuzzy=False)))
                taken.append((m.start(), m.end()))
        for size in range(min(_LONGEST_GRAM, len(tokens)), 0, -1):
            for i in range(len(tokens) - size + 1):
                gram = tokens[i : i + size]
                start, end = gram[0].start, gram[-1].end
                if any(s < end and start < e for s, e in taken) or not self._may_be_value(gram, i):
                    continue
                entries = self._entries(text[start:end], is_fuzzy=False)
                if not entries and size > 1 and (one := stem(gram[-1].lower)) != gram[-1].lower:
                    # "plum cakes" are each a "plum cake"
                    entries = self._entries(text[start : gram[-1].start] + one, is_fuzzy=False)
                if entries:
                    mentions.append(ValueMention(text[start:end], start, end, entries))
                    taken.append((start, end))
        for size in range(min(_LONGEST_ALIAS, len(tokens)), 0, -1):
            for i in range(len(tokens) - size + 1):
                start, end = tokens[i].start, tokens[i + size - 1].end
                if any(s < end and start < e for s, e in taken):
                    continue
                if entries := self._by_alias(text[start:end], is_name=text[start].isupper()):
                    mentions.append(ValueMention(text[start:end], start, end, entries))
                    taken.append((start, end))
        tokens = [
            known
            for i, t in enumerate(tokens)
            for known in (
                [t]
                if any(s < t.end and t.start < e for s, e in taken) or (i and tokens[i - 1].text[0].isdigit())
                else self._as_known(t, i)
            )
        ]  # behind a number, a unit says what it counts in
        for start, end in self._names(tokens, taken):
            entries = self._entries(text[start:end], is_fuzzy=True)
            if entries and entries[0][1] >= 0.72:
                # Near in letters is not yet the same name: no value is better than another one's.
                entries = tuple((e, s) for e, s in entries if _is_spelled_like(text[start:end], e.text))
                mentions.append(ValueMention(text[start:end], start, end, entries))
                taken.append((start, end))
        for i, token in enumerate(tokens):
            if any(s < token.end and token.start < e for s, e in taken) or not self._may_be_value([token], i):
                continue
            folded = stem(token.lower)
            if folded != token.lower and folded not in self.schema_stems and (entries := self._entries(folded, is_fuzzy=False)):
                mentions.append(ValueMention(token.text, token.start, token.end, entries))
                taken.append((token.start, token.end))
        mentions.sort(key=lambda v: v.start)
        return self._items(tokens, mentions, text), mentions

    def _may_be_value(self, gram: Sequence[Token], position: int) -> bool:
        """Whether to look a stretch up: not for function words, nor for words of the vocabulary unless written as a name."""
        words = [t.lower for t in gram]
        if not words[0][0].isalnum() or words[0] in _NEVER_FIRST or not words[-1][0].isalnum():
            return False
        if len(gram) == 1:
            word = gram[0]
            if word.text.replace(",", "").replace(".", "").isdigit() or word.lower in NUMBER_WORDS or word.lower in STOPWORDS:
                return False
            if len(word.text) == 1 and not (word.text.isupper() and word.text != "I" and position):
                return False
            is_name = position > 0 and word.text[:1].isupper()
            return is_name or (stem(word.lower) not in self.schema_stems and word.lower not in _OPERATOR_WORDS)
        if all(w in STOPWORDS or w in _OPERATOR_WORDS for w in words):
            return False
        has_capital = any(t.text[:1].isupper() for t in (gram if position else gram[1:]))
        return has_capital or not all(stem(w) in self.schema_stems or w in STOPWORDS or w.isdigit() for w in words)

    def _entries(self, text: str, *, is_fuzzy: bool) -> tuple[tuple[ValueEntry, float], ...]:
        found = [(e, 1.0 if e.text == text else 0.9995) for e in self._values.lookup(normalise(text)) if self._is_data(e)]
        if not found and is_fuzzy:
            found = [(e, s) for e, s in self._values.search(text, 12) if s >= 0.6 and self._is_data(e)]
        best: dict[tuple[str | None, str | None, str], tuple[ValueEntry, float]] = {}
        for entry, score in found:
            key = (entry.subject_class, entry.property, entry.text)
            if key not in best or score > best[key][1]:
                best[key] = (entry, score)
        return tuple(sorted(best.values(), key=lambda x: (-x[1], -x[0].count))[:24])

    def _by_alias(self, text: str, *, is_name: bool) -> tuple[tuple[ValueEntry, float], ...]:
        """Values that have another name of *text*: of a country, a day, a sex; or its initials, or whose initials it is."""
        found: list[tuple[ValueEntry, float]] = []
        for alias in aliases(text):
            if alias.of or is_name:
                found += (
                    (e, 0.95) for e, _ in self._entries(alias.text, is_fuzzy=False)
                    if e.text == alias.text or len(alias.text) > 3
                    if not alias.of or alias.of & set(stems(self.schema.property_words(e.property or "")[0]))
                )  # fmt: skip
        if not found and is_name and text.isupper() and 1 < len(text) <= _LONGEST_ACRONYM and text.isalpha():
            found = [(e, 0.9) for e in self._acronyms.get(text, ())]
        if not found and is_name and len(short := initials(text)) > 2 and text[0].isupper():
            found = [(e, 0.9) for e, _ in self._entries(short, is_fuzzy=False) if e.text == short]
        return tuple(found[:24])

    @cached_property
    def _acronyms(self) -> Mapping[str, Sequence[ValueEntry]]:
        """Initials → the names that have them, of what names instances; the most frequent of each class."""
        found: dict[str, list[ValueEntry]] = {}
        for c in self.classes:
            name = self.schema.name_of(c.iri)
            for entry in self._values.examples(c.iri, name.path[0], _NAMES_READ) if name is not None else ():
                if len(short := initials(entry.text)) > 1:
                    found.setdefault(short, []).append(entry)
        return found

    def _as_known(self, token: Token, position: int) -> list[Token]:
        """*token*, or the words of the vocabulary that it is another spelling of: written together or with a hyphen, a unit, or
        a typing error that is no word."""
        word = token.lower.replace("-", "")
        if stem(token.lower) in self.schema_stems or word in STOPWORDS or not word.isalpha():
            return [token]
        if word != token.lower and stem(word) in self.schema_stems:
            return [Token(word, token.start, token.end)]
        if (parts := self._run_together.get(stem(word))) is not None:
            starts = list(itertools.accumulate((len(p) for p in parts[:-1]), initial=token.start))
            return [Token(p, s, e) for p, s, e in zip(parts, starts, [*starts[1:], token.end], strict=True)]
        known = in_vocabulary(word, self.schema_stems)
        if known is None and not (self.schema.splitter.knows(word) or (position and token.text[0].isupper())):
            known = corrected(stem(word), self._spellings)
        return [token if known is None else Token(known, token.start, token.end)]

    def _is_data(self, entry: ValueEntry) -> bool:
        """Whether the value belongs to an instance: labels of classes and properties are vocabulary."""
        return entry.subject_class in self.schema.classes and (entry.property is not None or entry.subject is not None)

    def _names(self, tokens: Sequence[Token], taken: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Runs of capitalised words (not the first of the sentence) that no exact value covers."""
        runs: list[tuple[int, int]] = []
        i = 1
        while i < len(tokens):
            j = i
            while j < len(tokens) and (tokens[j].text[:1].isupper() or (j > i and tokens[j].text[:1].isdigit())):
                if any(s < tokens[j].end and tokens[j].start < e for s, e in taken):
                    break
                j += 1
            if j > i and tokens[i - 1].text not in (".", "?", "!") and len(tokens[i].text) > 2:
                words = [stem(t.lower) for t in tokens[i:j]]
                if not all(w in self.schema_stems or w in STOPWORDS or w in _OPERATOR_WORDS for w in words):
                    runs.append((tokens[i].start, tokens[j - 1].end))
            i = max(j, i + 1)
        return runs

    @staticmethod
    def _items(tokens: Sequence[Token], mentions: Sequence[ValueMention], text: str) -> list[Item]:
        items: list[Item] = []
        done: set[int] = set()
        for token in tokens:
            inside = next((k for k, m in enumerate(mentions) if m.start <= token.start < m.end), None)
            if inside is not None:
                if inside not in done:
                    done.add(inside)
                    m = mentions[inside]
                    items.append(Item(m.text, "value", m.start, m.end, inside, is_date=m.period is not None))
                continue
            number = as_number(token.text)
            kind = "number" if number is not None else "word" if token.text[0].isalnum() or token.text == "'s" else "mark"
            items.append(Item(token.text, kind, token.start, token.end, -1, number))
        return items

    # -- classes and attributes

    def _only_heads(self) -> dict[str, str]:
        """Words that end the name of one class only ("company" where all companies are shipping companies) → that class, or a
        more general one that is near in meaning, since what makes the compound special is not said."""
        names = {c.iri: {stems(w) for w in c.words} for c in self.classes}
        holders: dict[str, set[str]] = {}
        for c, found in names.items():
            for words in found:
                for s in words:
                    holders.setdefault(s, set()).add(c)
        heads = {words[-1]: c for c, found in names.items() for words in found if len(words) > 1}
        heads = {s: c for s, c in heads.items() if len(holders[s]) == 1}
        vectors = self._encoder.encode(sorted(heads))
        at = {c.iri: i for i, c in enumerate(self.classes)}
        for s, vector in zip(sorted(heads), vectors, strict=True):
            above = [c for c in self.schema.index.vocabulary.superclasses.get(heads[s], ()) if c in at]
            best = max(above, key=lambda c: float(self._class_vectors[at[c]] @ vector), default="")
            if best and float(self._class_vectors[at[best]] @ vector) >= _NEAR:
                heads[s] = best
        return heads

    def _nouns(self, wanted: frozenset[str]) -> frozenset[str]:
        """*wanted* without the verbs of edges ("company operates"), unless nothing is left."""
        return frozenset(s for s in wanted if s[:_VERB] not in self._verbs or s in self.heads) or wanted

    def class_links(self, words: str, limit: int = 5) -> list[Link]:
        """Classes that *words* may mean."""
        wanted = self._nouns(frozenset(s for s in stems(words) if s not in STOPWORDS))
        if not wanted:
            return []
        vector = self._encoder.encode([words])[0]
        similar = self._class_vectors @ vector if len(self.classes) else np.zeros(0)
        links = []
        head = self.heads.get(next(iter(wanted))) if len(wanted) == 1 else None
        for c, cosine in zip(self.classes, similar.tolist(), strict=True):
            lexical = 0.97 if c.iri == head else max(overlap(wanted, s) for s in self._class_stems[c.iri])
            links.append(Link(c, _mix(lexical, cosine)))
        links.sort(key=lambda x: -x.score)
        return links[:limit]

    def without_verb(self, words: str) -> str:
        """*words* without a verb at their end, where what is left names a class: "operas" of "operas premiered"."""
        parts = words.split()
        for n in range(len(parts) - 1, 0, -1):
            verb, noun = parts[n], frozenset(stems(" ".join(parts[:n])))
            if any(noun == own for sets in self._class_stems.values() for own in sets):
                is_verb = verb.endswith("ed") or stem(verb)[:_VERB] in self._verbs or self._is_verb_of(verb)
                return " ".join(parts[:n]) if is_verb and stem(verb) not in self.schema_stems else words
        return words

    def _is_verb_of(self, word: str) -> bool:
        """Whether *word* is the verb of an attribute's noun: "weigh", of "weight"."""
        return len(word) >= _VERB and any(s.startswith(word) and len(s) <= len(word) + 1 for s in self.schema_stems - {word})

    def attribute_links(self, slot: Slot, limit: int = 8) -> list[Link]:
        """Attributes that the words of *slot* may mean, with and without its context."""
        wanted = frozenset(stems(slot.words))
        if not wanted or not self.attributes:
            return []
        context = frozenset(s for s in stems(slot.context) if s not in STOPWORDS)
        joined = "".join(stems(slot.words))
        texts = [slot.words, f"{slot.context} {slot.words}".strip()]
        bare, full = self._encoder.encode(texts)
        cosines = np.maximum(self._bare @ bare, self._full @ full)
        if not context:
            cosines = np.maximum(cosines, 0.97 * (self._full @ bare))
        links = []
        for i, a in enumerate(self.attributes):
            owner = max(self._class_stems[a.subject_class], key=lambda s: overlap(context or wanted, s))
            lexical = 0.0
            for own in self._attribute_stems[i]:
                lexical = max(lexical, overlap(wanted, own), 0.97 * overlap(wanted, own | owner))
                if context:
                    lexical = max(lexical, 0.97 * overlap(wanted | context, own | owner), 0.95 * overlap(wanted | context, own))
                if own and own <= wanted and (wanted - own) <= owner:
                    lexical = max(lexical, 1.0)
            if joined in self._joined[i]:
                lexical = 1.0
            score = _mix(lexical, float(cosines[i]))
            if self._nouns(wanted) <= owner and not any(wanted & own for own in self._attribute_stems[i]):
                score *= 0.75  # the words name the class, and say nothing about this attribute of it
            if context and overlap(context, owner) > 0.6:
                score += 0.12
            links.append(Link(a, min(score, 1.12)))
        links.sort(key=lambda x: (-x.score, len(x.term.path) if isinstance(x.term, Attribute) else 0))
        return links[:limit]

    def numeric(self, links: Sequence[Link]) -> list[Link]:
        """Those whose values have an order worth asking for: numbers and times first, texts far behind."""
        return sorted(
            (
                x
                if isinstance(x.term, Attribute) and (x.term.is_number or x.term.is_temporal)
                else replace(x, score=x.score - 0.3)
                for x in links
            ),
            key=lambda x: -x.score,
        )


_NEVER_FIRST = frozenset(
    "the a an of and or in on at is are was were to by with what which who how list show find give".split()
) - {"the"}
_OPERATOR_WORDS = frozenset(
    """average mean maximum minimum total sum number highest lowest largest smallest oldest youngest longest shortest most
    least fewest more less greater larger higher lower older younger than before after above below sorted ordered order
    ascending descending alphabetical names name top common popular first last use used using belong belongs located called
    named compute calculate id ids code codes date dates year type least best every least year years""".split()
)


_CURRENCIES = frozenset("$€£¥")


def _is_amount(tokens: Sequence[Token], i: int) -> bool:
    """Whether a number is next to token *i*, a currency sign: "$60", "60 €"."""
    return any(0 <= k < len(tokens) and tokens[k].text[0].isdigit() for k in (i - 1, i + 1))


_VERB = 5
"""Letters by which a verb is known in its forms (operates, operated)."""
_NEAR = 0.5
"""Cosine from which a word and a class's name are taken to mean the same kind of thing."""


def _is_spelled_like(mention: str, value: str) -> bool:
    """Whether every word of *mention* is one of *value*, give or take a letter or two, or begins one."""
    there = normalise(value).split()
    return all(
        any(w == t or (len(w) > 2 and t.startswith(w)) or SequenceMatcher(None, w, t).ratio() >= 0.75 for t in there)
        for w in normalise(mention).split()
    )


def as_number(text: str) -> float | None:
    """Read ``1,200.5``, ``12%`` or ``007``; None for anything else."""
    plain = text.rstrip("%").replace(",", "")
    return float(plain) if re.fullmatch(r"\d+(\.\d+)?", plain) else None


def overlap(a: frozenset[str], b: frozenset[str]) -> float:
    """F1 of two sets of words; words that begin alike count half."""
    if not a or not b:
        return 0.0
    common = float(len(a & b))
    for x in a - b:
        if any(len(x) > 3 and len(y) > 3 and (x.startswith(y[:5]) and y.startswith(x[:5])) for y in b - a):
            common += 0.6
    return min(1.0, 2 * common / (len(a) + len(b)))


def _mix(lexical: float, cosine: float) -> float:
    return max(0.55 * lexical + 0.45 * max(0.0, cosine), 0.95 * lexical if lexical >= 0.97 else 0.0, 0.8 * cosine)
