"""Who asks, by the key that a request shows, and whether it may.

A key comes as ``Authorization: Bearer <key>``, as ``X-API-Key: <key>``, or as the password of ``Authorization: Basic``
(the user name is not looked at), because many SPARQL clients know nothing but user and password. It is ours and goes no
further: the backend never sees it. Any other Authorization is meant for the backend and passes as before.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import time
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache

from proxy.access.file import KeyFile
from proxy.access.keys import Key, Principal, Role, id_of
from proxy.backends.base import NAME
from proxy.errors import NotAuthenticated, OperationForbidden
from proxy.pipeline.exchange import Exchange
from proxy.pipeline.limits import Allowance, Allowances, ClientLimits
from proxy.protocol.asgi import Scope

API_KEY = b"x-api-key"
REREAD_S = 1.0
"""How long a revoked key may still be taken; a ``stat`` for each request would cost more than the look-up."""
_PASSED_ON = frozenset([b"forwarded", b"x-forwarded-for"])
"""What another proxy on this machine adds: whoever asks is elsewhere."""

Headers = list[tuple[bytes, bytes]]


class AccessGate:
    """Tells who asks, and refuses those who may not.

    Args:
        keys: None: nobody has one. anonymous: roles of a request without a key. is_local: only this machine can connect;
            whoever sits there is an administrator, unless another proxy or the page of a site speaks. A page may not write
            either.
    """

    def __init__(self, keys: KeyFile, anonymous: Iterable[Role], *, is_local: bool) -> None:
        self._keys = keys
        self._anonymous = Principal(frozenset(anonymous))
        self._is_local = is_local
        self._local = Principal(self._anonymous.roles | {Role.ADMIN}) if is_local else self._anonymous
        self._of_a_page = Principal(self._anonymous.roles - {Role.UPDATE}) if is_local else self._anonymous
        self._limits: dict[str, ClientLimits] = {}
        self._read_at = time.monotonic()
        self._now = _utc()

    def identify(self, scope: Scope, exchange: Exchange) -> None:
        """Set ``exchange.principal``, and take the key out of the fields that go on.

        Raises:
            NotAuthenticated: a key was shown that is none (any more).
        """
        if time.monotonic() - self._read_at > REREAD_S:
            self._reread()
        headers: Headers = scope["headers"]
        if self._keys.ring:
            for name, value in headers:
                if name in (b"authorization", API_KEY) and (token := _token(name, value)) is not None:
                    key = self._keys.ring.find(token, now=self._now)
                    if key is not None:
                        exchange.principal = Principal(key.roles, key)
                        scope["headers"] = [f for f in headers if f != (name, value) and not self._is_ours(*f)]
                        return
                    if name == API_KEY or id_of(token) is not None:
                        raise NotAuthenticated("this API key is unknown, revoked or expired")
        exchange.principal = self._anonymous
        if self._is_local and _PASSED_ON.isdisjoint(map(NAME, headers)):
            exchange.principal = self._local if _comes_from_here(headers) else self._of_a_page

    def _is_ours(self, name: bytes, value: bytes) -> bool:
        """Whether a field shows a key: who shows one in two ways shows neither to the backend."""
        if name == API_KEY:
            return True
        if name != b"authorization" or (token := _token(name, value)) is None:
            return False
        return id_of(token) is not None or self._keys.ring.find(token, now=self._now) is not None

    def limits_of(self, key: Key) -> ClientLimits | None:
        """The account of a key with limits of its own; None: it has those of everybody."""
        if not (key.requests_per_minute or key.query_seconds_per_minute):
            return None
        wanted = Allowances(_allowance(key.requests_per_minute), _allowance(key.query_seconds_per_minute))
        kept = self._limits.get(key.id)
        if kept is None or kept.allowances != wanted:
            kept = self._limits[key.id] = ClientLimits(wanted, max_clients=1)
        return kept

    @property
    def limits(self) -> Collection[ClientLimits]:
        """Those of keys that have limits of their own and were used."""
        return self._limits.values()

    def _reread(self) -> None:
        self._keys.refresh()
        self._read_at, self._now = time.monotonic(), _utc()
        self._limits = {id_: limits for id_, limits in self._limits.items() if id_ in self._keys.ring.by_id}


def require(exchange: Exchange, role: Role) -> None:
    """Let *exchange* go on only if whoever asks has *role*; one that nobody looked at (an embedded application) may do all.

    Raises:
        NotAuthenticated: it shows no key. OperationForbidden: its key is not for that.
    """
    principal = exchange.principal
    if principal is None or role in principal.roles:
        return
    if principal.key is None:
        raise NotAuthenticated(
            f'this needs an API key with the role "{role}": Authorization: Bearer <key>, X-API-Key: <key>, or as the password; '
            f"`sparlance key new NAME --role {role}` makes one"
        )
    raise OperationForbidden(
        f'the API key "{principal.key.name}" does not have the role "{role}"; '
        f"`sparlance key new NAME --role {role}` makes one that has"
    )


def require_some(exchange: Exchange) -> None:
    """Refuse who may do nothing, before anything is read from it.

    Raises:
        As ``require``.
    """
    if exchange.principal is not None and not exchange.principal.roles:
        require(exchange, Role.QUERY)


def is_loopback(host: str) -> bool:
    """Whether *host*, as the settings have it, can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _comes_from_here(headers: Headers) -> bool:
    """Whether no page of another site speaks, shown by a browser on this machine: such a page could read what only this machine
    may, and write by a form, which a browser sends without asking.

    Its site stands in Origin, where the browser sends that. A site may also give its own name our address (DNS rebinding): to
    the browser our pages are then its own, and with a GET it sends no Origin; the name stands in Host all the same.
    """
    for name, value in headers:
        if name == b"host" and not _is_here(value):
            return False
        if name == b"origin" and not _is_here(value.partition(b"://")[2]):
            return False
    return True


