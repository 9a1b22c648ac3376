"""plugins/predicate_access.py: no way of asking tells anything of a hidden predicate, judged by noninterference."""

import pytest

from proxy.errors import ConfigError

OPEN = """
<http://e/ann> <http://e/name> "Ann" .
<http://e/ann> <http://e/knows> <http://e/bob> .
<http://e/bob> <http://e/knows> <http://e/cid> .
<http://e/ann> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://e/Person> .
"""
HIDDEN = """
<http://e/ann> <http://e/salary> "SECRET" .
<http://e/secret> <http://e/salary> "SECRET 2" .
<http://e/bob> <http://e/boss> <http://e/ann> .
"""
KEYS = {"boss": "boss-0123456789-0123456789"}
DENY = '[plugins.predicate_access]\ndeny = ["http://e/salary", "http://e/boss"]\nexempt = ["boss"]\n'
ALLOW = (
    '[plugins.predicate_access]\nexempt = ["boss"]\n'
    'allow = ["http://e/name", "http://e/knows", "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"]\n'
)
ATTACKS = """
SELECT * { ?s ?p ?o }
SELECT * { ?s <http://e/salary> ?o }
PREFIX e: <http://e/> SELECT * { ?s e:salary ?o }
PREFIX e: <http://e/sal> SELECT * { ?s e:ary ?o }
PREFIX e: <http://e/> SELECT * { ?s e:sal\\u0061ry ?o }
PREFIX e: <http://e/> SELECT * { ?s e:\\U00000073alary ?o }
PREFIX : <http://e/salary> SELECT * { ?s : ?o }
SELECT * { ?s <http://e/sal\\u0061ry> ?o }
BASE <http://e/> SELECT * { ?s <salary> ?o }
BASE <http://e/x/y> SELECT * { ?s <../salary> ?o }
SELECT * { ?s <salary> ?o }
PREFIX e: <http://e/> SELECT * { ?s e:name ?n ; # e:knows ?o }NEWLINE e:salary ?o }
PREFIX e: <http://e/> SELECT * { ?s e:name ?n , ?m ; e:salary ?o }
PREFIX e: <http://e/> SELECT * { [] e:salary ?o }
PREFIX e: <http://e/> SELECT * { [ e:salary ?o ] e:name ?n }
PREFIX e: <http://e/> SELECT * { ?s e:knows [ ^e:knows [ e:salary ?o ] ] }
PREFIX e: <http://e/> SELECT * { ( [ e:salary ?o ] ) ?p ?q }
PREFIX e: <http://e/> SELECT * { ?o ^e:salary ?s }
PREFIX e: <http://e/> SELECT * { ?s e:salary+ ?o }
PREFIX e: <http://e/> SELECT * { ?s e:salary* ?o }
PREFIX e: <http://e/> SELECT * { ?s e:salary? ?o }
PREFIX e: <http://e/> SELECT * { ?s e:knows*  ?o }
PREFIX e: <http://e/> SELECT * { ?s e:knows? ?o }
PREFIX e: <http://e/> SELECT * { ?s (e:knows|e:name)* ?o }
PREFIX e: <http://e/> SELECT * { ?s (e:knows*)+ ?o }
PREFIX e: <http://e/> SELECT * { ?s ^(e:knows?) ?o }
PREFIX e: <http://e/> SELECT * { ?s e:knows*/e:name? ?o }
PREFIX e: <http://e/> SELECT * { ?s (e:knows/e:knows)?|e:name ?o }
PREFIX e: <http://e/> SELECT (COUNT(*) AS ?n) { [] e:knows* [] }
PREFIX e: <http://e/> SELECT * { ?s (e:knows|e:salary) ?o }
PREFIX e: <http://e/> SELECT * { ?s e:knows/^e:boss ?o }
PREFIX e: <http://e/> SELECT * { ?s (e:knows/(e:name|(^e:knows/e:salary))) ?o }
PREFIX e: <http://e/> SELECT * { ?s !e:name ?o }
PREFIX e: <http://e/> SELECT * { ?s !(e:name|e:knows|a) ?o }
PREFIX e: <http://e/> SELECT * { ?s !^e:name ?o }
PREFIX e: <http://e/> SELECT * { ?s (!e:name)+ ?o }
PREFIX e: <http://e/> SELECT * { ?s (e:name|!e:name) ?o }
PREFIX e: <http://e/> SELECT * { VALUES ?p { e:salary } ?s ?p ?o }
PREFIX e: <http://e/> SELECT * { BIND(IRI(CONCAT("http://e/", "salary")) AS ?p) ?s ?p ?o }
PREFIX e: <http://e/> SELECT * { ?s ?p ?o FILTER(?p = e:salary) }
PREFIX e: <http://e/> SELECT * { ?s ?p ?o FILTER(?p != e:salary) }
PREFIX e: <http://e/> SELECT (COUNT(?o) AS ?n) { ?s ?p ?o }
PREFIX e: <http://e/> SELECT ?p { ?s ?p ?o } GROUP BY ?p
PREFIX e: <http://e/> SELECT * { { SELECT ?o { ?s e:salary ?o } } }
PREFIX e: <http://e/> SELECT * { { SELECT * { { SELECT * { ?s ?p ?o } } } } }
PREFIX e: <http://e/> SELECT * { ?s e:name ?n OPTIONAL { ?s e:salary ?o } }
PREFIX e: <http://e/> SELECT * { ?s e:name ?n MINUS { ?s e:salary ?o } }
PREFIX e: <http://e/> SELECT * { { ?s e:name ?n } UNION { ?s e:salary ?n } }
PREFIX e: <http://e/> SELECT * { ?s e:name ?n FILTER EXISTS { ?s e:salary "SECRET" } }
PREFIX e: <http://e/> SELECT * { ?s e:name ?n FILTER NOT EXISTS { ?s ?p "SECRET" } }
PREFIX e: <http://e/> SELECT (EXISTS { ?s e:salary ?o } AS ?yes) { }
PREFIX e: <http://e/> SELECT ?s { ?s e:name ?o } ORDER BY (EXISTS { ?s e:boss ?b })
PREFIX e: <http://e/> SELECT (COUNT(*) AS ?n) { ?s e:name ?o } HAVING (EXISTS { ?s2 e:boss ?b })
PREFIX e: <http://e/> SELECT (SUM(IF(EXISTS { ?s e:boss ?b }, 1, 0)) AS ?n) { ?s e:knows ?o }
PREFIX e: <http://e/> SELECT ?x { ?s e:name ?o } GROUP BY (EXISTS { ?a e:boss ?b } AS ?x)
PREFIX e: <http://e/> SELECT * { ?s e:name ?n BIND(EXISTS { ?s e:salary ?o } AS ?x) }
PREFIX e: <http://e/> SELECT * { GRAPH ?g { ?s e:salary ?o } }
PREFIX e: <http://e/> ASK { ?s e:salary "SECRET" }
PREFIX e: <http://e/> ASK { ?s ?p "SECRET" }
PREFIX e: <http://e/> CONSTRUCT { ?s e:name ?o } WHERE { ?s e:salary ?o }
PREFIX e: <http://e/> CONSTRUCT WHERE { ?s e:salary ?o }
CONSTRUCT WHERE { ?s ?p ?o }
PREFIX e: <http://e/> CONSTRUCT { <a:x> <a:y> ?z } WHERE { ?s e:name ?n . BIND(EXISTS { ?s e:boss ?b } AS ?z) }
DESCRIBE <http://e/ann>
PREFIX e: <http://e/> DESCRIBE ?s { ?s e:name ?n }
SELECT * { SERVICE <http://localhost/query> { ?s ?p ?o } }
PREFIX e: <http://e/> SELECT * { ?s e:name ?n FILTER(e:function(?s)) }
PREFIX e: <http://e/> SELECT * { ?s e:name ?n LATERAL { ?s e:salary ?o } }
PREFIX e: <http://e/> SELECT * { << ?s e:salary ?o >> e:name ?n }
PREFIX e: <http://e/> SELECT * { ?s e:name << ?a ?b ?c >> }
SELECT * { ?s <http://www.ontotext.com/connectors/lucene#query> "SECRET" }
PREFIX e: <http://e/> SELECT * { ?s e:salary ?o ; }}
PREFIX e: <http://e/> SELECT * { ?s e:salary{1,2} ?o }
SELECT * { ?s <http://e/name> ?o FILTER(STR(?o) != '\\u0027 #') ?s <http://e/salary> ?x FILTER(?s = ?sNEWLINE) }
SELECT * { ?s <http://e/name> ?o # \\u000A } ?s <http://e/salary> ?x {NEWLINE}
SELECT * { ?s <http://e/name> ?o # \\u0023 \u2028 ?s <http://e/salary> ?xNEWLINE}
SELECT * { ?s <http://e/name> ?o . ?s <http://e/na\\u003E ?x ; <http://e/salary> ?x }
""".strip().splitlines()
ATTACKS = [text.replace("NEWLINE", "\n") for text in ATTACKS]


