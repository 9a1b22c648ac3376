"""Accept fields."""

import pytest

from proxy.query.formats import GRAPH_FORMATS, SOLUTION_FORMATS, BadAccept, choose, names


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, "json"),
        ("", "json"),
        ("*/*", "json"),
        ("application/json", "json"),
        ("text/xml", "xml"),
        ("text/plain", "csv"),
        ("text/*", "csv"),
        ("text/csv;q=0.5, text/tab-separated-values;q=0.6", "tsv"),
        ("TEXT/CSV ; Q=1", "csv"),
        ("*/*;q=0.1, text/csv", "csv"),
        ("application/sparql-results+json;q=0, */*", "xml"),
        ("text/turtle", None),
        ("text/csv;q=0", None),
        (",, text/csv,", "csv"),
    ],
)
def test_choose(accept, expected):
    """Quality decides, then our order; a specific range outranks a wildcard."""
    chosen = choose(accept, SOLUTION_FORMATS)
    assert (chosen.name if chosen else None) == expected


def test_a_synonym_counts_as_the_format():
    """A q=0 on one name of a format does not exclude another name that is asked for."""
    assert choose("application/json;q=0, application/sparql-results+json", SOLUTION_FORMATS).name == "json"
    assert choose("application/x-turtle", GRAPH_FORMATS).name == "turtle"


@pytest.mark.parametrize("accept", ["garbage", "text/", "/csv", "text/csv;q=x", "a b/c"])
def test_bad(accept):
    """What is no media range is said so."""
    with pytest.raises(BadAccept):
        choose(accept, SOLUTION_FORMATS)


def test_names():
    """Only what is written out counts as named."""
    assert names("text/csv;q=0.1", "text/csv")
    assert not names("text/*", "text/csv") and not names("text/csv;q=0", "text/csv") and not names("garbage", "text/csv")
