"""The table of sound rules, one line each, over tests/data/library.ttl; what is proved is checked against pyoxigraph."""

import time

import numpy as np
import pyoxigraph as ox
import pytest
from graphs import index_of, store_of

from proxy.index.support import IncompleteChunk, Kind, SupportIndex
from proxy.query.operation import DatasetDescription
from proxy.query.parse import parse
from proxy.query.parse_tokens import MAX_DEPTH
from proxy.query.required import required
from proxy.validation.check import check, is_proved_empty
from proxy.validation.finding import Severity
from proxy.validation.prove import is_contradicted, minimal_core
from proxy.validation.supports import supports_of

PREFIX = "PREFIX : <http://library.example/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> "

EMPTY = {
    "BGP: a class without the property": "SELECT * { ?x a :Branch ; :born ?y }",
    "BGP: a property nobody has": "SELECT * { ?x :isbn ?y }",
    "BGP: a class nobody has": "SELECT * { ?x a :Work ; :title ?t }",
    "BGP: two properties that no kind has": "SELECT * { ?x :born ?y ; :pages ?z }",
    "BGP: the wrong direction": "SELECT * { ?a a :Author . ?b a :Novel . ?a :author ?b }",
    "BGP: a chain that does not close": "SELECT * { ?l :item ?i . ?i :memberOf ?b }",
    "BGP: a literal where only nodes are": 'SELECT * { ?x :author "Woolf" }',
    "BGP: a node where only literals are": "SELECT * { ?x :title :orlando }",
    "BGP: a number where only text is": "SELECT * { ?x :shelf 12 }",
    "BGP: a date where only numbers are": 'SELECT * { ?x :pages "2020-01-01"^^xsd:date }',
    "BGP: a triple on itself": "SELECT * { ?x :author ?x }",
    "BGP: blank nodes are variables": "SELECT * { ?x :item [ a :Author ] }",
    "BGP: a collection where there are no lists": "SELECT * { ?x :author (:woolf) }",
    "join: both sides count": "SELECT * { { ?x a :Branch } { ?x :born ?y } }",
    "OPTIONAL: its left side counts": "SELECT * { ?x a :Branch ; :born ?y OPTIONAL { ?x :name ?n } }",
    "UNION: all branches impossible": "SELECT * { ?x a :Branch { ?x :born ?y } UNION { ?x :pages ?y } }",
    "MINUS: its left side counts": "SELECT * { ?x :isbn ?y MINUS { ?x a :Novel } }",
    "EXISTS: shares what its group binds": "SELECT * { ?x a :Branch FILTER EXISTS { ?x :born ?y } }",
    "EXISTS inside &&": "SELECT * { ?x a :Branch FILTER(?x != :central && EXISTS { ?x :born ?y }) }",
    "FILTER: equality with an IRI": "SELECT * { ?x a ?c ; :born ?y FILTER(?c = :Branch) }",
    "FILTER: IN": "SELECT * { ?x a ?c ; :born ?y FILTER(?c IN (:Branch, :Loan)) }",
    "FILTER: disjoint equalities": "SELECT * { ?x :name ?n FILTER(?x = :ana) FILTER(?x = :ben) }",
    "FILTER: isLiteral of a node": "SELECT * { ?x :author ?y FILTER(isLiteral(?y)) }",
    "FILTER: isIRI of a literal": "SELECT * { ?x :title ?y FILTER(isIRI(?y)) }",
    "FILTER: an equality or another, both impossible": "SELECT * { ?x a ?c ; :born ?y FILTER(?c = :Branch || ?c = :Loan) }",
    "FILTER: false": "SELECT * { ?x :name ?n FILTER(false) }",
    "FILTER: IN nothing": "SELECT * { ?x :name ?n FILTER(?x IN ()) }",
    "path: sequence": "SELECT * { ?x :author/:pages ?y }",
    "path: inverse": "SELECT * { ?x a :Author ; ^:borrower ?y }",
    "path: alternatives, all impossible": "SELECT * { ?x a :Branch ; (:born|:pages) ?y }",
    "path: one or more, first step": "SELECT * { ?x a :Branch ; :sponsor+ ?y }",
    "path: one or more, last step": "SELECT * { ?x :sponsor+ ?y . ?y a :Branch }",
    "path: zero or more, neither way": "SELECT * { ?x a :Branch ; :sponsor* ?y . ?y :born ?z }",
    "path: zero or one, neither way": "SELECT * { ?x a :Branch ; :sponsor? ?y . ?y :born ?z }",
    "path: instances of nothing by way of data": "SELECT * { ?x :author/:sponsor* ?y . ?y :pages ?z }",
    "path: negated set, then no way on": "SELECT * { ?x a :Branch ; !:name ?y . ?y :born ?z }",
    "variable predicate, then no way on": "SELECT * { ?x a :Branch . ?x ?p ?y . ?y :born ?z }",
    "variable predicate, pinned": "SELECT * { ?x a :Branch . ?x ?p ?y FILTER(?p = :born) }",
    "variable predicate, one of": "SELECT * { ?x a :Branch . ?x ?p ?y VALUES ?p { :born :pages } }",
    "class variable, pinned by VALUES": "SELECT * { ?x a ?c ; :born ?y VALUES ?c { :Branch :Loan } }",
    "GROUP BY: empty if the inside is": "SELECT ?x (COUNT(*) AS ?n) { ?x a :Branch ; :born ?y } GROUP BY ?x",
    "sub-query: its inside counts": "SELECT * { { SELECT ?x { ?x a :Branch } } ?x :born ?y }",
    "sub-query: star shares all": "SELECT * { { SELECT * { ?x a :Branch } } ?x :born ?y }",
    "sub-query: LIMIT 0": "SELECT * { ?x a :Branch { SELECT ?x { ?x :name ?n } LIMIT 0 } }",
    "sub-query: grouped by what it projects": (
        "SELECT * { ?x :born ?y { SELECT ?x (COUNT(*) AS ?n) { ?x a :Branch } GROUP BY ?x } }"
    ),
    "VALUES: no rows": "SELECT * { ?x :name ?n VALUES ?x { } }",
    "VALUES: every row impossible": "SELECT * { ?x :author ?y VALUES ?y { 1 2 } }",
    "VALUES: rows of two": "SELECT * { ?x ?p ?y . ?x a ?c VALUES (?p ?c) { (:born :Branch) (:pages :Loan) } }",
    "VALUES behind the query": "SELECT * { ?x a ?c ; :born ?y } VALUES ?c { :Branch }",
    "BIND: a constant, then joined": "SELECT * { BIND(:Branch AS ?c) ?x a ?c ; :born ?y }",
    "BIND: another name": "SELECT * { ?x a :Branch BIND(?x AS ?y) ?y :born ?z }",
    "CONSTRUCT": "CONSTRUCT { ?x :p ?y } WHERE { ?x a :Branch ; :born ?y }",
    "DESCRIBE of variables": "DESCRIBE ?x { ?x a :Branch ; :born ?y }",
    "class hierarchy is data": "SELECT * { ?x a ?c . ?c :pages ?n }",
}

