"""The circuit breaker: when a backend is left alone, and when it is tried again."""

from __future__ import annotations

import pytest

from proxy.errors import BackendBusy, BackendGarbled, BackendRefused, BackendTimeout, BackendUnreachable
from proxy.pipeline.breaker import Breaker, BreakerState


class Clock:
    def __init__(self):
        self.time = 1000.0

    def __call__(self):
        return self.time


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def breaker(clock):
    return Breaker("store", failures=3, window_s=30, open_first_s=2, open_most_s=10, probe_limit_s=20, now=clock)


def unreachable():
    return BackendUnreachable("store cannot be reached: refused", backend="store")


def fail(breaker, error=None):
    with pytest.raises(type(error or unreachable())), breaker.attempt():
        raise error or unreachable()


def succeed(breaker):
    with breaker.attempt():
        pass


def state(breaker):
    return breaker.stats().state


@pytest.mark.parametrize(
    "error",
    [unreachable(), BackendTimeout("", backend="store"), BackendGarbled("", backend="store")],
    ids=lambda error: type(error).__name__,
)
def test_failures_in_a_row_open_it(breaker, error):
    """Each kind of failure of the transport counts, and the third in a row closes the way."""
    fail(breaker, error)
    fail(breaker, error)
    assert state(breaker) is BreakerState.CLOSED
    fail(breaker, error)
    assert state(breaker) is BreakerState.OPEN


@pytest.mark.parametrize(
    "error",
    [
        BackendRefused("", backend="store", status=400, body=""),
        BackendBusy("", backend="store", retry_after_s=1),
        KeyboardInterrupt(),
        ValueError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_says_nothing_of_the_transport_does_not_count(breaker, error):
    """An answer with an error status, our own refusal, a client that left, a bug: none of them opens it."""
    for _ in range(10):
        fail(breaker, error)
    assert state(breaker) is BreakerState.CLOSED


def test_a_success_starts_the_count_anew(breaker):
    """Only failures in a row count."""
    for _ in range(5):
        fail(breaker)
        fail(breaker)
        succeed(breaker)
    assert state(breaker) is BreakerState.CLOSED


def test_failures_far_apart_are_not_in_a_row(breaker, clock):
    """Failures that are spread over more than the window do not open it."""
    for _ in range(5):
        fail(breaker)
        clock.time += 16
    assert state(breaker) is BreakerState.CLOSED


def test_an_open_one_refuses_and_says_why(breaker, clock):
    """The refusal names the backend, since when, the last failure, and when to come back."""
    fail(breaker)
    clock.time += 1
    fail(breaker)
    fail(breaker)
    clock.time += 0.5
    with pytest.raises(BackendBusy, match=r"store .* 3 times in a row, first 1\.5 s ago, last with: .*refused") as caught:
        breaker.attempt()
    assert caught.value.retry_after_s == pytest.approx(1.5)
    assert breaker.stats().refused == 1


def open_it(breaker):
    for _ in range(3):
        fail(breaker)


def test_one_probe_passes_at_a_time(breaker, clock):
    """After the pause one request is let through, and the others are refused until it has an outcome."""
    open_it(breaker)
    clock.time += 2
    with breaker.attempt() as probe:
        assert probe.is_probe
        assert state(breaker) is BreakerState.HALF_OPEN
        with pytest.raises(BackendBusy):
            breaker.attempt()
    assert state(breaker) is BreakerState.CLOSED
    assert not breaker.attempt().is_probe


def test_pauses_double_up_to_the_longest(breaker, clock):
    """2 s, 4 s, 8 s, 10 s, 10 s; after a success it starts with 2 s again."""
    open_it(breaker)
    for pause in (2, 4, 8, 10, 10):
        clock.time += pause - 0.01
        with pytest.raises(BackendBusy):
            breaker.attempt()
        clock.time += 0.01
        fail(breaker)
        assert state(breaker) is BreakerState.OPEN
    clock.time += 10
    succeed(breaker)
    open_it(breaker)
    clock.time += 2
    assert breaker.attempt().is_probe


def test_an_abandoned_probe_lets_the_next_one_try(breaker, clock):
    """A client that leaves while its request is the probe teaches nothing: neither closes nor lengthens the pause."""
    open_it(breaker)
    clock.time += 2
    with pytest.raises(KeyboardInterrupt), breaker.attempt():
        raise KeyboardInterrupt
    assert state(breaker) is BreakerState.OPEN
    assert breaker.attempt().is_probe


def test_a_lost_probe_is_replaced(breaker, clock):
    """A probe that never reports does not keep the backend out for good, and its late failure counts for nothing."""
    open_it(breaker)
    clock.time += 2
    lost = breaker.attempt()
    clock.time += 20
    probe = breaker.attempt()
    assert probe.is_probe
    with pytest.raises(BackendUnreachable), lost:
        raise unreachable()
    assert state(breaker) is BreakerState.HALF_OPEN
    with probe:
        pass
    assert state(breaker) is BreakerState.CLOSED


def test_failures_from_before_it_opened_count_for_nothing_after(breaker, clock):
    """Requests that were on their way when it opened do not open it again once it has closed."""
    old = [breaker.attempt() for _ in range(5)]
    open_it(breaker)
    clock.time += 2
    succeed(breaker)
    for attempt in old:
        with pytest.raises(BackendUnreachable), attempt:
            raise unreachable()
    assert state(breaker) is BreakerState.CLOSED


def test_an_answer_while_it_is_open_closes_it(breaker):
    """A request from before that is answered now shows that the backend lives."""
    old = breaker.attempt()
    open_it(breaker)
    with old:
        pass
    assert state(breaker) is BreakerState.CLOSED


def test_changes_are_told(clock):
    """Each change of state is reported once, with a reason."""
    told = []
    breaker = Breaker("store", failures=1, now=clock, on_change=lambda state, reason: told.append((str(state), reason)))
    fail(breaker)
    clock.time += 1
    succeed(breaker)
    assert [entry[0] for entry in told] == ["open", "half-open", "closed"]
    assert "refused" in told[0][1]
