"""A bounded, fair queue in front of one backend: clients take turns, nobody waits without a bound.

A database that works on more queries than it has cores for answers all of them late, and some (GraphDB Free, QLever by
default) take two or one at a time and let the rest wait where nobody sees them. Here they wait in sight: each client has its
own line, the lines take turns, and who finds the queue full, or waits too long, is told when to come back. Our own queries
(index, confirmations, probes) stand behind the clients' in a line of their own.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto
from types import TracebackType
from typing import TypeVar

from proxy.backends.base import BackendResponse, Headers
from proxy.errors import BackendBusy, BackendTimeout

T = TypeVar("T")

RETRY_LEAST_S = 1.0
"""Retry-After counts in whole seconds (RFC 9110, section 10.2.3)."""
RETRY_MOST_S = 300.0
ORPHAN_LEAST_S = 1.0
TURNS_BEFORE_OURS = 8
"""Clients' turns that one of our own queries lets pass, so that it comes later than theirs, but does come."""
SERVICE_WEIGHT = 0.2
"""Of the newest service time in the running mean: about the last ten count."""


@dataclass(frozen=True, slots=True)
class QueueStats:
    """A snapshot for metrics. Counts are totals since the start, but for *running*, *orphans* and *waiting*: those are now.

    running: places held, orphans included. orphans: held by a query whose client has left. granted: places given.
    full, expired: refused because the queue was full, or the wait too long. displaced: refused to make room for a client with
        fewer waiting. left: clients that left while they waited. overdue: orphans given up at their bound, or to make room.
    waited_s: of all granted places together. service_s: running mean of the time that a place is held; None: none was yet.
    """

    running: int
    orphans: int
    waiting: int
    granted: int
    full: int
    expired: int
    displaced: int
    left: int
    overdue: int
    waited_s: float
    service_s: float | None


class _State(Enum):
    NEW = auto()
    WAITING = auto()
    HELD = auto()
    DETACHED = auto()
    OVER = auto()


