"""How many solutions a join may have, by the counts of the support index, so that none is proposed that a backend chokes on."""

from __future__ import annotations

from proxy.nl.ir import Operator
from proxy.nl.plan import Condition, Plan
from proxy.nl.schema import Attribute, Schema
from proxy.nl.tree import Tree

FEW = 2_000_000
"""Solutions that any backend can count or sort in a second or two."""
_BOUND = 0.5
_TEXT = 0.1
"""Share of instances that a bound, and a part of a text, are taken to leave."""


def solutions(plan: Plan, tree: Tree, schema: Schema) -> float:
    """The expected number of solutions of *plan* joined by *tree*: instances of the root, times the mean fan-out of every edge,
    times the share that each condition leaves. Hubs make it more: the mean of products is more than the product of means."""
    rows = float(schema.classes[tree.nodes[0]].instances)
    for branch in tree.branches:
        edge = branch.step.edge
        source = schema.classes[branch.step.source].instances
        rows *= edge.count / max(1, source)
    for c in plan.conditions:
        rows *= _share(c, schema)
    if plan.also:
        shown = plan.shown[0].term if plan.shown else None
        others = float(schema.classes[tree.nodes[0]].instances)
        if plan.shares_value and isinstance(shown, Attribute):
            others /= max(1, schema.distinct(shown) or 1)
        rows *= max(1.0, others * _share(plan.also[0], schema))
    return rows


def is_heavy(plan: Plan, tree: Tree, schema: Schema) -> bool:
    """Whether *plan* has to look at many more solutions than any of its edges has triples, and than a backend does easily."""
    largest = max((b.step.edge.count for b in tree.branches), default=schema.classes[tree.nodes[0]].instances)
    return solutions(plan, tree, schema) > max(FEW, 4 * largest)


def _share(c: Condition, schema: Schema) -> float:
    match c.operator:
        case Operator.EQUAL if c.against is None:
            return min(1.0, 1.0 / max(1, schema.distinct(c.attribute) or 1))
        case Operator.IN:
            return min(1.0, max(1, len(c.literals) + len(c.numbers)) / max(1, schema.distinct(c.attribute) or 1))
        case Operator.CONTAINS | Operator.STARTS | Operator.ENDS:
            return _TEXT
        case Operator.NOT_EQUAL:
            return 1.0
        case _:
            return _BOUND
