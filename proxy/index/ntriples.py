"""N-Triples as a server writes them: lines to three tokens, a token to its term. (RDF 1.1 N-Triples, section 7.)

A token stands for its term: a server writes one term in one way in one answer, so tokens can be counted unread, and only the
distinct ones are read. A line or a token that is none is an error, which is how an error text within a 200 shows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
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
    found = read(token) if b"\\" in token else None
    return found.value if isinstance(found, Iri) else token[1:-1].decode("utf-8")


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

    Raises:
        NotNTriples
    """
    texts: list[bytes] = []
    ending: list[int] = []
    known: dict[bytes, int] = {}
    endings: dict[tuple[str, str | None], int] = {}
    odd: dict[int, str] = {}
    for token in tokens:
        text, _, rest = token.rpartition(b'"')
        number = known.get(rest)
        # Escapes, an ending not met before, or no literal after all: more than the first quotation mark before the last one.
        if number is None or b"\\" in text or text.rfind(b'"') != 0:
            literal = read(token)
            assert isinstance(literal, Literal)
            number = endings.setdefault((literal.datatype, literal.language), len(endings))
            odd[len(texts)] = literal.lexical
            if b"\\" not in token:
                known[rest] = number
            text = b""
        texts.append(text[1:])
        ending.append(number)
    try:
        read_texts = b"\n".join(texts).decode("utf-8").split("\n")  # no token holds a line end
    except UnicodeDecodeError as exc:
        raise NotNTriples("a literal that is not UTF-8") from exc
    for i, lexical in odd.items():
        read_texts[i] = lexical
    return Literals(read_texts if tokens else [], np.array(ending, dtype=np.int64), list(endings))


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    try:
        return _ESCAPE.sub(lambda m: chr(int(m[1] or m[2], 16)) if m[1] or m[2] else _CHARACTERS[m[3]], text)
    except (KeyError, ValueError, OverflowError) as exc:
        raise NotNTriples(f"a wrong escape: {text[:120]!r}") from exc
