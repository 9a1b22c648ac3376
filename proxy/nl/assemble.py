"""From a plan and a join tree to a query graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from proxy.nl.aggregating import counted_once, counts_itself, nested, of_those_having
from proxy.nl.ir import Aggregate, Column, Having, Pattern, Query, Triple, alias
from proxy.nl.patterns import Patterns
from proxy.nl.plan import Plan, Shown, owner
from proxy.nl.policy import Answer
from proxy.nl.schema import Attribute, ClassTerm, Schema
from proxy.nl.tree import Branch, Tree


def assemble(
    plan: Plan,
    tree: Tree,
    schema: Schema,
    *,
    absent_walk: Tree | None = None,
    language: str = "en",
    answer: Answer = Answer.LABEL,
) -> Query | None:
    """The query of *plan* over *tree*. *absent_walk*: from the asked-about class to what must be absent. *language*: of names.

    None: the plan makes no query (nothing to show).
    """
    p = Patterns(schema, language)
    nodes = p.add_tree(tree)

    def node(class_: str) -> str:
        position = tree.find(class_)
        return nodes[position if position is not None else 0]

    for c in plan.conditions:
        p.constrain(node(c.attribute.subject_class), c)
    either = p.constrain_any([(node(c.attribute.subject_class), c) for c in plan.either])
    if either is None:
        return None
    columns: list[Column] = []
    group_by: list[str] = []
    plain = [s for s in plan.shown if s.aggregate is None]
    aggregated = [s for s in plan.shown if s.aggregate is not None]
    needs_group = bool(aggregated and (plain or plan.group is not None)) or plan.counted is not None
    needs_group |= plan.sorting is not None and (
        plan.sorting.aggregate is not None or not isinstance(plan.sorting.term, Attribute)
    )
    shown: list[Shown] = list(plan.shown)
    if plan.group is not None and not any(s.aggregate is None and s.term == plan.group for s in shown):
        group_term = plan.group
        if isinstance(group_term, ClassTerm):
            if not plain or not any(owner(s.term) == group_term.iri for s in plain):
                shown.insert(0, Shown(group_term))
        elif aggregated:
            shown.insert(0, Shown(group_term))
    for s in shown:
        if isinstance(s.term, ClassTerm):
            var = node(s.term.iri)
            name = schema.name_of(s.term.iri) or schema.identifier_of(s.term.iri)
            if s.aggregate is None and name is not None and answer is Answer.LABEL:
                columns.append(Column(p.shown(var, name)))
                if needs_group:
                    group_by += [var, columns[-1].var]
                continue
            columns.append(Column(var, s.aggregate, s.is_distinct))
        else:
            a = s.term
            if s.aggregate is None and _is_entity(a, schema, answer):
                columns.append(Column(p.reached(node(a.subject_class), a)))
                if needs_group:
                    group_by.append(columns[-1].var)
                continue
            if s.is_optional and s.aggregate is None and not needs_group:
                columns.append(Column(p.shown_if_any(node(a.subject_class), a)))
                continue
            var = (p.attribute if s.aggregate is Aggregate.COUNT else p.shown)(node(a.subject_class), a)
            columns.append(
                Column(var, s.aggregate, s.is_distinct, a.is_text_number and s.aggregate not in (None, Aggregate.COUNT))
            )
            if s.aggregate is None and needs_group and _names_entity(schema, a, plan):
                group_by.append(node(a.subject_class))
        if s.aggregate is None and needs_group:
            group_by.append(var)
    if plan.group is not None and isinstance(plan.group, ClassTerm) and needs_group:
        group_by.insert(0, node(plan.group.iri))
    if not columns and not plan.is_ask:
        return None
    if counts_itself(plan, tree, schema):
        return None
    order: list[tuple[Column, bool]] = []
    limit = None
    if plan.sorting is not None:
        s_, limit = plan.sorting, plan.sorting.limit
        if s_.term is None:
            order.append((Column("", Aggregate.COUNT), s_.is_descending))
        elif isinstance(s_.term, ClassTerm):
            order.append((Column(node(s_.term.iri), Aggregate.COUNT), s_.is_descending))
        else:
            var = p.attribute(node(s_.term.subject_class), s_.term)
            aggregate = s_.aggregate or next((c.aggregate for c in columns if c.var == var and c.aggregate), None)
            if aggregate is None and needs_group:
                group_by.append(var)
            order.append((Column(var, aggregate, is_text_number=s_.term.is_text_number), s_.is_descending))
    having = None
    if plan.counted is not None:
        counted = plan.counted
        if isinstance(counted.term, Attribute):
            var = p.attribute(node(counted.term.subject_class), counted.term)
            column = Column(var, counted.aggregate, is_text_number=counted.term.is_text_number)
        else:
            column = Column(node(counted.term.iri) if counted.term is not None else "", Aggregate.COUNT)
        having = Having(column, counted.operator, counted.number)
    absent: list[Pattern] = []
    if plan.absent_shares_value:
        other = _absent_with_same(plan, p, columns)
        if other is None:
            return None
        absent.append(other)
    elif plan.absent or plan.absent_class is not None:
        absent.append(_absent(plan, absent_walk, p, node(plan.classes()[0]), node))
    if plan.also:
        _repeat(plan, tree, p, nodes)
    pattern = Pattern(tuple(p.triples), tuple(p.filters), tuple(absent), either, tuple(p.bindings), tuple(p.optional))
    if plan.besides is not None:
        return _besides(plan.besides, pattern, columns, schema, language)
    if plan.is_ask:
        return Query(pattern, is_ask=True)
    if either and aggregated:
        columns = [replace(c, is_distinct=c.aggregate is Aggregate.COUNT) for c in columns]
    is_distinct = (plan.is_distinct or bool(plan.also or either) or plan.absent_shares_value) and not aggregated
    has_joins = any(b.step.is_inverse for b in tree.branches)
    if not needs_group and not aggregated and has_joins and not order:
        is_distinct = True
    columns = [counted_once(c, tree, nodes, group_by, schema) for c in _once(columns)]
    shown_as = {(c.var, c.aggregate): c for c in columns}
    order = [(shown_as.get((c.var, c.aggregate), c), is_descending) for c, is_descending in order]
    if having is not None and aggregated and not group_by:
        return of_those_having(plan, Query(pattern, tuple(columns), having=having), node)
    query = Query(pattern, tuple(columns), tuple(dict.fromkeys(group_by)), having, tuple(order), limit, is_distinct)
    return query if plan.nested is None else nested(query, plan)


def _once(columns: Sequence[Column]) -> list[Column]:
    """*columns* without those of a name that is taken: two phrases may mean one attribute, and SELECT names a variable once."""
    named: dict[str, Column] = {}
    for column in columns:
        named.setdefault(alias(column), column)
    return list(named.values())


def _is_entity(a: Attribute, schema: Schema, answer: Answer) -> bool:
    """Whether *a*, a name, stands for what it names under the policy *answer*."""
    if answer is Answer.ENTITY:
        return a == schema.name_of(a.subject_class) or a in schema.relations
    return answer is Answer.AS_WRITTEN and a in schema.relations


def _names_entity(schema: Schema, a: Attribute, plan: Plan) -> bool:
    """Whether grouping by *a* should group by its subject: true for names, false where *a* sorts the subjects into kinds."""
    if plan.group == a:
        return False
    counted = plan.counted.term if plan.counted is not None else plan.sorting.term if plan.sorting is not None else None
    if counted is None and any(s.aggregate is not None for s in plan.shown):
        counted = next(s.term for s in plan.shown if s.aggregate is not None)
    if counted is not None and owner(counted) == a.subject_class:
        return False
    return schema.tells_apart(a)


def _absent(plan: Plan, walk: Tree | None, p: Patterns, subject: str, node: object) -> Pattern:
    inner = Patterns(p.schema, p.language, set(p.names))
    variables = inner.add_tree(walk, first=subject) if walk is not None else [subject]
    classes = walk.nodes if walk is not None else ()
    for c in plan.absent:
        position = classes.index(c.attribute.subject_class) if c.attribute.subject_class in classes else 0
        inner.constrain(variables[position], c)
    p.names |= inner.names
    return Pattern(tuple(inner.triples), tuple(inner.filters), bindings=tuple(inner.bindings))


def _absent_with_same(plan: Plan, p: Patterns, columns: Sequence[Column]) -> Pattern | None:
    """No instance, be it another one, has what is shown together with what must be absent: "cities without any ship over …"."""
    term = plan.shown[0].term
    if not isinstance(term, Attribute) or len(term.path) > 1 or not columns:
        return None
    inner = Patterns(p.schema, p.language, set(p.names))
    other = inner.name("other " + p.schema.classes[term.subject_class].words[0])
    inner.triples += [inner.type_triple(other, term.subject_class), Triple(other, term.path[0], columns[0].var)]
    for c in plan.absent:
        inner.constrain(other, c)
    p.names |= inner.names
    return Pattern(tuple(inner.triples), tuple(inner.filters), bindings=tuple(inner.bindings))


def _besides(a: Attribute, pattern: Pattern, columns: Sequence[Column], schema: Schema, language: str) -> Query | None:
    """The one column of *pattern*, and the values of *a* in it, too."""
    if len(columns) != 1 or columns[0].aggregate is not None:
        return None
    other = Patterns(schema, language)
    node = other.name(schema.classes[a.subject_class].words[0])
    other.triples.append(other.type_triple(node, a.subject_class))
    found = other.shown(node, a)
    var = columns[0].var
    triples = tuple(replace(t, object=var) if t.object == found else t for t in other.triples)
    filters = tuple(replace(f, var=var) if f.var == found else f for f in other.filters)
    return Query(Pattern(either=(pattern, Pattern(triples, filters))), (Column(var),), is_distinct=True)


def _repeat(plan: Plan, tree: Tree, p: Patterns, nodes: Sequence[str]) -> None:
    """Add a second copy of the pattern for ``plan.also``, which shares what is asked for: "both A and B"."""
    condition = plan.also[0]
    goal = tree.find(condition.attribute.subject_class)
    root = tree.find(owner(plan.shown[0].term)) or 0 if plan.shown else 0
    if goal is not None and goal != root and not plan.shares_value:
        # Keep the entity, walk anew from it to the other value.
        end = _copy_walk(tree, root, goal, nodes[root], p)
        if end is not None:
            p.constrain(end, condition)
        return
    # Another entity with the same shown attribute.
    other = p.name(p.schema.classes[tree.nodes[root]].words[0])
    p.triples.append(p.type_triple(other, tree.nodes[root]))
    end = other if goal is None or goal == root else _copy_walk(tree, root, goal, other, p)
    if end is None:
        return
    for shown in plan.shown:
        if isinstance(shown.term, Attribute) and shown.term.subject_class == tree.nodes[root] and not shown.term.operator:
            var = p.attribute(nodes[root], shown.term)
            here = other
            for property_ in shown.term.path[:-1]:
                between = p.name("node")
                p.triples.append(Triple(here, property_, between))
                here = between
            p.triples.append(Triple(here, shown.term.path[-1], var))
    p.constrain(end, condition)


def _copy_walk(tree: Tree, root: int, goal: int, start: str, p: Patterns) -> str | None:
    """Add the edges between nodes *root* and *goal* again, from variable *start* on; the variable they end in.

    None where neither is above the other in the tree.
    """
    parents = {b.target: b for b in tree.branches}

    def above(node: int, end: int) -> list[Branch] | None:
        chain = []
        while node != end:
            if node not in parents:
                return None
            chain.append(parents[node])
            node = parents[node].source
        return chain

    down = above(goal, root)
    walk = [(b, False) for b in reversed(down)] if down is not None else [(b, True) for b in above(root, goal) or ()]
    if not walk:
        return None
    var = start
    for branch, is_upward in walk:
        nxt = p.name(p.schema.classes[branch.step.source if is_upward else branch.step.target].words[0])
        s, o = (nxt, var) if branch.step.is_inverse != is_upward else (var, nxt)
        p.triples.append(Triple(s, branch.step.edge.property, o))
        var = nxt
    return var
