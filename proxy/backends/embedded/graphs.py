"""Graph store operations that write (SPARQL 1.1 Graph Store HTTP Protocol), on a pyoxigraph store."""

from __future__ import annotations

from typing import Any

import pyoxigraph as ox

from proxy.backends.base import BackendResponse
from proxy.backends.embedded.formats import QUADS, RDF_FORMATS
from proxy.backends.embedded.reading import Refusal
from proxy.backends.streaming import BufferedResponse
from proxy.query.formats import GRAPH_FORMATS


def write_graph(store: ox.Store, method: str, graph: Any, body: bytes, content_type: str) -> BackendResponse:
    """Carry out PUT, POST or DELETE of *graph*; None: of the whole dataset. Blocks.

    Raises:
        Refusal: an answer that the client is to see.
    """
    is_new = isinstance(graph, ox.NamedNode) and not store.contains_named_graph(graph)
    if method == "DELETE":
        if is_new:
            raise Refusal(404, f"The graph {graph} does not exist")
        if graph is None:
            store.clear()
        elif isinstance(graph, ox.NamedNode):
            store.remove_graph(graph)
        else:
            store.clear_graph(graph)
        return BufferedResponse(204, (), b"")
    media = content_type.partition(";")[0].strip().lower()
    name = next((f.name for f in GRAPH_FORMATS if media in f.accepts), None)
    if name is None or (graph is None and name not in QUADS):
        raise Refusal(415, f"No supported content Content-Type given: {media or 'none'}")
    fresh = ox.Store()  # parsed before anything is changed
    try:
        fresh.load(body, RDF_FORMATS[name], base_iri=None if graph is None or not is_new else graph.value, to_graph=graph)
    except (SyntaxError, ValueError) as error:
        raise Refusal(400, str(error)) from error
    if method == "PUT":
        if graph is None:
            store.clear()
        else:
            store.clear_graph(graph)
    store.extend(fresh)
    if isinstance(graph, ox.NamedNode):
        store.add_graph(graph)
    return BufferedResponse(201 if is_new else 204, (), b"")
