"""The syntax verdict, and what it never does."""

import pytest

from proxy.query.syntax import syntax_error


def test_a_well_formed_query_passes():
    """Every form of query; functions that the checking store lacks are no syntax errors."""
    assert syntax_error("SELECT ?x { ?x a <http://e/C> FILTER(<http://e/f>(?x)) }") is None
    assert syntax_error("DESCRIBE <x>") is None


@pytest.mark.parametrize(
    "text", ["SELECT ?x { ?x }", "SELECT ?x { ?y ?p ?z } GROUP BY ?y", "nonsense", "SELECT (1 AS ?x) (2 AS ?x) {}"]
)
def test_what_is_not_sparql(text):
    """Rules of the grammar's notes count too."""
    assert syntax_error(text) is not None


@pytest.mark.parametrize(
    "text", ["CLEAR ALL", "ASK { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }", "LOAD <http://127.0.0.1:9/>"]
)
def test_nothing_is_called_or_changed(text):
    """An update, SERVICE or LOAD never reaches an engine."""
    assert "SERVICE" in str(syntax_error(text))
