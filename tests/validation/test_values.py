"""Proofs by the literals that a property has, over tests/data/library.ttl, and what is said about them."""

import pytest
from graphs import index_of, store_of, values_of

from proxy.query.literals import may_be_equal
from proxy.query.parse import parse
from proxy.query.term import RDF_LANG_STRING, XSD, Literal
from proxy.validation.check import check, is_proved_empty
from proxy.validation.finding import Severity

PREFIX = "PREFIX : <http://library.example/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> "

EMPTY = {
    "a text that no title is": 'SELECT * { ?x :title "Ulysses"@en }',
    "a text in another case": 'SELECT * { ?x :name "virginia woolf" }',
    "a text of another class only": 'SELECT * { ?x a :Author ; :name "Oslo" }',
    "a text of another property only": 'SELECT * { ?x :shelf "Ana" }',
    "FILTER: equality": 'SELECT * { ?x :name ?n FILTER(?n = "Anna") }',
    "FILTER: IN": 'SELECT * { ?x :name ?n FILTER(?n IN ("Anna", "Bob")) }',
    "FILTER: STR": 'SELECT * { ?x :title ?t FILTER(STR(?t) = "orlando") }',
    "FILTER: STR is no IRI's here": 'SELECT * { ?x :title ?t FILTER(STR(?t) = "http://library.example/woolf") }',
    "VALUES": 'SELECT * { VALUES ?n { "Anna" "Bob" } ?x :name ?n }',
    "BIND": 'SELECT * { BIND("Anna" AS ?n) ?x :name ?n }',
    "a number": "SELECT * { ?x :pages 334 }",
    "a number, beside another": "SELECT * { ?x :pages ?n FILTER(?n = 333.5) }",
    "a date": 'SELECT * { ?x :joined "2021-06-01"^^xsd:date }',
    "a truth": "SELECT * { ?x :renewed false }",
    "a range above": "SELECT * { ?x :pages ?n FILTER(?n > 1000) }",
    "a range below": "SELECT * { ?x :born ?n FILTER(1800 >= ?n) }",
    "a range in a class": "SELECT * { ?x a :Atlas ; :pages ?n FILTER(?n > 300) }",
    "a range of dates": 'SELECT * { ?x :joined ?d FILTER(?d > "2023-06-01"^^xsd:date) }',
    "a path to it": 'SELECT * { ?x :author/:name "Goethe" }',
    "in an EXISTS": 'SELECT * { ?x :name ?n FILTER EXISTS { ?x :name "Goethe" } }',
}
EMPTY_BY_ITSELF = {
    "two numbers at once": "SELECT * { ?x :pages ?n FILTER(?n = 1 && ?n = 2) }",
    "two texts at once": 'SELECT * { ?x :name ?n FILTER(?n = "a") FILTER(?n = "b") }',
    "a text and a number": 'SELECT * { ?x ?p ?n FILTER(?n = "a" && ?n = 1) }',
    "an empty range": "SELECT * { ?x ?p ?n FILTER(?n > 10 && ?n < 5) }",
    "a number outside its range": "SELECT * { ?x ?p ?n FILTER(?n IN (1, 2) && ?n > 5) }",
    "HAVING: no group is empty": "SELECT ?x (COUNT(*) AS ?c) { ?x :name ?n } GROUP BY ?x HAVING (COUNT(*) < 1)",
    "HAVING: no count is negative": "SELECT ?x { ?x :name ?n } GROUP BY ?x HAVING (COUNT(?n) = -1)",
    "HAVING: a key that is none": "SELECT ?n { ?x :name ?n } GROUP BY ?n HAVING (?n = 5)",
}
NOT_PROVED = {
    "the text": 'SELECT * { ?x :name "Ana" }',
    "the text without its language": 'SELECT * { ?x :title "Orlando" }',
    "the text with another language": 'SELECT * { ?x :title "Orlando"@fr }',
    "the text as another datatype": 'SELECT * { ?x :name ?n FILTER(?n = "Ana"^^:custom) }',
    "STR of it": 'SELECT * { ?x :title ?t FILTER(STR(?t) = "Orlando") }',
    "the number as another type": "SELECT * { ?x :pages 333.0 }",
    "the number as a double": "SELECT * { ?x :pages ?n FILTER(?n = 3.33e2) }",
    "nearly the number, in single precision": 'SELECT * { ?x :pages ?n FILTER(?n = "333.00001"^^xsd:float) }',
    "the date with a time zone": 'SELECT * { ?x :joined "2021-03-01Z"^^xsd:date }',
    "a day beside it": 'SELECT * { ?x :joined ?d FILTER(?d > "2022-11-16"^^xsd:date) }',
    "the truth by another name": 'SELECT * { ?x :renewed "1"^^xsd:boolean }',
    "a range that reaches": "SELECT * { ?x :pages ?n FILTER(?n >= 352) }",
    "a range on text is for the engine": "SELECT * { ?x :scale ?n FILTER(?n > 9999999) }",
    "a range of text": 'SELECT * { ?x :name ?n FILTER(?n > "zzz") }',
    "an ill-typed number": 'SELECT * { ?x :pages "many"^^xsd:integer }',
    "not a number": 'SELECT * { ?x :pages "NaN"^^xsd:double }',
    "an unequal value": 'SELECT * { ?x :name ?n FILTER(?n != "Anna") }',
    "in an OPTIONAL": 'SELECT * { ?x a :Author OPTIONAL { ?x :name "Goethe" } }',
    "in GRAPH": 'SELECT * { GRAPH ?g { ?x :name "Goethe" } }',
    "one value fits": 'SELECT * { ?x :name ?n FILTER(?n IN ("Anna", "Ana")) }',
    "one date or another": "SELECT * { ?x :pages ?n FILTER(?n > 1000 || ?n < 300) }",
    "HAVING: a count of nothing bound": "SELECT ?x { ?x :name ?n } GROUP BY ?x HAVING (COUNT(?y) = 0)",
    "HAVING: a key": 'SELECT ?n { ?x :name ?n } GROUP BY ?n HAVING (?n = "Ana")',
    "HAVING: without GROUP BY there is one row": "SELECT (COUNT(*) AS ?c) { ?x :name ?n } HAVING (COUNT(*) < 1)",
}


