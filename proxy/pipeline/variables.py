"""Which variables the solutions of a query have (SPARQL 1.1 Query, section 18.2.1: variable scope)."""

from __future__ import annotations

from proxy.query import model
from proxy.query.model import ParsedQuery
from proxy.query.term import Variable


def solution_variables(query: ParsedQuery) -> tuple[str, ...]:
    """Names of the variables of a SELECT answer: as projected; for ``*`` those in scope, sorted."""
    if not query.is_star:
        return tuple(p.variable.name for p in query.projection)
    found: set[str] = set()
    if query.where is not None:
        _collect(query.where, found)
    if query.values is not None:
        found.update(v.name for v in query.values.variables)
    return tuple(sorted(found))


def _collect(group: model.Group, found: set[str]) -> None:
    stack: list[model.Element] = [group]
    while stack:
        match stack.pop():
            case model.BasicGraphPattern(patterns):
                found.update(t.name for t in model.walk(patterns) if isinstance(t, Variable) and not t.is_blank)
            case model.Group(elements):
                stack.extend(elements)
            case model.Optional(inner) | model.Lateral(inner):
                stack.append(inner)
            case model.Union(branches):
                stack.extend(branches)
            case model.Bind(_, variable):
                found.add(variable.name)
            case model.InlineData(variables=variables):
                found.update(v.name for v in variables)
            case model.GraphPattern(name, inner) | model.Service(name=name, group=inner):
                if isinstance(name, Variable):
                    found.add(name.name)
                stack.append(inner)
            case model.SubSelect(query):
                found.update(solution_variables(query))
            case model.Minus() | model.Filter():
                pass  # they bind nothing outside themselves
