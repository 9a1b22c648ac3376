"""Other names of what a question says: demonyms, country codes, abbreviations of days and units, initials; and typing errors.

General knowledge as data (``models/aliases.json``), and what follows from the graph itself: the initials of its own names. An
alias is tried only where nothing is found under the name as it was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from rapidfuzz import process
from rapidfuzz.distance import OSA

from proxy.index.normalise import normalise
from proxy.nl.words import stem


@dataclass(frozen=True, slots=True)
class Alias:
    """*text*, another name; of: words one of which an attribute's name must have to hold it, none: any attribute."""

    text: str
    of: frozenset[str] = frozenset()


@lru_cache(maxsize=1)
def _tables() -> tuple[Mapping[str, Sequence[Alias]], Mapping[str, Sequence[str]]]:
    data = json.loads((resources.files("proxy.nl") / "models" / "aliases.json").read_text(encoding="utf-8"))
    names: dict[str, list[Alias]] = {}
    for group in data["groups"]:
        of = frozenset(group.get("of", ()))
        for name in group["names"]:
            names.setdefault(_key(name), []).extend(Alias(other, of) for other in group["names"] if other != name)
    units: dict[str, list[str]] = {}
    for unit in data["units"]:
        for name in unit:
            units.setdefault(stem(name), []).extend(stem(other) for other in unit if other != name)
    return names, units


def _key(name: str) -> str:
    """Codes of up to three letters are names only as they are written, in capitals: "in" is no country."""
    return name if len(name) <= 3 and name.isupper() else normalise(name)


def aliases(name: str) -> Sequence[Alias]:
    """Other names of what is called *name*; empty where none is known."""
    return _tables()[0].get(_key(name), ())


def in_vocabulary(word: str, vocabulary: Iterable[str] | frozenset[str]) -> str | None:
    """A unit's other name that *vocabulary* (stems) has: ``kilometres`` → ``km``."""
    return next((u for u in _tables()[1].get(stem(word), ()) if u in vocabulary), None)


def corrected(word: str, vocabulary: Sequence[str]) -> str | None:
    """The one word of *vocabulary* that *word* is a typing error of: one letter (of long words two) added, lost, changed or
    swapped, never the first."""
    if len(word) < _SHORTEST or not word.isalpha():
        return None
    most = 1 if len(word) < _LONG else 2
    same_start = [v for v in vocabulary if v[0] == word[0] and len(v) >= _SHORTEST - 1]
    found = process.extract(word, same_start, scorer=OSA.distance, score_cutoff=most, limit=2)
    if not found or (len(found) > 1 and found[0][1] == found[1][1]):
        return None
    return str(found[0][0])


_SHORTEST = 4
_LONG = 9


def initials(text: str) -> str:
    """``Massachusetts Institute of Technology`` → ``MIT``; empty for a single word."""
    words = [w for w in text.replace("-", " ").split() if w[:1].isalpha()]
    return "".join(w[0] for w in words if w.lower() not in _SMALL).upper() if len(words) > 1 else ""


_SMALL = frozenset("of the and for in de la du der von & an a".split())
