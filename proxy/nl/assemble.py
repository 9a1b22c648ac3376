"""From a plan (which terms play which part) and a join tree to a query graph, with its words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from proxy.nl.ir import Aggregate, Column, Filter, Having, Operator, Pattern, Query, Triple, variable_name
from proxy.nl.schema import Attribute, ClassTerm, Schema
from proxy.nl.tree import Branch, Tree
from proxy.query.term import XSD, Iri, Literal


@dataclass(frozen=True, slots=True)
class Shown:
    """One thing the answer shows: an attribute, or a class (its instances, or their number)."""

    term: Attribute | ClassTerm
    aggregate: Aggregate | None = None
    is_distinct: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """*attribute* compared with *literals* (or numbers), or with an aggregate of itself over all instances."""

    attribute: Attribute
    operator: Operator
    literals: tuple[Literal, ...] = ()
    numbers: tuple[float, ...] = ()
    against: Aggregate | None = None


@dataclass(frozen=True, slots=True)
class CountCondition:
    """The number of *term*'s instances (None: of solutions), or *aggregate* of an attribute, compared with *number*."""

    term: ClassTerm | Attribute | None
    operator: Operator
    number: float
    aggregate: Aggregate = Aggregate.COUNT


@dataclass(frozen=True, slots=True)
class Sorting:
    """By *term*: an attribute's value or *aggregate*; a class's number of instances; None: the number of solutions."""

    term: Attribute | ClassTerm | None
    is_descending: bool
    limit: int | None
    aggregate: Aggregate | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """One reading of the whole question, before the classes are joined.

    also: conditions of a second, parallel pattern. shares_value: the two patterns share what is shown, not the entity.
    """

    shown: tuple[Shown, ...]
    conditions: tuple[Condition, ...] = ()
    also: tuple[Condition, ...] = ()
    counted: CountCondition | None = None
    sorting: Sorting | None = None
    group: Attribute | ClassTerm | None = None
    anchors: tuple[str, ...] = ()
    absent: tuple[Condition, ...] = ()
    absent_class: str | None = None
    is_distinct: bool = False
    is_ask: bool = False
    shares_value: bool = False

    def classes(self) -> list[str]:
        """Classes that the main pattern must hold, the one that is asked about first."""
        terms = [s.term for s in self.shown if s.aggregate is None] + [s.term for s in self.shown]
        if self.group is not None:
            terms.append(self.group)
        terms += [c.attribute for c in self.conditions]
        if self.counted is not None and self.counted.term is not None:
            terms.append(self.counted.term)
        if self.sorting is not None and self.sorting.term is not None:
            terms.append(self.sorting.term)
        found = [owner(t) for t in terms] + list(self.anchors)
        return list(dict.fromkeys(found))


def owner(term: Attribute | ClassTerm) -> str:
    """The class of a class term or of an attribute's subject."""
    return term.iri if isinstance(term, ClassTerm) else term.subject_class


