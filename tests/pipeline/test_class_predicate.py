"""Which predicate says what a node is, on graphs that do and do not say it by rdf:type."""

from __future__ import annotations

import asyncio
import gzip
import os
from pathlib import Path

import pyoxigraph as ox
import pytest

from proxy.backends.embedded import EmbeddedBackend
from proxy.config import IndexSettings
from proxy.demo.coast import graph, ontology
from proxy.pipeline.distil import Distilled, distil
from proxy.query.term import RDF_TYPE

PREFIXES = """
@prefix : <http://zoo.example/> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
"""


def animals(by: str) -> str:
    """Ten animals and five keepers, which *by* tells apart; all live in one of two countries."""
    lines = [f':a{i} {by} :Q1 ; :country :c{i % 2} ; :legs {i} ; :keeper :k{i % 5} .' for i in range(10)]
    lines += [f':k{i} {by} :Q2 ; :country :c{i % 2} ; :salary {i} ; :born {1960 + i} .' for i in range(5)]
    return PREFIXES + "\n".join(lines)


def read(turtle: str, method: str = "ask", **settings: object) -> Distilled:
    store = ox.Store()
    store.load(turtle.encode(), ox.RdfFormat.TURTLE)
    return asyncio.run(distil(EmbeddedBackend(store), IndexSettings(**settings), method=method))  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["ask", "download"])
def test_what_tells_nodes_apart_takes_the_place_of_rdf_type(method):
    """A predicate by any name, whose objects say which properties a node has; a country does not."""
    index = read(animals(":s7"), method).index
    assert index.class_predicate == "http://zoo.example/s7"
    assert index.class_instances == {"http://zoo.example/Q1": 10, "http://zoo.example/Q2": 5}


def test_declared_classes_are_evidence_where_all_nodes_are_alike():
    """One class only: nothing to tell apart, but its object is declared."""
    turtle = PREFIXES + ":Q1 a owl:Class .\n" + "\n".join(f":a{i} :is :Q1 ; :in :c{i % 2} ; :legs {i} ." for i in range(8))
    assert read(turtle).index.class_predicate == "http://zoo.example/is"


def test_rdf_type_of_the_vocabulary_alone_is_no_use_of_it():
    """Declarations of classes and properties type no data."""
    turtle = animals(":s7") + "\n:Q1 a owl:Class . :Q2 a owl:Class . :legs a owl:DatatypeProperty ."
    distilled = read(turtle)
    assert distilled.index.class_predicate == "http://zoo.example/s7"
    assert distilled.summary()["class_predicate"] == "http://zoo.example/s7"
    assert "described as classes" in distilled.summary()["class_predicate_reason"]


def test_rdf_type_stays_where_it_is_used():
    """Even if another predicate would do as well."""
    assert read(animals(":s7") + "\n" + animals("a").replace(PREFIXES, "")).index.class_predicate == RDF_TYPE
    assert read(ontology() + graph(), values_per_property=0).index.class_predicate == RDF_TYPE


def test_rdf_type_stays_where_nothing_behaves_like_it():
    """Neighbours, countries and literals of a graph without classes are no classes."""
    lines = [f":n{i} :next :n{i + 1} ; :country :c{i % 3} ; :value {i % 2} ." for i in range(12)]
    assert read(PREFIXES + "\n".join(lines)).index.class_predicate == RDF_TYPE
    assert read(PREFIXES).index.class_predicate == RDF_TYPE


def test_what_is_configured_is_not_doubted():
    """An IRI in the configuration is taken as it is."""
    distilled = read(animals(":s7"), class_predicate="http://zoo.example/country")
    assert distilled.index.class_predicate == "http://zoo.example/country"
    assert distilled.summary()["class_predicate_reason"] == "as configured"


@pytest.mark.skipif("SPARLANCE_BENCH" not in os.environ, reason="needs the folder of graphs in SPARLANCE_BENCH")
def test_graphs_of_a_folder():
    """Graphs with P31 and without rdf:type, of the folder: P31 is found; in every other one rdf:type stays."""
    checked = 0
    for path in sorted(Path(os.environ["SPARLANCE_BENCH"]).glob("*/graph.nt.gz")):
        data = gzip.open(path).read()
        if len(data) > 2_000_000:
            continue
        store = ox.Store()
        store.load(data, ox.RdfFormat.N_TRIPLES)
        if (path.parent / "ontology.ttl").exists():
            store.load((path.parent / "ontology.ttl").read_bytes(), ox.RdfFormat.TURTLE)
        index = asyncio.run(distil(EmbeddedBackend(store), IndexSettings(values_per_property=0), method="download")).index
        uses_type = RDF_TYPE.encode() in data
        assert (index.class_predicate == RDF_TYPE) == uses_type, path.parent.name
        assert uses_type or index.class_predicate.endswith("P31"), path.parent.name
        checked += 1
    assert checked
