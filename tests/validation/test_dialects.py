"""What backends add to SPARQL: it is read, or it is unknown; never a fault of ours, and never a reason to refuse."""

import pytest

from proxy.errors import MalformedQuery
from proxy.query.parse import GRAPHDB_PREFIXES, QLEVER_PREFIXES, parse
from proxy.validation.check import check, is_proved_empty

P = "PREFIX : <http://library.example/> "
UNKNOWN = {
    "QLever: TEXT and SCORE": "SELECT ?x TEXT(?t) SCORE(?t) { ?x :name ?n } TEXTLIMIT 3",
    "QLever: INTERNAL SORT BY": "SELECT ?x { ?x :name ?n } INTERNAL SORT BY ?x",
    "a path with bounds": "SELECT ?x { ?x :sponsor{1,3} ?y }",
    "a prefix that only the backend knows": "SELECT * { SERVICE qlss: { ?c qlss:algorithm qlss:s2 } }",
    "Virtuoso: a keyword before": "DEFINE input:inference 'x' SELECT * { ?s ?p ?o }",
    "Blazegraph: hints and named sub-queries": "SELECT * WITH { SELECT ?x { ?x ?p ?o } } AS %sub { INCLUDE %sub }",
    "Stardog: paths": "PATHS START ?x = :a END ?y VIA :p",
}
READ = {
    "QLever: text search": ("SELECT * { ?t ql:contains-entity ?x ; ql:contains-word 'a*' . ?x :name ?n }", QLEVER_PREFIXES),
    "QLever: nearby": ("SELECT * { ?a :city ?b . ?b <max-distance-in-meters:500> ?c }", QLEVER_PREFIXES),
    "QLever: STDEV is an aggregate": ("SELECT (STDEV(?x) AS ?y) { ?a :isbn ?x }", QLEVER_PREFIXES),
    "GraphDB: prefixes undeclared": ("SELECT * { ?x rdfs:label ?l ; sesame:directType ?t }", GRAPHDB_PREFIXES),
    "GraphDB: a connector": (
        "SELECT ?e { ?s a <http://www.ontotext.com/connectors/lucene/instance#i> ; "
        "<http://www.ontotext.com/connectors/lucene#query> 'x' ; <http://www.ontotext.com/connectors/lucene#entities> ?e }",
        GRAPHDB_PREFIXES,
    ),
    "GraphDB: a count in place of the rows": ("SELECT * FROM <http://www.ontotext.com/count> { ?s :isbn ?o }", {}),
    "RDF4J: an aggregate by IRI": ("SELECT (<http://rdf4j.org/aggregate#stdev>(?x) AS ?y) { ?a :isbn ?x }", GRAPHDB_PREFIXES),
    "GraphDB: an aggregate by IRI in a sub-query": (
        "SELECT * { { SELECT (<http://rdf4j.org/aggregate#stdev>(?x) AS ?y) { ?a :isbn ?x } } }",
        GRAPHDB_PREFIXES,
    ),
    "Virtuoso: a blank node by its label": ("SELECT * { <nodeID://b10001> :name ?o }", {}),
    "a skolem IRI": ("SELECT * { <http://library.example/.well-known/genid/b1> :name ?o }", {}),
    "RDF-star: a quoted triple": ("SELECT * { << ?a :name ?b >> :scale ?c . FILTER(?c > 1) }", GRAPHDB_PREFIXES),
}


@pytest.mark.parametrize("text", UNKNOWN.values(), ids=UNKNOWN)
@pytest.mark.parametrize("prefixes", [{}, QLEVER_PREFIXES, GRAPHDB_PREFIXES], ids=["none", "QLever", "GraphDB"])
def test_what_is_not_known_is_malformed_to_us_and_nothing_else(text, prefixes):
    """The SPARQL path forwards it."""
    with pytest.raises(MalformedQuery):
        parse(P + text, prefixes=prefixes)


@pytest.mark.parametrize(("text", "prefixes"), READ.values(), ids=READ)
def test_what_backends_answer_by_themselves_is_not_refused(text, prefixes, index):
    assert not is_proved_empty(check(parse(P + text, prefixes=prefixes), index))


def test_a_declaration_outranks_what_a_backend_predeclares():
    query = parse("PREFIX rdfs: <http://e/> SELECT * { ?x rdfs:label ?l }", prefixes=GRAPHDB_PREFIXES)
    assert "http://e/label" in repr(query)
