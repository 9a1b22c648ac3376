"""From the literals of one (class, property) to value entries and what can be said about all of them together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from proxy.index.build import Row, number
from proxy.index.normalise import words
from proxy.index.values import PairSummary, ValueEntry
from proxy.query.term import XSD, XSD_STRING, Iri, Literal, RdfTerm

NUMBERS: Final = frozenset(
    XSD + name
    for name in (
        "integer decimal double float long int short byte nonNegativeInteger positiveInteger nonPositiveInteger "
        "negativeInteger unsignedLong unsignedInt unsignedShort unsignedByte"
    ).split()
)
TIMES: Final = frozenset(XSD + name for name in "date dateTime dateTimeStamp time gYear gYearMonth".split())


def entries(rows: Iterable[Row], subject_class: str | None, property_: str) -> list[ValueEntry]:
    """Read the answer of ``chunks.values``."""
    found = []
    for row in rows:
        value, one, count = row["v"], row.get("one"), number(row["n"])
        if isinstance(value, Literal):
            subject = one.value if count == 1 and isinstance(one, Iri) else None
            language = value.language and value.language.lower()
            found.append(ValueEntry(value.lexical, language, value.datatype, property_, subject_class, count, subject))
    return found


def named_by_iri(rows: Iterable[Row], subject_class: str) -> list[ValueEntry]:
    """Read the answer of ``chunks.names``: for each node the words in its IRI."""
    iris = [s.value for row in rows if isinstance(s := row["s"], Iri)]
    return [ValueEntry(words(iri), None, XSD_STRING, None, subject_class, 1, iri) for iri in iris]


def describe(found: Sequence[ValueEntry], *, is_complete: bool, distinct: int | None) -> PairSummary:
    """Sum up the entries of one pair; ranges are those of the entries given.

    Times are compared as they are written, which is their order as long as years have four digits and time zones agree.
    """
    numbers = [x for e in found if e.datatype in NUMBERS and (x := number_of(e.text)) is not None]
    times = [e.text for e in found if e.datatype in TIMES]
    return PairSummary(
        distinct,
        min(numbers, default=None),
        max(numbers, default=None),
        min(times, default=None),
        max(times, default=None),
        is_complete,
    )


def range_of(row: Row) -> tuple[RdfTerm | None, RdfTerm | None]:
    """Read the answer of ``chunks.extremes``."""
    return row.get("lo"), row.get("hi")


def as_number(term: RdfTerm | None) -> float | None:
    return number_of(term.lexical) if isinstance(term, Literal) else None


def as_text(term: RdfTerm | None) -> str | None:
    return term.lexical if isinstance(term, Literal) else None


def number_of(lexical: str) -> float | None:
    """The value of a lexical form, or None where it has none, is infinite, or not a number."""
    try:
        value = float(lexical)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
