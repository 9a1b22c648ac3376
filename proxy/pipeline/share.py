"""One request in flight that several may be waiting for: who reads, what is held, when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING

from proxy.backends.base import BackendResponse

if TYPE_CHECKING:
    from proxy.pipeline.coalesce import Coalescer

Identify = Callable[[], Hashable]
"""Work out the whole identity of a request; None: it gets an answer of its own."""
_UNKNOWN = object()


class State(Enum):
    PENDING = auto()
    COMPLETE = auto()
    OVERFLOWED = auto()
    FAILED = auto()


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
    state = State.PENDING
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
        if self.state is State.PENDING:
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

    def settle(self, state: State) -> None:
        """What followers wait for is decided."""
        self.state = state
        self._coalescer.forget(self)
        self.wake_leader()
        self._let_followers_go()

    def start_hold(self) -> None:
        if self._hold is None:
            self._hold = asyncio.get_running_loop().call_later(self._coalescer._hold_s, self._end_hold)

    def _end_hold(self) -> None:
        if self.state is State.PENDING:
            self._coalescer.forget(self)  # nobody else joins what is slow
            self._let_followers_go()

    def _let_followers_go(self) -> None:
        if self._hold is not None and self.state is not State.PENDING:
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
        if self.state is State.PENDING and self.task is not None:
            self._coalescer.forget(self)
            self.task.cancel()
        elif self.state is State.OVERFLOWED and self.response is not None and not self.is_spent:
            self._coalescer._close(self.response)

    def drop_chunks(self) -> None:
        self._coalescer._held -= self.held
        self.held = 0
        self.chunks = ()
