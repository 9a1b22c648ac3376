"""What one client may use, and when it may come back."""

from __future__ import annotations

import pytest

from proxy.pipeline.limits import PRESETS, Allowance, Allowances, ClientLimits, Limit, RateLimited, client_key


class Clock:
    def __init__(self):
        self.time = 1000.0

    def __call__(self):
        return self.time


@pytest.fixture
def clock():
    return Clock()


def test_requests_are_a_bucket_that_fills(clock):
    """A burst of five passes, the sixth waits for a tenth of a minute's sixty."""
    limits = ClientLimits(Allowances(requests=Allowance(60, 5)), now=clock)
    assert [limits.admit("a") for _ in range(5)] == [None] * 5
    refusal = limits.admit("a")
    assert (refusal.limit, refusal.retry_after_s) == (Limit.REQUESTS, pytest.approx(1))
    clock.time += 1
    assert limits.admit("a") is None
    assert limits.admit("a") is not None


def test_a_refused_request_costs_nothing(clock):
    """Who asks too often is not kept out the longer for it."""
    limits = ClientLimits(Allowances(requests=Allowance(60, 1)), now=clock)
    limits.admit("a")
    for _ in range(100):
        assert limits.admit("a") is not None
    clock.time += 1
    assert limits.admit("a") is None


def test_the_wikidata_preset_counts_query_seconds(clock):
    """120 s of query time can be spent at once; then a client gets one second back each second."""
    limits = ClientLimits(PRESETS["wikidata"], now=clock)
    for _ in range(2):
        assert limits.admit("a") is None
        limits.charge("a", 60)
    refusal = limits.admit("a")
    assert refusal.limit is Limit.QUERY_SECONDS
    clock.time += 2
    assert limits.admit("a") is None
    limits.charge("a", 42)
    assert limits.admit("a").retry_after_s == pytest.approx(40)
    clock.time += 41
    assert limits.admit("a") is None


def test_the_wikidata_preset_counts_errors(clock):
    """The thirty-first error within a minute is not even tried; the next may come two seconds later."""
    limits = ClientLimits(PRESETS["wikidata"], now=clock)
    for _ in range(30):
        assert limits.admit("a") is None
        limits.charge("a", 0.01, is_error=True)
    refusal = limits.admit("a")
    assert (refusal.limit, refusal.retry_after_s) == (Limit.ERRORS, pytest.approx(2))
    clock.time += 2
    assert limits.admit("a") is None


def test_a_rest_saves_up_no_more_than_the_burst(clock):
    """After a day of rest a client has its burst, not a day's worth."""
    limits = ClientLimits(Allowances(Allowance(60, 2), Allowance(60, 120), Allowance(30, 30)), now=clock)
    for client in "abc":
        limits.admit(client)
        limits.charge(client, 10, is_error=True)
    clock.time += 86_400
    limits.charge("a", 121)
    assert limits.admit("a").limit is Limit.QUERY_SECONDS
    for _ in range(30):
        limits.charge("b", 0, is_error=True)
    assert limits.admit("b").limit is Limit.ERRORS
    assert [limits.admit("c") for _ in range(2)] == [None, None]
    assert limits.admit("c").limit is Limit.REQUESTS


def test_clients_do_not_pay_for_each_other(clock):
    """One that is overdrawn leaves the others alone."""
    limits = ClientLimits(PRESETS["wikidata"], now=clock)
    limits.charge("a", 1000)
    assert limits.admit("a") is not None
    assert limits.admit("b") is None


def test_the_refusal_as_an_error_says_which_limit(clock):
    """The message has the limit, its figures and the time to wait."""
    limits = ClientLimits(PRESETS["wikidata"], now=clock)
    limits.charge("a", 150)
    with pytest.raises(RateLimited, match=r"query-seconds: 60 a minute, 120 at once; more in 30 s") as caught:
        limits.require_admitted("a")
    assert (caught.value.limit, caught.value.retry_after_s) == (Limit.QUERY_SECONDS, pytest.approx(30))


def test_nothing_is_counted_without_limits(clock):
    """Off costs no memory per client."""
    limits = ClientLimits(PRESETS["off"], now=clock)
    for i in range(100):
        limits.require_admitted(f"client {i}")
        limits.charge(f"client {i}", 1e9, is_error=True)
    assert limits.stats().clients == 0


def test_the_table_is_bounded(clock):
    """However many clients come, no more than max_clients are remembered, the latest ones."""
    limits = ClientLimits(PRESETS["wikidata"], max_clients=100, now=clock)
    for i in range(1000):
        limits.charge(f"client {i}", 1000)
    assert limits.stats().clients == 100
    assert limits.stats().forgotten == 900
    assert limits.admit("client 999") is not None
    assert limits.admit("client 0") is None


def test_who_has_recovered_is_dropped_first(clock):
    """An account that is full again leaves the table without loss; one in debt stays."""
    limits = ClientLimits(PRESETS["wikidata"], max_clients=100, now=clock)
    for i in range(50):
        limits.charge(f"light {i}", 1)
    limits.charge("heavy", 10_000)
    clock.time += 60
    for i in range(49):
        limits.charge(f"new {i}", 1)
    assert limits.stats().forgotten == 0
    assert limits.stats().clients == 50
    assert limits.admit("heavy") is not None


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (("192.0.2.1", "curl"), ("192.0.2.1", "curl"), True),
        (("192.0.2.1", "curl"), ("192.0.2.2", "curl"), False),
        (("192.0.2.1", "curl"), ("192.0.2.1", "browser"), False),
        (("2001:db8::1", "curl"), ("2001:db8::ffff:2", "curl"), True),
        (("2001:db8::1", "curl"), ("2001:db8:0:1::1", "curl"), False),
        (("fe80::1%eth0", "curl"), ("fe80::2%eth0", "curl"), True),
    ],
    ids=["same", "address", "agent", "one /64", "another /64", "scoped"],
)
def test_a_client_is_its_address_and_agent(first, second, is_same):
    """IPv6 addresses of one /64 belong to one client."""
    assert (client_key(*first) == client_key(*second)) is is_same


def test_an_account_goes_before_the_address():
    """The same verified account is one client from wherever it comes, and is no address."""
    assert client_key("192.0.2.1", "a", account="k") == client_key("192.0.2.9", "b", account="k")
    assert client_key("192.0.2.1", "a", account="k") != client_key("k", "")


def test_the_agent_cannot_blow_up_the_key():
    """A user agent of any length makes a short key."""
    assert len(client_key("192.0.2.1", "x" * 100_000)) < 300
