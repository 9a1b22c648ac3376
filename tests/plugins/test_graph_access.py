"""plugins/graph_access.py: no way of asking tells anything of a graph that is not for the API key.

The test of every attack is noninterference: the answer must be the same, whether the hidden data are there or not.
"""

from urllib.parse import unquote

import pytest

OPEN = """
<a:s> <a:p> "open" <g:open> .
<a:s> <a:knows> <a:t> <g:open> .
<a:t> <a:knows> <a:u> <g:open> .
"""
HIDDEN = """
<a:s> <a:p> "SECRET" <g:hidden> .
<a:t> <a:q> <a:secret> <g:hidden> .
<a:u> <a:knows> <a:secret> <g:hidden> .
<a:s> <a:p> "SECRET in the default graph" .
<a:secret> <a:knows> <a:s> .
"""
OPTIONS = """[plugins.graph_access]
read = {boss = ["*"], ann = ["g:open"], bob = []}
write = {boss = ["*"], ann = ["g:mine"]}
"""
KEYS = {name: f"{name}-0123456789-0123456789" for name in ("boss", "ann", "bob")}

ATTACKS = """
SELECT * { ?s ?p ?o }
SELECT * { GRAPH <g:hidden> { ?s ?p ?o } }
SELECT * { GRAPH ?g { ?s ?p ?o } }
SELECT * { GRAPH ?g { } }
SELECT ?g { GRAPH ?g { } } GROUP BY ?g
SELECT * { GRAPH ?g { ?s ?p ?o } FILTER(?g = <g:hidden>) }
SELECT * { VALUES ?g { <g:hidden> } GRAPH ?g { ?s ?p ?o } }
SELECT * { GRAPH ?g { ?s ?p ?o } } VALUES ?g { <g:hidden> }
SELECT * { BIND(<g:hidden> AS ?g) GRAPH ?g { ?s ?p ?o } }
SELECT * { BIND(IRI(CONCAT("g:hid", "den")) AS ?g) GRAPH ?g { ?s ?p ?o } }
SELECT * { BIND(URI("g:hidden") AS ?g) { GRAPH ?g { ?s ?p ?o } } }
PREFIX g: <g:> SELECT * { GRAPH g:hidden { ?s ?p ?o } }
PREFIX g: <g:hid> SELECT * { GRAPH g:den { ?s ?p ?o } }
PREFIX g: <g:> SELECT * { GRAPH g:hidd\\u0065n { ?s ?p ?o } }
PREFIX g: <g:> SELECT * { GRAPH g:hidde\\n { ?s ?p ?o } }
SELECT * { GRAPH <g:hidd\\u0065n> { ?s ?p ?o } }
SELECT * { GRAPH <g:\\U00000068idden> { ?s ?p ?o } }
SELECT * { \\u0047RAPH <g:hidden> { ?s ?p ?o } }
BASE <g:> SELECT * { GRAPH <hidden> { ?s ?p ?o } }
BASE <g:open> SELECT * { GRAPH <hidden> { ?s ?p ?o } }
SELECT * { GRAPH # <g:open>{ } <g:hidden> { ?s ?p ?o } }
SELECT * { { SELECT * { GRAPH <g:hidden> { ?s ?p ?o } } } }
SELECT * { { SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } } }
SELECT * { { { SELECT ?o { { { GRAPH ?g { ?s ?p ?o } } } } } } }
SELECT * { ?s <a:p> ?o OPTIONAL { GRAPH <g:hidden> { ?s ?p ?x } } }
SELECT * { ?s <a:p> ?o MINUS { GRAPH <g:hidden> { ?s ?p ?x } } }
SELECT * { ?s <a:p> ?o MINUS { GRAPH ?g { ?s <a:p> "SECRET" } } }
SELECT * { { ?s <a:p> ?o } UNION { GRAPH <g:hidden> { ?s ?p ?o } } }
SELECT * { ?s <a:p> ?o FILTER EXISTS { GRAPH <g:hidden> { ?s ?q ?x } } }
SELECT * { ?s <a:p> ?o FILTER NOT EXISTS { GRAPH <g:hidden> { ?s ?q ?x } } }
SELECT * { ?s <a:p> ?o FILTER EXISTS { GRAPH ?g { ?s <a:p> "SECRET" } } }
SELECT (EXISTS { GRAPH <g:hidden> { ?a ?b ?c } } AS ?yes) { }
SELECT ?s { ?s <a:p> ?o } ORDER BY (EXISTS { GRAPH <g:hidden> { ?a ?b ?c } })
SELECT (COUNT(*) AS ?n) { ?s <a:p> ?o } HAVING (EXISTS { GRAPH <g:hidden> { ?a ?b ?c } })
SELECT * { BIND(IF(EXISTS { GRAPH ?g { ?a <a:q> ?c } }, 1, 2) AS ?x) }
ASK { GRAPH <g:hidden> { ?s ?p ?o } }
ASK { GRAPH ?g { ?s ?p "SECRET" } }
ASK { ?s ?p "SECRET in the default graph" }
SELECT (COUNT(DISTINCT ?g) AS ?n) { GRAPH ?g { ?s ?p ?o } }
SELECT * { <a:s> <a:knows>+ ?o }
SELECT * { GRAPH ?g { <a:s> <a:knows>+ ?o } }
SELECT * { <a:s> <a:knows>* ?o }
SELECT * { ?s <a:knows>* ?o }
SELECT * { ?s <a:nothing>? ?o }
SELECT * { ?s !<a:p> ?o }
SELECT * { ?s !(<a:p>|^<a:p>) ?o }
SELECT * { <a:t> (<a:knows>|<a:q>)/^<a:knows> ?o }
SELECT * { GRAPH ?g { ?s (<a:knows>|!<a:x>)* ?o } }
SELECT * { ?s ^<a:q> ?o }
DESCRIBE <a:s>
DESCRIBE ?s { ?s <a:p> "open" }
DESCRIBE *  { GRAPH ?g { ?s ?p ?o } }
DESCRIBE <a:secret> FROM <g:open>
CONSTRUCT { ?s ?p ?o } WHERE { GRAPH <g:hidden> { ?s ?p ?o } }
CONSTRUCT { ?s ?p ?o } WHERE { GRAPH ?g { ?s ?p ?o } }
CONSTRUCT WHERE { ?s ?p ?o }
SELECT * FROM <g:hidden> { ?s ?p ?o }
SELECT * FROM <g:open> FROM <g:hidden> { ?s ?p ?o }
SELECT * FROM NAMED <g:hidden> { GRAPH ?g { ?s ?p ?o } }
SELECT * FROM <g:open> FROM NAMED <g:hidden> { GRAPH ?g { ?s ?p ?o } }
PREFIX g: <g:> SELECT * FROM g:hid\\u0064en { ?s ?p ?o }
BASE <g:> SELECT * FROM <hidden> { ?s ?p ?o }
SELECT * FROM <hidden> { ?s ?p ?o }
SELECT * { SERVICE <http://localhost/query> { ?s ?p ?o } }
SELECT * { SERVICE SILENT ?x { ?s ?p ?o } }
SELECT * { ?s <a:p> ?o FILTER(<http://example.org/function>(?s)) }
SELECT * { ?s <http://www.ontotext.com/connectors/lucene#query> "SECRET" }
SELECT * { GRAPH <hidden> { ?s ?p ?o } }
SELECT * { ?s ?p ?o ; }}
SELECT * { ?s <a:p> ?o } LIMIT x
SELECT * { LATERAL { GRAPH <g:hidden> { ?s ?p ?o } } }
SELECT * { ?s <a:p> ?o LATERAL { SELECT * { GRAPH ?g { ?s <a:q> ?z } } } }
SELECT * { GRAPH <g:open> { ?s <a:p> ?o } GRAPH <g:hidden> { ?s <a:p> ?o2 } }
SELECT * { GRAPH <g:open> { GRAPH <g:hidden> { ?s ?p ?o } } }
SELECT * { GRAPH ?g { ?s <a:p> ?o . GRAPH ?h { ?s ?q ?z } } }
SELECT * FROM <g:open> { ?s <a:p> ?o FILTER(STR(?o) != '\\u0027 #') GRAPH <g:hidden> { ?s ?p ?x } FILTER(?s = ?sNEWLINE) }
SELECT (STR('\\u0027 #') AS ?x) FROM <g:hidden> { ?s ?p ?o FILTER(STR(?oNEWLINE) != '') }
SELECT * { ?s <a:p> ?o # \\u000A } GRAPH <g:hidden> {NEWLINE}
SELECT * { ?s <a:p> ?o # \u2028 GRAPH <g:hidden> { ?s ?p ?x }NEWLINE}
SELECT * { ?s <a:p> ?o FILTER(?o != "\\\\\\u0022 ) GRAPH <g:hidden> { ?s ?p ?x } #")NEWLINE}
""".strip().splitlines()
ATTACKS = [text.replace("NEWLINE", "\n") for text in ATTACKS]


