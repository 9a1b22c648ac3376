"""What goes in comes out: bytes, order, repeats; and it comes at once."""

import asyncio
import gzip
import time

import pytest

from tests.loopback.conftest import OK, answering

pytestmark = pytest.mark.loopback


def head_lines(raw: bytes) -> list[bytes]:
    return raw.split(b"\r\n\r\n")[0].split(b"\r\n")


def test_request_reaches_backend_byte_for_byte(serve, stub):
    """Query string, header order and repeats are the client's; hop-by-hop fields go, Forwarded comes, Host stays."""
    backend = stub(answering(OK))
    proxy = serve(backend.url)
    query = b"query=SELECT%20*%20%7B%3fs+?p+%22%C3%A9%22%7d&timeout=5&x=1&x=2&default-graph-uri=http%3A%2F%2Fa"
    client = proxy.connect(
        b"GET /sparql?" + query + b" HTTP/1.1\r\nHost: data.example:99\r\nX-B: 2\r\nAccept: text/csv\r\nX-A: 1\r\nX-B: 3\r\n"
        b"Connection: close, X-Secret\r\nX-Secret: s\r\nTE: trailers\r\nAuthorization: Basic eA==\r\nUser-Agent: me\r\n"
        b"X-Forwarded-For: 9.9.9.9\r\n\r\n"
    )
    assert b"200 OK" in client.recv(65536)
    client.close()
    assert head_lines(backend.requests[0]) == [
        b"GET /query?" + query + b" HTTP/1.1",
        b"host: data.example:99",
        b"x-b: 2",
        b"accept: text/csv",
        b"x-a: 1",
        b"x-b: 3",
        b"authorization: Basic eA==",
        b"user-agent: me",
        b"x-forwarded-for: 9.9.9.9, 127.0.0.1",
        b"forwarded: for=127.0.0.1;proto=http",
    ]


def test_bodies_reach_backend_byte_for_byte(serve, stub):
    """A POST form and a POST direct keep body and Content-Type, charset and all, with a Content-Length."""
    backend = stub(answering(OK))
    proxy = serve(backend.url)
    form = b"a=%20+b&query=ASK+%7B%7D%23%C3%A9&a=2"
    direct = "ASK {} # ü + %20\n".encode()
    assert proxy.request("POST", "/query", form, Content_Type="application/x-www-form-urlencoded")[0] == 200
    assert proxy.request("POST", "/sparql?x=1", direct, Content_Type="application/sparql-query; charset=UTF-8")[0] == 200
    first, second = backend.requests
    assert first.startswith(b"POST /query HTTP/1.1\r\n") and first.endswith(b"\r\n\r\n" + form)
    assert second.startswith(b"POST /query?x=1 HTTP/1.1\r\n") and second.endswith(b"\r\n\r\n" + direct)
    assert b"content-type: application/sparql-query; charset=UTF-8" in second
    assert b"content-length: %d\r\n" % len(direct) in second


def test_blanks_around_parameter_names_are_trimmed_for_the_backend_too(serve, stub):
    """``query `` (as YASGUI writes names) is read as ``query``, by us and by the backend."""
    backend = stub(answering(OK))
    assert serve(backend.url).request("GET", "/sparql?query%20=ASK%7B%7D&+x+=a+b")[0] == 200
    assert backend.requests[0].startswith(b"GET /query?query=ASK%7B%7D&x=a+b HTTP/1.1\r\n")


def test_response_comes_back_as_it_is(serve, stub):
    """Status, end-to-end fields with their repeats, and a gzip body pass untouched; hop-by-hop fields do not."""
    body = gzip.compress(b'{"head":{}}')
    raw = (
        b"HTTP/1.1 429 Slow Down\r\nRetry-After: 7\r\nETag: \"x\"\r\nVary: Accept\r\nVary: Authorization\r\nX-N: 1\r\n"
        b"Content-Encoding: gzip\r\nKeep-Alive: timeout=5\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n"
        b"Access-Control-Allow-Origin: http://other\r\nAccess-Control-Allow-Credentials: true\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body)
    ) + body
    status, headers, got = serve(stub(answering(raw)).url).request("GET", "/sparql?query=ASK%7B%7D", Accept_Encoding="gzip")
    assert (status, got) == (429, body)
    assert headers["retry-after"] == "7" and headers["etag"] == '"x"' and headers["content-encoding"] == "gzip"
    assert headers.get_all("vary") == ["Accept", "Authorization"]
    assert headers.get_all("access-control-allow-origin") == ["*"]
    assert not {"keep-alive", "x-hop", "connection", "access-control-allow-credentials", "date"} & {h.lower() for h in headers}


