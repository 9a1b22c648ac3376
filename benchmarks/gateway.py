"""What the gateway costs a request that meets nobody: CPU in µs above the bare backend, in one process.

    .venv/bin/python -m benchmarks.gateway [--requests 5000] [--rounds 15]

The backend answers from memory. Of all rounds, taken in turn, the least counts: other load only adds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from proxy.assembly import make_cache, make_limits
from proxy.backends.base import BackendRequest, BackendResponse
from proxy.config import load_config
from proxy.pipeline.exchange import Exchange
from proxy.pipeline.gateway import Gateway
from proxy.pipeline.metrics import Metrics
from proxy.query.operation import DatasetDescription, OperationKind, SparqlOperation

ROW = b'{"p":{"type":"uri","value":"http://e/p"}}'
BODY = b'{"head":{"vars":["p","o"]},"results":{"bindings":[' + b",".join([ROW] * 30) + b"]}}"
HEADERS = [(b"host", b"127.0.0.1:8080"), (b"accept", b"*/*"), (b"user-agent", b"curl/8.5.0"), (b"accept-encoding", b"gzip")]


class Response:
    status = 200
    is_complete = True
    headers = ((b"content-type", b"application/sparql-results+json"), (b"content-length", b"%d" % len(BODY)))

    async def chunks(self) -> Any:
        yield BODY

    async def aclose(self) -> None:
        pass


class Memory:
    name = "memory"
    orphan_s = 60.0

    async def send(self, request: BackendRequest) -> BackendResponse:
        return Response()


def request(number: int) -> BackendRequest:
    text = f"SELECT ?p ?o {{<http://e/s{number}> ?p ?o}}"
    operation = SparqlOperation(OperationKind.QUERY, text, DatasetDescription(), (), "*/*")
    return BackendRequest("GET", b"/query?query=x", HEADERS, b"", operation)


async def read(response: BackendResponse) -> None:
    async for _ in response.chunks():
        break
    await response.aclose()


async def measure(requests: int, rounds: int) -> dict[str, float]:
    backend: Any = Memory()
    asked = [request(number) for number in range(requests)]

    def gateway(**settings: Any) -> Gateway:
        config = load_config(None, overrides={key.replace("__", "."): value for key, value in settings.items()})
        return Gateway("default", backend, config, cache=make_cache(config.cache))

    def through(one: Gateway) -> Callable[[Exchange, BackendRequest], Awaitable[BackendResponse]]:
        return lambda exchange, request: one.send(exchange, request)

    config = load_config(None, overrides={"limits.preset": "wikidata"})
    limits, metrics = make_limits(config.limits), Metrics()
    assert limits is not None

    async def limited(exchange: Exchange, request: BackendRequest) -> BackendResponse:
        limits.require_admitted("127.0.0.1")
        limits.charge("127.0.0.1", 0.0)
        return await backend.send(request)

    async def counted(exchange: Exchange, request: BackendRequest) -> BackendResponse:
        exchange.timings_ms = {"parse": 0.1, "queue": 0.0, "backend": 1.0}
        metrics.observe(exchange, 200, 100, 0.001, is_broken=False)
        return await backend.send(request)

    ways: dict[str, Callable[[Exchange, BackendRequest], Awaitable[BackendResponse]]] = {
        "bare": lambda exchange, request: backend.send(request),
        "queue and breaker": through(gateway(load__coalesce=False)),
        "queue, breaker, coalescing": through(gateway()),
        "the same with the cache, all misses": through(gateway(cache__enabled=True, cache__limit_bytes=1)),
        "the same with the cache, all hits": through(gateway(cache__enabled=True)),
        "limits alone": limited,
        "metrics alone": counted,
    }
    least = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, send in ways.items():
            started = time.process_time()
            for one in asked:
                await read(await send(Exchange("r", client="127.0.0.1"), one))
            least[name] = min(least[name], (time.process_time() - started) / requests * 1e6)
    return {name: took - least["bare"] for name, took in least.items() if name != "bare"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    for name, took in uvloop.run(measure(options.requests, options.rounds)).items():
        print(f"{name:40} {took:6.1f} µs")


if __name__ == "__main__":
    main()