def both(server, *, key: str, use) -> tuple:
    """What *use* gets from a server with the hidden data, and from one without them."""
    found = []
    for data in (OPEN + HIDDEN, OPEN):
        made = server(data=data, enabled=("graph_access",), options=OPTIONS, keys=KEYS, allow_updates=True)
        response = use(made)
        text = response.text.replace(response.headers["x-request-id"], "")
        found.append((response.status_code, text))
    return tuple(found)


@pytest.fixture(scope="module")
def answers(ask_all):
    """(key, whether the hidden data are there) → the answer to each attack."""
    guarded = {"enabled": ("graph_access",), "options": OPTIONS, "keys": KEYS}
    return {
        (key, is_there): ask_all(ATTACKS, key=key, data=OPEN + HIDDEN if is_there else OPEN, **guarded)
        for key in ("ann", "bob", "")
        for is_there in (True, False)
    }


@pytest.mark.parametrize("key", ["ann", "bob", ""])
@pytest.mark.parametrize("text", ATTACKS)
def test_no_query_tells_of_a_hidden_graph(answers, text, key):
    """Nested, encoded, computed, by path, by absence: the same answer as if the hidden graph did not exist."""
    status, body = answers[key, True][text]
    assert (status, body) == answers[key, False][text]
    assert "SECRET" not in body
    assert key == "ann" or status >= 400  # who may read nothing gets nothing


