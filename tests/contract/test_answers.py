"""The table of peers (what a transparent proxy is judged on) as far as a real server shows it, before every backend.

After each check the process lives and answers: the fixture ``subject`` sees to it.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Iterable
from urllib.parse import quote, urlencode

import pytest

from tests.contract.conftest import (
    CONSTRUCT,
    CSV,
    DIRECT,
    FORM,
    JSON,
    LOANS,
    PREFIXES,
    SELECT,
    TURTLE,
    UPDATE,
    XML,
    Subject,
    get,
)

pytestmark = pytest.mark.loopback

PAGES = ["412", "412", "474"]
NOT_COMPARED = {"transfer-encoding", "keep-alive", "connection", "date", "x-request-id", "fuseki-request-id"}
"""Of one connection, of one moment, or ours; and all that is about CORS, which is ours too."""


def comparable(body: bytes) -> bytes:
    """*body* without what differs each time: QLever's times."""
    return re.sub(rb'"(?:query-time-ms|total|computeResult)":\s*"?\d+(?:ms)?"?', b'"time":0', body)


def end_to_end(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    named = ((name.lower(), value) for name, value in fields)
    return {n: v for n, v in named if n not in NOT_COMPARED and not n.startswith("access-control-")}


def pages(body: bytes) -> list[str]:
    return [row["pages"]["value"] for row in json.loads(body)["results"]["bindings"]]


def test_get_gives_sparql_json(subject: Subject) -> None:
    """The solutions, in the type that was asked for."""
    status, headers, body = subject.reader.request("GET", "/sparql" + get(SELECT), Accept=JSON)
    assert (status, headers["content-type"].partition(";")[0], pages(body)) == (200, JSON, PAGES)


@pytest.mark.parametrize("accept", [None, "*/*"])
def test_plain_curl_gives_results(subject: Subject, accept: str | None) -> None:
    """Without Accept, and with a wildcard, what the server prefers to give; never a page for people."""
    headers = {} if accept is None else {"Accept": accept}
    status, fields, body = subject.reader.request("GET", "/sparql" + get(SELECT), **headers)
    assert status == 200 and b"Emma" in body and "html" not in fields["content-type"]
    if subject.endpoint is not None:
        assert comparable(body) == comparable(subject.direct("GET", subject.query_path + get(SELECT), **headers)[2])


@pytest.mark.parametrize("path", ["/sparql", None], ids=["ours", "its own"])
@pytest.mark.parametrize(("accept", "text"), [(JSON, SELECT), (XML, SELECT), (CSV, SELECT), (TURTLE, CONSTRUCT)])
def test_every_format_is_the_servers_own(subject: Subject, path: str | None, accept: str, text: str) -> None:
    """Status, fields and bytes are what the server itself answers, on our path and on its own."""
    status, headers, body = subject.reader.request("GET", (path or subject.query_path) + get(text), Accept=accept)
    assert status == 200 and headers["content-type"].partition(";")[0] == accept
    if accept == CSV:
        assert [row[1] for row in csv.reader(io.StringIO(body.decode()))][1:] == PAGES
    if subject.endpoint is not None:
        expected = subject.direct("GET", subject.query_path + get(text), Accept=accept)
        assert comparable(body) == comparable(expected[2])
        assert end_to_end(headers.items()) == end_to_end(expected[1].items())


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        pytest.param(FORM, urlencode({"query": SELECT}).encode(), id="form"),
        pytest.param(FORM + "; charset=UTF-8", urlencode({"query": SELECT}).encode(), id="form with charset"),
        pytest.param(DIRECT, SELECT.encode(), id="direct"),
        pytest.param(DIRECT + ";charset=utf-8", SELECT.encode(), id="direct with charset"),
    ],
)
def test_post(subject: Subject, content_type: str, body: bytes) -> None:
    """Both forms of POST query, also with a charset."""
    status, _, answer = subject.reader.request("POST", "/sparql", body, Accept=JSON, Content_Type=content_type)
    assert (status, pages(answer)) == (200, PAGES)


def test_a_form_may_come_with_parameters_in_the_url(subject: Subject) -> None:
    """Also to a server that refuses that: the graph of the URL is the graph that is asked."""
    text = PREFIXES + "ASK { ?s ex:lentTo ?o }"
    target = "/sparql?default-graph-uri=" + quote(LOANS, safe="")
    form = urlencode({"query": text}).encode()
    status, _, body = subject.reader.request("POST", target, form, Accept=JSON, Content_Type=FORM)
    assert (status, json.loads(body)["boolean"]) == (200, True)