@pytest.fixture(scope="module")
def values(library):
    found = values_of(library)
    yield found
    found.close()


@pytest.mark.parametrize("text", [*EMPTY.values(), *EMPTY_BY_ITSELF.values()], ids=[*EMPTY, *EMPTY_BY_ITSELF])
def test_what_is_proved(text, index, values, library):
    """The query is proved empty, it is empty, and the ASK, which holds the literal, is false."""
    findings = check(parse(PREFIX + text), index, values=values)
    assert is_proved_empty(findings)
    assert next(iter(library.query(PREFIX + text)), None) is None
    for f in findings:
        if f.severity is Severity.PROVED_EMPTY:
            assert not library.query(f.confirmation)


@pytest.mark.parametrize("text", EMPTY.values(), ids=EMPTY)
def test_values_are_needed(text, index):
    """Without the value index nothing is said."""
    assert not is_proved_empty(check(parse(PREFIX + text), index))


@pytest.mark.parametrize("text", EMPTY_BY_ITSELF.values(), ids=EMPTY_BY_ITSELF)
def test_some_need_no_data(text, index):
    """What excludes itself does so over any data."""
    assert is_proved_empty(check(parse(PREFIX + text), index))


@pytest.mark.parametrize("text", NOT_PROVED.values(), ids=NOT_PROVED)
def test_what_is_not_proved(text, index, values):
    """An engine could find something: no proof."""
    assert not is_proved_empty(check(parse(PREFIX + text), index, values=values))


@pytest.mark.parametrize("text", EMPTY.values(), ids=EMPTY)
def test_incomplete_values_prove_nothing(text, index, library):
    """Where not every literal was read, a missing one may be there."""
    values = values_of(library, cap=0)
    assert not is_proved_empty(check(parse(PREFIX + text), index, values=values))
    values.close()


def test_many_numbers_are_known_by_their_range():
    """Past the cap of what is laid out, what lies outside the range is proved, and nothing inside it."""
    store = store_of("@prefix : <http://library.example/> . " + " ".join(f":x :p {i * 2} ." for i in range(3000)))
    index, values = index_of(store), values_of(store, cap=10_000)
    for text, expected in (("7000", True), ("-5", True), ("1", False), ("2", False)):
        assert is_proved_empty(check(parse(f"{PREFIX} SELECT * {{ ?x :p {text} }}"), index, values=values)) is expected
    values.close()


