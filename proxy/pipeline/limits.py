"""What one client may use: requests, time of the backend, errors.

Requests alone are a poor measure where one query takes a millisecond and the next a minute. The public Wikidata service counts
*query-seconds*: so much query time a minute, with a reserve that fills while a client rests, and so many errors a minute. Time
and errors are known only afterwards, so they are charged then; a client whose account is overdrawn waits until it is not.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from proxy.errors import RateLimited


class Limit(StrEnum):
    REQUESTS = "requests"
    QUERY_SECONDS = "query-seconds"
    ERRORS = "errors"


@dataclass(frozen=True, slots=True)
class Allowance:
    """*per_minute* units a minute, of which up to *burst* can be saved up."""

    per_minute: float
    burst: float

    def __post_init__(self) -> None:
        if self.per_minute <= 0 or self.burst <= 0:
            raise ValueError("an allowance is positive; None means unlimited")


@dataclass(frozen=True, slots=True)
class Allowances:
    """What each client may use; None: unlimited. query_seconds: in seconds of the backend's time."""

    requests: Allowance | None = None
    query_seconds: Allowance | None = None
    errors: Allowance | None = None


PRESETS: Mapping[str, Allowances] = MappingProxyType(
    {
        "off": Allowances(),
        # The limits that the Wikidata Query Service announces for its clients (address and user agent).
        "wikidata": Allowances(query_seconds=Allowance(60, 120), errors=Allowance(30, 30)),
    }
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not admitted: which limit, and when it is worth while to come back."""

    limit: Limit
    retry_after_s: float


@dataclass(frozen=True, slots=True)
class LimitStats:
    """A snapshot for metrics. forgotten: clients dropped from a full table although they had used something."""

    clients: int
    admitted: int
    refused: Mapping[Limit, int]
    forgotten: int


def client_key(address: str, user_agent: str = "", *, account: str | None = None) -> str:
    """Whom a request is charged to: *account* if there is one, else address and user agent.

    An IPv6 address counts by its /64, which is what one customer is given.

    Args:
        account: of an API key or login that somebody has *verified*; an unverified one would be a free choice.
    """
    if account is not None:
        return "account " + account
    network = _network(address) if ":" in address else address
    return f"{network} {user_agent[:200]}" if user_agent else network


@lru_cache(4096)
def _network(address: str) -> str:
    try:
        number = int(ipaddress.IPv6Address(address.partition("%")[0]))
    except ValueError:
        return address
    return str(ipaddress.IPv6Address(number >> 64 << 64))


class Usage(NamedTuple):
    """Of each limit; also what is left of it."""

    requests: float
    seconds: float
    errors: float


class _Account:
    """What a client has left of each limit; below 0: overdrawn."""

    __slots__ = ("errors", "requests", "seconds", "updated")

    def __init__(self, requests: float, seconds: float, errors: float, updated: float) -> None:
        self.requests = requests
        self.seconds = seconds
        self.errors = errors
        self.updated = updated


class ClientLimits:
    """The accounts of at most *max_clients* clients; the one unseen for longest is forgotten first.

    An account that is full again says the same as none, so it is dropped; only a table that is full of others forgets debts.
    """

    def __init__(
        self, allowances: Allowances, *, max_clients: int = 10_000, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.allowances = allowances
        self._max_clients = max(max_clients, 1)
        self._now = now
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        self._is_off = allowances == Allowances()
        self._request_rate, self._request_burst = _per_second(allowances.requests)
        self._seconds_rate, self._seconds_burst = _per_second(allowances.query_seconds)
        self._error_rate, self._error_burst = _per_second(allowances.errors)
        self._admitted = 0
        self._forgotten = 0
        self._refused = dict.fromkeys(Limit, 0)
        self._used: dict[str, Usage] | None = None
        """What was used since others were told; None: nobody wants to know."""

    def admit(self, client: str) -> Refusal | None:
        """Count one request of *client*, or say why not; a refused one costs nothing."""
        if self._is_off:
            return None
        account = self._account(client)
        allowances = self.allowances
        refusal: Refusal | None = None
        if allowances.query_seconds is not None and account.seconds <= 0:
            refusal = Refusal(Limit.QUERY_SECONDS, _wait_s(account.seconds, 0, self._seconds_rate))
        elif allowances.errors is not None and account.errors < 1:
            refusal = Refusal(Limit.ERRORS, _wait_s(account.errors, 1, self._error_rate))
        elif allowances.requests is not None:
            if account.requests < 1:
                refusal = Refusal(Limit.REQUESTS, _wait_s(account.requests, 1, self._request_rate))
            else:
                account.requests -= 1
        if refusal is None:
            self._admitted += 1
            if self._used is not None:
                self._note(client, 1.0, 0.0, 0.0)
        else:
            self._refused[refusal.limit] += 1
        return refusal

    def require_admitted(self, client: str) -> None:
        """As ``admit``.

        Raises:
            RateLimited: the client has to wait.
        """
        if (refusal := self.admit(client)) is not None:
            allowance = self._allowance(refusal.limit)
            raise RateLimited(
                f"this client has used up its {refusal.limit}: {allowance.per_minute:g} a minute, {allowance.burst:g} at once; "
                f"more in {refusal.retry_after_s:.0f} s",
                limit=refusal.limit,
                retry_after_s=refusal.retry_after_s,
            )

    def charge(self, client: str, seconds: float, *, is_error: bool = False) -> None:
        """Take off the account of *client* what a request has cost: *seconds* of the backend's time, an error if it was one."""
        if self._is_off:
            return
        account = self._account(client)
        if self.allowances.query_seconds is not None:
            account.seconds -= seconds
        if is_error and self.allowances.errors is not None:
            account.errors -= 1
        if self._used is not None:
            self._note(client, 0.0, seconds, float(is_error))

    # -- shared with other processes (shared_limits.py)

    @property
    def rates(self) -> tuple[tuple[float, float], ...]:
        """What a second gives and how much can be saved up, of requests, seconds and errors; 0, 0: unlimited."""
        return (
            (self._request_rate, self._request_burst),
            (self._seconds_rate, self._seconds_burst),
            (self._error_rate, self._error_burst),
        )

    def take_used(self) -> dict[str, Usage]:
        """What each client has used since this was called last; the first call begins the count."""
        used, self._used = self._used, {}
        return used or {}

    def lower(self, client: str, left: Usage) -> None:
        """Leave *client* no more than all processes together have left it; what it has used here meanwhile counts, too."""
        account = self._accounts.get(client)
        if account is None:
            return
        self._fill(account, self._now())
        since = (self._used or {}).get(client, _NOTHING)
        if self._request_rate:
            account.requests = min(account.requests, left.requests - since.requests)
        if self._seconds_rate:
            account.seconds = min(account.seconds, left.seconds - since.seconds)
        if self._error_rate:
            account.errors = min(account.errors, left.errors - since.errors)

    def stats(self) -> LimitStats:
        return LimitStats(len(self._accounts), self._admitted, dict(self._refused), self._forgotten)

    # -- inside

    def _allowance(self, limit: Limit) -> Allowance:
        allowances = self.allowances
        found = {
            Limit.REQUESTS: allowances.requests,
            Limit.QUERY_SECONDS: allowances.query_seconds,
            Limit.ERRORS: allowances.errors,
        }[limit]
        assert found is not None
        return found

    def _note(self, client: str, requests: float, seconds: float, errors: float) -> None:
        used = self._used
        assert used is not None
        before = used.get(client)
        if before is not None:
            used[client] = Usage(before.requests + requests, before.seconds + seconds, before.errors + errors)
        elif len(used) < self._max_clients:
            used[client] = Usage(requests, seconds, errors)

    def _account(self, client: str) -> _Account:
        now = self._now()
        account = self._accounts.get(client)
        if account is None:
            self._make_room(now)
            account = _Account(self._request_burst, self._seconds_burst, self._error_burst, now)
            self._accounts[client] = account
        else:
            self._accounts.move_to_end(client)
            self._fill(account, now)
        return account

    def _fill(self, account: _Account, now: float) -> None:
        passed = now - account.updated
        if passed > 0:
            account.updated = now
            account.requests = min(account.requests + passed * self._request_rate, self._request_burst)
            account.seconds = min(account.seconds + passed * self._seconds_rate, self._seconds_burst)
            account.errors = min(account.errors + passed * self._error_rate, self._error_burst)

    def _make_room(self, now: float) -> None:
        """Drop the oldest account if it is full again; two for one that comes, so that the table shrinks when it can."""
        for _ in range(2):
            if not self._accounts:
                return
            client, account = next(iter(self._accounts.items()))
            self._fill(account, now)
            is_full = (
                account.requests >= self._request_burst
                and account.seconds >= self._seconds_burst
                and account.errors >= self._error_burst
            )
            if not is_full and len(self._accounts) < self._max_clients:
                return
            self._forgotten += not is_full
            del self._accounts[client]


_NOTHING = Usage(0.0, 0.0, 0.0)


def _per_second(allowance: Allowance | None) -> tuple[float, float]:
    return (0.0, 0.0) if allowance is None else (allowance.per_minute / 60, allowance.burst)


def _wait_s(level: float, wanted: float, rate: float) -> float:
    """Until *level* has risen to *wanted*; whole seconds would be rounded up by who writes Retry-After."""
    return max((wanted - level) / rate, 1.0)