@dataclass(slots=True)
class _Patterns:
    """A pattern under construction; hands out variable names and remembers which attribute of which node has which."""

    schema: Schema
    names: set[str] = field(default_factory=set)
    nodes: list[str] = field(default_factory=list)
    triples: list[Triple] = field(default_factory=list)
    filters: list[Filter] = field(default_factory=list)
    values: dict[tuple[str, tuple[str, ...]], str] = field(default_factory=dict)

    def name(self, words: str) -> str:
        base = variable_name(words)
        name, n = base, 2
        while name in self.names:
            name, n = f"{base}{n}", n + 1
        self.names.add(name)
        return name

    def type_triple(self, var: str, class_: str) -> Triple:
        return Triple(var, self.schema.index.class_predicate, Iri(class_))

    def add_tree(self, tree: Tree, *, first: str | None = None) -> list[str]:
        """Variables of the tree's nodes; *first* is the variable of its root, where it has one already."""
        variables = [first or self.name(self.schema.classes[tree.nodes[0]].words[0])]
        if first is None:
            self.triples.append(self.type_triple(variables[0], tree.nodes[0]))
        for branch in tree.branches:
            target = self.name(self.schema.classes[branch.step.target].words[0])
            variables.append(target)
            source = variables[branch.source]
            edge = branch.step.edge
            s, o = (target, source) if branch.step.is_inverse else (source, target)
            self.triples.append(Triple(s, edge.property, o))
            if self._is_ambiguous(branch.step.source, edge.property, is_inverse=branch.step.is_inverse):
                self.triples.append(self.type_triple(target, branch.step.target))
        return variables

    def _is_ambiguous(self, source: str, property_: str, *, is_inverse: bool) -> bool:
        """Whether the property leads from *source* to nodes of several classes, so that the class must be said."""
        others = {
            (e.subject_class if is_inverse else e.object_class)
            for e in self.schema.edges
            if e.property == property_ and (e.object_class if is_inverse else e.subject_class) == source
        }
        return len(others) > 1

    def attribute(self, node: str, a: Attribute) -> str:
        """The variable that holds *a* of the node with variable *node*."""
        known = self.values.get((node, a.path))
        if known is not None:
            return known
        here = node
        for p in a.path[:-1]:
            step = self.values.get((node, (p,)))
            if step is None:
                step = self.name(f"{a.words[0]} node")
                self.values[node, (p,)] = step
                self.triples.append(Triple(here, p, step))
            here = step
        var = self.name(a.words[0])
        self.values[node, a.path] = var
        self.triples.append(Triple(here, a.path[-1], var))
        return var

    def shown(self, node: str, a: Attribute) -> str:
        """As ``attribute``, and in one language where every instance has it in several."""
        var = self.attribute(node, a)
        if (language := self.schema.language_of(a)) is not None:
            one = Filter(var, Operator.LANGUAGE, (Literal(language),))
            if one not in self.filters:
                self.filters.append(one)
        return var

    def constrain(self, node: str, c: Condition) -> None:
        """Add a condition: a plain equality goes into the triple, the rest into a FILTER."""
        a = c.attribute
        if c.operator is Operator.EQUAL and len(c.literals) == 1 and len(a.path) == 1 and not c.against:
            self.triples.append(Triple(node, a.path[0], c.literals[0]))
            return
        var = self.attribute(node, a)
        if c.against is not None:
            self.filters.append(
                Filter(var, c.operator, against=_over_all(self.schema, a, c.against), is_text_number=a.is_text_number)
            )
            return
        if c.literals:
            self.filters.append(Filter(var, c.operator, c.literals))
            return
        if a.is_temporal and all(float(n).is_integer() and 1000 <= n <= 2999 for n in c.numbers):
            self.filters.extend(_years(var, a, c.operator, [int(n) for n in c.numbers]))
            return
        self.filters.append(
            Filter(var, c.operator, tuple(number_literal(n) for n in c.numbers), is_text_number=a.is_text_number)
        )


def number_literal(number: float) -> Literal:
    if float(number).is_integer():
        return Literal(str(int(number)), XSD + "integer")
    return Literal(repr(float(number)), XSD + "decimal")


def _years(var: str, a: Attribute, operator: Operator, years: Sequence[int]) -> list[Filter]:
    """A year compared with dates: from its first day, to before the next one's."""

    def day(year: int) -> Literal:
        if a.datatype == XSD + "gYear":
            return Literal(str(year), a.datatype)
        return Literal(f"{year}-01-01" + ("T00:00:00" if a.datatype == XSD + "dateTime" else ""), a.datatype)

    first, last = years[0], years[-1]
    match operator:
        case Operator.GREATER:
            return [Filter(var, Operator.AT_LEAST, (day(first + 1),))]
        case Operator.AT_LEAST:
            return [Filter(var, Operator.AT_LEAST, (day(first),))]
        case Operator.LESS:
            return [Filter(var, Operator.LESS, (day(first),))]
        case Operator.AT_MOST:
            return [Filter(var, Operator.LESS, (day(first + 1),))]
        case _:
            return [Filter(var, Operator.AT_LEAST, (day(first),)), Filter(var, Operator.LESS, (day(last + 1),))]


