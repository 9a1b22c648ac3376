"""What an aggregate is taken over: things once each, those of which HAVING holds, the groups of a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from proxy.nl.ir import Aggregate, Column, Query
from proxy.nl.plan import Plan, owner
from proxy.nl.schema import Attribute, ClassTerm, Schema
from proxy.nl.tree import Tree


def counted_once(column: Column, tree: Tree, nodes: Sequence[str], group_by: Sequence[str], schema: Schema) -> Column:
    """*column*, counting an instance once where the join may repeat it; what makes the groups, as often as it is there."""
    if column.aggregate is not Aggregate.COUNT or column.var not in nodes or column.var in group_by:
        return column
    return replace(column, is_distinct=column.is_distinct or tree.repeats(nodes.index(column.var), schema))


def of_those_having(plan: Plan, query: Query, node: Callable[[str], str]) -> Query | None:
    """The aggregate of *query* over those things alone of which HAVING holds: "how many shops have more than two clerks"."""
    column, thing = query.columns[0], node(owner(plan.shown[0].term))
    is_kind = column.is_distinct and column.var != thing
    if len(query.columns) > 1 or column.is_text_number or is_kind or query.having is None or query.having.column.var == thing:
        return None
    groups = tuple(dict.fromkeys((thing, column.var)))
    return replace(query, columns=(Column(column.var),), group_by=groups, outer=column.aggregate)


def nested(query: Query, plan: Plan) -> Query | None:
    """The aggregate over the groups of *query*: "the average number of calls of a ship"."""
    counts = [c for c in query.columns if c.aggregate is Aggregate.COUNT]
    if len(counts) != 1 or not query.group_by or query.order or query.having is not None:
        return None
    return replace(query, columns=tuple(counts), outer=plan.nested)


def counts_itself(plan: Plan, tree: Tree, schema: Schema) -> bool:
    """Whether instances are sorted, or chosen, by how many of them there are, one by one: always 1."""
    s, n = plan.sorting, plan.counted
    sorts = s is not None and not isinstance(s.term, Attribute)
    bounds = n is not None and not isinstance(n.term, Attribute)
    if not (sorts or bounds) or len(tree.nodes) > 1:
        return False
    terms = [x.term for x in plan.shown if x.aggregate is None] + ([plan.group] if plan.group is not None else [])
    return any(isinstance(t, ClassTerm) or t == schema.name_of(t.subject_class) or schema.is_unique(t) for t in terms)
