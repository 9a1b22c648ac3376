"""A language model's say in a choice: the best few candidates get one number more, within a time of its own.

One thread works for all questions of the process; a bounded number may wait. Where the queue is full, the time is over or the
model fails, the candidates keep the scores they have: an answer never depends on the model.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from proxy.errors import ModelError
from proxy.nl.enumerate import Candidate

if TYPE_CHECKING:
    from proxy.nl.lm.scorer import LmScorer

JUDGED = 8
"""Candidates that are read: one batch."""
WAITING_MOST = 8
"""Questions that wait for the model; the ninth goes on without it."""
MOST_S = 3.0


@dataclass(slots=True)
class Judge:
    """*scorer* with its one thread. weight: what one nat a token more is worth, in the ranking's scores."""

    scorer: LmScorer
    weight: float = 1.0
    waiting: int = 0
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="judge"))

    async def judge(
        self, question: str, ranked: Sequence[Candidate], *, timeout_s: float
    ) -> tuple[list[Candidate], dict[str, Any]]:
        """*ranked* with its best few in a new order, and an account of it, JSON-ready.

        What is added to the scores has mean 0, so that those judged and the rest stay comparable.
        """
        started = time.perf_counter()
        best = list(ranked[:JUDGED])
        if len(best) < 2:
            return list(ranked), {"state": "nothing to judge"}
        if self.waiting >= WAITING_MOST:
            return list(ranked), {"state": "busy"}
        timeout_s = min(MOST_S, timeout_s)
        texts, deadline = [c.words for c in best], started + timeout_s
        self.waiting += 1
        loop = asyncio.get_running_loop()

        def work() -> list[float | None]:
            if time.perf_counter() >= deadline:
                return [None] * len(texts)
            return self.scorer.score(question, texts, clock=time.perf_counter, deadline=deadline)

        done = loop.run_in_executor(self._thread, work)
        done.add_done_callback(self._left)
        try:
            async with asyncio.timeout(timeout_s):
                found = await asyncio.shield(done)
        except TimeoutError:
            return list(ranked), {"state": "out of time"}
        except ModelError as exc:
            return list(ranked), {"state": "failed", "error": str(exc)[:200]}
        if any(f is None for f in found):
            return list(ranked), {"state": "out of time"}
        values = [f for f in found if f is not None]
        mean = sum(values) / len(values)
        for c, value in zip(best, values, strict=True):
            c.features["likelihood"] = value
            c.score += self.weight * (value - mean)
        best.sort(key=lambda c: -c.score)
        account = {"state": "judged", "candidates": len(best), "ms": round(1000 * (time.perf_counter() - started), 1)}
        return [*best, *ranked[len(best) :]], account

    def _left(self, done: asyncio.Future[list[float | None]]) -> None:
        self.waiting -= 1
        if not done.cancelled():
            done.exception()  # nobody may be waiting for it any more

    def close(self) -> None:
        """Let the thread end; what is being scored is finished."""
        self._thread.shutdown(wait=False, cancel_futures=True)
