"""The record of one request, from its first byte to its log line; the only mutable object that travels."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.query.operation import Question, SparqlOperation
from proxy.validation.finding import Finding

if TYPE_CHECKING:
    from proxy.query.model import ParsedOperation


@dataclass(slots=True)
class Exchange:
    """What one request has become so far.

    operation: what will be (or was) asked of the backend; for a question, None until a query is chosen.
    parsed: its parse tree; None if it was not parsed or cannot be.
    is_rewritten: True once the text differs from what the client sent; only then is text rendered for the backend.
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
    started_at: float = field(default_factory=time.perf_counter)
