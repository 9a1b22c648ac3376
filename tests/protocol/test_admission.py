"""Whose request it is."""

import pytest

from proxy.protocol.admission import Admission


async def nothing(scope, receive, send):
    """An application that does nothing."""


def client(peer, *forwarded, trusted=()):
    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    return Admission(nothing, trusted_proxies=trusted).client_of({"client": (peer, 1), "headers": headers})


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("192.0.2.1", ["198.51.100.7"], "192.0.2.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["203.0.113.9, 198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["203.0.113.9", "198.51.100.7, 10.0.0.2"], "198.51.100.7"),
        ("10.0.0.1", ["198.51.100.7:4711"], "198.51.100.7"),
        ("10.0.0.1", ["[2001:db8:1:2:3::4]:80"], "2001:db8:1:2::"),
        ("10.0.0.1", ["unknown"], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.7, unknown, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("2001:db8:9:9::1", [], "2001:db8:9:9::"),
    ],
)
def test_the_last_address_that_a_trusted_proxy_saw(peer, forwarded, expected):
    """What stands before the first stranger, read from the end, is hearsay; what is no address ends the search."""
    assert client(peer, *forwarded, trusted=["10.0.0.0/8"]) == expected


def test_without_trusted_proxies_the_field_is_not_read():
    """Anybody could write anything there; a connection without an address is one client."""
    assert client("10.0.0.1", "198.51.100.7") == "10.0.0.1"
    assert Admission(nothing).client_of({"client": None, "headers": []}) == "unknown"
