"""A graph pattern under construction: join trees, attributes and conditions become triples and filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from proxy.nl.ir import Aggregate, Binding, Column, Filter, Operator, Pattern, Query, Triple, variable_name
from proxy.nl.plan import Condition
from proxy.nl.schema import SELF, Attribute, Schema
from proxy.nl.tree import Tree
from proxy.query.term import XSD, Iri, Literal


@dataclass(slots=True)
class Patterns:
    """A pattern under construction; hands out variable names and remembers which attribute of which node has which."""

    schema: Schema
    language: str = "en"
    names: set[str] = field(default_factory=set)
    nodes: list[str] = field(default_factory=list)
    triples: list[Triple] = field(default_factory=list)
    filters: list[Filter] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    optional: list[Pattern] = field(default_factory=list)
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
            if not self.schema.reaches_only_target(branch.step):
                self.triples.append(self.type_triple(target, branch.step.target))
        return variables

    def attribute(self, node: str, a: Attribute) -> str:
        """The variable that holds *a* of the node with variable *node*."""
        known = self.values.get((node, a.path))
        if known is not None:
            return known
        if a.operator:
            operands = tuple(self.attribute(node, part) for part in a.parts)
            var = self.name(a.words[0])
            self.values[node, a.path] = var
            self.bindings.append(Binding(var, a.operator, operands, tuple(p.is_text_number for p in a.parts)))
            return var
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

    def shown_if_any(self, node: str, a: Attribute) -> str:
        """As ``shown``, without asking for it: by OPTIONAL, unless the attribute is in the pattern already."""
        if (node, a.path) in self.values:
            return self.shown(node, a)
        part = Patterns(self.schema, self.language, self.names)
        var = part.shown(node, a)
        self.values[node, a.path] = var
        self.optional.append(Pattern(tuple(part.triples), tuple(part.filters), bindings=tuple(part.bindings)))
        return var

    def reached(self, node: str, a: Attribute) -> str:
        """The variable of the node that has *a*'s last property: *node* itself, or what the path leads to."""
        if len(a.path) < 2:
            return node
        return self.attribute(node, replace(a, path=a.path[:-1], words=(f"{a.words[0]} node",), operator="", parts=()))

    def shown(self, node: str, a: Attribute) -> str:
        """As ``attribute``, and in one language where every instance has it in several."""
        var = self.attribute(node, a)
        if (language := self.schema.language_of(a, self.language)) is not None:
            one = Filter(var, Operator.LANGUAGE, (Literal(language),))
            if one not in self.filters:
                self.filters.append(one)
        return var

    def constrain_any(self, conditions: Sequence[tuple[str, Condition]]) -> tuple[Pattern, ...] | None:
        """Require one of *conditions*, each with its node: by one FILTER where all of them have their attribute, else by the
        patterns of a UNION, which are returned. None: one of them cannot be said so."""
        if not conditions:
            return ()
        parts: list[Patterns] = []
        for node, c in conditions:
            part = Patterns(self.schema, self.language, set(self.names))
            part.constrain(node, c)
            self.names |= part.names
            parts.append(part)
        nodes = {node for node, _ in conditions}
        is_total = all(c.attribute.count >= self.schema.classes[c.attribute.subject_class].instances for _, c in conditions)
        if len(nodes) == 1 and not is_total:
            return tuple(Pattern(tuple(p.triples), tuple(p.filters), bindings=tuple(p.bindings)) for p in parts)
        found: Filter | None = None
        for node, c in reversed(conditions):
            var = self.attribute(node, c.attribute)
            values = c.literals or tuple(number_literal(n) for n in c.numbers)
            if c.periods:
                bounds = c.periods[0].bounds(c.operator, c.attribute.datatype, c.periods[-1])
                if len(bounds) != 1:
                    return None
                values = (bounds[0][1],)
                c = replace(c, operator=bounds[0][0])
            if c.against is not None or c.otherwise is not None or not values or (c.attribute.is_temporal and c.numbers):
                return None
            found = Filter(
                var, c.operator, values, is_text_number=c.attribute.is_text_number and bool(c.numbers), otherwise=found
            )
        self.filters += [found] if found is not None else []
        return ()

    def constrain(self, node: str, c: Condition) -> None:
        """Add a condition: a plain equality goes into the triple, the rest into a FILTER."""
        a = c.attribute
        if a.path == (SELF,):
            self.filters.append(Filter(node, Operator.IN if len(c.literals) > 1 else Operator.EQUAL, _iris(c)))
            return
        if c.operator is Operator.EQUAL and len(c.literals) == 1 and len(a.path) == 1 and not c.against:
            self.triples.append(Triple(node, a.path[0], c.literals[0]))
            return
        var = self.attribute(node, a)
        if c.operator is Operator.PRESENT:
            return
        if c.otherwise is not None:
            first, other = (
                Filter(var, x.operator, tuple(number_literal(n) for n in x.numbers), is_text_number=a.is_text_number)
                for x in (c, c.otherwise)
            )
            self.filters.append(replace(first, otherwise=other))
            return
        if c.against is not None:
            self.filters.append(
                Filter(var, c.operator, against=_over_all(self.schema, a, c.against, c.within), is_text_number=a.is_text_number)
            )
            return
        if c.literals:
            self.filters.append(Filter(var, c.operator, c.literals))
            return
        if c.periods:
            bounds = c.periods[0].bounds(c.operator, a.datatype, c.periods[-1])
            self.filters += [Filter(var, operator, (literal,)) for operator, literal in bounds]
            return
        if a.is_temporal and all(float(n).is_integer() and 1000 <= n <= 2999 for n in c.numbers):
            self.filters.extend(_years(var, a, c.operator, [int(n) for n in c.numbers]))
            return
        self.filters.append(
            Filter(var, c.operator, tuple(number_literal(n) for n in c.numbers), is_text_number=a.is_text_number)
        )


def _iris(c: Condition) -> tuple[Iri, ...]:
    return tuple(Iri(x.lexical) for x in c.literals)


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


def _over_all(schema: Schema, a: Attribute, aggregate: Aggregate, within: Sequence[Condition] = ()) -> Query:
    inner = Patterns(schema)
    node = inner.name("any " + schema.classes[a.subject_class].words[0])
    inner.triples.append(inner.type_triple(node, a.subject_class))
    inner.names.add(variable_name(a.words[0]))
    var = inner.attribute(node, replace(a, words=("any " + a.words[0],)))
    for c in within:
        inner.constrain(node, replace(c, attribute=replace(c.attribute, words=("any " + c.attribute.words[0],))))
    pattern = Pattern(tuple(inner.triples), tuple(inner.filters), bindings=tuple(inner.bindings))
    return Query(pattern, (Column(var, aggregate, is_text_number=a.is_text_number),))
