"""Emptiness: conditions that no term of the graph can meet, by arc consistency over the support index.

A variable's *domain* is the set of kinds it may have, as the bits of an int. Every solution maps to kinds that are joined in
the index, so taking away kinds without support never takes away those of a solution; a domain that runs empty proves that
there is none.

With exact kinds a node has one kind and asserted classes narrow a domain together. With single classes a node has several, any
of which can be chosen for the mapping: asserted classes are then tried one after the other, and each trial must succeed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from weakref import WeakKeyDictionary

from proxy.index.support import SupportIndex
from proxy.query.model import Term
from proxy.query.required import Alternatives, Condition, Edge, Impossible, IsLiteral, OneOf, Same
from proxy.query.term import XSD, Iri, Literal, Variable

NUMERIC = frozenset(
    XSD + name
    for name in (
        "integer decimal double float int long short byte unsignedInt unsignedLong unsignedShort unsignedByte"
        " nonNegativeInteger positiveInteger nonPositiveInteger negativeInteger"
    ).split()
)
_TEMPORAL = frozenset(
    XSD + n for n in ("date", "dateTime", "dateTimeStamp", "time", "gYear", "gYearMonth", "gMonth", "gDay", "gMonthDay")
)
_FAMILIES = (NUMERIC, _TEMPORAL, frozenset((XSD + "boolean",)))
"""Datatypes whose literals may be equal in value. Outside them engines compare in different ways: any literal will do."""

Adjacency = tuple[tuple[int, int], ...]
"""(subject kind as a bit, object kinds as bits) of one property."""

MAX_STEPS = 20_000
"""Revisions in one proof; past it the proof is given up."""


class Supports:
    """The index, laid out for proofs."""

    def __init__(self, index: SupportIndex) -> None:
        self.index = index
        self.everything = (1 << len(index.kinds)) - 1
        self.literals = sum(1 << i for i, kind in enumerate(index.kinds) if kind.is_literal)
        self.nodes = self.everything & ~self.literals
        self._families = tuple(
            sum(1 << i for i, kind in enumerate(index.kinds) if kind.datatype in family) for family in _FAMILIES
        )
        self._classes: dict[str, int] = {}
        for i, kind in enumerate(index.kinds):
            for c in kind.classes:
                self._classes[c] = self._classes.get(c, 0) | 1 << i
        self._adjacency: dict[str | None, Adjacency] = {}
        self._complete: dict[tuple[frozenset[str], str | None], bool] = {}

    def with_class(self, class_: str) -> int:
        return self._classes.get(class_, 0)

    def adjacency(self, property_: str | None) -> Adjacency:
        """Of one property, or None: of all together."""
        found = self._adjacency.get(property_)
        if found is None:
            index = self.index
            if property_ is None:
                pairs: Iterable[tuple[int, int]] = zip(index.subject.tolist(), index.object.tolist(), strict=True)
            else:
                cells = index.cells(property_)
                pairs = zip(index.subject[cells].tolist(), index.object[cells].tolist(), strict=True)
            objects: dict[int, int] = {}
            for s, o in pairs:
                objects[s] = objects.get(s, 0) | 1 << o
            found = self._adjacency[property_] = tuple((1 << s, o) for s, o in objects.items())
        return found

    def literal_kinds(self, literal: Literal) -> int:
        """Kinds of the literals that some engine may hold equal to *literal*."""
        for family, kinds in zip(_FAMILIES, self._families, strict=True):
            if literal.datatype in family:
                return kinds
        return self.literals

    def is_complete(self, classes: Sequence[str], property_: str | None) -> bool:
        """Whether absence can be trusted for triples of *property_* (None: any) whose subject has all of *classes*."""
        if not self.index.incomplete:
            return True
        properties = () if property_ is None else (property_,)
        if self.index.is_complete_for((), properties):
            return True
        return any(self.index.is_complete_for((c,), properties) for c in classes)


_SUPPORTS: WeakKeyDictionary[SupportIndex, Supports] = WeakKeyDictionary()


def supports_of(index: SupportIndex) -> Supports:
    found = _SUPPORTS.get(index)
    if found is None:
        found = _SUPPORTS[index] = Supports(index)
    return found


class _Node:
    """What is known of one term of a solution: an equivalence class of variables and IRIs."""

    __slots__ = ("allowed", "domain", "may_be_literal", "may_be_node")

    def __init__(self, everything: int) -> None:
        self.domain = everything
        self.may_be_literal = self.may_be_node = True
        self.allowed: set[str] | None = None
        """The IRIs that it may be, where it is not a literal."""


class _Problem:
    """One conjunction of conditions."""

    def __init__(self, conditions: Sequence[Condition], supports: Supports) -> None:
        self._supports = supports
        self._parent: dict[Variable | Iri, Variable | Iri] = {}
        self._nodes: dict[Variable | Iri, _Node] = {}
        self._literals: dict[Variable | Iri, list[int]] = {}
        self._conditions = conditions

    def _find(self, key: Variable | Iri) -> Variable | Iri:
        parent = self._parent
        while (up := parent.get(key, key)) != key:
            key = up
        return key

    def _node(self, term: Variable | Iri) -> _Node:
        key = self._find(term)
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = _Node(self._supports.everything)
        return found

    def _join(self, a: Variable | Iri, b: Variable | Iri) -> None:
        a, b = self._find(a), self._find(b)
        if a != b:
            # a constant stays the name of its class
            if isinstance(b, Variable):
                self._parent[b] = a
            else:
                self._parent[a] = b

    def is_contradicted(self) -> bool:
        edges: list[Edge] = []
        restrictions: list[OneOf | IsLiteral] = []
        identities: list[Same] = []
        for c in self._conditions:
            match c:
                case Edge():
                    edges.append(c)
                case OneOf(v, (Iri() as iri,), span):
                    identities.append(Same(v, iri, span))
                case OneOf() | IsLiteral():
                    restrictions.append(c)
                case Same():
                    identities.append(c)
                case Impossible():
                    return True
        if self._unite(identities):
            return True
        for r in restrictions:
            node = self._node(r.variable)
            if isinstance(r, IsLiteral):
                if r.is_literal:
                    node.may_be_node = False
                else:
                    node.may_be_literal = False
            else:
                self._restrict(node, r.terms)
            if not self._is_possible(r.variable, node):
                return True
        return bool(edges) and self._edges_contradict(edges)

    def _unite(self, identities: list[Same]) -> bool:
        """Merge what is the same; True: impossible."""
        late: list[tuple[Variable, Literal]] = []
        for s in identities:
            match s.left, s.right:
                case (Literal(), Literal()):
                    continue
                case (Literal(), Iri()) | (Iri(), Literal()):
                    return True
                case (Variable() as v, Literal() as literal) | (Literal() as literal, Variable() as v):
                    late.append((v, literal))
                case (Variable() | Iri() as a, Variable() | Iri() as b):
                    first, second = self._find(a), self._find(b)
                    if isinstance(first, Iri) and isinstance(second, Iri) and first != second:
                        return True
                    self._join(first, second)
        for v, literal in late:
            if isinstance(self._find(v), Iri):
                return True
            self._restrict(self._node(v), (literal,))
        return False

    def _restrict(self, node: _Node, terms: Iterable[Iri | Literal]) -> None:
        iris: set[str] = set()
        kinds = 0
        has_literal = False
        for t in terms:
            if isinstance(t, Iri):
                iris.add(t.value)
            else:
                has_literal = True
                kinds |= self._supports.literal_kinds(t)
        node.allowed = iris if node.allowed is None else node.allowed & iris
        node.may_be_literal = node.may_be_literal and has_literal
        node.domain &= kinds | self._supports.nodes

    def _is_possible(self, term: Variable | Iri, node: _Node) -> bool:
        key = self._find(term)
        if isinstance(key, Iri):
            return node.may_be_node and (node.allowed is None or key.value in node.allowed)
        return node.may_be_literal or (node.may_be_node and (node.allowed is None or bool(node.allowed)))

    # -- edges

    def _domain(self, node: _Node, key: Variable | Iri) -> int:
        supports = self._supports
        domain = node.domain
        if isinstance(key, Iri) or not node.may_be_literal:
            domain &= supports.nodes
        elif not node.may_be_node or (node.allowed is not None and not node.allowed):
            domain &= supports.literals
        return domain

    def _edges_contradict(self, edges: list[Edge]) -> bool:
        supports = self._supports
        class_predicate = supports.index.class_predicate
        keys: dict[int, tuple[object, object]] = {}
        domains: dict[object, int] = {}
        assertions: dict[object, list[tuple[int, str]]] = {}

        def place(term: Term, edge_id: int) -> object:
            if isinstance(term, Literal):
                # not shared: two engines may match one written literal with different stored ones
                domains[edge_id] = supports.literal_kinds(term)
                return edge_id
            key = self._find(term)
            if key not in domains:
                domains[key] = self._domain(self._node(key), key)
            return key

        for i, e in enumerate(edges):
            s, o = place(e.subject, 2 * i), place(e.object, 2 * i + 1)
            keys[i] = (s, o)
            if isinstance(e.predicate, Iri) and e.predicate.value == class_predicate:
                classes = self._constants(o)
                if classes is not None and all(supports.is_complete((c,), class_predicate) for c in classes):
                    mask = 0
                    for c in classes:
                        mask |= supports.with_class(c)
                    name = next(iter(classes)) if len(classes) == 1 else ""
                    assertions.setdefault(s, []).append((mask, name))
        arcs: list[tuple[object, Adjacency, object]] = []
        for i, e in enumerate(edges):
            s, o = keys[i]
            asserted = [name for _, name in assertions.get(s, ()) if name]
            adjacency = self._adjacency(e, asserted)
            if adjacency is not None:
                arcs.append((s, adjacency, o))
        if any(d == 0 for k, d in domains.items() if self._has_arc(k, arcs)):
            return True
        if supports.index.are_kinds_exact:
            for key, found in assertions.items():
                for mask, _ in found:
                    domains[key] &= mask
            return _is_inconsistent(domains, arcs, set(assertions))
        trial = dict(domains)
        for key, found in assertions.items():
            trial[key] &= found[0][0]
        if _is_inconsistent(dict(trial), arcs, set(assertions)):
            return True
        for key, found in assertions.items():
            for mask, _ in found[1:]:
                if _is_inconsistent({**trial, key: domains[key] & mask}, arcs, set(assertions)):
                    return True
        return False

    @staticmethod
    def _has_arc(key: object, arcs: list[tuple[object, Adjacency, object]]) -> bool:
        return any(key is s or key is o or key == s or key == o for s, _, o in arcs)

    def _constants(self, key: object) -> set[str] | None:
        """The IRIs that a place may be; None: any."""
        if isinstance(key, Iri):
            return {key.value}
        if isinstance(key, Variable):
            node = self._node(key)
            if node.allowed is not None and not node.may_be_literal:
                return node.allowed
        return None

    def _adjacency(self, edge: Edge, classes: Sequence[str]) -> Adjacency | None:
        """The pairs of kinds that *edge* may join; None: unknown."""
        supports = self._supports
        properties: set[str] | None
        if edge.predicate is None:
            properties = None
        else:
            key = self._find(edge.predicate)
            properties = self._constants(key)
        if properties is None:
            return supports.adjacency(None) if supports.is_complete(classes, None) else None
        if not all(supports.is_complete(classes, p) for p in properties):
            return None
        if len(properties) == 1:
            return supports.adjacency(next(iter(properties)))
        return tuple(chain.from_iterable(supports.adjacency(p) for p in properties))


def _is_inconsistent(domains: dict[object, int], arcs: list[tuple[object, Adjacency, object]], asserted: set[object]) -> bool:
    """Take kinds without support away until nothing changes; True: a domain ran empty."""
    if any(domains[k] == 0 for k in asserted):
        return True
    waiting = list(range(len(arcs)))
    is_waiting = [True] * len(arcs)
    touching: dict[object, list[int]] = {}
    for i, (s, _, o) in enumerate(arcs):
        touching.setdefault(s, []).append(i)
        if o != s:
            touching.setdefault(o, []).append(i)
    at = 0
    while at < len(waiting):
        if at > MAX_STEPS:
            return False
        i = waiting[at]
        at += 1
        is_waiting[i] = False
        s, adjacency, o = arcs[i]
        before_s, before_o = domains[s], domains[o]
        after_s = after_o = 0
        if s == o:
            for bit, objects in adjacency:
                if bit & before_s & objects:
                    after_s |= bit
            after_o = after_s
        else:
            for bit, objects in adjacency:
                if bit & before_s and (met := objects & before_o):
                    after_s |= bit
                    after_o |= met
        if not after_s:
            return True
        for key, before, after in ((s, before_s, after_s), (o, before_o, after_o)):
            if after != before:
                domains[key] = after
                for j in touching[key]:
                    if not is_waiting[j]:
                        is_waiting[j] = True
                        waiting.append(j)
    return False


def is_contradicted(conditions: Sequence[Condition], supports: Supports) -> bool:
    """Whether no assignment of graph terms meets all *conditions* at once."""
    return _Problem(conditions, supports).is_contradicted()


def is_impossible(alternatives: Alternatives, supports: Supports) -> bool:
    """Whether every alternative is contradicted."""
    return all(is_contradicted(a, supports) for a in alternatives)


def minimal_core(conditions: Sequence[Condition], supports: Supports) -> tuple[Condition, ...]:
    """A contradicted part of the contradicted *conditions* that is no longer contradicted when any one of it is left out.

    Divide and conquer, so that a few conditions out of thousands are found in few trials. Later conditions are dropped first.
    """

    def fails(part: Sequence[Condition]) -> bool:
        return is_contradicted(part, supports)

    kept = _minimise((), (), tuple(conditions), fails)
    order = {id(c): i for i, c in enumerate(conditions)}
    return tuple(sorted(kept, key=lambda c: order[id(c)]))


def _minimise(
    background: tuple[Condition, ...],
    added: tuple[Condition, ...],
    candidates: tuple[Condition, ...],
    fails: Callable[[Sequence[Condition]], bool],
) -> tuple[Condition, ...]:
    if added and fails(background):
        return ()
    if len(candidates) == 1:
        return candidates
    middle = len(candidates) // 2
    left, right = candidates[:middle], candidates[middle:]
    from_right = _minimise(background + left, left, right, fails)
    from_left = _minimise(background + from_right, from_right, left, fails)
    return from_left + from_right
