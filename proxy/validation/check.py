"""Query against index: all findings about one query, in its order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from proxy.index.support import SupportIndex
from proxy.index.values import ValueIndex
from proxy.query.conditions import Alternatives, Condition, Edge, Part, within
from proxy.query.effort import noting
from proxy.query.magic import is_magic
from proxy.query.model import ParsedQuery, QueryForm, Span, TriplePattern, walk
from proxy.query.operation import DatasetDescription
from proxy.query.required import required
from proxy.query.term import Iri
from proxy.validation.confirm import confirmation
from proxy.validation.explain import culprit, explain
from proxy.validation.finding import Finding, Severity, worst_first
from proxy.validation.forms import literal_forms
from proxy.validation.lexical import text_as_number, unknown_terms, words_of
from proxy.validation.prove import is_contradicted, minimal_core
from proxy.validation.suggest import Names
from proxy.validation.supports import Supports, supports_of

FINDINGS_MOST = 100
"""That are listed of one query."""
_MAX_CORES = 5
_MAX_FOR_MORE = 60
"""Conditions; of a longer query only the first contradiction is worked out."""
_NO_DATASET = DatasetDescription()

Parameters = Sequence[tuple[str, str]]
"""Protocol parameters: name, value."""

_PARTS = {
    "optional": "This OPTIONAL never adds anything. ",
    "union": "This branch of the UNION is always empty. ",
    "minus": "This MINUS never removes anything. ",
    "not-exists": "This NOT EXISTS is always true. ",
}


def check(
    query: ParsedQuery,
    index: SupportIndex,
    *,
    values: ValueIndex | None = None,
    dataset: DatasetDescription = _NO_DATASET,
    parameters: Parameters = (),
    fetches_graphs: bool = False,
) -> tuple[Finding, ...]:
    """Compare *query* with what *index* has seen.

    A proof counts conditions that every solution must meet (``query.required``); a part that may fail alone (OPTIONAL, one
    branch of a UNION, MINUS, NOT EXISTS) is at most vacuous. An ASK, an aggregate without GROUP BY, DESCRIBE of a listed IRI
    and LIMIT 0 have an answer whatever the data, so they are never proved empty. The graph is not read: findings are as fresh
    as ``index.built_at``.

    Args:
        values: the literals, of the same build as *index*; without them nothing is said of what a property's values are.
        dataset: what the protocol names; it replaces FROM. An index that covers all graphs covers these; another says nothing.
        parameters: of the request. One that changes which triples are seen (``unlike_the_index``) ends all proofs by data.
        fetches_graphs: whether the backend may get the graphs that FROM and the protocol name from the web.
    Returns:
        Findings in query order, at most one per pattern and place; at the end one for bounds that were reached, if any.
        No findings: nothing to say. Of more than ``FINDINGS_MOST`` the worst, worst first, and one that counts the others.

    Source: SPARQL 1.1 Query, section 18.2; docs/validation.md.
    """
    with noting() as reached:
        found = _listed(_look(query, index, values, dataset, parameters, fetches_graphs))
    return (*found, _not_analysed(reached)) if reached else found


def _listed(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """*findings*, or of too many the worst, and how many more there are."""
    if len(findings) <= FINDINGS_MOST:
        return findings
    ordered = worst_first(findings)
    left = Counter(str(f.severity) for f in ordered[FINDINGS_MOST:])
    message = f"{left.total():,} more findings are not listed: {', '.join(f'{n:,} {s}' for s, n in left.items())}."
    evidence = f"The worst {FINDINGS_MOST} are listed, those of one severity in the order of the query."
    return (*ordered[:FINDINGS_MOST], Finding(Severity.NOT_ANALYSED, "", 1, 1, message, evidence, (), "more"))


def _not_analysed(bounds: Iterable[str]) -> Finding:
    message = f"Not analysed in full: {', '.join(bounds)}."
    evidence = "What is beyond a bound counts for nothing: it is neither proved nor reported."
    return Finding(Severity.NOT_ANALYSED, "", 1, 1, message, evidence, (), "bound")


def _look(
    query: ParsedQuery,
    index: SupportIndex,
    values: ValueIndex | None,
    dataset: DatasetDescription,
    parameters: Parameters,
    fetches_graphs: bool,
) -> tuple[Finding, ...]:
    """``check``, but for what was left out."""
    described = dataset or query.dataset
    if any(is_magic(Iri(g)) for g in (*described.default_graphs, *described.named_graphs)):
        return ()  # a graph that makes the backend answer otherwise: with a count, without inference
    covers = index.covers_named_graphs
    is_described = bool(query.dataset or dataset)
    reads_index = not (is_described and (fetches_graphs or not covers)) and unlike_the_index(parameters, index) is None
    case = _Case(query, supports_of(index, values), Names(query.prefixes), query.dataset if not dataset else _NO_DATASET)
    needs = required(query, reads_index=reads_index, covers_named_graphs=covers)
    findings: list[Finding] = []
    proofs = _proofs(needs.alternatives, case.supports)
    if proofs is not None:
        findings += _contradictions(case, proofs)
    else:
        for part in needs.parts:
            findings += _dead_part(case, part)
    if reads_index:
        words = words_of(query, covers_named_graphs=covers)
        findings += unknown_terms(words, index, case.names)
        findings += text_as_number(words, case.supports, case.names)
        findings += literal_forms(words, case.supports, case.names)
    return _in_order(findings)


_SETTINGS = frozenset(("infer", "sameAs"))


def unlike_the_index(parameters: Parameters, index: SupportIndex) -> str | None:
    """The name of a request parameter that makes the backend show other triples than the index was built from; None: none.

    GraphDB's ``infer`` and ``sameAs`` are on unless set, as they were for the index. Oxigraph's ``union-default-graph`` counts
    by its presence, and adds nothing to an index that covers all graphs.
    """
    for name, value in parameters:
        if name in _SETTINGS and value.strip().lower() != "true":
            return name
        if name == "union-default-graph" and not index.covers_named_graphs:
            return name
    return None


@dataclass(frozen=True, slots=True)
class _Case:
    """What a finding is made from. dataset: FROM and FROM NAMED, where the protocol does not replace them."""

    query: ParsedQuery
    supports: Supports
    names: Names
    dataset: DatasetDescription


def is_proved_empty(findings: Sequence[Finding]) -> bool:
    return any(f.severity is Severity.PROVED_EMPTY for f in findings)


@dataclass(frozen=True, slots=True)
class _Proof:
    """Why one alternative is impossible: *core*, by *supports*. *context*: what else was known. *graph*: it is of this one."""

    core: tuple[Condition, ...]
    context: Sequence[Condition]
    supports: Supports
    graph: str | None = None


def _proofs(alternatives: Alternatives, supports: Supports) -> list[_Proof] | None:
    """One proof for each alternative; None if some alternative is not contradicted."""
    found: list[_Proof] = []
    for alternative in alternatives:
        if not alternative or (proof := _contradicted_by(alternative, supports)) is None:
            return None
        found.append(proof)
    return [_with_core(proof) for proof in found]


def _with_core(proof: _Proof) -> _Proof:
    return replace(proof, core=minimal_core(proof.context, proof.supports))


def _contradicted_by(alternative: Sequence[Condition], supports: Supports) -> _Proof | None:
    """Whether *alternative* is impossible in all graphs together, or what it asks of one of them is impossible in that one."""
    if is_contradicted(alternative, supports):
        return _Proof((), alternative, supports)
    if graphs := supports.index.graphs:
        for graph in sorted({c.graph.value for c in alternative if isinstance(c, Edge) and isinstance(c.graph, Iri)}):
            if graph in graphs:
                own = supports_of(graphs[graph])
                if is_contradicted(part := within(alternative, graph), own):
                    return _Proof((), part, own, graph)
    return None


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


def _contradictions(case: _Case, proofs: Sequence[_Proof]) -> list[Finding]:
    severity, opening = _severity(case.query)
    findings = []
    if len(proofs) == 1:
        # further, independent contradictions are worth saying in one go; each stands for itself
        proof: _Proof | None = proofs[0]
        for _ in range(_MAX_CORES):
            if proof is None:
                break
            findings.append(_finding(case, severity, opening, [proof], proof))
            main = culprit(proof.core, proof.supports.index)
            rest = tuple(c for c in proof.context if c is not main)
            more = _contradicted_by(rest, proof.supports) if rest and len(rest) <= _MAX_FOR_MORE else None
            proof = None if more is None else _with_core(more)
        return findings
    for proof in {p.core: p for p in proofs}.values():
        findings.append(_finding(case, severity, opening, proofs, proof))
    return findings


def _finding(
    case: _Case,
    severity: Severity,
    opening: str,
    proofs: Sequence[_Proof],
    proof: _Proof,
    within: frozenset[int] | None = None,
) -> Finding:
    said = explain(proof.core, proof.supports, case.names, context=proof.context, within=within)
    span: Span = said.span
    where = "" if proof.graph is None else f"In the graph {case.names.short(proof.graph)}: "
    return Finding(
        severity,
        span.text,
        span.line,
        span.column,
        opening + where + said.message,
        said.evidence,
        said.suggestions,
        said.rule,
        confirmation([p.core for p in proofs], case.dataset) if severity is Severity.PROVED_EMPTY else None,
    )


def _dead_part(case: _Case, part: Part) -> list[Finding]:
    proofs = _proofs(part.conditions, case.supports)
    if proofs is None:
        return []
    inside = frozenset(id(n) for n in walk(part.group) if isinstance(n, TriplePattern))
    return [_finding(case, Severity.VACUOUS, _PARTS[part.role], proofs, proofs[0], inside)]


def _in_order(findings: list[Finding]) -> tuple[Finding, ...]:
    kept: dict[tuple[int, int, str, str], Finding] = {}
    for f in worst_first(findings):
        # what is already said of a pattern by a stronger finding is not said again
        rule = f.rule if f.rule == "text-as-number" else ""
        kept.setdefault((f.line, f.column, f.pattern, rule), f)
    return tuple(sorted(kept.values(), key=lambda f: (f.line, f.column)))
