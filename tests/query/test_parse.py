"""Text → ParsedQuery and ParsedUpdate: the tree, the positions, the limits."""

import time

import pytest

from proxy.errors import MalformedQuery
from proxy.query.model import (
    AlternativePath,
    And,
    Arithmetic,
    BasicGraphPattern,
    Comparison,
    Exists,
    Filter,
    GraphManagement,
    GraphSet,
    InlineData,
    InsertData,
    InversePath,
    Load,
    Modify,
    NegatedPropertySet,
    OneOrMorePath,
    Or,
    ParsedUpdate,
    QueryForm,
    SequencePath,
    Service,
    SubSelect,
    TriplePattern,
    TripleTerm,
    ZeroOrMorePath,
    is_relative,
    walk,
)
from proxy.query.parse import GRAPHDB_PREFIXES, parse
from proxy.query.render import render
from proxy.query.term import RDF, RDF_LANG_STRING, XSD, Iri, Literal, Variable

P = "PREFIX : <http://e/> PREFIX a: <http://a/> "
E = "http://e/"


def patterns(body):
    return [n for n in walk(parse(P + f"SELECT * {{ {body} }}")) if isinstance(n, TriplePattern)]


def objects(body):
    return [p.object for p in patterns(body)]


@pytest.mark.parametrize(
    ("text", "term"),
    [
        (":a\\#b", Iri(E + "a#b")),
        (":c%20d", Iri(E + "c%20d")),
        (":e.f", Iri(E + "e.f")),
        (":g:h", Iri(E + "g:h")),
        ("a:b", Iri("http://a/b")),
        (":", Iri(E)),
        (":1", Iri(E + "1")),
        ("1", Literal("1", XSD + "integer")),
        ("-1.5", Literal("-1.5", XSD + "decimal")),
        ("+1e3", Literal("+1e3", XSD + "double")),
        (".5", Literal(".5", XSD + "decimal")),
        ("true", Literal("true", XSD + "boolean")),
        ('"a\\"b\\n"', Literal('a"b\n')),
        ("'''x'y\n'''", Literal("x'y\n")),
        ('"""a""b"""', Literal('a""b')),
        ('""', Literal("")),
        ('"z"@en-GB', Literal("z", RDF_LANG_STRING, "en-GB")),
        ('"1"^^:int', Literal("1", E + "int")),
        ('"caf\\u00e9"', Literal("café")),
        ("<http://x/\\u00e9>", Iri("http://x/é")),
        ("()", Iri(RDF + "nil")),
        ("$v", Variable("v")),
        ("_:x", Variable("_:x")),
    ],
)
def test_terms(text, term):
    """Every form of term, its escapes resolved."""
    assert objects(f"?s :p {text} .") == [term]


def test_blank_nodes_and_collections_are_triples():
    """``[…]`` and ``(…)`` become variables and the triples that they stand for."""
    found = patterns("[ :p ?x ] :q (1 ?y)")
    names = [p.predicate.value.rpartition("/")[2].rpartition("#")[2] for p in found]
    assert names == ["p", "q", "first", "rest", "first", "rest"]
    assert found[0].subject == found[1].subject
    assert found[0].subject.is_blank
    assert found[1].object == found[2].subject
    assert found[3].object == found[4].subject
    assert found[5].object == Iri(RDF + "nil")


def test_anonymous_names_never_meet_written_ones():
    """A label of the author is not the name of an anonymous node."""
    first, second = patterns("[] :p _:anon1 .")[0], patterns("_:anon1 :p [] .")[0]
    assert first.subject != first.object
    assert second.subject != second.object


def test_paths():
    """Precedence of the path operators: ``^`` below ``*``, then ``/``, then ``|``."""
    p, q, r = (Iri(E + n) for n in "pqr")
    (found,) = patterns("?x :p/^:q*|(:r|:p)+ ?y")
    assert found.predicate == AlternativePath(
        (SequencePath((p, InversePath(ZeroOrMorePath(q)))), OneOrMorePath(AlternativePath((r, p))))
    )
    (found,) = patterns("?x !(:p|^a|:q) ?y")
    assert found.predicate == NegatedPropertySet((p, q), (Iri(RDF + "type"),))


def test_a_plus_before_a_number():
    """``:p +1`` is the number one; ``:p+ 1`` is a path."""
    assert patterns("?x :p +1")[0].predicate == Iri(E + "p")
    assert patterns("?x :p+ 1")[0].predicate == OneOrMorePath(Iri(E + "p"))


def test_expressions():
    """Precedence and chains; a sign that sticks to a number is an operator between operands."""
    (found,) = [n for n in walk(parse("ASK { FILTER(?a || ?b && ?c -1 * 2 < 3) }")) if isinstance(n, Filter)]
    a, b, c = (Variable(n) for n in "abc")
    one, two, three = (Literal(n, XSD + "integer") for n in "123")
    product = Arithmetic(("*",), (one, two))
    assert found.expression == Or((a, And((b, Comparison("<", Arithmetic(("-",), (c, product)), three)))))