NOT_PROVED = {
    "there are solutions": "SELECT * { ?x a :Novel ; :author ?y . ?y :born ?z }",
    "OPTIONAL: a dead part": "SELECT * { ?x a :Branch OPTIONAL { ?x :born ?y } }",
    "UNION: one dead branch": "SELECT * { ?x a :Branch { ?x :born ?y } UNION { ?x :name ?y } }",
    "MINUS: an impossible one removes nothing": "SELECT * { ?x a :Branch MINUS { ?x :born ?y } }",
    "NOT EXISTS: an impossible one is always true": "SELECT * { ?x a :Branch FILTER NOT EXISTS { ?x :born ?y } }",
    "EXISTS: its variable is not bound by its own group": (
        "SELECT * { ?x a :Branch { ?l a :Loan FILTER EXISTS { ?x :born ?y } } }"
    ),
    "EXISTS: negated": "SELECT * { ?x a :Branch FILTER(!EXISTS { ?x :born ?y }) }",
    "EXISTS: or something else": "SELECT * { ?x a :Branch FILTER(EXISTS { ?x :born ?y } || ?x = :central) }",
    "FILTER: negated equality": "SELECT * { ?x a ?c ; :name ?y FILTER(!(?c = :Loan)) }",
    "FILTER: strings are compared by nobody in one way": 'SELECT * { ?x :title "Orlando" }',
    "FILTER: CONTAINS is no equality": 'SELECT * { ?x :title ?t FILTER(CONTAINS(STR(?t), "xyz")) }',
    "FILTER: numbers are equal by value": "SELECT * { ?x :pages ?n FILTER(?n = 333.0) }",
    "path: zero length": "SELECT * { ?x a :Branch ; :born* ?y }",
    "path: zero length of an absent term": "SELECT * { :absent :born* ?y }",
    "path: zero or one": "SELECT * { ?x a :Branch ; :born? ?y }",
    "path: negated set": "SELECT * { ?x a :Branch ; !:name ?y }",
    "class variable: an unpopulated class elsewhere": (
        "SELECT * { ?x a/<http://www.w3.org/2000/01/rdf-schema#subClassOf>* :Work }"
    ),
    "aggregate without GROUP BY": "SELECT (COUNT(*) AS ?n) { ?x a :Branch ; :born ?y }",
    "aggregate without GROUP BY in a sub-query": "SELECT * { ?x a :Branch { SELECT (COUNT(*) AS ?n) { ?x :isbn ?y } } }",
    "sub-query: non-projected names are its own": "SELECT * { ?x a :Branch { SELECT ?y { ?y :author ?x } } }",
    "sub-query: a computed name is not the inner one": (
        "SELECT * { ?n a :Branch { SELECT (SAMPLE(?z) AS ?n) { ?l :item ?i ; :borrower ?b . ?b :memberOf ?z } GROUP BY ?l } }"
    ),
    "sub-query: OFFSET": "SELECT * { { SELECT ?x { ?x a :Branch } OFFSET 1 } }",
    "VALUES: UNDEF": "SELECT * { ?x :author ?y VALUES ?y { 1 UNDEF } }",
    "VALUES: one row fits": "SELECT * { ?x :author ?y VALUES ?y { 1 :woolf } }",
    "BIND: of what may be unbound": "SELECT * { OPTIONAL { ?q :isbn ?x } BIND(?x AS ?y) ?y a :Branch }",
    "BIND: an error leaves it unbound": "SELECT * { BIND(1/0 AS ?y) ?x :name ?y }",
    "GRAPH: the index covers the default graph": "SELECT * { GRAPH ?g { ?x :isbn ?y } }",
    "SERVICE": "SELECT * { ?x a :Branch SERVICE <http://elsewhere.example/> { ?x :born ?y } }",
    "SERVICE SILENT": "SELECT * { SERVICE SILENT ?s { ?x :isbn ?y } }",
    "FROM": "SELECT * FROM <http://g.example/> { ?x :isbn ?y }",
    "FROM NAMED": "SELECT * FROM NAMED <http://g.example/> { ?x :isbn ?y }",
    "ASK: false is an answer": "ASK { ?x a :Branch ; :born ?y }",
    "DESCRIBE of an IRI": "DESCRIBE :ana ?x { ?x a :Branch ; :born ?y }",
    "LIMIT 0 asks for the head only": "SELECT * { ?x :name ?y } LIMIT 0",
    "relative IRI": "SELECT * { ?x <born> ?y }",
    "magic: text search": (
        "PREFIX ql: <http://qlever.cs.uni-freiburg.de/builtin-functions/> SELECT * { ?x ql:contains-word 'wave*' ; a :Novel }"
    ),
    "magic: its arguments are no list": (
        "PREFIX geo: <http://www.ontotext.com/owlim/geo#> SELECT * { ?x geo:nearby (1 2 '5mi') ; :name ?n }"
    ),
    "magic: its class": (
        "PREFIX i: <http://www.ontotext.com/connectors/lucene/instance#> SELECT * { ?s a i:books ; i:query 'x' }"
    ),
    "types on several lines": "SELECT * { ?x a :Author . ?x a :Librarian . ?x :born ?y }",
}


