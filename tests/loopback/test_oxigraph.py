"""Before the real Oxigraph server: every form, and the same answer as without us."""

import json
from urllib.parse import quote, urlencode

import pytest

pytestmark = pytest.mark.loopback

SELECT = "SELECT ?s ?o WHERE { ?s <http://e/p> ?o } ORDER BY ?o LIMIT 3"
CONSTRUCT = "CONSTRUCT WHERE { ?s <http://e/p> 7 }"
FORM = "application/x-www-form-urlencoded"


def get(query: str, **parameters: str) -> str:
    return "?" + urlencode({"query": query, **parameters}, quote_via=quote)


REQUESTS = {
    "plain": ("GET", get(SELECT), None, {}),
    "xml": ("GET", get(SELECT), None, {"Accept": "application/sparql-results+xml"}),
    "csv": ("GET", get(SELECT), None, {"Accept": "text/csv"}),
    "tsv": ("GET", get(SELECT), None, {"Accept": "text/tab-separated-values;q=0.9, text/turtle"}),
    "not acceptable": ("GET", get(SELECT), None, {"Accept": "image/png"}),
    "bad Accept": ("GET", get(SELECT), None, {"Accept": "garbage"}),
    "ask": ("GET", get("ASK { ?s <http://e/p> 7 }"), None, {}),
    "construct": ("GET", get(CONSTRUCT), None, {"Accept": "text/turtle"}),
    "form": ("POST", "", urlencode({"query": SELECT}).encode(), {"Content-Type": FORM}),
    "direct": ("POST", "", SELECT.encode(), {"Content-Type": "application/sparql-query; charset=utf-8"}),
    "query method": ("QUERY", "", SELECT.encode(), {"Content-Type": "application/sparql-query"}),
    "graph parameter": ("GET", get(SELECT, **{"default-graph-uri": "http://e/none"}), None, {}),
    "relative IRI": ("GET", get("SELECT (<rel> AS ?x) {}"), None, {"Host": "data.example"}),
    "syntax error": ("GET", get("SELECT * {"), None, {}),
    "unknown function": ("GET", get("SELECT (<http://f>(1) AS ?x) {}"), None, {}),
    "SPARQL 1.2": ("GET", get("SELECT * { VALUES ?t { <<( <http://a> <http://b> 1 )>> } }"), None, {}),
    "20 KB": ("GET", get(SELECT + " #" + "x" * 20_000), None, {"Content-Type": "text/odd"}),
}
OWN = {"access-control-allow-origin", "access-control-expose-headers", "x-request-id"}


@pytest.mark.parametrize(("method", "query", "body", "headers"), REQUESTS.values(), ids=REQUESTS)
def test_answer_is_that_of_the_backend(serve, oxigraph, method, query, body, headers):
    """Status, fields and body are those that the server gives itself; ours are added."""
    fields = {name.replace("-", "_"): value for name, value in headers.items()}
    got = serve(oxigraph.url).request(method, "/query" + query, body, **fields)
    if len(query) > 8_000:  # the server itself takes no such head
        method, query, body = "POST", "", query[1:].encode()
        fields["Content_Type"] = FORM
    expected = oxigraph.request(method, "/query" + query, body, **fields)
    assert (got[0], got[2]) == (expected[0], expected[2])
    assert b"http://data.example/rel" in got[2] or "Host" not in headers
    assert [f for f in got[1].items() if f[0] not in OWN] == expected[1].items()


def test_same_on_every_path(serve, oxigraph):
    """``/sparql``, the server's own path and that of the dataset answer alike."""
    proxy = serve(oxigraph.url)
    answers = {proxy.request("GET", path + get(SELECT))[2] for path in ("/sparql", "/query", "/default/sparql")}
    assert len(answers) == 1 and b"http://e/s0" in answers.pop()


def test_service_description_names_our_address(serve, oxigraph):
    """GET without a query gives the description, with the endpoint where the client found it."""
    proxy = serve(oxigraph.url)
    status, _, body = proxy.request("GET", "/sparql", Accept="application/n-triples")
    assert status == 200 and f"<http://127.0.0.1:{proxy.port}/sparql>".encode() in body


HIDDEN = {
    "plain": "INSERT DATA { <http://x> <http://y> <http://z> }",
    "comment": "# SELECT\nINSERT DATA { <http://x> <http://y> <http://z> }",
    "byte order mark": "\ufeffINSERT DATA { <http://x> <http://y> <http://z> }",
    "escapes": "\\u0049NSERT DATA { <http://x> <http://y> <http://z> }",
    "unparsable": "SELECT * { } ; INSERT DATA { <http://x> <http://y> <http://z> }",
    "load": "LOAD <http://127.0.0.1:9/x>",
}


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN)
@pytest.mark.parametrize("allowed", [False, True])
def test_update_in_a_query_is_refused(serve, oxigraph, text, allowed):
    """Whether updates are allowed or not, one that comes as query= goes nowhere."""
    proxy = serve(oxigraph.url, policy__allow_updates=allowed)
    body = urlencode({"query": text}).encode()
    for path in ("/sparql", "/query"):
        assert proxy.request("POST", path, body, Content_Type=FORM)[0] in (400, 403)
        assert proxy.request("GET", path + get(text))[0] in (400, 403)
    assert oxigraph.request("GET", "/query" + get("ASK { <http://x> ?p ?o }"))[2] == b'{"head":{},"boolean":false}'


