"""Edge: databases. ``connect`` makes the backend that the settings describe."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from proxy.backends.graphdb import graphdb
from proxy.backends.oxigraph import OXIGRAPH
from proxy.backends.qlever import qlever
from proxy.backends.remote import Product, RemoteBackend
from proxy.errors import ConfigError
from proxy.query.operation import OperationKind

if TYPE_CHECKING:
    from proxy.config import BackendSettings

__all__ = ["connect"]


def connect(settings: BackendSettings) -> RemoteBackend:
    """Make the backend at ``settings.url``; opens no connection yet.

    Raises:
        ConfigError: there is no usable URL.
    """
    if not settings.url:
        raise ConfigError("backend.url", "not set; accepted: the root URL of a server, or backend.load with files")
    url = settings.url
    match settings.kind:
        case "oxigraph":
            product = OXIGRAPH
        case "graphdb":
            product = graphdb(settings.repository)
        case "qlever":
            product = qlever(settings.repository)
        case "sparql":
            parts = urlsplit(url)
            path = parts.path or "/"
            url = urlunsplit(parts._replace(path="", query="", fragment=""))
            product = Product("sparql", path, path, {path: OperationKind.QUERY})
    try:
        return RemoteBackend(
            url,
            product,
            timeout_s=settings.timeout_s,
            connect_timeout_s=settings.connect_timeout_s,
            max_connections=settings.max_connections,
            authorization=settings.authorization.value,
        )
    except ValueError as exc:
        raise ConfigError("backend.url", f"{exc}; accepted: a root URL such as http://127.0.0.1:7878") from exc
