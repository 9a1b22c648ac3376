"""Keeping answers: complete ones, for as long as they are true."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from proxy.errors import ConfigError
from proxy.pipeline.cache import ENTRY_OVERHEAD_BYTES, UNSETTLED_S, Entry, MemoryStore, ResponseCache, read_head
from proxy.pipeline.key import RequestKey
from tests.servers.redis_server import RedisServer, require_redis

BODY = b'{"head":{},"boolean":true}'
JSON = (b"content-type", b"application/sparql-results+json; charset=utf-8")
KEY = RequestKey("default", b"k" * 32)


class Clock:
    def __init__(self):
        self.time = 1000.0

    def __call__(self):
        return self.time


class Response:
    def __init__(self, body=BODY, *headers, status=200, content_type=JSON):
        self.status = status
        self.headers = [content_type, *headers]
        self.body = body
        self.is_closed = False

    async def chunks(self):
        for i in range(0, len(self.body), 10):
            yield self.body[i : i + 10]

    async def aclose(self):
        self.is_closed = True


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def cache(clock):
    return ResponseCache(MemoryStore(100_000, now=clock), ttl_s=60, entry_limit_bytes=10_000, now=clock)


async def read(response):
    return b"".join([chunk async for chunk in response.chunks()])


async def ask(cache, response, *, key=KEY):
    """As the request path does: the kept answer, or None after *response* was read through the cache."""
    lookup = await cache.look_up(key)
    if lookup.response is not None:
        return lookup.response
    recorded = cache.record(lookup, response)
    assert await read(recorded) == response.body
    await recorded.aclose()
    assert response.is_closed
    return None


def is_kept(cache, response, *, key=KEY):
    async def main():
        await ask(cache, response, key=key)
        return (await cache.look_up(key)).response is not None

    return asyncio.run(main())


def test_an_answer_is_kept_as_it_was(cache, clock):
    """Status, headers and bytes come back; Age and Cache-Status say what happened, the ETag is the backend's."""

    async def main():
        assert await ask(cache, Response(BODY, (b"etag", b'"x"'))) is None
        clock.time += 7
        kept = await ask(cache, Response())
        assert (kept.status, await read(kept)) == (200, BODY)
        assert list(kept.headers) == [
            JSON,
            (b"etag", b'"x"'),
            (b"content-length", b"26"),
            (b"age", b"7"),
            (b"cache-status", b"sparlance; hit"),
        ]
        await kept.aclose()
        assert (cache.counters.hits, cache.counters.misses, cache.counters.stored) == (1, 1, 1)

    asyncio.run(main())


@pytest.mark.parametrize(
    "response",
    [
        Response(BODY[:-1]),
        Response(BODY[:-1] + b" error in { ?s ?p ?o }"),
        Response(BODY, (b"content-length", b"27")),
        Response(b"s\r\n", content_type=(b"content-type", b"text/csv")),
        Response(BODY, (b"content-encoding", b"br")),
        Response(BODY, status=400),
        Response(BODY, status=206),
        Response(BODY, (b"cache-control", b"public, No-Store")),
        Response(BODY, (b"cache-control", b"private")),
        Response(BODY, (b"cache-control", b'no-cache="x"')),
        Response(BODY, (b"cache-control", b"max-age=0")),
        Response(BODY, (b"cache-control", b"max-age=100, s-maxage=0")),
        Response(BODY, (b"cache-control", b"max-age=10"), (b"age", b"10")),
        Response(BODY, (b"set-cookie", b"a=b")),
        Response(BODY, (b"vary", b"Accept, *")),
        Response(BODY, (b"vary", b"User-Agent")),
        Response(b'{"x":"' + b"a" * 10_000 + b'"}'),
        Response(BODY, (b"content-length", b"10001")),
    ],
    ids=[
        "cut", "error text", "wrong length", "csv", "unknown coding", "error status", "part", "no-store", "private", "no-cache",
        "max-age=0", "s-maxage=0", "too old", "cookie", "vary *", "vary by others", "too large", "announced too large",
    ],
)  # fmt: skip
def test_what_may_not_be_kept_is_not(cache, response):
    """Incomplete, private, short-lived or large answers pass through untouched and are not kept."""
    assert not is_kept(cache, response)


