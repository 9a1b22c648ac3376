"""What a request to one of the backend's paths means, and what never leads out of it."""

from __future__ import annotations

import pytest

from proxy.backends.base import PathKind
from proxy.errors import MalformedRequest, UnknownPath, UnsupportedMediaType
from proxy.protocol.description import replace_addresses
from proxy.protocol.paths import handling, require_no_operation, rest_of_path
from proxy.protocol.transactions import read_step, read_text

ANY, STATEMENTS, STORE, QUERY, UPDATE = (
    PathKind.ANY,
    PathKind.STATEMENTS,
    PathKind.GRAPH_STORE,
    PathKind.QUERY,
    PathKind.UPDATE,
)
FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("kind", "method", "names", "content_type", "expected"),
    [
        (ANY, "GET", ["query"], None, QUERY),
        (ANY, "GET", [], None, QUERY),
        (ANY, "GET", ["graph"], None, STORE),
        (ANY, "GET", ["graph", "query"], None, QUERY),
        (ANY, "PUT", ["default"], "text/turtle", STORE),
        (ANY, "POST", ["graph"], "text/turtle", STORE),
        (ANY, "POST", ["graph"], "application/sparql-query", QUERY),
        (ANY, "POST", ["graph"], "application/sparql-queryX", QUERY),
        (ANY, "POST", ["graph"], FORM + "; charset=utf-8", QUERY),
        (ANY, "PUT", [], "text/turtle", QUERY),
        (STATEMENTS, "GET", ["subj"], None, STORE),
        (STATEMENTS, "PUT", [], "text/turtle", STORE),
        (STATEMENTS, "DELETE", [], None, STORE),
        (STATEMENTS, "POST", [], "text/turtle;charset=UTF-8", STORE),
        (STATEMENTS, "POST", ["update"], "text/turtle", UPDATE),
        (STATEMENTS, "POST", [], FORM, UPDATE),
        (STATEMENTS, "POST", [], "application/sparql-update", UPDATE),
        (STATEMENTS, "POST", [], None, UPDATE),
        (PathKind.INFORMATION, "GET", ["query"], None, PathKind.INFORMATION),
    ],
)
def test_handling(kind, method, names, content_type, expected):
    """Whatever could be taken for SPARQL is handled as SPARQL."""
    assert handling(kind, method, [(name, "x") for name in names], content_type) is expected


def test_an_upload_is_rdf():
    """RDF4J's transaction documents may hold updates."""
    for media in ("application/x-rdftransaction", "multipart/form-data", "text/plain2"):
        with pytest.raises(UnsupportedMediaType, match="text/turtle"):
            handling(STATEMENTS, "POST", [], media)


def test_no_operation_where_nobody_judges_it():
    """``query`` and ``update`` have no business on other paths."""
    require_no_operation([("graph", "x"), ("queryLn", "x")])
    for name in ("query", "update"):
        with pytest.raises(MalformedRequest):
            require_no_operation([(name, "x")])


@pytest.mark.parametrize("name", ["a", "a/b", "a%20b", "http%3A%2F%2Fe%2Fx", "...", "a..b", ""])
def test_names_behind_a_path_stay(name):
    """Byte for byte."""
    assert rest_of_path(b"/d/store/" + name.encode(), "/", "/store/*") == b"/store/" + name.encode()


@pytest.mark.parametrize(
    "name", ["..", ".", "a/../b", "%2e%2e", "%2E.", "..;a=b", "..%3b", "a%2f..%2fb", "..\\a", "%5c..", "a/..;/..;/b", "./x"]
)
def test_dot_segments_lead_nowhere(name):
    """However they are written."""
    with pytest.raises(UnknownPath):
        rest_of_path(b"/store/" + name.encode(), "/", "/store/*")


def test_a_prefix_in_disguise_is_unknown():
    """A path whose fixed part is escaped is not passed on."""
    with pytest.raises(UnknownPath):
        rest_of_path(b"/st%6fre/x", "/store/x", "/store/*")


def test_text_of_a_step():
    """Graph parameters and the others are those of the URL and the form; an empty query= is none."""
    step = read_step(method="PUT", query_string=b"action=QUERY&query&infer=false&default-graph-uri=g", accept="a/b")
    operation = read_text(step, content_type="application/sparql-query", body=b"ASK {}")
    assert (operation.text, operation.dataset.default_graphs, operation.accept) == ("ASK {}", ("g",), "a/b")
    assert ("infer", "false") in operation.parameters


@pytest.mark.parametrize("query_string", [b"action=QUERY", b"action=QUERY&query="])
def test_a_step_without_a_text(query_string):
    """There must be one."""
    step = read_step(method="PUT", query_string=query_string, accept=None)
    with pytest.raises(MalformedRequest, match="0 texts"):
        read_text(step, content_type=None, body=b"")


def test_addresses_in_a_description():
    """Whole IRIs only, in any syntax that writes them between delimiters."""
    document = b'<http://b/q> <http://b/q/x> "http://b/q" rdf:resource=\'http://b/q\' http://b/q'
    changed = b'<http://us/> <http://b/q/x> "http://us/" rdf:resource=\'http://us/\' http://b/q'
    assert replace_addresses(document, ["http://b/q", "https://b/q"], "http://us/") == changed
    assert replace_addresses(document, [], "http://us/") == document
