"""Make a TTQL document smaller: some classes, fewer hops, a floor, a budget, or what a question needs.

Pure and deterministic. What a budget leaves out is decided edge by edge, an edge never without the path that leads to it; every
place that loses something is marked, and a note says how much was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from proxy.index.ttql import Document, Edge, Pattern, Target
from proxy.index.ttql_names import prefixes_for
from proxy.index.ttql_text import estimate_tokens, render
from proxy.query.term import RDF_LANG_STRING, XSD_STRING


def with_prefixes(document: Document) -> Document:
    """The same, with prefixes for the namespaces of its terms and no others."""
    return replace(document, prefixes=prefixes_for(_terms(document)))


def _terms(document: Document) -> Iterator[str]:
    def of_edges(edges: Sequence[Edge]) -> Iterator[str]:
        for edge in edges:
            yield edge.property
            for target in edge.targets:
                if target.class_ is not None:
                    yield target.class_
                yield from of_edges(target.edges)
            for group in edge.literals:
                if group.datatype != XSD_STRING and (group.language is None or group.datatype != RDF_LANG_STRING):
                    yield group.datatype

    for pattern in document.patterns:
        if pattern.class_ is not None:
            yield pattern.class_
        yield from of_edges(pattern.edges)


# -- by class, depth, floor


def only(document: Document, classes: Collection[str | None]) -> Document:
    """The patterns of *classes*."""
    return with_prefixes(replace(document, patterns=tuple(p for p in document.patterns if p.class_ in classes)))


def cut(document: Document, depth: int) -> Document:
    """Paths of at most *depth* edges."""
    return _keep(document, {e.number for e in entries(document) if e.depth <= depth}, is_marked=False)


def above(document: Document, floor: float) -> Document:
    """Without edges that less than *floor* of the nodes before them have, at the root too; unknown ones stay."""
    kept: set[int] = set()
    everything = entries(document)
    for e in everything:
        share = None if e.edge is None else e.edge.frequency.share
        if (e.parent is None or e.parent in kept) and (share is None or share >= floor):
            kept.add(e.number)
    note = f"edges below {floor:g} left out: {len(everything) - len(kept)}"
    found = _keep(document, kept)
    return found if len(kept) == len(everything) else replace(found, notes=(*found.notes, note))


# -- by budget


@dataclass(frozen=True, slots=True)
class Entry:
    """A pattern or an edge of a document, *number* in reading order.

    parent: the pattern, or the edge before it. depth: edges on the path, 0 for a pattern.
    probability: that a node of the root has the path to its end, where each hop depends on the one before only.
    """

    number: int
    parent: int | None
    depth: int
    probability: float
    pattern: Pattern
    edge: Edge | None = None


def entries(document: Document) -> list[Entry]:
    """All patterns and edges in reading order."""
    found: list[Entry] = []

    def add(edges: Sequence[Edge], parent: int, depth: int, probability: float, pattern: Pattern) -> None:
        for edge in edges:
            here = probability * _share(edge.frequency.share)
            number = len(found)
            found.append(Entry(number, parent, depth, here, pattern, edge))
            for target in edge.targets:
                add(target.edges, number, depth + 1, here * _share(target.frequency.share), pattern)

    for pattern in document.patterns:
        number = len(found)
        found.append(Entry(number, None, 0, 1.0, pattern))
        add(pattern.edges, number, 1, 1.0, pattern)
    return found


def _share(share: float | None) -> float:
    return 0.0 if share is None else share


def prune(document: Document, *, budget_tokens: int | None = None, budget_lines: int | None = None) -> Document:
    """Leave out as little as the budgets allow; both hold for the whole text, notes too, which stay in any case.

    First come the patterns with the forward edges of their roots, in the order of the document; then everything else by the
    probability of its path, halved for every hop.
    """
    everything = entries(document)

    def rank(e: Entry) -> tuple[float, ...]:
        if e.depth == 0 or (e.depth == 1 and e.edge is not None and not e.edge.is_inverse):
            return 0, e.number
        return 1, -e.probability / 2**e.depth, e.number

    return _fit(document, everything, sorted(everything, key=rank), _limits(budget_tokens, budget_lines))


def fragments(
    document: Document,
    classes: Collection[str | None],
    properties: Collection[str] = (),
    *,
    budget_tokens: int | None = None,
) -> Document:
    """The slice that a question about *classes* and *properties* needs: their patterns, and the paths between them.

    In this order, as far as the budget goes: the patterns of *classes* (and, for a property that these do not reach, the first
    pattern that has it at its root); paths to a property or another class that was asked for, shortest first; literals at the
    roots; literals at the ends of those paths; the rest as ``prune`` has it. Without notes: they are not about the question.
    """
    everything = entries(document)
    roots = _roots(everything, classes, properties)
    everything = [e for e in everything if e.pattern.class_ in roots]
    wanted = {e.number for e in everything if e.edge is not None and _is_wanted(e, classes, properties)}

    def rank(e: Entry) -> tuple[float, ...]:
        if e.edge is None:
            return 0, 0, 0, e.number
        if e.number in wanted:
            return 0, e.depth, -e.probability, e.number
        if e.edge.literals and (e.depth == 1 or e.parent in wanted):
            return (1 if e.depth == 1 else 2), e.depth, -e.probability, e.number
        return 3, -e.probability / 2**e.depth, 0, e.number

    document = replace(document, notes=())
    return _fit(document, everything, sorted(everything, key=rank), _limits(budget_tokens, None), is_noted=False)


def _roots(everything: Sequence[Entry], classes: Collection[str | None], properties: Collection[str]) -> Collection[str | None]:
    known = {e.pattern.class_ for e in everything}
    if not classes and not properties:
        return known
    roots = {c for c in classes if c in known}
    edges = [(e, e.edge) for e in everything if e.edge is not None]
    reached = {edge.property for e, edge in edges if e.pattern.class_ in roots}
    for property_ in sorted(set(properties) - reached):
        first = next((e for e, edge in edges if e.depth == 1 and edge.property == property_ and not edge.is_inverse), None)
        if first is not None:
            roots.add(first.pattern.class_)
    return roots


def _is_wanted(e: Entry, classes: Collection[str | None], properties: Collection[str]) -> bool:
    assert e.edge is not None
    others = {t.class_ for t in e.edge.targets} & set(classes)
    return e.edge.property in properties or bool(others - {e.pattern.class_})


Limits = Sequence[tuple[Callable[[str], int], int, str]]
"""How a text is measured, how much of that it may have, and the unit."""


def _limits(budget_tokens: int | None, budget_lines: int | None) -> Limits:
    limits = (
        (estimate_tokens, budget_tokens, "tokens of 4 characters"),
        (lambda text: text.count("\n"), budget_lines, "lines"),
    )
    return [(measure, most, unit) for measure, most, unit in limits if most is not None]


def _fit(
    document: Document, everything: Sequence[Entry], ranked: Sequence[Entry], limits: Limits, *, is_noted: bool = True
) -> Document:
    """Keep as many of *ranked* as the limits allow, from the first, with all that they depend on."""
    by_number = {e.number: e for e in everything}

    def first(n: int) -> Document:
        kept: set[int] = set()
        for e in ranked[:n]:
            number: int | None = e.number
            while number is not None and number not in kept:
                kept.add(number)
                number = by_number[number].parent
        found = _keep(document, kept)
        lost = len(everything) - len(kept)
        if lost and is_noted:
            within = " and ".join(f"{most} {unit}" for _, most, unit in limits)
            patterns = len(document.patterns) - len(found.patterns)
            note = f"pruned to {within}: {lost - patterns} of {_edges_in(everything)} edges and {patterns} patterns left out"
            found = replace(found, notes=(*found.notes, note))
        return found

    def fits(found: Document) -> bool:
        text = render(found)
        return all(measure(text) <= most for measure, most, _ in limits)

    low, high = 0, len(ranked)
    whole = first(high)
    if not limits or fits(whole):
        return whole
    while low + 1 < high:  # first(low) fits, or nothing does; first(high) does not
        middle = (low + high) // 2
        low, high = (middle, high) if fits(first(middle)) else (low, middle)
    return first(low)


def _edges_in(everything: Sequence[Entry]) -> int:
    return sum(e.edge is not None for e in everything)


def _keep(document: Document, kept: Collection[int], *, is_marked: bool = True) -> Document:
    """The entries *kept*; is_marked: places that lose edges say so."""
    number = -1

    def edges(of: Sequence[Edge], *, is_kept: bool) -> tuple[tuple[Edge, ...], bool]:
        nonlocal number
        found: list[Edge] = []
        for edge in of:
            number += 1
            is_here = is_kept and number in kept
            targets = tuple(target(t, is_kept=is_here) for t in edge.targets)
            if is_here:
                found.append(replace(edge, targets=targets))
        return tuple(found), is_marked and len(found) < len(of)

    def target(of: Target, *, is_kept: bool) -> Target:
        found, has_lost = edges(of.edges, is_kept=is_kept)
        return replace(of, edges=found, is_cut=of.is_cut or has_lost)

    patterns = []
    for pattern in document.patterns:
        number += 1
        is_kept = number in kept
        found, has_lost = edges(pattern.edges, is_kept=is_kept)
        if is_kept:
            patterns.append(replace(pattern, edges=found, is_cut=pattern.is_cut or has_lost))
    return with_prefixes(replace(document, patterns=tuple(patterns)))
