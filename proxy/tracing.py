"""Spans of OpenTelemetry, one for each exchange, made when it is over. The one module that imports ``opentelemetry``.

A span says what the log line says, in the same moment and from the same fields, so it holds no query, literal or question
either. Its parent is the client's ``traceparent``. Spans leave in batches from a thread of the SDK; a collector that is away
costs nothing but spans. Sampling, headers for the collector and attributes of the resource come from the variables of the
OpenTelemetry specification (``OTEL_TRACES_SAMPLER``, ``OTEL_EXPORTER_OTLP_HEADERS``, ``OTEL_RESOURCE_ATTRIBUTES``).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from proxy import __version__
from proxy.errors import ConfigError

CLOSE_WITHIN_S = 2.0
"""How long the end of the process waits for the last spans to leave."""
_NAMES = {
    # Semantic conventions for HTTP spans, version 1.23 and later.
    "method": "http.request.method",
    "path": "url.path",
    "status": "http.response.status_code",
    "bytes": "http.response.body.size",
    "outcome": "error.type",
}
_OF_THE_SPAN = frozenset(["total_ms"])
"""Its own duration says that."""


class Tracer:
    """Sends spans to *endpoint*, an OTLP/HTTP collector's URL for traces such as ``http://localhost:4318/v1/traces``.

    Raises:
        ConfigError: the packages of the extra ``otel`` are not installed.
    """

    def __init__(self, endpoint: str) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import OTELResourceDetector, Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.trace import SpanKind, Status, StatusCode
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as exc:
            raise ConfigError("tracing.endpoint", 'needs OpenTelemetry: pip install "sparlance[otel]"') from exc
        ours = Resource({"service.name": "sparlance", "service.version": __version__})
        self._provider = TracerProvider(resource=ours.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
        self._tracer = self._provider.get_tracer("sparlance", __version__)
        self._extract = TraceContextTextMapPropagator().extract
        self._kind, self._error = SpanKind.SERVER, Status(StatusCode.ERROR)

    def record(self, fields: Mapping[str, object], headers: Sequence[tuple[bytes, bytes]], total_s: float, end_ns: int) -> None:
        """Make the span of an exchange that is over.

        Args:
            fields: of its log line. headers: of the request. end_ns: since 1970.
        """
        carrier = {n.decode("latin-1"): v.decode("latin-1") for n, v in headers if n in (b"traceparent", b"tracestate")}
        status = fields["status"]
        span = self._tracer.start_span(
            f"{fields['method']} {fields.get('form', 'page')}",
            context=self._extract(carrier) if carrier else None,
            kind=self._kind,
            attributes={_NAMES.get(n, f"sparlance.{n}"): v for n, v in fields.items() if n not in _OF_THE_SPAN},  # type: ignore[misc]
            start_time=end_ns - int(total_s * 1e9),
        )
        if not isinstance(status, int) or status >= 500 or status == 0:
            span.set_status(self._error)
        span.end(end_time=end_ns)

    def close(self) -> None:
        """Send what is left, if that goes quickly."""
        # The SDK waits longer for a collector that is away, and cannot be told not to.
        closing = threading.Thread(target=self._provider.shutdown, name="last spans", daemon=True)
        closing.start()
        closing.join(CLOSE_WITHIN_S)
