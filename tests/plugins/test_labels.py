"""plugins/labels.py: ?xLabel is filled where it is asked for and said nowhere, and no other query is touched."""

import pytest

from proxy.errors import ConfigError

LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
DATA = f"""
<a:s> <a:p> <a:o> .
<a:s> <{LABEL}> "Es"@de .
<a:s> <{LABEL}> "It"@en .
<a:o> <{LABEL}> "plain" .
<a:t> <a:p> <a:u> .
"""


def made(server, options: str = ""):
    return server(data=DATA, enabled=("labels",), options=f"[plugins.labels]\n{options}\n")


@pytest.mark.parametrize(
    ("text", "rows", "header"),
    [
        ("SELECT ?s ?sLabel { ?s <a:p> ?o } ORDER BY ?s", ["a:s,It", "a:t,"], "?sLabel"),
        ("SELECT ?oLabel ?sLabel { ?s <a:p> ?o } ORDER BY ?s LIMIT 1", ["plain,It"], "?oLabel, ?sLabel"),
        ("SELECT ?s ?sLabel { { ?s <a:p> ?o } UNION { ?s <a:q> ?o } } ORDER BY ?s # }", ["a:s,It", "a:t,"], "?sLabel"),
        ("SELECT ?s ?sLabel { ?s <a:p> ?o FILTER(STR(?o) != '}') } ORDER BY ?s VALUES ?s { <a:s> }", ["a:s,It"], "?sLabel"),
        ("SELECT DISTINCT ?s ?sLabel { ?s <a:p>|<a:q> ?o } ORDER BY ?s", ["a:s,It", "a:t,"], "?sLabel"),
    ],
)
def test_labels_are_filled_in(server, text, rows, header):
    """In the language, or without one; a node without a label stays; the header says which variables."""
    response = made(server).ask(text, accept="text/csv")
    assert response.text.split()[1:] == rows and response.headers["sparlance-labels"] == header


def test_the_language_can_be_chosen(server):
    """By its range."""
    response = made(server, 'language = "de"').ask("SELECT ?sLabel { ?s <a:p> <a:o> }", accept="text/csv")
    assert response.text.split() == ["sLabel", "Es"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?s { ?s <a:p> ?o }",
        "SELECT ?sLabel { ?s <a:p> ?sLabel }",
        "SELECT ?xLabel { ?s <a:p> ?o }",
        "SELECT ?Label { ?s <a:p> ?o }",
        "SELECT * { ?s <a:p> ?o }",
        "SELECT (STR(?s) AS ?sLabel) { ?s <a:p> ?o }",
        "SELECT ?s ?sLabel { ?s <a:p> ?o } GROUP BY ?s ?sLabel",
        "SELECT (COUNT(*) AS ?n) { ?s <a:p> ?o }",
        "ASK { ?s <a:p> ?o }",
        "SELECT ?sLabel { ?s <a:p> ?o } LIMIT x",
    ],
)
def test_all_else_stays_as_it_is(server, text):
    """No header, and the client's own bytes."""
    response = made(server).ask(text)
    assert "sparlance-labels" not in response.headers and "sparlance-query" not in response.headers


@pytest.mark.parametrize("options", ['predicate = "a b"', "language = 'x\")) } #'", "predicate = 'a:b> ?x } #'"])
def test_what_cannot_be_written_stops_the_start(server, options):
    """No text gets into a query by the settings but a pattern."""
    with pytest.raises(ConfigError, match=r"^plugins\.labels"):
        made(server, options).app()
