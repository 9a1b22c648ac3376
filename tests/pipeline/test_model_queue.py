import asyncio
import gc
import threading
import time
from collections.abc import Sequence

import pytest

from proxy.errors import ModelBusy, ModelError
from proxy.pipeline.model_queue import ModelQueue, Turn


class Worker:
    """Doubles numbers; can be held, and breaks at those it is told to."""

    def __init__(self, *, breaks_at: Sequence[int] = (), most: int = 99) -> None:
        self.free, self.begun = threading.Event(), threading.Event()
        self.batches: list[list[int]] = []
        self.breaks_at, self.most = breaks_at, most

    def work(self, turns: Sequence[Turn[int]]) -> list[object]:
        items = [t.item for t in turns]
        self.batches.append(items)
        self.begun.set()
        assert self.free.wait(10)
        if len(items) > self.most:
            raise ModelError("no memory")
        return [ModelError("broken") if i in self.breaks_at else 2 * i for i in items]


async def held(queue: ModelQueue, worker: Worker, items: Sequence[int], **given: object) -> list[object]:
    """Ask for all *items* while the worker is busy with -1, and let it go: what came of each."""
    first = asyncio.create_task(queue.run(worker.work, -1, key="first", timeout_s=10))
    await asyncio.to_thread(worker.begun.wait, 10)
    tasks = [asyncio.create_task(queue.run(worker.work, i, **({"key": "k", "timeout_s": 10} | given))) for i in items]
    await asyncio.sleep(0)
    worker.free.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert (await first)[0] == -2
    return [f if isinstance(f, BaseException) else f[0] for f in found]


def test_what_waits_under_one_key_is_worked_on_together() -> None:
    """At most so many at once, in the order they came; the account says how many, and how long each waited."""
    queue, worker = ModelQueue(together_most=3), Worker()
    assert asyncio.run(held(queue, worker, range(5))) == [0, 2, 4, 6, 8]
    assert worker.batches == [[-1], [0, 1, 2], [3, 4]]
    assert queue.tally.batches == 3 and queue.tally.outcomes == {"done": 6}


def test_other_keys_keep_their_turn() -> None:
    """A batch takes what is like the first that waits; the next first comes next."""
    queue, worker = ModelQueue(together_most=8), Worker()

    async def run() -> None:
        first = asyncio.create_task(queue.run(worker.work, 0, key="a", timeout_s=10))
        await asyncio.to_thread(worker.begun.wait, 10)
        tasks = [asyncio.create_task(queue.run(worker.work, n, key=k, timeout_s=10)) for n, k in enumerate("abab", start=1)]
        await asyncio.sleep(0)
        worker.free.set()
        results = await asyncio.gather(first, *tasks)
        assert [turn.together for _, turn in results] == [1, 2, 2, 2, 2]
        assert "together" in results[1][1].account() and "together" not in results[0][1].account()

    asyncio.run(run())
    assert worker.batches == [[0], [1, 3], [2, 4]]


def test_one_that_breaks_does_not_break_its_neighbours() -> None:
    """Each gets what came of its own; a batch that has no room goes one by one."""
    queue, worker = ModelQueue(together_most=4), Worker(breaks_at=[2], most=1)
    found = asyncio.run(held(queue, worker, [1, 2, 3]))
    assert [found[0], found[2]] == [2, 6]
    assert isinstance(found[1], ModelError) and str(found[1]) == "broken"
    assert worker.batches[1:] == [[1, 2, 3], [1], [2], [3]]
    assert queue.tally.outcomes == {"done": 3, "failed": 1}


def test_the_queue_is_bounded() -> None:
    """One more than may wait is told so at once."""
    queue, worker = ModelQueue(waiting_most=3), Worker()
    found = asyncio.run(held(queue, worker, range(4)))
    assert found[:2] == [0, 2]
    assert all(isinstance(f, ModelBusy) for f in found[2:])
    assert queue.waiting == 0 and queue.tally.outcomes == {"done": 3, "busy": 2}


def test_who_is_late_or_leaves_costs_nothing_and_frees_the_place(caplog: pytest.LogCaptureFixture) -> None:
    """What nobody waits for any more is not worked on; its place is free before the model is."""
    queue, worker = ModelQueue(waiting_most=2), Worker()

    async def run() -> None:
        first = asyncio.create_task(queue.run(worker.work, 0, key="k", timeout_s=10))
        await asyncio.to_thread(worker.begun.wait, 10)
        with pytest.raises(TimeoutError):
            await queue.run(worker.work, 1, key="k", timeout_s=0.01)
        leaving = asyncio.create_task(queue.run(worker.work, 2, key="k", timeout_s=10))
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert queue.waiting == 1
        worker.free.set()
        await first

    asyncio.run(run())
    assert worker.batches == [[0]]
    assert queue.tally.outcomes == {"late": 1, "left": 1, "done": 1}
    gc.collect()  # asyncio complains when a future is thrown away
    assert not caplog.records


def test_a_turn_that_is_worked_on_learns_that_it_is_over() -> None:
    """Its deadline comes when the client leaves, so that writing stops at the next token."""
    queue = ModelQueue()
    seen: list[float] = []
    begun, over = threading.Event(), threading.Event()

    def work(turns: Sequence[Turn[int]]) -> list[int]:
        begun.set()
        for _ in range(1000):
            if turns[0].deadline < time.perf_counter():
                seen.append(turns[0].deadline)
                over.set()
                return [0]
            time.sleep(0.01)
        return [1]

    async def run() -> None:
        task = asyncio.create_task(queue.run(work, 0, key="k", timeout_s=100))
        await asyncio.to_thread(begun.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(over.wait, 10)

    asyncio.run(run())
    assert seen


def test_a_mistake_comes_to_who_asked() -> None:
    """Not every exception is a ModelError; none is lost in a thread, and the queue goes on."""
    queue = ModelQueue()

    def wrong(turns: Sequence[Turn[int]]) -> list[int]:
        raise KeyError("x")

    async def run() -> None:
        with pytest.raises(KeyError):
            await queue.run(wrong, 0, key="k", timeout_s=10)
        assert (await queue.run(lambda turns: [7], 0, key="k", timeout_s=10))[0] == 7

    asyncio.run(run())
    assert queue.waiting == 0


def test_what_would_be_late_is_not_begun() -> None:
    """After work that took longer than there is time, questions are turned away at once, and now and then it is tried again."""
    queue, begun = ModelQueue(), list[int]()

    def work(turns: Sequence[Turn[int]]) -> list[int]:
        begun.extend(t.item for t in turns)
        time.sleep(0.05)
        return [0] * len(turns)

    async def ask(item: int, timeout_s: float) -> str:
        try:
            await queue.run(work, item, key="k", timeout_s=timeout_s, is_whole=True)
        except ModelBusy:
            return "busy"
        except TimeoutError:
            while queue.waiting:
                await asyncio.sleep(0.01)
            return "late"
        return "done"

    async def run() -> list[str]:
        return [await ask(0, 0.01), await ask(1, 0.01), *[await ask(n, 0.01) for n in range(2, 300)], await ask(300, 60)]

    states = asyncio.run(run())
    assert states[:2] == ["late", "busy"] and states[-1] == "done"
    assert 1 not in begun and 2 < len(begun) < 100
