"""Proofs by constants that are no node, by what no single node has together, and by the size that a group can have."""

import pyoxigraph as ox
import pytest
from graphs import index_of, store_of, values_of

from proxy.query.parse import parse
from proxy.validation.check import check, is_proved_empty
from proxy.validation.finding import Severity

PREFIX = "PREFIX : <http://library.example/> "

EMPTY = {
    "an object that is no node": "SELECT * { ?x :author :wolf }",
    "a subject that is no node": "SELECT * { :wolf :name ?n }",
    "a subject that is no node, by any property": "SELECT * { :wolf ?p ?n }",
    "a node of another kind": "SELECT * { ?x :author :central }",
    "FILTER: equality with what is no node": "SELECT * { ?x :author ?y FILTER(?y = :wolf) }",
    "FILTER: IN, none of them a node": "SELECT * { ?x :author ?y FILTER(?y IN (:wolf, :kafk)) }",
    "VALUES: none of them a node": "SELECT * { VALUES ?y { :wolf :kafk } ?x :author ?y }",
    "a path to what is no node": "SELECT * { ?x :item/:author :wolf }",
    "one or more steps from what is no node": "SELECT * { :wolf :sponsor+ ?x }",
    "zero or more steps, and then a triple": "SELECT * { :wolf :sponsor* ?x . ?x :name ?n }",
    "in every branch of a UNION": "SELECT * { { ?x :author :wolf } UNION { ?x :author :kafk } }",
    "two classes that no node has": "SELECT * { ?x a :Novel, :Member }",
    "two properties that no node has": "SELECT * { ?x :year ?y ; :shelf ?s }",
    "what is borrowed is not an author": "SELECT * { ?l :item ?x . ?n :author ?x }",
    "a group with more solutions than there are": "SELECT ?a { ?b :author ?a } GROUP BY ?a HAVING (COUNT(*) > 2)",
    "likewise at least": "SELECT ?a { ?b :author ?a } GROUP BY ?a HAVING (3 <= COUNT(?b))",
    "likewise, by its name": "SELECT ?a (COUNT(?b) AS ?n) { ?b :author ?a } GROUP BY ?a HAVING (?n > 2)",
    "likewise, with a class and a label": (
        "SELECT ?n { ?b a :Novel ; :author ?a . ?a :name ?n } GROUP BY ?a ?n HAVING (COUNT(*) > 2)"
    ),
    "likewise, backwards": "SELECT ?a { ?a ^:author/:title ?t } GROUP BY ?a HAVING (COUNT(*) > 4)",
    "likewise, in a sub-query": "SELECT * { ?a :name ?n { SELECT ?a { ?b :author ?a } GROUP BY ?a HAVING (COUNT(*) > 2) } }",
}
BY_VALUES = {
    "CONTAINS": "SELECT * { ?x :title ?t FILTER(CONTAINS(?t, 'zz')) }",
    "CONTAINS, in another case": "SELECT * { ?x :title ?t FILTER(CONTAINS(?t, 'ORLANDO')) }",
    "STRSTARTS": "SELECT * { ?x :title ?t FILTER(STRSTARTS(STR(?t), 'Zu')) }",
    "REGEX of letters": "SELECT * { ?x :title ?t FILTER(REGEX(?t, '^zu', 'i')) }",
    "the average is in the range": "SELECT ?a { ?b :author ?a ; :pages ?p } GROUP BY ?a HAVING (AVG(?p) > 5000)",
    "the least is in the range": "SELECT ?a { ?b :author ?a ; :pages ?p } GROUP BY ?a HAVING (10 > MIN(?p))",
}
NOT_PROVED = {
    "the node": "SELECT * { ?x :author :woolf }",
    "the node, percent-encoded": "SELECT * { ?x :author <http://library.example/w%6Folf> }",
    "the node, as the scheme may be written": "SELECT * { ?x :author <HTTP://library.example/woolf> }",
    "the node, by a longer way": "SELECT * { ?x :author <http://library.example/x/../woolf> }",
    "a relative IRI": "SELECT * { ?x :author <wolf> }",
    "a blank node by its label": "SELECT * { <_:b0> ?p ?o }",
    "an IRI of a backend's own": "SELECT * { <http://www.ontotext.com/x> ?p ?o }",
    "zero steps from what is no node": "SELECT * { :wolf :sponsor* ?x }",
    "one of several is a node": "SELECT * { ?x :author ?y FILTER(?y IN (:wolf, :woolf)) }",
    "in an OPTIONAL": "SELECT * { ?x a :Novel OPTIONAL { ?x :author :wolf } }",
    "in NOT EXISTS": "SELECT * { ?x a :Novel FILTER NOT EXISTS { ?x :author :wolf } }",
    "in a graph of which nothing is known": "SELECT * { GRAPH ?g { :wolf ?p ?o } }",
    "of another endpoint": "SELECT * { SERVICE <http://e/> { :wolf ?p ?o } }",
    "a constant that is bound": "SELECT * { ?x :author ?y BIND(:wolf AS ?z) }",
    "an aggregate over it": "SELECT (COUNT(*) AS ?n) { ?x :author :wolf }",
    "an ASK": "ASK { ?x :author :wolf }",
    "DESCRIBE": "DESCRIBE :wolf",
    "two values of what may be a literal": "SELECT * { ?x :name ?v . ?y :shelf ?v }",
    "a group that there is": "SELECT ?a { ?b :author ?a } GROUP BY ?a HAVING (COUNT(*) > 1)",
    "a group of all": "SELECT ?k { ?b :author ?a } GROUP BY ?k HAVING (COUNT(*) > 2)",
    "a group whose solutions something multiplies": (
        "SELECT ?a { ?b :author ?a VALUES ?x { 1 2 3 } } GROUP BY ?a HAVING (COUNT(*) > 2)"
    ),
    "a UNION multiplies": "SELECT ?a { { ?b :author ?a } UNION { ?b :author ?a } } GROUP BY ?a HAVING (COUNT(*) > 3)",
    "an OPTIONAL multiplies": "SELECT ?a { ?b :author ?a OPTIONAL { ?x :author ?a } } GROUP BY ?a HAVING (COUNT(*) > 3)",
    "no GROUP BY": "SELECT (COUNT(*) AS ?n) { ?b :author ?a } HAVING (COUNT(*) > 1000)",
    "CONTAINS": "SELECT * { ?x :title ?t FILTER(CONTAINS(?t, 'rland')) }",
    "CONTAINS, after LCASE": "SELECT * { ?x :title ?t FILTER(CONTAINS(LCASE(?t), 'ORLAND')) }",
    "CONTAINS nothing": "SELECT * { ?x :title ?t FILTER(CONTAINS(?t, '')) }",
    "not CONTAINS": "SELECT * { ?x :title ?t FILTER(!CONTAINS(?t, 'zz')) }",
    "REGEX with a dot": "SELECT * { ?x :title ?t FILTER(REGEX(?t, 'O.z')) }",
    "REGEX without regard to case": "SELECT * { ?x :title ?t FILTER(REGEX(?t, '^orl', 'i')) }",
    "REGEX with blanks that count for nothing": "SELECT * { ?x :title ?t FILTER(REGEX(?t, 'Or lando', 'x')) }",
    "the average of what may be unbound": (
        "SELECT ?a { ?b :author ?a OPTIONAL { ?b :scale ?p } } GROUP BY ?a HAVING (AVG(?p) < 1)"
    ),
    "least and greatest of different solutions": (
        "SELECT ?k { ?b :pages ?p BIND(1 AS ?k) } GROUP BY ?k HAVING (MIN(?p) < 211 && MAX(?p) > 351)"
    ),
}