def test_updates_are_refused_unless_allowed(serve, oxigraph):
    """Refused with 403 and the name of the setting; allowed, they reach the server by both forms and paths."""
    text = "INSERT DATA { <http://u/1> <http://u/p> 1 }"
    form = urlencode({"update": text}).encode()
    proxy = serve(oxigraph.url)
    for path in ("/sparql", "/update"):
        status, _, body = proxy.request("POST", path, form, Content_Type=FORM)
        assert status == 403 and "allow_updates" in json.loads(body)["detail"]
        assert proxy.request("POST", path, text.encode(), Content_Type="application/sparql-update")[0] == 403
    allowed = serve(oxigraph.url, policy__allow_updates=True)
    assert allowed.request("POST", "/sparql", form, Content_Type=FORM)[0] == 204
    assert b"true" in allowed.request("GET", "/sparql" + get("ASK { <http://u/1> ?p 1 }"))[2]
    delete = b"DELETE WHERE { <http://u/1> ?p ?o }"
    assert allowed.request("POST", "/update", delete, Content_Type="application/sparql-update")[0] == 204
    assert b"false" in allowed.request("GET", "/sparql" + get("ASK { <http://u/1> ?p 1 }"))[2]


@pytest.mark.parametrize("target", ["SERVICE <http://127.0.0.1:9/> { ?a ?b ?c }", "{ SERVICE SILENT ?s { ?a ?b ?c } }"])
def test_service_is_refused_unless_listed(serve, oxigraph, target):
    """SERVICE, constant or variable, nested or silent, does not reach the backend."""
    text = f"SELECT * {{ ?s ?p ?o OPTIONAL {{ {target} }} }}"
    assert serve(oxigraph.url).request("GET", "/sparql" + get(text))[0] == 403


def test_graph_store_reads_pass_and_writes_need_permission(serve, oxigraph):
    """GET and HEAD pass; PUT, POST and DELETE are refused, or pass when updates are allowed."""
    graph = "/store?graph=http%3A%2F%2Fe%2Fg"
    proxy = serve(oxigraph.url)
    assert proxy.request("GET", "/store?default", Accept="application/n-triples")[2].count(b"\n") >= 100
    for method in ("PUT", "POST", "DELETE"):
        assert proxy.request(method, graph, b"", Content_Type="text/turtle")[0] == 403
    allowed = serve(oxigraph.url, policy__allow_updates=True)
    allowed.request("DELETE", graph)
    assert allowed.request("PUT", graph, b"<http://a> <http://b> 1 .", Content_Type="text/turtle")[0] == 201
    assert allowed.request("GET", graph, Accept="application/n-triples")[2].startswith(b"<http://a> <http://b>")
    assert allowed.request("HEAD", graph)[0] == 200
    assert allowed.request("DELETE", graph)[0] == 204


def test_preflight_and_bad_requests(serve, oxigraph):
    """OPTIONS is answered by us; what breaks the protocol is a problem with CORS fields."""
    proxy = serve(oxigraph.url)
    asked = {"Origin": "http://a", "Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "authorization"}
    status, headers, _ = proxy.request("OPTIONS", "/sparql", **asked)
    assert status == 204 and "POST" in headers["access-control-allow-methods"]
    assert headers["access-control-allow-headers"] == "authorization"
    for target, expected in (
        ("/sparql?query=ASK%7B%7D&nl=x", 400),
        ("/sparql?query=ASK%7B%7D&query=ASK%7B%7D", 400),
        ("/sparql?update=CLEAR%20ALL", 400),
        ("/nowhere", 404),
    ):
        status, headers, body = proxy.request("GET", target)
        assert status == json.loads(body)["status"] == expected
        assert headers.get_all("access-control-allow-origin") == ["*"]
    assert proxy.request("POST", "/sparql", b"<x/>", Content_Type="text/xml")[0] == 415
    assert proxy.request("DELETE", "/sparql")[0] == 405


def test_large_requests(serve, oxigraph):
    """A POST of 300 KB passes; beyond the limit it is 413 with the limit's name."""
    text = "SELECT * { ?s <http://e/p> 7 } #" + "x" * 300_000
    assert serve(oxigraph.url).request("POST", "/sparql", text.encode(), Content_Type="application/sparql-query")[0] == 200
    small = serve(oxigraph.url, server__body_limit_bytes=1000)
    status, _, body = small.request("POST", "/sparql", text.encode(), Content_Type="application/sparql-query")
    assert status == 413 and "body_limit_bytes" in json.loads(body)["detail"]


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nASK{}",
        b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    ],
    ids=["length and chunked", "two lengths", "odd coding"],
)
def test_request_smuggling_ends_at_us(serve, oxigraph, framing):
    """A request that two servers could frame differently is refused."""
    client = serve(oxigraph.url).connect(
        b"POST /sparql HTTP/1.1\r\nHost: a\r\nContent-Type: application/sparql-query\r\n" + framing
    )
    assert client.recv(1000).startswith(b"HTTP/1.1 400")
    client.close()
