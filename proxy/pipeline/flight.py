"""A query on its way without a task: what ``Gateway.send`` promises, for whoever is called back in place of waiting.

Most queries find a free place and a kept connection, and their answers are small. For those a task, and a coroutine for each
step between the client and the database, cost twice as much as the steps. So they are taken as calls, from the backend's
connection to the client's; as soon as anything has to wait for others, a task takes over (``hand_over``).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

import structlog

from proxy.backends.base import BackendRequest, BackendResponse, StartedResponse
from proxy.errors import BackendError, BackendUnreachable
from proxy.pipeline.queue import PlacedResponse

if TYPE_CHECKING:
    from proxy.pipeline.breaker import Attempt
    from proxy.pipeline.coalesce import Coalescer
    from proxy.pipeline.exchange import Exchange
    from proxy.pipeline.gateway import Gateway
    from proxy.pipeline.queue import Place
    from proxy.pipeline.share import Share


class FlightListener(Protocol):
    """Who is told what becomes of a flight. None of these may raise."""

    def advance(self) -> None:
        """The head is there, or more of the body, or its end, or an error within it."""

    def fail(self, error: BackendError) -> None:
        """There is no answer, and the flight is over."""

    def hand_over(self, response: BackendResponse) -> None:
        """Others wait for this answer too: read *response* in a task; the flight is over."""


class Flight:
    """One query between ``Gateway.start`` and the end of its answer.

    Whoever started it calls ``release`` once the body is complete, broken, or no longer wanted.
    """

    __slots__ = (
        "_attempt",
        "_coalescer",
        "_exchange",
        "_gateway",
        "_has_head",
        "_listener",
        "_place",
        "_request",
        "_response",
        "_share",
        "_task",
    )

    def __init__(
        self, gateway: Gateway, exchange: Exchange, request: BackendRequest, listener: FlightListener, place: Place
    ) -> None:
        self._gateway = gateway
        self._exchange = exchange
        self._request = request
        self._listener = listener
        self._place = place
        self._response: StartedResponse | None = None
        self._attempt: Attempt | None = None
        self._coalescer: Coalescer | None = None
        self._share: Share | None = None
        self._task: asyncio.Task[None] | None = None
        self._has_head = False

    def begin(self, start: Callable[[BackendRequest, Callable[[], None]], StartedResponse | None]) -> bool:
        """Send the request; False where it would have to wait for its turn, and nothing has happened."""
        try:
            response = start(self._request, self._advance)
        except BaseException:
            self._place.unuse()
            raise
        if response is None:
            self._place.unuse()
            return False
        gateway, operation = self._gateway, self._request.operation
        self._response = response
        self._attempt = gateway.breaker.attempt()
        if (coalescer := gateway.coalescer) is not None:
            assert operation is not None
            self._coalescer = coalescer
            self._share = coalescer.lead(operation.text, partial(gateway.identify, self._request))
        self._exchange.asked_at = time.perf_counter()
        if response.is_unsent:
            self._connect(response)
        return True

    # -- what its listener may ask

    @property
    def response(self) -> StartedResponse:
        """The answer, once the listener was told of it."""
        assert self._response is not None
        return self._response

    def release(self) -> None:
        """Let go of place and connection; before the head this gives the question up, within the body its rest."""
        if self._response is None and self._task is None:
            return
        if not self._has_head:
            self._end_head(asyncio.CancelledError())
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._place.release()
        if (response := self._response) is not None:
            self._response = None
            response.release()

    # -- inside

    def _advance(self) -> None:
        response = self._response
        if response is None:
            return
        if not self._has_head:
            if not response.is_head_there:
                if response.error is None:
                    return
                if self._task is not None:
                    return
                if response.is_unsent:
                    self._connect(response)  # the one repetition that a read gets when its kept connection was dead
                else:
                    self._fail(response.error)
                return
            self._has_head = True
            assert self._attempt is not None
            self._attempt.end(None)
            exchange = self._exchange
            exchange.status = response.status
            exchange.timings_ms["backend"] = (time.perf_counter() - exchange.asked_at) * 1000
            if self._share is not None:
                assert self._coalescer is not None
                if self._share.followers:
                    self._hand_over(response, self._coalescer, self._share)
                    return
                self._coalescer.forget(self._share)
        self._listener.advance()

    def _hand_over(self, response: StartedResponse, coalescer: Coalescer, share: Share) -> None:
        response.ignore()
        self._response = None
        shared = coalescer.answered(share, PlacedResponse(self._place, response), self._open)
        assert shared is not None
        self._listener.hand_over(shared)

    def _open(self) -> Awaitable[BackendResponse]:
        """Ask anew, for those who have joined."""
        return self._gateway.ask(self._exchange, self._request)

    def _connect(self, response: StartedResponse) -> None:
        self._task = asyncio.create_task(self._connected(response))

    async def _connected(self, response: StartedResponse) -> None:
        try:
            await response.connect(self._advance)
        except BackendError as error:
            self._task = None
            self._fail(error)
        except Exception as error:  # no bug may keep the client waiting, and a place
            self._task = None
            path = self._request.target.partition(b"?")[0].decode("latin-1")
            structlog.get_logger().exception("request_failed", path=path, request_id=self._exchange.request_id)
            self._fail(BackendUnreachable(f"no connection: {type(error).__name__}", backend=self._gateway.queue.backend))
        else:
            self._task = None

    def _fail(self, error: BackendError) -> None:
        self._end_head(error)
        response, self._response = self._response, None
        self._has_head = True
        if response is not None:
            response.release()
        self._listener.fail(error)

    def _end_head(self, error: BaseException) -> None:
        """There is no head: the breaker, the queue and those who have joined learn why."""
        assert self._attempt is not None
        self._attempt.end(error)
        self._gateway.queue.failed(self._place, error, orphan_bound_s=self._gateway.orphan_bound_s())
        if self._share is not None:
            assert self._coalescer is not None
            if isinstance(error, Exception):
                self._coalescer.failed(self._share, error)
            else:
                self._coalescer.left(self._share, self._open)
