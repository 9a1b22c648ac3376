"""IRIs that databases answer without stored triples: text search, geometry, path search, internals.

A triple pattern with one of these is not checkable: it gives no condition. The list is facts about GraphDB, QLever,
RDF4J and Jena; an IRI counts as magic when it starts with one of the prefixes.
"""

from __future__ import annotations

from proxy.query.term import RDF, Iri

_PREFIXES = (
    # QLever
    "http://qlever.cs.uni-freiburg.de/",
    "https://qlever.cs.uni-freiburg.de/",
    "max-distance-in-meters:",
    "nearest-neighbors:",
    # GraphDB and its plugins; all of it, because plugins come with their own namespaces
    "http://www.ontotext.com/",
    "http://www.openrdf.org/schema/sesame#",
    "http://rdf.useekm.com/ext#",
    # GeoSPARQL's topological relations are computed by query rewriting
    "http://www.opengis.net/ont/geosparql#sf",
    "http://www.opengis.net/ont/geosparql#eh",
    "http://www.opengis.net/ont/geosparql#rcc8",
    # RDF 1.2; stores of RDF-star answer it without storing it
    RDF + "reifies",
    # property functions of SPIN and Jena
    "http://spinrdf.org/spif#",
    "http://jena.apache.org/",
    "http://jena.hpl.hp.com/ARQ/",
    "java:",
    "repository:",
    # Virtuoso and Blazegraph, behind the generic backend
    "http://www.openlinksw.com/schemas/bif#",
    "nodeID:",  # a blank node by its label
    "bif:",
    "http://www.bigdata.com/rdf",
)

LIST_PROPERTIES = frozenset((RDF + "first", RDF + "rest"))
"""Where a query holds a magic IRI, a collection may be its argument list and stand for no stored triples."""


def is_magic(iri: Iri) -> bool:
    return iri.value.startswith(_PREFIXES)
