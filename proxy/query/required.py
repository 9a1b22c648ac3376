"""Which conditions every solution of a query must meet (docs/validation.md has the table of rules, one line each).

The result is a disjunction of conjunctions: a solution meets every condition of at least one *alternative*. Where a rule is
unsure, or a bound is reached, conditions are dropped, never added: fewer conditions can only lose a proof.

Variables are renamed apart (``x#1``) where an inner one is not the outer one: non-projected variables of a sub-query, and
variables of EXISTS that its own group does not certainly bind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from proxy.query.conditions import (
    ANYTHING,
    MAX_PARTS,
    MAX_PATH_STEPS,
    MAX_PATTERNS,
    TOO_MANY_PATTERNS,
    Alternatives,
    Condition,
    Edge,
    GroupSize,
    Impossible,
    OneOf,
    Part,
    Place,
    Same,
    both,
    certain,
    either,
)
from proxy.query.effort import reach
from proxy.query.filters import condition_of, is_known, never_of_a_group, rename_condition
from proxy.query.grouping import bound_of_some, group_size
from proxy.query.magic import LIST_PROPERTIES, is_magic
from proxy.query.model import (
    NOWHERE,
    AlternativePath,
    And,
    BasicGraphPattern,
    Bind,
    Exists,
    Expression,
    Filter,
    GraphPattern,
    Group,
    InlineData,
    InversePath,
    Lateral,
    Minus,
    NegatedPropertySet,
    OneOrMorePath,
    Optional,
    Or,
    ParsedQuery,
    Projection,
    PropertyPath,
    SequencePath,
    Service,
    Span,
    SubSelect,
    TriplePattern,
    TripleTerm,
    Union,
    ZeroOrMorePath,
    ZeroOrOnePath,
    is_relative,
    walk,
)
from proxy.query.term import Iri, Literal, Variable

Rename = Callable[[Variable], Variable]


class _Reader:
    """Walks one query; depth is bounded by the parser's."""

    def __init__(self, *, reads_index: bool, covers_named_graphs: bool, has_magic: bool) -> None:
        self._reads_index = reads_index
        self._covers_named_graphs = covers_named_graphs
        self._graph: Iri | Variable | None = None
        self._has_magic = has_magic
        self._fresh = 0
        self._path_steps = 0
        self.parts: list[Part] = []

    def fresh(self, name: str) -> Variable:
        self._fresh += 1
        return Variable(f"{name}#{self._fresh}")

    def apart(self, keep: Callable[[Variable], Variable | None]) -> Rename:
        """A renaming that asks *keep* first and gives every other variable one fresh name."""
        names: dict[Variable, Variable] = {}

        def rename(v: Variable) -> Variable:
            kept = keep(v)
            if kept is not None:
                return kept
            if v not in names:
                names[v] = self.fresh(v.name)
            return names[v]

        return rename

    # -- queries

    def query(self, query: ParsedQuery, rename: Rename) -> Alternatives:
        """What a row of *query* means; a top query shares all its variables with itself."""
        if query.limit == 0:
            return ((Impossible("limit-zero", NOWHERE),),)
        if query.where is None or query.is_aggregate_without_group_by:
            # one row always, whatever is inside
            return ANYTHING
        where = self.group(query.where, rename)
        return both([where, *self.modifiers(query, rename, where)])

    def modifiers(self, query: ParsedQuery, rename: Rename, where: Alternatives) -> list[Alternatives]:
        """What the clauses behind WHERE require of its solutions, of which *where* is known."""
        found: list[Alternatives] = []
        if query.values is not None:
            if not query.group_by:
                found.append(self.values(query.values, rename))
            elif not query.values.rows:
                found.append(((Impossible("no-values", query.values.span),),))
        if query.group_by:
            bound = certain(where)
            if (some := bound_of_some(query, lambda v: rename(v) in bound)) is not None:
                found.append(rename_condition(some, rename(some.variable)))
            if self._reads_index and self._graph is None and not self._has_magic and (size := group_size(query)) is not None:
                found.append(((size,),))
            # a group has the key that all its solutions have; other variables do not outlive the grouping
            keys = {c.expression for c in query.group_by if isinstance(c.expression, Variable) and c.variable is None}
            aliases = {p.variable for p in query.projection if p.expression is not None}
            grouped = self.apart(lambda v: rename(v) if v in keys and v not in aliases else None)
            for expression in query.having:
                if never_of_a_group(expression):
                    found.append(((Impossible("having-never", NOWHERE),),))
                elif not any(isinstance(n, Exists) for n in walk(expression)):
                    found.append(self.filter(expression, NOWHERE, frozenset(), grouped))
        return found

    def sub_select(self, query: ParsedQuery, rename: Rename) -> Alternatives:
        computed = {p.variable for p in query.projection if p.expression is not None}
        shared = {p.variable for p in query.projection} - computed
        if query.group_by:
            shared &= {c.expression for c in query.group_by if isinstance(c.expression, Variable) and c.variable is None}
        is_star = query.is_star and not query.group_by

        def keep(v: Variable) -> Variable | None:
            return rename(v) if v in shared or (is_star and not v.is_blank) else None

        return self.query(query, self.apart(keep))

    # -- groups

    def group(self, group: Group, rename: Rename) -> Alternatives:
        found: list[Alternatives] = []
        sure: set[Variable] = set()
        seen = 0
        filters: list[Filter] = []
        later: list[tuple[str, Group, int, Alternatives | None]] = []
        for element in group.elements:
            match element:
                case BasicGraphPattern(patterns):
                    found += self.basic(patterns, rename)
                case Group():
                    found.append(self.group(element, rename))
                case Union(branches):
                    read = [self.group(b, rename) for b in branches]
                    later += [("union", b, len(found), r) for b, r in zip(branches, read, strict=True)]
                    found.append(either(read))
                case Optional(inner):
                    later.append(("optional", inner, -1, None))
                case Minus(inner):
                    later.append(("minus", inner, -1, None))
                case Filter():
                    filters.append(element)
                case Bind():
                    sure.update(v for part in found[seen:] for v in certain(part))
                    seen = len(found)
                    found.append(self.bind(element, sure, rename))
                case InlineData():
                    found.append(self.values(element, rename))
                case SubSelect(query):
                    found.append(self.sub_select(query, rename))
                case GraphPattern(name, inner):
                    found.append(self.graph(name, inner, rename))
                case Service() | Lateral():
                    pass
        bound = frozenset(v for part in found for v in certain(part)) if filters or later else frozenset()
        before = len(self.parts)
        conditions = [self.filter(f.expression, f.span, bound, rename) for f in filters]
        del self.parts[max(before, MAX_PARTS) :]
        for i in range(before, len(self.parts)):  # those of NOT EXISTS
            part = self.parts[i]
            self.parts[i] = Part(part.role, part.group, both([part.conditions, *(f for f in found if len(f) == 1)]))
        if later:
            self._read_parts(later, found, conditions, bound, rename)
        return both([*found, *conditions])

    def _read_parts(
        self,
        later: list[tuple[str, Group, int, Alternatives | None]],
        found: list[Alternatives],
        conditions: list[Alternatives],
        bound: frozenset[Variable],
        rename: Rename,
    ) -> None:
        # what is beside the part counts where it has one alternative: more would be multiplied for every part
        around = [(i, f) for i, f in enumerate([*found, *conditions]) if len(f) == 1]
        for role, inner, at, read in later:
            if len(self.parts) >= MAX_PARTS:
                reach(f"more than {MAX_PARTS} parts that may fail alone")
                return
            # a branch of a UNION is not read again: nested ones would be read 2 ** depth times
            whole = (
                read
                if read is not None
                else self.group(inner, self._inner(inner, bound, rename) if role == "minus" else rename)
            )
            self.parts.append(Part(role, inner, both([whole, *(f for i, f in around if i != at)])))

    def _inner(self, group: Group, bound: frozenset[Variable], rename: Rename) -> Rename:
        """For the variables inside EXISTS or MINUS: the outer ones where they are certainly bound.

        One that BIND, VALUES or AS gives a value inside is its own: substituting into these is not defined (Query, section
        18.6), and engines that do not join there find solutions.
        """
        assigned: set[Variable] = set()
        for n in walk(group):
            if isinstance(n, Bind) or (isinstance(n, Projection) and n.expression is not None):
                assigned.add(n.variable)
            elif isinstance(n, InlineData):
                assigned.update(n.variables)
        return self.apart(lambda v: r if (r := rename(v)) in bound and v not in assigned else None)

    def graph(self, name: Iri | Variable, inner: Group, rename: Rename) -> Alternatives:
        """GRAPH. Where the index covers the default graph only, what needs no data still counts."""
        reads, graph = self._reads_index, self._graph
        self._reads_index = reads and self._covers_named_graphs and not (isinstance(name, Iri) and is_relative(name))
        self._graph = rename(name) if isinstance(name, Variable) else name
        found = self.group(inner, rename)
        self._reads_index, self._graph = reads, graph
        return found

    # -- elements

    def values(self, data: InlineData, rename: Rename) -> Alternatives:
        if not data.rows:
            return ((Impossible("no-values", data.span),),)
        variables = [rename(v) for v in data.variables]
        if 1 < len(data.rows) <= 8 and len(variables) > 1:
            return either(
                (tuple(OneOf(v, (t,), data.span, by_term=True) for v, t in zip(variables, row, strict=True) if is_known(t)),)
                for row in data.rows
            )
        conditions: list[Condition] = []
        for i, v in enumerate(variables):
            column = dict.fromkeys(row[i] for row in data.rows)
            terms = tuple(t for t in column if is_known(t))
            if len(terms) == len(column):  # neither UNDEF nor a triple term
                conditions.append(OneOf(v, terms, data.span, by_term=True))
        return (tuple(conditions),)

    def bind(self, element: Bind, bound: Set[Variable], rename: Rename) -> Alternatives:
        v = rename(element.variable)
        match element.expression:
            case Iri() | Literal() as constant:
                return ((OneOf(v, (constant,), NOWHERE, by_term=True),),) if is_known(constant) else ANYTHING
            case Variable() as other:
                # an unbound one would leave v unbound, free to be bound by what follows
                renamed = rename(other)
                if renamed in bound:
                    return ((Same(v, renamed, NOWHERE),),)
        return ANYTHING

    def filter(self, expression: Expression, span: Span, bound: frozenset[Variable], rename: Rename) -> Alternatives:
        """What must hold where *expression* is true; an error counts as false."""
        match expression:
            case And(operands):
                return both([self.filter(e, span, bound, rename) for e in operands])
            case Or(operands):
                return either(self.filter(e, span, bound, rename) for e in operands)
            case Exists(group, False):
                parts = len(self.parts)
                found = self.group(group, self._inner(group, bound, rename))
                del self.parts[parts:]
                return found
            case Exists(group, True):
                parts = len(self.parts)
                found = self.group(group, self._inner(group, bound, rename))
                self.parts[parts:] = [Part("not-exists", group, found)]
                return ANYTHING
        condition = condition_of(expression, span)
        if condition is None:
            return ANYTHING
        if isinstance(condition, Impossible | Edge | Same | GroupSize):
            return ((condition,),)
        return rename_condition(condition, rename(condition.variable))

    # -- triples and paths

    def basic(self, patterns: Sequence[TriplePattern], rename: Rename) -> list[Alternatives]:
        if not self._reads_index:
            return []
        simple: list[Condition] = []
        found: list[Alternatives] = []
        for t in patterns:
            if isinstance(t.subject, TripleTerm) or isinstance(t.object, TripleTerm):
                continue
            s, o = self._term(t.subject, rename), self._term(t.object, rename)
            if isinstance(t.predicate, Variable):
                if not self._is_opaque(s, o):
                    simple.append(Edge(s, rename(t.predicate), o, t, self._graph))
            elif isinstance(t.predicate, Iri):
                if not self._is_opaque(s, t.predicate, o):
                    simple.append(Edge(s, t.predicate, o, t, self._graph))
            else:
                found.append(self.path(s, t.predicate, o, t))
        if simple:
            if len(simple) > MAX_PATTERNS:
                reach(TOO_MANY_PATTERNS)
            found.append((tuple(simple[:MAX_PATTERNS]),))
        return found

    def _term(self, term: Place, rename: Rename) -> Place:
        return rename(term) if isinstance(term, Variable) else term

    def _is_opaque(self, *terms: Place) -> bool:
        """Whether a pattern with these says nothing about stored triples."""
        for term in terms:
            if isinstance(term, Iri):
                if is_magic(term) or is_relative(term):
                    return True
                if self._has_magic and term.value in LIST_PROPERTIES:
                    return True
        return False

    def path(self, s: Place, path: PropertyPath, o: Place, t: TriplePattern) -> Alternatives:
        # ends of ``+`` are read twice, so that nested ones would be read 2 ** depth times
        self._path_steps += 1
        if self._path_steps > MAX_PATH_STEPS:
            reach(f"more than {MAX_PATH_STEPS:,} steps of property paths")
            return ANYTHING
        if self._is_opaque(s, o):
            return ANYTHING
        match path:
            case Iri():
                return ANYTHING if self._is_opaque(path) else ((Edge(s, path, o, t, self._graph),),)
            case InversePath(inner):
                return self.path(o, inner, s, t)
            case SequencePath(steps):
                places = [s, *(self.fresh("via") for _ in steps[1:]), o]
                return both([self.path(a, step, b, t) for a, step, b in zip(places, steps, places[1:], strict=False)])
            case AlternativePath(choices):
                return either(self.path(s, c, o, t) for c in choices)
            case OneOrMorePath(OneOrMorePath() as inner) | ZeroOrMorePath(ZeroOrMorePath() as inner):
                return self.path(s, inner, o, t)
            case OneOrMorePath(ZeroOrMorePath(inner) | ZeroOrOnePath(inner)):
                return self.path(s, ZeroOrMorePath(inner), o, t)
            case ZeroOrMorePath(OneOrMorePath(inner) | ZeroOrOnePath(inner)):
                return self.path(s, ZeroOrMorePath(inner), o, t)
            case ZeroOrOnePath(ZeroOrMorePath() | ZeroOrOnePath() as inner):
                return self.path(s, inner, o, t)
            case OneOrMorePath(inner):
                # the first step leaves s and the last one reaches o; in between there may be any number
                return both([self.path(s, inner, self.fresh("via"), t), self.path(self.fresh("via"), inner, o, t)])
            case ZeroOrMorePath(inner):
                return either((((Same(s, o, t.span),),), self.path(s, OneOrMorePath(inner), o, t)))
            case ZeroOrOnePath(inner):
                return either((((Same(s, o, t.span),),), self.path(s, inner, o, t)))
            case NegatedPropertySet(forward, inverse):
                any_way: list[Alternatives] = []
                if forward or not inverse:
                    any_way.append(((Edge(s, None, o, t, self._graph),),))
                if inverse:
                    any_way.append(((Edge(o, None, s, t, self._graph),),))
                return either(any_way)


