"""RDF terms of pyoxigraph as ours."""

from __future__ import annotations

from typing import Any

import pyoxigraph as ox

from proxy.query.term import RDF_LANG_STRING, XSD_STRING, BlankNode, Iri, Literal, RdfTerm, TripleTerm


def term_of(term: Any) -> RdfTerm:
    match term:
        case ox.NamedNode():
            return Iri(term.value)
        case ox.Literal():
            if term.language is not None:
                return Literal(term.value, RDF_LANG_STRING, term.language)
            return Literal(term.value, term.datatype.value if term.datatype is not None else XSD_STRING)
        case ox.BlankNode():
            return BlankNode(term.value)
        case ox.Triple():
            return TripleTerm(term_of(term.subject), term_of(term.predicate), term_of(term.object))
    raise AssertionError(f"not an RDF term: {term!r}")
