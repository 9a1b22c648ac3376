"""Dates as people write them: "March 2001", "5 March 2001", "3/5/2001", "the 1990s", ISO 8601; each a period with two ends."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date, timedelta

from proxy.nl.ir import Operator
from proxy.query.term import XSD, Literal

MONTHS = {
    name: number
    for number, names in enumerate(
        ("january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
         "september sep sept", "october oct", "november nov", "december dec"), start=1
    )
    for name in names.split()
}  # fmt: skip
_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_TIME = r"(?:[ T](?P<time>\d{1,2}:\d{2}(?::\d{2})?))?"
_FORMS = [
    re.compile(rf"(?P<year>\d{{4}})-(?P<month>\d{{1,2}})(?:-(?P<day>\d{{1,2}}){_TIME})?", re.IGNORECASE),
    re.compile(rf"(?P<month>\d{{1,2}})/(?P<day>\d{{1,2}})/(?P<year>\d{{4}}){_TIME}", re.IGNORECASE),
    re.compile(rf"(?P<month>{_MONTH})\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year>\d{{4}})", re.IGNORECASE),
    re.compile(rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\.?(?: of)? (?P<month>{_MONTH})\.?,? (?P<year>\d{{4}})", re.IGNORECASE),
    re.compile(rf"(?P<month>{_MONTH})\.?,?(?: of)? (?P<year>\d{{4}})", re.IGNORECASE),
    re.compile(r"(?P<decade>\d{3}0)s"),
]
PATTERN = re.compile("|".join(rf"\b{re.sub(r'[?]P<[a-z]+>', '?:', f.pattern)}\b" for f in _FORMS), re.IGNORECASE)
"""Finds dates of more than a year in a text."""


@dataclass(frozen=True, slots=True)
class Period:
    """From *first* to before *after*, days as ISO 8601. moment: the time of day, where one was said."""

    first: str
    after: str
    moment: str = ""

    def bounds(self, operator: Operator, datatype: str, other: Period | None = None) -> list[tuple[Operator, Literal]]:
        """What *operator* with this period (for BETWEEN, up to *other*) asks of a value of *datatype*: bounds that all hold."""
        start, end = self._literal(self.first, datatype), self._literal(self.after, datatype)
        if self.moment:
            moment = Literal(f"{self.first}T{self.moment}" if datatype != XSD + "date" else self.first, datatype)
            if operator is Operator.BETWEEN and other is not None:
                return [(Operator.AT_LEAST, moment), *other.bounds(Operator.AT_MOST, datatype)]
            return [(operator, moment)]
        match operator:
            case Operator.GREATER:
                return [(Operator.AT_LEAST, end)]
            case Operator.AT_LEAST:
                return [(Operator.AT_LEAST, start)]
            case Operator.LESS:
                return [(Operator.LESS, start)]
            case Operator.AT_MOST:
                return [(Operator.LESS, end)]
            case Operator.BETWEEN if other is not None:
                return [(Operator.AT_LEAST, start), *other.bounds(Operator.AT_MOST, datatype)]
            case _:
                return [(Operator.AT_LEAST, start), (Operator.LESS, end)]

    @staticmethod
    def _literal(day: str, datatype: str) -> Literal:
        match datatype.removeprefix(XSD):
            case "gYear":
                return Literal(day[:4], datatype)
            case "gYearMonth":
                return Literal(day[:7], datatype)
            case "dateTime" | "dateTimeStamp":
                return Literal(f"{day}T00:00:00", datatype)
            case _:
                return Literal(day, datatype)


def period(text: str) -> Period | None:
    """The period that *text*, all of it, names; None if it is no date. In ``3/5/2001`` the month is first, if it can be."""
    for form in _FORMS:
        found = form.fullmatch(text.strip())
        if found is None:
            continue
        parts = found.groupdict()
        if decade := parts.get("decade"):
            return Period(f"{decade}-01-01", f"{int(decade) + 10:04}-01-01")
        year, day = int(parts["year"]), int(parts["day"]) if parts.get("day") else None
        said = parts["month"].lower()
        month = MONTHS.get(said) or int(said)
        if "/" in text and month > 12 and day is not None and day <= 12:
            month, day = day, month
        if not (1 <= year <= 9998 and 1 <= month <= 12 and (day is None or 1 <= day <= monthrange(year, month)[1])):
            return None
        first = date(year, month, day or 1)
        last = first if day else date(year, month, monthrange(year, month)[1])
        time = parts.get("time") or ""
        if time:
            time = f"{time:0>5}" + (":00" if time.count(":") == 1 else "")
        return Period(first.isoformat(), (last + timedelta(days=1)).isoformat(), time.zfill(8) if time else "")
    return None
