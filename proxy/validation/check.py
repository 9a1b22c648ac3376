"""Query against index: all findings about one query, in its order."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.index.support import SupportIndex
from proxy.query.model import ParsedQuery, QueryForm, Span, TriplePattern, walk
from proxy.query.operation import DatasetDescription
from proxy.query.required import Alternatives, Condition, Part, required
from proxy.validation.confirm import confirmation
from proxy.validation.explain import culprit, explain
from proxy.validation.finding import Finding, Severity
from proxy.validation.lexical import text_as_number, unknown_terms, words_of
from proxy.validation.prove import Supports, is_contradicted, minimal_core, supports_of
from proxy.validation.suggest import Names

_MAX_CORES = 5
_MAX_FOR_MORE = 60
"""Conditions; of a longer query only the first contradiction is worked out."""
_NO_DATASET = DatasetDescription()

_PARTS = {
    "optional": "This OPTIONAL never adds anything. ",
    "union": "This branch of the UNION is always empty. ",
    "minus": "This MINUS never removes anything. ",
    "not-exists": "This NOT EXISTS is always true. ",
}


def check(query: ParsedQuery, index: SupportIndex, *, dataset: DatasetDescription = _NO_DATASET) -> tuple[Finding, ...]:
    """Compare *query* with what *index* has seen.

    A proof counts conditions that every solution must meet (``query.required``); a part that may fail alone (OPTIONAL, one
    branch of a UNION, MINUS, NOT EXISTS) is at most vacuous. An ASK, an aggregate without GROUP BY, DESCRIBE of a listed IRI
    and LIMIT 0 have an answer whatever the data, so they are never proved empty. The graph is not read: findings are as fresh
    as ``index.built_at``.

    Args:
        dataset: what the protocol names; it replaces FROM. The index was not built from it: nothing is then said of the data.
    Returns:
        Findings in query order, at most one per pattern and place. No findings: nothing to say.

    Source: SPARQL 1.1 Query, section 18.2; docs/validation.md.
    """
    supports = supports_of(index)
    names = Names(query.prefixes)
    needs = required(query, dataset=dataset)
    findings: list[Finding] = []
    cores = _cores(needs.alternatives, supports)
    if cores is not None:
        findings += _contradictions(query, needs.alternatives, cores, supports, names)
    else:
        for part in needs.parts:
            findings += _dead_part(part, supports, names)
    if needs.reads_index:
        words = words_of(query)
        findings += unknown_terms(words, index, names)
        findings += text_as_number(words, index, names)
    return _in_order(findings)


def is_proved_empty(findings: Sequence[Finding]) -> bool:
    return any(f.severity is Severity.PROVED_EMPTY for f in findings)


def _cores(alternatives: Alternatives, supports: Supports) -> list[tuple[Condition, ...]] | None:
    """One minimal core per alternative; None if some alternative is not contradicted."""
    for alternative in alternatives:
        if not alternative or not is_contradicted(alternative, supports):
            return None
    return [minimal_core(a, supports) for a in alternatives]


def _severity(query: ParsedQuery) -> tuple[Severity, str]:
    if query.limit == 0:
        return Severity.VACUOUS, ""
    match query.form:
        case QueryForm.ASK:
            return Severity.SUSPICIOUS, "The answer is always false. "
        case QueryForm.DESCRIBE if any(not hasattr(d, "name") for d in query.describe):
            return Severity.VACUOUS, "The pattern adds nothing to the description. "
    if query.is_aggregate_without_group_by:
        return Severity.VACUOUS, "The aggregate is over nothing. "
    return Severity.PROVED_EMPTY, ""


def _contradictions(
    query: ParsedQuery,
    alternatives: Alternatives,
    cores: list[tuple[Condition, ...]],
    supports: Supports,
    names: Names,
) -> list[Finding]:
    severity, opening = _severity(query)
    index = supports.index
    findings = []
    if len(alternatives) == 1:
        # further, independent contradictions are worth saying in one go; each stands for itself
        rest = alternatives[0]
        core = cores[0]
        for _ in range(_MAX_CORES):
            findings.append(_finding(severity, opening, [core], core, rest, supports, names))
            main = culprit(core, index)
            rest = tuple(c for c in rest if c is not main)
            if not rest or len(rest) > _MAX_FOR_MORE or not is_contradicted(rest, supports):
                break
            core = minimal_core(rest, supports)
        return findings
    for core, alternative in dict(zip(cores, alternatives, strict=True)).items():
        findings.append(_finding(severity, opening, cores, core, alternative, supports, names))
    return findings


def _finding(
    severity: Severity,
    opening: str,
    cores: Sequence[Sequence[Condition]],
    core: Sequence[Condition],
    context: Sequence[Condition],
    supports: Supports,
    names: Names,
    within: frozenset[int] | None = None,
) -> Finding:
    said = explain(core, supports.index, names, context=context, within=within)
    span: Span = said.span
    return Finding(
        severity,
        span.text,
        span.line,
        span.column,
        opening + said.message,
        said.evidence,
        said.suggestions,
        said.rule,
        confirmation(cores) if severity is Severity.PROVED_EMPTY else None,
    )


def _dead_part(part: Part, supports: Supports, names: Names) -> list[Finding]:
    cores = _cores(part.conditions, supports)
    if cores is None:
        return []
    within = frozenset(id(n) for n in walk(part.group) if isinstance(n, TriplePattern))
    return [_finding(Severity.VACUOUS, _PARTS[part.role], cores, cores[0], part.conditions[0], supports, names, within)]


def _in_order(findings: list[Finding]) -> tuple[Finding, ...]:
    rank = {Severity.PROVED_EMPTY: 0, Severity.VACUOUS: 1, Severity.SUSPICIOUS: 2}
    kept: dict[tuple[int, int, str, str], Finding] = {}
    for f in sorted(findings, key=lambda f: rank[f.severity]):
        # what is already said of a pattern by a stronger finding is not said again
        rule = f.rule if f.rule == "text-as-number" else ""
        kept.setdefault((f.line, f.column, f.pattern, rule), f)
    return tuple(sorted(kept.values(), key=lambda f: (f.line, f.column)))
