"""The service description of the embedded store."""

from __future__ import annotations

import pyoxigraph as ox

from proxy.backends.base import BackendRequest, BackendResponse
from proxy.backends.embedded.formats import RDF_FORMATS
from proxy.backends.embedded.reading import choose_format
from proxy.backends.streaming import BufferedResponse
from proxy.query.formats import GRAPH_FORMATS

_SD = "http://www.w3.org/ns/sparql-service-description#"


def describe_service(request: BackendRequest, base: str | None) -> BackendResponse:
    """SPARQL 1.1 Service Description of the store."""
    accept = next((v.decode("latin-1") for n, v in request.headers if n == b"accept"), None)
    chosen = choose_format(accept, GRAPH_FORMATS)
    node, type_ = ox.BlankNode("service"), ox.NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
    triples = [ox.Triple(node, type_, ox.NamedNode(_SD + "Service"))]
    if base is not None:
        triples.append(ox.Triple(node, ox.NamedNode(_SD + "endpoint"), ox.NamedNode(base)))
    is_update = request.target.partition(b"?")[0].endswith(b"/update")
    language = ox.NamedNode(_SD + ("SPARQL11Update" if is_update else "SPARQL11Query"))
    triples.append(ox.Triple(node, ox.NamedNode(_SD + "supportedLanguage"), language))
    for name in ("JSON", "XML", "CSV", "TSV"):
        iri = ox.NamedNode(f"http://www.w3.org/ns/formats/SPARQL_Results_{name}")
        triples.append(ox.Triple(node, ox.NamedNode(_SD + "resultFormat"), iri))
    body = ox.serialize(triples, format=RDF_FORMATS[chosen.name])
    return BufferedResponse(200, ((b"content-type", chosen.content_type.encode("ascii")),), body or b"")
