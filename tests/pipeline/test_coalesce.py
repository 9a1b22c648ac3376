"""Joining identical reads in flight: one asks, all are answered, nobody waits for a slow one."""

from __future__ import annotations

import asyncio
import random

import pytest

from proxy.errors import BackendUnreachable
from proxy.pipeline.coalesce import Coalescer
from proxy.pipeline.shared_response import is_joined
from tests.pipeline.virtual_time import now, run

KEY = b"k" * 32


class Response:
    """An answer, each chunk of which comes *chunk_s* after the one before; None: all are there with the head."""

    def __init__(self, chunks, *, chunk_s=0.0, break_with=None, status=200, headers=()):
        self.status = status
        self.headers = headers
        self._chunks = chunks
        self._chunk_s = chunk_s
        self._error = break_with
        self.is_closed = self.is_complete = False
        self.given = 0

    async def chunks(self):
        for chunk in self._chunks:
            if self._chunk_s is not None:
                await asyncio.sleep(self._chunk_s)
            if self.is_closed:
                raise BackendUnreachable("closed", backend="store")
            self.given += len(chunk)
            self.is_complete = self._error is None and self.given == sum(map(len, self._chunks))
            yield chunk
        if self._error is not None:
            raise self._error

    async def aclose(self):
        self.is_closed = True


