"""Edge: databases. ``connect`` makes the backend that the settings describe."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from proxy.backends.endpoint import endpoint
from proxy.backends.graphdb import graphdb
from proxy.backends.oxigraph import OXIGRAPH
from proxy.backends.product import Product
from proxy.backends.qlever import qlever
from proxy.backends.remote import RemoteBackend
from proxy.errors import ConfigError

if TYPE_CHECKING:
    from proxy.config import BackendSettings

__all__ = ["connect"]


def connect(settings: BackendSettings, *, allowed_parameters: Collection[str] = ()) -> RemoteBackend:
    """Make the backend at ``settings.url``; opens no connection yet.

    Args:
        allowed_parameters: names that clients may use although they administer the product.
    Raises:
        ConfigError: there is no usable URL.
    """
    if not settings.url:
        raise ConfigError("backend.url", "not set; accepted: the root URL of a server, or backend.load with files")
    try:
        url, product = find_product(settings)
        if settings.fetches_graphs:
            product = replace(product, fetches_graphs=True)
        return RemoteBackend(
            url,
            product,
            timeout_s=settings.timeout_s,
            idle_timeout_s=settings.idle_timeout_s,
            total_timeout_s=settings.total_timeout_s,
            connect_timeout_s=settings.connect_timeout_s,
            max_connections=settings.max_connections,
            authorization=settings.authorization.value,
            client_authorization=settings.client_authorization,
            accepts_one_type=settings.accept == "explicit",
            forwards_timeout=settings.forward_timeout,
            allowed_parameters=frozenset(allowed_parameters),
        )
    except ValueError as exc:
        raise ConfigError("backend.url", f"{exc}; accepted: a root URL such as http://127.0.0.1:7878") from exc


def find_product(settings: BackendSettings) -> tuple[str, Product]:
    """Return the root URL of the server and what it is.

    Raises:
        ValueError: the URLs do not go together.
    """
    match settings.kind:
        case "oxigraph":
            return settings.url, OXIGRAPH
        case "graphdb":
            return settings.url, graphdb(settings.repository)
        case "qlever":
            return settings.url, qlever(settings.repository)
        case "sparql":
            return endpoint(settings.url, settings.update_url)
