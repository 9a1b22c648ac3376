"""Dates in questions become bounds on the values that the graph has."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proxy.nl.dates import PATTERN, Period, period
from proxy.nl.ir import Operator
from proxy.query.term import XSD, Literal


@pytest.mark.parametrize(
    ("text", "first", "after"),
    [
        ("2001-03-05", "2001-03-05", "2001-03-06"),
        ("2001-03", "2001-03-01", "2001-04-01"),
        ("March 2001", "2001-03-01", "2001-04-01"),
        ("Dec. 1999", "1999-12-01", "2000-01-01"),
        ("March 5, 2001", "2001-03-05", "2001-03-06"),
        ("5th of March 2001", "2001-03-05", "2001-03-06"),
        ("29 February 2024", "2024-02-29", "2024-03-01"),
        ("3/5/2001", "2001-03-05", "2001-03-06"),
        ("25/3/2001", "2001-03-25", "2001-03-26"),
        ("1990s", "1990-01-01", "2000-01-01"),
    ],
)
def test_a_date_is_a_period(text: str, first: str, after: str) -> None:
    """From its first day to before the next one's."""
    assert period(text) == Period(first, after)
    assert PATTERN.fullmatch(text)


@pytest.mark.parametrize("text", ["29 February 2023", "2001-13-01", "March", "1998", "may be 2", "0000-01-01", "12/12/12"])
def test_what_is_no_date(text: str) -> None:
    assert period(text) is None


def test_a_time_of_day_is_a_moment() -> None:
    """It is compared as it is, with the T that xsd:dateTime wants."""
    found = period("2001-03-05 7:30")
    assert found == Period("2001-03-05", "2001-03-06", "07:30:00")
    assert found.bounds(Operator.LESS, XSD + "dateTime") == [(Operator.LESS, Literal("2001-03-05T07:30:00", XSD + "dateTime"))]


@pytest.mark.parametrize(
    ("operator", "bounds"),
    [
        (Operator.GREATER, [(Operator.AT_LEAST, "2001-04-01")]),
        (Operator.AT_LEAST, [(Operator.AT_LEAST, "2001-03-01")]),
        (Operator.LESS, [(Operator.LESS, "2001-03-01")]),
        (Operator.AT_MOST, [(Operator.LESS, "2001-04-01")]),
        (Operator.EQUAL, [(Operator.AT_LEAST, "2001-03-01"), (Operator.LESS, "2001-04-01")]),
    ],
)
def test_bounds_of_a_month(operator: Operator, bounds: list[tuple[Operator, str]]) -> None:
    """After March is from April on; in March is both ends."""
    found = period("March 2001")
    assert found is not None
    assert found.bounds(operator, XSD + "date") == [(o, Literal(d, XSD + "date")) for o, d in bounds]


def test_between_two_months_includes_both() -> None:
    march, june = period("March 2001"), period("June 2001")
    assert march is not None
    assert [(o, x.lexical) for o, x in march.bounds(Operator.BETWEEN, XSD + "date", june)] == [
        (Operator.AT_LEAST, "2001-03-01"),
        (Operator.LESS, "2001-07-01"),
    ]


@pytest.mark.parametrize(
    ("question", "rows"),
    [
        ("How many repairs were finished before March 2024?", [("0",)]),
        ("How many repairs were finished after March 2024?", [("3",)]),
        ("How many repairs were finished in March 2024?", [("1",)]),
        ("How many repairs were finished between May 2024 and January 2025?", [("2",)]),
        ("How many repairs were finished after January 20, 2025?", [("1",)]),
        ("How many repairs were finished in 2024?", [("2",)]),
    ],
)
def test_questions_with_dates(ask_cafe: Callable[[str], object], question: str, rows: list[tuple[str, ...]]) -> None:
    assert ask_cafe(question) == rows
