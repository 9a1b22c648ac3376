"""A circuit breaker per backend: one that does not answer is left alone for a while, and clients are told so at once.

Closed: everything passes. After some failures in a row it opens: everything is refused, for a time that doubles with every
failed probe. Then it is half open: one request passes as a probe, and its outcome closes or opens it again. Only what shows
that the *transport* fails counts: an answer with a status of 4xx or 5xx is an answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType

from proxy.errors import BackendGarbled, BackendOpen, BackendTimeout, BackendUnreachable

FAILURES = (BackendUnreachable, BackendTimeout, BackendGarbled)
"""What counts. Not BackendBusy and BackendOpen (ours), nor BackendRefused (an answer)."""


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(frozen=True, slots=True)
class BreakerStats:
    """A snapshot for metrics. since_s: how long the state lasts, in seconds. reason: of the last failure that counted."""

    state: BreakerState
    since_s: float
    failures_in_row: int
    opened: int
    refused: int
    reason: str


class Breaker:
    """Decides whether *backend* is asked at all. Used as ``with breaker.attempt(): …`` around one exchange's head.

    Args:
        failures: as many in a row open it.
        window_s: … if the first of them is not older than this.
        open_first_s, open_most_s: how long it stays open the first time, and at most.
        probe_limit_s: a probe that has not reported by then is taken as lost, and another may start.
        on_change: told the new state and a sentence why; for the log.
    """

    def __init__(
        self,
        backend: str,
        *,
        failures: int = 5,
        window_s: float = 30.0,
        open_first_s: float = 1.0,
        open_most_s: float = 60.0,
        probe_limit_s: float = 60.0,
        now: Callable[[], float] = time.monotonic,
        on_change: Callable[[BreakerState, str], None] | None = None,
    ) -> None:
        if failures < 1 or not 0 < open_first_s <= open_most_s:
            raise ValueError("a breaker needs at least 1 failure, and 0 < open_first_s <= open_most_s")
        self.backend = backend
        self._limit = failures
        self._window_s = window_s
        self._open_first_s, self._open_most_s = open_first_s, open_most_s
        self._probe_limit_s = probe_limit_s
        self._now = now
        self._on_change = on_change
        self._state = BreakerState.CLOSED
        self._state_since = now()
        self._unavailable_since = 0.0
        self._epoch = 0
        """Grows when it opens: what began before says nothing of what came after."""
        self._failures = 0
        self._first_failure = 0.0
        self._reason = ""
        self._open_s = open_first_s
        self._retry_at = 0.0
        self._probe: Attempt | None = None
        self._opened = self._refused = 0

    def attempt(self) -> Attempt:
        """Begin to ask the backend.

        Returns:
            A context manager that learns from how its block ends. With ``is_probe`` it is the only request that passes now: to
            spend a cheap query of one's own first is better than to try a client's heavy one.
        Raises:
            BackendOpen: the circuit is open.
        """
        if self._state is BreakerState.CLOSED:
            return Attempt(self, self._epoch)
        return self._attempt_probe()

    def stats(self) -> BreakerStats:
        return BreakerStats(
            state=self._state,
            since_s=self._now() - self._state_since,
            failures_in_row=self._failures,
            opened=self._opened,
            refused=self._refused,
            reason=self._reason,
        )

    @property
    def is_closed(self) -> bool:
        """Whether everything passes."""
        return self._state is BreakerState.CLOSED

    def require_passable(self) -> None:
        """Refuse at once what ``attempt`` would refuse now: nobody should wait in a queue for that.

        Raises:
            BackendOpen
        """
        if self._state is not BreakerState.CLOSED:
            self._require_time_to_retry(self._now())

    # -- inside

    def _require_time_to_retry(self, now: float) -> None:
        if now < self._retry_at:
            self._refused += 1
            raise BackendOpen(
                f"{self.backend} is not asked at the moment: it failed {self._failures} times in a row, "
                f"first {now - self._unavailable_since:.1f} s ago, last with: {self._reason}",
                backend=self.backend,
                retry_after_s=1.0 if self._probe is not None else max(self._retry_at - now, 1.0),
            )

    def _attempt_probe(self) -> Attempt:
        now = self._now()
        self._require_time_to_retry(now)
        # One probe at a time; this is also when a lost one is replaced.
        self._retry_at = now + self._probe_limit_s
        self._probe = Attempt(self, self._epoch, is_probe=True)
        self._change(BreakerState.HALF_OPEN, "one request passes to see whether it answers again")
        return self._probe

    def _succeeded(self, attempt: Attempt) -> None:
        self._failures = 0
        if self._state is not BreakerState.CLOSED:
            # Also when it began earlier: the backend has answered just now.
            self._open_s = self._open_first_s
            self._probe = None
            self._change(BreakerState.CLOSED, f"{self.backend} answers again")

    def _failed(self, attempt: Attempt, error: BaseException) -> None:
        now = self._now()
        if attempt.is_probe and attempt is self._probe:
            self._failures += 1
            self._reason = str(error)
            self._open_s = min(self._open_s * 2, self._open_most_s)
            self._open(now)
        elif self._state is BreakerState.CLOSED and attempt._epoch == self._epoch:
            if self._failures == 0 or now - self._first_failure > self._window_s:
                self._failures, self._first_failure = 0, now
            self._failures += 1
            self._reason = str(error)
            if self._failures >= self._limit:
                self._unavailable_since = self._first_failure
                self._open(now)

    def _abandoned(self, attempt: Attempt) -> None:
        """The client left, or something else of ours went wrong: nothing was learnt, the next one may try."""
        if attempt is self._probe:
            self._probe = None
            self._retry_at = self._now()
            self._change(BreakerState.OPEN, "the probe was given up")

    def _open(self, now: float) -> None:
        self._epoch += 1
        self._opened += 1
        self._probe = None
        self._retry_at = now + self._open_s
        self._change(BreakerState.OPEN, f"{self._failures} failures in a row; last: {self._reason}")

    def _change(self, state: BreakerState, reason: str) -> None:
        if state is self._state:
            return
        self._state, self._state_since = state, self._now()
        if self._on_change is not None:
            self._on_change(state, reason)


class Attempt:
    """One exchange as the breaker sees it."""

    __slots__ = ("_breaker", "_epoch", "is_probe")

    def __init__(self, breaker: Breaker, epoch: int, is_probe: bool = False) -> None:
        self._breaker = breaker
        self._epoch = epoch
        self.is_probe = is_probe

    def __enter__(self) -> Attempt:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end(error)

    def end(self, error: BaseException | None) -> None:
        """The head is there, or *error* is why there is none."""
        breaker = self._breaker
        if error is None:
            if breaker._failures or breaker._state is not BreakerState.CLOSED:
                breaker._succeeded(self)
        elif isinstance(error, FAILURES):
            breaker._failed(self, error)
        else:
            breaker._abandoned(self)
