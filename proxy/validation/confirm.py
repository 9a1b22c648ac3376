"""Contradicted conditions → the ASK query that the backend is asked before anybody acts on the proof.

It holds the conditions as the query has them, constants and classes included, with full IRIs; where a condition cannot be
written it is left out, which makes the ASK true more often and the proof less.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from proxy.query.conditions import (
    Bound,
    Condition,
    Contains,
    Edge,
    GroupSize,
    Impossible,
    IsLiteral,
    OneOf,
    Place,
    Same,
)
from proxy.query.model import ParsedQuery
from proxy.query.operation import DatasetDescription
from proxy.query.render import render, render_term
from proxy.query.term import Iri, Literal, Variable

_LEGAL = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_MAX_TERMS = 50
_NO_DATASET = DatasetDescription()


class _Writer:
    """Names variables legally; what is the same gets one name."""

    def __init__(self, conditions: Sequence[Condition]) -> None:
        self._same: dict[Variable, Place] = {}
        self._names: dict[Variable, str] = {}
        self._conditions = conditions
        self._has_clash = False
        for c in conditions:
            match c:
                case Same(a, b, _):
                    self._unite(a, b)
                case OneOf(v, (Iri() as iri,), _, False):
                    self._unite(v, iri)

    def _find(self, term: Place) -> Place:
        while isinstance(term, Variable) and term in self._same:
            term = self._same[term]
        return term

    def _unite(self, a: Place, b: Place) -> None:
        a, b = self._find(a), self._find(b)
        if a != b:
            if isinstance(a, Variable):
                self._same[a] = b
            elif isinstance(b, Variable):
                self._same[b] = a
            else:
                self._has_clash = True

    def term(self, term: Place) -> str:
        found = self._find(term)
        if not isinstance(found, Variable):
            return render_term(found)
        name = self._names.get(found)
        if name is None:
            own = found.name
            name = own if _LEGAL.fullmatch(own) and own not in self._names.values() else f"v{len(self._names)}_"
            self._names[found] = name
        return f"?{name}"

    def text(self) -> str:
        patterns: list[str] = []
        filters: list[str] = []
        for c in self._conditions:
            match c:
                case Edge(s, p, o, _, graph):
                    predicate = self.term(Variable(f"any#{len(patterns)}") if p is None else p)
                    if predicate[0] not in "?<":
                        # a variable that must be a literal, in the place of a property
                        self._has_clash = True
                        continue
                    pattern = f"{self.term(s)} {predicate} {self.term(o)} ."
                    patterns.append(pattern if graph is None else f"GRAPH {self.term(graph)} {{ {pattern} }}")
                case OneOf(v, terms, _, True):
                    texts = (render_term(t) for t in terms if isinstance(t, Literal))
                    filters.append(f"FILTER(STR({self.term(v)}) IN ({', '.join(texts)}))")
                case Bound(v, operator, limit, _):
                    filters.append(f"FILTER({self.term(v)} {operator} {render_term(limit)})")
                case Contains(v, text, ignores_case, _):
                    found, wanted = f"STR({self.term(v)})", render_term(Literal(text.lower() if ignores_case else text))
                    filters.append(f"FILTER(CONTAINS({f'LCASE({found})' if ignores_case else found}, {wanted}))")
                case GroupSize(query=query):
                    patterns.append(f"{{ {_grouped(query)} }}")  # it contradicts alone, so nothing stands beside it
                case OneOf(v, terms, _, False, by_term) if len(terms) <= _MAX_TERMS:
                    if by_term and isinstance(self._find(v), Variable):
                        # as the query joins: "=" and IN may not hold of a term and itself
                        patterns.append(f"VALUES {self.term(v)} {{ {' '.join(map(render_term, terms))} }}")
                    elif not isinstance(self._find(v), Iri):
                        filters.append(f"FILTER({self.term(v)} IN ({', '.join(map(render_term, terms))}))")
                    elif len(terms) > 1 or isinstance(terms[0], Literal):
                        filters.append(f"FILTER({self.term(v)} IN ({', '.join(map(render_term, terms))}))")
                case IsLiteral(v, is_literal, _):
                    filters.append(f"FILTER({'' if is_literal else '!'}isLiteral({self.term(v)}))")
                case Impossible():
                    filters.append("FILTER(false)")
        if self._has_clash:
            filters.append("FILTER(false)")
        return " ".join(dict.fromkeys([*patterns, *filters]))


def _grouped(query: ParsedQuery) -> str:
    """*query* as a sub-query, with the HAVING that it is about."""
    bare = replace(query, dataset=_NO_DATASET, values=None, prefixes={}, base=None)
    return render(replace(bare, is_distinct=False, is_reduced=False, order_by=(), limit=None, offset=None))


def confirmation(cores: Sequence[Sequence[Condition]], dataset: DatasetDescription = _NO_DATASET) -> str:
    """The ASK query that is false exactly when each of *cores*, one per alternative, has no solution.

    Args:
        dataset: FROM and FROM NAMED of the query that is judged; the ASK reads the same graphs.
    """
    texts = list(dict.fromkeys(_Writer(core).text() for core in cores))
    head = "".join(f"FROM <{g}> " for g in dataset.default_graphs) + "".join(f"FROM NAMED <{g}> " for g in dataset.named_graphs)
    if len(texts) == 1:
        return f"ASK {head}{{ {texts[0]} }}"
    return f"ASK {head}{{ " + " UNION ".join(f"{{ {t} }}" for t in texts) + " }"
