"""GraphDB: the RDF4J protocol, one repository."""

from __future__ import annotations

from urllib.parse import quote

from proxy.backends.remote import Product
from proxy.query.operation import OperationKind


def graphdb(repository: str) -> Product:
    """The product with its paths for *repository*."""
    path = f"/repositories/{quote(repository, safe='')}"
    return Product(
        kind="graphdb",
        query_path=path,
        update_path=f"{path}/statements",
        paths={path: OperationKind.QUERY, f"{path}/statements": OperationKind.UPDATE},
    )
