"""What a query or an update says, in the words of SPARQL 1.1 (Query, sections 18.2 and 19; Update, section 3).

Frozen values, made by ``parse.py`` and read by everybody else. They are the *abstract syntax*: groups keep the order and
nesting of the text, because the scope of a FILTER or of a variable depends on it. ``walk`` reaches every node without
recursion, so policy and plugins need none. Blank nodes of the text are variables named ``_:label``; ``[…]`` and ``(…)`` are
the triples they stand for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from proxy.query.operation import DatasetDescription
from proxy.query.term import XSD, Iri, Literal, Variable


@dataclass(frozen=True, slots=True)
class TripleTerm:
    """``<<( s p o )>>`` of RDF 1.2, as a pattern. Reified triples and annotations are read as what they stand for."""

    subject: Term
    predicate: Iri | Variable
    object: Term


Term = Iri | Literal | Variable | TripleTerm
"""What may stand in a triple pattern. An ``Iri`` without a scheme is relative: there is no BASE, nothing is known of it."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where something stands. offset: characters from 0. line, column: from 1. text: as written (cut when very long)."""

    offset: int
    line: int
    column: int
    text: str


NOWHERE = Span(0, 1, 1, "")
"""The span of what no author wrote."""


# -- property paths (Query, section 9.1)


@dataclass(frozen=True, slots=True)
class InversePath:
    path: PropertyPath


@dataclass(frozen=True, slots=True)
class SequencePath:
    paths: tuple[PropertyPath, ...]


@dataclass(frozen=True, slots=True)
class AlternativePath:
    paths: tuple[PropertyPath, ...]


@dataclass(frozen=True, slots=True)
class ZeroOrMorePath:
    path: PropertyPath


@dataclass(frozen=True, slots=True)
class OneOrMorePath:
    path: PropertyPath


@dataclass(frozen=True, slots=True)
class ZeroOrOnePath:
    path: PropertyPath


@dataclass(frozen=True, slots=True)
class NegatedPropertySet:
    """``!(p|^q)``: *forward* holds p, *inverse* holds q."""

    forward: tuple[Iri, ...]
    inverse: tuple[Iri, ...]


PropertyPath = (
    Iri | InversePath | SequencePath | AlternativePath | ZeroOrMorePath | OneOrMorePath | ZeroOrOnePath | NegatedPropertySet
)


# -- graph patterns


