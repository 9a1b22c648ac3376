"""Emptiness: conditions that no term of the graph can meet, by arc consistency over the support index.

A variable's *domain* is the set of kinds it may have, as the bits of an int. Every solution maps to kinds that are joined in
the index, so taking away kinds without support never takes away those of a solution; a domain that runs empty proves that
there is none.

With exact kinds a node has one kind and asserted classes narrow a domain together. With single classes a node has several, any
of which can be chosen for the mapping: asserted classes are then tried one after the other, and each trial must succeed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, combinations

from proxy.query.conditions import (
    Bound,
    Condition,
    Contains,
    Edge,
    GroupSize,
    Impossible,
    IsLiteral,
    OneOf,
    Place,
    Same,
)
from proxy.query.effort import reach, spend
from proxy.query.literals import family, interval, may_be_equal, may_satisfy, spelling
from proxy.query.term import Iri, Literal, Variable
from proxy.validation.group_size import most_solutions
from proxy.validation.observed import Observed
from proxy.validation.supports import Adjacency, Supports

MAX_COMPARED = 400
"""Literals of one variable that are looked up, and pairs of them that are compared; people write fewer than 100."""

MAX_FEATURES = 50
"""Of one variable, whose pairs are looked up."""

MAX_STEPS = 20_000
"""Revisions in one proof; past it the proof is given up."""


def _may_be_one(a: tuple[Literal, bool], b: tuple[Literal, bool]) -> bool:
    """Whether one term may equal both (literal, by spelling)."""
    if a[1] and b[1]:
        return spelling(a[0].lexical) == spelling(b[0].lexical)
    if a[1] or b[1]:
        # the spelling of a term against the value of another: "1" is a spelling of 1.0, but "x" of no number
        return True
    return may_be_equal(a[0], b[0])


class _Node:
    """What is known of one term of a solution: an equivalence class of variables and IRIs."""

    __slots__ = ("allowed", "bounds", "contained", "domain", "literals", "may_be_literal", "may_be_node")

    def __init__(self, everything: int) -> None:
        self.domain = everything
        self.may_be_literal = self.may_be_node = True
        self.allowed: set[str] | None = None
        """The IRIs that it may be, where it is not a literal."""
        self.literals: list[tuple[Literal, bool]] | None = None
        """The literals that it may equal (True: in spelling), where it is one."""
        self.bounds: list[Bound] = []
        self.contained: list[Contains] = []


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
        if not parent:
            return key
        while (up := parent.get(key)) is not None:
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
        restrictions: list[OneOf | IsLiteral | Bound | Contains] = []
        identities: list[Same] = []
        for c in self._conditions:
            match c:
                case Edge():
                    edges.append(c)
                case OneOf(v, (Iri() as iri,), span, False):
                    identities.append(Same(v, iri, span))
                case OneOf() | IsLiteral() | Bound() | Contains():
                    restrictions.append(c)
                case Same():
                    identities.append(c)
                case Impossible():
                    return True
                case GroupSize():
                    most = most_solutions(c, self._supports)
                    if most is not None and most < c.at_least:
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
            elif isinstance(r, Bound):
                node.bounds.append(r)
            elif isinstance(r, Contains):
                node.contained.append(r)
            else:
                self._restrict(node, r.terms, r.by_spelling)
            if not self._is_possible(r.variable, node):
                return True
        if any(node.bounds and self._is_out_of_bounds(node) for node in self._nodes.values()):
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

    def _restrict(self, node: _Node, terms: Iterable[Iri | Literal], by_spelling: bool = False) -> None:
        iris: set[str] = set()
        kinds = 0
        literals: list[tuple[Literal, bool]] = []
        for t in terms:
            if isinstance(t, Iri):
                iris.add(t.value)
            else:
                literals.append((t, by_spelling))
                kinds |= self._supports.literals if by_spelling else self._supports.literal_kinds(t)
        node.allowed = iris if node.allowed is None else node.allowed & iris
        if node.literals is None:
            node.literals = literals
        elif len(node.literals) * len(literals) <= MAX_COMPARED:
            node.literals = [one for one in node.literals if any(_may_be_one(one, other) for other in literals)]
        node.may_be_literal = node.may_be_literal and bool(node.literals and literals)
        node.domain &= kinds | self._supports.nodes

    @staticmethod
    def _is_out_of_bounds(node: _Node) -> bool:
        """Whether no term, wherever it comes from, meets the bounds together, and with them the literals it may equal."""
        limits = [(b.operator, w) for b in node.bounds if (w := interval(b.limit.lexical, family(b.limit.datatype)))]
        if len({family(b.limit.datatype) for b in node.bounds}) > 1 or not limits:
            return False
        low = max((w[0] for operator, w in limits if operator in (">", ">=")), default=float("-inf"))
        high = min((w[1] for operator, w in limits if operator in ("<", "<=")), default=float("inf"))
        if low > high:
            return True
        of = family(node.bounds[0].limit.datatype)
        if node.literals is None or node.allowed or len(node.literals) > MAX_COMPARED:
            return False
        for literal, by_spelling in node.literals:
            where = interval(literal.lexical, of) if family(literal.datatype) is of and not by_spelling else None
            if where is None or all(may_satisfy(where, operator, limit) for operator, limit in limits):
                return False
        return True

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

        def place(term: Place, edge_id: int) -> object:
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
        arcs: list[Arc] = []
        joined: list[tuple[object, Edge, object]] = []
        for i, e in enumerate(edges):
            s, o = keys[i]
            asserted = [name for _, name in assertions.get(s, ()) if name]
            adjacency = self._adjacency(e, asserted)
            if adjacency is not None:
                arcs.append((s, adjacency, o))
                if supports.observed is not None and isinstance(e.predicate, Iri):
                    domains[o] &= self._observed(supports.observed, e.object, e.predicate.value, asserted)
                joined.append((s, e, o))
        for end in {k for s, _, o in joined for k in (s, o) if isinstance(k, Iri | Variable)}:
            domains[end] &= self._known_nodes(end)
        if not all(domains.values()) and any(not (domains[s] and domains[o]) for s, _, o in arcs):
            return True
        if self._never_meet(joined):
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

    def _known_nodes(self, key: Iri | Variable) -> int:
        """The kinds that the IRIs have that *key* may be, and all literals where it may be one."""
        supports = self._supports
        if isinstance(key, Iri):
            return supports.node_kinds((key.value,))
        allowed = self._node(key).allowed
        if allowed is None or len(allowed) > MAX_COMPARED:
            return supports.everything
        return supports.node_kinds(allowed) | supports.literals

    def _never_meet(self, joined: list[tuple[object, Edge, object]]) -> bool:
        """Whether some term would need two features that no single node has."""
        known = self._supports.index.features
        if known is None:
            return False
        features: dict[object, set[int]] = {}
        subjects = {s for s, _, _ in joined}
        for s, e, o in joined:
            if not isinstance(e.predicate, Iri):
                continue
            p = e.predicate.value
            found = [(s, known.of_subject(p))]
            if o in subjects or isinstance(o, Iri) or (isinstance(o, Variable) and not self._node(o).may_be_literal):
                found.append((o, known.of_object(p)))
            if p == self._supports.index.class_predicate and isinstance(o, Iri):
                found.append((s, known.of_class(o.value)))
            for key, feature in found:
                if feature is not None:
                    features.setdefault(key, set()).add(feature)
        may_meet = self._supports.may_meet
        sets = (sorted(own) for own in features.values() if 1 < len(own) <= MAX_FEATURES)
        return any(not may_meet(a, b) for own in sets for a, b in combinations(own, 2))

    def _observed(self, observed: Observed, place: Place, property_: str, classes: Sequence[str]) -> int:
        """The kinds that are left to the object of *property_*, by the literals that it has at nodes of all *classes*."""
        supports = self._supports
        literals: list[tuple[Literal, bool]] | None
        bounds: list[Bound] = []
        contained: list[Contains] = []
        if isinstance(place, Literal):
            literals = [(place, False)]
        else:
            node = self._node(place)
            if not node.may_be_literal or (node.literals is None and not node.bounds and not node.contained):
                return supports.everything
            literals, bounds, contained = node.literals, node.bounds, node.contained
        pairs = observed.pairs(property_, classes)
        if pairs is None:
            return supports.everything
        left = supports.everything
        if literals is not None and len(literals) <= MAX_COMPARED:
            left = supports.nodes
            for literal, by_spelling in literals:
                if observed.may_hold(pairs, literal, by_spelling=by_spelling):
                    left |= supports.literals if by_spelling else supports.literal_kinds(literal)
        for bound in bounds:
            if not observed.may_satisfy(pairs, bound.operator, bound.limit):
                # what is no number compares with none in SPARQL, but with every one in some engine
                left &= ~supports.family_kinds(bound.limit)
        for c in contained:
            if not observed.may_contain(pairs, c.text, ignores_case=c.ignores_case):
                left &= ~supports.texts
        return left

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
        return Adjacency(chain.from_iterable(supports.adjacency(p).pairs for p in properties))


Arc = tuple[object, Adjacency, object]
"""Two terms, and the kinds that they may have together."""


def _is_inconsistent(domains: dict[object, int], arcs: list[Arc], asserted: set[object]) -> bool:
    """Take kinds without support away until nothing changes; True: a domain ran empty."""
    for k in asserted:
        if not domains[k]:
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
            reach(f"more than {MAX_STEPS:,} steps of a proof")
            return False
        i = waiting[at]
        at += 1
        is_waiting[i] = False
        s, adjacency, o = arcs[i]
        pairs = adjacency.pairs
        spend(1 + len(pairs) // 4)
        before_s, before_o = domains[s], domains[o]
        after_s = after_o = 0
        if s is o or s == o:
            for bit, objects in pairs:
                if bit & before_s & objects:
                    after_s |= bit
            after_o = after_s
        elif not (adjacency.subjects & ~before_s or adjacency.objects & ~before_o):
            after_s, after_o = adjacency.subjects, adjacency.objects  # nothing was known of either end
        else:
            for bit, objects in pairs:
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
    spend(10 + 8 * len(conditions))
    return _Problem(conditions, supports).is_contradicted()


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
