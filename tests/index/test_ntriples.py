"""Tokens of N-Triples: many literals at once are what each is alone, and what is none is an error."""

from __future__ import annotations

import random

import pytest

from proxy.index.ntriples import NotNTriples, read, read_iri, read_literals, require_nodes
from proxy.query.term import Literal

TEXTS = ["", "a", "Zoë", "𝔸 b", r"\"", r"\\", r"\n", r"\u00e9", r"\U0001F600", "x\u2028y", "x\x85y", "a'b", "^^<x>", "@en"]
ENDINGS = ["", "@en", "@EN", "@de-CH", "^^<http://e/d>", r"^^<http://e/\u00e9>", "^^<http://www.w3.org/2001/XMLSchema#string>"]
NONE = [
    '"a\rb"', r'"\uD800"', r'"\U00110000"', '"a"b"', '"a',
    '"a"^^<>x', '"a"^^<http://e/ >', '"a"@', '"a"@1', '"\\q', '"a\\"', '"a"^^"b"',
]


def alone(token: bytes) -> Literal:
    term = read(token)
    assert isinstance(term, Literal)
    return term


def test_many_at_once_are_as_each_alone():
    """With escapes and without, whatever their ending, in any order; separators of other alphabets separate nothing."""
    rng = random.Random(4)
    for _ in range(200):
        tokens = [f'"{rng.choice(TEXTS)}"{rng.choice(ENDINGS)}'.encode() for _ in range(rng.randrange(12))]
        many = read_literals(tokens)
        held = [Literal(t, *many.endings[e]) for t, e in zip(many.texts, many.ending.tolist(), strict=True)]
        assert held == [alone(t) for t in tokens]


@pytest.mark.parametrize("token", NONE)
@pytest.mark.parametrize("others", [[], ['"a"'], ['"a"', '"b"@en']])
def test_what_is_no_literal_is_an_error(token, others):
    """Among others, too; so an error text within a download shows."""
    tokens = [t.encode() for t in (*others, token, *others)]
    with pytest.raises(NotNTriples):
        read_literals(tokens)


def test_bytes_that_are_no_text_are_an_error():
    with pytest.raises(NotNTriples):
        read_literals([b'"a"', b'"\xff"'])


@pytest.mark.parametrize("others", [[], [b"<http://e/a>"]])
def test_nodes_that_pass_can_be_read(others):
    """What no IRI may hold is let through, as stores have it; what cannot be read at all is an error, wherever it stands."""
    for iri in ("http://e/{x}", "http://e/a|b", "http://e/é", 'http://e/"', r"http://e/\u00e9"):
        token = f"<{iri}>".encode()
        require_nodes([*others, token, *others])
        assert read_iri(token) == iri.replace(r"\u00e9", "é")
    for token in (b"<http://e/\xff>", rb"<http://e/\uD800>", b"<http://e/a b>", b"<http://e/a", b"_:", b"\xff", b"_:\xff"):
        with pytest.raises(NotNTriples):
            require_nodes([*others, token, *others])