@pytest.mark.parametrize(
    "response",
    [
        Response(),
        Response(BODY, (b"cache-control", b"public, max-age=5")),
        Response(BODY, (b"cache-control", b"max-age=0, s-maxage=9")),
        Response(BODY, (b"vary", b"Accept, Accept-Encoding, Origin")),
        Response(b"s\r\n", (b"content-length", b"3"), content_type=(b"content-type", b"text/csv")),
    ],
    ids=["plain", "max-age", "s-maxage", "vary", "csv of known length"],
)
def test_what_may_be_kept_is(cache, response):
    """Complete answers that nobody forbids to keep are kept."""
    assert is_kept(cache, response)


def test_an_answer_whose_last_piece_says_so_is_kept_at_once(cache):
    """The reader of a response that tells its last piece need not ask for more, and is told it too."""

    class Telling(Response):
        is_complete = False

        async def chunks(self):
            yield self.body[:5]
            self.is_complete = True
            yield self.body[5:]

    async def main():
        recorded = cache.record(await cache.look_up(KEY), Telling())
        told = []
        async for _ in recorded.chunks():
            told.append(recorded.is_complete)
            if recorded.is_complete:
                break
        await recorded.aclose()
        assert told == [False, True]
        kept = (await cache.look_up(KEY)).response
        assert (await read(kept), kept.is_complete) == (BODY, True)

    asyncio.run(main())


def test_a_faster_check_can_be_given(clock):
    """Who has a faster reader of JSON says so, and it decides."""
    for verdict in (True, False):
        cache = ResponseCache(MemoryStore(100_000, now=clock), is_json=lambda body, verdict=verdict: verdict, now=clock)
        assert is_kept(cache, Response()) is verdict


def test_nothing_is_kept_of_an_answer_that_was_not_read_to_its_end(cache):
    """A client that leaves takes the half answer with it."""

    async def main():
        recorded = cache.record(await cache.look_up(KEY), Response())
        async for _ in recorded.chunks():
            break
        await recorded.aclose()
        assert (await cache.look_up(KEY)).response is None

    asyncio.run(main())


@pytest.mark.parametrize(
    ("key", "is_found", "is_stored"),
    [
        (KEY, True, True),
        (RequestKey("default", KEY.digest, may_use_stored=False), False, True),
        (RequestKey("default", KEY.digest, may_use_stored=False, may_store=False), False, False),
        (RequestKey("default", KEY.digest, may_store=False), True, False),
        (RequestKey("default", KEY.digest, max_age_s=5), False, True),
        (RequestKey("default", KEY.digest, max_age_s=20), True, True),
        (RequestKey("default", KEY.digest, is_authenticated=True), False, False),
        (RequestKey("other", KEY.digest), False, True),
    ],
    ids=["plain", "no-cache", "no-store", "federated", "max-age passed", "max-age", "authenticated", "other dataset"],
)
def test_the_request_decides_too(cache, clock, key, is_found, is_stored):
    """What the client allows is what happens, and a credential keeps its answers out."""

    async def main():
        await ask(cache, Response())
        clock.time += 10
        assert ((await cache.look_up(key)).response is not None) is is_found
        stored = cache.counters.stored
        await cache.renew(key.dataset)
        await ask(cache, Response(), key=key)
        assert (cache.counters.stored > stored) is is_stored

    asyncio.run(main())


def test_authenticated_answers_are_kept_if_told_so(clock):
    """Then the key, which holds the credential, separates the clients."""
    cache = ResponseCache(MemoryStore(100_000, now=clock), keeps_authenticated=True, now=clock)
    assert is_kept(cache, Response(), key=RequestKey("default", b"a", is_authenticated=True))


