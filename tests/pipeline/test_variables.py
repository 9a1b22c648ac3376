"""Which variables a SELECT answer has."""

import pytest

from proxy.pipeline.variables import solution_variables
from proxy.query.parse import parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT ?b (1 AS ?a) { ?b ?c ?d }", ("b", "a")),
        ("SELECT * { ?s ?p [] OPTIONAL { ?s ?q ?o } }", ("o", "p", "q", "s")),
        ("SELECT * { ?s ?p 1 MINUS { ?m ?n 2 } FILTER EXISTS { ?e ?f 3 } }", ("p", "s")),
        (
            "SELECT * { { ?a ?b 1 } UNION { GRAPH ?g { ?c ?b 2 } } BIND(1 AS ?x) VALUES (?v) { (1) } }",
            ("a", "b", "c", "g", "v", "x"),
        ),
        ("SELECT * { { SELECT ?i { ?i ?j ?k } } } VALUES ?z { 1 }", ("i", "z")),
    ],
)
def test_solution_variables(text, expected):
    """As projected, or those in scope, sorted."""
    assert solution_variables(parse(text)) == expected