def test_the_attacks_are_attacks(ask_all):
    """Without the plugin most of them do tell; the others are refused by the policy or by the backend's grammar."""
    told, untold = ask_all(ATTACKS, data=OPEN + HIDDEN), ask_all(ATTACKS, data=OPEN)
    assert sum(told[text] != untold[text] and told[text][0] == 200 for text in ATTACKS) >= 50


@pytest.mark.parametrize(
    "parameters",
    [
        {"default-graph-uri": "g:hidden"},
        {"default-graph-uri": ["g:open", "g:hidden"]},
        {"named-graph-uri": "g:hidden"},
        {"named-graph-uri": ["g:open", "g:hidden"], "default-graph-uri": "g:open"},
        {" default-graph-uri ": "g:hidden"},
        {"union-default-graph": "true"},
        {"union-default-graph": ""},
        {"infer": "true"},
        {"$s": "<a:secret>"},
        {"default-graph-uri": "hidden"},
        {"default-graph-uri": ""},
        {"queryLn": "SERQL"},
    ],
)
def test_no_parameter_of_the_protocol_tells_of_it(server, parameters):
    """By GET, where blanks around names count too, and by POST."""
    query = {"query": "SELECT * { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }"}

    for use in (
        lambda s: s.send("GET", "/query", params=query | parameters, key="ann", headers={"accept": "text/csv"}),
        lambda s: s.ask(query["query"], key="ann", accept="text/csv", **parameters),
    ):
        with_hidden, without = both(server, key="ann", use=use)
        assert with_hidden == without and "SECRET" not in with_hidden[1]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/store"),
        ("GET", "/store?default"),
        ("GET", "/store?default=&graph=g:open"),
        ("GET", "/store?graph=g:hidden"),
        ("GET", "/store?graph=g:open&graph=g:hidden"),
        ("GET", "/store?graph=g:hid%64en"),
        ("GET", "/store?%67raph=g:hidden"),
        ("HEAD", "/store?graph=g:hidden"),
        ("PUT", "/store?graph=g:hidden"),
        ("DELETE", "/store?graph=g:hidden"),
        ("DELETE", "/store?graph=g:open"),
        ("DELETE", "/store"),
        ("GET", "/sparql"),
        ("GET", "/-/index"),
        ("GET", "/-/ttql"),
        ("GET", "/query?nl=what+is+secret"),
        ("GET", "/text2sparql?question=what+is+secret"),
    ],
)
def test_nothing_beside_queries_tells_of_it(server, method, path):
    """The graph store, the service description, our own pages and questions are refused."""
    with_hidden, without = both(server, key="ann", use=lambda s: s.send(method, path, key="ann"))
    assert with_hidden == without and with_hidden[0] in (400, 403)


