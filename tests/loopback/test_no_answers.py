"""A backend that answers, but not what was asked: no index is made of it, all can see why, and its recovery is noticed."""

import json

import pytest

from tests.loopback.conftest import wait_until

pytestmark = pytest.mark.loopback

PAGE = b"<!doctype html><title>Sign in</title>"
NO_ANSWERS = {
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "302": b"HTTP/1.1 302 Found\r\nlocation: /login\r\ncontent-length: 0\r\n\r\n",
    "401": b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n",
    "500": b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n",
    "999": b"HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n",
    "HTML": b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n%b" % (len(PAGE), PAGE),
    "empty": b"HTTP/1.1 200 OK\r\ncontent-type: application/sparql-results+json\r\ncontent-length: 0\r\n\r\n",
}


def empty_graph(request):
    """What a database without triples answers."""
    body = b'{"head":{},"boolean":true}' if b"ASK {}" in request else b'{"head":{"vars":[]},"results":{"bindings":[]}}'
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/sparql-results+json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


@pytest.mark.parametrize("answer", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_no_index_is_built_until_the_backend_answers(serve, stub, answer):
    """Neither ready nor indexed while the backend talks nonsense; both say why, and both are well again without our help."""

    async def script(backend, reader, writer):
        while True:
            request = await backend.read_request(reader)
            writer.write(empty_graph(request) if backend.go.is_set() else answer)
            await writer.drain()

    backend = stub(script)
    proxy = serve(backend.url, index__enabled=True, load__breaker_failures=1000)
    wait_until(lambda: json.loads(proxy.request("GET", "/-/index")[2])["state"] == "failed", 20)
    shown = json.loads(proxy.request("GET", "/-/index")[2])
    assert shown["builds"] == 0 and "triples" not in shown and shown["error"]
    status, _, body = proxy.request("GET", "/-/ready")
    assert status == 503 and b"index could not be built" in body and b"backend does not answer" in body
    backend.go.set()
    wait_until(lambda: json.loads(proxy.request("GET", "/-/index")[2])["state"] == "ready", 20)
    assert proxy.request("GET", "/-/ready")[0] == 200
