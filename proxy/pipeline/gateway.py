"""The way of a dataset's requests to its backend: cache, coalescing, circuit breaker, queue, in this order (docs/load.md).

What is off, or not needed by a request, costs nothing: a read that is alone, of a backend that answers and has a free place,
passes an entry of a table, one look at the breaker, and a place.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import structlog

from proxy.backends.base import Backend, BackendRequest, BackendResponse, StartsQueries
from proxy.errors import BackendError, BackendGarbled, BackendRefused, BackendTimeout, BackendUnreachable
from proxy.pipeline.breaker import Breaker, BreakerState
from proxy.pipeline.coalesce import Coalescer
from proxy.pipeline.flight import Flight, FlightListener
from proxy.pipeline.key import request_key
from proxy.pipeline.queue import BackendQueue
from proxy.pipeline.shared_response import is_joined
from proxy.query.operation import OperationKind

if TYPE_CHECKING:
    from proxy.config import Config
    from proxy.pipeline.cache import ResponseCache
    from proxy.pipeline.exchange import Exchange

CONCURRENCY = {"graphdb": 2, "qlever": 1}
"""What the products work on at once by default (GraphDB Free; QLever's --num-simultaneous-queries)."""
CONCURRENCY_ELSE = 64
CONCURRENCY_EMBEDDED = 16
PROBE_S = 5.0
READ_METHODS = frozenset(["GET", "HEAD", "OPTIONS"])
DOUBT = "the change may have been applied all the same; look before you send it again"


class Gateway:
    """Sends the requests of one dataset. For one event loop.

    Args:
        cache: of answers; None: none are kept.
    """

    def __init__(self, dataset: str, backend: Backend, settings: Config, *, cache: ResponseCache | None = None) -> None:
        load = settings.load
        self._dataset = dataset
        self._backend = backend
        self._starts = backend if isinstance(backend, StartsQueries) else None
        self.cache = cache
        self.queue = BackendQueue(concurrency(settings), load.max_waiting, load.max_wait_s, backend=backend.name)
        self.breaker = Breaker(
            backend.name,
            failures=load.breaker_failures,
            window_s=load.breaker_window_s,
            open_first_s=load.breaker_open_first_s,
            open_most_s=load.breaker_open_most_s,
            on_change=self._note_circuit,
        )
        self.coalescer: Coalescer | None = None
        # Another worker's update is not seen here, and what is joined may be as old as its first asker.
        if load.coalesce and not (settings.server.workers > 1 and settings.policy.allow_updates):
            self.coalescer = Coalescer(
                share_limit_bytes=load.share_limit_bytes,
                total_limit_bytes=load.share_total_bytes,
                hold_s=load.hold_s,
                backend=backend.name,
            )
        self._orphan_bound_s = load.orphan_bound_s

    async def send(self, exchange: Exchange, request: BackendRequest, *, is_write: bool = False) -> BackendResponse:
        """Get the answer to *request*: from memory, from a request under way, or from the backend.

        Args:
            is_write: it may change the data. What is not understood counts as one unless its method is for reading.
        Raises:
            BackendOpen, BackendBusy: the backend is not asked. BackendError: it gave no answer to pass back.
        """
        operation = request.operation
        if is_write or (operation is None and request.method not in READ_METHODS):
            return await self._write(exchange, request)
        if operation is None or operation.kind is not OperationKind.QUERY or request.method == "HEAD":
            return await self.ask(exchange, request)
        if self.cache is not None:
            return await self._read_cached(exchange, request, self.cache)
        if self.coalescer is None:
            return await self.ask(exchange, request)
        ask = partial(self.ask, exchange, request)
        response = await self.coalescer.fetch(operation.text, ask, identify=partial(self.identify, request))
        if is_joined(response):
            exchange.source = "joined"
        return response

    def start(self, exchange: Exchange, request: BackendRequest, listener: FlightListener) -> Flight | None:
        """Ask a query without a task, if nothing on the way has to wait: the steps and promises of ``send``.

        Returns:
            None: something has to, and nothing has happened.
        Raises:
            RequestError: the backend must not be asked this.
        """
        operation, coalescer = request.operation, self.coalescer
        if (
            self._starts is None
            or self.cache is not None
            or operation is None
            or operation.kind is not OperationKind.QUERY
            or not self.breaker.is_closed
            or (coalescer is not None and coalescer.is_asked(operation.text))
        ):
            return None
        place = self.queue.place_now(exchange.client)
        if place is None:
            return None
        flight = Flight(self, exchange, request, listener, place)
        if not flight.begin(self._starts.start):
            return None
        exchange.timings_ms["queue"] = 0.0
        return flight

    async def renew(self) -> None:
        """The data have changed: forget the answers, and let nobody join a question of before."""
        if self.cache is not None:
            await self.cache.renew(self._dataset)
        self._seal()

    async def aclose(self) -> None:
        """Stop what is shared, and let go of the cache; the backend is not ours."""
        if self.coalescer is not None:
            await self.coalescer.aclose()
        if self.cache is not None:
            await self.cache.store.aclose()

    # -- reads

    def identify(self, request: BackendRequest) -> bytes | None:
        """What makes the answer to *request*: only for equal ones may it be shared. None: it may not at all."""
        key = request_key(self._dataset, request)
        return None if key is None else key.digest

    async def _read_cached(self, exchange: Exchange, request: BackendRequest, cache: ResponseCache) -> BackendResponse:
        key = request_key(self._dataset, request)
        if key is None:
            return await self.ask(exchange, request)
        look = await cache.look_up(key)
        if look.response is not None:
            exchange.source = "cache"
            return look.response

        async def led() -> BackendResponse:
            started = time.monotonic()
            response = await self.ask(exchange, request)
            return cache.record(look, response, elapsed_s=time.monotonic() - started)

        if self.coalescer is None:
            return await led()
        response = await self.coalescer.fetch(key.digest, led)
        if is_joined(response):
            exchange.source = "joined"
        return response

    # -- writes

    async def _write(self, exchange: Exchange, request: BackendRequest) -> BackendResponse:
        self._seal()
        try:
            if self.cache is None:
                return await self.ask(exchange, request)
            async with self.cache.update(self._dataset):
                return await self.ask(exchange, request)
        except (BackendTimeout, BackendUnreachable, BackendGarbled) as error:
            if may_have_arrived(error):
                raise in_doubt(error) from error
            raise
        finally:
            self._seal()

    def _seal(self) -> None:
        if self.coalescer is not None:
            self.coalescer.seal()

    # -- the backend

    async def ask(self, exchange: Exchange, request: BackendRequest) -> BackendResponse:
        """Ask the backend, past cache and coalescing."""
        self.breaker.require_passable()
        started = time.perf_counter()

        async def open_() -> BackendResponse:
            exchange.asked_at = asked_at = time.perf_counter()
            exchange.timings_ms["queue"] = (asked_at - started) * 1000
            with self.breaker.attempt() as attempt:
                if attempt.is_probe:
                    await self._probe()
                response = await self._backend.send(request)
            exchange.timings_ms["backend"] = (time.perf_counter() - asked_at) * 1000
            return response

        return await self.queue.send(exchange.client, open_, orphan_bound_s=self.orphan_bound_s())

    def orphan_bound_s(self) -> float | None:
        """How long a question counts that nobody listens to; None: it is stopped. Asked each time, as a backend that turns out
        not to let us stop its queries says so from then on."""
        orphan_s = self._backend.orphan_s
        return None if orphan_s is None else min(orphan_s, self._orphan_bound_s)

    async def _probe(self) -> None:
        """Ask something cheap: a backend that has failed must not be tried with a client's heavy query."""
        try:
            await self._backend.probe(timeout_s=PROBE_S)
        except BackendRefused:
            pass  # an answer: perhaps our own login does not suffice, and the client's does

    def _note_circuit(self, state: BreakerState, reason: str) -> None:
        log = structlog.get_logger().bind(dataset=self._dataset, state=str(state), reason=reason)
        if state is BreakerState.OPEN:
            log.warning("circuit_changed")
        else:
            log.info("circuit_changed")


def concurrency(settings: Config) -> int:
    """How many requests one worker may have at its backend: the configured number or the kind's, divided by the workers."""
    wanted = settings.load.concurrency
    if not wanted:
        kind = CONCURRENCY.get(settings.backend.kind, CONCURRENCY_ELSE)
        wanted = CONCURRENCY_EMBEDDED if settings.backend.load else min(kind, settings.backend.max_connections)
    return max(wanted // (1 if settings.backend.load else settings.server.workers), 1)


def may_have_arrived(error: BackendError) -> bool:
    """Whether the backend may have got the request that *error* is about: not where no connection came about."""
    return not isinstance(error.__cause__, OSError)


def in_doubt(error: BackendError) -> BackendError:
    """The same for the client of an update."""
    message = f"{error}; {DOUBT}"
    if isinstance(error, BackendTimeout):
        return BackendTimeout(message, backend=error.backend, elapsed_s=error.elapsed_s, limit=error.limit)
    return type(error)(message, backend=error.backend, elapsed_s=error.elapsed_s)
