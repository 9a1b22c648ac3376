"""What bounds requests on their way to the backend, over real sockets: queue, breaker, limits, joining, cache, deadlines."""

import asyncio
import http.client
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.loopback.conftest import OK, answering, wait_until, when_told

pytestmark = pytest.mark.loopback

ASK = "/sparql?query=ASK%7B%7D"
UPDATE = b"INSERT DATA { <http://a> <http://b> <http://c> }"
SPARQL_UPDATE = "application/sparql-update"


def query(number: int) -> str:
    return f"/sparql?query=ASK%7B%3Chttp%3A%2F%2Fe%2F{number}%3E%20%3Fp%20%3Fo%7D"


def at_once(proxy, targets, **headers):
    """The answers to *targets*, all asked at the same time, each on a connection of its own."""
    with ThreadPoolExecutor(len(targets)) as pool:
        return list(pool.map(lambda target: proxy.request("GET", target, **headers), targets))


def let_go_after(backend, number, also_s=0.1):
    """Let the backend answer when *number* requests have reached it, and those behind them have had the time to come."""

    def wait():
        wait_until(lambda: len(backend.requests) >= number)
        time.sleep(also_s)
        backend.go.set()

    threading.Thread(target=wait, daemon=True).start()


def metric(proxy, line):
    """The value of one sample of /-/metrics."""
    text = proxy.request("GET", "/-/metrics")[2].decode()
    return next(float(found.rpartition(" ")[2]) for found in text.splitlines() if found.startswith(line))


# -- queue


def test_no_more_than_the_concurrency_reach_the_backend(serve, stub):
    """The others wait here and are served in turn."""
    most = running = 0

    async def script(one, reader, writer):
        nonlocal most, running
        while True:
            await one.read_request(reader)
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.03)
            running -= 1
            writer.write(OK)
            await writer.drain()

    backend = stub(script)
    proxy = serve(backend.url, load__concurrency=2)
    answers = at_once(proxy, [query(i) for i in range(10)])
    assert [status for status, _, _ in answers] == [200] * 10
    assert (most, len(backend.requests)) == (2, 10)
    assert metric(proxy, "sparlance_queue_waited_seconds_total") > 0


def test_who_waits_too_long_is_told_when_to_come_back(serve, stub):
    """503 with Retry-After in whole seconds, as a problem."""
    backend = stub(when_told)
    proxy = serve(backend.url, load__concurrency=1, load__max_wait_s=0.2)
    threading.Timer(1.0, backend.go.set).start()
    answers = at_once(proxy, [query(1), query(2)])
    assert sorted(status for status, _, _ in answers) == [200, 503]
    (refused,) = (answer for answer in answers if answer[0] == 503)
    assert int(refused[1]["retry-after"]) >= 1
    assert json.loads(refused[2])["title"] == "Backend busy" and "no place" in json.loads(refused[2])["detail"]


def test_a_full_queue_refuses_at_once(serve, stub):
    """Nobody waits longer than can be served."""
    backend = stub(when_told)
    proxy = serve(backend.url, load__concurrency=1, load__max_waiting=1, load__max_wait_s=30)
    let_go_after(backend, 1, also_s=0.5)
    answers = at_once(proxy, [query(i) for i in range(4)])
    assert sorted(status for status, _, _ in answers) == [200, 200, 503, 503]


def test_a_query_that_cannot_be_stopped_keeps_its_place(serve, stub):
    """A client that leaves does not make room for more work than the backend can bear; after a while the place is free."""
    backend = stub(when_told)
    proxy = serve(backend.url, load__concurrency=1, load__max_wait_s=0.2)
    client = proxy.connect(b"GET " + query(1).encode() + b" HTTP/1.1\r\nhost: a\r\n\r\n")
    wait_until(lambda: backend.requests)
    client.close()
    wait_until(lambda: metric(proxy, "sparlance_queue_orphans") == 1)
    assert proxy.request("GET", query(2))[0] == 503
    backend.go.set()
    wait_until(lambda: metric(proxy, "sparlance_queue_running") == 0, limit_s=5)
    assert proxy.request("GET", query(2))[0] == 200


# -- circuit breaker


