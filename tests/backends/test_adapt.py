"""What each product gets in place of what it would refuse; and the identity everywhere else."""

from __future__ import annotations

import pytest

from proxy.backends.adapt import adapt, legal, with_one_type, with_timeout
from proxy.backends.base import BackendRequest
from proxy.backends.endpoint import endpoint
from proxy.backends.graphdb import graphdb
from proxy.backends.oxigraph import OXIGRAPH
from proxy.backends.qlever import SETTINGS, qlever
from proxy.errors import OperationForbidden
from proxy.query.operation import DatasetDescription, OperationKind, SparqlOperation

FORM = (b"content-type", b"application/x-www-form-urlencoded")
PRODUCTS = {"oxigraph": OXIGRAPH, "qlever": qlever(), "graphdb": graphdb("r"), "sparql": endpoint("http://h/sparql")[1]}


def query(text="ASK {}", **more):
    return SparqlOperation(OperationKind.QUERY, text, **more)


def get(target, *headers, **more):
    return BackendRequest("GET", target, headers, b"", query(**more))


def post(body, *headers, target=b"/q", **more):
    return BackendRequest("POST", target, headers, body, query(**more))


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
def test_what_is_taken_as_it_is_stays(product):
    """The very same request: a short GET, a form and a bare text with a charset."""
    utf8 = (b"content-type", b"application/x-www-form-urlencoded; charset=UTF-8")
    for request in (get(b"/q?query=ASK%7B%7D&x=1"), post(b"query=ASK%7B%7D", utf8)):
        assert adapt(request, product) is request


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
def test_a_long_get_becomes_a_form(product):
    """Its query string is the body; the fields about a body are replaced."""
    query_string = b"query=ASK%7B%7D&x=" + b"y" * 9_000
    sent = adapt(get(b"/q?" + query_string, (b"content-type", b"text/odd"), (b"accept", b"a/b")), product)
    assert (sent.method, sent.target.partition(b"?")[0], sent.body) == ("POST", b"/q", query_string)
    kinds = [v for n, v in sent.headers if n == b"content-type"]
    assert len(kinds) == 1 and kinds[0].startswith(FORM[1]) and (b"accept", b"a/b") in sent.headers


def test_a_large_form_becomes_a_bare_text_for_graphdb():
    """Its other members stand in the URL, byte for byte, behind those that stood there; the text is decoded."""
    text = "ASK {} # é" + "x" * 2_100_000
    body = b"a=%C3%A9&query=ASK+%7B%7D+%23+%C3%A9" + b"x" * 2_100_000 + b"&b=1+2"
    sent = adapt(post(body, FORM, target=b"/q?u=0", text=text), PRODUCTS["graphdb"])
    assert (sent.target, sent.body) == (b"/q?u=0&a=%C3%A9&b=1+2", text.encode())
    assert sent.headers == [(b"content-type", b"application/sparql-query; charset=utf-8")]


def test_a_large_packed_form_is_written_anew():
    """Its bytes are not what they mean, so the members come from what was understood; the coding goes."""
    operation = query("ASK {}", dataset=DatasetDescription(("http://g/",)), parameters=(("a", "é&"),))
    request = BackendRequest("POST", b"/q", [FORM, (b"content-encoding", b"gzip")], b"\x1f" * 2_100_000, operation)
    sent = adapt(request, PRODUCTS["graphdb"])
    assert (sent.target, sent.body) == (b"/q?default-graph-uri=http%3A%2F%2Fg%2F&a=%C3%A9%26", b"ASK {}")
    assert [n for n, _ in sent.headers] == [b"content-type"]


def test_qlever_gets_no_form_with_a_query_string():
    """The members of the URL follow those of the form; a packed form, which nobody can add to, stays."""
    sent = adapt(post(b"query=ASK%7B%7D", FORM, target=b"/?x=1"), PRODUCTS["qlever"])
    assert (sent.target, sent.body) == (b"/", b"query=ASK%7B%7D&x=1")
    packed = post(b"\x1f\x8b", FORM, (b"content-encoding", b"gzip"), target=b"/?x=1")
    assert adapt(packed, PRODUCTS["qlever"]) is packed