class Store:
    """A backend: counts what it is asked, and what was given up before its head."""

    def __init__(self, *, head_s=1.0, error=None, **response):
        self.head_s = head_s
        self.error = error
        self.response = response or {"chunks": [b"hello ", b"world"]}
        self.responses = []
        self.asked = self.cancelled = 0

    async def __call__(self):
        self.asked += 1
        try:
            await asyncio.sleep(self.head_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        self.responses.append(Response(**self.response))
        return self.responses[-1]


def make(**settings):
    return Coalescer(now=now, **settings)


async def read(coalescer, store, *, key=KEY, pause_s=0.0, after_s=0.0):
    await asyncio.sleep(after_s)
    response = await coalescer.fetch(key, store)
    try:
        body = b""
        async for chunk in response.chunks():
            body += chunk
            if getattr(response, "is_complete", False):  # as the relay does: the last piece is sent as the last
                break
            await asyncio.sleep(pause_s)
        return body
    finally:
        await response.aclose()


async def settled(coalescer, store):
    await asyncio.sleep(0.1)
    assert (coalescer.stats().in_flight, coalescer.stats().held_bytes) == (0, 0)
    assert all(response.is_closed for response in store.responses)


def test_identical_requests_ask_once():
    """Ten at the same time get the same status, headers and body from one question to the backend."""

    async def main():
        coalescer, store = make(), Store(chunks=[b"a", b"b"], status=404, headers=[(b"x", b"y")])

        async def one():
            response = await coalescer.fetch(KEY, store)
            return response.status, list(response.headers), b"".join([chunk async for chunk in response.chunks()])

        answers = await asyncio.gather(*(one() for _ in range(10)))
        assert answers == [(404, [(b"x", b"y")], b"ab")] * 10
        assert store.asked == 1
        assert (coalescer.stats().led, coalescer.stats().joined) == (1, 9)
        await settled(coalescer, store)

    run(main())


def test_different_requests_ask_each():
    """Another key is another question."""

    async def main():
        coalescer, store = make(), Store()
        await asyncio.gather(read(coalescer, store, key=b"a"), read(coalescer, store, key=b"b"))
        assert store.asked == 2

    run(main())


def test_what_has_ended_is_not_joined():
    """This is no cache: who comes after the end asks anew."""

    async def main():
        coalescer, store = make(), Store()
        assert await read(coalescer, store) == b"hello world"
        assert await read(coalescer, store) == b"hello world"
        assert store.asked == 2
        await settled(coalescer, store)

    run(main())


@pytest.mark.parametrize(("joins_before", "asked"), [(True, 1), (False, 2)])
def test_who_comes_during_the_body_joins_if_somebody_has(joins_before, asked):
    """While the beginning is held for others, a late one gets the whole; else nothing is held, and it asks itself."""

    async def main():
        coalescer, store = make(), Store(chunks=[b"x"] * 5, chunk_s=0.1)
        others = [read(coalescer, store, after_s=0.5)] if joins_before else []
        bodies = await asyncio.gather(read(coalescer, store), read(coalescer, store, after_s=1.25), *others)
        assert set(bodies) == {b"xxxxx"}
        assert store.asked == asked

    run(main())


def test_identities_are_compared_only_when_names_meet():
    """One alone is never asked who it is; two of one name are joined if they are identical, and never without an identity."""

    async def main():
        coalescer, store, asked_for = make(), Store(), []

        def identity(value):
            def identify():
                asked_for.append(value)
                return value

            return identify

        async def one(value):
            response = await coalescer.fetch("name", store, identify=identity(value))
            assert b"".join([chunk async for chunk in response.chunks()]) == b"hello world"
            await response.aclose()

        await one("a")
        assert asked_for == []
        await asyncio.gather(one("a"), one("a"), one("b"), one("b"), one(None), one(None))
        assert store.asked == 1 + 2 + 2
        await settled(coalescer, store)

    run(main())


def test_the_leader_gets_its_first_byte_at_once():
    """Followers change nothing about when the leader sees head and chunks."""

    async def main():
        coalescer, store = make(), Store(chunks=[b"x"] * 5, chunk_s=0.1)
        follower = asyncio.create_task(read(coalescer, store, after_s=0.5))
        response = await coalescer.fetch(KEY, store)
        assert now() == pytest.approx(1.0)
        times = []
        async for _ in response.chunks():
            times.append(now())
        assert times == pytest.approx([1.1, 1.2, 1.3, 1.4, 1.5])
        await follower

    run(main())


def test_a_slow_follower_holds_up_nobody():
    """The leader is done when the backend is; the follower reads on from memory."""

    async def main():
        coalescer, store = make(), Store(chunks=[b"x"] * 5)
        slow = asyncio.create_task(read(coalescer, store, pause_s=100, after_s=0.5))
        assert await read(coalescer, store) == b"xxxxx"
        assert now() == pytest.approx(1.0)
        assert await slow == b"xxxxx"
        assert now() == pytest.approx(401)
        await settled(coalescer, store)

    run(main())


def test_a_slow_leader_holds_up_nobody():
    """Followers get the answer when the backend has given it, however slowly the leader reads."""

    async def main():
        coalescer, store = make(), Store(chunks=[b"x" * 50_000] * 5)
        slow = asyncio.create_task(read(coalescer, store, pause_s=100))
        assert await read(coalescer, store, after_s=0.5) == b"x" * 250_000
        assert now() == pytest.approx(1.0)
        assert len(await slow) == 250_000
        await settled(coalescer, store)

    run(main())


def test_a_leader_alone_is_not_read_ahead_of_for_long():
    """Without followers a client that reads slowly slows the backend, instead of filling the memory."""

    async def main():
        coalescer, store = make(), Store(chunks=[b"x" * 10_000] * 20)
        slow = asyncio.create_task(read(coalescer, store, pause_s=10))
        await asyncio.sleep(1.5)
        assert store.responses[0].given <= 80_000
        assert len(await slow) == 200_000

    run(main())


def test_a_body_too_large_to_share_is_streamed_to_its_leader_only():
    """Followers ask for themselves, all get everything, and no more than the limit is ever held."""

    async def main():
        coalescer, store = make(share_limit_bytes=1000), Store(chunks=[b"x" * 400] * 10, chunk_s=0.01)
        most = 0

        async def watch():
            nonlocal most
            while True:
                most = max(most, coalescer.stats().held_bytes)
                await asyncio.sleep(0.005)

        watcher = asyncio.create_task(watch())
        bodies = await asyncio.gather(*(read(coalescer, store) for _ in range(3)))
        watcher.cancel()
        assert [len(body) for body in bodies] == [4000] * 3
        assert store.asked == 3
        assert most <= 1400
        assert coalescer.stats().parted == 2
        await settled(coalescer, store)

    run(main())


def test_an_answer_known_to_be_large_is_not_waited_for():
    """Once an answer was too large to share, the next of its kind ask side by side, for a while."""

    async def main():
        coalescer, store = make(share_limit_bytes=10), Store(headers=[(b"content-length", b"11")], chunks=[b"hello world"])
        for parted, after_s in ((1, 0), (1, 100), (2, 1000)):
            await asyncio.sleep(after_s)
            await asyncio.gather(read(coalescer, store), read(coalescer, store))
            assert (coalescer.stats().joined, coalescer.stats().parted) == (0, parted)
        assert store.asked == 6

    run(main())


def test_a_body_that_trickles_is_not_waited_for():
    """A follower waits hold_s after the head, then asks itself; the leader reads on."""

    async def main():
        coalescer, store = make(hold_s=2), Store(chunks=[b"x"] * 100, chunk_s=1)
        began = now()
        leader = asyncio.create_task(read(coalescer, store))
        await asyncio.sleep(0.5)
        response = await coalescer.fetch(KEY, store)
        assert now() - began == pytest.approx(1 + 2 + 1)
        assert not is_joined(response)
        await response.aclose()
        assert len(await leader) == 100
        await settled(coalescer, store)

    run(main())


def test_all_memory_in_use_stops_sharing_not_answering():
    """Beyond the total limit, answers stream past; each client gets its own whole."""

    async def main():
        coalescer = make(total_limit_bytes=5000)
        stores = [Store(chunks=[b"x" * 1000] * 4, chunk_s=0.1) for _ in range(5)]
        work = [read(coalescer, store, key=b"%d" % i) for i, store in enumerate(stores) for _ in range(2)]
        bodies = await asyncio.gather(*work)
        assert {len(body) for body in bodies} == {4000}
        assert coalescer.stats().parted > 0
        assert coalescer.stats().held_bytes == 0

    run(main())


def test_the_leader_may_leave():
    """Its question ends with it, and is asked once more for all its followers."""

    async def main():
        coalescer, store = make(), Store()
        leader = asyncio.create_task(read(coalescer, store))
        followers = [asyncio.create_task(read(coalescer, store, after_s=0.1)) for _ in range(3)]
        await asyncio.sleep(0.5)
        leader.cancel()
        assert await asyncio.gather(*followers) == [b"hello world"] * 3
        assert (store.asked, store.cancelled) == (2, 1)
        assert leader.cancelled()
        await settled(coalescer, store)

    run(main())


def test_the_leader_may_leave_during_a_large_body():
    """A follower takes the answer over from its first byte, although it is too large to share; nothing is asked twice."""

    async def main():
        coalescer, store = make(share_limit_bytes=1000), Store(chunks=[b"%03d" % i * 100 for i in range(10)], chunk_s=0.01)
        leader = asyncio.create_task(read(coalescer, store))
        follower = asyncio.create_task(read(coalescer, store, after_s=0.1))
        await asyncio.sleep(1.005)
        leader.cancel()
        assert await follower == b"".join(b"%03d" % i * 100 for i in range(10))
        assert store.asked == 1
        await settled(coalescer, store)

    run(main())


def test_when_all_leave_the_backend_is_let_go():
    """Before the head the question is cancelled; nothing stays."""

    async def main():
        coalescer, store = make(), Store()
        tasks = [asyncio.create_task(read(coalescer, store)) for _ in range(3)]
        await asyncio.sleep(0.5)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await settled(coalescer, store)
        assert store.cancelled == 1

    run(main())


def test_when_all_leave_during_the_body_it_is_closed():
    """After the head the response is closed, so that the backend can notice."""

    async def main():
        coalescer, store = make(), Store(chunks=[b"x"] * 100, chunk_s=1)
        tasks = [asyncio.create_task(read(coalescer, store)) for _ in range(2)]
        await asyncio.sleep(1.6)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await settled(coalescer, store)

    run(main())


def test_who_comes_after_all_have_left_asks_anew():
    """A question that is being given up is not joined."""

    async def main():
        coalescer, store = make(), Store()
        first = asyncio.create_task(read(coalescer, store))
        await asyncio.sleep(0.5)
        first.cancel()
        await asyncio.sleep(0)
        second = await coalescer.fetch(KEY, store)  # begins in the moment in which the first one ends
        assert b"".join([chunk async for chunk in second.chunks()]) == b"hello world"
        assert store.asked == 2

    run(main())


def test_an_answer_whose_beginning_is_gone_is_not_taken_over():
    """If the leader has read beyond what was held, and leaves, its followers ask for themselves."""

    async def main():
        coalescer, store = make(share_limit_bytes=10), Store(chunks=[b"%d" % i * 4 for i in range(10)], chunk_s=None)

        async def leave_early():
            response = await coalescer.fetch(KEY, store)
            async for chunk in response.chunks():
                if chunk == b"4444":
                    break
            await response.aclose()

        leader = asyncio.create_task(leave_early())
        follower = asyncio.create_task(read(coalescer, store))
        assert await follower == b"".join(b"%d" % i * 4 for i in range(10))
        await leader
        assert store.asked == 2
        await settled(coalescer, store)

    run(main())


def test_a_follower_that_comes_late_wakes_a_reading_that_rests():
    """Where the leader is slow and the reading waits for it, a follower makes it go on."""

    async def main():
        coalescer, store = make(), Store(chunks=[b"x" * 50_000] * 5)
        slow = asyncio.create_task(read(coalescer, store, pause_s=100))
        gone = asyncio.create_task(read(coalescer, store, after_s=0.5))
        await asyncio.sleep(1)
        gone.cancel()  # it had joined before the head, so the answer is held
        assert await read(coalescer, store, after_s=1) == b"x" * 250_000
        assert now() == pytest.approx(2)
        assert store.asked == 1
        slow.cancel()

    run(main())


def test_a_failure_reaches_all():
    """Who waits for an answer that fails is told the failure, each of them."""

    async def main():
        coalescer, store = make(), Store(error=BackendUnreachable("gone", backend="store"))
        results = await asyncio.gather(*(read(coalescer, store) for _ in range(5)), return_exceptions=True)
        assert [str(result) for result in results] == ["gone"] * 5
        assert store.asked == 1
        await settled(coalescer, store)

    run(main())


def test_a_body_that_breaks_is_broken_for_all():
    """The leader's transfer breaks where it broke; followers, who have seen nothing yet, get the error before any byte."""

    async def main():
        coalescer, store = make(), Store(chunks=[b"x", b"y"], break_with=BackendUnreachable("died", backend="store"))
        leading, follower = (asyncio.create_task(coalescer.fetch(KEY, store)) for _ in range(2))
        response = await leading
        seen = []
        with pytest.raises(BackendUnreachable):
            async for chunk in response.chunks():
                seen.append(chunk)
        await response.aclose()
        assert seen == [b"x", b"y"]
        with pytest.raises(BackendUnreachable, match="died"):
            await follower
        await settled(coalescer, store)

    run(main())


def test_nobody_joins_across_an_update():
    """After seal() an identical read asks anew, as what is in flight may be older than the update."""

    async def main():
        coalescer, store = make(), Store()
        first = asyncio.create_task(read(coalescer, store))
        await asyncio.sleep(0.5)
        coalescer.seal()
        second = asyncio.create_task(read(coalescer, store))
        third = asyncio.create_task(read(coalescer, store, after_s=0.1))
        assert await asyncio.gather(first, second, third) == [b"hello world"] * 3
        assert store.asked == 2
        await settled(coalescer, store)

    run(main())


def test_an_old_question_is_not_joined():
    """With a join window, who comes later than that asks anew."""

    async def main():
        coalescer, store = make(join_window_s=0.3), Store()
        await asyncio.gather(*(read(coalescer, store, after_s=s) for s in (0, 0.2, 0.4)))
        assert store.asked == 2

    run(main())


def test_closing_stops_what_is_in_flight():
    """Who waits for what another has asked is told; no task stays."""

    async def main():
        coalescer, store = make(), Store(chunks=[b"x"] * 100, chunk_s=0.1)
        tasks = [asyncio.create_task(read(coalescer, store)) for _ in range(2)]
        await asyncio.sleep(1.5)
        await coalescer.aclose()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, BackendUnreachable) for result in results)
        await settled(coalescer, store)

    run(main())


