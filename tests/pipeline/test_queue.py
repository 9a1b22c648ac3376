"""The queue in front of a backend: bounded, fair, and without lost places."""

from __future__ import annotations

import asyncio
import random

import pytest

from proxy.errors import BackendBusy, BackendTimeout, BackendUnreachable
from proxy.pipeline.queue import RETRY_MOST_S, BackendQueue
from tests.pipeline.virtual_time import now, run


def make(concurrency=1, max_waiting=10, max_wait_s=100.0):
    return BackendQueue(concurrency, max_waiting, max_wait_s, backend="store", now=now)


async def work(queue, client, seconds, served):
    async with queue.place(client) as place:
        served.append(client)
        await asyncio.sleep(seconds)
    return place


def test_a_free_place_is_given_at_once():
    """Without contention nothing waits, and the place comes back."""

    async def main():
        queue = make(2)
        async with queue.place("a") as place:
            assert (place.waited_s, place.position, queue.stats().running) == (0.0, 0, 1)
        assert (queue.stats().running, queue.stats().granted) == (0, 1)

    run(main())


def test_clients_take_turns():
    """One client with many waiting queries delays another's only query by one turn."""

    async def main():
        queue, served = make(max_waiting=200, max_wait_s=1000), []
        greedy = [asyncio.create_task(work(queue, "greedy", 1, served)) for _ in range(100)]
        await asyncio.sleep(0)
        modest = asyncio.create_task(work(queue, "modest", 1, served))
        place = await modest
        assert served[:3] == ["greedy", "greedy", "modest"]
        assert place.waited_s == pytest.approx(2)
        assert place.position == 2
        await asyncio.gather(*greedy)
        assert len(served) == 101

    run(main())


def test_turns_go_round_all_clients():
    """Three clients with three queries each are served a, b, c, a, b, c …"""

    async def main():
        queue, served = make(max_waiting=20), []
        await asyncio.gather(*(work(queue, client, 1, served) for client in "xaaabbbccc"))
        assert "".join(served) == "xabcabcabc"

    run(main())


def test_concurrency_is_never_exceeded_nor_wasted():
    """With places for three, three run while anyone waits."""

    async def main():
        queue, running, most = make(3, 50), 0, 0

        async def one():
            nonlocal running, most
            async with queue.place("a"):
                running += 1
                most = max(most, running)
                await asyncio.sleep(1)
                running -= 1

        await asyncio.gather(*(one() for _ in range(30)))
        assert most == 3
        assert now() == pytest.approx(10)

    run(main())


def test_a_full_queue_says_when_to_come_back():
    """The estimate is the mean service time, times the turns ahead, over the concurrency."""

    async def main():
        queue, served = make(2, 4), []
        await asyncio.gather(*(work(queue, "a", 8, served) for _ in range(2)))
        tasks = [asyncio.create_task(work(queue, "a", 8, served)) for _ in range(6)]
        await asyncio.sleep(0)
        with pytest.raises(BackendBusy, match="4 more wait") as caught:
            await work(queue, "a", 1, served)
        assert caught.value.retry_after_s == pytest.approx(8 * 5 / 2)
        assert queue.stats().full == 1
        await asyncio.gather(*tasks)

    run(main())


def test_the_estimate_is_bounded():
    """A queue of hour-long queries does not send clients away for a day."""

    async def main():
        queue = make()
        await work(queue, "a", 36_000, [])
        assert queue.retry_after_s(10) == RETRY_MOST_S

    run(main())


def test_who_waits_too_long_is_refused():
    """After max_wait_s the place in the line is given up, and the line goes on without it."""

    async def main():
        queue, served = make(max_wait_s=3), []
        first = asyncio.create_task(work(queue, "a", 5, served))
        await asyncio.sleep(0)
        with pytest.raises(BackendBusy, match="no place for this request within 3 s"):
            await work(queue, "b", 1, served)
        assert now() == pytest.approx(3)
        assert (queue.stats().waiting, queue.stats().expired) == (0, 1)
        await first
        assert queue.stats().running == 0

    run(main())


def test_a_wait_of_zero_refuses_at_once():
    """max_wait_s = 0 turns waiting off, whatever the room in the queue."""

    async def main():
        queue = make(max_wait_s=0)
        async with queue.place("a"):
            with pytest.raises(BackendBusy):
                await work(queue, "b", 1, [])
        await work(queue, "b", 1, [])

    run(main())


