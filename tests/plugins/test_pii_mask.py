"""plugins/pii_mask.py: personal data stay out of answers, in every text format, wherever a piece ends, and out of the log."""

import asyncio
import json
import random
from itertools import pairwise
from pathlib import Path

import pyoxigraph
import pytest

from proxy.config import LogSettings
from proxy.errors import ConfigError
from proxy.log import configure
from proxy.plugin.loading import load_file

FILE = Path(__file__).parents[2] / "plugins" / "pii_mask.py"
KEYS = {"doc": "doc-0123456789-0123456789"}
PERSONAL = [
    "ann.smith+x@mail.example.org",
    "müller@bücher.example",
    "DE89370400440532013000",
    "DE89 3704 0044 0532 0130 00",
    "GB82-WEST-1234-5698-7654-32",
    "4111111111111111",
    "4111 1111 1111 1111",
    "5500-0000-0000-0004",
    "378282246310005",
    "+49 30 901820",
    "+1 (555) 010-9999",
]
HARMLESS = [
    "no address @ all",
    "user@localhost",
    "4111111111111112",
    "DE88370400440532013000",
    "1234567890123",
    "2026-11-30T19:38:02+01:00",
    "+12",
    "http://example.org/a?b=c#d",
    "3.14159265358979323846",
    "978-3-16-148410-0",
]


def body(plugin, data: bytes, cuts: list[int]) -> bytes:
    """*data* through a filter, in pieces that end at *cuts*."""
    from proxy.pipeline.exchange import Exchange

    made = plugin.body(Exchange("r", status=200, response_headers=((b"content-type", b"text/csv"),)))
    places = [0, *cuts, len(data)]
    return b"".join([*(made.feed(data[a:b]) for a, b in pairwise(places)), made.close()])


@pytest.fixture
def plugin():
    return load_file(FILE, {}).plugin


@pytest.mark.parametrize("text", PERSONAL)
def test_personal_data_are_starred(plugin, text):
    """At the ends, between words and between quotes."""
    for around in ("{}", 'x,"{}",y', "<mailto:{}>", "call {} now", "7 {}, 99\n", '{{"value":"{}"}}'):
        data = around.format(text).encode()
        assert plugin.mask(data) == around.format("***").encode()


def test_digits_beside_a_number_do_not_hide_it(plugin):
    """The groups that are right together are found among others."""
    assert plugin.mask(b"12 4111 1111 1111 1111 99") == b"12 *** 99"
    assert plugin.mask(b"DE89 3704 0044 0532 0130 00 AB") == b"*** AB"


@pytest.mark.parametrize("text", HARMLESS)
def test_other_data_are_not(plugin, text):
    """Numbers without right check digits, times, IRIs."""
    assert plugin.mask(f'"{text}"'.encode()) == f'"{text}"'.encode()


@pytest.mark.parametrize(
    "text", ["a\\u0040b.example", "a&#64;b.example", "a&#x40;b.example", "mailto:a%40b.example", "\\u002B4930901820"]
)
def test_escapes_hide_nothing(plugin, text):
    """As JSON, XML, N-Triples and IRIs may write the signs that matter."""
    assert b"***" in plugin.mask(text.encode()) and b"b.example" not in plugin.mask(text.encode())


def test_it_does_not_matter_where_a_piece_ends(plugin):
    """Every single cut, and many at random: the same bytes as in one piece."""
    data = " | ".join(x for pair in zip(PERSONAL, HARMLESS, strict=False) for x in pair).encode()
    whole = plugin.mask(data)
    assert whole.count(b"***") == 10
    assert {body(plugin, data, [cut]) for cut in range(len(data))} == {whole}
    chance = random.Random(5)
    big = b"\n".join([data] * 30)
    for _ in range(50):
        cuts = sorted(chance.sample(range(len(big)), chance.randint(1, 60)))
        assert body(plugin, big, cuts) == plugin.mask(big)
    assert body(plugin, big, list(range(1, len(big)))) == plugin.mask(big)