@pytest.mark.parametrize("seed", range(60))
def test_everybody_gets_the_whole_or_an_error_whatever_happens(seed):
    """Random sizes, speeds, arrivals, departures, failures and updates: no wrong byte, no leak, nothing unclosed."""
    rng = random.Random(seed)

    async def main():
        coalescer = make(share_limit_bytes=2000, total_limit_bytes=5000, hold_s=1.0, followers=3)
        stores = []
        for i in range(3):
            chunks = [bytes([65 + i, 48 + n % 10]) * rng.randint(1, 150) for n in range(rng.randint(0, 20))]
            error = BackendUnreachable("x", backend="store") if rng.random() < 0.2 else None
            response = {"chunks": chunks, "chunk_s": rng.choice([0, 0.05, 0.2]), "break_with": error}
            stores.append(Store(head_s=rng.choice([0, 1.0]), **response))

        async def one():
            i = rng.randrange(3)
            whole = b"".join(stores[i].response["chunks"])
            body, is_broken = b"", False
            try:
                body = await read(
                    coalescer, stores[i], key=b"%d" % i, pause_s=rng.choice([0, 0, 0.05, 1]), after_s=rng.randint(0, 30) / 10
                )
            except BackendUnreachable:
                is_broken = True
            assert is_broken == (stores[i].response["break_with"] is not None)
            assert is_broken or body == whole

        tasks = [asyncio.create_task(one()) for _ in range(40)]
        loop = asyncio.get_running_loop()
        for task in tasks:
            if rng.random() < 0.4:
                loop.call_later(rng.randint(0, 60) / 10, task.cancel)
        for s in range(3):
            loop.call_later(s + 0.5, coalescer.seal)
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert result is None or isinstance(result, asyncio.CancelledError), repr(result)
        for store in stores:
            await settled(coalescer, store)

    run(main())
