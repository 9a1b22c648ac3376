import asyncio
import threading
import time
from collections.abc import Sequence
from types import SimpleNamespace

from proxy.errors import ModelError
from proxy.nl.enumerate import Candidate
from proxy.nl.ir import Pattern, Query
from proxy.nl.plan import Plan
from proxy.pipeline.judging import JUDGED, Judge
from proxy.pipeline.model_queue import WAITING_MOST


def candidates(count: int = 3) -> list[Candidate]:
    return [Candidate(Plan(()), Query(Pattern(()), ()), f"reading {n}", {}, score=-0.1 * n) for n in range(count)]


class Scripted:
    """Prefers the last text; can be held, slowed or broken."""

    def __init__(self, *, free: threading.Event | None = None, error: BaseException | None = None, fails_at: int = -1) -> None:
        self.free, self.error, self.fails_at, self.calls = free, error, fails_at, 0
        self.model = SimpleNamespace(tokens_read=0)

    def score(self, question: str, texts: Sequence[str], *, clock: object, deadline: float) -> list[float | None]:
        self.calls += 1
        self.model.tokens_read += 10 * len(texts)
        if self.free is not None:
            self.free.wait(10)
        if self.error is not None:
            raise self.error
        return [None if n == self.fails_at else float(n) for n in range(len(texts))]


def test_the_best_few_are_put_in_order_and_the_rest_stays() -> None:
    """What is added has mean 0; candidates behind the few keep place and score."""
    ranked = candidates(JUDGED + 2)
    before = [c.score for c in ranked]

    found, account = asyncio.run(Judge(Scripted(), weight=1.0).judge("?", ranked, timeout_s=5))
    assert [c.words for c in found] == [f"reading {n}" for n in (*reversed(range(JUDGED)), JUDGED, JUDGED + 1)]
    assert (account["state"], account["tokens_read"]) == ("judged", 10 * JUDGED)
    assert account["waited_ms"] >= 0 and account["ms"] >= 0
    assert abs(sum(c.score for c in found) - sum(before)) < 1e-9
    assert found[0].features["likelihood"] == JUDGED - 1


def test_a_model_that_fails_or_is_late_changes_nothing() -> None:
    """The order and the scores are those of the ranking, and the account says why."""
    held = threading.Event()
    cases = {
        "failed": Scripted(error=ModelError("out of memory")),
        "failed ": Scripted(error=MemoryError()),
        "out of time": Scripted(free=held),
        "too long": Scripted(fails_at=1),
    }
    try:
        for state, scripted in cases.items():
            ranked = candidates()
            found, account = asyncio.run(Judge(scripted).judge("?", ranked, timeout_s=0.1 if scripted.free else 20))
            assert [c.score for c in found] == [0.0, -0.1, -0.2]
            assert account["state"] == state.strip()
    finally:
        held.set()


def test_the_queue_is_bounded_and_the_loop_stays_free() -> None:
    """While the model is busy, further questions go on without it at once, and the event loop turns."""

    async def run() -> tuple[list[str], float, int]:
        free = threading.Event()
        judge = Judge(Scripted(free=free))
        tasks = [asyncio.create_task(judge.judge("?", candidates(), timeout_s=5)) for _ in range(WAITING_MOST)]
        await asyncio.sleep(0)
        started = time.perf_counter()
        _, account = await judge.judge("?", candidates(), timeout_s=5)
        waited = time.perf_counter() - started
        free.set()
        states = [account["state"], *[a["state"] for _, a in await asyncio.gather(*tasks)]]
        await asyncio.sleep(0.05)
        return states, waited, judge.queue.waiting

    states, waited, waiting = asyncio.run(run())
    assert states == ["busy", *["judged"] * WAITING_MOST]
    assert waited < 1.0 and waiting == 0


def test_what_waited_too_long_is_not_scored() -> None:
    """A question whose time went by in the queue costs the model nothing."""

    async def run() -> int:
        free, scripted = threading.Event(), Scripted()
        scripted.free = free
        judge = Judge(scripted)
        first = asyncio.create_task(judge.judge("?", candidates(), timeout_s=5))
        await asyncio.sleep(0.05)
        await judge.judge("?", candidates(), timeout_s=0.05)
        free.set()
        await first
        while judge.queue.waiting:
            await asyncio.sleep(0.01)
        return scripted.calls

    assert asyncio.run(run()) == 1


def test_a_time_that_is_over_is_out_of_time() -> None:
    """A millisecond, none, or less than none: the candidates stay as they are, and the model is free for the next."""
    judge = Judge(Scripted(free=threading.Event()))
    for timeout_s in (0.001, 0.0, -3.0):
        found, account = asyncio.run(judge.judge("?", candidates(), timeout_s=timeout_s))
        assert account["state"] == "out of time"
        assert [c.score for c in found] == [0.0, -0.1, -0.2]
    judge.scorer.free.set()
    _, account = asyncio.run(judge.judge("?", candidates(), timeout_s=20))
    assert account["state"] == "judged"


def test_fifty_questions_at_once() -> None:
    """Each gets its candidates, judged or as they were; afterwards nothing waits."""

    async def run() -> list[str]:
        judge = Judge(Scripted())
        found = await asyncio.gather(*(judge.judge(f"{n}?", candidates(), timeout_s=20) for n in range(50)))
        assert all(len(ranked) == 3 for ranked, _ in found)
        assert judge.queue.waiting == 0
        return [account["state"] for _, account in found]

    states = asyncio.run(run())
    assert states.count("judged") >= WAITING_MOST and set(states) <= {"judged", "busy"}
