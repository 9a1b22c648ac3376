"""API keys before what is shared: joined questions, kept answers, fields that came before on their connection."""

import base64
import threading

import pytest

from proxy import keys
from proxy.access.keys import Role
from proxy.config import load_config
from tests.loopback.conftest import OK, answering, wait_until, when_told
from tests.loopback.test_direct import ASK, read_all

pytestmark = pytest.mark.loopback


class Keys:
    """A file of keys, and how one of them is shown."""

    def __init__(self, folder):
        self.path = str(folder / "keys.json")
        self.config = load_config(None, overrides={"access.keys_file": self.path}, environ={})

    def new(self, name, *roles):
        return b"Authorization: Bearer %b\r\n" % keys.new_key(self.config, name, [Role(r) for r in roles])[0].encode()


def ask(fields, *, last=True):
    end = b"Connection: close\r\n\r\n" if last else b"\r\n"
    return b"GET %b HTTP/1.1\r\nHost: a\r\n%b%b" % (ASK.encode(), fields, end)


def status(raw):
    return int(raw[9:12])


@pytest.mark.parametrize("kept", [False, True])
def test_nobody_joins_a_question_without_the_role_for_it(serve, stub, tmp_path, kept):
    """Who may ask shares one answer, also a kept one; who may not is refused, before it and after it is there."""
    ring, backend = Keys(tmp_path), stub(when_told)
    one, other, lacking = ring.new("one", "query"), ring.new("other", "query"), ring.new("lacking", "nl")
    proxy = serve(backend.url, access__keys_file=ring.path, access__anonymous=[], cache__enabled=kept)
    first, second = proxy.connect(ask(one)), []
    wait_until(lambda: backend.requests)
    joining = threading.Thread(target=lambda: second.append(read_all(proxy.connect(ask(other)))))
    joining.start()
    refusals = [lacking, b"", b"Authorization: Bearer spl_0123456789ab_%b\r\n" % (b"0" * 43)]
    assert [status(read_all(proxy.connect(ask(fields)))) for fields in refusals] == [403, 401, 401]
    backend.go.set()
    assert status(read_all(first)) == 200
    joining.join()
    assert status(second[0]) == 200
    assert [status(read_all(proxy.connect(ask(fields)))) for fields in refusals] == [403, 401, 401]
    assert status(read_all(proxy.connect(ask(one)))) == 200
    assert len(backend.requests) <= (1 if kept else 3)
    assert not any(b"spl_" in request for request in backend.requests)


def test_credentials_of_the_backend_are_never_joined(serve, stub):
    """They are not ours to judge: each gets the answer that its own credential gets."""
    backend = stub(when_told)
    proxy = serve(backend.url)
    shown = [b"Authorization: Basic %b\r\n" % base64.b64encode(b"%d:x" % i) for i in range(3)]
    clients = [proxy.connect(ask(fields)) for fields in [*shown, b""]]
    wait_until(lambda: len(backend.requests) == 4)
    backend.go.set()
    assert [status(read_all(client)) for client in clients] == [200] * 4
    assert sorted(sum(fields.lower().strip() in r.lower() for r in backend.requests) for fields in shown) == [1, 1, 1]


def test_a_revoked_key_opens_nothing_on_a_connection_that_it_was_used_on(serve, stub, tmp_path):
    """The fields are known there, byte for byte; who shows them is asked each time."""
    ring, backend = Keys(tmp_path), stub(answering(OK))
    mine, lacking = ring.new("mine", "query"), ring.new("lacking", "nl")
    proxy = serve(backend.url, access__keys_file=ring.path, access__anonymous=[])
    client = proxy.connect(ask(mine, last=False))
    client.settimeout(60)

    def answer(fields):
        client.sendall(ask(fields, last=False))
        return next_status(client)

    assert next_status(client) == 200
    assert [answer(f) for f in (mine, mine, lacking, lacking, b"", b"", mine, mine)] == [200, 200, 403, 403, 401, 401, 200, 200]
    keys.revoke_key(ring.config, "mine")
    wait_until(lambda: answer(mine) == 401)
    assert answer(mine) == 401
    client.close()
    assert not any(b"spl_" in request for request in backend.requests)


def next_status(client):
    """Of the next response, whose body has a length or comes in chunks."""
    raw = b""
    while b"\r\n\r\n" not in raw:
        raw += client.recv(1 << 16)
    head, _, body = raw.partition(b"\r\n\r\n")
    lengths = [int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
    while len(body) < lengths[0] if lengths else not body.endswith(b"0\r\n\r\n"):
        body += client.recv(1 << 16)
    return status(raw)
