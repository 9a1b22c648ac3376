"""Nesting of every kind: up to the limit nothing that reads or walks the tree runs out of stack; beyond, it is refused."""

import sys
from pathlib import Path

import pyoxigraph as ox
import pytest

from proxy.errors import MalformedQuery
from proxy.query.operation import DatasetDescription, OperationKind
from proxy.query.parse import parse
from proxy.query.parse_tokens import MAX_DEPTH
from proxy.query.policy import holds_service, is_read_only, require_allowed, require_local_graphs
from proxy.query.render import render
from proxy.query.touched import touched_properties
from proxy.validation.check import check

sys.path.insert(0, str(Path(__file__).parents[1] / "validation"))
from graphs import index_of

HALF = 500
"""Frames that are in use already when a text comes in; Python allows 1,000."""

EXPRESSIONS = {
    "calls": ("STR(", "1", ")"),
    "iri calls": ("<f>(", "1", ")"),
    "distinct iri calls": ("<f>(DISTINCT ", "1", ")"),
    "if, first": ("IF(", "1", ", 2, 3)"),
    "if, last": ("IF(1, 2, ", "3", ")"),
    "coalesce": ("COALESCE(?x, ", "1", ")"),
    "concat": ('CONCAT("a", ', '"b"', ")"),
    "in": ("?x IN (", "1", ")"),
    "not in": ("?x NOT IN (1, ", "1", ")"),
    "count": ("COUNT(DISTINCT ", "?x", ")"),
    "group_concat": ("GROUP_CONCAT(", "?x", " ; SEPARATOR = ',')"),
    "brackets": ("(", "1", ")"),
    "not": ("!", "?x", ""),
    "not call": ("!BOUND(", "?x", ")"),
    "minus": ("-(", "?x", ")"),
    "sums": ("1 + (2 * ", "?x", ")"),
    "sums of calls": ("1 + 2 * ABS(", "?x", ")"),
    "comparisons": ("?x = (", "1", ")"),
    "or": ("?x = 1 || (", "?x = 2", ")"),
    "and": ("?x = 1 && (", "?x = 2", ")"),
    "or, and": ("?x = 1 || ?x = 2 && (", "?x = 2", ")"),
    "all operators": ("?a || ?b && 1 = 1 + 2 * STR(", "1", ")"),
    "all operators and not": ("?a || ?b && 1 = 1 + 2 * !STR(", "1", ")"),
    "exists": ("EXISTS { ?x <p> ?y FILTER(", "?x = 1", ") }"),
    "not exists": ("NOT EXISTS { ?x <p> ?y FILTER(", "?x = 1", ") }"),
    "or, not exists": ("(?x = 1 || NOT EXISTS { ?x <p> ?z FILTER(", "?x = 1", ") })"),
    "exists in calls": ("STR(EXISTS { BIND(", "1", " AS ?z) })"),
    "triple terms": ("<<( ?x <p> ", "1", " )>>"),
}
PATTERNS = {
    "groups": ("{ ", "?x <p> ?y", " }"),
    "optional": ("?x <p> ?y OPTIONAL { ", "?x <q> ?y", " }"),
    "minus": ("?x <p> ?y MINUS { ", "?x <q> ?y", " }"),
    "union, first": ("{ ", "?x <p> ?y", " } UNION { ?x <q> ?y }"),
    "union, last": ("{ ?x <q> ?y } UNION { ", "?x <p> ?y", " }"),
    "graph": ("GRAPH ?g { ", "?x <p> ?y", " }"),
    "service": ("SERVICE <s> { ", "?x <p> ?y", " }"),
    "lateral": ("LATERAL { ", "?x <p> ?y", " }"),
    "exists": ("?x <p> ?y FILTER EXISTS { ", "?x <p> ?y", " }"),
    "not exists": ("?x <p> ?y FILTER NOT EXISTS { ", "?x <p> ?y", " }"),
    "exists, minus": ("?x <p> ?y FILTER EXISTS { ?x <p> ?y MINUS { ", "?x <p> ?y", " } }"),
    "sub-queries": ("{ SELECT * { ", "?x <p> ?y", " } }"),
    "sub-queries of some": ("{ SELECT ?x { ", "?x <p> ?y", " } }"),
    "grouped sub-queries": ("{ SELECT ?x (COUNT(?y) AS ?n) { ", "?x <p> ?y", " } GROUP BY ?x HAVING(COUNT(*) > 0) }"),
    "having": ("{ SELECT ?x { ?x <p> ?y } GROUP BY ?x HAVING(EXISTS { ", "?x <p> ?y", " }) }"),
    "order by": ("{ SELECT ?x { ?x <p> ?y } ORDER BY (EXISTS { ", "?x <p> ?y", " }) }"),
    "projection": ("{ SELECT (EXISTS { ", "?x <p> ?y", " } AS ?z) { ?x <p> ?y } }"),
    "collections": ("?x <p> ", "1", ""),
    "bind": ("?x <p> ?y BIND(EXISTS { ", "?x <p> ?y", " } AS ?z)"),
}
OBJECTS = {
    "collections": ("(", "1", ")"),
    "longer collections": ("(1 ", "1", " 2)"),
    "blank nodes": ("[ <p> ", "1", " ]"),
    "blank nodes and collections": ("([ <p> ", "1", " ] 2)"),
    "triple terms": ("<<( ?x <p> ", "1", " )>>"),
    "reified triples": ("<< ?x <p> ", "1", " >>"),
    "annotations": ("1 {| <p> ", "1", " |}"),
}
PATHS = {
    "brackets": ("(", "<a>", ")"),
    "inverse": ("^(", "<a>", ")"),
    "stars": ("(", "<a>", ")*"),
    "inverse of stars": ("^(", "<a>", ")*"),
    "sequences": ("<a>/(", "<a>", ")+"),
    "alternatives": ("<a>|(", "<a>", ")?"),
    "all": ("<a>|<a>/^(", "<a>", ")*"),
    "alternatives of sequences": ("<a>|<b>/(", "<a>", ")"),
}
NESTED = {
    **{f"filter: {k}": ("ASK { ?x <p> ?y FILTER(", v, ") }") for k, v in EXPRESSIONS.items()},
    **{f"bind: {k}": ("SELECT * { ?x <p> ?y BIND(", v, " AS ?b) }") for k, v in EXPRESSIONS.items()},
    **{f"select: {k}": ("SELECT (", v, " AS ?b) { ?x <p> ?y }") for k, v in EXPRESSIONS.items()},
    **{f"group by: {k}": ("SELECT (1 AS ?b) { ?x <p> ?y } GROUP BY (", v, ")") for k, v in EXPRESSIONS.items()},
    **{f"having: {k}": ("SELECT ?x { ?x <p> ?y } GROUP BY ?x HAVING (", v, ")") for k, v in EXPRESSIONS.items()},
    **{f"order by: {k}": ("SELECT * { ?x <p> ?y } ORDER BY (", v, ")") for k, v in EXPRESSIONS.items()},
    **{f"pattern: {k}": ("SELECT * { ", v, " }") for k, v in PATTERNS.items() if k != "collections"},
    **{f"update: {k}": ("DELETE { ?x <p> ?y } WHERE { ", v, " }") for k, v in PATTERNS.items() if k != "collections"},
    **{f"object: {k}": ("SELECT * { ?x <p> ", v, " }") for k, v in OBJECTS.items()},
    **{f"insert: {k}": ("INSERT { ?x <p> ", v, " } WHERE {}") for k, v in OBJECTS.items()},
    "values: triple terms": ("SELECT * { VALUES ?x { ", ("<<( <s> <p> ", "1", " )>>"), " } }"),
    **{f"path: {k}": ("SELECT * { ?x ", v, " ?y }") for k, v in PATHS.items()},
}


