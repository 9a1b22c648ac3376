"""Our own queries have places in the count of the backend, behind the clients', and keep nobody waiting for ever."""

from __future__ import annotations

import asyncio

import pytest

from proxy.backends.base import Solutions
from proxy.errors import BackendBusy, BackendTimeout
from proxy.pipeline.own import QUESTIONS, OwnQueries
from proxy.pipeline.queue import TURNS_BEFORE_OURS, BackendQueue


class Slow:
    """A backend whose queries take *took_s*, and that says how many ran at once."""

    name = "slow"
    orphan_s = 60.0

    def __init__(self, took_s: float = 0.02) -> None:
        self.took_s = took_s
        self.running = self.most = 0
        self.limits: list[float] = []

    async def select(self, query, *, timeout_s, limit_rows=None):
        self.limits.append(timeout_s)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if self.took_s > timeout_s:
                await asyncio.sleep(timeout_s)
                raise BackendTimeout("too slow", backend=self.name)
            await asyncio.sleep(self.took_s)
        finally:
            self.running -= 1
        return Solutions((), [])

    async def probe(self, *, timeout_s):
        await self.select("ASK {}", timeout_s=timeout_s)


async def hold(queue, client, order=None, held_s=0.005):
    async with queue.place(client):
        if order is not None:
            order.append(client)
        await asyncio.sleep(held_s)


def test_our_queries_count_and_leave_half_of_the_places():
    """However many of ours there are, a client finds a place."""

    async def main():
        queue, slow = BackendQueue(4, 10, 1.0), Slow()
        own = OwnQueries(slow, queue)
        asked = [asyncio.create_task(own.select("q", timeout_s=5)) for _ in range(8)]
        await asyncio.sleep(0.01)
        assert queue.stats().running == 2
        await asyncio.wait_for(hold(queue, "client"), 0.015)  # at once: a place was left
        await asyncio.gather(*asked)
        assert slow.most == 2 and queue.stats().running == queue.stats().waiting == 0

    asyncio.run(main())


def test_a_client_comes_first_and_ours_comes_at_all():
    """With one place and clients that always wait, ours has its turn after TURNS_BEFORE_OURS of theirs."""

    async def main():
        queue, order = BackendQueue(1, 100, 5.0), []
        first = asyncio.create_task(hold(queue, "first"))
        await asyncio.sleep(0)

        async def ours(waited_s):
            order.append("ours")

        run = asyncio.create_task(queue.run(ours, client=None, wait_s=5.0))
        await asyncio.sleep(0)
        clients = [asyncio.create_task(hold(queue, f"c{i}", order, 0.001)) for i in range(3 * TURNS_BEFORE_OURS)]
        await asyncio.gather(first, run, *clients)
        assert order.index("ours") == TURNS_BEFORE_OURS

    asyncio.run(main())


def test_the_wait_counts_against_the_limit_of_a_check():
    """A confirmation that waits for a place has less time left; a chunk of the index has all of it."""

    async def main():
        queue, slow = BackendQueue(1, 10, 5.0), Slow()
        for is_timed_whole in (True, False):
            holding = asyncio.create_task(hold(queue, "client", held_s=0.2))
            await asyncio.sleep(0)
            await OwnQueries(slow, queue, is_timed_whole=is_timed_whole).select("q", timeout_s=1.0)
            await holding
        checked, read = slow.limits
        assert 0.5 < checked < 0.85 and read == 1.0

    asyncio.run(main())


def test_without_a_place_in_time_it_is_busy_and_nothing_is_left():
    """A full queue is told apart from a backend that fails; who gives up waiting leaves no trace."""

    async def main():
        queue, slow = BackendQueue(1, 10, 5.0), Slow()
        async with queue.place("client"):
            with pytest.raises(BackendBusy):
                await OwnQueries(slow, queue).probe(timeout_s=0.02)
            waiting = asyncio.create_task(OwnQueries(slow, queue).probe(timeout_s=5))
            await asyncio.sleep(0.01)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        assert slow.limits == [] and queue.stats().running == 0
        await OwnQueries(slow, queue).probe(timeout_s=1)

    asyncio.run(main())


def test_a_query_that_we_gave_up_keeps_its_place_while_it_may_run():
    """A database that cannot be told to stop works on, and is not given more meanwhile."""

    async def main():
        queue, slow = BackendQueue(2, 10, 5.0), Slow(took_s=10)
        with pytest.raises(BackendTimeout):
            await OwnQueries(slow, queue).select("q", timeout_s=0.02)
        assert queue.stats().orphans == queue.stats().running == 1

    asyncio.run(main())


def test_what_a_question_tries_stands_among_the_clients():
    """It takes turns with them, as one line for all questions, and is refused like them."""

    async def main():
        queue, slow, order = BackendQueue(1, 2, 5.0), Slow(0.001), []
        own = OwnQueries(slow, queue, is_asked_for=True)
        first = asyncio.create_task(hold(queue, "first"))
        await asyncio.sleep(0)
        tried = asyncio.create_task(own.select("q", timeout_s=1))
        await asyncio.sleep(0)
        tried.add_done_callback(lambda _: order.append(QUESTIONS))
        later = asyncio.create_task(hold(queue, "later", order))
        await asyncio.sleep(0)
        with pytest.raises(BackendBusy):
            await own.select("q", timeout_s=1)
        await asyncio.gather(first, tried, later)
        assert sorted(order) == ["later", QUESTIONS] and queue.stats().granted == 3

    asyncio.run(main())
