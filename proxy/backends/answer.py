"""SPARQL 1.1 Query Results JSON Format: a complete document → solutions or a boolean (for our own queries only)."""

from __future__ import annotations

from typing import Any

import msgspec

from proxy.query.term import RDF_LANG_STRING, XSD_STRING, BlankNode, Iri, Literal, RdfTerm, TripleTerm


class _Term(msgspec.Struct, gc=False):
    type: str
    value: Any
    datatype: str | None = None
    language: str | None = msgspec.field(default=None, name="xml:lang")


class _Head(msgspec.Struct):
    vars: list[str] = []


class _Results(msgspec.Struct):
    bindings: list[dict[str, _Term]]


class _Document(msgspec.Struct):
    head: _Head
    results: _Results | None = None
    boolean: bool | None = None


_decode = msgspec.json.Decoder(_Document).decode


class NotADocument(ValueError):
    """The bytes are not one complete result document, or not of the kind asked for."""


def read_solutions(data: bytes) -> tuple[tuple[str, ...], list[tuple[RdfTerm | None, ...]]]:
    """Read a SELECT answer: variables and rows.

    Raises:
        NotADocument: also when anything but blanks follows the document, as an error text may (docs/backends.md).
    """
    document = _read(data)
    if document.results is None:
        raise NotADocument("a document without results")
    variables = tuple(document.head.vars)
    try:
        rows = [
            tuple(None if (term := binding.get(name)) is None else _term(term) for name in variables)
            for binding in document.results.bindings
        ]
    except msgspec.ValidationError as exc:
        raise NotADocument(str(exc)) from exc
    return variables, rows


def read_boolean(data: bytes) -> bool:
    """Read an ASK answer. Raises as ``read_solutions``."""
    document = _read(data)
    if document.boolean is None:
        raise NotADocument("a document without boolean")
    return document.boolean


def _read(data: bytes) -> _Document:
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:  # ValidationError is a DecodeError
        raise NotADocument(str(exc)) from exc


def _term(term: _Term) -> RdfTerm:
    match term.type:
        case "uri":
            return Iri(term.value)
        case "literal" | "typed-literal":
            if term.language is not None:
                return Literal(term.value, RDF_LANG_STRING, term.language)
            return Literal(term.value, term.datatype or XSD_STRING)
        case "bnode":
            return BlankNode(term.value)
        case "triple":
            parts = msgspec.convert(term.value, dict[str, _Term])
            try:
                return TripleTerm(_term(parts["subject"]), _term(parts["predicate"]), _term(parts["object"]))
            except KeyError as exc:
                raise NotADocument(f"a triple term without {exc}") from exc
    raise NotADocument(f"a term of type {term.type!r}")
