"""The record of one request, from its first byte to its log line; the only mutable object that travels."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from proxy.errors import MalformedQuery, ProxyError
from proxy.query.operation import DatasetDescription, OperationKind, Question, SparqlOperation
from proxy.validation.finding import Finding

if TYPE_CHECKING:
    from proxy.access.keys import Principal
    from proxy.query.model import ParsedOperation


@dataclass(slots=True)
class Exchange:
    """What one request has become so far.

    operation: what will be (or was) asked of the backend; for a question, None until a query is chosen.
    parsed: its parse tree; None if it was not parsed or cannot be.
    principal: who asks, by API key; None: nobody looked, as where the application is embedded.
    client: whom its load is counted for. source: where the answer came from: empty: the backend; else ``cache`` or ``joined``.
    asked_at: when the backend was asked (``time.perf_counter``); 0: it was not.
    is_rewritten: True once the text differs from what the client sent; only then is text rendered for the backend.
    dataset, method, path: name of the dataset, HTTP method, the backend's own path; set where a plugin listens.
    is_unchecked: the index must not judge it. timeout_s: what a plugin leaves it at the backend; 0: what the settings do.
    refusal: why it is refused; None: it is not.
    own_text: what becomes of the text that we write ourselves; None: it stays. is_relayed: the answer is the backend's.
    """

    request_id: str
    operation: SparqlOperation | None = None
    question: Question | None = None
    parsed: ParsedOperation | None = None
    findings: tuple[Finding, ...] = ()
    verdict: str = ""
    is_rewritten: bool = False
    status: int = 0
    response_headers: tuple[tuple[bytes, bytes], ...] = ()
    added_headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    timings_ms: dict[str, float] = field(default_factory=dict)
    client: str = ""
    principal: Principal | None = None
    source: str = ""
    asked_at: float = 0.0
    dataset: str = ""
    method: str = ""
    path: str = ""
    is_unchecked: bool = False
    timeout_s: float = 0.0
    refusal: ProxyError | None = None
    own_text: Callable[[bytes], bytes] | None = None
    is_relayed: bool = False
    started_at: float = field(default_factory=time.perf_counter)

    @property
    def caller(self) -> str:
        """Name of the API key that the request has shown; empty: none."""
        key = self.principal.key if self.principal is not None else None
        return key.name if key is not None else ""

    def replace_text(self, text: str) -> None:
        """Have *text* read in place of what the client wrote; before it is parsed (hook ``request``).

        Raises:
            ValueError: there is no query or update, or it is parsed already.
        """
        operation = self.operation
        if operation is None or operation.kind not in (OperationKind.QUERY, OperationKind.UPDATE) or self.parsed is not None:
            raise ValueError("only the text of a query or update that was not parsed yet can be replaced")
        if text != operation.text:
            self.operation, self.is_rewritten = replace(operation, text=text), True

    def replace_dataset(self, dataset: DatasetDescription) -> None:
        """Have the query or update see *dataset*, by the parameters of the protocol; for a query they replace FROM in its text.

        Raises:
            ValueError: there is no query or update.
        """
        operation = self.operation
        if operation is None or operation.kind not in (OperationKind.QUERY, OperationKind.UPDATE):
            raise ValueError("only a query or an update has a dataset")
        if dataset != operation.dataset:
            self.operation, self.is_rewritten = replace(operation, dataset=dataset), True

    def leave_unchecked(self) -> None:
        """Let the index say nothing of this query: it may know more than this client may be told."""
        self.is_unchecked = True

    def change_own_text(self, change: Callable[[bytes], bytes]) -> None:
        """Have *change* look over what we write ourselves for this request: a problem, one of our pages, the account of a
        question and each of its events, the values of ``Sparlance-`` fields. The backend's answer comes by the hook ``body``.
        """
        before = self.own_text
        self.own_text = change if before is None else lambda text: change(before(text))

    def limit_time(self, seconds: float) -> None:
        """Give the backend at most *seconds* for this request, from the question to the last byte; the smallest limit counts.

        Raises:
            ValueError: it is not over 0.
        """
        if not seconds > 0:
            raise ValueError(f"{seconds!r} s is no time")
        self.timeout_s = min(self.timeout_s or seconds, seconds)

    def replace_query(self, text: str) -> None:
        """Ask *text* of the backend in place of what the client asked; a query stays a query, an update an update.

        Raises:
            ValueError: *text* is not SPARQL or another kind of operation, or there is no operation to replace.
        """
        from proxy.query.parse import parse  # late: a plugin that imports Exchange needs no parser

        if self.operation is None or self.parsed is None:
            raise ValueError("only an operation that was parsed can be replaced")
        try:
            parsed = parse(text)
        except MalformedQuery as error:
            raise ValueError(f"the replacement is not SPARQL: {error}") from error
        if type(parsed) is not type(self.parsed):
            raise ValueError("the replacement is another kind of operation")
        self.operation, self.parsed, self.is_rewritten = replace(self.operation, text=text), parsed, True

    def add_header(self, name: str, value: str) -> None:
        """Add a field to the response, after those of the backend.

        Raises:
            ValueError: *value* has a line break or characters outside Latin-1 (RFC 9110, section 5.5).
        """
        if not name.isascii() or not name.replace("-", "").isalnum() or any(c in value for c in "\r\n\0"):
            raise ValueError(f"not a header field: {name!r}")
        self.added_headers.append((name.lower().encode("ascii"), value.encode("latin-1")))