def test_a_full_queue_makes_room_for_another_client():
    """Who fills the queue alone loses its newest place to a client that has none waiting."""

    async def main():
        queue, served = make(max_waiting=5), []
        greedy = [asyncio.create_task(work(queue, "greedy", 1, served)) for _ in range(6)]
        await asyncio.sleep(0)
        await work(queue, "modest", 1, served)
        results = await asyncio.gather(*greedy, return_exceptions=True)
        assert [type(r) for r in results].count(BackendBusy) == 1
        assert isinstance(results[-1], BackendBusy)
        assert queue.stats().displaced == 1

    run(main())


def test_a_client_cannot_displace_its_equals():
    """Where all have as many waiting, a full queue is full."""

    async def main():
        queue, served = make(max_waiting=2), []
        tasks = [asyncio.create_task(work(queue, client, 1, served)) for client in "xab"]
        await asyncio.sleep(0)
        with pytest.raises(BackendBusy):
            await work(queue, "c", 1, served)
        await asyncio.gather(*tasks)
        assert served == ["x", "a", "b"]

    run(main())


def test_an_orphan_keeps_its_place():
    """A query that the backend goes on with counts until its owner says that it has ended."""

    async def main():
        queue, served = make(), []
        async with queue.place("a") as place:
            orphan = place.detach(bound_s=60)
        assert (queue.stats().running, queue.stats().orphans) == (1, 1)
        following = asyncio.create_task(work(queue, "b", 1, served))
        await asyncio.sleep(10)
        assert served == []
        orphan.release()
        orphan.release()
        await following
        assert now() == pytest.approx(11)
        assert (queue.stats().running, queue.stats().orphans) == (0, 0)

    run(main())


def test_an_orphan_ends_at_its_bound():
    """A place whose owner never comes back is free after bound_s; a late release does not free another."""

    async def main():
        queue, served = make(), []
        async with queue.place("a") as place:
            orphan = place.detach(bound_s=60)
        await work(queue, "b", 1, served)
        assert now() == pytest.approx(61)
        orphan.release()
        assert (queue.stats().running, queue.stats().overdue) == (0, 1)

    run(main())


def test_a_failing_exchange_gives_its_place_back():
    """An exception in the block frees the place."""

    async def main():
        queue = make()
        with pytest.raises(ZeroDivisionError):
            async with queue.place("a"):
                raise ZeroDivisionError
        assert queue.stats().running == 0

    run(main())


def test_a_place_given_to_one_who_just_left_goes_to_the_next():
    """A release and a cancellation in the same moment lose no wake-up."""

    async def main():
        queue, served = make(), []
        holder = queue.place("x")
        await holder.__aenter__()
        leaving = asyncio.create_task(work(queue, "a", 1, served))
        staying = asyncio.create_task(work(queue, "b", 1, served))
        await asyncio.sleep(0)
        await holder.__aexit__(None, None, None)  # the place is a's from here
        leaving.cancel()
        await staying
        assert served == ["b"]
        assert leaving.cancelled()
        assert (queue.stats().running, queue.stats().left) == (0, 1)

    run(main())


class Response:
    status = 200
    headers = ()
    is_closed = False

    async def chunks(self):
        for _ in range(3):
            await asyncio.sleep(1)
            yield b"x"

    async def aclose(self):
        self.is_closed = True


def answer(response=None, *, after_s=1.0, error=None):
    async def open_():
        await asyncio.sleep(after_s)
        if error is not None:
            raise error
        return response or Response()

    return open_


def test_a_response_keeps_its_place_to_the_end_of_its_body():
    """The next one is sent when the body before it is read, not when its head is there."""

    async def main():
        queue = make()

        async def read():
            response = await queue.send("a", answer())
            body = [chunk async for chunk in response.chunks()]
            assert queue.stats().waiting == 0
            await response.aclose()
            return body

        assert await asyncio.gather(read(), read()) == [[b"x"] * 3] * 2
        assert now() == pytest.approx(8)
        assert queue.stats().running == 0

    run(main())


def test_a_response_that_is_closed_early_gives_its_place_back():
    """With it the backend's response is closed."""

    async def main():
        queue, inner = make(), Response()
        response = await queue.send("a", answer(inner), orphan_bound_s=60)
        async for _ in response.chunks():
            break
        await response.aclose()
        assert inner.is_closed
        assert queue.stats().running == 0

    run(main())


