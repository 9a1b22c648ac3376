"""Which literals may be equal, and in which order they stand, for engines that differ in how closely they look.

Everything errs on one side: what some engine might hold equal *is* maybe equal here. Numbers are compared as numbers whatever
their type, with room for single precision; dates with room for any time zone; texts as they are written, without regard to
datatype or language tag.
"""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum

from proxy.query.term import RDF_LANG_STRING, XSD, XSD_STRING, Literal

NUMERIC = frozenset(
    XSD + name
    for name in (
        "integer decimal double float int long short byte unsignedInt unsignedLong unsignedShort unsignedByte"
        " nonNegativeInteger positiveInteger nonPositiveInteger negativeInteger"
    ).split()
)
TEMPORAL = frozenset(
    XSD + n for n in ("date", "dateTime", "dateTimeStamp", "time", "gYear", "gYearMonth", "gMonth", "gDay", "gMonthDay")
)
BOOLEAN = XSD + "boolean"
ORDERED = NUMERIC | TEMPORAL


class Family(StrEnum):
    """Datatypes whose literals may be equal in value. OTHER: nothing is known of its values."""

    NUMBER = "number"
    TIME = "time"
    BOOLEAN = "boolean"
    TEXT = "text"
    OTHER = "other"


_FAMILY = {
    **dict.fromkeys(NUMERIC, Family.NUMBER),
    **dict.fromkeys(TEMPORAL, Family.TIME),
    BOOLEAN: Family.BOOLEAN,
    XSD_STRING: Family.TEXT,
    RDF_LANG_STRING: Family.TEXT,
    # RDF 1.2: a language-tagged string with a base direction
    RDF_LANG_STRING.replace("langString", "dirLangString"): Family.TEXT,
}

Interval = tuple[float, float]

# float() would take "1_0" and "nan" as well
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|INF)", re.ASCII)
_DAY = re.compile(r"(-?[0-9]{4,9})(?:-([0-9]{2})(?:-([0-9]{2})(?:T.*)?)?)?(?:Z|[+-][0-9]{2}:[0-9]{2})?", re.ASCII | re.DOTALL)
_SINGLE = 1e-6
"""Relative precision of xsd:float, to which numbers of other types are promoted (XPath, B.1), rounded up."""
_ZONES = 3.0
"""Days, on a scale where each month has 31: more than two time zones and the end of February can make."""


def family(datatype: str) -> Family:
    return _FAMILY.get(datatype, Family.OTHER)


def spelling(lexical: str) -> str:
    """The form in which lexical forms are compared: some stores normalise Unicode."""
    return lexical if lexical.isascii() else unicodedata.normalize("NFC", lexical)


def number(lexical: str) -> Interval | None:
    """Where the number lies, roughly; None: it is none, or NaN."""
    text = lexical.strip()
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    if abs(value) > 1e38:  # infinite, in single precision
        return (1e38, float("inf")) if value > 0 else (float("-inf"), -1e38)
    room = abs(value) * _SINGLE + 1e-37
    return value - room, value + room


def time(lexical: str) -> Interval | None:
    """Where the day, month or year lies on a scale of days, roughly; None: no such thing."""
    m = _DAY.fullmatch(lexical.strip())
    if m is None:
        return None
    year, month, day = int(m[1]) * 372.0, m[2], m[3]
    low = year + (int(month) * 31 if month else 31) + (int(day) if day else 1)
    high = year + (int(month) * 31 if month else 372) + (int(day) if day else 31)
    return low - _ZONES, high + _ZONES


def truth(lexical: str) -> Interval | None:
    match lexical.strip():
        case "true" | "1":
            return 1.0, 1.0
        case "false" | "0":
            return 0.0, 0.0
    return None


_SCALES = {Family.NUMBER: number, Family.TIME: time, Family.BOOLEAN: truth}


def interval(lexical: str, of: Family) -> Interval | None:
    """Where *lexical* lies on the scale of a family; None: nobody knows, or it has no scale."""
    scale = _SCALES.get(of)
    return None if scale is None else scale(lexical)


def overlap(a: Interval, b: Interval) -> bool:
    return a[0] <= b[1] and b[0] <= a[1]


def may_be_equal(a: Literal, b: Literal) -> bool:
    """Whether some engine may hold one term equal to both."""
    if spelling(a.lexical) == spelling(b.lexical):
        return True
    families = {family(a.datatype), family(b.datatype)}
    if families == {Family.TEXT} or families == {Family.TEXT, Family.OTHER}:
        return False
    if Family.OTHER in families:
        return True
    # of two families, such as a text and a number, compare as the one that has a scale
    families.discard(Family.TEXT)
    if len(families) > 1:
        return True
    (one,) = families
    x, y = interval(a.lexical, one), interval(b.lexical, one)
    if x is None or y is None:
        # ill-typed, or not a number: equal to nothing but what is spelled the same, except where nothing is known
        return one is Family.TIME
    return overlap(x, y)


def may_satisfy(where: Interval, operator: str, limit: Interval) -> bool:
    """Whether a value at *where* may be ``<``, ``<=``, ``>`` or ``>=`` than one at *limit*."""
    return where[0] <= limit[1] if operator in ("<", "<=") else where[1] >= limit[0]
