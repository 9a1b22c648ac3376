"""RDF terms as a person reads them, and as SPARQL JSON has them."""

from __future__ import annotations

from typing import Any


def as_text(term: Any) -> str:
    from proxy.query.term import BlankNode, Iri, Literal

    match term:
        case Iri():
            return str(term)
        case Literal():
            return str(term.lexical)
        case BlankNode():
            return f"_:{term.label}"
    return f"<< {as_text(term.subject)} {as_text(term.predicate)} {as_text(term.object)} >>"


def as_json(term: Any) -> dict[str, Any]:
    """A term as in SPARQL 1.1 Query Results JSON Format, section 3.2.2."""
    from proxy.query.term import XSD_STRING, BlankNode, Iri, Literal

    match term:
        case Iri():
            return {"type": "uri", "value": term.value}
        case BlankNode():
            return {"type": "bnode", "value": term.label}
        case Literal(language=str() as language):
            return {"type": "literal", "value": term.lexical, "xml:lang": language}
        case Literal():
            datatype = {} if term.datatype == XSD_STRING else {"datatype": term.datatype}
            return {"type": "literal", "value": term.lexical, **datatype}
    parts = {"subject": term.subject, "predicate": term.predicate, "object": term.object}
    return {"type": "triple", "value": {name: as_json(part) for name, part in parts.items()}}
