"""plugins/prefixes.py: a query with an undeclared prefix that is known gets its declaration, and no other query is touched."""

from urllib.parse import unquote

import pytest

from proxy.errors import ConfigError

OPTIONS = '[plugins.prefixes]\nknown = {e = "http://e/", rdfs = "http://www.w3.org/2000/01/rdf-schema#", x = "http://x/"}\n'


def made(server, **more):
    return server(data='<http://e/s> <http://e/p> "o" .', enabled=("prefixes",), options=OPTIONS, **more)


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        ("SELECT ?o { ?s e:p ?o }", "e"),
        ("# e:p\nSELECT ?o { ?s e:p ?o OPTIONAL { ?s rdfs:label ?l } }", "e, rdfs"),
        ("PREFIX x: <http://e/> SELECT ?o { x:s e:p ?o }", "e"),
    ],
)
def test_what_is_missing_is_declared(server, text, declared):
    """In the first line; the headers say which prefixes, and what was asked."""
    response = made(server).ask(text, accept="text/csv")
    assert (response.status_code, response.headers["sparlance-prefixes"], response.text.split()[1]) == (200, declared, "o")
    assert unquote(response.headers["sparlance-query"]).endswith(text)


@pytest.mark.parametrize(
    "text",
    [
        "PREFIX e: <http://other/> SELECT ?o { ?s e:p ?o }",
        'SELECT ?o { ?s <http://e/p> ?o FILTER(?o != "e:p") } # rdfs:label',
        "SELECT ?o { ?s unknown:p ?o }",
        "SELECT ?o { ?s e:p ?o ",
        "SELECT ?e { ?e <http://e/p> ?o }",
    ],
)
def test_all_else_stays_as_it_is(server, text):
    """A prefix with a meaning of its own, a mention in a string, and what another error is in."""
    response = made(server).ask(text)
    assert "sparlance-prefixes" not in response.headers and "sparlance-query" not in response.headers


def test_updates_get_them_too(server):
    """The text of an update is read before it is parsed as well."""
    response = made(server, allow_updates=True).update("INSERT DATA { e:a e:p 1 }")
    assert (response.status_code, response.headers["sparlance-prefixes"]) == (204, "e")


@pytest.mark.parametrize("known", ['{"a b" = "http://e/"}', '{a = "http://e/ x"}', '{a = "x> ASK {} #"}', '{a = 1}'])
def test_what_cannot_be_declared_stops_the_start(server, known):
    """No text gets into a query by the settings but a declaration."""
    with pytest.raises(ConfigError, match=r"^plugins\.prefixes"):
        server(enabled=("prefixes",), options=f"[plugins.prefixes]\nknown = {known}\n").app()