def test_little_is_held_back(plugin):
    """A long line without end is passed on: the memory is bounded."""
    from proxy.pipeline.exchange import Exchange

    made = plugin.body(Exchange("r", status=200, response_headers=((b"content-type", b"text/csv"),)))
    sent = sum(len(made.feed(b"x" * 100_000)) for _ in range(10))
    assert 1_000_000 - sent <= 600 and len(made.kept) <= 601


DATA = "".join(f'<a:s{i}> <a:mail> "{text}" .\n' for i, text in enumerate(PERSONAL))
DATA += "<mailto:bob@mail.example> <a:p> <a:o> .\n"


@pytest.mark.parametrize(
    ("query", "accept"),
    [
        ("SELECT * { ?s ?p ?o }", "application/sparql-results+json"),
        ("SELECT * { ?s ?p ?o }", "application/sparql-results+xml"),
        ("SELECT * { ?s ?p ?o }", "text/csv"),
        ("SELECT * { ?s ?p ?o }", "text/tab-separated-values"),
        ("CONSTRUCT WHERE { ?s ?p ?o }", "text/turtle"),
        ("CONSTRUCT WHERE { ?s ?p ?o }", "application/n-triples"),
        ("CONSTRUCT WHERE { ?s ?p ?o }", "application/rdf+xml"),
    ],
)
def test_every_format_is_masked(server, query, accept):
    """And is still that format; its length is no longer told. The backend is not asked for a compressed body."""
    made = server(data=DATA, enabled=("pii_mask",), keys=KEYS, options="[plugins.pii_mask]\nclear_for = ['doc']\n")
    response = made.ask(query, accept=accept)
    assert response.status_code == 200 and response.headers["content-type"].startswith(accept)
    assert response.text.count("***") == len(PERSONAL) + 1
    assert not any(text in response.text for text in [*PERSONAL, "bob"])
    if accept.endswith("json"):
        assert len(json.loads(response.text)["results"]["bindings"]) == len(PERSONAL) + 1
    assert made.ask(query, accept=accept, key="doc").text.count("***") == 0


def test_the_graph_store_is_masked(server):
    """Its bodies come by the same way."""
    response = server(data=DATA, enabled=("pii_mask",)).send("GET", "/store?default", headers={"accept": "text/turtle"})
    assert response.text.count("***") == len(PERSONAL) + 1


@pytest.mark.parametrize(
    "kind",
    [b"application/x-binary-rdf", b"application/octet-stream", b"text/csv; charset=utf-16", b"", b"application/json2"],
)
def test_what_cannot_be_read_is_not_given(plugin, kind):
    """406: another format would do."""
    from proxy.errors import NotAcceptable
    from proxy.pipeline.exchange import Exchange

    with pytest.raises(NotAcceptable):
        plugin.body(Exchange("r", status=200, response_headers=((b"content-type", kind),)))


def test_a_write_that_is_done_is_not_refused(server):
    """Its answer has no body, and no format."""
    made = server(enabled=("pii_mask",), allow_updates=True)
    assert made.update("INSERT DATA { <a:s> <a:p> 'a@b.example' }").status_code == 204
    headers = {"content-type": "text/turtle"}
    assert made.send("PUT", "/store?graph=g:g", content="<a:s> <a:p> 1 .", headers=headers).status_code == 201


@pytest.mark.parametrize(
    "kind",
    [
        b"application/sparql-results+json",
        b"application/sparql-results+xml;charset=UTF-8",
        b'text/turtle; charset="utf-8"',
        b"application/ld+json; profile=x",
        b"text/csv; header=present; charset=utf-8",
        b"application/n-quads",
    ],
)
def test_what_is_text_is_read(plugin, kind):
    """With and without parameters."""
    from proxy.pipeline.exchange import Exchange

    assert plugin.body(Exchange("r", status=200, response_headers=((b"content-type", kind),))) is not None