@dataclass(frozen=True, slots=True)
class TriplePattern:
    """A triple pattern, or a property path pattern when *predicate* is a path."""

    subject: Term
    predicate: Variable | PropertyPath
    object: Term
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class BasicGraphPattern:
    """Adjacent triple patterns; a FILTER between two of them does not part them (Query, section 5.1.1)."""

    patterns: tuple[TriplePattern, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A group graph pattern, ``{ … }``: its elements in order. A group that is only a sub-query holds one SubSelect."""

    elements: tuple[Element, ...]


@dataclass(frozen=True, slots=True)
class Optional:
    group: Group


@dataclass(frozen=True, slots=True)
class Union:
    """Two or more alternatives."""

    branches: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class Minus:
    group: Group


@dataclass(frozen=True, slots=True)
class Filter:
    expression: Expression
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Bind:
    expression: Expression
    variable: Variable


@dataclass(frozen=True, slots=True)
class InlineData:
    """VALUES. ``None`` in a row is UNDEF."""

    variables: tuple[Variable, ...]
    rows: tuple[tuple[Iri | Literal | TripleTerm | None, ...], ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class GraphPattern:
    """``GRAPH name { … }``."""

    name: Iri | Variable
    group: Group


@dataclass(frozen=True, slots=True)
class Service:
    name: Iri | Variable
    is_silent: bool
    group: Group
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class SubSelect:
    query: ParsedQuery


@dataclass(frozen=True, slots=True)
class Lateral:
    """``LATERAL { … }``, evaluated once for every solution before it (SEP-0006 of the SPARQL 1.2 group; Jena, Oxigraph)."""

    group: Group


Element = (
    BasicGraphPattern
    | Group
    | Optional
    | Union
    | Minus
    | Filter
    | Bind
    | InlineData
    | GraphPattern
    | Service
    | SubSelect
    | Lateral
)


# -- expressions


@dataclass(frozen=True, slots=True)
class Or:
    """``||`` over two or more."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class And:
    """``&&`` over two or more."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Unary:
    """*operator*: ``!``, ``-`` or ``+``."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Comparison:
    """*operator*: one of ``= != < > <= >=``."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """A chain of one precedence, left to right: ``operands[0] operators[0] operands[1] …``; all ``+ -`` or all ``* /``."""

    operators: tuple[str, ...]
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class In:
    operand: Expression
    options: tuple[Expression, ...]
    is_negated: bool


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A built-in (*name* in capitals, as in the grammar) or a function named by an IRI."""

    name: str | Iri
    arguments: tuple[Expression, ...]
    is_distinct: bool = False


@dataclass(frozen=True, slots=True)
class Exists:
    group: Group
    is_negated: bool


@dataclass(frozen=True, slots=True)
class Aggregate:
    """*name* in capitals. *argument*: None is ``*``. *separator*: of GROUP_CONCAT, None if not written."""

    name: str
    argument: Expression | None
    is_distinct: bool = False
    separator: str | None = None


Expression = (
    Iri | Literal | Variable | TripleTerm | Or | And | Unary | Comparison | Arithmetic | In | FunctionCall | Exists | Aggregate
)


# -- queries


class QueryForm(StrEnum):
    __hash__ = str.__hash__  # not Enum's, which is a call in Python for each look in a table

    SELECT = "SELECT"
    ASK = "ASK"
    CONSTRUCT = "CONSTRUCT"
    DESCRIBE = "DESCRIBE"


@dataclass(frozen=True, slots=True)
class Projection:
    """One projected variable; *expression* for ``(expression AS ?variable)``."""

    variable: Variable
    expression: Expression | None = None


@dataclass(frozen=True, slots=True)
class GroupCondition:
    expression: Expression
    variable: Variable | None = None


@dataclass(frozen=True, slots=True)
class OrderCondition:
    expression: Expression
    is_descending: bool = False


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """One query, or one sub-query.

    projection: empty for ``SELECT *``, ASK, CONSTRUCT. describe: what DESCRIBE lists; empty for ``DESCRIBE *``.
    dataset: FROM and FROM NAMED; what the protocol names replaces it. where: None only for DESCRIBE without WHERE.
    values: the VALUES clause behind the solution modifiers. prefixes, base: as declared, for messages and rendering.
    """

    form: QueryForm
    projection: tuple[Projection, ...] = ()
    is_star: bool = False
    is_distinct: bool = False
    is_reduced: bool = False
    template: tuple[TriplePattern, ...] = ()
    describe: tuple[Iri | Variable, ...] = ()
    dataset: DatasetDescription = field(default_factory=DatasetDescription)
    where: Group | None = None
    group_by: tuple[GroupCondition, ...] = ()
    having: tuple[Expression, ...] = ()
    order_by: tuple[OrderCondition, ...] = ()
    limit: int | None = None
    offset: int | None = None
    values: InlineData | None = None
    prefixes: Mapping[str, str] = field(default_factory=dict, compare=False)
    base: str | None = field(default=None, compare=False)
    _nodes: tuple[Any, ...] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def nodes(self) -> tuple[Any, ...]:
        """Every node and term of it, as ``walk`` gives them: walked once, as several rules look at all of them."""
        found = self._nodes
        if found is None:
            found = tuple(walk(self))
            object.__setattr__(self, "_nodes", found)
        return found

    @property
    def is_aggregate_without_group_by(self) -> bool:
        """Whether all solutions form one group, so that there is exactly one row before HAVING (Query, section 18.2.4.1)."""
        if self.group_by:
            return False
        expressions = [p.expression for p in self.projection if p.expression is not None]
        if not (expressions or self.having or self.order_by):
            return False
        return any(holds_aggregate(e) for e in (*expressions, *self.having, *(o.expression for o in self.order_by))) or bool(
            self.having
        )


# -- updates


@dataclass(frozen=True, slots=True)
class QuadPattern:
    """Triple patterns of one graph; *graph* None is the default graph (or that of WITH)."""

    graph: Iri | Variable | None
    patterns: tuple[TriplePattern, ...]


@dataclass(frozen=True, slots=True)
class InsertData:
    quads: tuple[QuadPattern, ...]


@dataclass(frozen=True, slots=True)
class DeleteData:
    quads: tuple[QuadPattern, ...]


@dataclass(frozen=True, slots=True)
class DeleteWhere:
    quads: tuple[QuadPattern, ...]


@dataclass(frozen=True, slots=True)
class Modify:
    """DELETE/INSERT … WHERE. *with_graph*: WITH. *using*: USING and USING NAMED."""

    with_graph: Iri | None
    delete: tuple[QuadPattern, ...]
    insert: tuple[QuadPattern, ...]
    using: DatasetDescription
    where: Group


@dataclass(frozen=True, slots=True)
class Load:
    source: Iri
    into: Iri | None
    is_silent: bool


class GraphSet(StrEnum):
    """The graphs that CLEAR and DROP may name without an IRI."""

    DEFAULT = "DEFAULT"
    NAMED = "NAMED"
    ALL = "ALL"


@dataclass(frozen=True, slots=True)
class GraphManagement:
    """CLEAR, DROP, CREATE (*target*) and ADD, MOVE, COPY (*source* and *target*)."""

    name: str
    target: Iri | GraphSet
    source: Iri | GraphSet | None = None
    is_silent: bool = False


UpdateOperation = InsertData | DeleteData | DeleteWhere | Modify | Load | GraphManagement


@dataclass(frozen=True, slots=True)
class ParsedUpdate:
    """An update request: its operations in order."""

    operations: tuple[UpdateOperation, ...]
    prefixes: Mapping[str, str] = field(default_factory=dict, compare=False)
    base: str | None = field(default=None, compare=False)


ParsedOperation = ParsedQuery | ParsedUpdate


# -- walking

_NODES: dict[type, tuple[str, ...]] = {
    cls: tuple(
        f.name for f in reversed(fields(cls)) if f.name not in ("span", "prefixes", "base", "dataset", "using", "_nodes")
    )
    for cls in list(globals().values())
    if isinstance(cls, type) and cls.__module__ == __name__ and hasattr(cls, "__dataclass_fields__") and cls is not Span
} | dict.fromkeys((Iri, Literal, Variable), ())
"""Class of a node or term → its fields that may hold others, the last one first."""


def walk(node: Any, *, into_exists: bool = True, into_subselect: bool = True) -> Iterator[Any]:
    """Yield *node* and every model node and term below it, in the order of the text; iterative.

    Args:
        into_exists: False: the group of EXISTS and NOT EXISTS is not entered (the Exists node itself is yielded).
        into_subselect: likewise for sub-queries.
    """
    stack = [node]
    while stack:
        current = stack.pop()
        cls = type(current)
        names = _NODES.get(cls)
        if names is None:
            if isinstance(current, tuple):
                stack.extend(reversed(current))
            continue
        yield current
        if (cls is Exists and not into_exists) or (cls is SubSelect and not into_subselect):
            continue
        for name in names:
            if below := getattr(current, name):  # most fields of most nodes are empty
                stack.append(below)


_PLAIN_FUNCTIONS = (XSD, "http://www.w3.org/2005/xpath-functions", "http://www.opengis.net/def/function/geosparql/")


def holds_aggregate(expression: Expression) -> bool:
    """Whether *expression* computes an aggregate at its own level (not inside EXISTS), or may: engines have aggregates of
    their own, called like functions by IRI."""
    return any(
        isinstance(n, Aggregate)
        or (isinstance(n, FunctionCall) and isinstance(n.name, Iri) and not n.name.value.startswith(_PLAIN_FUNCTIONS))
        for n in walk(expression, into_exists=False)
    )


def is_relative(iri: Iri) -> bool:
    """Whether *iri* could not be resolved, so that only the backend knows what it names."""
    head, colon, _ = iri.value.partition(":")
    if head == "http" or head == "https":
        return not colon
    return not (colon and head[:1].isalpha() and all(c.isalnum() or c in "+-." for c in head))
