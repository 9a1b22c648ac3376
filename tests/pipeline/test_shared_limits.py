"""One account for each client over several processes, in a real Redis or Valkey."""

import asyncio

import pytest

from proxy.pipeline.limits import Allowance, Allowances, ClientLimits, Limit
from proxy.pipeline.redis_link import RedisLink
from proxy.pipeline.shared_limits import CLIENTS_AT_ONCE, SharedLimits
from tests.servers.redis_server import RedisServer, require_redis

HOURLY = Allowances(requests=Allowance(1, 10))
"""Ten at once; what comes back while a test runs is nothing."""


@pytest.fixture
def server(tmp_path):
    server = RedisServer(require_redis(), tmp_path)
    server.start()
    yield server
    server.stop()


class Process:
    """What one process has: accounts, a connection, and a clock for its patience."""

    def __init__(self, url, allowances=HOURLY):
        self.time = 1000.0
        self.limits = ClientLimits(allowances)
        self.link = RedisLink(url, setting="shared.url", now=lambda: self.time)
        self.shared = SharedLimits(self.link, lambda: [self.limits])

    def use(self, client, times):
        """How many of so many requests are admitted."""
        return sum(self.limits.admit(client) is None for _ in range(times))


def within(server, steps, *, count=2, allowances=HOURLY):
    async def run():
        processes = [Process(server.url, allowances) for _ in range(count)]
        for one in processes:
            await one.shared.exchange()
        try:
            await steps(*processes)
        finally:
            for one in processes:
                await one.link.aclose()

    asyncio.run(run())


def test_what_is_used_here_is_missing_there(server):
    """After an exchange both have what all have left; another client is not touched."""

    async def steps(one, two):
        assert (one.use("a", 6), two.use("a", 1)) == (6, 1)
        await one.shared.exchange()
        await two.shared.exchange()
        assert two.use("a", 10) == 3
        assert two.use("b", 10) == 10
        await two.shared.exchange()
        # What this process does not know yet it learns with the first request that it admits.
        assert one.use("a", 1) == 1
        await one.shared.exchange()
        assert one.use("a", 10) == 0

    within(server, steps)


def test_what_is_used_during_the_exchange_is_counted_once(server):
    """An answer that is already old does not give back what was used since the question."""

    async def steps(one, two):
        one.use("a", 4)
        exchange = asyncio.create_task(one.shared.exchange())
        await asyncio.sleep(0)
        one.use("a", 2)
        await exchange
        assert one.use("a", 10) == 4
        await one.shared.exchange()
        two.use("a", 1)
        await two.shared.exchange()
        assert two.use("a", 10) == 0

    within(server, steps)


def test_time_and_errors_are_shared_too(server):
    """A client that has used up its query time, or its errors, with one process is refused by the others."""

    async def steps(one, two):
        one.limits.charge("a", 100.0)
        one.limits.charge("b", 0.0, is_error=True)
        await one.shared.exchange()
        for client in "ab":
            two.limits.charge(client, 0.001)
        await two.shared.exchange()
        assert two.limits.admit("a").limit is Limit.QUERY_SECONDS
        assert two.limits.admit("a").retry_after_s == pytest.approx(40, rel=0.1)
        assert two.limits.admit("b").limit is Limit.ERRORS

    within(server, steps, allowances=Allowances(query_seconds=Allowance(60, 60), errors=Allowance(1, 1)))


def test_accounts_fill_up_and_are_forgotten(server):
    """The server fills an account by its own clock, and keeps none that is full."""

    async def steps(one, two):
        assert one.use("a", 20) == 20
        await one.shared.exchange()
        [key] = [key async for key in one.link.client.scan_iter(b"sparlance:l:*")]
        assert b"a" != key.rpartition(b":")[2]
        assert 1000 < await one.link.client.pttl(key) <= 2000
        await asyncio.sleep(0.25)
        two.use("a", 1)
        await two.shared.exchange()
        assert 3 <= two.use("a", 20) <= 19

    within(server, steps, allowances=Allowances(requests=Allowance(1200, 20)))


def test_many_clients_take_several_commands(server):
    """All of them are told."""

    async def steps(one, two):
        names = [f"client {n}" for n in range(2 * CLIENTS_AT_ONCE + 1)]
        for name in names:
            one.use(name, 9)
        await one.shared.exchange()
        assert one.shared.exchanges == 3
        for name in (names[0], names[-1]):
            two.use(name, 1)
        await two.shared.exchange()
        assert [two.use(name, 5) for name in (names[0], names[-1], "new")] == [0, 0, 5]

    within(server, steps)


def test_without_the_server_each_limits_for_itself(server):
    """A server that is killed stops nothing; once it is back they share again, and the outage is not charged twice."""

    async def steps(one, two):
        one.use("a", 5)
        await one.shared.exchange()
        server.kill()
        assert (one.use("a", 20), two.use("a", 20)) == (5, 10)
        for process in (one, two):
            await process.shared.exchange()
            assert process.link.failures == 1
            assert process.link.is_out
            await process.shared.exchange()
            assert process.link.failures == 1, "it is left alone"
        assert (one.use("b", 3), one.use("a", 1)) == (3, 0)
        await one.shared.exchange()
        server.start()
        one.time = two.time = 1010.0
        assert one.use("b", 2) == 2
        await one.shared.exchange()
        two.use("b", 1)
        await two.shared.exchange()
        assert two.use("b", 20) == 7, "the server knows of the two since it is back"
        assert one.use("b", 20) == 5, "this process knows of all five"

    within(server, steps)


def test_what_the_server_answers_is_not_believed_blindly(server):
    """A key of another type is a failure like any other."""

    async def steps(one, two):
        one.use("a", 5)
        await one.shared.exchange()
        [key] = [key async for key in one.link.client.scan_iter(b"sparlance:l:*")]
        await one.link.client.delete(key)
        await one.link.client.set(key, b"nonsense")
        one.use("a", 1)
        await one.shared.exchange()
        assert one.link.failures == 1
        assert one.use("a", 20) == 4

    within(server, steps)
