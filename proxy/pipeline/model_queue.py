"""A language model's one thread, and the bounded number of questions that wait for it.

A step uses all cores or the whole GPU, so two at once would only take each other's turn. What waits under the same key may be
worked on in one batch: writing is bound by reading the weights, which a batch does once. A question whose time is over, or that
nobody waits for any more, costs nothing, and stops what it has begun at the next token.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from proxy.errors import ModelBusy, ModelError

T = TypeVar("T")
WAITING_MOST = 8
"""Questions that wait for the model; the ninth is told so at once."""
_LATEST, _FORGOTTEN = 0.3, 0.9
"""Weight of the latest time in what one is expected to take; what is left of that when it has turned a question away."""


Work = Callable[[Sequence["Turn[T]"]], Sequence[Any]]
"""Turns of one key → for each what came of it, or the ModelError that did. Raises: ModelError: nothing came of any."""


@dataclass(slots=True, eq=False)
class Turn(Generic[T]):
    """One question's turn. due: its time is over, by `time.perf_counter`. deadline: the same, or long ago where nobody waits.

    waited_s: in the queue. worked_s: of the whole batch. together: questions in the batch.
    """

    item: T
    work: Work[T]
    key: Hashable
    due: float
    deadline: float
    queued: float
    is_whole: bool = False
    done: Future[Any] = field(default_factory=Future)
    waited_s: float = 0.0
    worked_s: float = 0.0
    together: int = 0

    def account(self) -> dict[str, Any]:
        """JSON-ready."""
        found = {"waited_ms": round(1000 * self.waited_s, 1), "ms": round(1000 * self.worked_s, 1)}
        return found | {"together": self.together} if self.together > 1 else found


@dataclass(slots=True)
class Tally:
    """outcomes: "done", "busy", "late", "failed", "left" (the client did) → questions. seconds: that the model worked.
    batches: how often."""

    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    batches: int = 0


class ModelQueue:
    """For one model. together_most: questions in one batch. Used from one event loop; the work is done in a thread."""

    def __init__(self, *, waiting_most: int = WAITING_MOST, together_most: int = 1, name: str = "model") -> None:
        self.waiting_most, self.together_most = waiting_most, together_most
        self.tally = Tally()
        self._waiting: deque[Turn[Any]] = deque()
        self._count = 0
        self._expected_s = 0.0
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    @property
    def waiting(self) -> int:
        """Questions that are worked on or wait."""
        return self._count

    async def run(
        self, work: Work[T], item: T, *, key: Hashable, timeout_s: float, grace_s: float = 0.0, is_whole: bool = False
    ) -> tuple[Any, Turn[T]]:
        """What *work* makes of *item*, alone or beside others that came under *key*, which stands for the same work.

        *work* should be done at the turn's deadline, *timeout_s* from now; it is waited for *grace_s* longer. is_whole: a part
        of the result is worth nothing, so that nothing is begun that would be late, by what such work took lately.

        Raises:
            ModelBusy: the queue is full, or it would be late. TimeoutError: not done in time. ModelError: what *work* raised.
        """
        if self._count >= self.waiting_most:
            self.tally.outcomes["busy"] += 1
            raise ModelBusy(f"{self._count} questions wait for the language model")
        if is_whole and self._expected_s and (self._count + 1) * self._expected_s > timeout_s:
            self._expected_s *= _FORGOTTEN  # a machine that was busy may be so no more
            self.tally.outcomes["busy"] += 1
            raise ModelBusy(f"the language model takes {self._expected_s:.1f} s for a question, and {self._count} wait")
        now = time.perf_counter()
        turn = Turn(item, work, key, now + timeout_s, now + timeout_s, now, is_whole)
        with self._lock:
            self._waiting.append(turn)
            self._count += 1
        turn.done.add_done_callback(self._left)
        self._thread.submit(self._next)
        waited_for = asyncio.wrap_future(turn.done)
        waited_for.add_done_callback(_seen)
        try:
            async with asyncio.timeout(timeout_s + grace_s):
                found = await asyncio.shield(waited_for)
        except TimeoutError:
            self.tally.outcomes["late"] += 1
            raise
        except ModelError:
            self.tally.outcomes["failed"] += 1
            raise
        except asyncio.CancelledError:
            self.tally.outcomes["left"] += 1
            raise
        finally:
            turn.deadline = float("-inf")
            self._give_up(turn)
        self.tally.outcomes["done"] += 1
        return found, turn

    def _left(self, _: Future[Any]) -> None:
        with self._lock:
            self._count -= 1

    def _give_up(self, turn: Turn[Any]) -> None:
        """Where nobody waits for *turn* any more, its place is free at once."""
        with self._lock:
            is_waiting = turn in self._waiting
            if is_waiting:
                self._waiting.remove(turn)
        if is_waiting:
            turn.done.set_exception(TimeoutError("nobody waits for it"))

    def _next(self) -> None:
        """Work on the first that waits, and on those that fit beside it. There is one call for each turn, so some find none."""
        started = time.perf_counter()
        with self._lock:
            late = [t for t in self._waiting if t.deadline <= started]
            there = [t for t in self._waiting if t.deadline > started]
            batch = [t for t in there if t.key == there[0].key][: self.together_most]
            self._waiting = deque(t for t in there if t not in batch)
        for turn in late:
            turn.done.set_exception(TimeoutError("out of time before its turn"))
        if not batch:
            return
        work = batch[0].work
        for turn in batch:
            turn.waited_s, turn.together = started - turn.queued, len(batch)
        try:
            found: Sequence[Any] = _done(work, batch)
        except ModelError as exc:
            found = self._alone(work, batch) if len(batch) > 1 else [exc]
        except BaseException as exc:  # a mistake of ours: it belongs to those who asked, not to a thread that nobody sees
            found = [exc] * len(batch)
        worked = time.perf_counter() - started
        if batch[0].is_whole:
            before = self._expected_s or worked
            self._expected_s = before + _LATEST * (worked - before)
        self.tally.seconds, self.tally.batches = self.tally.seconds + worked, self.tally.batches + 1
        for turn, result in zip(batch, found, strict=True):
            turn.worked_s = worked
            if isinstance(result, BaseException):
                turn.done.set_exception(result)
            else:
                turn.done.set_result(result)

    def _alone(self, work: Work[Any], batch: Sequence[Turn[Any]]) -> list[Any]:
        """What one batch had no room for may go one by one, and what one question breaks does not break the others."""
        out: list[Any] = []
        for turn in batch:
            try:
                out.append(_done(work, [turn])[0])
            except ModelError as exc:
                out.append(exc)
        return out


def _seen(done: asyncio.Future[Any]) -> None:
    """Nobody may be waiting for it any more, and asyncio would complain of an error that nobody has seen."""
    if not done.cancelled():
        done.exception()


def _done(work: Work[Any], batch: Sequence[Turn[Any]]) -> Sequence[Any]:
    try:
        return work(batch)
    except MemoryError as exc:  # of numpy: onnxruntime's own is a ModelError already
        raise ModelError("there is not enough memory for the language model") from exc
