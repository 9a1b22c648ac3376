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
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from proxy.backends.base import BackendResponse, Headers
from proxy.errors import BackendUnreachable

Open = Callable[[], Awaitable[BackendResponse]]
"""Ask the backend: returns when the head is there."""
Identify = Callable[[], Hashable]
"""Work out the whole identity of a request; None: it gets an answer of its own."""

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


_UNKNOWN = object()


class _State(Enum):
    PENDING = auto()
    COMPLETE = auto()
    OVERFLOWED = auto()
    FAILED = auto()


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
        return _LedResponse(share)

    def failed(self, share: Share, error: Exception) -> None:
        """There is no answer, for anybody."""
        share.error = error
        share.settle(_State.FAILED)
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
        if share.state is _State.PENDING:
            share.error = self._stopped()
            share.settle(_State.FAILED)
            if share.response is not None:
                self._close(share.response)

    def _stopped(self) -> BackendUnreachable:
        return BackendUnreachable("the request that this one had joined was stopped", backend=self.backend)

    async def _lead(self, share: Share) -> BackendResponse:
        try:
            while share.response is None and share.state is _State.PENDING:
                await share.leader_turn()
        except BaseException:
            share.leave_leader()
            raise
        if share.response is None:
            assert share.error is not None
            share.leave_leader()
            raise share.error.with_traceback(None)
        return _LedResponse(share)

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
        if share.state is _State.COMPLETE:
            return _JoinedResponse(share)
        if share.state is _State.FAILED:
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
                share.settle(_State.OVERFLOWED)
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
                    share.settle(_State.OVERFLOWED)
                    return
                share.wake_leader()
                while share.held - share.taken >= AHEAD_BYTES and not share.followers:
                    await share.demand()
            share.settle(_State.COMPLETE)
        except asyncio.CancelledError:
            share.error = self._stopped()
            share.settle(_State.FAILED)
            raise
        except Exception as error:  # handed to those who wait for it, none is swallowed
            share.error = error
            share.settle(_State.FAILED)
        finally:
            self.forget(share)
            if response is not None and share.state is not _State.OVERFLOWED:
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


class Share:
    """One request in flight and what has come of it.

    What most of them never change stands on the class, as one is made for every request and hardly any is shared.
    """

    task: asyncio.Task[None] | None = None
    response: BackendResponse | None = None
    source: AsyncIterator[bytes] | None = None
    chunks: Sequence[bytes] = ()
    held = 0
    taken = 0
    """Bytes that the leader has read of those held."""
    state = _State.PENDING
    error: Exception | None = None
    has_leader = True
    followers = 0
    is_spent = False
    """The leader reads what is not held; nobody can take over from it."""
    _identity: Hashable = _UNKNOWN
    _leader_turn: asyncio.Future[None] | None = None
    _follower_turns: list[asyncio.Future[None]] | None = None
    _demand: asyncio.Future[None] | None = None
    _hold: asyncio.TimerHandle | None = None

    def __init__(self, coalescer: Coalescer, name: Hashable, identify: Identify | None, began_at: float) -> None:
        self._coalescer = coalescer
        self.name = name
        self._identify = identify
        self.began_at = began_at

    @property
    def identity(self) -> Hashable:
        if self._identity is _UNKNOWN:
            self._identity = self.name if self._identify is None else self._identify()
        return self._identity

    @property
    def is_deserted(self) -> bool:
        return not self.has_leader and not self.followers

    # -- waiting; each future has one waiter, so that one who leaves cancels nobody else's

    async def leader_turn(self) -> None:
        self._leader_turn = asyncio.get_running_loop().create_future()
        await self._leader_turn

    async def follower_turn(self) -> None:
        if self.state is _State.PENDING:
            turn = asyncio.get_running_loop().create_future()
            if self._follower_turns is None:
                self._follower_turns = []
            self._follower_turns.append(turn)
            await turn

    async def demand(self) -> None:
        self._demand = asyncio.get_running_loop().create_future()
        await self._demand

    def wake_leader(self) -> None:
        if (turn := self._leader_turn) is not None:
            self._leader_turn = None
            if not turn.done():
                turn.set_result(None)

    def ask_for_more(self) -> None:
        if (demand := self._demand) is not None:
            self._demand = None
            if not demand.done():
                demand.set_result(None)

    def settle(self, state: _State) -> None:
        """What followers wait for is decided."""
        self.state = state
        self._coalescer.forget(self)
        self.wake_leader()
        self._let_followers_go()

    def start_hold(self) -> None:
        if self._hold is None:
            self._hold = asyncio.get_running_loop().call_later(self._coalescer._hold_s, self._end_hold)

    def _end_hold(self) -> None:
        if self.state is _State.PENDING:
            self._coalescer.forget(self)  # nobody else joins what is slow
            self._let_followers_go()

    def _let_followers_go(self) -> None:
        if self._hold is not None and self.state is not _State.PENDING:
            self._hold.cancel()
        turns, self._follower_turns = self._follower_turns, None
        for turn in turns or ():
            if not turn.done():
                turn.set_result(None)

    # -- leaving

    def leave_leader(self) -> None:
        self.has_leader = False
        self._left()

    def leave_follower(self) -> None:
        self.followers -= 1
        self._left()

    def _left(self) -> None:
        if not self.is_deserted:
            return
        self.drop_chunks()
        if self.state is _State.PENDING and self.task is not None:
            self._coalescer.forget(self)
            self.task.cancel()
        elif self.state is _State.OVERFLOWED and self.response is not None and not self.is_spent:
            self._coalescer._close(self.response)

    def drop_chunks(self) -> None:
        self._coalescer._held -= self.held
        self.held = 0
        self.chunks = ()


