"""What the configuration lets through, decided on the parse tree."""

import time
from dataclasses import replace

import pytest

from proxy.errors import MalformedRequest, OperationForbidden
from proxy.query.operation import OperationKind
from proxy.query.parse import parse
from proxy.query.policy import holds_service_keyword, holds_update_keywords, is_read_only, require_allowed

QUERY, UPDATE = OperationKind.QUERY, OperationKind.UPDATE


def check(text, expected=QUERY, *, updates=False, services=()):
    require_allowed(parse(text), expected=expected, allow_updates=updates, allowed_services=services)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("ASK { SERVICE <http://s/> { ?x ?p ?o } }", id="plain"),
        pytest.param("ASK { SERVICE SILENT ?s { ?x ?p ?o } }", id="variable"),
        pytest.param("SELECT * { { SELECT * { OPTIONAL { SERVICE <http://s/> {} } } } }", id="sub-query"),
        pytest.param("ASK { ?x ?p ?o FILTER(1 = 1 || NOT EXISTS { SERVICE <http://s/> {} }) }", id="exists"),
        pytest.param("SELECT (EXISTS { SERVICE <http://s/> {} } AS ?x) {}", id="projection"),
        pytest.param("SELECT ?x { ?x ?p ?o } GROUP BY ?x HAVING (EXISTS { SERVICE <http://s/> {} })", id="having"),
        pytest.param("SELECT * {} ORDER BY (EXISTS { SERVICE <http://s/> {} })", id="order by"),
        pytest.param("PREFIX a: <http://s/> ASK { GRAPH ?g { { } UNION { MINUS { SERVICE a: {} } } } }", id="prefixed"),
        pytest.param("ASK { \\u0053ERVICE <http://s/> {} }", id="escaped keyword"),
    ],
)
def test_a_service_is_found_wherever_it_stands(text):
    """SERVICE is refused at any depth unless its IRI is listed."""
    with pytest.raises(OperationForbidden, match="allowed_services"):
        check(text)


def test_a_tree_made_from_another_is_looked_at_anew():
    harmless, calling = parse("ASK {?s ?p ?o}"), parse("ASK {SERVICE <http://e/x> {?s ?p ?o}}")
    judged = dict(expected=OperationKind.QUERY, allow_updates=False, allowed_services=())
    require_allowed(harmless, **judged)
    with pytest.raises(OperationForbidden):
        require_allowed(replace(harmless, where=calling.where), **judged)


def test_a_listed_service_passes():
    """The list holds IRIs as they are after prefixes are resolved; an unlisted one beside it is still refused."""
    check("PREFIX a: <http://s/> ASK { SERVICE a: {} }", services=["http://s/"])
    with pytest.raises(OperationForbidden):
        check("ASK { SERVICE <http://s/> {} SERVICE <http://s/2> {} }", services=["http://s/"])


def test_a_star_allows_any_service():
    """``*`` allows every IRI, and a variable."""
    check("ASK { SERVICE ?s {} }", services=["*"])


def test_an_update_sent_as_a_query_is_malformed():
    """Even where updates are allowed, query= does not take one."""
    with pytest.raises(MalformedRequest, match="update"):
        check("CLEAR ALL", QUERY, updates=True)


def test_a_query_sent_as_an_update_is_malformed():
    """update= does not take a query."""
    with pytest.raises(MalformedRequest, match="query"):
        check("ASK {}", UPDATE, updates=True)


def test_an_update_needs_the_setting():
    """Updates are refused by default and the message names the setting."""
    with pytest.raises(OperationForbidden, match="allow_updates"):
        check("DELETE WHERE { ?s ?p ?o }", UPDATE)
    check("DELETE WHERE { ?s ?p ?o }", UPDATE, updates=True)


