"""What findings say, where they point, and what they suggest."""

import time

import pytest
from graphs import values_of

from proxy.query.parse import parse
from proxy.validation.check import check, is_proved_empty
from proxy.validation.finding import Severity

PREFIX = "PREFIX : <http://library.example/>\n"


def findings(text, index):
    return check(parse(PREFIX + text), index)


@pytest.mark.parametrize(
    ("text", "rule", "message", "evidence", "suggestion"),
    [
        pytest.param(
            "SELECT * { ?x a :Loan ; :memberOf ?b }",
            "property-of-class",
            "No :Loan has the property :memberOf.",
            "0 of 2 :Loan have :memberOf; :memberOf is used by :Member (2).",
            "by way of :Member: :borrower/:memberOf",
            id="two hops",
        ),
        pytest.param(
            "SELECT * { ?x a :Author ; :author ?b }",
            "property-of-class",
            "No :Author has the property :author.",
            "0 of 3 :Author have :author; :author is used by :Novel (3).",
            "the other direction: :author leads to :Author, from :Novel (3)",
            id="other direction",
        ),
        pytest.param(
            "SELECT * { ?x a :Work }",
            "class-not-populated",
            "No node has the class :Work.",
            ":Work is declared but has 0 instances.",
            "its subclass :Novel (3 instances)",
            id="populated subclass",
        ),
        pytest.param(
            "SELECT * { ?x a :Novels }",
            "class-not-populated",
            "No node has the class :Novels.",
            ":Novels is unknown: it has 0 instances.",
            ":Novel (3 instances)",
            id="near class",
        ),
        pytest.param(
            "SELECT * { ?x a :Novel ; :page ?p }",
            "no-such-property",
            "No triple has the property :page.",
            ":page has 0 triples.",
            ":pages (:Novel has 3)",
            id="near property",
        ),
        pytest.param(
            "SELECT * { ?x :item ?y . ?y a :Author }",
            "property-to-class",
            ":item never leads to :Author.",
            ":item leads to :Novel (2).",
            ":item of :Loan (2)",
            id="object class",
        ),
        pytest.param(
            'SELECT * { ?x :author "Woolf" }',
            "object-form",
            ":author never leads to a literal of this kind here.",
            ":author leads to :Author (3); the pattern has a <http://www.w3.org/2001/XMLSchema#string>.",
            None,
            id="literal for a node",
        ),
    ],
)
def test_messages(text, rule, message, evidence, suggestion, exact_index):
    """The rule, the counts and the best suggestion, in the query's own prefixes."""
    (found,) = findings(text, exact_index)
    assert (found.severity, found.rule, found.message, found.evidence) == (Severity.PROVED_EMPTY, rule, message, evidence)
    assert suggestion is None or suggestion in found.suggestions


@pytest.mark.parametrize("rest", [":author ?b", "?p ?o", "a :Author", "^:author ?x"])
def test_a_literal_as_subject_is_named(rest, exact_index, library):
    """That is why there is nothing, and who is called so is found by the name."""
    text = f'{PREFIX} SELECT * {{ "Franz Kafka" {rest} }}'
    found = next(f for f in check(parse(text), exact_index, values=values_of(library)) if f.severity is Severity.PROVED_EMPTY)
    if rest.startswith("^"):
        assert found.rule != "literal-subject"  # there it is the object
        return
    assert found.rule == "literal-subject" and found.suggestions == ('by name: ?x :name "Franz Kafka"',)
    assert found.message == '"Franz Kafka" is a literal, and no literal is the subject of a triple.'


def test_a_finding_points_at_the_pattern_as_written(exact_index):
    """Line, column and words are the author's; in a property list the property is where the pattern starts."""
    (found,) = findings("SELECT ?x WHERE {\n  ?x  a   :Loan ;\n      :memberOf  ?b .\n}", exact_index)
    assert (found.line, found.column, found.pattern) == (4, 7, "?x :memberOf ?b")


def test_independent_contradictions_are_all_said(exact_index):
    """Two mistakes are two findings, in the order of the query, each confirmed by its own ASK."""
    first, second = findings("SELECT * { ?x a :Loan ; :memberOf ?b . ?y a :Branch ; :born ?z }", exact_index)
    assert (first.pattern, second.pattern) == ("?x :memberOf ?b", "?y :born ?z")
    ns = "http://library.example/"
    rdf_type = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    assert first.confirmation == f"ASK {{ ?x {rdf_type} <{ns}Loan> . ?x <{ns}memberOf> ?b . }}"
    assert second.confirmation == f"ASK {{ ?y {rdf_type} <{ns}Branch> . ?y <{ns}born> ?z . }}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT * { ?x a :Branch OPTIONAL { ?x :born ?y } }", "OPTIONAL never adds"),
        ("SELECT * { ?x a :Branch { ?x :born ?y } UNION { ?x :name ?y } }", "branch of the UNION is always empty"),
        ("SELECT * { ?x a :Branch MINUS { ?x :born ?y } }", "MINUS never removes"),
        ("SELECT * { ?x a :Branch FILTER NOT EXISTS { ?x :born ?y } }", "NOT EXISTS is always true"),
        ("SELECT (COUNT(*) AS ?n) { ?x a :Branch ; :born ?y }", "aggregate is over nothing"),
    ],
)
def test_dead_parts_are_vacuous(text, words, exact_index):
    """A part that never contributes is said, with its pattern, and proves nothing."""
    (found,) = findings(text, exact_index)
    assert (found.severity, found.pattern, found.confirmation) == (Severity.VACUOUS, "?x :born ?y", None)
    assert words in found.message