def test_first_byte_passes_before_the_backend_has_the_second(serve, stub):
    """The first piece of a result is with the client while the backend still works on the rest."""

    async def script(one, reader, writer):
        await one.read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        await one.wait_for_go()
        writer.write(b"4\r\nrest\r\n0\r\n\r\n")
        await writer.drain()
        await one.watch(reader)

    backend = stub(script)
    client = serve(backend.url).connect(b"GET /sparql?query=ASK%7B%7D HTTP/1.1\r\nHost: a\r\n\r\n")
    got = b""
    while b"first" not in got:
        got += client.recv(65536)
    assert b"rest" not in got
    backend.go.set()
    while not got.endswith(b"0\r\n\r\n"):
        got += client.recv(65536)
    assert b"rest" in got
    client.close()


def test_slow_trickle_is_not_a_timeout(serve, stub):
    """A backend that sends a byte now and then is within its limit as long as each comes in time."""

    async def script(one, reader, writer):
        await one.read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n")
        for byte in b"abcdef":
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.15)

    started = time.monotonic()
    assert serve(stub(script).url, backend__timeout_s=0.5).request("GET", "/sparql?query=ASK%7B%7D")[2] == b"abcdef"
    assert time.monotonic() - started > 0.7


def test_head_has_a_connection_of_its_own(serve, stub):
    """A HEAD that is answered with a body, as Oxigraph's 404 is, disturbs no other exchange."""

    async def script(one, reader, writer):
        while True:
            request = await one.read_request(reader)
            status = b"404 Not Found" if request.startswith(b"HEAD") else b"200 OK"
            writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 4\r\n\r\nbody")
            await writer.drain()

    backend = stub(script)
    proxy = serve(backend.url)
    assert proxy.request("GET", "/sparql?query=ASK%7B%7D")[2] == b"body"
    assert proxy.request("HEAD", "/store?default")[0] == 404
    assert proxy.request("GET", "/sparql?query=ASK%7B%7D")[2] == b"body"
    assert backend.connections == 2


def test_connections_are_kept_alive(serve, stub):
    """Ten requests one after the other share one backend connection."""
    backend = stub(answering(OK))
    proxy = serve(backend.url)
    for _ in range(10):
        assert proxy.request("GET", "/sparql?query=ASK%7B%7D")[0] == 200
    assert backend.connections == 1 and len(backend.requests) == 10


def test_request_id_is_taken_over_or_made(serve, stub):
    """A sound X-Request-ID is answered with; another is replaced."""
    proxy = serve(stub(answering(OK)).url)
    assert proxy.request("GET", "/sparql?query=ASK%7B%7D", X_Request_ID="abc-1")[1]["x-request-id"] == "abc-1"
    assert proxy.request("GET", "/sparql?query=ASK%7B%7D", X_Request_ID="a b\t")[1]["x-request-id"] not in ("a b", "a b\t")


def exchange(proxy, raw):
    """All that comes back for *raw*, until the end of the connection."""
    with proxy.connect(raw) as client:
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_a_target_with_raw_utf8_arrives_escaped(serve, stub):
    """People write umlauts into a URL; what the backend gets is the same text, as RFC 3986 has it."""
    backend = stub(answering(OK))
    raw = "GET /sparql?query=ASK{?s%20?p%20%27Zürich😀%27} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode()
    assert exchange(serve(backend.url), raw).startswith(b"HTTP/1.1 200 ")
    assert backend.requests[0].startswith(b"GET /query?query=ASK{?s%20?p%20%27Z%C3%BCrich%F0%9F%98%80%27} HTTP/1.1\r\n")


def test_http_1_0_without_a_host_is_answered(serve, stub):
    """The backend is asked in HTTP/1.1, which needs a Host; it gets one, and exactly one."""
    backend = stub(answering(OK))
    proxy = serve(backend.url)
    assert exchange(proxy, b"GET /sparql?query=ASK%7B%7D HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    assert exchange(proxy, b"GET /sparql?query=ASK%7B%7D HTTP/1.0\r\nHost: mine\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    hosts = [[line for line in r.lower().split(b"\r\n") if line.startswith(b"host:")] for r in backend.requests]
    assert hosts == [[b"host: 127.0.0.1:%d" % proxy.port], [b"host: mine"]]