def _is_here(value: bytes) -> bool:
    """Whether ``host:port`` or ``[address]:port`` is this machine. Clients say the same again and again."""
    return _is_known_here(value) if len(value) <= 256 else is_loopback(_host_of(value))


def _host_of(value: bytes) -> str:
    """Of ``host:port`` or ``[address]:port``, without the port; lower case."""
    host = value.decode("latin-1").strip().lower()
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


@lru_cache(256)
def _is_known_here(value: bytes) -> bool:
    return is_loopback(_host_of(value))


def _token(name: bytes, value: bytes) -> str | None:
    """What of a field may be a key; None: it is something else."""
    if name == API_KEY:
        return value.strip().decode("latin-1")
    scheme, _, rest = value.strip().partition(b" ")
    match scheme.lower():
        case b"bearer":
            return rest.strip().decode("latin-1")
        case b"basic":
            try:
                return base64.b64decode(rest.strip(), validate=True).decode("utf-8").partition(":")[2]
            except (binascii.Error, UnicodeDecodeError):
                return None
    return None


def _allowance(per_minute: float) -> Allowance | None:
    return Allowance(per_minute, per_minute) if per_minute else None


def _utc() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


ROLES_OF_PAGES: Mapping[tuple[str, str], Role | None] = {
    # Probes of the machine that runs us carry no keys, and say nothing of the data.
    ("GET", "/-/live"): None,
    ("GET", "/-/ready"): None,
    ("GET", "/-/openapi.json"): None,
    ("GET", "/-/index"): Role.QUERY,
    ("POST", "/-/index"): Role.ADMIN,
    ("GET", "/-/ttql"): Role.QUERY,
    ("POST", "/-/check"): Role.QUERY,
    ("GET", "/-/metrics"): Role.ADMIN,
    ("POST", "/-/reload"): Role.ADMIN,
    ("POST", "/-/feedback"): Role.ADMIN,  # what is confirmed is everybody's answer from then on
    ("GET", "/text2sparql"): Role.NL,
}
"""Method and path of our own pages → the role that they need; one that is not listed needs ADMIN."""