class _LedResponse:
    """What the leader reads: the chunks as they come."""

    __slots__ = ("_is_open", "_position", "_share")

    def __init__(self, share: Share) -> None:
        self._share = share
        self._position = 0
        self._is_open = True

    @property
    def status(self) -> int:
        assert self._share.response is not None
        return self._share.response.status

    @property
    def headers(self) -> Headers:
        assert self._share.response is not None
        return self._share.response.headers

    @property
    def is_complete(self) -> bool:
        share = self._share
        if share.is_spent:
            return getattr(share.response, "is_complete", False)
        return share.state is _State.COMPLETE and self._position >= len(share.chunks)

    async def chunks(self) -> AsyncIterator[bytes]:
        share = self._share
        while True:
            while self._position < len(share.chunks):
                chunk = share.chunks[self._position]
                self._position += 1
                share.taken += len(chunk)
                share.ask_for_more()
                yield chunk
            match share.state:
                case _State.PENDING:
                    await share.leader_turn()
                case _State.COMPLETE:
                    await self.aclose()
                    return
                case _State.FAILED:
                    assert share.error is not None
                    raise share.error.with_traceback(None)
                case _State.OVERFLOWED:
                    break
        # Nobody shares it any more: from here on it is read as if alone.
        share.is_spent = True
        share.drop_chunks()
        assert share.response is not None
        async for chunk in share.response.chunks() if share.source is None else share.source:
            yield chunk
        await self.aclose()

    async def aclose(self) -> None:
        if self._is_open:
            self._is_open = False
            share = self._share
            share.leave_leader()
            if share.is_spent and share.response is not None:
                await share.response.aclose()


class _JoinedResponse:
    """What a follower reads: a complete answer, from memory."""

    __slots__ = ("_chunks", "_is_open", "_share", "headers", "is_complete", "status")

    def __init__(self, share: Share) -> None:
        assert share.response is not None
        self._share = share
        self._chunks = share.chunks
        self._is_open = True
        self.is_complete = False
        self.status = share.response.status
        self.headers: Headers = share.response.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        last = len(self._chunks) - 1
        for i, chunk in enumerate(self._chunks):
            self.is_complete = i == last
            yield chunk
        await self.aclose()

    async def aclose(self) -> None:
        if self._is_open:
            self._is_open = False
            self._share.leave_follower()


def is_joined(response: BackendResponse) -> bool:
    """Whether *response* came by joining another request."""
    return isinstance(response, _JoinedResponse)


def content_length(headers: Headers) -> int | None:
    """What the backend announced; None where it is absent or no number."""
    for name, value in headers:
        if name == b"content-length":
            return int(value) if value.isdigit() else None
    return None
