"""The queries that count along paths, and nothing but their text (SPARQL 1.1: sub-queries, GROUP BY, OPTIONAL, BIND).

A route ends in a *set* of nodes: each node counts once, however many ways lead to it. Sub-queries with DISTINCT at every hop
keep the number of solutions below the number of triples, whatever the number of walks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from proxy.index.chunks import iri

EXAMPLE_LENGTH = 80
"""Characters; longer literals are no examples, and cutting them would make values that the graph does not hold."""

_SHAPE = 'BIND(IF(isLiteral(?z), STR(DATATYPE(?z)), "") AS ?t) BIND(IF(isLiteral(?z), LCASE(LANG(?z)), "") AS ?l)'


@dataclass(frozen=True, slots=True)
class Step:
    """One hop: over *property*, against its direction if *is_inverse*, to nodes of *class_* (None: without a class)."""

    property: str
    is_inverse: bool
    class_: str | None


@dataclass(frozen=True, slots=True)
class Route:
    """The nodes that *steps* lead to from the instances of *root* (None: from all subjects without a class)."""

    root: str | None
    steps: tuple[Step, ...] = ()

    @property
    def class_(self) -> str | None:
        """The class of the nodes at the end."""
        return self.steps[-1].class_ if self.steps else self.root

    def then(self, step: Step) -> Route:
        return Route(self.root, (*self.steps, step))


@dataclass(frozen=True, slots=True)
class Sample:
    """A part of the instances of a class: *iris*, and any *blank_nodes* many of its blank nodes."""

    iris: tuple[str, ...]
    blank_nodes: int = 0

    def __len__(self) -> int:
        return len(self.iris) + self.blank_nodes


@dataclass(frozen=True, slots=True)
class Nodes:
    """Writes the pattern that binds ``?x`` to the nodes of *route*.

    sample: start from these only; None: from all. cap: with a sample, carry on with so many nodes of each hop at most.
    """

    class_predicate: str
    route: Route
    sample: Sample | None = None
    cap: int = 1000

    def pattern(self) -> str:
        steps = self.route.steps
        text = self._start("?x" if not steps else "?x0")
        for i, step in enumerate(steps):
            here, there = f"?x{i}", "?x" if i + 1 == len(steps) else f"?x{i + 1}"
            subject, object_ = (there, here) if step.is_inverse else (here, there)
            limit = f" LIMIT {self.cap}" if self.sample is not None else ""
            edge = f"{subject} {iri(step.property)} {object_} . {self._has_class(there, step.class_)}"
            text = f"{{ SELECT DISTINCT {there} {{ {text} {edge} }}{limit} }}"
        return text

    def _start(self, x: str) -> str:
        if self.sample is None:
            if self.route.root is not None:
                return f"{x} {iri(self.class_predicate)} {iri(self.route.root)} ."
            return f"{{ SELECT DISTINCT {x} {{ {x} ?q0 ?o0 . {self._has_class(x, None)} }} }}"
        named = f"{{ VALUES {x} {{ {' '.join(iri(i) for i in self.sample.iris)} }} }}"
        if not self.sample.blank_nodes:
            return named
        everyone = Nodes(self.class_predicate, Route(self.route.root))._start(x)
        blank = f"{{ SELECT DISTINCT {x} {{ {everyone} FILTER(isBlank({x})) }} LIMIT {self.sample.blank_nodes} }}"
        return f"{{ {named} UNION {blank} }}"

    def _has_class(self, x: str, class_: str | None) -> str:
        a = iri(self.class_predicate)
        if class_ is not None:
            return f"{x} {a} {iri(class_)} ."
        return f"FILTER(!isLiteral({x})) FILTER NOT EXISTS {{ {x} {a} ?c0 . FILTER(isIRI(?c0)) }}"

    def edge(self, *, is_inverse: bool, property_: str | None = None, other: str = "?z") -> str:
        """The nodes with their edges ``?p`` (or *property_*), never the class predicate."""
        p = iri(property_) if property_ is not None else "?p"
        ends = f"{other} {p} ?x" if is_inverse else f"?x {p} {other}"
        no_class = f" FILTER(?p != {iri(self.class_predicate)})" if property_ is None else ""
        return f"{self.pattern()} {ends} .{no_class}"


def size(nodes: Nodes) -> str:
    """?n: how many nodes."""
    return f"SELECT (COUNT(DISTINCT ?x) AS ?n) {{ {nodes.pattern()} }}"


def edges(nodes: Nodes, *, is_inverse: bool = False, property_: str | None = None) -> str:
    """?p? ?t ?l ?c ?n ?m: by property, datatype and language, or class of the other end (unbound: it has none).

    ?n: nodes that have such an edge. ?m: distinct other ends. ?t, ?l: empty for nodes; not asked for inverse edges.
    """
    a = iri(nodes.class_predicate)
    keys = "?c" if property_ is not None else "?p ?c"
    shape = ""
    if not is_inverse:
        keys += " ?t ?l"
        shape = " " + _SHAPE
    return (
        f"SELECT {keys} (COUNT(DISTINCT ?x) AS ?n) (COUNT(DISTINCT ?z) AS ?m) {{ "
        f"{nodes.edge(is_inverse=is_inverse, property_=property_)} "
        f"OPTIONAL {{ ?z {a} ?c . FILTER(isIRI(?c)) }}{shape} }} GROUP BY {keys}"
    )


def holders(nodes: Nodes, properties: Iterable[str], *, is_inverse: bool = False) -> str:
    """?p ?n: nodes that have an edge of each of *properties* at all."""
    wanted = ", ".join(iri(p) for p in properties)
    edge = nodes.edge(is_inverse=is_inverse)
    return f"SELECT ?p (COUNT(DISTINCT ?x) AS ?n) {{ {edge} FILTER(?p IN ({wanted})) }} GROUP BY ?p"


def literals(nodes: Nodes, *, limit: int) -> str:
    """?p ?v ?t ?l ?n: lexical forms of literals at the nodes, with datatype and language, and how many nodes have each.

    As strings, not as terms: a store may send numbers with another datatype than DATATYPE says (backends differ).
    """
    keys = "?p ?v ?t ?l"
    return (
        f"SELECT {keys} (COUNT(DISTINCT ?x) AS ?n) {{ {nodes.edge(is_inverse=False)} "
        f"FILTER(isLiteral(?z) && STRLEN(STR(?z)) <= {EXAMPLE_LENGTH}) BIND(STR(?z) AS ?v) {_SHAPE} }} "
        f"GROUP BY {keys} LIMIT {limit}"
    )


def literals_of(nodes: Nodes, groups: Iterable[tuple[str, str, str | None]], *, limit: int) -> str:
    """?p ?v ?t ?l: a few literals of each of *groups* (property, datatype, language), which the sample has none of."""
    keys = "?p ?v ?t ?l"
    parts = []
    for property_, datatype, language in groups:
        kind = f"DATATYPE(?z) = {iri(datatype)}" if language is None else f'LCASE(LANG(?z)) = "{language}"'
        parts.append(
            f"{{ SELECT DISTINCT {keys} {{ {nodes.edge(is_inverse=False, property_=property_)} "
            f"FILTER(isLiteral(?z) && {kind} && STRLEN(STR(?z)) <= {EXAMPLE_LENGTH}) "
            f"BIND({iri(property_)} AS ?p) BIND(STR(?z) AS ?v) {_SHAPE} }} LIMIT {limit} }}"
        )
    return f"SELECT {keys} {{ {' UNION '.join(parts)} }}"


def instances(nodes: Nodes, *, property_: str | None, limit: int, in_order: bool = True) -> str:
    """?x: instances named by an IRI, those with *property_* only; scattered, yet the same ones each time.

    in_order: by a hash of the IRI, which needs a look at all of them; else whichever the backend comes upon.
    """
    edge = f" ?x {iri(property_)} ?z ." if property_ is not None else ""
    order = " ORDER BY MD5(STR(?x))" if in_order else ""
    return f"SELECT DISTINCT ?x {{ {nodes.pattern()}{edge} FILTER(isIRI(?x)) }}{order} LIMIT {limit}"