class Place:
    """One exchange's place. Enter it once: ``async with queue.place(client) as place``.

    waited_s: how long it waited. position: at which position it began to wait, counted in turns; 0: it did not wait.
    """

    __slots__ = ("_future", "_queue", "_refusal", "_since", "_state", "client", "is_ours", "position", "waited_s")

    def __init__(self, queue: BackendQueue, client: str, *, is_ours: bool = False) -> None:
        self._queue = queue
        self._state = _State.NEW
        self._since = 0.0
        self._future: asyncio.Future[None] | None = None
        self._refusal = ""
        self.client = client
        self.is_ours = is_ours
        self.waited_s = 0.0
        self.position = 0

    async def __aenter__(self) -> Place:
        if not self._take():
            await self._queue._wait(self)
        return self

    def _take(self) -> bool:
        queue = self._queue
        if queue._free <= 0 or (self.is_ours and not queue._has_place_for_ours()):
            return False
        queue._free -= 1  # no client waits then: whoever gives a place back hands it on
        queue._ours += self.is_ours
        queue._granted += 1
        self._state = _State.HELD
        self._since = queue._now()
        return True

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Give the place back; again, or when it is not held, it does nothing."""
        if self._state is _State.HELD:
            self._queue._release(self)

    def unuse(self) -> None:
        """Give back a place with which nothing was done, so that it says nothing of how long requests take."""
        if self._state is _State.HELD:
            self._queue._release(self, is_used=False)

    def detach(self, *, bound_s: float) -> Orphan:
        """Keep the place beyond the exchange, for a query that goes on in the backend although nobody waits for it.

        Args:
            bound_s: the place is given up after this, released or not; at least the backend's own time limit.
        """
        if self._state is not _State.HELD:
            raise ValueError("only a place that is held can be kept")
        self._state = _State.DETACHED
        return Orphan(self._queue, self, bound_s)


class Orphan:
    """A place that outlives its exchange, until ``release`` or its bound."""

    __slots__ = ("_place", "_queue", "_timer")

    def __init__(self, queue: BackendQueue, place: Place, bound_s: float) -> None:
        self._queue = queue
        self._place = place
        queue._orphans[self] = None
        self._timer = asyncio.get_running_loop().call_later(bound_s, self._give_up)

    def release(self) -> None:
        """Give the place back; again, or after the bound, it does nothing."""
        if self._place._state is _State.DETACHED:
            self._timer.cancel()
            del self._queue._orphans[self]
            self._queue._release(self._place)

    def _give_up(self) -> None:
        self._queue._overdue += 1
        self.release()


class PlacedResponse:
    """A response that keeps its place until it is closed, or read to its end."""

    __slots__ = ("_place", "_response", "headers", "status")

    def __init__(self, place: Place, response: BackendResponse) -> None:
        self._place = place
        self._response = response
        self.status = response.status
        self.headers: Headers = response.headers

    @property
    def is_complete(self) -> bool:
        return getattr(self._response, "is_complete", False)

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.chunks():
            if self.is_complete:
                self._place.release()
            yield chunk
        self._place.release()

    def take_whole(self) -> bytes | None:
        take = getattr(self._response, "take_whole", None)
        body: bytes | None = None if take is None else take()
        if body is not None:
            self._place.release()
        return body

    async def aclose(self) -> None:
        # Also before its end: a query that streams ends with its connection (measured on Oxigraph).
        self._place.release()
        await self._response.aclose()


class BackendQueue:
    """Places for *concurrency* exchanges with one backend, lines for *max_waiting* more. For one event loop.

    Args:
        max_wait_s: how long anybody waits; 0: nobody does.
        backend: its name, for messages.
    """

    def __init__(
        self,
        concurrency: int,
        max_waiting: int,
        max_wait_s: float,
        *,
        backend: str = "the backend",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        if concurrency < 1 or max_waiting < 0 or max_wait_s < 0:
            raise ValueError("a queue needs a concurrency of at least 1, and bounds that are not negative")
        self.backend = backend
        self.concurrency = concurrency
        self._max_waiting = max_waiting
        self._max_wait_s = max_wait_s
        self._now = now
        self._free = concurrency
        self._lines: OrderedDict[str, deque[Place]] = OrderedDict()
        """Client → its waiting places, none empty. The first client is the next in turn."""
        self._waiting = 0
        self._our_line: deque[Place] = deque()
        self._ours = 0
        """Places that our own queries hold; at most half, so that they keep no client waiting where there are several."""
        self._our_limit = max(concurrency // 2, 1)
        self._turns_past_ours = 0
        self._orphans: dict[Orphan, None] = {}
        """In the order in which their clients left."""
        self._orphan_limit = max(concurrency // 2, 1)
        self._granted = self._full = self._expired = self._displaced = self._left = self._overdue = 0
        self._waited_s = 0.0
        self._service_s: float | None = None

    def place(self, client: str) -> Place:
        """A place for one exchange of *client*.

        Raises:
            BackendBusy: on entering: the queue is full, or the wait was too long.
        """
        return Place(self, client)

    async def run(
        self,
        work: Callable[[float], Awaitable[T]],
        *,
        client: str | None,
        wait_s: float,
        orphan_bound_s: float | None = None,
    ) -> T:
        """Run one of our own queries in a place.

        Args:
            work: gets the seconds that were waited.
            client: the line in which to wait; None: behind the clients', for *wait_s* seconds at most.
            orphan_bound_s: as ``send``.
        Raises:
            BackendBusy: there was no place for so long. And what *work* raises.
        """
        place = Place(self, client or "", is_ours=client is None)
        if not place._take():
            await self._wait(place, wait_s if place.is_ours else None)
        try:
            return await work(place.waited_s)
        except (asyncio.CancelledError, BackendTimeout) as error:
            if orphan_bound_s is not None and getattr(error, "limit", "") != "connect":
                self._keep_orphan(place, orphan_bound_s)
            raise
        finally:
            place.release()

    def _has_place_for_ours(self) -> bool:
        return self._ours < self._our_limit

    async def send(
        self, client: str, open_: Callable[[], Awaitable[BackendResponse]], *, orphan_bound_s: float | None = None
    ) -> PlacedResponse:
        """Wait for a place, ask the backend, and keep the place as long as the response is open.

        How long a query goes on that nobody listens to, nobody can know; what has run for long is likely to run for as long
        again. So it keeps its place for twice the time that it had it. Orphans keep at most half of the places: the
        oldest one gives way, as a database must stay usable where people often press stop.

        Args:
            open_: asks; returns when the head is there.
            orphan_bound_s: for a backend that cannot be told to stop: if the client leaves or the time is up before the head is
                there, the place is kept for so long at most. None: it is free at once.
        Raises:
            BackendBusy: as ``place``. And what *open_* raises.
        """
        place = Place(self, client)
        if not place._take():
            await self._wait(place)
        try:
            response = await open_()
        except BaseException as error:
            self.failed(place, error, orphan_bound_s=orphan_bound_s)
            raise
        return PlacedResponse(place, response)

    def place_now(self, client: str) -> Place | None:
        """A place for one exchange, taken; None: it would have to wait. ``release`` gives it back, or ``failed``."""
        place = Place(self, client)
        return place if place._take() else None

    def failed(self, place: Place, error: BaseException, *, orphan_bound_s: float | None) -> None:
        """Give *place* back, whose exchange got no answer; or keep it for what may go on in the backend (``send``)."""
        # Without a connection nothing runs.
        if (
            orphan_bound_s is not None
            and isinstance(error, asyncio.CancelledError | BackendTimeout)
            and getattr(error, "limit", "") != "connect"
        ):
            self._keep_orphan(place, orphan_bound_s)
        place.release()

    def _keep_orphan(self, place: Place, bound_s: float) -> None:
        if len(self._orphans) >= self._orphan_limit:
            next(iter(self._orphans))._give_up()
        took_s = self._now() - place._since
        place.detach(bound_s=min(bound_s, max(2 * took_s, ORPHAN_LEAST_S)))

    def stats(self) -> QueueStats:
        return QueueStats(
            running=self.concurrency - self._free,
            orphans=len(self._orphans),
            waiting=self._waiting,
            granted=self._granted,
            full=self._full,
            expired=self._expired,
            displaced=self._displaced,
            left=self._left,
            overdue=self._overdue,
            waited_s=self._waited_s,
            service_s=self._service_s,
        )

    def retry_after_s(self, turns: int) -> float:
        """When a place may be free for who is *turns* turns away, by the recent service times."""
        mean = self._max_wait_s if self._service_s is None else self._service_s
        return min(max(mean * turns / self.concurrency, RETRY_LEAST_S), RETRY_MOST_S)

    # -- waiting

    async def _wait(self, place: Place, wait_s: float | None = None) -> None:
        """Wait for a place; *wait_s*: of one of our own queries, for which the limits of clients do not hold."""
        if wait_s is None and (
            self._max_wait_s == 0 or (self._waiting >= self._max_waiting and not self._displace(place.client))
        ):
            self._full += 1
            raise self._busy(
                f"{self.backend} works on {self.concurrency} requests and {self._waiting} more wait, which is the limit",
                turns=self._turns(place.client) + 1,
            )
        loop = asyncio.get_running_loop()
        place._future = future = loop.create_future()
        place._state = _State.WAITING
        place._since = self._now()
        if wait_s is None:
            wait_s = self._max_wait_s
            self._lines.setdefault(place.client, deque()).append(place)
            self._waiting += 1
            place.position = self._turns(place.client)
        else:
            self._our_line.append(place)
        timer = loop.call_later(wait_s, self._expire, place, wait_s)
        try:
            await future
        except asyncio.CancelledError:
            if place._state is _State.HELD:  # it was given in the moment in which the client left
                self._release(place, is_used=False)
            elif place._state is _State.WAITING:
                self._remove(place)
            self._left += 1
            raise
        finally:
            timer.cancel()
        if place._state is _State.OVER:
            raise self._busy(place._refusal, turns=self._turns(place.client) + 1)

    def _turns(self, client: str) -> int:
        """How many turns pass until all that *client* has waiting now have theirs."""
        own = len(self._lines.get(client, ()))
        return sum(min(len(line), own) for line in self._lines.values())

    def _displace(self, client: str) -> bool:
        """Make room for *client* at the cost of the newest place of whoever has most waiting, if that is fairer."""
        if not self._lines:
            return False
        longest = max(self._lines.values(), key=len)
        if len(longest) < len(self._lines.get(client, ())) + 2:
            return False
        self._displaced += 1
        self._refuse(longest[-1], f"too many requests of this client wait for {self.backend}, and others came")
        return True

    def _expire(self, place: Place, wait_s: float) -> None:
        if place._state is _State.WAITING and place._future is not None and not place._future.done():
            self._expired += not place.is_ours
            self._refuse(place, f"{self.backend} had no place for this request within {wait_s:g} s")

    def _refuse(self, place: Place, message: str) -> None:
        self._remove(place)
        place._refusal = message
        if place._future is not None and not place._future.done():
            place._future.set_result(None)

    def _remove(self, place: Place) -> None:
        place._state = _State.OVER
        if place.is_ours:
            self._our_line.remove(place)
            return
        line = self._lines[place.client]
        line.remove(place)
        self._waiting -= 1
        if not line:
            del self._lines[place.client]

    def _busy(self, message: str, *, turns: int) -> BackendBusy:
        return BackendBusy(message, backend=self.backend, retry_after_s=self.retry_after_s(turns))

    # -- giving

    def _release(self, place: Place, *, is_used: bool = True) -> None:
        """Take *place* back and hand it on. is_used: false if its client left before it could do anything with it."""
        if is_used:
            took = self._now() - place._since
            mean = self._service_s
            self._service_s = took if mean is None else mean + SERVICE_WEIGHT * (took - mean)
        place._state = _State.OVER
        self._ours -= place.is_ours
        while (following := self._next()) is not None:
            if following._future is None or following._future.done():  # cancelled, and not yet run to notice
                following._state = _State.OVER
                continue
            now = self._now()
            following.waited_s = now - following._since
            following._since = now
            following._state = _State.HELD
            self._granted += 1
            self._waited_s += following.waited_s
            self._ours += following.is_ours
            following._future.set_result(None)
            return
        self._free += 1

    def _next(self) -> Place | None:
        """Who waits and is next, taken from its line."""
        if self._our_line and self._has_place_for_ours():
            if not self._lines or self._turns_past_ours >= TURNS_BEFORE_OURS:
                self._turns_past_ours = 0
                return self._our_line.popleft()
            self._turns_past_ours += 1
        if not self._lines:
            return None
        client, line = next(iter(self._lines.items()))
        following = line.popleft()
        self._waiting -= 1
        if line:
            self._lines.move_to_end(client)
        else:
            del self._lines[client]
        return following
