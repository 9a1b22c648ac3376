"""N-Triples as a server writes them: lines to three tokens, a token to its term. (RDF 1.1 N-Triples, section 7.)

A token stands for its term: a server writes one term in one way in one answer, so tokens can be counted unread, and only the
distinct ones are read. A line or a token that is none is an error, which is how an error text within a 200 shows.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

import numpy as np
from numpy.typing import NDArray

from proxy.query.term import RDF_LANG_STRING, XSD_STRING, BlankNode, Iri, Literal, RdfTerm

_LINE: Final = re.compile(
    rb'[ \t]*(<[^<>"{}|^`\\\x00-\x20]*(?:\\u[^<> ]*)?>|_:[^ \t<"]+)[ \t]*(<[^ \t>]*>)[ \t]*'
    rb'(<[^ \t>]*>|_:[^ \t<"]+?|"(?:[^"\\\n\r]|\\.)*"(?:\^\^<[^ \t>]*>|@[A-Za-z0-9-]+)?)[ \t]*\.[ \t]*(?:#.*)?\r?'
)
_LITERAL: Final = re.compile(
    r'"((?:[^"\\\n\r]|\\.)*)"(?:\^\^<([^<>"{}|^`\x00-\x20]*)>|@([A-Za-z]+(?:-[A-Za-z0-9]+)*(?:--(?:ltr|rtl))?))?'
)
_IRI: Final = re.compile(r'<([^<>"{}|^`\x00-\x20]*)>')
_BLANK: Final = re.compile(r"_:([^ \t<>\"]+)")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_AT_ONCE: Final = 50_000
"""Literals that are read at a time."""
_CHARACTERS: Final = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


class NotNTriples(ValueError):
    """What came is not N-Triples, or holds what we do not count (triple terms)."""


def split(line: bytes) -> tuple[bytes, bytes, bytes] | None:
    """The three tokens of *line*, however it is spaced; None for a blank line or a comment.

    Raises:
        NotNTriples
    """
    if (found := _LINE.fullmatch(line)) is not None:
        return found[1], found[2], found[3]
    if not line.strip() or line.lstrip().startswith(b"#"):
        return None
    raise NotNTriples(f"not a triple: {line[:120]!r}")


def read(token: bytes) -> RdfTerm:
    """The term that *token* stands for.

    Raises:
        NotNTriples
    """
    try:
        text = token.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise NotNTriples(f"not UTF-8: {token[:120]!r}") from exc
    if (found := _IRI.fullmatch(text)) is not None:
        return Iri(_unescape(found[1]))
    if (found := _LITERAL.fullmatch(text)) is not None:
        lexical, datatype, language = found.groups()
        if language is not None:
            return Literal(_unescape(lexical), RDF_LANG_STRING, language)
        return Literal(_unescape(lexical), XSD_STRING if datatype is None else _unescape(datatype))
    if (found := _BLANK.fullmatch(text)) is not None:
        return BlankNode(found[1])
    raise NotNTriples(f"not a term: {text[:120]!r}")


def read_iri(token: bytes) -> str:
    """The IRI that *token* stands for, which begins and ends as one.

    Raises:
        NotNTriples
    """
    try:
        found = read(token) if b"\\" in token else None
        return found.value if isinstance(found, Iri) else token[1:-1].decode("utf-8")
    except UnicodeDecodeError as exc:
        raise NotNTriples(f"not UTF-8: {token[:120]!r}") from exc


def read_iris(tokens: Sequence[bytes]) -> list[str]:
    """``read_iri`` of each.

    Raises:
        NotNTriples
    """
    joined = b"".join(tokens)
    if joined.isascii() and b"\\" not in joined:
        found = joined[1:-1].decode("ascii").split("><")
        if len(found) == len(tokens):
            return found
    return [read_iri(token) for token in tokens]


def require_nodes(tokens: Sequence[bytes]) -> None:
    """See to it that ``read_iri`` can read each of *tokens* that begins as an IRI, and ``read`` the others.

    Characters that no IRI may have are let through, as stores filled without checks have them.

    Raises:
        NotNTriples
    """
    joined = b"\n".join([*tokens, b""])
    if joined.isascii() and joined.count(b">\n") == len(tokens) and b" " not in joined and b"\\" not in joined:
        return
    for token in tokens:
        if token[-1:] != b">" or b" " in token:
            read(token)  # a blank node, or something that is no term
        elif not token.isascii() or b"\\" in token:
            read_iri(token)


@dataclass(frozen=True, slots=True)
class Literals:
    """Many literals: *texts* are their lexical forms, *ending* (literals,) says which of *endings* each has.

    endings: (datatype, language as written).
    """

    texts: list[str]
    ending: NDArray[np.int64]
    endings: list[tuple[str, str | None]]


def read_literals(tokens: Sequence[bytes]) -> Literals:
    """The literals that *tokens* stand for; each begins with a quotation mark.

    Only what cannot be cut at its last quotation mark is read for itself: escapes, and what is no literal after all.

    Raises:
        NotNTriples
    """
    texts: list[str] = []
    ending: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    endings: dict[tuple[str, str | None], int] = {}
    for at in range(0, len(tokens), _AT_ONCE):
        more, number = _read_some(tokens[at : at + _AT_ONCE], endings)
        texts += more
        ending.append(number)
    return Literals(texts, np.concatenate(ending), list(endings))


def _read_some(tokens: Sequence[bytes], endings: dict[tuple[str, str | None], int]) -> tuple[list[str], NDArray[np.int64]]:
    """Texts of the literals *tokens*, and the number of the ending of each in *endings*, which learns."""
    if any(b"\r" in token for token in tokens):
        raise NotNTriples("a literal with a line end in it")
    odd = _odd(tokens)
    plain = list(tokens)
    for i in odd:
        plain[i] = b'""'
    plain.append(b"")
    try:
        pieces = b"\n".join(plain).decode("utf-8").split('"')  # no token holds a line end
    except UnicodeDecodeError as exc:
        raise NotNTriples("a literal that is not UTF-8") from exc
    texts, spelt = pieces[1::2], defaultdict[str, int](count().__next__)
    ending = np.fromiter(map(spelt.__getitem__, pieces[2::2]), dtype=np.int64, count=len(tokens))

    def number_of(token: bytes) -> tuple[str, int]:
        literal = read(token)
        if not isinstance(literal, Literal):
            raise NotNTriples(f"not a literal: {token[:120]!r}")
        return literal.lexical, endings.setdefault((literal.datatype, literal.language), len(endings))

    ending = np.array([number_of(f'""{after[:-1]}'.encode())[1] for after in spelt], dtype=np.int64)[ending]
    for i in odd:
        texts[i], ending[i] = number_of(tokens[i])
    return texts, ending


def _odd(tokens: Sequence[bytes]) -> list[int]:
    """Positions of the *tokens* that have an escape, or not exactly two quotation marks."""
    letters = np.frombuffer(b"\n".join([*tokens, b""]), dtype=np.uint8)
    ends = np.flatnonzero(letters == ord("\n"))
    quotes = np.diff(np.searchsorted(np.flatnonzero(letters == ord('"')), ends), prepend=0)
    escapes = np.diff(np.searchsorted(np.flatnonzero(letters == ord("\\")), ends), prepend=0)
    return np.flatnonzero((quotes != 2) | (escapes > 0)).tolist()


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    try:
        found = _ESCAPE.sub(lambda m: chr(int(m[1] or m[2], 16)) if m[1] or m[2] else _CHARACTERS[m[3]], text)
        found.encode("utf-8")  # half a surrogate pair is no character
        return found
    except (KeyError, ValueError, OverflowError) as exc:
        raise NotNTriples(f"a wrong escape: {text[:120]!r}") from exc
