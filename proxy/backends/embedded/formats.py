"""Our names of formats as pyoxigraph has them."""

from __future__ import annotations

import pyoxigraph as ox

SOLUTION_WRITERS = {
    "json": ox.QueryResultsFormat.JSON,
    "xml": ox.QueryResultsFormat.XML,
    "csv": ox.QueryResultsFormat.CSV,
    "tsv": ox.QueryResultsFormat.TSV,
}
RDF_FORMATS = {
    "n-quads": ox.RdfFormat.N_QUADS,
    "turtle": ox.RdfFormat.TURTLE,
    "n-triples": ox.RdfFormat.N_TRIPLES,
    "trig": ox.RdfFormat.TRIG,
    "rdf-xml": ox.RdfFormat.RDF_XML,
    "json-ld": ox.RdfFormat.JSON_LD,
    "n3": ox.RdfFormat.N3,
}
QUADS = ("n-quads", "trig", "json-ld")