def test_an_ask_that_is_always_false_is_suspicious(exact_index):
    """False is an answer: the finding has no confirmation and rejects nothing."""
    (found,) = findings("ASK { ?x a :Branch ; :born ?y }", exact_index)
    assert (found.severity, found.confirmation) == (Severity.SUSPICIOUS, None)


def test_unknown_terms_inside_service_and_graph_are_not_ours(exact_index):
    """What another server or a named graph holds is not in the index."""
    text = "SELECT * { ?x :name ?n SERVICE <http://s.example/> { ?x :isbn ?y } GRAPH ?g { ?x a :Nobody } }"
    assert findings(text, exact_index) == ()


def test_an_unknown_term_in_an_optional_part_is_said_once(exact_index):
    """The dead part says it; the lexical rule does not repeat it."""
    (found,) = findings("SELECT * { ?x a :Novel OPTIONAL { ?x :isbn ?y } }", exact_index)
    assert (found.severity, found.rule) == (Severity.VACUOUS, "no-such-property")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * { ?x :scale ?s FILTER(?s > 1000) }",
        "SELECT (SUM(?s) AS ?n) { ?x :scale ?s }",
        "SELECT * { ?x :scale ?s FILTER(5 < ?s) }",
    ],
)
def test_numbers_kept_as_text_are_suspicious(text, exact_index):
    """Comparing or adding up a property that has only strings is a type error in SPARQL."""
    (found,) = findings(text, exact_index)
    assert (found.severity, found.rule, found.pattern) == (Severity.SUSPICIOUS, "text-as-number", "?x :scale ?s")


def test_a_good_query_has_no_findings(exact_index):
    """Nothing to say about a query with answers."""
    assert findings("SELECT ?t { ?x a :Novel ; :title ?t ; :author/:name ?n } ORDER BY ?t", exact_index) == ()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * { ?s " + "/".join([":sponsor"] * 4000) + " ?o }",
        "SELECT * { ?s :author ?o " + "FILTER NOT EXISTS { ?s :isbn ?x } " * 1000 + "}",
        "SELECT * { " + " ".join(f"?s :unknown{i} ?o{i} ." for i in range(1000)) + " }",
        "SELECT * { " + " ".join(f"?s{i} a :Unknown{i} ." for i in range(1000)) + " }",
        "SELECT * { ?s <http://e/" + "abcdefghi_" * 1500 + "> ?o }",
        "SELECT * { " + " ".join(f"?s{i} :sponsor+ ?o{i} ." for i in range(1000)) + " }",
        "SELECT * { " + "{ ?a :author ?o } " * 300 + " ".join(f"BIND(?s AS ?x{i})" for i in range(1000)) + " }",
    ],
    ids=["path", "filters", "properties", "classes", "long name", "repetitions", "binds"],
)
def test_a_large_query_is_checked_in_little_time(text, exact_index):
    """Beyond the bounds conditions and suggestions are left out."""
    query = parse(PREFIX + text)
    started = time.process_time()
    check(query, exact_index)
    assert time.process_time() - started < 3  # seconds; what is exponential never ends


def test_a_bound_that_was_reached_is_said(exact_index):
    """It is no verdict: the rest is judged as ever."""
    unions = " ".join("{ ?x :name ?y } UNION { ?x :title ?y }" for _ in range(7))
    found = check(parse(f"PREFIX : <http://library.example/> SELECT * {{ ?x :isbn ?z {unions} }}"), exact_index)
    assert found[-1].severity is Severity.NOT_ANALYSED
    assert found[-1].message == "Not analysed in full: more than 64 alternatives."
    assert is_proved_empty(found)


@pytest.mark.parametrize("n", ["9" * 5000, "-" + "9" * 5000, "+" + "0" * 5000 + "1"])
@pytest.mark.parametrize("operator", ["<", ">", "=", "<="])
def test_a_number_longer_than_python_reads(n, operator, index):
    """HAVING with 5,000 digits is no error of ours."""
    text = f"{{ ?x :memberOf ?y }} GROUP BY ?x HAVING(COUNT(*) {operator} {n})"
    assert not is_proved_empty(check(parse(f"PREFIX : <http://library.example/> SELECT ?x {text}"), index))


def test_a_very_long_iri_is_cut_in_messages(index):
    """A finding stays readable, whatever the query holds."""
    findings = check(parse(f"SELECT * {{ <http://e/{'a' * 100_000}> <http://e/{'b' * 100_000}> ?x }}"), index)
    assert findings and all(len(f.message) + len(f.evidence) < 2_000 for f in findings)
    assert len(findings[0].pattern) < 2_000


def test_of_many_findings_the_worst_are_listed(exact_index):
    """A hundred, worst first, and how many more there are; a proof among them is never left out."""
    many = " ".join(f"OPTIONAL {{ ?x :none{i} ?y{i} }}" for i in range(900))
    found = findings(f"SELECT * {{ ?x a :Novel {many} }}", exact_index)
    assert [f.rule for f in found[100:]] == ["more", "bound"]
    assert found[100].message == "800 more findings are not listed: 800 suspicious."
    assert [f.severity for f in found[:100]] == [Severity.VACUOUS] * 24 + [Severity.SUSPICIOUS] * 76
    proved = findings(f"SELECT * {{ ?x a :Novel {many} ?x a :Loan }}", exact_index)
    assert is_proved_empty(proved) and proved[0].severity is Severity.PROVED_EMPTY
    assert sum(len(f.message) + len(f.evidence) + sum(map(len, f.suggestions)) for f in proved) < 50_000