@pytest.mark.parametrize(
    "text",
    [
        "LOAD <http://s/>",
        "LOAD SILENT <http://s/> INTO GRAPH <http://g/>",
        "INSERT {} WHERE { SERVICE <http://s/> {} }",
        "INSERT DATA {} ; DELETE {} WHERE { { SELECT * { SERVICE SILENT ?x {} } } }",
    ],
)
def test_updates_may_not_fetch(text):
    """LOAD and SERVICE in an allowed update are held to the list of services."""
    with pytest.raises(OperationForbidden, match="allowed_services"):
        check(text, UPDATE, updates=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INSERT DATA { << <a> <b> <c> >> <d> 1 }", True),
        ("insert # c\n data{ }", True),
        ("DELETE{?s ?p ?o}", True),
        ("delete where {", True),
        ("LOAD <x>", True),
        ("CLEAR SILENT DEFAULT", True),
        ("DROP ALL", True),
        ("create silent graph <x>", True),
        ("COPY DEFAULT TO <x>", True),
        ("MOVE ex:a TO ex:b", True),
        ("\\u0049NSERT DATA {", True),
        ("ASK { \\u0022 } ; \\u0049NSERT DATA {}", True),
        ("SELECT ?load ?insert { ?load ex:drop ?insert . << ?a ?b ?c >> ex:copy ex:clear }", False),
        ("SELECT * { ?x ex:insert { } }", False),
        ("SELECT ?x { ?x rdfs:label 'how to load and drop' }", False),
    ],
)
def test_words_of_unparsable_text(text, expected):
    """A text that cannot be parsed counts as an update when an update operation might begin anywhere in it."""
    assert holds_update_keywords(text) is expected


def test_service_in_unparsable_text():
    """Likewise for SERVICE; a variable or a name of that spelling is none."""
    assert holds_service_keyword("ASK { << ?a ?b ?c >> ?d ?e SERVICE SILENT <x> {} }")
    assert holds_service_keyword("ASK { SERVICE ?x {} }")
    assert not holds_service_keyword("ASK { ?service ex:service <x> }")


def test_read_only():
    """A query that calls nobody is read-only; an update or a federated query is not."""
    assert is_read_only(parse("ASK { ?x ?p ?o }"))
    assert not is_read_only(parse("ASK { SERVICE <http://s/> {} }"))
    assert not is_read_only(parse("CLEAR ALL"))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("DELETE" + " " * 200_000, id="blanks"),
        pytest.param("INSERT" + "#\n" * 100_000, id="comments"),
        pytest.param(("DELETE" + " " * 5_000) * 40, id="blanks again and again"),
        pytest.param("INSERT#" * 28_000, id="words in one comment"),
        pytest.param("INSERT DATA#" * 17_000, id="two words in one comment"),
        pytest.param("#INSERT#\n" * 22_000, id="words in many comments"),
        pytest.param("INSERT#" * 14_000 + "\nDATA" + " " * 100_000, id="one end of many comments"),
        pytest.param("INSERT#" * 14_000 + "\nDATA" + "#\n" * 50_000, id="comments behind many comments"),
        pytest.param("LOAD-" * 40_000, id="words in a name"),
        pytest.param("LOAD SILENT " * 17_000, id="silent"),
        pytest.param("SERVICE#" * 25_000, id="service in comments"),
        pytest.param("SERVICE " + "SERVICE-SILENT-" * 7 + "\n" + ("SERVICE SILENT#" * 13_000), id="service silent"),
        pytest.param("\\u0049" * 33_000, id="escapes"),
        pytest.param("\\u007b" * 33_000, id="escapes of syntax"),
        pytest.param("\n" * 200_000, id="lines"),
    ],
)
def test_hostile_text_holds_nobody_up(text):
    """200 KB of any shape take linear time: the look at unparsable text runs between everybody's requests."""
    start = time.process_time()
    holds_update_keywords(text)
    holds_service_keyword(text)
    assert time.process_time() - start < 3  # seconds; what is quadratic takes minutes


@pytest.mark.parametrize(
    "text",
    [
        "INSERT # a\r# b {\n \t# c\n\n DATA#\n{",
        "ASK { <http://x/load#a> } # INSERT # DELETE\n {",
        "load#\nsilent#\nex:a",
        "LOAD SILENT#x:y",
        "COPY DEFAULT TO <g>",
        "DELETE\u2003WHERE{",
        "LOAD " + "a" * 500 + ":b",
    ],
)
def test_updates_with_gaps(text):
    """Blanks and comments of any kind may stand between the words; also a comment that begins in another."""
    assert holds_update_keywords(text)


@pytest.mark.parametrize(
    "text",
    ["INSERT # {", "INSERT # DATA {\n", "CLEAR # ALL", "?load <a>", "ASK { <http://x/load#a> }\n{", "DELETE\n#\nDATA #{\n#"],
)
def test_no_update_in_a_comment_alone(text):
    """What a comment hides is not behind the word."""
    assert not holds_update_keywords(text)
