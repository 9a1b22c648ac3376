"""When an answer counts as the right one."""

from __future__ import annotations

import pytest

from proxy.evaluation.score import Answer, ErrorKind, comparable, matches, score, set_f1
from proxy.query.term import XSD, Iri, Literal

GOLD = Answer(("name", "age"), [("Anna", 34.0), ("Bo", 61.0)])


def of(*rows: tuple[object, ...]) -> Answer:
    return Answer(tuple(f"v{i}" for i in range(len(rows[0]))), list(rows))  # type: ignore[arg-type]


def test_names_and_order_of_columns_do_not_matter():
    """Columns are matched by what they hold."""
    assert matches(GOLD, of((61.0, "Bo"), (34.0, "Anna")))
    assert not matches(GOLD, of((61.0, "Anna"), (34.0, "Bo")))


def test_repeated_rows_are_forgiven_unless_order_counts():
    """Sets of rows are compared; with an order, every row counts."""
    repeated = of(("Anna", 34.0), ("Bo", 61.0), ("Bo", 61.0))
    assert matches(GOLD, repeated)
    assert not matches(GOLD, repeated, groups=(1, 1))


def test_ties_may_come_in_any_order():
    """Rows of one rank are free among themselves, not beyond it."""
    gold = of(("a",), ("b",), ("c",))
    assert matches(gold, of(("b",), ("a",), ("c",)), groups=(2, 1))
    assert not matches(gold, of(("a",), ("c",), ("b",)), groups=(2, 1))


@pytest.mark.parametrize(
    ("got", "groups", "kind", "strict", "columns"),
    [
        (of(("Anna", 34.0), ("Bo", 61.0)), (1, 1), ErrorKind.RIGHT, 1.0, 1.0),
        (of(("Bo", 61.0), ("Anna", 34.0)), (1, 1), ErrorKind.ORDER, 0.0, 1.0),
        (of(("Anna", 34.0, "x"), ("Bo", 61.0, "y")), None, ErrorKind.PROJECTION, 0.0, 1.0),
        (of(("Anna",), ("Bo",)), None, ErrorKind.PROJECTION, 0.0, 0.0),
        (of(("Cem", 28.0)), None, ErrorKind.WRONG, 0.0, 0.0),
        (Answer(("v0", "v1"), []), None, ErrorKind.EMPTY, 0.0, 0.0),
    ],
)
def test_kinds_of_error(got, groups, kind, strict, columns):
    """Each way of being wrong has its name, and only extra columns and order are forgiven by the tolerant score."""
    s = score([GOLD], got, groups=groups)
    assert (s.kind, s.strict, s.columns) == (kind, strict, columns)


def test_no_answer_is_a_refusal_or_a_failure():
    """They count the same and are told apart."""
    assert score([GOLD], None, abstained=True).kind is ErrorKind.ABSTAINED
    assert score([GOLD], None).kind is ErrorKind.FAILED


def test_f1_is_over_the_set_of_values():
    """Two of four values right out of three given: 4/7; two empty answers are alike."""
    assert set_f1(GOLD, of(("Anna", 34.0, "x"))) == pytest.approx(2 * 2 / (4 + 3))
    assert set_f1(Answer(("a",), []), Answer(("b",), [])) == 1.0


def test_numbers_are_compared_by_value():
    """1, 1.0 and "01" are the same number; an IRI is not a number."""
    one = {comparable(Literal(t, XSD + "integer")) for t in ("1", "1.0", "01")}
    assert one == {1.0}
    assert comparable(Iri("http://a/1")) == "http://a/1"
    assert comparable(Literal("NaN", XSD + "double")) == "NaN"
