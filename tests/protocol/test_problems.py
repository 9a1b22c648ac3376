"""Errors → responses."""

import json

import pytest

from proxy import errors
from proxy.errors import ProxyError, QueryRejected
from proxy.protocol.problems import STATUS, render, render_internal, status_of
from proxy.validation.finding import Finding, Severity


def subclasses(base: type) -> list[type]:
    return [base, *(c for s in base.__subclasses__() for c in subclasses(s))]


@pytest.mark.parametrize("kind", subclasses(ProxyError), ids=lambda k: k.__name__)
def test_every_error_has_a_status(kind):
    """Each class of the tree stands in the table itself, not by its base."""
    if kind.__module__ == errors.__name__:
        assert 400 <= STATUS[kind] < 600


def test_rejection_is_a_client_error():
    """A refused query is 400: 503 and 429 would be repeated."""
    finding = Finding(Severity.PROVED_EMPTY, "?s e:p ?o", 1, 12, "nothing has e:p", "e:q: 12", ("e:q",), "unknown", "ASK {}")
    error = QueryRejected("the query can have no solutions", findings=[finding])
    status, headers, body = render(error, request_id="r1", accept="application/sparql-results+json")
    problem = json.loads(body)
    assert status == problem["status"] == 400 and problem["request_id"] == "r1"
    assert dict(headers)[b"content-type"] == b"application/problem+json"
    assert problem["findings"] == [
        {
            "severity": "proved-empty",
            "pattern": "?s e:p ?o",
            "line": 1,
            "column": 12,
            "message": "nothing has e:p",
            "evidence": "e:q: 12",
            "suggestions": ["e:q"],
            "rule": "unknown",
        }
    ]


@pytest.mark.parametrize(
    ("accept", "is_text"),
    [
        (None, False),
        ("*/*", False),
        ("text/csv", True),
        ("text/plain;q=0.5, text/turtle", True),
        ("text/plain, */*;q=0.1", False),
        ("application/sparql-results+xml", False),
        ("garbage", True),
    ],
)
def test_text_for_those_who_only_read_text(accept, is_text):
    """A client that accepts text and no JSON gets text."""
    _, headers, body = render(errors.MalformedRequest("no"), request_id="r", accept=accept)
    assert dict(headers)[b"content-type"].startswith(b"text/plain") == is_text
    assert b"no" in body and len(body) == int(dict(headers)[b"content-length"])


def test_subclass_of_a_plugin_takes_its_base():
    """A class that a plugin adds has the status of the nearest one in the table."""

    class TooManyRows(QueryRejected):
        pass

    assert status_of(TooManyRows("x", findings=[])) == 400


def test_internal_error_tells_nothing():
    """What nobody foresaw shows the request id only."""
    status, _, body = render_internal(request_id="r9", accept=None)
    assert status == 500 and "r9" in body.decode()
