"""What the validator says about a query."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How sure a finding is, and about what.

    PROVED_EMPTY: no solution of the query can exist, by the index alone; a live ASK has yet to agree.
    VACUOUS: a part can never contribute (an aggregate over nothing, a dead OPTIONAL or UNION branch).
    SUSPICIOUS: probably not what the author meant (unknown term, unpopulated class); proves nothing.
    NOT_ANALYSED: nothing against the query; a part of it was left out because a bound was reached.
    """

    PROVED_EMPTY = "proved-empty"
    VACUOUS = "vacuous"
    SUSPICIOUS = "suspicious"
    NOT_ANALYSED = "not-analysed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing worth saying, in the shape that problem+json and ``/-/check`` show.

    pattern: the triple pattern (or term) as its author wrote it. line, column: where it starts, from 1.
    message: one sentence. evidence: what the graph has, with counts. suggestions: what would work, best first.
    confirmation: for PROVED_EMPTY, a complete ASK query over the minimal contradicted part; the proof may only be
        acted on if the backend answers it with false. None otherwise.
    rule: the name of the rule in docs/validation.md that led here.
    """

    severity: Severity
    pattern: str
    line: int
    column: int
    message: str
    evidence: str
    suggestions: tuple[str, ...] = ()
    rule: str = ""
    confirmation: str | None = None


def not_checked(rule: str, why: str, *, line: int | None = None, column: int | None = None) -> Finding:
    """What is said of a whole query that was not analysed: *rule* ``size``, ``escape`` or ``internal``, *why* in a clause."""
    evidence = "Nothing is known of the query: it is forwarded as it is, if [policy] allows that of text that cannot be read."
    return Finding(Severity.NOT_ANALYSED, "", line or 1, column or 1, f"Not analysed: {why}.", evidence, (), rule)


_RANK = {s: i for i, s in enumerate((Severity.PROVED_EMPTY, Severity.VACUOUS, Severity.SUSPICIOUS, Severity.NOT_ANALYSED))}


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """*findings* by severity, those of one severity in the order they have."""
    return sorted(findings, key=lambda f: _RANK[f.severity])
