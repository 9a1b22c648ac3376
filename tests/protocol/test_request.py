"""Requests → operations: the protocol's forms, and what is refused."""

import gzip
import random
import zlib
from urllib.parse import parse_qsl

import pytest

from proxy.errors import BodyTooLarge, MalformedRequest, UnsupportedMediaType
from proxy.protocol.request import (
    FORM,
    PARAMETER_LIMIT,
    SPARQL_QUERY,
    SPARQL_UPDATE,
    read_operation,
    read_parameters,
    trim_names,
    unpack,
)
from proxy.query.operation import OperationKind, Question, SparqlOperation


def read(method="GET", query=b"", content_type=None, body=b"", expected=None):
    return read_operation(method=method, query_string=query, content_type=content_type, body=body, expected=expected)


FORMS = {
    "GET": ("GET", b"query=ASK%7B%7D", None, b"", OperationKind.QUERY),
    "HEAD": ("HEAD", b"query=ASK%7B%7D", None, b"", OperationKind.QUERY),
    "form": ("POST", b"", FORM, b"query=ASK%7B%7D", OperationKind.QUERY),
    "form with charset": ("POST", b"", FORM + "; charset=UTF-8", b"query=ASK%7B%7D", OperationKind.QUERY),
    "query in the URL of a POST": ("POST", b"query=ASK%7B%7D", FORM, b"x=1", OperationKind.QUERY),
    "direct": ("POST", b"", 'application/sparql-query;charset="utf-8"', b"ASK{}", OperationKind.QUERY),
    "QUERY method": ("QUERY", b"", SPARQL_QUERY, b"ASK{}", OperationKind.QUERY),
    "blanks in the name": ("GET", b"+query%20=ASK%7B%7D", None, b"", OperationKind.QUERY),
    "update form": ("POST", b"", FORM, b"update=ASK%7B%7D", OperationKind.UPDATE),
    "update direct": ("POST", b"", SPARQL_UPDATE, b"ASK{}", OperationKind.UPDATE),
}


@pytest.mark.parametrize(("method", "query", "content_type", "body", "kind"), FORMS.values(), ids=FORMS)
def test_forms(method, query, content_type, body, kind):
    """Every form of the protocol gives the same text."""
    operation = read(method, query, content_type, body)
    assert isinstance(operation, SparqlOperation)
    assert (operation.kind, operation.text) == (kind, "ASK{}")


REFUSED = {
    "query and nl": ("GET", b"query=ASK%7B%7D&nl=x", None, b"", None),
    "query and update": ("POST", b"", FORM, b"query=a&update=b", None),
    "query twice": ("GET", b"query=a&query=a", None, b"", None),
    "query in URL and form": ("POST", b"query=a", FORM, b"query=a", None),
    "query in URL and body": ("POST", b"query=a", SPARQL_QUERY, b"a", None),
    "query hidden behind a blank": ("GET", b"query=a&query%09=b", None, b"", None),
    "update by GET": ("GET", b"update=x", None, b"", None),
    "update by QUERY": ("QUERY", b"", FORM, b"update=x", None),
    "update on the query path": ("POST", b"", FORM, b"update=x", OperationKind.QUERY),
    "query on the update path": ("POST", b"", FORM, b"query=x", OperationKind.UPDATE),
    "nothing in a form": ("POST", b"", FORM, b"x=1", None),
    "empty nl": ("GET", b"nl=+", None, b"", None),
    "bad UTF-8 in a parameter": ("GET", b"query=%ff", None, b"", None),
    "bad UTF-8 in the body": ("POST", b"", SPARQL_QUERY, b"\xff", None),
}


@pytest.mark.parametrize(("method", "query", "content_type", "body", "expected"), REFUSED.values(), ids=REFUSED)
def test_malformed(method, query, content_type, body, expected):
    """What breaks the protocol is MalformedRequest."""
    with pytest.raises(MalformedRequest):
        read(method, query, content_type, body, expected)


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/json", "application/sparql-query; charset=latin1"])
def test_other_media_types(content_type):
    """A body of another type or charset is 415."""
    with pytest.raises(UnsupportedMediaType):
        read("POST", b"", content_type, b"ASK{}")