def test_a_url_becomes_legal():
    """What RFC 3986 wants escaped is escaped once, a lone percent sign too; escapes and the rest stay."""
    request = get(b"/q?query=ASK{}%7B%&a='(*)!\"\xc3\xa9|")
    assert legal(request).target == b"/q?query=ASK%7B%7D%7B%25&a='(*)!%22%C3%A9%7C"
    assert adapt(request, OXIGRAPH) is request


@pytest.mark.parametrize(
    ("name", "method"), [("oxigraph", "GET"), ("qlever", "GET"), ("sparql", "GET"), ("graphdb", "HEAD")]
)
def test_head_becomes_get_where_head_is_unknown(name, method):
    """But never for the graph store, whose HEAD all know."""
    head = BackendRequest("HEAD", b"/q?query=ASK%7B%7D", (), b"", query())
    assert adapt(head, PRODUCTS[name]).method == method
    store = BackendRequest("HEAD", b"/s?default", (), b"", SparqlOperation(OperationKind.GRAPH_STORE, ""))
    assert adapt(store, PRODUCTS[name]).method == "HEAD"


def test_the_urls_own_query_string_comes_first():
    """Before the client's, and of updates the other one."""
    _, product = endpoint("http://h/a?k=1", "http://h/b?k=2")
    assert adapt(get(b"/a?query=x"), product).target == b"/a?k=1&query=x"
    update = BackendRequest("POST", b"/b", (), b"CLEAR ALL", SparqlOperation(OperationKind.UPDATE, "CLEAR ALL"))
    assert adapt(update, product).target == b"/b?k=2"


def test_only_sparql_is_a_query_language():
    """``queryLn`` would have GraphDB read the text in another way than we did."""
    assert adapt(get(b"/q?x", parameters=(("queryLn", "SPARQL"),)), PRODUCTS["graphdb"])
    for kind in OperationKind:
        request = BackendRequest("POST", b"/q", (), b"", SparqlOperation(kind, "", parameters=(("queryLn", "serql"),)))
        with pytest.raises(OperationForbidden):
            adapt(request, PRODUCTS["graphdb"])


@pytest.mark.parametrize(
    ("name", "text", "accept", "expected"),
    [
        ("graphdb", "SELECT * {}", "*/*", b"application/sparql-results+json"),
        ("graphdb", "SELECT * {}", None, b"application/sparql-results+json"),
        ("graphdb", "SELECT * { ?s rdfs:label 1 }", "text/csv;q=0.2, text/xml;q=0.9", b"application/sparql-results+xml"),
        ("graphdb", "DESCRIBE <x>", "application/ld+json", b"application/ld+json"),
        ("qlever", "CONSTRUCT {} {}", "application/rdf+xml, application/n-triples;q=0.1", b"application/n-triples"),
        ("qlever", "ASK {}", "text/csv, */*;q=0.1", b"application/sparql-results+json"),
        ("qlever", "CONSTRUCT {} {}", "application/rdf+xml", None),
        ("qlever", "SELECT {", "*/*", None),
        ("qlever", "SELECT * {}", "garbage", None),
    ],
)
def test_one_type(name, text, accept, expected):
    """The one that the product has and the client likes best; where that is unknown, what the client sent."""
    headers = [] if accept is None else [(b"accept", accept.encode())]
    request = get(b"/q?x", *headers, text=text, accept=accept)
    sent = with_one_type(request, PRODUCTS[name])
    assert sent is request if expected is None else sent.headers == [(b"accept", expected)]


def test_a_timeout_is_added_where_there_is_none():
    """To the query string, or to the form."""
    assert with_timeout(get(b"/q?query=x"), "30s").target == b"/q?query=x&timeout=30s"
    assert with_timeout(post(b"query=x", FORM), "30s").body == b"query=x&timeout=30s"
    assert with_timeout(post(b"ASK {}"), "30s").target == b"/q?timeout=30s"
    own = get(b"/q?query=x&timeout=1s", parameters=(("timeout", "1s"),))
    assert with_timeout(own, "30s") is own


def test_qlever_refuses_what_administers_it():
    """Commands, tokens, settings, and what cuts answers; the timeout is everybody's."""
    refused = PRODUCTS["qlever"].refused_parameters
    assert {"cmd", "access-token", "send", "default-query-timeout"} <= refused and refused >= SETTINGS
    assert not refused & {"query", "update", "timeout", "action", "default-graph-uri"}