@pytest.fixture(scope="module")
def index():
    store = ox.Store()
    for p in "pqab":
        store.add(ox.Quad(ox.NamedNode("http://e/x"), ox.NamedNode(f"http://e/{p}"), ox.NamedNode("http://e/y")))
    return index_of(store)


def nested(case, depth):
    before, (opening, inner, closing), after = case
    return "BASE <http://e/> " + before + opening * depth + inner + closing * depth + after


def deepest(case):
    """The deepest text of the kind that is read."""
    low, high = 1, MAX_DEPTH + 1  # read, refused
    while high - low > 1:
        middle = (low + high) // 2
        try:
            parse(nested(case, middle))
            low = middle
        except MalformedQuery as exc:
            assert "too deeply nested" in str(exc)
            high = middle
    return nested(case, low)


def with_used(frames, call):
    """The value of *call*, with that many frames below it."""
    used, frame = 0, sys._getframe()
    while frame is not None:
        used, frame = used + 1, frame.f_back

    def deeper(left):
        return deeper(left - 1) if left > 0 else call()

    return deeper(frames - used)


@pytest.mark.parametrize("case", NESTED.values(), ids=NESTED)
def test_the_deepest_that_is_read_overflows_nothing(case, index):
    """What the parser takes is also walked, rendered and checked, when half of the stack is in use."""
    text = deepest(case)
    assert text.count(case[1][0]) >= MAX_DEPTH // 4  # of the constructs that nest several levels at once

    def everything():
        parsed = parse(text)
        rendered = render(parsed)
        hash(parsed.where if hasattr(parsed, "where") else parsed.operations)
        holds_service(parsed)
        is_read_only(parsed)
        require_local_graphs(parsed, DatasetDescription(), allowed_services=())
        kind = OperationKind.QUERY if hasattr(parsed, "where") else OperationKind.UPDATE
        require_allowed(parsed, expected=kind, allow_updates=True, allowed_services=("http://e/s",))
        if kind is OperationKind.QUERY:
            check(parsed, index)
        else:
            touched_properties(parsed)
        return parsed, rendered

    parsed, rendered = with_used(HALF, everything)
    try:
        again = parse(rendered)
    except MalformedQuery as exc:  # by the brackets that were added
        assert "too deeply nested" in str(exc)
    else:
        assert again == parsed


@pytest.mark.parametrize("case", NESTED.values(), ids=NESTED)
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 200, 5_000])
def test_deeper_is_refused(case, depth):
    """Every kind of nesting counts."""
    with pytest.raises(MalformedQuery, match="too deeply nested"):
        parse(nested(case, depth))


def test_a_stack_that_is_used_up_is_no_fault():
    """The parser says that it cannot read the text, also where the caller has left it no room."""
    with pytest.raises(MalformedQuery, match="too deeply nested"):
        with_used(800, lambda: parse(nested(NESTED["bind: calls"], MAX_DEPTH - 2)))
