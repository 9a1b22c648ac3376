"""How the parts of docs/load.md go together, before a backend that is a script."""

from __future__ import annotations

import asyncio

import pytest

from proxy.assembly import make_cache
from proxy.backends.base import BackendRequest
from proxy.config import load_config
from proxy.errors import BackendOpen, BackendRefused, BackendTimeout, BackendUnreachable
from proxy.pipeline.exchange import Exchange
from proxy.pipeline.gateway import Gateway, concurrency
from proxy.query.operation import DatasetDescription, OperationKind, SparqlOperation

URL = {"backend.url": "http://a"}


class Response:
    status = 200
    headers = ((b"content-type", b"application/json"), (b"content-length", b"2"))
    is_complete = True

    async def chunks(self):
        yield b"{}"

    async def aclose(self):
        pass


class Backend:
    """Answers after *after_s*, or raises *error*; writes down what it is asked."""

    name = "script"
    orphan_s = 60.0

    def __init__(self, *, after_s=0.0, error=None, probe_error=None):
        self.after_s, self.error, self.probe_error = after_s, error, probe_error
        self.asked: list[str] = []

    async def send(self, request):
        self.asked.append(request.operation.text if request.operation is not None else request.method)
        await asyncio.sleep(self.after_s)
        if self.error is not None:
            raise self.error
        return Response()

    async def probe(self, *, timeout_s):
        self.asked.append("probe")
        if self.probe_error is not None:
            raise self.probe_error


def make(backend, **overrides):
    config = load_config(None, overrides={**URL, **{key.replace("__", "."): value for key, value in overrides.items()}})
    return Gateway("d", backend, config, cache=make_cache(config.cache))


def request(text="ASK {}", kind=OperationKind.QUERY, method="GET"):
    operation = None if kind is None else SparqlOperation(kind, text, DatasetDescription(), (), None)
    return BackendRequest(method, b"/query", [(b"host", b"a")], b"", operation)


async def ask(gateway, asked=None, *, is_write=False):
    exchange = Exchange("r", client="c")
    response = await gateway.send(exchange, asked or request(), is_write=is_write)
    body = b"".join([piece async for piece in response.chunks()])
    await response.aclose()
    return body, exchange


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 64),
        ({"backend.max_connections": 10}, 10),
        ({"backend.kind": "qlever"}, 1),
        ({"backend.kind": "graphdb", "backend.repository": "r"}, 2),
        ({"backend.kind": "graphdb", "backend.repository": "r", "server.workers": 4}, 1),
        ({"load.concurrency": 12, "server.workers": 3}, 4),
        ({"backend.url": "", "backend.load": ["a.ttl"], "server.workers": 3}, 16),
    ],
)
def test_concurrency_is_what_the_backend_bears(settings, expected):
    """By the kind of backend, or as configured; workers divide a backend that they share, at least one each."""
    assert concurrency(load_config(None, overrides={**URL, **settings})) == expected


def test_nobody_joins_where_another_worker_may_update():
    """What is joined would be older than an update that this process never saw."""
    shared = {"server__workers": 2, "policy__allow_updates": True}
    assert make(Backend(), **shared).coalescer is None
    assert make(Backend(), server__workers=2).coalescer is not None
    assert make(Backend(), policy__allow_updates=True).coalescer is not None
    assert make(Backend(), load__coalesce=False).coalescer is None


def test_a_write_parts_reads_before_it_from_reads_after_it():
    """A read that comes while an update runs, or after it, does not join one from before; nor is it answered from memory."""

    async def main():
        backend = Backend(after_s=0.05)
        gateway = make(backend, cache__enabled=True)
        reads = [asyncio.create_task(ask(gateway))]
        await asyncio.sleep(0.01)
        write = asyncio.create_task(ask(gateway, request("DROP ALL", OperationKind.UPDATE, "POST"), is_write=True))
        await asyncio.sleep(0.01)
        reads.append(asyncio.create_task(ask(gateway)))
        await asyncio.gather(write, *reads)
        after = await ask(gateway)
        assert [e.source for _, e in (*await asyncio.gather(*reads), after)] == ["", "", ""]
        assert backend.asked == ["ASK {}", "DROP ALL", "ASK {}", "ASK {}"]
        assert (await ask(gateway))[1].source == "cache"
        await gateway.renew()
        assert (await ask(gateway))[1].source == ""

    asyncio.run(main())


def test_what_is_not_understood_counts_as_a_write_unless_its_method_reads():
    """A transaction's commit, for example, must empty the cache."""

    async def main():
        gateway = make(Backend(), cache__enabled=True)
        for method, source in (("GET", "cache"), ("HEAD", "cache"), ("POST", ""), ("PUT", "")):
            await ask(gateway)
            await ask(gateway, request(kind=None, method=method))
            assert (await ask(gateway))[1].source == source

    asyncio.run(main())


@pytest.mark.parametrize("probe_error", [None, BackendRefused("401", backend="script", status=401, body="")])
def test_a_clients_query_is_not_the_first_after_an_outage(probe_error):
    """Something cheap is asked first; a backend that refuses *our* login has answered too."""

    async def main():
        backend = Backend(error=BackendUnreachable("gone", backend="script"), probe_error=probe_error)
        gateway = make(backend, load__breaker_failures=1, load__breaker_open_first_s=0.05)
        with pytest.raises(BackendUnreachable):
            await ask(gateway)
        with pytest.raises(BackendOpen):
            await ask(gateway)
        backend.error, backend.asked = None, []
        await asyncio.sleep(0.06)
        assert (await ask(gateway))[0] == b"{}"
        assert backend.asked == ["probe", "ASK {}"]

    asyncio.run(main())


def test_an_open_circuit_is_told_without_a_place_in_the_queue():
    """Who would be refused anyway does not wait behind those that hang."""

    async def main():
        backend = Backend(after_s=0.3)
        gateway = make(backend, load__concurrency=1, load__breaker_failures=1, load__max_wait_s=10.0)
        hanging = asyncio.create_task(ask(gateway, request("ASK { ?hangs ?p ?o }")))
        await asyncio.sleep(0.01)
        with pytest.raises(BackendTimeout), gateway.breaker.attempt():
            raise BackendTimeout("late", backend="script")
        with pytest.raises(BackendOpen):
            async with asyncio.timeout(0.1):
                await ask(gateway)
        await hanging

    asyncio.run(main())


def test_times_of_a_request_are_noted():
    """Queue and backend apart; asked_at only where the backend was asked."""

    async def main():
        gateway = make(Backend(after_s=0.05), load__concurrency=1, cache__enabled=True)
        first, second = await asyncio.gather(ask(gateway, request("ASK {1}")), ask(gateway, request("ASK {2}")))
        assert first[1].timings_ms["queue"] < 20 and first[1].timings_ms["backend"] >= 45
        assert second[1].timings_ms["queue"] >= 45 and second[1].asked_at > first[1].asked_at > 0
        _, kept = await ask(gateway, request("ASK {1}"))
        assert (kept.source, kept.asked_at, kept.timings_ms) == ("cache", 0.0, {})

    asyncio.run(main())
