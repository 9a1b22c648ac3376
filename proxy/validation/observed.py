"""Which literals a property has, as the value index knows them: what may be there, and what certainly is not.

Everything here says *maybe* unless every literal of the property was read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from proxy.index.normalise import normalise
from proxy.index.support import SupportIndex
from proxy.index.values import ValueEntry, ValueIndex
from proxy.query.effort import spend
from proxy.query.literals import Family, Interval, family, interval, may_satisfy, spelling
from proxy.query.term import Literal

MAX_SCALED = 2_000
"""Distinct literals of one pair that are laid out on a scale, once, in some milliseconds; beyond, only the range is used."""
_MAX_KEPT = 10_000
_SEARCH = 1_500
"""What a search for texts alike counts for: up to 5 ms (docs/index.md), and some tenths on most graphs."""

Pair = tuple[str | None, str]
"""A class (None: nodes without one) and a property."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The literals of one family at one pair, by their lower ends. None of *intervals*: some lie nobody knows where."""

    intervals: tuple[Interval, ...]
    low: float
    high: float
    is_listed: bool
    """False: only *low* and *high* are known."""

    def may_hold(self, where: Interval) -> bool:
        if where[0] > self.high or where[1] < self.low:
            return False
        if not self.is_listed:
            return True
        at = bisect_left(self.intervals, (where[1], float("inf")))
        # widths grow with the values, so that upper ends are in the order of lower ends but for the sign: look at all below
        return any(upper >= where[0] for _, upper in self.intervals[:at])

    def may_satisfy(self, operator: str, limit: Interval) -> bool:
        return may_satisfy((self.low, self.high), operator, limit)


