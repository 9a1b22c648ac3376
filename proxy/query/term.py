"""RDF terms, as values (RDF 1.1 Concepts, section 3).

Plain frozen classes: hashable, comparable, without I/O. They are the vocabulary that queries, results and the index share,
so that no parser's and no store's own classes travel inside.
"""

from __future__ import annotations

from dataclasses import dataclass

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
RDF_TYPE = RDF + "type"
RDF_LANG_STRING = RDF + "langString"
RDFS_LABEL = RDFS + "label"
XSD_STRING = XSD + "string"


@dataclass(frozen=True, slots=True)
class Iri:
    """An absolute IRI, without angle brackets and with no escapes left."""

    value: str

    def __hash__(self) -> int:  # of the text alone: half the cost of what is generated, and kept by the text
        return hash(self.value)

    def __str__(self) -> str:
        return f"<{self.value}>"


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal. *language* is set exactly when *datatype* is rdf:langString."""

    lexical: str
    datatype: str = XSD_STRING
    language: str | None = None


@dataclass(frozen=True, slots=True)
class BlankNode:
    """A blank node *in data or in results*; in a query it acts as a variable and is read as one."""

    label: str


@dataclass(frozen=True, slots=True)
class Variable:
    """A query variable, without the question mark. Blank nodes of a query become variables named ``_:label``."""

    name: str

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def is_blank(self) -> bool:
        return self.name.startswith("_:")

    def __str__(self) -> str:
        return self.name if self.is_blank else f"?{self.name}"


@dataclass(frozen=True, slots=True)
class TripleTerm:
    """An RDF 1.2 triple term: carried, never looked into by proofs."""

    subject: RdfTerm
    predicate: RdfTerm
    object: RdfTerm


RdfTerm = Iri | Literal | BlankNode | TripleTerm
