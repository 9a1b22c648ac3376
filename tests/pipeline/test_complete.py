"""Which documents provably have their end."""

from __future__ import annotations

import gzip
import zlib

import pytest

from proxy.pipeline.complete import is_complete

JSON = b'{"head":{"vars":["s"]},"results":{"bindings":[{"s":{"type":"literal","value":"}]}"}}]}}'
XML = b'<?xml version="1.0"?><sparql xmlns="http://www.w3.org/2005/sparql-results#"><head/><boolean>true</boolean></sparql>'
RDF = b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"></rdf:RDF>'
ERROR = b"\n!!!! An error has occurred while the result was written: out of time in { ?s ?p ?o }"
RESULTS_JSON, RESULTS_XML = b"application/sparql-results+json", b"application/sparql-results+xml"


def check(body, media_type, *, coding=b"", length=None):
    return is_complete(body, media_type=media_type, coding=coding, content_length=length)


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (JSON, RESULTS_JSON),
        (JSON + b"\n", b"application/json"),
        (b'[{"@id":"http://example.org/"}]', b"application/ld+json"),
        (XML, RESULTS_XML),
        (XML + b"\r\n", b"application/xml"),
        (RDF, b"application/rdf+xml"),
    ],
    ids=["json", "json, line end", "json-ld", "xml", "xml, line end", "rdf/xml"],
)
def test_a_closed_document_is_complete(body, media_type):
    """JSON and XML show that they end, with or without an announced length."""
    assert check(body, media_type)
    assert check(body, media_type, length=len(body))


@pytest.mark.parametrize("end", range(1, len(JSON)))
def test_no_part_of_a_json_document_is_complete(end):
    """Cut anywhere, with or without an error text behind, also one that ends in a brace."""
    assert not check(JSON[:end], RESULTS_JSON)
    assert not check(JSON[:end] + ERROR, RESULTS_JSON)


@pytest.mark.parametrize("body", [JSON + ERROR, JSON + JSON, b"", b"true", b'"x"', b"[" * 100_000], ids=repr)
def test_json_is_one_document_and_nothing_else(body):
    """Text behind the document, a second document, a bare value, and a depth that nobody writes are refused."""
    assert not check(body, RESULTS_JSON)


@pytest.mark.parametrize(
    "body", [XML[:-1], XML[:60], XML + ERROR, XML[:90] + ERROR, b"", b"</sparql>", XML[:90] + ERROR + XML], ids=repr
)
def test_xml_ends_with_its_root(body):
    """A document that is cut, or followed by a text, or by a second one, is refused."""
    assert not check(body, RESULTS_XML)


@pytest.mark.parametrize("media_type", [b"text/csv", b"text/tab-separated-values", b"application/n-triples", b"text/turtle"])
def test_lines_need_an_announced_length(media_type):
    """Nothing in CSV, TSV, N-Triples or Turtle shows the end; a matching Content-Length does."""
    assert not check(b"s\r\na\r\n", media_type)
    assert check(b"s\r\na\r\n", media_type, length=6)
    assert not check(b"s\r\na\r\n", media_type, length=7)


def test_a_wrong_length_is_refused_whatever_the_document():
    """A closed document that is not as long as announced is not trusted."""
    assert not check(JSON, RESULTS_JSON, length=len(JSON) + 1)


@pytest.mark.parametrize(("coding", "compress"), [(b"gzip", gzip.compress), (b"deflate", zlib.compress)], ids=["gz", "zlib"])
def test_compressed_documents_are_looked_into(coding, compress):
    """The document inside must close, and the compressed data too."""
    assert check(compress(JSON), RESULTS_JSON, coding=coding)
    assert not check(compress(JSON[:-1]), RESULTS_JSON, coding=coding)
    assert not check(compress(JSON)[:-6], RESULTS_JSON, coding=coding)
    assert not check(compress(JSON) + b"x", RESULTS_JSON, coding=coding)
    assert not check(JSON, RESULTS_JSON, coding=coding)


def test_codings_that_cannot_be_read_prove_nothing():
    """What cannot be looked into is not complete."""
    assert not check(JSON, RESULTS_JSON, coding=b"br", length=len(JSON))


def test_a_bomb_is_not_unpacked():
    """A body that grows beyond all reason is refused without being unpacked."""
    assert not check(gzip.compress(b'{"x":"' + b"a" * 10_000_000 + b'"}'), RESULTS_JSON, coding=b"gzip")