def _over_all(schema: Schema, a: Attribute, aggregate: Aggregate) -> Query:
    inner = _Patterns(schema)
    node = inner.name("any " + schema.classes[a.subject_class].words[0])
    inner.triples.append(inner.type_triple(node, a.subject_class))
    inner.names.add(variable_name(a.words[0]))
    var = inner.attribute(node, replace(a, words=("any " + a.words[0],)))
    return Query(Pattern(tuple(inner.triples)), (Column(var, aggregate, is_text_number=a.is_text_number),))


def assemble(plan: Plan, tree: Tree, schema: Schema, *, absent_walk: Tree | None = None) -> Query | None:
    """The query of *plan* over *tree*. *absent_walk*: tree from the asked-about class to what must be absent.

    None: the plan makes no query (nothing to show).
    """
    p = _Patterns(schema)
    nodes = p.add_tree(tree)

    def node(class_: str) -> str:
        position = tree.find(class_)
        return nodes[position if position is not None else 0]

    for c in plan.conditions:
        p.constrain(node(c.attribute.subject_class), c)
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
            if s.aggregate is None and name is not None:
                columns.append(Column(p.shown(var, name)))
                if needs_group:
                    group_by += [var, columns[-1].var]
                continue
            columns.append(Column(var, s.aggregate, s.is_distinct))
        else:
            a = s.term
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
    if _counts_itself(plan, tree, schema):
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
    if plan.absent or plan.absent_class is not None:
        absent.append(_absent(plan, absent_walk, p, node(plan.classes()[0]), node))
    if plan.also:
        _repeat(plan, tree, p, nodes)
    pattern = Pattern(tuple(p.triples), tuple(p.filters), tuple(absent))
    if plan.is_ask:
        return Query(pattern, is_ask=True)
    is_distinct = (plan.is_distinct or bool(plan.also)) and not aggregated
    has_joins = any(b.step.is_inverse for b in tree.branches)
    if not needs_group and not aggregated and has_joins and not order:
        is_distinct = True
    return Query(pattern, tuple(columns), tuple(dict.fromkeys(group_by)), having, tuple(order), limit, is_distinct)


def _counts_itself(plan: Plan, tree: Tree, schema: Schema) -> bool:
    """Whether instances are sorted by how many of them there are, one by one: always 1."""
    s = plan.sorting
    if s is None or isinstance(s.term, Attribute) or len(tree.nodes) > 1:
        return False
    terms = [x.term for x in plan.shown if x.aggregate is None] + ([plan.group] if plan.group is not None else [])
    return any(isinstance(t, ClassTerm) or t == schema.name_of(t.subject_class) or schema.is_unique(t) for t in terms)


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


def _absent(plan: Plan, walk: Tree | None, p: _Patterns, subject: str, node: object) -> Pattern:
    inner = _Patterns(p.schema, set(p.names))
    variables = inner.add_tree(walk, first=subject) if walk is not None else [subject]
    classes = walk.nodes if walk is not None else ()
    for c in plan.absent:
        position = classes.index(c.attribute.subject_class) if c.attribute.subject_class in classes else 0
        inner.constrain(variables[position], c)
    p.names |= inner.names
    return Pattern(tuple(inner.triples), tuple(inner.filters))


def _repeat(plan: Plan, tree: Tree, p: _Patterns, nodes: Sequence[str]) -> None:
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
        if isinstance(shown.term, Attribute) and shown.term.subject_class == tree.nodes[root]:
            var = p.attribute(nodes[root], shown.term)
            here = other
            for property_ in shown.term.path[:-1]:
                between = p.name("node")
                p.triples.append(Triple(here, property_, between))
                here = between
            p.triples.append(Triple(here, shown.term.path[-1], var))
    p.constrain(end, condition)


def _copy_walk(tree: Tree, root: int, goal: int, start: str, p: _Patterns) -> str | None:
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