@pytest.fixture(scope="module")
def values(library):
    found = values_of(library)
    yield found
    found.close()


def proved(text, index, values=None):
    return is_proved_empty(check(parse(PREFIX + text), index, values=values))


@pytest.mark.parametrize("text", EMPTY.values(), ids=EMPTY)
def test_what_is_proved(text, index, library):
    """Without the tables it may not be; the graph agrees, and so does the confirmation."""
    findings = check(parse(PREFIX + text), index)
    assert is_proved_empty(findings)
    assert not list(library.query(PREFIX + text))
    assert not any(library.query(f.confirmation) for f in findings if f.severity is Severity.PROVED_EMPTY)


@pytest.mark.parametrize("text", BY_VALUES.values(), ids=BY_VALUES)
def test_what_is_proved_by_values(text, index, values, library):
    findings = check(parse(PREFIX + text), index, values=values)
    assert is_proved_empty(findings) and not proved(text, index)
    assert not list(library.query(PREFIX + text))
    assert not any(library.query(f.confirmation) for f in findings if f.severity is Severity.PROVED_EMPTY)


@pytest.mark.parametrize("text", NOT_PROVED.values(), ids=NOT_PROVED)
def test_what_is_not_proved(text, index, values):
    """Absence counts for nothing here, or there are solutions."""
    assert not proved(text, index, values)


@pytest.mark.parametrize("text", [EMPTY["an object that is no node"], EMPTY["two properties that no node has"]])
def test_the_tables_are_needed(text, library):
    assert not proved(text, index_of(library, exact=False, tables=False))


def test_data_added_behind_its_back_are_confirmed():
    """The proof stands by an old index; its confirmation, asked of the graph as it is, does not."""
    store = store_of("@prefix : <http://library.example/> . :a :p :b . :c :q :d . :a :name 'x' .")
    index, values = index_of(store), values_of(store)
    more = b"@prefix : <http://library.example/> . :e :p :f . :a :q :d ; :p :c , :d ; :name 'yy' ."
    store.load(more, format=ox.RdfFormat.TURTLE)
    stale = (
        "SELECT * { :e :p ?x }",
        "SELECT * { ?x :p ?y ; :q ?z }",
        "SELECT ?s { ?s :p ?o } GROUP BY ?s HAVING (COUNT(*) > 2)",
        "SELECT * { ?s :name ?n FILTER(CONTAINS(?n, 'yy')) }",
    )
    for text in stale:
        findings = [f for f in check(parse(PREFIX + text), index, values=values) if f.severity is Severity.PROVED_EMPTY]
        assert findings and all(store.query(f.confirmation) for f in findings), text
    values.close()


def test_messages(exact_index, values):
    """The node that is not, and what it may have been meant to be; the size that a group can have."""
    (found,) = check(parse(PREFIX + "SELECT * { ?x :author :Woolf }"), exact_index, values=values)
    assert (found.rule, found.suggestions) == ("no-such-node", (":woolf",))
    (found,) = check(parse(PREFIX + EMPTY["likewise at least"]), exact_index)
    assert (found.rule, found.evidence) == ("group-too-small", "By the triples of its properties a group can have 2 at most.")
