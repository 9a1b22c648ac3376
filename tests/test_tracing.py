"""Spans at a real OTLP/HTTP receiver, from both ways that a request can take."""

import http.server
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from proxy.config import load_config
from proxy.errors import ConfigError
from tests.loopback.conftest import OK, Proxy, Stub, answering

trace_service = pytest.importorskip(
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="the extra otel is not installed"
)
pytestmark = pytest.mark.loopback
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector:
    """Receives spans as a collector does: protobuf by POST to /v1/traces."""

    def __init__(self):
        self.spans, self.resources, self.paths = [], [], []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    raise AssertionError("not asked for")
                read = trace_service.ExportTraceServiceRequest.FromString(body)
                collector.paths.append(self.path)
                for resource in read.resource_spans:
                    collector.resources.append({a.key: a.value.string_value for a in resource.resource.attributes})
                    collector.spans += [span for scope in resource.scope_spans for span in scope.spans]
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/traces"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@pytest.fixture
def collector():
    one = Collector()
    yield one
    one.close()


@pytest.fixture
def serve():
    stub = Stub(answering(OK))
    started = []

    def start(endpoint, **more):
        started.append(Proxy(backend__url=stub.url, tracing__endpoint=endpoint, **more))
        return started[-1]

    yield start
    for proxy in started:
        proxy.close()
    stub.close()


def attributes(span):
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}


PLUGINS = {"plugins__enabled": ["cost_guard"], "plugins__directory": str(Path(__file__).parent.parent / "plugins")}


@pytest.mark.parametrize("settings", [{}, PLUGINS], ids=["direct", "application"])
def test_each_exchange_is_one_span_under_its_clients(collector, serve, settings):
    """Times, status and stages are there; the text of the query is not. Without a traceparent it is a trace of its own."""
    proxy = serve(collector.url, **settings)
    before = time.time_ns()
    query = "/sparql?query=SELECT%20?s%20%7B%20?s%20?p%20%22a%20secret%22%20%7D"
    assert proxy.request("GET", query, traceparent=f"00-{TRACE}-{PARENT}-01", tracestate="vendor=1")[0] == 200
    assert proxy.request("GET", query)[0] == 200
    assert proxy.request("GET", "/-/live")[0] == 200
    proxy.close()
    assert collector.paths[0] == "/v1/traces" and collector.resources[0]["service.name"] == "sparlance"
    child, root, page = sorted(collector.spans, key=lambda span: span.start_time_unix_nano)
    assert (child.trace_id.hex(), child.parent_span_id.hex(), child.trace_state) == (TRACE, PARENT, "vendor=1")
    assert root.parent_span_id == b"" and root.trace_id != child.trace_id
    assert [span.name for span in (child, root, page)] == ["GET SELECT", "GET SELECT", "GET page"]
    for span in (child, root, page):
        assert before < span.start_time_unix_nano < span.end_time_unix_nano < time.time_ns()
    found = attributes(child)
    assert (found["http.request.method"], found["http.response.status_code"], found["url.path"]) == ("GET", 200, "/sparql")
    assert {"sparlance.parse_ms", "sparlance.backend_ms", "sparlance.request_id"} <= set(found)
    assert "secret" not in str(collector.spans)


def test_failures_are_errors(collector, serve):
    """What is our fault or the backend's is marked; what the client got wrong is its own (semantic conventions for HTTP)."""
    proxy = serve(collector.url)
    assert proxy.request("GET", "/nowhere")[0] == 404
    proxy.close()
    dead = Proxy(backend__url="http://127.0.0.1:9", tracing__endpoint=collector.url)
    try:
        assert dead.request("GET", "/sparql?query=ASK%7B%7D")[0] in (502, 503)
    finally:
        dead.close()
    assert [(span.status.code, attributes(span)["error.type"]) for span in collector.spans] == [
        (0, "UnknownPath"),
        (2, "BackendUnreachable"),
    ]


@pytest.mark.parametrize("sent", ["", "00-xyz", f"00-{'0' * 32}-{PARENT}-01", f"ff-{TRACE}-{PARENT}-01", "00-" + "a" * 5000])
def test_a_traceparent_that_is_none_is_passed_over(collector, serve, sent):
    """Whatever a client writes there, its request is answered, and has a trace."""
    proxy = serve(collector.url)
    assert proxy.request("GET", "/-/live", traceparent=sent)[0] == 200
    proxy.close()
    [span] = collector.spans
    assert span.parent_span_id == b"" and len(span.trace_id) == 16


def test_what_is_not_sampled_by_the_client_is_not_sent(collector, serve):
    """The flag of its traceparent decides, as for everybody on the way."""
    proxy = serve(collector.url)
    assert proxy.request("GET", "/-/live", traceparent=f"00-{TRACE}-{PARENT}-00")[0] == 200
    proxy.close()
    assert collector.spans == []


def test_a_collector_that_is_away_stops_nothing(serve):
    """Requests are answered as before, and the end does not wait for it."""
    proxy = serve("http://127.0.0.1:9/v1/traces")
    for _ in range(20):
        assert proxy.request("GET", "/sparql?query=ASK%7B%7D")[0] == 200
    began = time.monotonic()
    proxy.close()
    assert time.monotonic() - began < 8


def test_off_is_off():
    """Without an endpoint the packages are not even imported."""
    code = "import sys, proxy.app; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("endpoint", ["localhost:4318", "grpc://a:4317"])
def test_an_address_that_is_none(endpoint):
    """It is refused at the start, by its key."""
    with pytest.raises(ConfigError) as caught:
        load_config(None, overrides={"tracing.endpoint": endpoint})
    assert caught.value.key == "tracing.endpoint"
