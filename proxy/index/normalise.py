"""One form for texts that a person would call the same.

Exact lookups compare ``normalise``; fuzzy ones compare ``fold``, which also drops accents. Both ends of a comparison go through
the same function, so the form itself is never shown to anyone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_KEPT_MARKS = frozenset("%.,-")
_JOINING = re.compile(r"(?<=\w)['\u2019\u02bc](?=\w)")
_LOOSE_MARK = re.compile(r"(?<!\d)[.,]|[.,](?!\d)|(?<=\S)-|-(?!\d)")
_PLAIN_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_USUAL = np.isin(np.arange(256), [c for c in range(128) if chr(c).isalnum() or c == ord(" ")])
"""(bytes,) letters, digits and the blank of ASCII."""


class _Separators(dict[int, str]):
    """Code point → itself, or a blank for punctuation, separators and controls; learns as it is asked."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        is_separator = unicodedata.category(char)[0] in "PZC" and char not in _KEPT_MARKS
        self[code] = " " if is_separator else char
        return self[code]


_SEPARATORS = _Separators()


def normalise(text: str) -> str:
    """Fold compatibility forms, case, punctuation and blanks.

    ``O'Brien`` and ``OBrien``, ``New-York`` and ``new york`` become equal; ``3.5``, ``-2`` and ``C++`` keep what makes them
    different. A text of nothing but punctuation keeps it.
    """
    if text.isascii():
        lowered = text.lower()
        if lowered.replace(" ", "").isalnum():  # most labels: nothing to fold but case and blanks
            return lowered if "  " not in lowered and lowered[0] != " " != lowered[-1] else " ".join(lowered.split())
        if _PLAIN_NUMBER.fullmatch(lowered):
            return lowered
    else:
        lowered = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    folded = _LOOSE_MARK.sub(" ", _JOINING.sub("", lowered).translate(_SEPARATORS))
    return " ".join(folded.split()) or " ".join(lowered.split())


def normalise_all(texts: Sequence[str]) -> list[str]:
    """``normalise`` of each; those of letters, digits and single blanks, which most are, at once."""
    joined = "\n".join([*texts, ""])
    if joined.count("\n") != len(texts):
        odd = [i for i, text in enumerate(texts) if "\n" in text]
        lines = list(texts)
        for i in odd:
            lines[i] = ""
        found = normalise_all(lines)
        for i in odd:
            found[i] = normalise(texts[i])
        return found
    letters = joined.encode("utf-8", "surrogatepass")
    found = letters.lower().decode("utf-8", "surrogatepass").split("\n")
    found.pop()
    for i in _unusual(letters).tolist():
        found[i] = normalise(texts[i])
    return found


def _unusual(lines: bytes) -> NDArray[np.intp]:
    """Numbers of the *lines* in which more may have to be folded than the case of ASCII letters."""
    points = np.frombuffer(b"\n" + lines, dtype=np.uint8)
    is_blank, is_end = points == ord(" "), points == ord("\n")
    is_unusual = ~(_USUAL[points] | is_end)
    is_unusual[1:] |= is_blank[1:] & (is_blank | is_end)[:-1]  # a blank at the beginning, or behind another
    is_unusual[:-1] |= is_blank[:-1] & is_end[1:]  # or at the end
    return np.unique(np.searchsorted(np.flatnonzero(is_end), np.flatnonzero(is_unusual))) - 1


def fold(text: str) -> str:
    """``normalise`` without combining marks: ``São`` and ``Sao`` become equal."""
    return without_marks(normalise(text))


def without_marks(normalised: str) -> str:
    """The second half of ``fold``, for a text that is normalised already."""
    if normalised.isascii():
        return normalised
    decomposed = unicodedata.normalize("NFKD", normalised)
    return unicodedata.normalize("NFC", "".join(c for c in decomposed if unicodedata.category(c) != "Mn"))


def local_name(iri: str) -> str:
    """The part of *iri* after its last ``#``, ``/`` or (in a URN) ``:``, percent-escapes read; *iri* where there is none."""
    for separator in ("#", "/", ":"):
        before, _, after = iri.rstrip("#/").rpartition(separator)
        if before and after:
            return _unescape(after)
    return iri


def words(iri: str) -> str:
    """``local_name`` as a person would write it: ``hasDeliveryDate`` → ``has Delivery Date``, ``order_id`` → ``order id``."""
    spaced = _CAMEL.sub(" ", local_name(iri))
    return " ".join(re.sub(r"[_\-+=;:,.]+", " ", spaced).split()) or iri


def _unescape(text: str) -> str:
    if not _ESCAPE.search(text):
        return text
    raw = re.sub(rb"%([0-9A-Fa-f]{2})", lambda m: bytes([int(m[1], 16)]), text.encode())
    return raw.decode("utf-8", errors="replace")