@pytest.mark.parametrize(("orphan_bound_s", "running"), [(None, 0), (60, 1)])
@pytest.mark.parametrize("how", ["leaves", "time-out"])
def test_a_query_without_an_answer_may_still_run(how, orphan_bound_s, running):
    """The client leaves, or the time is up, before the head: where the backend cannot be stopped, the place stays taken."""

    async def main():
        queue = make()
        error = BackendTimeout("", backend="store") if how == "time-out" else None
        task = asyncio.create_task(queue.send("a", answer(error=error), orphan_bound_s=orphan_bound_s))
        await asyncio.sleep(0.5)
        if how == "leaves":
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert queue.stats().running == running
        await asyncio.sleep(61)
        assert queue.stats().running == 0

    run(main())


def test_an_orphan_keeps_its_place_twice_as_long_as_it_ran():
    """Nobody can know how long it goes on; the bound is for the longest."""

    async def main():
        for ran_s, kept_s in ((0.1, 1.0), (3.0, 6.0), (50.0, 60.0)):
            queue = make()
            task = asyncio.create_task(queue.send("a", answer(after_s=1000), orphan_bound_s=60))
            await asyncio.sleep(ran_s)
            task.cancel()
            await asyncio.sleep(kept_s - 0.05)
            assert queue.stats().orphans == 1
            await asyncio.sleep(0.1)
            assert (queue.stats().orphans, queue.stats().running) == (0, 0)

    run(main())


def test_orphans_keep_at_most_half_of_the_places():
    """However many clients leave, the other half serves; the oldest orphan gives way."""

    async def main():
        queue = make(4)
        for _ in range(10):
            task = asyncio.create_task(queue.send("a", answer(after_s=1000), orphan_bound_s=60))
            await asyncio.sleep(20)
            task.cancel()
        await asyncio.sleep(0.1)
        assert (queue.stats().orphans, queue.stats().running) == (2, 2)

    run(main())


def test_without_a_connection_there_is_no_orphan():
    """A time-out of the connection frees the place at once."""

    async def main():
        queue = make()
        error = BackendTimeout("", backend="store", limit="connect")
        with pytest.raises(BackendTimeout):
            await queue.send("a", answer(error=error), orphan_bound_s=60)
        assert queue.stats().running == 0

    run(main())


def test_a_backend_that_fails_frees_the_place():
    """Nothing runs where nothing was reached."""

    async def main():
        queue = make()
        with pytest.raises(BackendUnreachable):
            await queue.send("a", answer(error=BackendUnreachable("", backend="store")), orphan_bound_s=60)
        assert queue.stats().running == 0

    run(main())


@pytest.mark.parametrize("seed", range(60))
def test_no_place_is_lost_whatever_happens(seed):
    """Random arrivals, service times, cancellations, orphans, refusals: in the end every place is free, none was doubled."""
    rng = random.Random(seed)

    async def main():
        queue = BackendQueue(rng.randint(1, 3), rng.randint(0, 8), rng.choice([0.0, 1.0, 2.0, 50.0]), now=now)
        running, ends = 0, {"ok": 0, "busy": 0, "left": 0}

        async def one(client):
            nonlocal running
            await asyncio.sleep(rng.randint(0, 12))
            try:
                async with queue.place(client) as place:
                    running += 1
                    assert running <= queue.concurrency
                    try:
                        await asyncio.sleep(rng.choice([0, 0, 1, 2, 3]))
                    finally:
                        if rng.random() < 0.2:
                            orphan = place.detach(bound_s=rng.randint(0, 4))
                            running -= 1
                            if rng.random() < 0.5:
                                asyncio.get_running_loop().call_later(rng.randint(0, 4), orphan.release)
                        else:
                            running -= 1
                ends["ok"] += 1
            except BackendBusy:
                ends["busy"] += 1
            except asyncio.CancelledError:
                ends["left"] += 1

        tasks = [asyncio.create_task(one(rng.choice("abc"))) for _ in range(60)]
        for task in tasks:
            if rng.random() < 0.3:
                # whole seconds, as all else: many things fall into one moment
                asyncio.get_running_loop().call_later(rng.randint(0, 15), task.cancel)
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert result is None or isinstance(result, asyncio.CancelledError), repr(result)
        await asyncio.sleep(10)
        stats = queue.stats()
        assert (stats.running, stats.orphans, stats.waiting) == (0, 0, 0)
        # A client may leave in the moment in which it is refused; then it counts as both.
        refused = stats.full + stats.expired + stats.displaced
        assert ends["busy"] <= refused <= ends["busy"] + ends["left"]
        assert running == 0
        # and it still works
        await asyncio.gather(*(work(queue, "z", 1, []) for _ in range(queue.concurrency)))

    run(main())
