"""structlog set-up, and every event that is logged.

One line for each event, to stderr: JSON for machines, colours for people. Names of events are fixed, so that they can be
counted; what varies is in fields. Never logged: literals and IRIs of a query, questions, credentials.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TextIO

import msgspec
import structlog

from proxy.config import LogSettings

EVENTS: Mapping[str, str] = {
    "analysis_failed": (
        "A bug of ours: the analysis of a query failed, and it went on as one that cannot be analysed; once for each text. "
        "stage (parse, policy, check), query (digest of its text), error (class of the exception), trace"
    ),
    "circuit_changed": "The circuit breaker of a dataset opened, tries again, or closed. dataset, state, reason",
    "config_refused": "The configuration was read again and cannot be used; the one in effect stays. error",
    "config_reloaded": "The server goes on with another configuration. changed",
    "engine_built": "The question engine of a dataset can serve. dataset, elapsed_s",
    "scorer_loaded": "The language model of nl.scorer is open. form, device",
    "writer_loaded": "The language model of writer.folder is open. form, device",
    "gpu_unused": "There is a GPU, and a model runs on the CPU. model (encoder, scorer or writer), reason",
    "engine_failed": "The question engine could not be made; questions are declined. dataset, error",
    "exchange": (
        "A request was answered. method, path, status, bytes, total_ms; where they apply: form, verdict, question, outcome, "
        "parse_ms, validate_ms, confirm_ms, plugins_ms, queue_ms, backend_ms, source (cache or joined), key (id of the API key)"
    ),
    "index_built": "The index of a dataset can serve. dataset, triples, cells, class_predicate, elapsed_s",
    "index_loaded": "The index of an earlier process serves; it is compared with the graph. dataset, triples, epoch",
    "index_outdated": "The data have changed since the index file was written; it is built anew. path",
    "index_fetched": "The index file that another machine has built is here, and was verified. path, bytes",
    "index_snapshot_unusable": "What another machine has handed on is no index file of this dataset; it is built anew. error",
    "index_rebuild_failed": "The process that rebuilds an index ended without one; it is built in this process. epoch",
    "index_file_unusable": "The index file is damaged, foreign or old; the index is built anew. error",
    "index_file_unwritable": "The index cannot be kept on disk, and serves from memory. error",
    "index_failed": "The index could not be built; queries are forwarded unchecked, and it is tried again. dataset, error",
    "keys_unreadable": "The file of API keys cannot be read any more; the keys known until then stay. error",
    "plugin_failed": "A hook failed: a guard's refused the request, a watcher's changed nothing. plugin, hook, error",
    "plugin_slow": "A hook took longer than plugins.budget_s. plugin, hook, elapsed_s",
    "request_failed": "A bug of ours: a request ended in an unforeseen exception. path, request_id",
    "serving": "Requests are accepted. url, backend, version",
    "worker_ended": "A worker died and will be replaced. worker, pid, how, restart_s",
    "transfer_broken": "A response could not be completed after it had begun; the connection was closed. error, request_id",
}
"""Event → what it says, and its fields. ``request_id`` is bound to whatever is logged during a request."""

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


_processors: list[Any] = []
_lines: _Lines | None = None
_is_info = True


def is_info() -> bool:
    """Whether events of level info are wanted; then what they say need be worked out."""
    return _is_info or not structlog.is_configured()


def exchanges(ended: Iterable[tuple[dict[str, object], int]]) -> None:
    """Log events ``exchange``, of level info: their fields, request_id among them and taken over, and when they were.

    Args:
        ended: fields, and nanoseconds since 1970.

    As JSON they take the short way: the same lines as through structlog's chain of processors, at a fifth of the time.
    """
    if _lines is not None and _processors[-1] is _to_json and structlog.is_configured():
        lines = []
        for fields, at_ns in ended:
            fields["event"], fields["level"], fields["time"] = "exchange", "info", _iso(at_ns)
            lines.append(_encode(fields))
        _lines.write(lines)
    else:
        for fields, _ in ended:
            structlog.get_logger().info("exchange", **fields)


ATOMIC_BYTES = 4096
"""So much goes into a pipe in one piece (POSIX, PIPE_BUF)."""
_filters: list[Callable[[bytes], bytes]] = []


def filter_log(change: Callable[[bytes], bytes]) -> Callable[[], None]:
    """Have *change* look over every line before it is written; returns what ends that."""
    _filters.append(change)
    return lambda: _filters.remove(change)


class _Lines:
    """Writes each event to *file* in one piece, so that lines of several processes do not mix."""

    def __init__(self, file: TextIO) -> None:
        self._write, self._flush = file.write, file.flush
        # Of a file the raw one, without the layers of text and buffer; a test's stand-in may have none.
        self._raw = getattr(getattr(file, "buffer", None), "raw", None)

    def write(self, lines: Sequence[bytes]) -> None:
        for change in _filters:
            lines = [change(line) for line in lines]
        if self._raw is None:
            for line in lines:
                self._put(line.decode())
            return
        block: list[bytes] = []
        size = 0
        for line in lines:
            if block and size + len(line) >= ATOMIC_BYTES:
                self._raw.write(b"\n".join(block) + b"\n")
                block, size = [], 0
            block.append(line)
            size += len(line) + 1
        if block:
            self._raw.write(b"\n".join(block) + b"\n")

    def msg(self, line: str) -> None:
        for change in _filters:
            line = change(line.encode()).decode()
        self._put(line)

    def _put(self, line: str) -> None:
        self._write(line + "\n")
        self._flush()

    log = debug = info = warn = warning = error = critical = fatal = exception = failure = msg


_second, _until_second = 0, ""


def _iso(at_ns: int) -> str:
    """ISO 8601 in UTC, to the microsecond."""
    global _second, _until_second
    second, micros = divmod(at_ns // 1000, 1_000_000)
    if second != _second:
        _second, _until_second = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
    return f"{_until_second}.{micros:06}Z"


def _add_time(logger: Any, name: str, event: Any) -> Any:
    event["time"] = _iso(time.time_ns())
    return event


_TRACEBACKS = structlog.processors.ExceptionRenderer(
    # Frames hold requests: without locals, or a traceback would tell credentials and queries.
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False, max_frames=20)
)

_encode = msgspec.json.Encoder(enc_hook=str).encode


def _to_json(logger: Any, name: str, event: Any) -> str:
    # Seven times as fast as structlog's JSONRenderer, which makes an encoder for each line.
    return _encode(event).decode()


def _on_one_line(logger: Any, name: str, event: Any) -> Any:
    """Of what a library says: control characters as escapes, as ConsoleRenderer has them in the values of fields only."""
    if not (text := str(event["event"])).isprintable():
        event["event"] = repr(text)[1:-1]
    return event


def configure(settings: LogSettings) -> None:
    """Send our events, and those of libraries that use ``logging``, to stderr in one format."""
    as_json = settings.format == "json" or (settings.format == "auto" and not sys.stderr.isatty())
    level = _LEVELS[settings.level]
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        _add_time,
    ]
    last: list[Any]
    if as_json:
        last = [_TRACEBACKS, _to_json]
    else:
        traceback = structlog.dev.plain_traceback
        last = [_on_one_line, structlog.dev.ConsoleRenderer(timestamp_key="time", exception_formatter=traceback)]
    global _processors, _lines, _is_info
    _processors, _lines, _is_info = [*shared, *last], _Lines(sys.stderr), level <= logging.INFO
    structlog.configure(
        processors=_processors,  # the very list: who changes it to capture events must see that we notice
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *names: _Lines(sys.stderr),
        cache_logger_on_first_use=False,  # loggers are made per event at most; a cached one would outlive a test's capture
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Libraries tell their daily business at info; ours is enough.
    root.setLevel(max(level, logging.WARNING))
