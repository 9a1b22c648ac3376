"""Rendered text reads as the same tree."""

import pytest

from proxy.query.parse import parse
from proxy.query.render import render, render_term
from proxy.query.term import RDF_LANG_STRING, XSD, Iri, Literal, Variable

P = "PREFIX : <http://e/> "


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DISTINCT ?x (COUNT(DISTINCT ?y) + 1 AS ?n) FROM :g { ?x :p/^(:q|:r)*/!(:s|^a)? ?y }"
        " GROUP BY ?x HAVING(COUNT(*) > 1)",
        'SELECT REDUCED * { ?x :p 1, -2, 1.5, 1e3, true, \'a"b\\n\'@en, "x"^^:d ; :q [ :r (1 2) ] }'
        " ORDER BY DESC(?x) LIMIT 1 OFFSET 2",
        "ASK { { ?a ?b ?c } UNION { } MINUS { ?a ?b ?c } OPTIONAL { ?a :p ?d FILTER(?d = 1 || !(?d > 2 && ?d < 3)) } }",
        "ASK { BIND(-?x - 1 * (2 + 3) AS ?y) FILTER(?x NOT IN (1, ?y)) FILTER NOT EXISTS { GRAPH ?g { ?x ?y ?z } } }",
        "SELECT * { { SELECT ?x { SERVICE SILENT :s { ?x a :C } } VALUES ?x { :a } } } VALUES (?x ?y) { (1 UNDEF) }",
        "CONSTRUCT { ?x :p [] } WHERE { ?x ^(^:p)+ ?y ; (:p/:q)* ?z }",
        "DESCRIBE :a ?x { ?x ?p ?o }",
        "SELECT (GROUP_CONCAT(DISTINCT ?x; SEPARATOR=\"; \") AS ?y) { ?x :f ?z FILTER(:g(?x, 2) && REGEX(STR(?x), 'a', 'i')) }",
        "INSERT DATA { :a :b :c . GRAPH :g { :a :b [] } } ; DELETE WHERE { ?s ?p ?o } ; COPY SILENT DEFAULT TO :g ; DROP NAMED",
        "WITH :g DELETE { ?s ?p ?o } INSERT { GRAPH ?g { ?s ?p 1 } } USING NAMED :h WHERE { ?s ?p ?o GRAPH ?g { } }",
    ],
)
def test_round_trip(text):
    """parse(render(q)) == q."""
    tree = parse(P + text)
    assert parse(render(tree)) == tree


def test_terms():
    """IRIs in full; strings escaped; bare numbers only where they read as themselves."""
    assert render_term(Iri("http://e/a")) == "<http://e/a>"
    assert render_term(Literal('a"\\\n')) == '"a\\"\\\\\\n"'
    assert render_term(Literal("x", RDF_LANG_STRING, "en")) == '"x"@en'
    assert render_term(Literal("5", XSD + "integer")) == "5"
    assert render_term(Literal("five", XSD + "integer")) == f'"five"^^<{XSD}integer>'
    assert render_term(Variable("_:b")) == "_:b"
