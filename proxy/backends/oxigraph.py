"""Oxigraph, as its server 0.5 behaves (docs/backends.md). A query that runs cannot be stopped."""

from __future__ import annotations

from proxy.backends.base import PathKind
from proxy.backends.product import Product

OXIGRAPH = Product(
    kind="oxigraph",
    query_path="/query",
    update_path="/update",
    paths={
        "/query": PathKind.QUERY,
        "/update": PathKind.UPDATE,
        "/store": PathKind.GRAPH_STORE,
        "/store/*": PathKind.GRAPH_STORE,
    },
    # "The headers size must fit in 8kb": request line and fields together
    head_limit_bytes=7_900,
    head_queries=False,  # 404, with a body
    cancelled=(b"The SPARQL operation has been cancelled",),
)