def test_the_check_tells_nothing(server):
    """POST /-/check answers from the index of everything."""
    body = {"content": "SELECT * { ?s <a:q> ?o }", "headers": {"content-type": "application/sparql-query"}}
    made = server(data=OPEN, enabled=("graph_access",), options=OPTIONS, keys=KEYS)
    assert made.send("POST", "/-/check", key="ann", **body).status_code == 403
    assert made.send("POST", "/-/check", key="boss", **body).status_code == 200


@pytest.mark.parametrize(
    "text",
    [
        "INSERT DATA { <a:x> <a:y> 1 }",
        "INSERT DATA { GRAPH <g:hidden> { <a:x> <a:y> 1 } }",
        "INSERT DATA { GRAPH <g:open> { <a:x> <a:y> 1 } }",
        "DELETE DATA { GRAPH <g:hidden> { <a:s> <a:p> \"SECRET\" } }",
        "DELETE WHERE { GRAPH ?g { ?s ?p ?o } }",
        "DELETE WHERE { GRAPH <g:mine> { ?s ?p ?o } }",  # it may write it, and not read it
        "INSERT { GRAPH <g:mine> { ?s ?p ?o } } WHERE { GRAPH <g:hidden> { ?s ?p ?o } }",
        "INSERT { GRAPH <g:mine> { ?s ?p ?o } } WHERE { GRAPH ?g { ?s ?p ?o } }",
        "INSERT { GRAPH <g:mine> { ?s ?p ?o } } WHERE { ?s ?p ?o }",
        "INSERT { GRAPH <g:mine> { ?s ?p ?o } } USING <g:hidden> WHERE { ?s ?p ?o }",
        "INSERT { GRAPH <g:mine> { ?s ?p ?o } } USING <g:open> USING NAMED <g:hidden> WHERE { GRAPH ?g { ?s ?p ?o } }",
        "WITH <g:mine> INSERT { ?s ?p ?o } WHERE { ?s ?p ?o }",
        "WITH <g:hidden> DELETE { ?s ?p ?o } USING <g:open> WHERE { ?s ?p ?o }",
        "INSERT { GRAPH ?g { ?s ?p ?o } } USING <g:open> WHERE { ?s ?p ?o BIND(<g:hidden> AS ?g) }",
        "INSERT { GRAPH <g:mine> { ?s ?p ?o } } USING <g:open> WHERE { SERVICE <http://localhost/query> { ?s ?p ?o } }",
        "COPY <g:hidden> TO <g:mine>",
        "ADD DEFAULT TO <g:mine>",
        "MOVE <g:open> TO <g:mine>",
        "CLEAR ALL",
        "DROP NAMED",
        "CLEAR DEFAULT",
        "DROP GRAPH <g:hidden>",
        "CREATE GRAPH <g:hidden>",
        "LOAD <http://localhost/store> INTO GRAPH <g:mine>",
        "INSERT DATA { GRAPH <g:mine> { <a:x> <a:y> 1 } } ; CLEAR GRAPH <g:hidden>",
    ],
)
def test_updates_stay_within_the_graphs_of_the_key(server, text):
    """What an update reads must be readable, what it writes writable; one operation that is not refuses them all."""
    made = server(data=OPEN + HIDDEN, enabled=("graph_access",), options=OPTIONS, keys=KEYS, allow_updates=True)
    response = made.update(text, key="ann")
    assert (response.status_code, response.json().get("plugin", "graph_access")) == (403, "graph_access")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("INSERT DATA { GRAPH <g:mine> { <a:x> <a:y> 1 } }", "ann"),
        ("WITH <g:mine> INSERT { ?s <a:copied> ?o } USING <g:open> WHERE { ?s ?p ?o }", "ann"),
        ("COPY <g:open> TO <g:mine>", "ann"),
        ("CLEAR GRAPH <g:mine>", "ann"),
        ("CLEAR ALL", "boss"),
    ],
)
def test_updates_of_ones_own_graphs_pass(server, text, key):
    """Reading from one graph into another, too."""
    made = server(data=OPEN, enabled=("graph_access",), options=OPTIONS, keys=KEYS, allow_updates=True)
    made.data += '<a:x> <a:y> "1" <g:mine> .\n'
    assert made.update(text, key=key).status_code == 204


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT ?o { <a:s> <a:p> ?o }", ["open"]),
        ("SELECT ?o { GRAPH ?g { <a:s> <a:p> ?o } }", ["open"]),
        ("SELECT ?o { GRAPH <g:open> { <a:s> <a:p> ?o } }", ["open"]),
        ("SELECT ?o FROM <g:open> { <a:s> <a:p> ?o }", ["open"]),
        ("SELECT ?o FROM NAMED <g:open> { GRAPH ?g { <a:s> <a:p> ?o } }", ["open"]),
        ("SELECT ?o { <a:s> <a:knows>+ ?o }", ["a:t", "a:u"]),
        ('SELECT (STRLEN("GRAPH <g:hidden>") AS ?o) { }', ["16"]),
        ("PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> SELECT (xsd:integer('7') AS ?o) { }", ["7"]),
    ],
)
def test_what_is_allowed_is_answered(server, text, rows):
    """A key sees the union of its graphs as the default graph, and the header says which they are."""
    made = server(data=OPEN + HIDDEN, enabled=("graph_access",), options=OPTIONS, keys=KEYS)
    response = made.ask(text, key="ann", accept="text/csv")
    assert sorted(response.text.split()[1:]) == rows
    assert response.headers.get("sparlance-graphs") == (None if "FROM" in text else "<g:open>")


