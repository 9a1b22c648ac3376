"""Data that every server under test holds."""

from __future__ import annotations

TURTLE = """
@prefix ex: <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
ex:Novel rdfs:subClassOf ex:Book .
ex:dune a ex:Novel ; rdfs:label "Dune"@en , "Der Wüstenplanet"@de ; ex:pages 412 ; ex:writer ex:herbert .
ex:emma a ex:Novel ; rdfs:label "Emma"@en ; ex:pages 474 .
ex:herbert owl:sameAs ex:frankHerbert .
"""
TRIG = "<http://example.org/loans> { <http://example.org/dune> <http://example.org/lentTo> <http://example.org/ada> }"
DATA = {"text/turtle": TURTLE, "application/trig": TRIG}