def test_positions():
    """A pattern starts at its subject, its property, or its object, whichever is its own; columns count characters."""
    text = 'SELECT * {\n  ?é :p "ü" , ?y ;\n     :q ?z\n}'
    found = [n.span for n in walk(parse(P.replace("\n", "") + text)) if isinstance(n, TriplePattern)]
    assert [(s.line, s.column, s.text) for s in found] == [(2, 3, '?é :p "ü"'), (2, 15, "?é :p ?y"), (3, 6, "?é :q ?z")]


def test_positions_behind_codepoint_escapes():
    """Columns are those of the text as sent, escapes unresolved."""
    text = 'ASK { ?x ?p "\\u00e9\\u00e9" . ?y ?p ?z }'
    second = [n.span for n in walk(parse(text)) if isinstance(n, TriplePattern)][1]
    assert (second.offset, second.column) == (text.index("?y"), text.index("?y") + 1)


def test_filters_do_not_part_a_basic_graph_pattern():
    """Triples around a FILTER are one basic graph pattern; around an OPTIONAL they are two."""
    assert sum(isinstance(n, BasicGraphPattern) for n in walk(parse("ASK { ?a ?b ?c FILTER(?a) ?d ?e ?f }"))) == 1
    assert sum(isinstance(n, BasicGraphPattern) for n in walk(parse("ASK { ?a ?b ?c OPTIONAL { } ?d ?e ?f }"))) == 2


def test_query_clauses():
    """Every clause lands in its field."""
    query = parse(
        P + "SELECT DISTINCT ?x (COUNT(DISTINCT ?y) AS ?n) FROM :g FROM NAMED :h WHERE { ?x :p ?y } GROUP BY ?x (?y + 1 AS ?z)"
        " HAVING(?n > 1) ORDER BY DESC(?n) ?x LIMIT 5 OFFSET 2 VALUES ?x { :a UNDEF }"
    )
    assert (query.form, query.is_distinct, query.limit, query.offset) == (QueryForm.SELECT, True, 5, 2)
    assert (query.dataset.default_graphs, query.dataset.named_graphs) == ((E + "g",), (E + "h",))
    assert [o.is_descending for o in query.order_by] == [True, False]
    assert query.group_by[1].variable == Variable("z")
    assert query.values.rows == ((Iri(E + "a"),), (None,))
    assert not query.is_aggregate_without_group_by
    assert parse("SELECT (COUNT(*) AS ?n) {}").is_aggregate_without_group_by
    assert not parse("SELECT * { { SELECT (COUNT(*) AS ?n) {} } }").is_aggregate_without_group_by


def test_updates():
    """The operations of an update, in order, their graphs and templates."""
    update = parse(
        P + "INSERT  DATA { GRAPH :g { :a :b :c } } ; LOAD SILENT :x INTO GRAPH :g ; CLEAR ALL ; MOVE DEFAULT TO :g ;"
        " WITH :g DELETE { ?s ?p ?o } INSERT { ?s ?p 1 } USING NAMED :h WHERE { ?s ?p ?o }"
    )
    assert isinstance(update, ParsedUpdate)
    insert, load, clear, move, modify = update.operations
    assert isinstance(insert, InsertData)
    assert insert.quads[0].graph == Iri(E + "g")
    assert load == Load(Iri(E + "x"), Iri(E + "g"), True)
    assert clear == GraphManagement("CLEAR", GraphSet.ALL)
    assert move == GraphManagement("MOVE", Iri(E + "g"), GraphSet.DEFAULT)
    assert isinstance(modify, Modify)
    assert (modify.with_graph, modify.using.named_graphs) == (Iri(E + "g"), (E + "h",))


def test_base_and_relative_iris():
    """BASE resolves; without one the IRI stays relative and is marked so."""
    assert objects("?s ?p <x>")[0] == Iri("x")
    assert is_relative(Iri("x"))
    assert not is_relative(Iri("urn:x"))
    (found,) = [n for n in walk(parse("BASE <http://b/c/> ASK { ?s ?p <../d> }")) if isinstance(n, TriplePattern)]
    assert found.object == Iri("http://b/d")


