"""Words: how names in IRIs and questions are cut into them, and when two of them are the same."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from proxy.index.normalise import normalise

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=[0-9])")
_SEPARATORS = re.compile(r"[^\w]+|_+", re.UNICODE)
_OPAQUE = re.compile(r"(?:[A-Za-z]{0,3}[-_]?\d+)|(?:[0-9a-f-]{16,})", re.IGNORECASE)

IRREGULAR: Mapping[str, str] = {
    "people": "person", "persons": "person", "men": "man", "women": "woman", "children": "child", "feet": "foot",
    "mice": "mouse", "geese": "goose", "teeth": "tooth", "data": "datum", "criteria": "criterion", "indices": "index",
    "matrices": "matrix", "analyses": "analysis", "leaves": "leaf", "lives": "life", "wives": "wife", "knives": "knife",
    "movies": "movie", "cookies": "cookie", "series": "series", "species": "species", "faculties": "faculty", "staff": "staff",
}  # fmt: skip

ABBREVIATIONS: Mapping[str, str] = {
    "id": "id", "fname": "first name", "lname": "last name", "mname": "middle name", "dob": "date of birth", "num": "number",
    "nr": "number", "no": "number", "qty": "quantity", "amt": "amount", "desc": "description", "descr": "description",
    "addr": "address", "dept": "department", "emp": "employee", "cust": "customer", "tel": "telephone", "avg": "average",
    "max": "maximum", "min": "minimum", "pct": "percent", "org": "organization", "prof": "professor", "lat": "latitude",
    "lng": "longitude", "lon": "longitude", "yr": "year", "temp": "temperature", "dest": "destination", "src": "source",
    "stu": "student", "fac": "faculty", "acc": "account", "acct": "account", "trans": "transaction", "hq": "headquarters",
    "cd": "code", "ref": "reference", "info": "information", "pos": "position", "mgr": "manager", "uid": "user id",
}  # fmt: skip
"""Abbreviations that names of columns and properties use in general, spelled out. Data models are full of them; questions
are not."""

STOPWORDS = frozenset(
    """a an the of for in on at to by with from as into onto about is are was were be been being am do does did done have has
    had having and or but if then than that this these those which who whom whose what when where why how it its their them they
    he she his her him there here all any some each every me my we our us you your i please show list give find return tell
    display get provide can could would will shall should may might must not no also both either neither only just so such same
    other another s t re d ll ve m many much number count total different distinct unique along together per between among over
    under out up down off
    """.split()
)


@dataclass(frozen=True, slots=True)
class Token:
    """One word, number or mark of the question. *start* and *end* are offsets in its text."""

    text: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        return self.text.lower()


_TOKEN = re.compile(r"\d+(?:[.,]\d+)*%?|\w+(?:[-./&]\w+)*(?:'s\b)?|[^\w\s]", re.UNICODE)


_CONTRACTIONS = (
    (re.compile(r"\bcan't\b", re.IGNORECASE), "can not"),
    (re.compile(r"\bwon't\b", re.IGNORECASE), "will not"),
    (re.compile(r"n't\b", re.IGNORECASE), " not"),
    (re.compile(r"\b(what|who|where|when|how|that|there|it)'s\b", re.IGNORECASE), r"\1 is"),
)


def expand(text: str) -> str:
    """Collapse blanks and write contractions out: ``don't`` → ``do not``."""
    # A typographic apostrophe closes a quotation too, so it only becomes a plain one inside a word.
    text = re.sub(r"(?<=\w)[’ʼ](?=\w)", "'", " ".join(text.split()))
    for pattern, replacement in _CONTRACTIONS:
        text = pattern.sub(replacement, text)
    return text


def tokenize(text: str) -> list[Token]:
    """Cut *text* into words, numbers and marks; a possessive ending becomes a token of its own."""
    tokens: list[Token] = []
    for m in _TOKEN.finditer(text):
        word = m.group()
        if word.endswith("'s") and len(word) > 2:
            tokens.append(Token(word[:-2], m.start(), m.end() - 2))
            tokens.append(Token("'s", m.end() - 2, m.end()))
        else:
            tokens.append(Token(word, m.start(), m.end()))
    return tokens


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Fold plurals (and nothing else): ``cities`` → ``city``, ``buses`` → ``bus``, ``people`` → ``person``."""
    w = word.lower()
    if w in IRREGULAR:
        return IRREGULAR[w]
    if len(w) > 4 and w.endswith("ies"):
        return w[:-3] + "y"
    if len(w) > 4 and w.endswith(("sses", "xes", "ches", "shes", "zes")):
        return w[:-2]
    if len(w) > 3 and w.endswith("s") and not w.endswith(("ss", "us", "is")):
        return w[:-1]
    return w


@lru_cache(maxsize=65536)
def stems(text: str) -> tuple[str, ...]:
    return tuple(stem(w) for w in normalise(text).split())


def local_name(iri: str) -> str:
    """The informative end of an IRI: what follows the last ``#`` or ``/`` (or ``:``), percent-decoded."""
    tail = re.split(r"[#/]", iri.rstrip("#/"))[-1]
    if tail == iri and ":" in iri:
        tail = iri.rsplit(":", 1)[1]
    return unquote(tail)


def is_opaque(name: str) -> bool:
    """Whether a local name is an identifier (Q42, P31, 0017) that says nothing."""
    return bool(_OPAQUE.fullmatch(name))


class Splitter:
    """Cuts names into words, run-together ones too.

    ranks: word → rank by frequency (1 is the most frequent), such as a tokenizer's vocabulary gives; empty: no cutting of
        run-together words.
    """

    def __init__(self, ranks: Mapping[str, int]) -> None:
        self._ranks = ranks

    def knows(self, word: str) -> bool:
        """Whether *word* is one by itself, as far as the ranks tell; an empty table knows every word."""
        return not self._ranks or word in self._ranks or stem(word) in self._ranks

    def words(self, name: str) -> str:
        """``petType`` → ``pet type``, ``lifeexpectancy`` → ``life expectancy``, ``fname`` → ``first name``."""
        parts: list[str] = []
        for piece in _SEPARATORS.split(name):
            for word in _CAMEL.split(piece):
                if word:
                    parts.extend(self._expand(word.lower()))
        return " ".join(parts)

    def _expand(self, word: str) -> list[str]:
        if word in ABBREVIATIONS:
            return ABBREVIATIONS[word].split()
        if not self._ranks or len(word) < 5 or not word.isalpha() or word in self._ranks or stem(word) in self._ranks:
            return [word]
        cut = self._cut(word)
        return [w for part in cut for w in ABBREVIATIONS.get(part, part).split()]

    def _cut(self, word: str) -> Sequence[str]:
        """The likeliest cutting into known words (Viterbi over log ranks, Zipf's law); the word itself if there is none."""
        best: list[tuple[float, tuple[str, ...]] | None] = [None] * (len(word) + 1)
        best[0] = (0.0, ())
        for end in range(2, len(word) + 1):
            for start in range(max(0, end - 14), end - 1):
                before, part = best[start], word[start:end]
                if before is None:
                    continue
                rank = self._ranks.get(part)
                if part in ABBREVIATIONS:
                    rank = min(rank or 3000, 3000)
                if rank is None or (len(part) == 2 and part not in ABBREVIATIONS):
                    continue
                cost = before[0] + 4.0 + math.log(rank + 1.0)
                if (now := best[end]) is None or cost < now[0]:
                    best[end] = (cost, (*before[1], part))
        found = best[len(word)]
        return found[1] if found is not None and len(found[1]) <= 3 else (word,)