@pytest.mark.parametrize("text", EMPTY.values(), ids=EMPTY)
def test_what_is_proved(text, index, library):
    """The query is proved empty, it is empty, and the ASK that confirms the proof is false."""
    findings = check(parse(PREFIX + text), index)
    assert is_proved_empty(findings)
    answer = library.query(PREFIX + text)
    assert next(iter(answer), None) is None
    for f in findings:
        if f.severity is Severity.PROVED_EMPTY:
            assert f.confirmation is not None
            assert not library.query(f.confirmation)


@pytest.mark.parametrize("text", NOT_PROVED.values(), ids=NOT_PROVED)
def test_what_is_not_proved(text, index):
    """The query has solutions, or an answer whatever the data, or nothing is known: no proof."""
    assert not is_proved_empty(check(parse(PREFIX + text), index))


@pytest.mark.parametrize(
    "dataset",
    [DatasetDescription(default_graphs=("http://g.example/",)), DatasetDescription(named_graphs=("http://g.example/",))],
)
def test_a_dataset_named_by_the_protocol(dataset, index):
    """The index was not built from the graphs that the request names."""
    query = parse(PREFIX + "SELECT * { ?x :isbn ?y }")
    assert check(query, index, dataset=dataset) == ()
    assert is_proved_empty(check(query, index))


