"""Constants that do not join as they are written: relative IRIs, and literals that are not equal to themselves."""

import pyoxigraph as ox
import pytest
from graphs import index_of, store_of, values_of

from proxy.query.parse import parse
from proxy.validation.check import check, is_proved_empty

RELATIVE = [
    "SELECT * { ?x a ?c FILTER(?c = <C>) FILTER(?c = <http://e/C>) }",
    "SELECT * { ?x a ?c ; :p ?y FILTER(?c = <C>) }",
    "SELECT * { ?x a ?c ; :p ?y FILTER(?c IN (<D>, <C>)) }",
    "SELECT * { ?x a ?c ; :p ?y FILTER(sameTerm(<C>, ?c)) }",
    "SELECT * { ?x a ?c ; :p ?y FILTER(?c = <C> || ?c = <D>) }",
    "SELECT * { ?x a ?c ; :p ?y VALUES ?c { <C> } }",
    "SELECT * { ?x a ?c ; :p ?y VALUES ?c { <C> <D> } }",
    "SELECT * { ?x ?q ?y ; a ?c VALUES (?q ?c) { (<p> <C>) (<q> <C>) } }",
    "SELECT * { ?x a ?c ; :p ?y } VALUES ?c { <C> }",
    "SELECT * { BIND(<C> AS ?c) ?x a ?c ; :p ?y }",
    "SELECT * { VALUES ?c { <C> } VALUES ?c { <./C> } }",
    "SELECT * { VALUES ?c { <C> } FILTER(STR(?c) = 'http://e/C') }",
    "SELECT * { BIND(<C> AS ?c) FILTER(STR(?c) = 'http://e/C') }",
    "SELECT * { ?x a <C> FILTER EXISTS { ?x a ?c FILTER(?c = <C>) } }",
    "SELECT ?c { ?x a ?c } GROUP BY ?c HAVING(?c = <C>)",
    "SELECT * { VALUES ?c { <C> } ?c <q>* <./C> }",
]


@pytest.mark.parametrize("text", RELATIVE)
def test_relative_iris_make_no_conditions(text):
    """Only the backend knows its base: nothing is proved from an IRI that it has yet to resolve."""
    store = store_of("@prefix : <http://e/> . :x a :C ; :p 1 .")
    text = "PREFIX : <http://e/> " + text
    assert next(iter(store.query(text, base_iri="http://e/")), None) is not None
    assert not is_proved_empty(check(parse(text), index_of(store), values=values_of(store)))


@pytest.mark.parametrize(
    "constant", ["'NaN'^^xsd:double", "'NaN'^^xsd:float", "'x'^^xsd:integer", "'x'^^xsd:boolean", "1", "<http://e/i>"]
)
@pytest.mark.parametrize(
    "how", ["VALUES ?y {{ {} }}", "BIND({} AS ?y)", "FILTER(sameTerm(?y, {}))", "VALUES (?y ?z) {{ ({0} 1) ({0} 2) }}"]
)
def test_what_joins_by_term_is_asked_by_term(constant, how):
    """A stale index must not win: the ASK finds what the query finds, also where a term is not equal to itself."""
    prefix = "PREFIX : <http://e/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> "
    old = store_of("@prefix : <http://e/> . :x a :C ; :p 'text' .")
    new = ox.Store()
    new.update(f"{prefix} INSERT DATA {{ :x a :C ; :p {constant} }}")
    condition = how.format(constant)
    text = f"{prefix} SELECT * {{ " + (f"{condition} ?x :p ?y" if how.startswith("BIND") else f"?x :p ?y {condition}") + " }"
    assert next(iter(new.query(text)), None) is not None
    for finding in check(parse(text), index_of(old), values=values_of(old)):
        if finding.confirmation is not None:
            assert new.query(finding.confirmation)
