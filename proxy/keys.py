"""``sparlance key``: make, list and revoke API keys in the configured file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from proxy.access import file
from proxy.access.keys import Key, Role, mint
from proxy.config import Config
from proxy.errors import ConfigError, ProxyError


def new_key(
    config: Config,
    name: str,
    roles: Iterable[Role],
    *,
    days: int | None = None,
    requests_per_minute: float = 0.0,
    query_seconds_per_minute: float = 0.0,
) -> tuple[str, Key]:
    """Make a key and keep its record; on return the record is on the disk. *days*: how long it is valid; None: for ever.

    Raises:
        ProxyError: the name is taken or cannot be used, or the file cannot be written.
    """
    now = datetime.now(UTC)
    expires = _iso(now + timedelta(days=days)) if days is not None else ""
    limits = {"requests_per_minute": requests_per_minute, "query_seconds_per_minute": query_seconds_per_minute}
    try:
        token, key = mint(name, roles, created=_iso(now), expires=expires, **limits)
    except ValueError as error:
        raise ProxyError(str(error)) from error

    def add(keys: list[Key]) -> list[Key]:
        if any(k.name == name and k.digest for k in keys):
            raise ProxyError(f'there is a key "{name}" already; revoke it first (sparlance key revoke {name})')
        return [*keys, key]

    file.change(path_of(config), add)
    return token, key


def revoke_key(config: Config, name: str) -> Key:
    """Make the key of this name or id worthless; servers notice within a second. Its record stays, without the digest.

    Raises:
        ProxyError: there is no such key, or the file cannot be written.
    """
    now = _iso(datetime.now(UTC))
    revoked: list[Key] = []

    def strike(keys: list[Key]) -> list[Key]:
        found = [k for k in keys if name in (k.name, k.id) and k.digest]
        if not found:
            known = ", ".join(k.name for k in keys if k.digest) or "none"
            raise ProxyError(f'there is no key "{name}"; there is {known}')
        revoked.extend(found)
        return [dataclasses.replace(k, digest="", revoked=now) if k in found else k for k in keys]

    file.change(path_of(config), strike)
    return revoked[0]


def list_keys(config: Config) -> Sequence[Key]:
    """All records, revoked ones too."""
    return file.read(path_of(config))


def path_of(config: Config) -> Path:
    """The file that the settings name.

    Raises:
        ConfigError: they name none.
    """
    if not config.access.keys_file:
        raise ConfigError("access.keys_file", 'not set; accepted: a file, such as "var/keys.json", that the server may read')
    return Path(config.access.keys_file)


def _iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