@pytest.mark.parametrize(
    ("parameters", "text", "expected"),
    [
        ({"default_graph_uri": LOANS}, "ASK { ?s ex:lentTo ?o }", True),
        ({"default_graph_uri": LOANS}, "ASK { ?s ex:pages ?o }", False),
        ({"named_graph_uri": LOANS}, "ASK { GRAPH ?g { ?s ex:lentTo ?o } }", True),
    ],
)
def test_graph_parameters_reach_the_server(
    subject: Subject, parameters: dict[str, str], text: str, expected: bool
) -> None:
    """default-graph-uri and named-graph-uri decide what the query sees."""
    status, _, body = subject.reader.request("GET", "/sparql" + get(PREFIXES + text, **parameters), Accept=JSON)
    assert (status, json.loads(body)["boolean"]) == (200, expected)


def test_text_arrives_as_it_was_written(subject: Subject) -> None:
    """UTF-8, plus, hash, percent and ampersand, in a string and in a comment."""
    text = 'SELECT ("Zürich +#&%20 ☃" AS ?x) {} # é + # %'
    for answer in (
        subject.reader.request("GET", "/sparql" + get(text), Accept=JSON),
        subject.reader.request("POST", "/sparql", text.encode(), Accept=JSON, Content_Type=DIRECT),
        subject.reader.request("POST", "/sparql", urlencode({"query": text}).encode(), Accept=JSON, Content_Type=FORM),
    ):
        assert json.loads(answer[2])["results"]["bindings"][0]["x"]["value"] == "Zürich +#&%20 ☃"


@pytest.mark.parametrize("form", ["update=", UPDATE])
@pytest.mark.parametrize("path", ["/sparql", None], ids=["ours", "its own"])
def test_updates_need_permission(subject: Subject, form: str, path: str | None) -> None:
    """403 that names the setting; where it is set they are done, on our path and on the server's."""

    def update(proxy, text):
        if form == UPDATE:
            return proxy.request("POST", path or subject.update_path, text.encode(), Content_Type=UPDATE)
        return proxy.request("POST", path or subject.update_path, urlencode({"update": text}).encode(), Content_Type=FORM)

    triple = "ex:contract ex:pages 1"
    status, _, body = update(subject.reader, f"{PREFIXES}INSERT DATA {{ {triple} }}")
    assert status == 403 and b"allow_updates" in body and not subject.holds(triple)
    assert update(subject.writer, f"{PREFIXES}INSERT DATA {{ {triple} }}")[0] in (200, 204)
    assert subject.holds(triple)
    assert update(subject.writer, f"{PREFIXES}DELETE DATA {{ {triple} }}")[0] in (200, 204)
    assert not subject.holds(triple)


SMUGGLED = {
    "plain": "INSERT DATA { ex:smuggled ex:pages 1 }",
    "comment": "# SELECT * {}\nINSERT DATA { ex:smuggled ex:pages 1 }",
    "escapes": "\\u0049NSERT DATA { ex:smuggled ex:pages 1 }",
    "unparsable": "SELECT * {} ; INSERT DATA { ex:smuggled ex:pages 1 }",
    "comment within": "INSERT # {\n DATA { ex:smuggled ex:pages 1 }",
}


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["", "byte order mark"])
@pytest.mark.parametrize("text", SMUGGLED.values(), ids=SMUGGLED)
def test_an_update_is_not_smuggled_into_a_query(subject: Subject, text: str, mark: str) -> None:
    """Not even where updates are allowed: whoever may query need not be whoever may write."""
    text = mark + PREFIXES + text
    for target, body, content_type in (
        ("/sparql" + get(text), None, ""),
        (subject.query_path, text.encode(), DIRECT),
        ("/sparql", urlencode({"query": text}).encode(), FORM),
    ):
        headers = {"Content_Type": content_type} if content_type else {}
        assert subject.writer.request("POST" if body else "GET", target, body, **headers)[0] in (400, 403)
    assert not subject.holds("ex:smuggled ex:pages 1")


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("query", "SELECT * { SERVICE <http://169.254.169.254/latest/meta-data> { ?s ?p ?o } }"),
        ("query", "SELECT * { ?s ?p ?e SERVICE SILENT ?e { ?a ?b ?c } }"),
        ("query", "SELECT * { OPTIONAL { { SELECT * { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } } } } }"),
        ("query", "ASK { << ?a ?b ?c >> ?d ?e . SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } } }"),
        ("update", "INSERT { ?s ?p ?o } WHERE { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }"),
        ("update", "LOAD <http://127.0.0.1:9/x>"),
    ],
)
def test_the_server_fetches_nothing_for_a_client(subject: Subject, form: str, text: str) -> None:
    """SERVICE, constant or variable, nested, in what cannot be parsed, in updates; LOAD."""
    status, _, body = subject.writer.request("POST", "/sparql", urlencode({form: text}).encode(), Content_Type=FORM)
    assert (status == 403 and b"SERVICE" in body) or b"LOAD" in body