@pytest.mark.parametrize(
    ("chunk", "text", "expected"),
    [
        pytest.param((None, None), "?x :isbn ?y", False, id="anything may be missing"),
        pytest.param((None, "isbn"), "?x :isbn ?y", False, id="that property"),
        pytest.param((None, "isbn"), "?x :issn ?y", True, id="another property"),
        pytest.param(("Novel", None), "?x :isbn ?y", False, id="a class that the subject may have"),
        pytest.param(("Novel", None), "?x a :Branch ; :isbn ?y", True, id="another class"),
        pytest.param(("Novel", None), "?x a :Novel ; :isbn ?y", False, id="that class"),
        pytest.param(("Novel", "isbn"), "?x a :Novel ; :born ?y", True, id="another property of that class"),
        pytest.param((None, "isbn"), "?x a :Branch ; ?p ?y . ?y :born ?z", False, id="a variable predicate rests on all"),
        pytest.param((None, "name"), "?x a :Branch ; ?p ?y . ?y :name ?z . ?z :isbn ?w", True, id="what does not rest on it"),
    ],
)
def test_incomplete_chunks(chunk, text, expected, library):
    """A proof that rests on a chunk that was not read to its end is not made."""
    ns = "http://library.example/"
    c, p = (None if part is None else ns + part for part in chunk)
    index = index_of(library, incomplete=[IncompleteChunk(c, p, "timed out")])
    assert is_proved_empty(check(parse(f"{PREFIX} SELECT * {{ {text} }}"), index)) is expected


def test_an_empty_graph():
    """Over no triples every triple pattern is impossible; a query without one is not."""
    index = index_of(ox.Store())
    assert is_proved_empty(check(parse("SELECT * { ?s ?p ?o }"), index))
    assert not is_proved_empty(check(parse("SELECT * { BIND(1 AS ?x) }"), index))


def test_another_class_predicate():
    """With another class predicate rdf:type is a property like others."""
    wdt = "http://w.example/P31"
    index = SupportIndex(
        kinds=[Kind(frozenset(("http://w.example/Q5",))), Kind()],
        instances=np.array([1, 1]),
        properties=[wdt],
        subject=np.array([0], dtype=np.int32),
        property_=np.array([0], dtype=np.int32),
        object_=np.array([1], dtype=np.int32),
        count=np.array([1]),
        class_predicate=wdt,
    )
    assert not is_proved_empty(check(parse("PREFIX w: <http://w.example/> SELECT * { ?x w:P31 w:Q5 }"), index))
    assert is_proved_empty(check(parse("PREFIX w: <http://w.example/> SELECT * { ?x w:P31 w:Q6 }"), index))
    assert is_proved_empty(check(parse("PREFIX w: <http://w.example/> SELECT * { ?x a w:Q5 }"), index))


def test_two_classes_are_never_disjoint_by_single_classes():
    """Single classes know nothing of who has both; exact kinds do, and so does the table of what nodes have together."""
    store = store_of("@prefix : <http://e/> . :x a :A . :y a :B . :x :p 1 . :y :q 1 .")
    query = parse("PREFIX : <http://e/> SELECT * { ?x a :A, :B }")
    assert is_proved_empty(check(query, index_of(store)))
    assert not is_proved_empty(check(query, index_of(store, exact=False, tables=False)))
    assert is_proved_empty(check(query, index_of(store, exact=False)))