class Observed:
    """Answers about literals, for one build of both indexes. Reads SQLite, some microseconds each; remembers answers."""

    def __init__(self, index: SupportIndex, values: ValueIndex) -> None:
        self._index = index
        self._values = values
        self._users: dict[str, frozenset[str | None]] = {}
        self._complete: dict[Pair, bool] = {}
        self._scales: dict[tuple[Pair, Family], Scale | None] = {}
        self._contained: dict[tuple[tuple[Pair, ...], str, bool], bool] = {}
        self._held: dict[tuple[str, tuple[Pair, ...], Literal, bool], bool] = {}

    def pairs(self, property_: str, classes: Sequence[str]) -> tuple[Pair, ...] | None:
        """Completely read pairs that hold every literal that *property_* has at a node of all *classes*; None: some are not.

        Without *classes*: at any node; the caller knows that no chunk of the property is missing.
        """
        for c in classes:
            if self._is_complete((c, property_)):
                return ((c, property_),)
        users = self._users.get(property_)
        if users is None:
            kinds, index = self._index.kinds, self._index
            found: set[str | None] = set()
            for position in index.cells(property_).tolist():
                if kinds[index.object[position]].is_literal:
                    found.update(kinds[index.subject[position]].classes or (None,))
            users = self._users[property_] = frozenset(found)
        pairs = tuple((c, property_) for c in sorted(users, key=lambda c: c or ""))
        return pairs if all(self._is_complete(p) for p in pairs) else None

    def _is_complete(self, pair: Pair) -> bool:
        found = self._complete.get(pair)
        if found is None:
            found = self._complete[pair] = self._values.is_complete(*pair)
        return found

    def may_hold(self, pairs: tuple[Pair, ...], literal: Literal, *, by_spelling: bool = False) -> bool:
        """Whether one of *pairs*, all complete, may have a literal that some engine holds equal to *literal*.

        by_spelling: whether its lexical form may be that of *literal*.
        """
        if not pairs:
            return True
        key = (pairs[0][1], pairs, literal, by_spelling)
        found = self._held.get(key)
        if found is None:
            if len(self._held) > _MAX_KEPT:
                self._held.clear()
            found = self._held[key] = self._looks_held(pairs, literal, by_spelling)
        return found

    def _looks_held(self, pairs: tuple[Pair, ...], literal: Literal, by_spelling: bool) -> bool:
        of = Family.TEXT if by_spelling else family(literal.datatype)
        if of is Family.OTHER:
            return True
        if of is Family.TEXT:
            return any((e.subject_class, e.property) in pairs for e in self.spelled(literal.lexical))
        where = interval(literal.lexical, of)
        if where is None:
            return True
        scales = [self.scale(pair, of) for pair in pairs]
        return any(scale is None or scale.may_hold(where) for scale in scales)

    def may_contain(self, pairs: tuple[Pair, ...], text: str, *, ignores_case: bool) -> bool:
        """Whether a text at one of *pairs*, all complete, may have *text* in it."""
        key = (pairs, text, ignores_case)
        found = self._contained.get(key)
        if found is None:
            if len(self._contained) > _MAX_KEPT:
                self._contained.clear()
            found = self._contained[key] = any(self._contains(pair, text, ignores_case) for pair in pairs)
        return found

    def _contains(self, pair: Pair, text: str, ignores_case: bool) -> bool:
        distinct = self._values.distinct(*pair)
        if distinct is None or distinct > MAX_SCALED:
            return True
        spend(50 + distinct)
        wanted = spelling(text)
        if ignores_case and not wanted.isascii():
            return True  # engines differ in how they fold what is not ASCII
        texts = (spelling(e.text) for e in self._values.examples(*pair, limit=MAX_SCALED + 1))
        if ignores_case:
            wanted = wanted.lower()
            return any(wanted in t.lower() or (not t.isascii() and wanted in t.casefold()) for t in texts)
        return any(wanted in t for t in texts)

    def may_satisfy(self, pairs: tuple[Pair, ...], operator: str, limit: Literal) -> bool:
        """Whether a number, date or time at one of *pairs*, all complete, may stand so to *limit*."""
        of = family(limit.datatype)
        where = interval(limit.lexical, of)
        if where is None:
            return True
        scales = [self.scale(pair, of) for pair in pairs]
        return any(scale is None or scale.may_satisfy(operator, where) for scale in scales)

    def scale(self, pair: Pair, of: Family) -> Scale | None:
        """Where the literals of a family lie at a complete pair; None: some of them cannot be placed."""
        key = (pair, of)
        if key not in self._scales:
            self._scales[key] = self._laid_out(pair, of)
        return self._scales[key]

    def _laid_out(self, pair: Pair, of: Family) -> Scale | None:
        summary = self._values.summary(*pair)
        if summary is None or summary.distinct is None:
            return None
        if summary.distinct <= MAX_SCALED:
            spend(50 + 4 * summary.distinct)
            found: list[Interval] = []
            for e in self._values.examples(*pair, limit=MAX_SCALED + 1):
                if family(e.datatype) is not of:
                    continue
                where = interval(e.text, of)
                if where is None:
                    # NaN and what is ill-typed is greater, less and equal to nothing, but a time without a date is a time
                    if of is Family.NUMBER:
                        continue
                    return None
                found.append(where)
            found.sort()
            low = min((x for x, _ in found), default=float("inf"))
            high = max((x for _, x in found), default=float("-inf"))
            return Scale(tuple(found), low, high, True)
        if of is not Family.NUMBER or summary.low is None or summary.high is None:
            return None
        if any(e.property == pair[1] for e in self._values.lookup("inf")):
            return None  # the range is that of finite numbers
        low_, high_ = interval(repr(summary.low), of), interval(repr(summary.high), of)
        return None if low_ is None or high_ is None else Scale((), low_[0], high_[1], False)

    # -- for messages

    def spelled(self, text: str) -> list[ValueEntry]:
        """The literals and local names that are spelled *text*, whatever their datatype and language."""
        wanted = spelling(text)
        return [e for e in self._values.lookup(normalise(text)) if spelling(e.text) == wanted]

    def examples(self, pairs: Sequence[Pair], limit: int = 3) -> list[str]:
        """The most frequent texts of *pairs*."""
        found = [e for pair in pairs for e in self._values.examples(*pair, limit=limit)]
        found.sort(key=lambda e: (-e.count, e.text))
        return list(dict.fromkeys(e.text for e in found))[:limit]

    def distinct(self, pair: Pair) -> int:
        """Different literals of a complete pair."""
        return self._values.distinct(*pair) or 0

    def alike(self, pairs: Sequence[Pair], text: str, limit: int = 3) -> list[tuple[str, str | None, str]]:
        """Literals of *pairs* that are spelled most like *text*: (text, language, datatype), best first."""
        spend(_SEARCH)
        wanted = set(pairs)
        found: dict[tuple[str, str | None, str], None] = {}
        for e, score in self._values.search(text, limit=24):
            if score >= 0.6 and e.property is not None and (e.subject_class, e.property) in wanted:
                found.setdefault((e.text, e.language, e.datatype))
        return list(found)[:limit]

    def called(self, text: str, limit: int = 3) -> list[str]:
        """The nodes whose names are spelled most like *text*, best first."""
        spend(_SEARCH)
        found = (e.subject for e, score in self._values.search(text, limit=24) if score >= 0.6 and e.subject is not None)
        return list(dict.fromkeys(found))[:limit]

    def range_of(self, pairs: Sequence[Pair], of: Family) -> tuple[str, str] | None:
        """Least and greatest number or date of *pairs*, as text."""
        lows: list[float | str] = []
        highs: list[float | str] = []
        for pair in pairs:
            found = self._values.number_range(*pair) if of is Family.NUMBER else self._values.date_range(*pair)
            if found is not None:
                lows.append(found[0])
                highs.append(found[1])
        if not lows:
            return None
        return _shown(min(lows)), _shown(max(highs))


def _shown(value: float | str) -> str:
    return f"{value:,.15g}" if isinstance(value, float) else str(value)