@dataclass(frozen=True, slots=True)
class Required:
    """What every row of the WHERE of a query must meet, and the parts that may fail alone.

    reads_index: False where the index says nothing about the graphs that the query reads.
    """

    alternatives: Alternatives
    parts: tuple[Part, ...]
    reads_index: bool


def required(query: ParsedQuery, *, reads_index: bool = True, covers_named_graphs: bool = False) -> Required:
    """Reduce *query* to the conditions that every solution of its pattern must meet.

    For a query that aggregates without GROUP BY these are conditions of the *inside*: where they cannot be met there is
    still one row.

    Args:
        reads_index: False: conditions on triples do not count, because the query reads graphs that nobody has indexed.
        covers_named_graphs: whether patterns inside GRAPH count too (``SupportIndex.covers_named_graphs``).
    """
    has_magic = any(is_magic(n) for n in query.nodes if type(n) is Iri)
    reader = _Reader(reads_index=reads_index, covers_named_graphs=covers_named_graphs, has_magic=has_magic)
    if query.where is None:
        return Required(ANYTHING, (), reads_index)
    where = reader.group(query.where, lambda v: v)
    found = [where, *reader.modifiers(query, lambda v: v, where)]
    if query.limit == 0:
        found.append(((Impossible("limit-zero", NOWHERE),),))
    return Required(both(found), tuple(reader.parts), reads_index)
