"""Refuse queries whose patterns do not hang together, so that their answers are cross products.

Options:
    max_rows: estimated solutions of one group of patterns that fall apart into unconnected parts. Default: 10 million.

How many solutions each part has is estimated by the counts of the index; parts are connected by variables they share and by
FILTER(?a = ?b). What has no estimate (no index yet, a graph that is not in it) counts as one solution: this stops mistakes that
would hold up the backend, and promises no bound. A query with LIMIT and without ORDER BY, DISTINCT or aggregates passes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Annotated

import msgspec

from proxy import (
    And,
    BasicGraphPattern,
    Bind,
    Comparison,
    Exchange,
    Filter,
    Group,
    InlineData,
    Iri,
    Minus,
    ParsedQuery,
    Plugin,
    Service,
    SubSelect,
    SupportIndex,
    TriplePattern,
    Union,
    Variable,
    refusal,
    walk,
)


class Options(msgspec.Struct, frozen=True):
    max_rows: Annotated[int, msgspec.Meta(ge=1)] = 10_000_000


def load(options: Options) -> Plugin:
    return CostGuard(options.max_rows)


@dataclass
class Part:
    """Patterns that hang together. rows: estimated solutions."""

    variables: set[str]
    rows: int
    pattern: TriplePattern | None = None


class CostGuard(Plugin):
    may_refuse = True

    def __init__(self, max_rows: int) -> None:
        self.max_rows = max_rows
        self.indexes: dict[str, SupportIndex] = {}

    def index_refreshed(self, dataset: str, index: SupportIndex) -> None:
        self.indexes[dataset] = index

    def query(self, exchange: Exchange) -> None:
        index, query = self.indexes.get(exchange.dataset), exchange.parsed
        if index is None or not isinstance(query, ParsedQuery) or query.where is None or streams(query):
            return
        for node in walk(query):
            if isinstance(node, Group):
                self.require_joined(parts_of(node, index))

    def require_joined(self, parts: list[Part]) -> None:
        large = sorted((p for p in parts if p.rows > 1), key=lambda p: -p.rows)
        rows = prod(p.rows for p in large)
        if len(large) > 1 and rows > self.max_rows:
            first, second = large[0].pattern, large[1].pattern
            named = " and ".join(f"{p.span.text!r} (line {p.span.line})" for p in (first, second) if p is not None)
            message = f"about {rows:.1e} solutions: {named or 'two parts of a group'} share no variable, so that each solution "
            message += f"of one is combined with each of the other; at most {self.max_rows:,} are allowed here"
            raise refusal(message, *([first.span] if first is not None else []))


def streams(query: ParsedQuery) -> bool:
    """Whether the backend can stop at the LIMIT."""
    is_simple = not (query.order_by or query.is_distinct or query.is_reduced or query.group_by or query.having)
    return query.limit is not None and is_simple and not query.is_aggregate_without_group_by


def parts_of(group: Group, index: SupportIndex) -> list[Part]:
    """The unconnected parts of *group*."""
    parts: list[Part] = []
    for element in group.elements:
        match element:
            case BasicGraphPattern(patterns):
                parts += [Part(names(p), rows_of(p, index), p) for p in patterns]
            case InlineData():
                parts.append(Part(names(element), len(element.rows)))
            case Bind():
                parts.append(Part(names(element), 1))
            case Filter(expression=condition):
                for c in condition.operands if isinstance(condition, And) else (condition,):
                    if isinstance(c, Comparison) and c.operator == "=":
                        parts.append(Part(names(c), 1))  # a join, written as a condition
            case Minus() | Service():
                pass
            case Union(branches):
                parts.append(Part(names(element), sum(size(parts_of(b, index)) for b in branches)))
            case SubSelect(query):
                rows = size(parts_of(query.where, index)) if query.where is not None else 1
                shown = {p.variable.name for p in query.projection} or names(element)
                parts.append(Part(shown, rows if query.limit is None else min(rows, query.limit)))
            case Group():
                parts.append(Part(names(element), size(parts_of(element, index))))
            case _:  # OPTIONAL, GRAPH, LATERAL
                parts.append(Part(names(element), size(parts_of(element.group, index))))
    return join(parts)


def join(parts: Iterable[Part]) -> list[Part]:
    """Put together what shares a variable; a join is taken to be as large as the largest of its patterns."""
    joined: list[Part] = []
    for part in parts:
        met = [j for j in joined if j.variables & part.variables]
        largest = max([part, *met], key=lambda p: p.rows)
        whole = Part(set().union(part.variables, *(m.variables for m in met)), largest.rows, largest.pattern)
        joined = [j for j in joined if j not in met] + [whole]
    return joined


def size(parts: list[Part]) -> int:
    return prod(max(p.rows, 1) for p in parts)


def names(node: object) -> set[str]:
    return {n.name for n in walk(node) if isinstance(n, Variable)}


def rows_of(pattern: TriplePattern, index: SupportIndex) -> int:
    """Solutions of one pattern, by the counts of its predicate or class; a path counts as its largest step."""
    is_bound = [not isinstance(end, Variable) for end in (pattern.subject, pattern.object)]
    predicate = pattern.predicate
    if isinstance(predicate, Iri) and predicate.value == index.class_predicate and isinstance(pattern.object, Iri):
        return 1 if is_bound[0] else index.class_instances.get(pattern.object.value, 1)
    if all(is_bound):
        return 1
    steps = [p.value for p in walk(predicate) if isinstance(p, Iri)] if not isinstance(predicate, Variable) else []
    if not any(is_bound):
        return max((int(index.count[index.cells(p)].sum()) for p in steps), default=index.triples)
    most = [index.multiplicity[p][0 if is_bound[0] else 1] for p in steps if p in index.multiplicity]
    return max(most, default=1)