def test_the_log_is_masked(server, capfd):
    """Whatever a line holds: here a path. When the server is shut down, the log is as before."""
    made = server(enabled=("pii_mask",))

    async def use(client):
        configure(LogSettings(format="json"))
        response = await client.get("/no/ann@mail.example")
        client.app._http.flush()
        return response

    assert made.run(use).status_code == 404
    lines = capfd.readouterr().err
    assert '"/no/***"' in lines and "ann@" not in lines


def test_unknown_kinds_stop_the_start():
    """The error says which there are."""
    with pytest.raises(ConfigError, match=r"plugins\.pii_mask\.kinds"):
        load_file(FILE, {"kinds": ["name"]})


def test_what_is_kept_is_masked_for_each(server):
    """An answer is kept as the backend gave it, and masked for whoever gets it from there."""
    made = server(data=DATA, enabled=("pii_mask",), keys=KEYS, options="[plugins.pii_mask]\nclear_for = ['doc']\n")
    made.settings += "[cache]\nenabled = true\n"

    async def use(client):
        masked = []
        for headers in ({"x-api-key": KEYS["doc"]}, {}, {"x-api-key": KEYS["doc"]}, {}):
            query = {"query": "SELECT ?o { ?s <a:mail> ?o }"}
            response = await client.get("/query", params=query, headers={"accept": "text/csv", **headers})
            masked.append((response.text.count("***") > 0, response.headers.get("cache-status", "")))
        return masked

    found = made.run(use)
    assert [is_masked for is_masked, _ in found] == [False, True, False, True]
    assert "hit" in found[-1][1]


OWN = """@prefix e: <http://e/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
e:Person rdfs:label "person" . e:mail rdfs:label "mail" .
e:a a e:Person ; rdfs:label "Ada Stone" ; e:mail "ada@mail.example" .
e:b a e:Person ; rdfs:label "Bo Lake" ; e:mail "bo@mail.example" ."""


def test_what_we_write_ourselves_is_masked(server):
    """A suggestion in a rejection, the page of the graph as text, a question's account, its events, and the query it became."""
    made = server(data="", enabled=("pii_mask",), keys=KEYS, options="[plugins.pii_mask]\nclear_for = ['doc']\n")
    made.settings = "[index]\ngraphs = 'default'\n"
    made.data = "".join(f"{t} .\n" for t in map(str, pyoxigraph.parse(OWN, format=pyoxigraph.RdfFormat.TURTLE)))
    ask = "SELECT * { ?s <http://e/mail> 'ada@mail.exampel' }"
    nl = {"nl": "What is the mail of Ada Stone?"}
    requests = [
        ("POST", "/query", {"data": {"query": ask}}),
        ("GET", "/-/ttql", {}),
        ("POST", "/-/check", {"content": ask}),
        ("GET", "/sparql", {"params": nl, "headers": {"accept": "application/json"}}),
        ("GET", "/sparql", {"params": nl, "headers": {"accept": "text/event-stream"}}),
        ("GET", "/sparql", {"params": {"nl": "Who has the mail ada@mail.example?"}, "headers": {"accept": "application/json"}}),
    ]

    async def use(client):
        for _ in range(600):
            if (await client.get("/-/ready")).status_code == 200:
                break
            await asyncio.sleep(0.1)
        found = []
        for method, path, more in requests:
            headers = more.pop("headers", {})
            pair = [await client.request(method, path, headers=headers | h, **more) for h in ({}, {"x-api-key": KEYS["doc"]})]
            found.append([str(one.headers) + one.text for one in pair])
        return found

    for masked, clear in made.run(use):
        assert "ada@mail.example" in clear or "ada%40mail.example" in clear
        assert "ada@" not in masked and "ada%40" not in masked and "***" in masked
