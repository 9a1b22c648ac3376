"""Clients that send byte by byte, many of them: each gets its answer, nobody waits for them, and nothing half-sent goes on."""

import pytest

from tests.loopback.conftest import OK, answering
from tests.loopback.test_direct import ASK, read_all
from tests.loopback.test_load import metric

pytestmark = pytest.mark.loopback
LAST = b"Host: a\r\nConnection: close\r\n"
QUERY = b"SELECT * { <http://e/%d> ?p ?o }"


def requests_of(n):
    """One query in each of the forms in which it may be sent."""
    text = QUERY % n
    direct = b"POST /sparql HTTP/1.1\r\nContent-Type: application/sparql-query\r\n" + LAST
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in text) + b"0\r\n\r\n"
    return [
        b"GET /sparql?query=%b HTTP/1.1\r\n%b\r\n" % (text.replace(b" ", b"+"), LAST),
        direct + b"Content-Length: %d\r\n\r\n%b" % (len(text), text),
        direct + b"Transfer-Encoding: chunked\r\n\r\n" + chunks,
    ]


def test_many_that_send_byte_by_byte(serve, stub):
    """All are answered, each for what it asked; those who send at once are answered in between."""
    backend = stub(answering(OK))
    proxy = serve(backend.url)
    sent = [request for n in range(40) for request in requests_of(n)]
    clients = [proxy.connect(b"") for _ in sent]
    for at in range(max(map(len, sent))):
        for client, request in zip(clients, sent, strict=True):
            if at < len(request):
                client.sendall(request[at : at + 1])
        if at % 50 == 0:
            assert proxy.request("GET", ASK)[0] == 200
    assert [read_all(client)[9:12] for client in clients] == [b"200"] * len(sent)
    for n in range(40):
        texts = QUERY % n, (QUERY % n).replace(b" ", b"+")
        assert sum(any(text in request for text in texts) for request in backend.requests) == 3


def test_what_is_half_sent_goes_nowhere(serve, stub):
    """Whoever leaves within head or body has asked nothing, and holds nothing."""
    backend = stub(answering(OK))
    proxy = serve(backend.url)
    for request in requests_of(1):
        for end in range(1, len(request) - 1, 7):
            proxy.connect(request[:end]).close()
    assert proxy.request("GET", ASK)[0] == 200
    assert len(backend.requests) == 1
    assert metric(proxy, "sparlance_queue_running") == 0