def test_what_is_sent_is_what_was_judged(server):
    """Written anew from the tree, with the dataset in parameters of our own: a backend that splits parameters at ";" or reads
    escapes another way reads nothing else than the guard did."""
    made = server(data=OPEN + HIDDEN, enabled=("graph_access",), options=OPTIONS, keys=KEYS)
    text = "PREFIX a: <a:> SELECT ?o FROM <g:open> { a:s <a:\\u0070> ?o } # a comment"
    response = made.ask(text, key="ann", accept="text/csv", format="csv;default-graph-uri=g:hidden")
    sent = unquote(response.headers["sparlance-query"])
    assert response.text.split() == ["o", "open"] and "#" not in sent and "\\u" not in sent and "<a:p>" in sent


def test_the_one_who_may_read_all_is_left_alone(server):
    """Byte for byte, by all ways."""
    made = server(data=OPEN + HIDDEN, enabled=("graph_access",), options=OPTIONS, keys=KEYS)
    response = made.ask("SELECT * { ?s ?p ?o }", key="boss", accept="text/csv")
    assert "SECRET" in response.text and "sparlance-query" not in response.headers
    assert made.send("GET", "/store", key="boss").status_code == 200
    assert made.send("GET", "/-/index", key="boss").status_code == 200


def test_a_graph_of_ones_own_can_be_downloaded(server):
    """By the graph store, named by graph=."""
    made = server(data=OPEN + HIDDEN, enabled=("graph_access",), options=OPTIONS, keys=KEYS)
    response = made.send("GET", "/store?graph=g:open", key="ann")
    assert response.status_code == 200 and "open" in response.text and "SECRET" not in response.text


def test_kept_answers_are_not_for_others(server):
    """The same text by the one who may see all and by the one who may not, through the cache: each gets its own."""
    made = server(data=OPEN + HIDDEN, enabled=("graph_access",), options=OPTIONS, keys=KEYS)
    made.settings += "[cache]\nenabled = true\n"

    async def use(client):
        texts = []
        for name in ("boss", "ann", "boss", "ann"):
            headers = {"x-api-key": KEYS[name], "accept": "text/csv"}
            response = await client.post("/query", data={"query": "SELECT ?o { ?s <a:p> ?o }"}, headers=headers)
            texts.append("SECRET" in response.text)
        return texts

    assert made.run(use) == [True, False, True, False]


def test_the_index_does_not_judge_a_restricted_query(server):
    """A suggestion or a proof would tell what the hidden graph holds."""
    made = server(data=OPEN + HIDDEN, enabled=("graph_access",), options=OPTIONS, keys=KEYS)
    made.settings = "[index]\ngraphs = 'union'\n[nl]\nenabled = false\n"

    async def use(client):
        await client.app.datasets[0].built()
        answers = []
        for name in ("ann", "boss"):
            headers = {"x-api-key": KEYS[name], "accept": "text/csv"}
            answers.append(await client.post("/query", data={"query": "SELECT * { ?s <a:qq> ?o }"}, headers=headers))
        return answers

    ann, boss = made.run(use)
    assert (ann.status_code, ann.headers["sparlance-validation"]) == (200, "unchecked;reason=plugin")
    assert boss.status_code == 400