@pytest.mark.parametrize("packed", [PREFIXES + "INSERT DATA { ex:packed ex:pages 1 }", "ASK { SERVICE ?x {} }"])
def test_a_compressed_body_is_judged(subject: Subject, packed: str) -> None:
    """What is in it counts, not how it is packed."""
    headers = {"Content_Type": DIRECT, "Content_Encoding": "gzip"}
    assert subject.writer.request("POST", "/sparql", gzip.compress(packed.encode()), **headers)[0] in (400, 403)
    assert not subject.holds("ex:packed ex:pages 1")


def test_a_compressed_query_passes_as_it_came(subject: Subject) -> None:
    """The server decides whether it reads it; GraphDB does."""
    headers = {"Content_Type": DIRECT, "Content_Encoding": "gzip", "Accept": JSON}
    body = gzip.compress(SELECT.encode(), mtime=0)
    status, _, answer = subject.reader.request("POST", subject.query_path, body, **headers)
    if subject.kind in ("embedded", "graphdb", "rdf4j"):
        assert (status, pages(answer)) == (200, PAGES)
    else:
        assert status == subject.direct("POST", subject.query_path, body, **headers)[0]


@pytest.mark.parametrize(
    "body",
    [b"\x1f\x8b broken", gzip.compress(b"ASK {}")[:-4], gzip.compress(b"ASK {}") + gzip.compress(b" ")],
    ids=["broken", "cut", "second member"],
)
def test_a_body_that_cannot_be_unpacked_is_refused(subject: Subject, body: bytes) -> None:
    """A second member is what another reader would read."""
    headers = {"Content_Type": DIRECT, "Content_Encoding": "gzip"}
    assert subject.reader.request("POST", "/sparql", body, **headers)[0] == 400
    headers["Content_Encoding"] = "br"
    assert subject.reader.request("POST", "/sparql", body, **headers)[0] == 415


def test_the_servers_own_400_is_kept(subject: Subject) -> None:
    """A syntax error is told in the server's words."""
    status, _, body = subject.reader.request("GET", "/sparql" + get("SELECT * { ?s ?p "))
    assert status == 400 and body
    if subject.endpoint is not None:
        expected = subject.direct("GET", subject.query_path + get("SELECT * { ?s ?p "))
        assert (status, comparable(body)) == (expected[0], comparable(expected[2]))


def test_a_query_given_twice_is_refused(subject: Subject) -> None:
    """Some servers take the first, some the second; what is judged must be what runs."""
    assert subject.reader.request("GET", "/sparql" + get("ASK {}") + "&query=ASK%7B%7D")[0] == 400
    assert subject.reader.request("POST", "/sparql" + get("ASK {}"), b"ASK {}", Content_Type=DIRECT)[0] == 400


def test_head(subject: Subject) -> None:
    """The head of what GET gives, and no body; also where the server knows no HEAD."""
    for path in ("/sparql", subject.query_path):
        status, headers, body = subject.reader.request("HEAD", path + get(SELECT), Accept=JSON)
        assert (status, body) == (200, b"") and headers["content-type"].partition(";")[0] == JSON
    assert subject.reader.request("GET", "/sparql" + get(SELECT), Accept=JSON)[0] == 200


