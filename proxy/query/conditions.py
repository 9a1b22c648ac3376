"""Conditions on a solution, and how they combine: a disjunction of conjunctions, bounded by dropping, never by adding.

``required`` makes them from a query, ``validation.prove`` looks for a contradiction, ``validation.confirm`` writes them as
a query.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from proxy.query.effort import reach, spend
from proxy.query.model import Group, ParsedQuery, Span, TriplePattern
from proxy.query.term import Iri, Literal, Variable

Place = Iri | Literal | Variable
"""What stands at an end of a condition: a term that is no triple term, of which nothing is known."""

MAX_ALTERNATIVES = 64
MAX_CONDITIONS = 2_000
"""Of all alternatives together."""

MAX_PATTERNS = 300
"""Of one conjunction; people write fewer than 100, and finding a minimal core takes a trial per bisection."""

MAX_PATH_STEPS = 1_000
"""Of all property paths of a query together, as they are taken apart."""

MAX_PARTS = 24
"""That may fail alone and are looked at."""

_TOO_MANY_ALTERNATIVES = f"more than {MAX_ALTERNATIVES} alternatives"
_TOO_MANY_CONDITIONS = f"more than {MAX_CONDITIONS:,} conditions"
TOO_MANY_PATTERNS = f"more than {MAX_PATTERNS} conditions in one alternative"


@dataclass(frozen=True, slots=True)
class Edge:
    """A triple joins *subject* to *object*; *predicate* None or a variable: by whatever property.

    graph: the named graph it is in; None: the default graph.
    """

    subject: Place
    predicate: Iri | Variable | None
    object: Place
    origin: TriplePattern
    graph: Iri | Variable | None = None


@dataclass(frozen=True, slots=True)
class Same:
    """Both are the same term."""

    left: Place
    right: Place
    span: Span


@dataclass(frozen=True, slots=True)
class OneOf:
    """*variable* is bound, and equals one of *terms* (for literals: in value, which is weaker than being the same term).

    by_spelling: it is ``STR(variable)`` that equals; *terms* are then the string and the IRI that are written so.
    by_term: it joins as VALUES does; for the confirmation only.
    """

    variable: Variable
    terms: tuple[Iri | Literal, ...]
    span: Span
    by_spelling: bool = False
    by_term: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """*variable* is bound, and *operator* (``< > <= >=``) is true of it and the number, date or time *limit*."""

    variable: Variable
    operator: str
    limit: Literal
    span: Span


@dataclass(frozen=True, slots=True)
class Contains:
    """*variable* is bound, and its text contains *text*; other ways to search a text are weakened to that."""

    variable: Variable
    text: str
    ignores_case: bool
    span: Span


@dataclass(frozen=True, slots=True)
class IsLiteral:
    """*variable* is bound to a literal; or, if not *is_literal*, to an IRI or a blank node."""

    variable: Variable
    is_literal: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Impossible:
    """No solution, whatever the data; *rule* says why."""

    rule: str
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class GroupSize:
    """Some group of *query*, a SELECT with GROUP BY, has at least *at_least* solutions.

    edges: every solution matches them, and is told from others of its group by them and *optional* alone. keys: variables of
    *edges* with one value in a group. optional: edges of each OPTIONAL.
    """

    at_least: int
    keys: tuple[Variable, ...]
    edges: tuple[Edge, ...]
    optional: tuple[tuple[Edge, ...], ...]
    query: ParsedQuery
    span: Span


Condition = Edge | Same | OneOf | Bound | Contains | IsLiteral | Impossible | GroupSize
Alternative = tuple[Condition, ...]
Alternatives = tuple[Alternative, ...]

ANYTHING: Alternatives = ((),)
"""No condition."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a query that may fail without emptying it; *conditions* include those of the group around it.

    role: ``optional``, ``union``, ``minus``, ``not-exists``. group: the part.
    """

    role: str
    group: Group
    conditions: Alternatives


def variables_of(condition: Condition) -> Iterable[Variable]:
    match condition:
        case Edge(s, p, o, _, _):
            return [t for t in (s, p, o) if isinstance(t, Variable)]
        case Same(a, b, _):
            return [t for t in (a, b) if isinstance(t, Variable)]
        case OneOf(variable=v) | IsLiteral(variable=v) | Bound(variable=v) | Contains(variable=v):
            return [v]
        case Impossible() | GroupSize():
            return []


def within(conditions: Iterable[Condition], graph: str) -> tuple[Condition, ...]:
    """What *conditions* ask of the named graph alone: its triples, and what is said of nothing but their ends.

    An end of a triple of the graph is a term of the graph, so that its kind there may be reasoned about; of a term that stands
    elsewhere too, or elsewhere only, that would not do.
    """
    listed = list(conditions)
    edges = [c for c in listed if isinstance(c, Edge) and c.graph == Iri(graph)]
    ends = {t for c in edges for t in (c.subject, c.object) if isinstance(t, Variable)}

    def is_about(c: Condition) -> bool:
        if isinstance(c, Edge):
            return c.graph == Iri(graph)
        about = frozenset(variables_of(c))
        return bool(about) and about <= ends

    return tuple(c for c in listed if is_about(c))


def certain(alternatives: Alternatives) -> frozenset[Variable]:
    """Variables that every alternative binds."""
    found: frozenset[Variable] | None = None
    for alternative in alternatives:
        # Same alone (a path of length zero) binds too, but to terms outside the graph as well; it is left out to be safe
        own = frozenset(v for c in alternative if not isinstance(c, Same) for v in variables_of(c))
        found = own if found is None else found & own
    return found or frozenset()


def both(parts: Sequence[Alternatives]) -> Alternatives:
    """The conjunction; over the bounds, the parts with most alternatives, and later ones, are dropped."""
    result: Alternatives = ANYTHING
    for part in sorted(parts, key=len):
        if part == ANYTHING:
            continue
        if result == ANYTHING:
            result = part
            continue
        if len(result) * len(part) > MAX_ALTERNATIVES:
            reach(_TOO_MANY_ALTERNATIVES)
            continue
        if max(map(len, result)) + max(map(len, part)) > MAX_PATTERNS:
            reach(TOO_MANY_PATTERNS)
            continue
        size = sum(map(len, result)) * len(part) + sum(map(len, part)) * len(result)
        if size > MAX_CONDITIONS:
            reach(_TOO_MANY_CONDITIONS)
            continue
        spend(size // 4)
        result = tuple(a + b for a, b in product(result, part))
    return result


def either(parts: Iterable[Alternatives]) -> Alternatives:
    """The disjunction; over the bounds, no condition."""
    result: list[Alternative] = []
    for part in parts:
        result += part
        if len(result) > MAX_ALTERNATIVES or sum(map(len, result)) > MAX_CONDITIONS:
            reach(_TOO_MANY_ALTERNATIVES if len(result) > MAX_ALTERNATIVES else _TOO_MANY_CONDITIONS)
            return ANYTHING
    return tuple(result)