@pytest.mark.parametrize(("passed_s", "is_found"), [(59, True), (60, False)])
def test_an_answer_lives_for_its_time(cache, clock, passed_s, is_found):
    """After ttl_s it is gone."""

    async def main():
        await ask(cache, Response(BODY, (b"cache-control", b"max-age=3600")))
        clock.time += passed_s
        assert ((await cache.look_up(KEY)).response is not None) is is_found

    asyncio.run(main())


def test_the_backend_can_shorten_the_time(cache, clock):
    """max-age less Age is what remains, and Age goes on counting from the backend's."""

    async def main():
        await ask(cache, Response(BODY, (b"cache-control", b"max-age=30"), (b"age", b"10")))
        clock.time += 19
        kept = (await cache.look_up(KEY)).response
        assert (b"age", b"29") in kept.headers
        clock.time += 1
        assert (await cache.look_up(KEY)).response is None

    asyncio.run(main())


def test_an_answer_that_took_too_long_is_not_trusted(clock):
    """Where a backend may cut its answers at a time limit, what took as long is not kept."""

    async def main():
        cache = ResponseCache(MemoryStore(100_000, now=clock), trusted_s=10, now=clock)
        recorded = cache.record(await cache.look_up(KEY), Response(), elapsed_s=10)
        await read(recorded)
        assert cache.counters.stored == 0
        recorded = cache.record(await cache.look_up(KEY), Response(), elapsed_s=9.9)
        await read(recorded)
        assert cache.counters.stored == 1

    asyncio.run(main())


# -- the data change


def test_an_update_forgets_what_was_kept(cache):
    """After it nothing of before is served, in its dataset only."""

    async def main():
        other = RequestKey("other", KEY.digest)
        await ask(cache, Response())
        await ask(cache, Response(), key=other)
        async with cache.update("default"):
            assert (await cache.look_up(KEY)).response is None
        assert (await cache.look_up(KEY)).response is None
        assert (await cache.look_up(other)).response is not None

    asyncio.run(main())


@pytest.mark.parametrize("when", ["before", "during"])
def test_an_answer_that_an_update_overtook_is_not_served(cache, when):
    """Read before or during an update and finished after it: the answer goes to its client, and is not kept."""

    async def main():
        update = cache.update("default")
        if when == "before":
            lookup = await cache.look_up(KEY)
            await update.__aenter__()
        else:
            await update.__aenter__()
            lookup = await cache.look_up(KEY)
        recorded = cache.record(lookup, Response())
        await update.__aexit__(None, None, None)
        assert await read(recorded) == BODY
        assert (await cache.look_up(KEY)).response is None

    asyncio.run(main())


def test_an_answer_kept_during_an_update_does_not_outlive_it(cache):
    """What is read and kept while the update runs is forgotten when it ends."""

    async def main():
        async with cache.update("default"):
            await ask(cache, Response())
            assert (await cache.look_up(KEY)).response is not None
        assert (await cache.look_up(KEY)).response is None

    asyncio.run(main())


def test_after_an_update_of_unknown_outcome_nothing_is_kept_for_a_while(cache, clock):
    """It may still take effect, and nobody would tell."""

    async def main():
        with pytest.raises(TimeoutError):
            async with cache.update("default"):
                raise TimeoutError
        await ask(cache, Response())
        assert await ask(cache, Response()) is None
        clock.time += UNSETTLED_S
        await ask(cache, Response())
        assert await ask(cache, Response()) is not None

    asyncio.run(main())


# -- memory


def entry(size):
    return Entry((), b"x" * (size - ENTRY_OVERHEAD_BYTES), 60.0)


