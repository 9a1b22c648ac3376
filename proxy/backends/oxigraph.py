"""Oxigraph, as its server 0.5 behaves (docs/backends.md)."""

from __future__ import annotations

from proxy.backends.remote import Product
from proxy.query.operation import OperationKind

OXIGRAPH = Product(
    kind="oxigraph",
    query_path="/query",
    update_path="/update",
    paths={
        "/query": OperationKind.QUERY,
        "/update": OperationKind.UPDATE,
        "/store": OperationKind.GRAPH_STORE,
        "/store/*": OperationKind.GRAPH_STORE,
    },
    # "The headers size must fit in 8kb": request line and fields together
    head_limit_bytes=7_900,
    cancelled=(b"The SPARQL operation has been cancelled",),
)