def test_predeclared_prefixes():
    """A backend's own prefixes are known when asked for, and the text's come first."""
    with pytest.raises(MalformedQuery, match="prefix rdfs: is not declared") as caught:
        parse("ASK { ?x rdfs:label ?y }")
    assert (caught.value.line, caught.value.column) == (1, 10)
    parse("ASK { ?x rdfs:label ?y }", prefixes=GRAPHDB_PREFIXES)
    query = parse("PREFIX rdf: <http://m/> ASK { ?x ?y rdf:a }", prefixes=GRAPHDB_PREFIXES)
    (found,) = [n for n in walk(query) if isinstance(n, TriplePattern)]
    assert found.object == Iri("http://m/a")


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("SELECT * WHERE {\n ?x ?p \n}", 3, 1),
        ("SELECT * WHERE { ?x ?p ?o", 1, 26),
        ("SELEKT * {}", 1, 1),
        ('ASK { ?x ?p "open }', 1, 13),
        ("ASK { ?x ?p ?o ?s ?p ?o }", 1, 16),
        ("ASK { _:x ?p ?o OPTIONAL { _:x ?p ?o } }", 1, 28),
        ("ASK { ?x ?p 1e } ", 1, 14),
        ("ASK { << ?s ?p >> ?q ?r }", 1, 16),
        ("ASK { ?s ?p ?o {| ?q ?r }", 1, 25),
        ("ASK { ?s <p>/<q> ?o {| ?q ?r |} }", 1, 18),
        ("ASK {} ASK {}", 1, 8),
        ("ASK { VALUES (?x ?y) { (1) } }", 1, 26),
        ("ASK { FILTER(REGEX(?x)) }", 1, 22),
        ("", None, None),
    ],
)
def test_malformed(text, line, column):
    """What is not SPARQL says where it stops being it."""
    if line is None:
        assert parse(text) == ParsedUpdate(())
        return
    with pytest.raises(MalformedQuery) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT nonsense", "expected a variable, ( or *, found nonsense"),
        ("\ufeffSELECT * {}", "a byte order mark (U+FEFF) stands here, which is no part of SPARQL: save the text without it"),
        ("SELECT * { ?s ?p \x00 }", "U+0000 (control character) starts no token"),
        ("SELECT * { ?s ?p \ud800 }", "U+D800 (half a surrogate pair) starts no token"),
        ("SELECT * {\xa0?s ?p ?o }", "U+00A0 (no-break space) starts no token"),
        ("SELECT * { ?s ?p \u201chi\u201d }", "\u201c starts no token; strings stand in \" or '"),
        ('SELECT * { ?s ?p "hi\n" }', "a string begins here that has no end (on this line), or an escape that there is not"),
        ("SELECT * { ?s ?p <http://a b> }", "found < of an IRI that has no end, or a character that no IRI has"),
        ("SELECT * {\r\n ?x ?p \r\n}", "expected a variable, an IRI, a blank node or a literal, found }"),
        ("SELECT * { ?x foo:bar ?y }", "prefix foo: is not declared"),
        ("SELECT * { " + "x" * 500_000 + " }", "found " + "x" * 40 + "…"),
        ('SELECT * { ?s ?p "\\uD800" }', "\\uD800 stands for no character"),
        ("SELECT * { ?s ?p \\u0022a\\u0022 }", "may be syntax, and databases differ on whether it then is"),
        ("SELECT * { } LIMIT " + "9" * 5_000, "too large to analyse: LIMIT has 5,000 digits, more than 30"),
    ],
)
def test_a_message_names_the_cause(text, said):
    """In the author's own words, bounded, with the place once."""
    with pytest.raises(MalformedQuery) as caught:
        parse(text)
    error = caught.value
    assert error.message.endswith(said) and len(error.message) < 200
    assert str(error) == f"line {error.line}, column {error.column}: {error.message}"
    assert error.reason == ("size" if "too large" in said else "escape" if "may be" in said else "syntax")


REIFIES = Iri("http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies")


def test_rdf_12_is_read_as_what_it_stands_for():
    """A reified triple is its reifier and says what that reifies; an annotation also states the triple."""
    s, p, o, r, y = map(Variable, "spory")
    triple = TripleTerm(s, p, o)
    (group,) = parse("ASK { << ?s ?p ?o ~ ?r >> ?p ?y }").where.elements
    assert group.patterns == (TriplePattern(r, REIFIES, triple), TriplePattern(r, p, y))
    (group,) = parse("ASK { ?s ?p ?o ~ ?r {| ?p ?y |} }").where.elements
    assert group.patterns == (TriplePattern(s, p, o), TriplePattern(r, REIFIES, triple), TriplePattern(r, p, y))