def test_memory_is_bounded_and_the_least_used_goes(clock):
    """The sum of all sizes stays below the limit, and what was just used stays."""

    async def main():
        store = MemoryStore(10 * 2000, now=clock)
        generation, _ = await store.look_up("d", b"")
        for i in range(10):
            store.put("d", b"%d" % i, generation, entry(2000))
        assert (await store.look_up("d", b"0"))[1] is not None
        for i in range(10, 14):
            store.put("d", b"%d" % i, generation, entry(2000))
        assert store.held_bytes == 20_000
        kept = [i for i in range(14) if (await store.look_up("d", b"%d" % i))[1] is not None]
        assert kept == [0, 5, 6, 7, 8, 9, 10, 11, 12, 13]
        store.put("d", b"large", generation, entry(20_001))
        assert (await store.look_up("d", b"large"))[1] is None
        store.put("d", b"0", generation, entry(3000))
        assert store.held_bytes <= 20_000
        await store.renew("d")
        for i in range(14):
            assert (await store.look_up("d", b"%d" % i))[1] is None
        assert (store.held_bytes, len(store)) == (0, 0)
        store.put("d", b"late", generation, entry(2000))
        assert store.held_bytes == 0

    asyncio.run(main())


def test_an_unreadable_age_keeps_nothing_longer():
    """A max-age that is no number counts as 0 (RFC 9111, section 4.2.1)."""
    assert read_head([(b"cache-control", b"max-age=soon")]).lifetime_s is None


# -- Redis or Valkey


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A real server on a socket of its own; yields how to start and stop it, and its URL."""
    program = require_redis()
    folder = tmp_path_factory.mktemp("store")
    server = RedisServer(program, folder)
    server.start()
    yield server
    server.stop()


@contextlib.asynccontextmanager
async def shared(server, *clocks, **settings):
    """A cache per clock, each with its own connection, as in so many processes, over one emptied server."""
    import redis.asyncio

    from proxy.pipeline.cache_redis import RedisStore

    async with redis.asyncio.Redis.from_url(server.url) as client:
        await client.flushall()
        caches = [ResponseCache(RedisStore(server.url, now=clock), now=clock, **settings) for clock in clocks]
        yield client, *caches
        for cache in caches:
            await cache.store.aclose()


async def written(client, count=1):
    for _ in range(100):
        if len([key async for key in client.scan_iter(b"sparlance:e:*")]) >= count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("nothing was written")


@pytest.mark.loopback
def test_processes_share_what_one_has_asked(server):
    """What one keeps, another serves, byte for byte, with the backend's headers and a true Age."""

    async def main():
        async with shared(server, Clock(), Clock()) as (client, first, second):
            body = b'{"head":{},"boolean":true,"x":"\xc3\xa4\\n"}\n'
            await ask(first, Response(body, (b"etag", b'"\xe9"'), (b"age", b"3")))
            await written(client)
            kept = await ask(second, Response())
            assert await read(kept) == body
            assert (b"etag", b'"\xe9"') in kept.headers
            assert (b"age", b"3") in kept.headers

    asyncio.run(main())


@pytest.mark.loopback
def test_an_update_seen_by_one_is_seen_by_all(server):
    """No process serves what was kept before an update through another, nor what was read while it ran."""

    async def main():
        async with shared(server, Clock(), Clock()) as (client, first, second):
            await ask(first, Response())
            await written(client)
            lookup = await second.look_up(RequestKey("default", b"slow"))
            async with first.update("default"):
                assert await ask(second, Response()) is None
            await read(second.record(lookup, Response()))
            await written(client, 2)
            assert (await second.look_up(KEY)).response is None
            assert (await second.look_up(RequestKey("default", b"slow"))).response is None
            await ask(second, Response())
            await asyncio.sleep(0.05)
            assert await ask(first, Response()) is not None

    asyncio.run(main())


