"""Whether an answer is the right one: three ways to compare solution sequences, by what a person would call the same.

*strict*: the same number of columns and, in some order of them, the same set of rows; where the right answer has an order, the
same rows in it, ties free. *columns*: extra columns and the order of rows are forgiven. *f1*: harmonic mean of precision and
recall over the set of all values, names and types ignored, as TEXT2SPARQL scores; two empty answers are alike.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from proxy.query.term import Iri, Literal, RdfTerm

COLUMNS_MOST = 6
"""Wider answers are not tried in every order of columns; they count as wrong."""
Value = str | float | bool | None
Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Solutions as comparable values. ASK: one column ``boolean`` with one row."""

    variables: tuple[str, ...]
    rows: Sequence[Row]


class ErrorKind(StrEnum):
    """What became of a question. ABSTAINED: refused. FAILED: the query did not run. PROJECTION: right but for the columns."""

    RIGHT = "right"
    ABSTAINED = "abstained"
    FAILED = "failed"
    EMPTY = "empty"
    PROJECTION = "projection"
    ORDER = "order"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Score:
    strict: float
    columns: float
    f1: float
    kind: ErrorKind


def comparable(term: RdfTerm | None) -> Value:
    """Numbers by value, to six decimals; everything else by its text."""
    if term is None:
        return None
    if isinstance(term, Iri):
        return term.value
    if isinstance(term, Literal):
        return number_or_text(term.lexical)
    return str(term)


def number_or_text(text: str) -> Value:
    try:
        number = float(text)
    except ValueError:
        return text
    return round(number, 6) if math.isfinite(number) else text


def matches(gold: Answer, got: Answer, *, groups: Sequence[int] | None = None, may_have_more: bool = False) -> bool:
    """Whether *got* has the rows of *gold*.

    groups: sizes of the runs of equal rank, where order counts. may_have_more: further columns are forgiven.
    """
    n_gold, n_got = len(gold.variables), len(got.variables)
    if n_got < n_gold or (n_got > n_gold and not may_have_more) or n_got > COLUMNS_MOST:
        return False
    want = set(gold.rows)
    for order in itertools.permutations(range(n_got), n_gold):
        rows = [tuple(r[i] for i in order) for r in got.rows]
        if set(rows) == want and (not groups or (len(rows) == len(gold.rows) and _in_order(gold.rows, rows, groups))):
            return True
    return False


def _in_order(gold: Sequence[Row], got: Sequence[Row], groups: Sequence[int]) -> bool:
    start = 0
    for size in groups:
        if Counter(got[start : start + size]) != Counter(gold[start : start + size]):
            return False
        start += size
    return True


def set_f1(gold: Answer, got: Answer) -> float:
    """See the head of this module."""
    want = {v for row in gold.rows for v in row if v is not None}
    have = {v for row in got.rows for v in row if v is not None}
    if not want and not have:
        return 1.0
    return 2 * len(want & have) / (len(want) + len(have))


def score(
    golds: Sequence[Answer], got: Answer | None, *, groups: Sequence[int] | None = None, abstained: bool = False
) -> Score:
    """Score *got* against each of the accepted answers *golds*, and take the best. None: it abstained, or its query failed."""
    if got is None:
        return Score(0.0, 0.0, 0.0, ErrorKind.ABSTAINED if abstained else ErrorKind.FAILED)
    f1 = max(set_f1(g, got) for g in golds)
    if any(matches(g, got, groups=groups) for g in golds):
        return Score(1.0, 1.0, f1, ErrorKind.RIGHT)
    if any(matches(g, got) for g in golds):
        return Score(0.0, 1.0, f1, ErrorKind.ORDER)
    if any(matches(g, got, may_have_more=True) for g in golds):
        return Score(0.0, 1.0, f1, ErrorKind.PROJECTION)
    if any(matches(got, g, may_have_more=True) for g in golds if got.rows):
        return Score(0.0, 0.0, f1, ErrorKind.PROJECTION)
    return Score(0.0, 0.0, f1, ErrorKind.WRONG if got.rows else ErrorKind.EMPTY)
