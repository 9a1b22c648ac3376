"""QLever: one path for queries and updates."""

from __future__ import annotations

from urllib.parse import quote

from proxy.backends.remote import Product
from proxy.query.operation import OperationKind


def qlever(access_path: str = "") -> Product:
    """The product; *access_path* is the NAME of ``/api/NAME``, empty for the root."""
    path = f"/api/{quote(access_path, safe='')}" if access_path else "/"
    return Product(
        kind="qlever",
        query_path=path,
        update_path=path,
        paths={path: OperationKind.QUERY},
        # Larger heads make it drop the connection without an answer.
        head_limit_bytes=7_900,
        refused_parameters=frozenset(["cmd", "access-token"]),
        cancelled=(b"!!!!>>#",),
    )