def test_options_and_preflight(subject: Subject) -> None:
    """Every path answers OPTIONS, and a preflight with what browsers must know."""
    for path in ("/sparql", subject.query_path, subject.update_path, (subject.store or "/sparql").partition("?")[0]):
        status, headers, _ = subject.reader.request("OPTIONS", path)
        assert status == 204 and "POST" in headers["allow"]
        asked = {"Origin": "http://app.example", "Access_Control_Request_Method": "POST"}
        status, headers, _ = subject.reader.request("OPTIONS", path, Access_Control_Request_Headers="authorization", **asked)
        assert status == 204 and headers.get_all("access-control-allow-origin") == ["*"]
        assert "POST" in headers["access-control-allow-methods"] and headers["access-control-allow-headers"] == "authorization"
        assert "access-control-allow-credentials" not in headers


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/sparql" + get("ASK {}"), 200),
        ("GET", "/sparql" + get("SELECT * {"), 400),
        ("GET", "/sparql" + get("CLEAR ALL"), 400),
        ("GET", "/sparql" + get("ASK { SERVICE ?x {} }"), 403),
        ("GET", "/nothing", 404),
        ("PATCH", "/sparql", 405),
    ],
)
def test_one_origin_field_on_every_answer(subject: Subject, method: str, target: str, status: int) -> None:
    """Answers, the server's errors, our refusals; never with credentials."""
    got, headers, _ = subject.reader.request(method, target, Origin="http://app.example")
    assert got == status and headers.get_all("access-control-allow-origin") == ["*"]
    assert "access-control-allow-credentials" not in headers


def test_a_long_get(subject: Subject) -> None:
    """30 KB of URL work, whatever the server takes."""
    text = SELECT + " #" + "x" * 30_000
    assert pages(subject.reader.request("GET", "/sparql" + get(text), Accept=JSON)[2]) == PAGES


@pytest.mark.parametrize("size", [200_000, 2_200_000])
def test_a_large_post(subject: Subject, size: int) -> None:
    """Form and direct, beyond the limits that servers have for forms."""
    # One long comment, or many short ones for Jena, whose lexer takes a quadratic time over a long one.
    text = SELECT + ("\n#" + "x" * 998) * (size // 1000) if subject.kind == "fuseki" else SELECT + "#" + "x" * size
    form = urlencode({"query": text}).encode()
    for body, content_type in ((form, FORM), (text.encode(), DIRECT)):
        status, _, answer = subject.reader.request("POST", "/sparql", body, Accept=JSON, Content_Type=content_type)
        assert (status, pages(answer)) == (200, PAGES)


def test_service_description(subject: Subject) -> None:
    """The server's own, with the endpoint where the client found it; where it has none, its own answer."""
    for path in ("/sparql", subject.query_path):
        status, _, body = subject.reader.request("GET", path, Accept="application/n-triples")
        if subject.kind in ("oxigraph", "embedded"):
            assert status == 200
            endpoints = re.findall(rb"service-description#endpoint> <([^>]*)>", body)
            assert endpoints == [f"http://127.0.0.1:{subject.reader.port}{path}".encode()]
        else:
            assert subject.endpoint is not None
            assert str(subject.endpoint.port).encode() not in body
            assert status == subject.direct("GET", subject.query_path, Accept="application/n-triples")[0]


def test_graph_store(subject: Subject) -> None:
    """Reads pass; writes need permission, and then are done."""
    if subject.store is None:
        pytest.skip("a plain SPARQL endpoint has no graph store that could be known")
    status, _, body = subject.reader.request("GET", subject.store, Accept=TURTLE)
    assert status == 200 and b"lentTo" in body
    target = subject.store.replace("loans", "written")
    turtle = b"<http://example.org/contract> <http://example.org/written> 1 ."
    for method in ("PUT", "POST", "DELETE"):
        body = None if method == "DELETE" else turtle
        status, _, answer = subject.reader.request(method, target, body, Content_Type=TURTLE)
        assert status == 403 and b"allow_updates" in answer
    assert subject.writer.request("PUT", target, turtle, Content_Type=TURTLE)[0] in (200, 201, 204)
    assert subject.holds("GRAPH ?g { ex:contract ex:written ?x }")
    assert subject.writer.request("DELETE", target)[0] in (200, 204)
    assert not subject.holds("GRAPH ?g { ex:contract ex:written ?x }")
    assert subject.reader.request("PATCH", subject.store)[0] == 405


def test_ready(subject: Subject) -> None:
    """Ready while the server answers."""
    assert subject.reader.request("GET", "/-/ready")[0] == 200
