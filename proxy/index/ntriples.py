"""N-Triples as a server writes them: lines to three tokens, a token to its term. (RDF 1.1 N-Triples, section 7.)

A token stands for its term: a server writes one term in one way in one answer, so tokens can be counted unread, and only the
distinct ones are read. A line or a token that is none is an error, which is how an error text within a 200 shows.
"""

from __future__ import annotations

import re
from typing import Final

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


def read_literal(token: bytes, known: dict[bytes, tuple[str, str | None]]) -> tuple[str, str, str | None]:
    """(lexical form, datatype, language) of a token that begins as a literal; *known* holds the endings read so far.

    Raises:
        NotNTriples
    """
    if b"\\" in token:
        literal = read(token)
        assert isinstance(literal, Literal)
        return literal.lexical, literal.datatype, literal.language
    end = token.rfind(b'"')
    ending = token[end + 1 :]
    what = known.get(ending)
    if what is None or end == 0 or token.find(b'"', 1, end) >= 0:
        literal = read(token)  # new, or no literal after all
        assert isinstance(literal, Literal)
        known[ending] = what = literal.datatype, literal.language
    try:
        return token[1:end].decode("utf-8"), *what
    except UnicodeDecodeError as exc:
        raise NotNTriples(f"not UTF-8: {token[:120]!r}") from exc


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    try:
        return _ESCAPE.sub(lambda m: chr(int(m[1] or m[2], 16)) if m[1] or m[2] else _CHARACTERS[m[3]], text)
    except (KeyError, ValueError, OverflowError) as exc:
        raise NotNTriples(f"a wrong escape: {text[:120]!r}") from exc