@pytest.mark.loopback
def test_an_unknown_outcome_stops_all_for_a_while(server):
    """No process keeps anything until the time is over, also if another update succeeds meanwhile."""

    async def main():
        async with shared(server, Clock(), Clock()) as (_, first, second):
            await first.store.renew("default", unsettled_s=0.3)
            await second.renew("default")
            assert (await second.look_up(KEY)).generation is None
            await asyncio.sleep(0.35)
            assert (await second.look_up(KEY)).generation is not None

    asyncio.run(main())


@pytest.mark.loopback
def test_a_generation_that_was_evicted_brings_nothing_back(server):
    """The server may drop any key; entries of a generation that is gone are never served."""

    async def main():
        async with shared(server, Clock()) as (client, cache):
            await ask(cache, Response())
            await written(client)
            await client.delete(b"sparlance:g:default")
            assert (await cache.look_up(KEY)).response is None

    asyncio.run(main())


@pytest.mark.loopback
def test_entries_end_with_their_time(server):
    """The server drops them; a restart of ours does not prolong them."""

    async def main():
        async with shared(server, Clock(), ttl_s=0.2) as (client, cache):
            await ask(cache, Response())
            await written(client)
            assert (await cache.look_up(KEY)).response is not None
            await asyncio.sleep(0.25)
            assert (await cache.look_up(KEY)).response is None

    asyncio.run(main())


@pytest.mark.loopback
@pytest.mark.parametrize("rubbish", [b"", b"\n", b"{}\n", b"[1]\nx", b'{"headers":[["a"]]}\n', b"\xff\n", b"null\n"], ids=repr)
def test_rubbish_in_the_server_is_a_miss(server, rubbish):
    """Whoever wrote it: it is not served and breaks nothing."""

    async def main():
        async with shared(server, Clock()) as (client, cache):
            await ask(cache, Response())
            await written(client)
            (key,) = [key async for key in client.scan_iter(b"sparlance:e:*")]
            await client.set(key, rubbish, px=10_000)
            assert (await cache.look_up(KEY)).response is None
            await client.delete(key)
            await client.rpush(key, b"a list")
            assert (await cache.look_up(KEY)).response is None

    asyncio.run(main())


@pytest.mark.loopback
def test_a_server_that_is_gone_fails_no_request(server):
    """Without it all is a miss, and no time is spent on it; back again, it is used again after a while."""

    async def main():
        clock = Clock()
        async with shared(server, clock) as (client, cache):
            await ask(cache, Response())
            await written(client)
            server.stop()
            assert await ask(cache, Response()) is None
            failures = cache.store.failures
            for _ in range(100):
                assert await ask(cache, Response()) is None
            async with cache.update("default"):
                pass
            assert cache.store.failures == failures
            server.start()
            clock.time += 10
            assert await ask(cache, Response()) is None
            await written(client)
            assert await ask(cache, Response()) is not None

    asyncio.run(main())


@pytest.mark.loopback
def test_an_update_that_the_server_missed_is_made_up_for(server):
    """A process that could not write a change uses nothing that was kept before it, and writes it when it can."""

    async def main():
        clock = Clock()
        async with shared(server, clock, Clock()) as (client, first, second):
            await ask(first, Response())
            await written(client)
            await client.config_set("maxmemory", 1)  # it reads, and refuses to write
            async with first.update("default"):
                pass
            assert (await first.look_up(KEY)).response is None
            clock.time += 10
            assert (await first.look_up(KEY)).response is None
            await client.config_set("maxmemory", 0)
            clock.time += 10
            assert (await first.look_up(KEY)).response is None
            assert (await second.look_up(KEY)).response is None

    asyncio.run(main())


def test_a_wrong_url_is_a_matter_of_the_configuration():
    """It is noticed at start and names the setting."""
    pytest.importorskip("redis", reason="the package redis is not installed")
    from proxy.pipeline.cache_redis import RedisStore

    with pytest.raises(ConfigError, match=r"cache\.url"):
        RedisStore("http://example.org/")