def test_the_core_is_minimal(exact_index):
    """Of a long conjunction only what contradicts is kept, and every condition of it is needed."""
    query = parse(PREFIX + "SELECT * { ?x a :Loan ; :item ?i ; :borrower ?b . ?b :name ?n . ?i a :Branch ; :name ?m }")
    supports = supports_of(exact_index)
    (alternative,) = required(query).alternatives
    core = minimal_core(alternative, supports)
    assert is_contradicted(core, supports)
    assert len(core) == 2
    for left_out in core:
        assert not is_contradicted([c for c in core if c is not left_out], supports)


def test_many_patterns_take_bounded_time(exact_index):
    """Thousands of patterns, thousands of values, dozens of unions: findings or none, never a crash."""
    for text in (
        "SELECT * { " + " ".join(f"?x{i} :author ?x{i + 1} ." for i in range(2000)) + " }",
        "SELECT * { ?x :author ?y VALUES ?y { " + ":woolf " * 5000 + "} }",
        "SELECT * { " + " ".join("{ ?x :name ?y } UNION { ?x :born ?y }" for _ in range(40)) + " }",
        "SELECT * { ?x " + "/".join([":sponsor*"] * 60) + " ?y }",
        "SELECT * { " + "FILTER EXISTS { ?x :name ?y " * 18 + "}" * 18 + " }",
    ):
        check(parse(PREFIX + text), exact_index)


N = MAX_DEPTH - 10
DEEP = {
    **{f"nested {op}": "SELECT * { ?s " + "(" * N + ":author" + f"){op}" * N + " ?o }" for op in "+*?"},
    "sequences under +": "SELECT * { ?s " + "(" * N + ":sponsor" + "/:sponsor)+" * N + " ?o }",
    "alternatives under +": "SELECT * { ?s " + "(" * N + ":author" + "|:author)+" * N + " ?o }",
    "inverse under +": "SELECT * { ?s " + "^(" * N + ":author" + ")+" * N + " ?o }",
    "sequences": "SELECT * { ?s " + "(" * N + ":author" + "/:author)" * N + " ?o }",
    "alternatives": "SELECT * { ?s " + "(" * N + ":author" + "|:author)" * N + " ?o }",
    "inverse": "SELECT * { ?s " + "^(" * N + ":author" + ")" * N + " ?o }",
    **{
        f"nested {word}": "SELECT * { " + f"{word} {{ ?s :author ?o " * n + "}" * n + " }"
        for word, n in (
            ("FILTER EXISTS", N // 2),
            ("FILTER NOT EXISTS", N // 2),
            ("OPTIONAL", N),
            ("MINUS", N),
            ("GRAPH ?g", N),
        )
    },
    "nested UNION": "SELECT * { " + "{ ?s :author ?o " * N + "} UNION { ?s :author ?b }" * N + " }",
    "nested UNION, last": "SELECT * { " + "{ :a :b :c } UNION { ?s :author ?o " * N + "}" * N + " }",
    "nested sub-queries": "SELECT * { " + "{ SELECT * { ?s :author ?o " * (N // 2) + "} }" * (N // 2) + " }",
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_no_nesting_takes_exponential_time(text, exact_index):
    """Nothing is read twice at each level without an end."""
    query = parse(PREFIX + text)
    started = time.process_time()
    check(query, exact_index)
    assert time.process_time() - started < 3  # seconds; what is exponential never ends


def test_nested_repetition_is_one_repetition(exact_index):
    """p++ is p+, and (p?)+ is p*: proofs survive the nesting."""
    assert is_proved_empty(check(parse(PREFIX + "SELECT * { ?x a :Branch ; ((:sponsor+)+)+ ?y }"), exact_index))
    assert not is_proved_empty(check(parse(PREFIX + "SELECT * { ?x a :Branch ; ((:sponsor?)+)* ?y }"), exact_index))
    assert not is_proved_empty(check(parse(PREFIX + "SELECT * { ?x a :Branch ; ((:sponsor*)?)+ ?y }"), exact_index))
