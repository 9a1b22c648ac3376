"""Binding: what is wrong with an address is said in one sentence, before anything is loaded. Accepting: in turns."""

import asyncio
import socket

import pytest

from proxy.config import ServerSettings
from proxy.errors import ConfigError
from proxy.server import TurnTaking, bind, is_loopback, url_of


def test_port_zero_takes_a_free_one():
    """The URL then names the port that was taken."""
    with bind(ServerSettings(port=0)) as listener:
        port = listener.getsockname()[1]
        assert port > 0
        assert url_of(listener) == f"http://127.0.0.1:{port}"
        assert is_loopback(listener)


def test_a_taken_port_is_a_sentence():
    """Not a traceback: the key, the port and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"{port} is in use") as caught:
            bind(ServerSettings(port=port))
    assert caught.value.key == "server.port"


@pytest.mark.parametrize("host", ["no such host.invalid", "203.0.113.7"])
def test_an_address_that_is_not_ours_is_named(host):
    """A name that resolves to nothing, and an address of another machine."""
    with pytest.raises(ConfigError) as caught:
        bind(ServerSettings(host=host, port=0))
    assert caught.value.key == "server.host"


def test_every_interface_is_not_loopback():
    """Then the URL says localhost, and the command warns."""
    with bind(ServerSettings(host="0.0.0.0", port=0)) as listener:
        assert not is_loopback(listener)
        assert url_of(listener).startswith("http://localhost:")


def test_two_that_accept_from_one_socket_share_the_connections():
    """Of connections opened one after the other, neither gets nearly all."""

    class Held(asyncio.Protocol):
        def __init__(self, held):
            self._held = held

        def connection_made(self, transport):
            self._held.append(transport)

    async def main():
        loop, shares = asyncio.get_running_loop(), ([], [])
        with socket.create_server(("127.0.0.1", 0)) as listener, listener.dup() as other:
            takers = [
                TurnTaking(loop, own, lambda held=held: Held(held), held.__len__)
                for own, held in zip((listener, other), shares, strict=True)
            ]
            clients = []
            for _ in range(8):
                clients.append(await asyncio.open_connection(*listener.getsockname()))
                await asyncio.sleep(0.01)
            for taker in takers:
                taker.close()
            for _, writer in clients:
                writer.close()
        assert sum(map(len, shares)) == 8 and min(map(len, shares)) >= 2
        for transport in [*shares[0], *shares[1]]:
            transport.abort()

    asyncio.run(main())
