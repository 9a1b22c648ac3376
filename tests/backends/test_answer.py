"""Our own answers: complete or refused."""

import pytest

from proxy.backends.answer import NotADocument, read_boolean, read_solutions
from proxy.query.term import BlankNode, Iri, Literal, TripleTerm

HEAD = b'{"head":{"vars":["a","b"]},"results":{"bindings":['


def test_terms():
    """Every kind of term, and unbound variables."""
    data = HEAD + (
        b'{"a":{"type":"uri","value":"http://e"},"b":{"type":"literal","value":"x","xml:lang":"en"}},'
        b'{"a":{"type":"bnode","value":"b0"},"b":{"type":"literal","value":"1","datatype":"http://d"}},'
        b'{"b":{"type":"triple","value":{"subject":{"type":"uri","value":"s"},"predicate":{"type":"uri","value":"p"},'
        b'"object":{"type":"typed-literal","value":"o","datatype":"http://d"}}}}]}}'
    )
    variables, rows = read_solutions(data)
    language = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
    assert variables == ("a", "b")
    assert rows == [
        (Iri("http://e"), Literal("x", language, "en")),
        (BlankNode("b0"), Literal("1", "http://d")),
        (None, TripleTerm(Iri("s"), Iri("p"), Literal("o", "http://d"))),
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HEAD,
        HEAD + b"The SPARQL operation has been cancelled",
        HEAD + b"]}}Connection refused",
        HEAD + b'{"a":{"type":"uri"}}]}}',
        HEAD + b'{"a":{"type":"odd","value":"x"}}]}}',
        HEAD + b'{"a":{"type":"triple","value":{"subject":{"type":"uri","value":"s"}}}}]}}',
        b'{"head":{},"boolean":true}',
        HEAD + b'{"a":{"type":"uri","value":"\xff"}}]}}',
    ],
)
def test_incomplete(data):
    """A document that does not close, or has something behind it, is none."""
    with pytest.raises(NotADocument):
        read_solutions(data)


def test_boolean():
    """ASK answers; nothing else is one."""
    assert read_boolean(b'{"head":{},"boolean":false} \n') is False
    with pytest.raises(NotADocument):
        read_boolean(HEAD + b"]}}")
    with pytest.raises(NotADocument):
        read_boolean(b'{"head":{},"boolean":true}oops')