@pytest.mark.parametrize("special", ["INF", "-INF", "NaN"])
@pytest.mark.parametrize("count", [2, 3000])
def test_infinity_is_beyond_every_range(special, count):
    """A range of finite numbers says nothing where there is an infinite one."""
    many = " ".join(f":x :p {i} ." for i in range(count))
    store = store_of(f"@prefix : <http://library.example/> . {many} :x :p '{special}'^^<{XSD}double> .")
    index, values = index_of(store), values_of(store, cap=10_000)
    for text in (f"{PREFIX} SELECT * {{ ?x :p ?n FILTER(?n {operator} 9e9) }}" for operator in ("<", ">")):
        if is_proved_empty(check(parse(text), index, values=values)):
            assert next(iter(store.query(text)), None) is None
    values.close()


@pytest.mark.parametrize(
    ("text", "rule", "message", "evidence", "suggestion"),
    [
        (
            'SELECT * { ?x a :Author ; :name "virginia wolf" }',
            "no-such-value",
            'No :name of :Author is "virginia wolf".',
            ':name of :Author has 3 different values, such as "Franz Kafka", "Jorge Luis Borges", "Virginia Woolf".',
            'as the graph spells it: "Virginia Woolf"',
        ),
        (
            'SELECT * { ?x :title ?t FILTER(?t = "orlando") }',
            "no-such-value",
            'No :title is "orlando".',
            ':title has 4 different values, such as "Das Schloss", "Orlando", "The Waves".',
            'as the graph spells it: "Orlando"@en',
        ),
        (
            "SELECT * { ?x a :Novel ; :pages ?n FILTER(?n > 1000) }",
            "out-of-range",
            "No :pages of :Novel is > 1000.",
            ":pages of :Novel goes from 324 to 352.",
            None,
        ),
    ],
    ids=["spelling", "language", "range"],
)
def test_messages(text, rule, message, evidence, suggestion, exact_index, values):
    """The value, what there is, and the literal as the graph spells it."""
    (found,) = check(parse(PREFIX + text), exact_index, values=values)
    assert (found.severity, found.rule, found.message, found.evidence) == (Severity.PROVED_EMPTY, rule, message, evidence)
    assert found.suggestions[:1] == (() if suggestion is None else (suggestion,))


@pytest.mark.parametrize("text", ["SELECT * { ?x :scale ?s } ORDER BY ?s", "SELECT (MAX(?s) AS ?m) { ?x :scale ?s }"])
def test_numbers_sorted_as_text_are_suspicious(text, exact_index, values):
    """What looks like numbers but is text is sorted letter by letter; names are meant to be."""
    (found,) = check(parse(PREFIX + text), exact_index, values=values)
    assert (found.severity, found.rule) == (Severity.SUSPICIOUS, "text-as-number")
    assert found.suggestions == ("convert it, as in xsd:decimal(STR(?s))",)
    assert check(parse(PREFIX + text.replace(":scale", ":name")), exact_index, values=values) == ()


def literal(lexical, datatype="string"):
    return Literal(lexical, RDF_LANG_STRING, "en") if datatype == "en" else Literal(lexical, XSD + datatype)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (literal("1", "integer"), literal("1.0", "decimal"), True),
        (literal("0.1", "float"), literal("0.1", "double"), True),
        (literal("16777217", "integer"), literal("16777216", "float"), True),
        (literal("1", "integer"), literal("2", "integer"), False),
        (literal("1e39", "double"), literal("INF", "float"), True),
        (literal("1_0", "integer"), literal("10", "integer"), False),
        (literal("x"), literal("x", "en"), True),
        (literal("x"), literal("X"), False),
        (literal("é"), literal("e\u0301"), True),
        (literal("2020-01-01", "date"), literal("2019-12-31Z", "date"), True),
        (literal("2020-01-01", "date"), literal("2020-01-09", "date"), False),
        (literal("2020-02-28T23:00:00-14:00", "dateTime"), literal("2020-03-01T13:00:00", "dateTime"), True),
        (literal("2020", "gYear"), literal("2020-07-01", "date"), True),
        (literal("10:00:00", "time"), literal("11:00:00", "time"), True),
        (literal("true", "boolean"), literal("1", "boolean"), True),
        (literal("true", "boolean"), literal("0", "boolean"), False),
        (literal("P1D", "duration"), literal("PT24H", "duration"), True),
        (literal("1"), literal("1.0", "decimal"), True),
        (literal("a"), literal("1", "integer"), False),
    ],
)
def test_what_may_be_equal(a, b, expected):
    """In doubt it may; both ways alike."""
    assert may_be_equal(a, b) is expected
    assert may_be_equal(b, a) is expected
