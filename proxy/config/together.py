"""Settings that are fine alone and contradict each other."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from proxy.config.converting import show
from proxy.config.sections import Config
from proxy.config.sources import PREFIX, variable_of
from proxy.errors import ConfigError

_IRI = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]+')


def check_together(config: Config) -> None:
    """Refuse settings that are fine alone and contradict each other."""
    backend = config.backend
    if backend.url and backend.load:
        raise ConfigError("backend.load", "found together with backend.url; accepted: one of them, a server or files")
    if backend.url and not backend.url.lower().startswith(("http://", "https://")):
        raise ConfigError("backend.url", f"found {show(backend.url)}; accepted: a root URL such as http://127.0.0.1:7878")
    for key, url in (("backend.url", backend.url), ("backend.update_url", backend.update_url)):
        if "@" in url.partition("://")[2].partition("/")[0]:
            message = f"found {show(url)}; accepted: no user and password in it, but in {variable_of('backend.authorization')}"
            raise ConfigError(key, message)
    if backend.url and backend.kind == "graphdb" and not backend.repository:
        raise ConfigError("backend.repository", "not set; accepted: the id of the GraphDB repository")
    if backend.update_url and backend.kind != "sparql":
        raise ConfigError("backend.update_url", f'found with backend.kind = "{backend.kind}"; accepted: only with "sparql"')
    if backend.client_authorization == "replace" and not backend.authorization:
        variable = variable_of("backend.authorization")
        raise ConfigError("backend.client_authorization", f'found "replace"; accepted: only with the variable {variable} set')
    if config.index.class_predicate != "auto" and not _IRI.fullmatch(config.index.class_predicate):
        accepted = 'an IRI, without angle brackets, or "auto"'
        raise ConfigError("index.class_predicate", f"found {show(config.index.class_predicate)}; accepted: {accepted}")
    _check_load(config)
    _check_writer(config)
    if len(set(config.plugins.enabled)) < len(config.plugins.enabled):
        raise ConfigError("plugins.enabled", f"found {show(config.plugins.enabled)}; accepted: each plugin once")


def _check_writer(config: Config) -> None:
    writer = config.writer
    if writer.url and writer.folder:
        raise ConfigError("writer.folder", "found together with writer.url; accepted: one of them, a server or a folder")
    if not writer.url:
        return
    try:
        parts = urlsplit(writer.url)
        is_fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        is_fine = False
    if not is_fine or parts.query or parts.fragment:  # it may hold a password, so it is not repeated
        accepted = "a URL such as http://127.0.0.1:8000/v1, without user, password and query"
        variable = variable_of("writer.key")
        raise ConfigError("writer.url", f"not one that can be used; accepted: {accepted}, and the key in {variable}")
    if not writer.model:
        raise ConfigError("writer.model", "not set; accepted: the name of a model that the server at writer.url has")
    if writer.key and parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise ConfigError("writer.url", "found http:// together with a key, which anybody on the way could read; accepted: https://")


def _check_load(config: Config) -> None:
    backend, load, server = config.backend, config.load, config.server
    if server.drain_s and server.drain_s >= server.shutdown_timeout_s:
        found = f"{server.drain_s:g}, of server.shutdown_timeout_s = {server.shutdown_timeout_s:g}"
        raise ConfigError("server.drain_s", f"found {found}; accepted: less, as running requests get the rest")
    if load.concurrency > backend.max_connections:
        found = f"{load.concurrency}, more than backend.max_connections = {backend.max_connections}"
        raise ConfigError("load.concurrency", f"found {found}; accepted: at most as many as there are connections")
    if load.breaker_open_first_s > load.breaker_open_most_s:
        raise ConfigError("load.breaker_open_first_s", "found more than load.breaker_open_most_s; accepted: at most that")
    for name in server.trusted_proxies:
        try:
            ipaddress.ip_network(name, strict=False)
        except ValueError as exc:
            message = f"found {show(name)}; accepted: addresses and networks such as 10.0.0.7 or 10.0.0.0/8"
            raise ConfigError("server.trusted_proxies", message) from exc
    if server.workers > 1 and config.policy.allow_updates:
        if backend.load:
            raise ConfigError(
                "server.workers",
                f"found {server.workers} with backend.load and policy.allow_updates: each worker has a store of its own, and "
                "an update would reach one of them; accepted: 1, or a server at backend.url, or no updates",
            )
        if config.cache.enabled and not config.cache.url:
            raise ConfigError(
                "cache.url",
                f"not set, with {server.workers} workers and updates allowed: one worker would serve what another has made "
                "old; accepted: the URL of a Redis or Valkey server, or cache.enabled = false",
            )
    endpoint = config.tracing.endpoint
    if endpoint and not endpoint.startswith(("http://", "https://")):
        accepted = "a URL such as http://localhost:4318/v1/traces"
        raise ConfigError("tracing.endpoint", f"found {show(endpoint)}; accepted: {accepted}")
    for key, url in (("cache.url", config.cache.url), ("shared.url", config.shared.url)):
        if url and not url.startswith(("redis://", "rediss://", "unix://")):
            raise ConfigError(key, f"found {show(url)}; accepted: redis://host:port/db, rediss://…, unix://…")


def require_nothing_for_all(base: Config) -> None:
    """Refuse what would send every dataset to one backend, or one backend's credential to all."""
    backend = base.backend
    if backend.url or backend.load:
        key = "backend.url" if backend.url else "backend.load"
        raise ConfigError(key, "found together with [datasets]; accepted: in [datasets.NAME.backend]")
    if backend.authorization:
        variable = f"{PREFIX}DATASETS_NAME_BACKEND_AUTHORIZATION"
        raise ConfigError("backend.authorization", f"found for all datasets; accepted: {variable}, for the one it belongs to")
