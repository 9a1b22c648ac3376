"""Texts that would overflow the stack of an evaluator in this process."""

from __future__ import annotations

import time

import pytest

from proxy.query.weight import Weight, excess, is_heavier

MANY = 3000
HEAVY = {
    "brackets": "SELECT * { ?s ?p ?o FILTER(" + "(" * MANY + "1" + ")" * MANY + ") }",
    "groups": "SELECT * " + "{" * MANY + "}" * MANY,
    "escaped brackets": "SELECT * { FILTER(" + "\\u0028" * MANY + "1",
    "brackets behind an escaped quote": 'SELECT * { FILTER("\\u0022 = ' + "(" * MANY + ' \\u0022") }',
    "brackets that look like an IRI": "SELECT * { ?s ?p ?o FILTER(?o <" + "(" * MANY + "1>2",
    "brackets behind an escaped hash": "SELECT * { ?s ex:a\\#" + "(" * MANY,
    "patterns": "SELECT * { " + "?s ?p ?o . " * MANY + "}",
    "negations": "SELECT * { FILTER(" + "!" * MANY + "?x) }",
    "differences": "SELECT (" + "-".join(["?x"] * MANY) + " AS ?y) {}",
    "path steps": "SELECT * { ?s " + "/".join(["ex:p"] * MANY) + " ?o }",
    "nested triple terms in data": "SELECT * { VALUES ?x { " + "<<( ?a ?b " * MANY + "1 } }",
    "patterns behind a variable called values": "SELECT * { ?values ?p ?o . " + "?s ?p ?o . " * MANY + "}",
}
LIGHT = {
    "rows of VALUES": "SELECT * { VALUES ?x { " + "1 " * MANY + "} }",
    "rows of VALUES with brackets": "SELECT * { VALUES (?x ?y) { " + "(1 2) " * MANY + "} ?s ?p ?x }",
    "inserted data": "INSERT DATA { " + '<http://e/s_(x)> <http://e/p> "((((" . ' * MANY + "}",
    "a long string": 'SELECT * { ?s ?p "' + "(" * MANY + '" }',
    "a long comment": "# " + "(" * MANY + "\nSELECT * { ?s ?p ?o }",
}


@pytest.mark.parametrize("text", HEAVY.values(), ids=HEAVY)
def test_every_way_to_be_deep_or_long_is_seen(text):
    """Nesting and length are counted whatever the text hides them in."""
    assert is_heavier(text, limit_tokens=MANY // 2, limit_depth=MANY // 2)


@pytest.mark.parametrize("text", LIGHT.values(), ids=LIGHT)
def test_data_strings_and_comments_weigh_nothing(text):
    """What parsers read in a loop may be as long as it likes."""
    assert not is_heavier(text, limit_tokens=MANY // 2, limit_depth=MANY // 2)


def test_the_time_is_linear():
    """Ten times the text takes about ten times as long, not a hundred times."""

    def seconds(n: int) -> float:
        text = "SELECT * { VALUES ?x { " + "1 <a:b> 'c' " * n + "} }"
        return min(_time(text) for _ in range(3))

    def _time(text: str) -> float:
        started = time.process_time()
        is_heavier(text, limit_tokens=100, limit_depth=100)
        return time.process_time() - started

    assert seconds(50_000) < 40 * seconds(5_000)


@pytest.mark.parametrize(
    ("text", "operators"),
    [
        ("SELECT ?x { ?x ex:half-done ex:a-b-c , ex:d.e-f }", 0),
        ("SELECT ?x { ?x ?p ?y FILTER(?x-?y > ex:a - 1 || !?z) }", 6),
        ("SELECT ?x { { ?x ex:p/ex:q* ?y } UNION { ?x ^ex:p|ex:q ?y } OPTIONAL { ?x ex:r ?z } }", 6),
        ("SELECT (1 AS ?x) { BIND(2 AS ?y) # OPTIONAL {\n VALUES ?z { -1 -2 } }", 4),
        ("DELETE DATA { <a> <b> -1 } ; INSERT { ?s ?p 1 } WHERE { ?s ?p 2 MINUS { ?s ?p 3 } } ; DELETE WHERE { ?s ?p -4 }", 2),
    ],
)
def test_operators_are_counted_where_they_are_some(text, operators):
    """Not in names, comments and data; and in each operation of an update by itself."""
    assert excess(text, limit_depth=20, limit_operators=operators) is None
    if operators:
        assert excess(text, limit_depth=20, limit_operators=operators - 1) is Weight.OPERATORS


def test_brackets_are_deep_also_within_what_reads_as_an_iri():
    """A parser that takes the ``<`` for an operator goes as deep as the brackets behind it."""
    text = "SELECT * { FILTER(?x<" + "STR(" * 100 + "1" + ")" * 100 + ">3) }"
    assert excess(text, limit_depth=101) is Weight.NESTING
    assert excess(text, limit_depth=102) is None
    assert excess("SELECT * { <http://e/" + "(a)" * 100 + "> ?p ?o }", limit_depth=2) is None
