"""Any SPARQL 1.1 endpoint, by the URL of its queries and the URL of its updates."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from proxy.backends.base import PathKind
from proxy.backends.product import Product


def endpoint(url: str, update_url: str = "") -> tuple[str, Product]:
    """Return the root URL of the server and the product.

    Args:
        url: with the path, and the query string if it has one (``?default-graph-uri=…``): sent before the client's parameters.
        update_url: empty: as *url*.
    Raises:
        ValueError: *update_url* is on another server.
    """
    queries = urlsplit(url)
    updates = urlsplit(update_url or url)
    if (updates.scheme, updates.netloc) != (queries.scheme, queries.netloc):
        raise ValueError(f"{update_url!r} is not on the server of {url!r}")
    query_path, update_path = queries.path or "/", updates.path or "/"
    paths = {update_path: PathKind.UPDATE, query_path: PathKind.ANY if query_path == update_path else PathKind.QUERY}
    product = Product(
        kind="sparql",
        query_path=query_path,
        update_path=update_path,
        paths=paths,
        query_string=queries.query.encode("ascii"),
        update_string=updates.query.encode("ascii"),
        # What the least of the usual servers (nginx, Tomcat, Jetty) take by default.
        head_limit_bytes=7_900,
        form_limit_bytes=1_000_000,  # Tomcat drops what is in a form of 2 MiB
        head_queries=False,  # many know GET and POST only (Fuseki: 405)
    )
    return urlunsplit(queries._replace(path="", query="", fragment="")), product