@pytest.fixture(scope="module")
def answers(ask_all):
    return {
        (mode, is_there): ask_all(
            ATTACKS,
            data=OPEN + HIDDEN if is_there else OPEN,
            enabled=("predicate_access",),
            options=DENY if mode == "deny" else ALLOW,
            keys=KEYS,
        )
        for mode in ("deny", "allow")
        for is_there in (True, False)
    }


@pytest.mark.parametrize("mode", ["deny", "allow"])
@pytest.mark.parametrize("text", ATTACKS)
def test_no_query_tells_of_a_hidden_predicate(answers, text, mode):
    """The same answer as if what it says did not exist."""
    status, body = answers[mode, True][text]
    assert (status, body) == answers[mode, False][text]
    assert "SECRET" not in body and "secret" not in body


def test_the_attacks_are_attacks(ask_all):
    """Without the plugin most of them do tell; the others are refused by the policy or by the backend's grammar."""
    told, untold = ask_all(ATTACKS, data=OPEN + HIDDEN), ask_all(ATTACKS, data=OPEN)
    assert sum(told[text] != untold[text] and told[text][0] == 200 for text in ATTACKS) >= 50


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/store"),
        ("GET", "/store?default"),
        ("DELETE", "/store"),
        ("GET", "/sparql"),
        ("GET", "/-/index"),
        ("GET", "/-/ttql"),
        ("GET", "/query?nl=what+does+ann+earn"),
        ("GET", "/text2sparql?question=what+does+ann+earn"),
        ("GET", "/query?query=SELECT+*+%7B%3Fs+%3Chttp://e/name%3E+%3Fo%7D&infer=true"),
    ],
)
def test_nothing_beside_queries_tells_of_it(server, method, path):
    """What hands out whole graphs, or speaks of all predicates, is refused."""
    made = server(data=OPEN + HIDDEN, enabled=("predicate_access",), options=DENY, allow_updates=True)
    assert made.send(method, path).status_code == 403


