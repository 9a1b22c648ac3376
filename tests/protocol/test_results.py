"""Documents without solutions, read back by another library."""

import pyoxigraph as ox
import pytest

from proxy.errors import NotAcceptable
from proxy.protocol.results import empty_result


@pytest.mark.parametrize(
    ("accept", "format_"),
    [
        (None, ox.QueryResultsFormat.JSON),
        ("application/sparql-results+xml", ox.QueryResultsFormat.XML),
        ("text/tab-separated-values", ox.QueryResultsFormat.TSV),
    ],
)
def test_empty_select_is_well_formed(accept, format_):
    """Each format names the variables and holds no solution."""
    _, document = empty_result("SELECT", ("a", "ü"), accept)
    results = ox.parse_query_results(document, format=format_)
    assert [v.value for v in results.variables] == ["a", "ü"] and list(results) == []


def test_empty_csv():
    """CSV has its header line."""
    assert empty_result("SELECT", ("a", "b"), "text/csv") == ("text/csv; charset=utf-8", b"a,b\r\n")


@pytest.mark.parametrize("accept", ["text/turtle", "application/rdf+xml", "application/ld+json", "application/n-quads"])
def test_empty_graph_is_well_formed(accept):
    """Each RDF format is an empty graph."""
    content_type, document = empty_result("CONSTRUCT", (), accept)
    assert content_type == accept and list(ox.parse(document, ox.RdfFormat.from_media_type(accept))) == []


def test_not_acceptable():
    """No format: 406."""
    with pytest.raises(NotAcceptable):
        empty_result("SELECT", (), "image/png")
