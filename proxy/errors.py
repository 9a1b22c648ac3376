"""Every error that Sparlance raises on purpose.

    ProxyError
    ├ ConfigError            at start only: dotted key, what was found, what is accepted
    ├ RequestError           the client can fix it
    │ ├ MalformedRequest     both query= and nl=, query= twice, an undecodable body …
    │ ├ MalformedQuery       line and column; only where the backend does not judge (NL, check)
    │ ├ NotAcceptable
    │ ├ UnsupportedMediaType
    │ ├ BodyTooLarge
    │ ├ NotAuthenticated     no API key, or none that is known, where one is needed
    │ ├ OperationForbidden   an update, SERVICE or LOAD that the configuration does not allow
    │ ├ UnknownPath          nothing is served here
    │ ├ MethodNotAllowed     the methods that are
    │ ├ RateLimited          this client has used up what it may use; limit, retry_after_s
    │ ├ QueryRejected        findings from the validator or from a plugin
    │ └ Abstained            the question engine has no candidate that is good enough
    ├ BackendError           backend name, elapsed_s
    │ ├ BackendUnreachable
    │ ├ BackendTimeout       which limit it was
    │ ├ BackendGarbled       malformed HTTP, or a result document that does not close
    │ ├ BackendBusy          the queue in front of the backend is full; retry_after_s
    │ │ └ BackendOpen        the circuit is open: it failed again and again, and is left alone
    │ └ BackendRefused       the backend answered one of *our own* queries with an error status
    ├ ModelError             a model is missing, broken or out of time
    │ └ ModelBusy            as many questions wait for the model as may
    ├ CorruptIndex
    ├ IndexMismatch
    └ PluginError            plugin and hook name

A class exists because someone treats it differently. No status code appears here: ``protocol/problems.py`` has the one
table from class to status. A backend's own 4xx/5xx answer to a client is an answer, never an exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proxy.validation.finding import Finding


class ProxyError(Exception):
    """Base of all of them; ``str(error)`` is a sentence for the person who can act on it."""


class ConfigError(ProxyError):
    """A setting cannot be used. *key* is its dotted path, such as ``server.port``."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(f"{key}: {message}" if key else message)
        self.key = key
        self.reason = message


class RequestError(ProxyError):
    """The client sent something that it can fix. *plugin*: the one that refuses it; empty: none."""

    plugin: str = ""


class MalformedRequest(RequestError):
    """The request breaks the SPARQL 1.1 Protocol (section 2) or our addition to it."""


class MalformedQuery(RequestError):
    """The text is not SPARQL, or nobody here can tell. *line* and *column* count from 1; None where the parser cannot tell.

    *message* is without the place, which ``str(error)`` begins with. *reason*: ``syntax``: it is not SPARQL 1.1; ``size``: too
    large or too deeply nested to be read; ``escape``: what it is depends on who reads it; ``internal``: the parser failed,
    a bug of ours. But for the first it may be SPARQL.
    """

    def __init__(
        self, message: str, *, line: int | None = None, column: int | None = None, reason: str = "syntax"
    ) -> None:
        super().__init__(message if line is None else f"line {line}, column {column}: {message}")
        self.message = message
        self.line = line
        self.column = column
        self.reason = reason


class NotAcceptable(RequestError):
    """No format that the client accepts can be produced (RFC 9110, 15.5.7)."""


class UnsupportedMediaType(RequestError):
    """The body's media type is not one of the protocol's (RFC 9110, 15.5.16)."""


class BodyTooLarge(RequestError):
    """The body is larger than *limit_bytes*."""

    def __init__(self, message: str, *, limit_bytes: int) -> None:
        super().__init__(message)
        self.limit_bytes = limit_bytes


class NotAuthenticated(RequestError):
    """An API key is needed, or the one shown is not known (RFC 9110, 15.5.2)."""


class OperationForbidden(RequestError):
    """The configuration does not allow this operation; the message names the setting that would."""


class UnknownPath(RequestError):
    """Nothing is served at this path; the message names what is."""


class MethodNotAllowed(RequestError):
    """The path takes only the methods *allowed* (RFC 9110, 15.5.6)."""

    def __init__(self, message: str, *, allowed: Sequence[str]) -> None:
        super().__init__(message)
        self.allowed = tuple(allowed)


class RateLimited(RequestError):
    """The client has used up what *limit* allows; it may come back in *retry_after_s*."""

    def __init__(self, message: str, *, limit: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.limit = limit
        self.retry_after_s = retry_after_s


class QueryRejected(RequestError):
    """The query is refused for the reasons in *findings* (non-empty). *epoch*: of the index they rest on; None: on none."""

    def __init__(self, message: str, *, findings: Sequence[Finding], epoch: int | None = None) -> None:
        super().__init__(message)
        self.findings = tuple(findings)
        self.epoch = epoch


class Abstained(RequestError):
    """The question engine prefers no answer to a bad one. *account* tells what it understood (JSON-ready)."""

    def __init__(self, message: str, *, account: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.account = account


class BackendError(ProxyError):
    """The backend *backend* did not do its part; *elapsed_s* is the time since the request was sent."""

    def __init__(self, message: str, *, backend: str, elapsed_s: float | None = None) -> None:
        super().__init__(message)
        self.backend = backend
        self.elapsed_s = elapsed_s


class BackendUnreachable(BackendError):
    """No connection, or it closed before a response began."""


class BackendTimeout(BackendError):
    """No answer within the time limit. *limit*: which one: connect, first-byte, idle or total; empty: another."""

    def __init__(self, message: str, *, backend: str, elapsed_s: float | None = None, limit: str = "") -> None:
        super().__init__(message, backend=backend, elapsed_s=elapsed_s)
        self.limit = limit


class BackendGarbled(BackendError):
    """What came is not HTTP, or not a complete result document."""


class BackendBusy(BackendError):
    """Too many requests wait for this backend; *retry_after_s* is a hint for the client."""

    def __init__(self, message: str, *, backend: str, retry_after_s: float) -> None:
        super().__init__(message, backend=backend)
        self.retry_after_s = retry_after_s


class BackendOpen(BackendBusy):
    """The circuit is open: the backend has failed several times in a row and is not asked for a while."""


class BackendRefused(BackendError):
    """The backend answered one of our own queries with *status* ≥ 400; *body* is the start of what it said."""

    def __init__(self, message: str, *, backend: str, status: int, body: str) -> None:
        super().__init__(message, backend=backend)
        self.status = status
        self.body = body


class ModelError(ProxyError):
    """A model is missing, broken or out of time."""


class ModelBusy(ModelError):
    """As many questions wait for the model as may: later it may do."""


class CorruptIndex(ProxyError):
    """An index file cannot be trusted; it will be rebuilt."""


class IndexMismatch(ProxyError):
    """The index was not built from the dataset that is asked about."""


class PluginError(ProxyError):
    """Plugin *plugin* failed in *hook*."""

    def __init__(self, message: str, *, plugin: str, hook: str) -> None:
        super().__init__(message)
        self.plugin = plugin
        self.hook = hook