@pytest.mark.parametrize(
    "text",
    [
        "CLEAR ALL",
        "COPY DEFAULT TO <g:x>",
        "LOAD <http://localhost/store>",
        'INSERT DATA { <a:x> <http://e/salary> "1" }',
        "DELETE WHERE { ?s <http://e/salary> ?o }",
        "DELETE WHERE { ?s ?p ?o }",
        "INSERT { ?s <http://e/name> ?o } WHERE { ?s <http://e/salary> ?o }",
        "INSERT { ?s <http://e/name> ?o } WHERE { ?s ?p ?o }",
        "INSERT { ?s ?p ?o } WHERE { ?s <http://e/name> ?o BIND(<http://e/salary> AS ?p) }",
        "DELETE { ?s <http://e/name> ?n } WHERE { ?s <http://e/name> ?n FILTER EXISTS { ?s <http://e/boss> ?b } }",
        'INSERT DATA { <a:x> <http://e/name> "1" } ; DELETE WHERE { ?s <http://e/boss> ?o }',
    ],
)
def test_updates_may_not_read_or_write_it(server, text):
    """Nor may they do something to whole graphs."""
    made = server(data=OPEN + HIDDEN, enabled=("predicate_access",), options=DENY, allow_updates=True)
    assert made.update(text).status_code == 403


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?o { ?s <http://e/name> ?o }",
        'SELECT ?o { ?s <http://e/name> ?o FILTER(?o != "<http://e/salary>") } # <http://e/salary>',
        "SELECT ?o { <http://e/ann> <http://e/knows>* ?x . ?x <http://e/name> ?o }",
        "SELECT ?o { ?s <http://e/knows>*/<http://e/name> ?o FILTER(?s = <http://e/ann>) }",
        "SELECT ?o { ?s a <http://e/Person> ; <http://e/name> ?o }",
    ],
)
@pytest.mark.parametrize("options", [DENY, ALLOW], ids=["deny", "allow"])
def test_what_is_allowed_is_answered(server, text, options):
    """A mention in a string or comment is none, and a path with an end that is given passes."""
    made = server(data=OPEN + HIDDEN, enabled=("predicate_access",), options=options)
    assert made.ask(text, accept="text/csv").text.split() == ["o", "Ann"]


def test_a_construct_may_make_what_it_may_not_read(server):
    """The template is no pattern."""
    made = server(data=OPEN, enabled=("predicate_access",), options=ALLOW)
    response = made.ask("CONSTRUCT { ?s <a:called> ?o } WHERE { ?s <http://e/name> ?o }", accept="text/turtle")
    assert "called" in response.text


def test_the_exempt_are_left_alone(server):
    """By all ways."""
    made = server(data=OPEN + HIDDEN, enabled=("predicate_access",), options=DENY, keys=KEYS)
    assert "SECRET" in made.ask("SELECT * { ?s ?p ?o }", key="boss", accept="text/csv").text
    assert made.send("GET", "/store", key="boss").status_code == 200


@pytest.mark.parametrize("options", ["", 'deny = ["a:b"]\nallow = ["a:c"]\n', "deny = 1\n", 'denied = ["a:b"]\n'])
def test_options_that_contradict_each_other_stop_the_start(server, options):
    """One of the two lists; the error names the table."""
    with pytest.raises(ConfigError, match=r"^plugins\.predicate_access"):
        server(enabled=("predicate_access",), options=f"[plugins.predicate_access]\n{options}").app()
