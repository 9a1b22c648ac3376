"""API keys: what a key may do, how one is made, and how the one that a request shows is found (pure).

A key is ``spl_<id>_<secret>``: the id is public, names the record and stands in logs; the secret is 256 random bits. Only the
SHA-256 of the whole is kept. A slow hash, as for passwords, would add nothing: what it makes expensive is guessing, and nobody
guesses 256 bits; it would cost each request tens of milliseconds instead.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

PREFIX = "spl_"
SECRET_BYTES = 32
LEAST_CHARACTERS = 20
"""Of a key that somebody thought up (environment): shorter ones can be guessed."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class Role(StrEnum):
    """What a request needs; a key has some of them."""

    __hash__ = str.__hash__  # not Enum's, which is a call in Python for each look in a table

    QUERY = "query"
    """Read: SPARQL queries, graph store reads, ``/-/check``, ``/-/index``, ``/-/ttql``."""
    NL = "nl"
    """Ask in plain language."""
    UPDATE = "update"
    """Write, where ``policy.allow_updates`` lets anybody write."""
    ADMIN = "admin"
    """``/-/metrics``, refreshing the index, reloading the configuration."""


@dataclass(frozen=True, slots=True)
class Key:
    """The record of a key. *digest*: SHA-256 of the whole key, hexadecimal; empty once it is revoked.

    created, expires, revoked: UTC, ISO 8601, empty: not. The two numbers are limits of this key's own, 0: those of everybody.
    """

    id: str
    name: str
    roles: frozenset[Role]
    digest: str
    created: str = ""
    expires: str = ""
    revoked: str = ""
    requests_per_minute: float = 0.0
    query_seconds_per_minute: float = 0.0


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: *roles* that it has, the *key* that says so; None: a request without a key."""

    roles: frozenset[Role]
    key: Key | None = None

    @property
    def account(self) -> str | None:
        """Whom load is counted for; None: whoever has the address."""
        return None if self.key is None else self.key.id


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Keys by id, and by digest those that bear none in themselves (environment)."""

    by_id: Mapping[str, Key] = field(default_factory=dict)
    by_digest: Mapping[str, Key] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.by_id or self.by_digest)

    def find(self, token: str, *, now: str) -> Key | None:
        """The key that *token* is, None if there is none, or it is revoked, or expired at *now* (ISO 8601, UTC).

        Records are found by the public id, and digests compared in constant time.
        """
        digest = digest_of(token)
        found = self.by_id.get(id_of(token) or "")
        if found is None:
            found = self.by_digest.get(digest)
        kept = found.digest if found is not None else ""
        if not hmac.compare_digest(kept, digest) or found is None or (found.expires and found.expires <= now):
            return None
        return found


def ring(keys: Iterable[Key]) -> KeyRing:
    """Sort *keys* for look-up; revoked ones find nobody."""
    valid = [key for key in keys if key.digest]
    return KeyRing({k.id: k for k in valid}, {k.digest: k for k in valid})


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def id_of(token: str) -> str | None:
    """The public part of ``spl_<id>_<secret>``; None: it is no key of ours."""
    if not token.startswith(PREFIX):
        return None
    id_, _, secret = token[len(PREFIX) :].partition("_")
    return id_ if id_ and secret else None


def mint(
    name: str,
    roles: Iterable[Role],
    *,
    created: str,
    expires: str = "",
    requests_per_minute: float = 0.0,
    query_seconds_per_minute: float = 0.0,
) -> tuple[str, Key]:
    """Make a new key; returns the key itself, which is shown once and never kept, and its record.

    Raises:
        ValueError: *name* or *roles* cannot be used.
    """
    granted = frozenset(roles)
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name for a key: letters, digits, '.', '_', '@' and '-', at most 64")
    if not granted:
        raise ValueError("a key without a role could do nothing")
    id_ = secrets.token_hex(6)
    token = f"{PREFIX}{id_}_{secrets.token_urlsafe(SECRET_BYTES)}"
    return token, Key(
        id_,
        name,
        granted,
        digest_of(token),
        created=created,
        expires=expires,
        requests_per_minute=requests_per_minute,
        query_seconds_per_minute=query_seconds_per_minute,
    )


def read_environment(text: str) -> list[Key]:
    """Keys from a variable: ``name:role+role:key``, apart by blanks or commas.

    Raises:
        ValueError: an entry cannot be used; its key is not in the message.
    """
    keys = []
    for position, entry in enumerate(re.split(r"[\s,]+", text.strip()) if text.strip() else [], start=1):
        name, _, rest = entry.partition(":")
        roles, _, token = rest.partition(":")
        if not token or not _NAME.fullmatch(name):
            raise ValueError(f"entry {position} is not name:role+role:key")
        if len(token) < LEAST_CHARACTERS:
            raise ValueError(f"the key of entry {position} is shorter than {LEAST_CHARACTERS} characters and could be guessed")
        keys.append(Key(id_of(token) or f"env-{name}", name, read_roles(roles.split("+")), digest_of(token)))
    return keys


def read_roles(names: Iterable[str]) -> frozenset[Role]:
    """The roles of these names.

    Raises:
        ValueError: there is no such role.
    """
    found = set()
    for name in names:
        if name not in list(Role):
            raise ValueError(f'there is no role "{name}"; there is {", ".join(Role)}')
        found.add(Role(name))
    return frozenset(found)