def test_parameters_keep_order_and_repeats():
    """Graphs go to the dataset description, everything unknown stays, in order."""
    query = b"x=1&default-graph-uri=http://a&timeout=3&query=ASK%7B%7D&named-graph-uri+=http://n&x=2&default-graph-uri=http://b"
    operation = read(query=query)
    assert operation.dataset.default_graphs == ("http://a", "http://b")
    assert operation.dataset.named_graphs == ("http://n",)
    assert operation.parameters == (("x", "1"), ("timeout", "3"), ("x", "2"))


def test_update_takes_using_graphs():
    """An update's dataset is that of using-graph-uri and using-named-graph-uri."""
    operation = read("POST", b"using-graph-uri=http://a&using-named-graph-uri=http://n", SPARQL_UPDATE, b"x")
    assert (operation.dataset.default_graphs, operation.dataset.named_graphs) == (("http://a",), ("http://n",))


def test_question():
    """nl= is a question, with its language."""
    question = read(query="nl=Wer+führt?&lang=de&x=1".encode())
    assert question == Question("Wer führt?", "de", parameters=(("x", "1"),))


def test_no_operation():
    """A GET that names none asks for the service description."""
    assert read(query=b"x=1") is None


@pytest.mark.parametrize(
    ("raw", "trimmed"),
    [
        (b"query=a+b&x=%20", b"query=a+b&x=%20"),
        (b"query+=a&+x%20=1&y", b"query=a&x=1&y"),
        (b"%20query=%41", b"query=%41"),
        (b"a=1&%09query%0a=x", b"a=1&query=x"),
        (b"%71uery=x&a%2Bb=1", b"%71uery=x&a%2Bb=1"),
    ],
)
def test_trim_names(raw, trimmed):
    """Only blanks around names go; every other byte stays."""
    assert trim_names(raw) == trimmed


def test_unpack():
    """gzip and deflate are undone within the limit; what cannot be judged is refused."""
    assert unpack(gzip.compress(b"ASK{}"), "gzip", limit_bytes=10) == b"ASK{}"
    assert unpack(zlib.compress(b"ASK{}"), "Deflate", limit_bytes=10) == b"ASK{}"
    with pytest.raises(BodyTooLarge):
        unpack(gzip.compress(b"x" * 1_000_000), "gzip", limit_bytes=1000)
    with pytest.raises(UnsupportedMediaType):
        unpack(b"", "br", limit_bytes=10)
    for broken in (b"no", gzip.compress(b"ASK{}")[:-4], gzip.compress(b"ASK{}") + gzip.compress(b"INSERT")):
        with pytest.raises(MalformedRequest):
            unpack(broken, "gzip", limit_bytes=100)


PARTS = [
    b"%", b"%41", b"%C3%A9", b"%C3", b"%ff", b"%00", b"%0D%0A", b"%3d", b"%26", b"%2", b"%zz", b"=", b"=41", b"=\n", b"&", b"+",
    b"a", b"query=", b" ", b"\r\n", b"\t", b"_", b"\xc3\xa9", b"\xff", b"  \n", b"\0", b";",
]  # fmt: skip


def test_parameters_are_those_of_the_standard_library():
    """However they are escaped; what cannot be read is refused by both."""
    read = 0
    for seed in range(5000):
        rng = random.Random(seed)
        encoded = b"".join(rng.choices(PARTS, k=rng.randint(0, 9)))
        try:
            pairs = parse_qsl(encoded.decode("utf-8"), keep_blank_values=True, errors="strict", separator="&")
        except UnicodeDecodeError:
            with pytest.raises(MalformedRequest, match="is not UTF-8"):
                read_parameters(encoded, "the form")
            continue
        assert read_parameters(encoded, "the form") == [(name.strip(), value) for name, value in pairs], encoded
        read += 1
    assert 1000 < read < 5000


def test_as_many_parameters_as_there_may_be():
    """One more is refused, whatever is in them."""
    many = b"&" * (PARAMETER_LIMIT - 1)
    assert read_parameters(b"a=%41" + many, "the form") == [("a", "A")]
    with pytest.raises(MalformedRequest):
        read_parameters(b"a=%41&" + many, "the form")