@pytest.mark.parametrize(
    "text",
    [
        "ASK { << ?s ?p ?o >> }",
        "ASK { << << ?s ?p ?o >> ?p <<( ?s a 1 )>> >> ?q ?r , ?t }",
        "ASK { ?x ?y <<( ?s ?p <<( ?s ?p 'a'@en--ltr )>> )>> }",
        "ASK { ?s ?p ?o ~ ~ <http://e/r> {| a ?c ; ?q [ ?y 1 ] |} {| ?q 2 |} , ?o2 ~ _:b }",
        "VERSION '1.2' SELECT (isTRIPLE(<<( ?s ?p ?o )>>) AS ?t) { VALUES ?v { <<( <http://e/a> a 1 )>> UNDEF } }",
        "ASK { ?v ?p ?o LATERAL { ?o ?p ?v } }",
        "CONSTRUCT { ?s ?p ?o {| ?q 1 |} } WHERE { BIND(TRIPLE(?s, ?p, ?o) AS ?t) FILTER(hasLANG(OBJECT(?t))) }",
        "INSERT DATA { <http://e/a> <http://e/b> 1 ~ <http://e/r> {| <http://e/c> 2 |} }",
    ],
)
def test_rdf_12_round_trip(text):
    """Triple terms, reifiers, annotations, base directions, VERSION and LATERAL are read and rendered."""
    tree = parse(text)
    assert parse(render(tree)) == tree


def test_policy_reaches_into_lateral():
    """SERVICE is found wherever it stands."""
    assert any(isinstance(n, Service) for n in walk(parse("ASK { LATERAL { SERVICE ?s { } } }")))


@pytest.mark.parametrize("text", ['ASK { ?x ?p "\\u0022" }', "ASK { ?x ?p <\\u003e> }", "ASK { ?x ?p ?o \\u007d"])
def test_an_escape_that_could_be_syntax_is_unknown(text):
    """Backends differ on it, so nothing is said about such a text."""
    with pytest.raises(MalformedQuery, match="escape"):
        parse(text)


HOSTILE = {
    "groups": "SELECT * " + "{" * 10_000 + "}" * 10_000,
    "brackets": "ASK { FILTER(" + "(" * 10_000 + "1" + ")" * 10_000 + ") }",
    "negations": "ASK { FILTER(" + "!" * 10_000 + "?x) }",
    "collections": "ASK { ?x ?y " + "(" * 10_000 + ")" * 10_000 + " }",
    "blank nodes": "ASK { ?x ?y " + "[?a " * 10_000 + "]" * 10_000 + " }",
    "paths": "ASK { ?x " + "(" * 10_000 + "<a>" + ")" * 10_000 + " ?y }",
    "exists": "ASK { " + "FILTER EXISTS { " * 10_000 + "}" * 10_001,
    "sub-queries": "SELECT * { " + "{ SELECT * { " * 5_000 + "} }" * 5_000 + "}",
    "10 MB of values": "ASK { VALUES ?x { " + "1 " * 5_000_000 + "} }",
    "100,000 patterns": "ASK { " + "?s <p> ?o . " * 100_000 + "}",
    "words with dots": "a." * 50_000,
    "hyphens": "a-" * 200_000,
    "open long strings": 'ASK { ?x ?y """' + '"" ' * 300_000,
}
MANY = {
    "a long sum": "ASK { FILTER(?x" + "-1" * 5_000 + ") }",
    "a long disjunction": "ASK { FILTER(" + " || ".join(["?x = 1"] * 5_000) + ") }",
    "a long path": "ASK { ?x " + "/".join(["<a>"] * 5_000) + " ?y }",
    "many objects": "ASK { ?x <p> 1" + ", 1" * 5_000 + " }",
    "many unions": "ASK { {} " + "UNION {} " * 5_000 + "}",
    "many values": "ASK { VALUES ?x { " + " ".join(f"<http://e/{i}>" for i in range(5_000)) + " } }",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_refused_in_time(text):
    """Nesting and size beyond the limits are MalformedQuery, at once; never a RecursionError."""
    start = time.process_time()
    with pytest.raises(MalformedQuery):
        parse(text)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("text", MANY.values(), ids=MANY)
def test_long_text_is_read(text):
    """Length alone is no depth: chains are read in loops, and walking and rendering them needs no recursion."""
    query = parse(text)
    assert parse(render(query)) == query
    assert sum(1 for _ in walk(query)) > 1000


def test_walk_reaches_everything():
    """SERVICE, EXISTS, sub-queries and VALUES at any depth are reached, in the order of the text."""
    query = parse("SELECT (EXISTS { ?a ?b 1 } AS ?e) { { SELECT * { OPTIONAL { SERVICE ?s { ?c ?d 2 } } } } VALUES ?v { 3 } }")
    found = list(walk(query))
    assert [n.lexical for n in found if isinstance(n, Literal)] == ["1", "2", "3"]
    for cls in (Exists, SubSelect, Service, InlineData):
        assert any(isinstance(n, cls) for n in found)
    assert not any(isinstance(n, Service) for n in walk(query, into_subselect=False))
    assert [n.lexical for n in walk(query, into_exists=False) if isinstance(n, Literal)] == ["2", "3"]
