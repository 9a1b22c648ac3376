"""Literals that the graph has in another form, and comparisons of numbers with texts: suspicious, and what to write instead."""

import pytest
from graphs import index_of, store_of, values_of

from proxy.query.parse import parse
from proxy.validation.check import check
from proxy.validation.finding import Severity

PREFIX = "PREFIX : <http://e/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> "
DATA = """
@prefix : <http://e/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:a a :City ; :name "Turku"@fi , "Salo" ; :size 4 , 5.0 ; :code "12" ; :since "1229-01-01"^^xsd:date ; :in :c .
:c a :Land ; :name "Finland"@en ; :mixed 7 , "7" , "8"@en .
"""


@pytest.fixture(scope="module")
def of():
    store = store_of(DATA)
    index, values = index_of(store), values_of(store)
    return lambda pattern: check(parse(f"{PREFIX} SELECT * {{ {pattern} }}"), index, values=values)


@pytest.mark.parametrize(
    ("pattern", "evidence", "suggestion"),
    [
        ('?x :name "Turku"', ':name is never "Turku" without a language tag, but "Turku"@fi.', '"Turku"@fi'),
        ('?x :name "Turku"@en', ':name is never "Turku"@en, but "Turku"@fi.', '"Turku"@fi'),
        ('?x :name "Salo"@fi', ':name is never "Salo"@fi, but "Salo" without a language tag.', 'it: "Salo"'),
        ('?x :name ?n FILTER(?n = "Turku")', ':name is never "Turku" without', '"Turku"@fi'),
        ('?x :name ?n FILTER("Turku"@sv = ?n)', ':name is never "Turku"@sv', '"Turku"@fi'),
        ('?x :name ?n FILTER(?n IN ("Turku", "Finland"))', ':name is never "Turku" without', '"Turku"@fi'),
        ('VALUES ?n { "Turku" } ?x :name ?n', ':name is never "Turku" without', 'STR(?x) = "Turku"'),
        ('?x :size "4"', ':size is never the text "4", but the number 4.', "spells it: 4"),
        ('?x :since "1229-01-01"', ':since is never the text "1229-01-01", but "1229-01-01"^^xsd:date.', "^^xsd:date"),
        ('?x :size ?n FILTER(?n > "3")', ':size leads to numbers only; "3" is a text.', "as a number: 3"),
        ('?x :since ?n FILTER("2000" >= ?n)', ':since leads to dates and times only; "2000" is a text.', None),
    ],
)
def test_another_form_is_suspicious(pattern, evidence, suggestion, of):
    """The pattern is named, what there is instead is said, and nothing is proved."""
    (finding,) = of(pattern)
    assert (finding.severity, finding.rule) == (Severity.SUSPICIOUS, "literal-form")
    assert finding.pattern.startswith("?x :") and finding.evidence.startswith(evidence)
    assert any(suggestion in s for s in finding.suggestions) if suggestion else not finding.suggestions


@pytest.mark.parametrize(
    "pattern",
    [
        '?x :name "Turku"@FI',
        '?x :name "Salo"^^xsd:string',
        '?x :name ?n FILTER(?n = "Turku" || ?n = "Turku"@fi)',
        'VALUES ?n { "Turku" "Salo" } ?x :name ?n',
        '?x :name ?n FILTER(?n != "Turku")',
        '?x :name ?n FILTER(STR(?n) = "Turku")',
        "?x :size 4.0",
        "?x :size 5",
        '?x :size "4"^^xsd:int',
        '?x :mixed "7"',
        "?x :mixed 7",
        '?x :mixed ?n FILTER(?n > "3")',
        '?x :code ?n FILTER(?n > "3")',
        '?x ?p "Turku"',
        'SERVICE <http://f/> { ?x :name "Turku" }',
    ],
)
def test_the_same_form_is_not(pattern, of):
    """Nor one that is equal in value, one of several, or one at a property that is not known."""
    assert of(pattern) == ()


def test_what_is_not_read_completely_is_not_said():
    """Another literal of the property may have the form that was asked for."""
    store = store_of(DATA)
    query = parse(PREFIX + 'SELECT * { ?x :name "Turku" }')
    assert check(query, index_of(store), values=values_of(store, cap=1)) == ()
    assert check(query, index_of(store)) == ()


def test_a_literal_of_the_wrong_kind_is_found_by_its_spelling(of):
    """The property leads to nodes that are called so; or has the literal, but as text."""
    (finding,) = of('?x :in "Finland"')
    assert finding.rule == "object-form" and finding.suggestions == ('by name: :in/:name "Finland"@en',)
    (finding,) = of("?x :code 12")
    assert finding.rule == "object-form" and finding.suggestions == ('as the graph spells it: "12"',)
    assert of('?x :in "Norway"')[0].suggestions == ()


def test_a_class_in_place_of_its_instance(of):
    """A class that is a node is no instance of itself."""
    store = store_of(DATA + ":City a :Thing . :Land a :Thing .")
    (finding,) = check(parse(PREFIX + "SELECT * { ?x :in :Land }"), index_of(store), values=values_of(store))
    assert finding.message == ":in never leads to :Land here."
    assert finding.suggestions == ("an instance of it: :in ?x . ?x a :Land",)
