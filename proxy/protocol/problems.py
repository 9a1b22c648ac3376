"""ProxyError → status and body; the one table (RFC 9457)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from proxy import errors
from proxy.errors import ProxyError
from proxy.protocol.negotiation import PROBLEM_JSON, wants_text_problem
from proxy.validation.finding import Finding

STATUS: dict[type[ProxyError], int] = {
    ProxyError: 500,
    errors.ConfigError: 500,
    errors.RequestError: 400,
    errors.MalformedRequest: 400,
    errors.MalformedQuery: 400,
    errors.NotAcceptable: 406,
    errors.UnsupportedMediaType: 415,
    errors.BodyTooLarge: 413,
    errors.NotAuthenticated: 401,
    errors.OperationForbidden: 403,
    errors.UnknownPath: 404,
    errors.MethodNotAllowed: 405,
    errors.RateLimited: 429,
    # Not 503 or 429: clients repeat those, and the answer would be the same.
    errors.QueryRejected: 400,
    errors.Abstained: 422,
    errors.BackendError: 502,
    errors.BackendUnreachable: 502,
    errors.BackendTimeout: 504,
    errors.BackendGarbled: 502,
    errors.BackendBusy: 503,
    errors.BackendOpen: 503,
    errors.BackendRefused: 502,
    errors.ModelError: 503,
    errors.ModelBusy: 503,
    errors.CorruptIndex: 500,
    errors.IndexMismatch: 500,
    errors.PluginError: 500,
}
INTERNAL_TITLE = "Internal error"


def status_of(error: ProxyError) -> int:
    """The status of *error*, by its class or the nearest base in the table."""
    return next(STATUS[c] for c in type(error).__mro__ if c in STATUS)


def title_of(kind: type[BaseException]) -> str:
    """``QueryRejected`` → ``Query rejected``."""
    words = re.findall(r"[A-Z][a-z0-9]*", kind.__name__)
    return " ".join([words[0], *(w.lower() for w in words[1:])])


def describe_finding(finding: Finding) -> dict[str, Any]:
    """A finding as JSON shows it."""
    return {
        "severity": str(finding.severity),
        "pattern": finding.pattern,
        "line": finding.line,
        "column": finding.column,
        "message": finding.message,
        "evidence": finding.evidence,
        "suggestions": list(finding.suggestions),
        "rule": finding.rule,
    }


def describe(error: ProxyError, request_id: str) -> dict[str, Any]:
    """The members of the problem object."""
    title = title_of(type(error))
    problem: dict[str, Any] = {
        "type": f"urn:sparlance:problem:{title.lower().replace(' ', '-')}",
        "title": title,
        "status": status_of(error),
        "detail": str(error),
        "request_id": request_id,
        "findings": [],
    }
    match error:
        case errors.QueryRejected():
            problem["findings"] = [describe_finding(f) for f in error.findings]
        case errors.MalformedQuery():
            problem["line"], problem["column"] = error.line, error.column
        case errors.RateLimited() | errors.BackendTimeout() if error.limit:
            problem["limit"] = str(error.limit)
        case errors.BodyTooLarge():
            problem["limit_bytes"] = error.limit_bytes
        case errors.Abstained():
            problem["account"] = dict(error.account)
        case errors.PluginError():
            problem["plugin"] = error.plugin
    if isinstance(error, errors.RequestError) and error.plugin:
        problem["plugin"] = error.plugin
    return problem


def as_text(problem: dict[str, Any]) -> str:
    """The problem for people: what happened, then each finding."""
    lines = [f"{problem['title']}: {problem['detail']}"]
    findings: Sequence[dict[str, Any]] = problem.get("findings") or ()
    for f in findings:
        lines += ["", f"line {f['line']}, column {f['column']}: {f['pattern']}", f"  {f['message']}"]
        if f["evidence"]:
            lines.append(f"  {f['evidence']}")
        lines += [f"  try: {s}" for s in f["suggestions"]]
    lines += ["", f"request {problem['request_id']}", ""]
    return "\n".join(lines)


def render(error: ProxyError, *, request_id: str, accept: str | None) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Return status, header fields and body of the response to *error*."""
    return render_problem(describe(error, request_id), accept=accept, extra=_extra_headers(error))


def render_internal(*, request_id: str, accept: str | None) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """The response to an exception that nobody foresaw: it says nothing of it but the request id, which the log has too."""
    problem = {
        "type": "about:blank",
        "title": INTERNAL_TITLE,
        "status": 500,
        "detail": "Something went wrong inside Sparlance; the log tells more under this request id.",
        "request_id": request_id,
        "findings": [],
    }
    return render_problem(problem, accept=accept)


def render_problem(
    problem: dict[str, Any], *, accept: str | None, extra: Sequence[tuple[bytes, bytes]] = ()
) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    if wants_text_problem(accept):
        content_type, body = "text/plain; charset=utf-8", as_text(problem).encode("utf-8")
    else:
        content_type, body = PROBLEM_JSON, json.dumps(problem, ensure_ascii=False).encode("utf-8")
    headers = [
        (b"content-type", content_type.encode("ascii")),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
        *extra,
    ]
    return problem["status"], headers, body


def _extra_headers(error: ProxyError) -> list[tuple[bytes, bytes]]:
    match error:
        case errors.MethodNotAllowed():
            return [(b"allow", ", ".join(error.allowed).encode("ascii"))]
        case errors.NotAuthenticated():
            # Basic too: many SPARQL clients send user and password only when they are asked for them.
            return [(b"www-authenticate", b'Bearer realm="sparlance"'), (b"www-authenticate", b'Basic realm="sparlance"')]
        case errors.BackendBusy() | errors.RateLimited():
            return [(b"retry-after", b"%d" % max(1, math.ceil(error.retry_after_s)))]
        case errors.QueryRejected():
            epoch = [] if error.epoch is None else [(b"sparlance-epoch", b"%d" % error.epoch)]
            return [(b"sparlance-validation", b"rejected"), *epoch]
        case errors.Abstained():
            return [(b"sparlance-status", b"abstained")]
    return []