def test_a_dead_backend_is_left_alone_and_found_again(serve, stub):
    """After some failures the answer is 503 at once with Retry-After; when it is back, a probe finds it and all is well."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    proxy = serve(f"http://127.0.0.1:{port}", load__breaker_failures=3, load__breaker_open_first_s=0.3)
    assert [proxy.request("GET", ASK)[0] for _ in range(3)] == [502] * 3
    status, headers, body = proxy.request("GET", ASK)
    assert status == 503 and headers["retry-after"] == "1" and json.loads(body)["title"] == "Backend open"
    assert metric(proxy, 'sparlance_circuit_state{dataset="default",state="open"}') == 1
    backend = stub(answering(b'HTTP/1.1 200 OK\r\ncontent-length: 26\r\n\r\n{"head":{},"boolean":true}'), port=port)
    wait_until(lambda: proxy.request("GET", ASK)[0] == 200, limit_s=5)
    assert b"ASK {}" in backend.requests[0]  # the probe went first
    assert metric(proxy, 'sparlance_circuit_state{dataset="default",state="closed"}') == 1


def test_error_answers_open_no_circuit(serve, stub):
    """A backend that answers 500 answers."""
    proxy = serve(stub(answering(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n")).url, load__breaker_failures=2)
    assert [proxy.request("GET", ASK)[0] for _ in range(5)] == [500] * 5


# -- limits


def test_a_client_that_asks_too_much_gets_429(serve, stub):
    """With Retry-After and the limit that it was; our own pages are not limited."""
    proxy = serve(stub(answering(OK)).url, limits__requests_per_minute=60.0, limits__requests_burst=3.0)
    assert [proxy.request("GET", ASK)[0] for _ in range(3)] == [200] * 3
    status, headers, body = proxy.request("GET", ASK)
    assert status == 429 and headers["retry-after"] == "1"
    assert json.loads(body)["limit"] == "requests" and headers["access-control-allow-origin"] == "*"
    assert proxy.request("GET", "/-/live")[0] == 200
    assert metric(proxy, 'sparlance_limit_refused_total{limit="requests"}') == 1


def test_query_time_is_charged(serve, stub):
    """A client that has used up its seconds waits; one heavy query is enough."""

    async def script(one, reader, writer):
        while True:
            await one.read_request(reader)
            await asyncio.sleep(0.3)
            writer.write(OK)
            await writer.drain()

    proxy = serve(stub(script).url, limits__query_seconds_per_minute=6.0, limits__query_seconds_burst=0.1)
    assert proxy.request("GET", ASK)[0] == 200
    status, headers, body = proxy.request("GET", ASK)
    assert status == 429 and json.loads(body)["limit"] == "query-seconds" and int(headers["retry-after"]) >= 2


def test_errors_are_charged(serve, stub):
    """The preset of Wikidata allows 30 a minute; refused queries count, a backend that is down does not."""
    proxy = serve(stub(answering(OK)).url, limits__errors_per_minute=3.0)
    assert [proxy.request("GET", "/sparql?query=DROP%20ALL")[0] for _ in range(4)] == [400, 400, 400, 429]
    down = serve("http://127.0.0.1:9", limits__errors_per_minute=1.0, load__breaker_failures=100)
    assert [down.request("GET", ASK)[0] for _ in range(4)] == [502] * 4


def test_forwarded_addresses_count_only_from_trusted_proxies(serve, stub):
    """From anybody else the field is hearsay; of a trusted one the last address that is no proxy counts."""
    backend, limit = stub(answering(OK)), {"limits__requests_per_minute": 1.0}
    proxy = serve(backend.url, **limit)
    sent = [proxy.request("GET", ASK, X_Forwarded_For=f"10.0.0.{i}")[0] for i in range(2)]
    assert sent == [200, 429]
    proxy = serve(backend.url, server__trusted_proxies=["127.0.0.0/8"], **limit)
    forged = ("10.0.0.1", "10.0.0.2", "10.9.9.9, 10.0.0.2", "10.0.0.3, 127.0.0.7", "rubbish, 10.0.0.3")
    assert [proxy.request("GET", ASK, X_Forwarded_For=f)[0] for f in forged] == [200, 200, 429, 200, 429]


# -- joining


def test_identical_reads_are_one_question(serve, stub):
    """Ten clients, one request to the backend, the same answer for all."""
    backend = stub(when_told)
    proxy = serve(backend.url)
    let_go_after(backend, 1, also_s=0.3)
    answers = at_once(proxy, [ASK] * 10)
    assert {(status, body) for status, _, body in answers} == {(200, b"{}")}
    assert len(backend.requests) == 1
    assert metric(proxy, "sparlance_coalesced_total") == 9


def test_what_is_not_identical_is_not_joined(serve, stub):
    """Another Accept, another login, another parameter, or RAND()."""
    backend = stub(when_told)
    proxy = serve(backend.url)
    let_go_after(backend, 6, also_s=0.1)
    rand = "/sparql?query=ASK%7BFILTER%28RAND%28%29%3C1%29%7D"
    with ThreadPoolExecutor(6) as pool:
        asked = [
            pool.submit(proxy.request, "GET", ASK, Accept="text/csv"),
            pool.submit(proxy.request, "GET", ASK, Accept="application/json"),
            pool.submit(proxy.request, "GET", ASK, Accept="text/csv", Authorization="Basic YTpi"),
            pool.submit(proxy.request, "GET", ASK + "&infer=false", Accept="text/csv"),
            pool.submit(proxy.request, "GET", rand),
            pool.submit(proxy.request, "GET", rand),
        ]
        assert [one.result()[0] for one in asked] == [200] * 6
    assert len(backend.requests) == 6


def test_the_first_may_leave(serve, stub):
    """Those who joined it are answered all the same."""
    backend = stub(when_told)
    proxy = serve(backend.url)
    # The very fields that the others send; Host and codings are part of what must be equal.
    head = f"GET {ASK} HTTP/1.1\r\nHost: 127.0.0.1:{proxy.port}\r\nAccept-Encoding: identity\r\n\r\n"
    first = proxy.connect(head.encode())
    wait_until(lambda: backend.requests)

    def leave():
        wait_until(lambda: metric(proxy, "sparlance_coalesced_total") == 3)
        first.close()
        wait_until(lambda: len(backend.requests) == 2)
        backend.go.set()

    threading.Thread(target=leave, daemon=True).start()
    assert [(status, body) for status, _, body in at_once(proxy, [ASK] * 3)] == [(200, b"{}")] * 3
    assert len(backend.requests) == 2


# -- cache


def answer(body, *fields):
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/sparql-results+json\r\n%b\r\ncontent-length: %d\r\n\r\n%b" % (
        b"\r\n".join(fields) or b"x: y",
        len(body),
        body,
    )


def test_a_complete_answer_is_kept(serve, stub):
    """The second comes from memory with Age and Cache-Status; another Accept, or no-cache, asks the backend."""
    backend = stub(answering(answer(b'{"a":1}')))
    proxy = serve(backend.url, cache__enabled=True)
    first, second = proxy.request("GET", ASK), proxy.request("GET", ASK)
    assert first[2] == second[2] == b'{"a":1}'
    assert first[1]["cache-status"] is None and second[1]["cache-status"] == "sparlance; hit" and second[1]["age"] == "0"
    assert len(backend.requests) == 1
    proxy.request("GET", ASK, Accept="text/csv")
    proxy.request("GET", ASK, Cache_Control="no-cache")
    assert len(backend.requests) == 3
    assert metric(proxy, 'sparlance_cache_events_total{dataset="default",event="hits"}') == 1


@pytest.mark.parametrize(
    "raw",
    [
        answer(b'{"a":[1}'),
        answer(b'{"a":1}', b"cache-control: no-store"),
        answer(b'{"a":1}', b"set-cookie: a=b"),
        b"HTTP/1.1 404 No\r\ncontent-length: 2\r\n\r\n{}",
    ],
    ids=["does not close", "no-store", "cookie", "not 200"],
)
def test_what_may_not_be_kept_is_asked_again(serve, stub, raw):
    """An answer with an error appended, one that forbids it, one for somebody, an error."""
    backend = stub(answering(raw))
    proxy = serve(backend.url, cache__enabled=True)
    assert proxy.request("GET", ASK)[2] == proxy.request("GET", ASK)[2]
    assert len(backend.requests) == 2


def test_an_update_empties_the_cache(serve, oxigraph):
    """What is read after an update through us is never older than it."""
    proxy = serve(oxigraph.url, cache__enabled=True, policy__allow_updates=True)
    count = "/sparql?query=SELECT%20(COUNT(*)%20AS%20%3Fn)%20%7B%20%3Fs%20%3Chttp%3A%2F%2Fe%2Fcached%3E%20%3Fo%20%7D"

    def counted():
        _, headers, body = proxy.request("GET", count, Accept="application/sparql-results+json")
        return json.loads(body)["results"]["bindings"][0]["n"]["value"], headers["cache-status"]

    assert counted() == ("0", None)
    assert counted() == ("0", "sparlance; hit")
    for i in range(3):
        update = b"INSERT DATA { <http://e/x> <http://e/cached> %d }" % i
        assert proxy.request("POST", "/sparql", update, Content_Type=SPARQL_UPDATE)[0] == 204
        assert counted() == (str(i + 1), None)
    assert proxy.request("POST", "/sparql", b"DELETE WHERE { ?s <http://e/cached> ?o }", Content_Type=SPARQL_UPDATE)[0] == 204


# -- deadlines


def silent_after(start):
    async def script(one, reader, writer):
        await one.read_request(reader)
        writer.write(start)
        await one.watch(reader)

    return script


def test_the_first_byte_has_a_limit(serve, stub):
    """504, and the problem names which limit it was."""
    status, _, body = serve(stub(silent_after(b"")).url, backend__timeout_s=0.2).request("GET", ASK)
    assert status == 504 and json.loads(body)["limit"] == "first-byte" and "first-byte limit" in json.loads(body)["detail"]


def test_the_pauses_have_a_limit(serve, stub):
    """Silence within a body is counted anew after each piece; it breaks the transfer."""
    proxy = serve(stub(silent_after(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")).url, backend__idle_timeout_s=0.2)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        proxy.request("GET", ASK)
    assert metric(proxy, "sparlance_broken_transfers_total") == 1


def test_the_whole_has_a_limit_only_if_one_is_set(serve, stub):
    """A body that trickles is within the other limits for ever; total_timeout_s ends it."""

    async def script(one, reader, writer):
        await one.read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n")
        for _ in range(10):
            await asyncio.sleep(0.05)
            writer.write(b"x")
            await writer.drain()

    assert serve(stub(script).url).request("GET", ASK)[2] == b"x" * 10
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        serve(stub(script).url, backend__total_timeout_s=0.2).request("GET", ASK)


@pytest.mark.parametrize("start", [None, b"HTTP/1.1 200", b""], ids=["closes", "garbled", "silent"])
def test_an_update_without_an_answer_is_in_doubt(serve, stub, start):
    """Who sends it again must know that it may have been applied; not so where there was no connection."""

    async def script(one, reader, writer):
        await one.read_request(reader)
        if start is not None:
            writer.write(start)
        if start == b"":
            await one.watch(reader)

    proxy = serve(stub(script).url, policy__allow_updates=True, backend__timeout_s=0.3)
    status, _, body = proxy.request("POST", "/sparql", UPDATE, Content_Type=SPARQL_UPDATE)
    assert status == (504 if start == b"" else 502) and "may have been applied" in json.loads(body)["detail"]
    down = serve("http://127.0.0.1:9", policy__allow_updates=True)
    assert "may have" not in json.loads(down.request("POST", "/sparql", UPDATE, Content_Type=SPARQL_UPDATE)[2])["detail"]


# -- metrics


def test_metrics_count_what_happened(serve, stub):
    """Every line can be read by Prometheus; requests are counted by form, verdict and class of status."""
    proxy = serve(stub(answering(OK)).url)
    for target in (ASK, ASK, "/sparql?query=DROP%20ALL", "/nowhere"):
        proxy.request("GET", target)
    _, headers, body = proxy.request("GET", "/-/metrics")
    assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = body.decode().splitlines()
    for line in lines:
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert name.startswith("sparlance_") and float(value) >= 0
    assert 'sparlance_requests_total{form="ASK",verdict="pass",status="2xx"} 2' in lines
    assert sum(line.startswith("sparlance_requests_total") and line.endswith('status="4xx"} 1') for line in lines) == 2
    assert 'sparlance_stage_seconds_count{stage="backend"} 2' in lines
    assert 'sparlance_queue_granted_total{dataset="default"} 2' in lines