def verbalise(plan: Plan, schema: Schema) -> str:
    """*plan* in plain words, for people and for the encoder."""

    def words(term: Attribute | ClassTerm) -> str:
        return term.words[0]

    shown = []
    for s in plan.shown:
        text = words(s.term)
        if s.aggregate is Aggregate.COUNT:
            text = f"number of {'different ' if s.is_distinct else ''}{text}"
        elif s.aggregate is not None:
            text = f"{_SPOKEN[s.aggregate]} {text}"
        elif isinstance(s.term, ClassTerm):
            text = f"{text}"
        shown.append(text)
    subject = schema.classes[plan.classes()[0]].words[0] if plan.classes() else ""
    parts = [" and ".join(shown)]
    if plan.is_ask:
        parts = [f"is there a {subject}"]
    elif subject and any(isinstance(s.term, Attribute) for s in plan.shown):
        parts.append(f"of {subject}")
    named = {subject}
    for anchor in plan.anchors:
        anchor_words = schema.classes[anchor].words[0]
        if anchor_words not in named:
            parts.append(f"with {anchor_words}")
            named.add(anchor_words)
    for c in (*plan.conditions, *plan.also):
        parts.append(("and " if len(parts) > 2 else "") + _condition(c, schema, subject))
    if plan.counted is not None:
        what = words(plan.counted.term) if plan.counted.term is not None else "them"
        spoken = "" if plan.counted.aggregate is Aggregate.COUNT else f"{_SPOKEN[plan.counted.aggregate]} "
        parts.append(f"with {spoken}{_COMPARED[plan.counted.operator]} {plan.counted.number:g} {what}")
    if plan.absent_class is not None or plan.absent:
        what = schema.classes[plan.absent_class].words[0] if plan.absent_class else ""
        parts.append("without " + what + " ".join(_condition(c, schema, subject) for c in plan.absent))
    if plan.group is not None:
        parts.append(f"for each {words(plan.group)}")
    if plan.sorting is not None:
        s_ = plan.sorting
        what = "of them" if s_.term is None else words(s_.term)
        if s_.limit is None:
            number = "" if isinstance(s_.term, Attribute) else "number of "
            parts.append(f"sorted by {number}{what}{' descending' if s_.is_descending else ''}")
        elif isinstance(s_.term, Attribute):
            spoken = _SPOKEN[s_.aggregate] if s_.aggregate is not None else ""
            parts.append(f"with the {'highest' if s_.is_descending else 'lowest'} {spoken} {what}")
        else:
            parts.append(f"with the {'most' if s_.is_descending else 'fewest'} {what}")
        if s_.limit is not None and s_.limit > 1:
            parts.append(f"top {s_.limit}")
    return " ".join(" ".join(parts).split())


_SPOKEN = {
    Aggregate.AVG: "average",
    Aggregate.SUM: "total",
    Aggregate.MIN: "minimum",
    Aggregate.MAX: "maximum",
    Aggregate.COUNT: "number of",
}
_COMPARED = {
    Operator.GREATER: "more than", Operator.AT_LEAST: "at least", Operator.LESS: "less than", Operator.AT_MOST: "at most",
    Operator.EQUAL: "exactly", Operator.NOT_EQUAL: "not", Operator.BETWEEN: "between", Operator.IN: "one of",
    Operator.CONTAINS: "containing", Operator.STARTS: "starting with", Operator.ENDS: "ending with",
}  # fmt: skip


def _condition(c: Condition, schema: Schema, subject: str) -> str:
    owner_words = schema.classes[c.attribute.subject_class].words[0]
    name = c.attribute.words[0] if owner_words == subject else f"{owner_words} {c.attribute.words[0]}"
    if c.against is not None:
        return f"with {name} {_COMPARED[c.operator]} the {_SPOKEN[c.against]}"
    values = " or ".join([x.lexical for x in c.literals] or [f"{n:g}" for n in c.numbers])
    joint = "" if c.operator in (Operator.EQUAL, Operator.IN) else f"{_COMPARED[c.operator]} "
    return f"with {name} {joint}{values}"
