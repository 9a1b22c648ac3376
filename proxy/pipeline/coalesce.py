"""Join identical reads in flight: the first asks the backend, those that come meanwhile get the same answer.

The first is the *leader*, the others *followers*. Two promises bound it. The leader never waits for a follower. A follower
never gets a part of an answer that it may not get the rest of: it sees nothing until the answer is complete in memory, and if
the answer outgrows the memory set aside for it, or takes too long after its head, the follower asks the backend itself, as it
would have without all this. So sharing is for answers of the size that people look at; a huge one streams to its leader alone.

Most requests meet nobody, so those cost next to nothing: the leader asks in its own task, under a cheap name, and only when a
second one of that name comes is it worked out whether the two are identical. A task that reads for all is made when the head is
there and somebody has joined.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass

from proxy.backends.base import BackendResponse, Headers
from proxy.errors import BackendUnreachable
from proxy.pipeline.share import Identify, Share, State
from proxy.pipeline.shared_response import JoinedResponse, LedResponse

Open = Callable[[], Awaitable[BackendResponse]]
"""Ask the backend: returns when the head is there."""

AHEAD_BYTES = 64 * 1024
"""So much is read ahead of a leader that has no followers."""
LARGE_KEYS = 1024
LARGE_S = 300.0
"""So many keys, for so long, are remembered to have answers too large to share, so that nobody waits for them in vain."""


@dataclass(frozen=True, slots=True)
class CoalesceStats:
    """A snapshot for metrics. in_flight, held_bytes: now. led, joined, parted: so far; parted: followers that went on alone."""

    in_flight: int
    held_bytes: int
    led: int
    joined: int
    parted: int


class Coalescer:
    """Requests in flight by key. For one event loop.

    Args:
        share_limit_bytes: the largest body that is shared; it is held while the request is in flight.
        total_limit_bytes: … of all of them together.
        hold_s: how long after the head a follower waits for the rest of a body before it asks itself.
        join_window_s: how long after its start a request may be joined; None: as long as it is in flight. What is joined may be
            as old as this, so set it where another process may let updates through.
        followers: at most so many for one leader.
    """

    def __init__(
        self,
        *,
        share_limit_bytes: int = 256 * 1024,
        total_limit_bytes: int = 16 * 1024 * 1024,
        hold_s: float = 1.0,
        join_window_s: float | None = None,
        followers: int = 1000,
        backend: str = "the backend",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.backend = backend
        self._share_limit = share_limit_bytes
        self._total_limit = total_limit_bytes
        self._hold_s = hold_s
        self._join_window_s = join_window_s
        self._followers = followers
        self._now = now
        self._shares: dict[Hashable, list[Share]] = {}
        """Name → the requests of that name that may be joined."""
        self._large: OrderedDict[Hashable, float] = OrderedDict()
        self._live: set[Share] = set()
        """Those whose task runs: the loop itself holds tasks only weakly."""
        self._closing: set[asyncio.Task[None]] = set()
        self._held = 0
        self._led = self._joined = self._parted = 0

    async def fetch(self, name: Hashable, open_: Open, *, identify: Identify | None = None) -> BackendResponse:
        """Get the answer to a request, by asking or by joining who asks.

        A request may be joined until its head is there, and then as long as somebody who has joined waits for the rest. What
        *open_* raises is raised to all that wait for it. If the leader leaves before the head, its question ends with it, and
        is asked anew for those who stay.

        Args:
            name: requests of different names are never joined; cheap, such as the query text.
            identify: called only when two of one name meet; they are joined if both give the same. None: the name is all.
        Returns:
            A response to be read and closed like any other; ``is_joined(response)`` tells which way it came.
        """
        shares = self._shares.get(name)
        if shares is not None:
            identity = name if identify is None else identify()
            if identity is None:
                return await open_()
            if identity in self._large and self._is_large(identity):
                return await open_()
            for share in shares:
                if share.identity == identity and self._may_join(share):
                    return await self._follow(share, open_)
        share = self.lead(name, identify)
        try:
            response = await open_()
        except Exception as error:  # raised to all, none is swallowed
            self.failed(share, error)
            raise
        except BaseException:
            self.left(share, open_)
            raise
        return self.answered(share, response, open_) or response

    # -- a leader that does not wait

    def is_asked(self, name: Hashable) -> bool:
        """Whether a request of that name is in flight; ``fetch`` finds out whether it can be joined."""
        return name in self._shares

    def lead(self, name: Hashable, identify: Identify | None = None) -> Share:
        """Begin to ask as a leader; ``answered``, ``failed`` or ``left`` must follow."""
        share = Share(self, name, identify, self._now())
        shares = self._shares.get(name)
        if shares is None:
            self._shares[name] = [share]
        else:
            shares.append(share)
        self._led += 1
        return share

    def answered(self, share: Share, response: BackendResponse, open_: Open) -> BackendResponse | None:
        """The head of *response* is there.

        Returns:
            What the leader must read in place of *response*, as others have joined; None: nobody has.
        """
        if not share.followers:
            self.forget(share)
            return None
        share.response = response
        self._pump_for(share, open_)
        return LedResponse(share)

    def failed(self, share: Share, error: Exception) -> None:
        """There is no answer, for anybody."""
        share.error = error
        share.settle(State.FAILED)
        share.leave_leader()

    def left(self, share: Share, open_: Open) -> None:
        """The leader has left before the head: for those who stay it is asked anew."""
        share.has_leader = False
        if share.followers:
            self._pump_for(share, open_)
        else:
            self.forget(share)

    def seal(self) -> None:
        """Let nothing that comes from now on join what is in flight: call it before and after an update."""
        self._shares.clear()

    def stats(self) -> CoalesceStats:
        return CoalesceStats(len(self._live) + len(self._closing), self._held, self._led, self._joined, self._parted)

    async def aclose(self) -> None:
        """Stop all that is in flight."""
        tasks = [share.task for share in self._live if share.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._closing, return_exceptions=True)

    def _close(self, response: BackendResponse) -> None:
        """Close *response* from where nothing can be awaited."""
        task = asyncio.create_task(response.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    # -- joining

    def _may_join(self, share: Share) -> bool:
        return share.followers < self._followers and (
            self._join_window_s is None or self._now() - share.began_at <= self._join_window_s
        )

    def _is_large(self, identity: Hashable) -> bool:
        if self._now() - self._large[identity] <= LARGE_S:
            return True
        del self._large[identity]
        return False

    def _pump_for(self, share: Share, open_: Open) -> None:
        self._live.add(share)
        share.task = asyncio.create_task(self._pump(share, open_))
        share.task.add_done_callback(lambda _: self._ended(share))

    def _ended(self, share: Share) -> None:
        """Clean up after the reading; also where it was cancelled before its first step, of which it does not hear."""
        self._live.discard(share)
        if share.state is State.PENDING:
            share.error = self._stopped()
            share.settle(State.FAILED)
            if share.response is not None:
                self._close(share.response)

    def _stopped(self) -> BackendUnreachable:
        return BackendUnreachable("the request that this one had joined was stopped", backend=self.backend)

    async def _lead(self, share: Share) -> BackendResponse:
        try:
            while share.response is None and share.state is State.PENDING:
                await share.leader_turn()
        except BaseException:
            share.leave_leader()
            raise
        if share.response is None:
            assert share.error is not None
            share.leave_leader()
            raise share.error.with_traceback(None)
        return LedResponse(share)

    async def _follow(self, share: Share, open_: Open) -> BackendResponse:
        share.followers += 1
        self._joined += 1
        if share.response is not None:
            share.start_hold()
        share.ask_for_more()
        try:
            await share.follower_turn()
        except BaseException:
            share.leave_follower()
            raise
        if share.state is State.COMPLETE:
            return JoinedResponse(share)
        if share.state is State.FAILED:
            share.leave_follower()
            assert share.error is not None
            raise share.error.with_traceback(None)
        self._joined -= 1
        self._parted += 1
        if not share.has_leader and not share.is_spent:
            # The leader has left what it led: the first follower takes over the answer, from its first byte.
            share.has_leader = True
            share.taken = 0
            share.followers -= 1
            return await self._lead(share)
        share.leave_follower()
        return await open_()

    # -- the task that reads for all

    async def _pump(self, share: Share, open_: Open) -> None:
        response = share.response
        try:
            if response is None:
                share.response = response = await open_()
            announced = content_length(response.headers)
            if announced is not None and announced > self._share_limit:
                self._mark_large(share)
                share.settle(State.OVERFLOWED)
                return
            if share.followers:
                share.start_hold()
            share.source = source = response.chunks()
            share.chunks = chunks = []
            async for chunk in source:
                chunks.append(chunk)
                share.held += len(chunk)
                self._held += len(chunk)
                if share.held > self._share_limit or self._held > self._total_limit:
                    if share.held > self._share_limit:
                        self._mark_large(share)
                    share.settle(State.OVERFLOWED)
                    return
                share.wake_leader()
                while share.held - share.taken >= AHEAD_BYTES and not share.followers:
                    await share.demand()
            share.settle(State.COMPLETE)
        except asyncio.CancelledError:
            share.error = self._stopped()
            share.settle(State.FAILED)
            raise
        except Exception as error:  # handed to those who wait for it, none is swallowed
            share.error = error
            share.settle(State.FAILED)
        finally:
            self.forget(share)
            if response is not None and share.state is not State.OVERFLOWED:
                await response.aclose()

    def _mark_large(self, share: Share) -> None:
        self._large[share.identity] = self._now()
        self._large.move_to_end(share.identity)
        if len(self._large) > LARGE_KEYS:
            self._large.popitem(last=False)

    def forget(self, share: Share) -> None:
        """Let nobody join *share* any more."""
        shares = self._shares.get(share.name)
        if shares is not None and share in shares:
            shares.remove(share)
            if not shares:
                del self._shares[share.name]


def content_length(headers: Headers) -> int | None:
    """What the backend announced; None where it is absent or no number."""
    for name, value in headers:
        if name == b"content-length":
            return int(value) if value.isdigit() else None
    return None
