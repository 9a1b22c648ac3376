"""The effort that a caller allows ends analysis, wherever it is spent; bounds that are reached are noted."""

import pytest

from proxy.query.effort import TooMuchEffort, limited, noting, reach, spend
from proxy.query.parse import parse
from proxy.query.required import required


def test_effort_ends_where_it_is_spent():
    with limited(10):
        spend(10)
        with pytest.raises(TooMuchEffort):
            spend(1)
    spend(1_000_000)  # nobody counts here


def test_an_inner_limit_is_its_own():
    with limited(10), pytest.raises(TooMuchEffort):
        with limited(5):
            spend(4)
        spend(9)
        spend(2)


def test_bounds_are_noted_once_and_in_order():
    with noting() as reached:
        reach("b")
        reach("a")
        reach("b")
    reach("c")
    assert list(reached) == ["b", "a"]


UNIONS = " ".join("{ ?x :p ?y } UNION { ?x :q ?y }" for _ in range(7))
BOUNDS = {
    "alternatives": (f"SELECT * {{ {UNIONS} }}", "more than 64 alternatives"),
    "one UNION": (
        "SELECT * { " + " UNION ".join("{ ?x :p ?y }" for _ in range(65)) + " }",
        "more than 64 alternatives",
    ),
    "patterns": ("SELECT * { " + "?x :p ?y . " * 301 + "}", "more than 300 conditions in one alternative"),
    "parts": ("SELECT * { " + "OPTIONAL { ?x :p ?y } " * 25 + "}", "more than 24 parts that may fail alone"),
    "paths": ("SELECT * { ?x " + "/".join([":p"] * 1_001) + " ?y }", "more than 1,000 steps of property paths"),
}


@pytest.mark.parametrize(("text", "bound"), BOUNDS.values(), ids=BOUNDS)
def test_no_bound_is_silent(text, bound):
    with noting() as reached:
        required(parse("PREFIX : <http://e/> " + text))
    assert bound in reached


def test_a_usual_query_reaches_no_bound():
    with noting() as reached:
        required(parse("PREFIX : <http://e/> SELECT * { ?x :p ?y OPTIONAL { ?x :q ?z } { ?x :p 1 } UNION { ?x :p 2 } }"))
    assert not reached
