"""From counted routes to the patterns of a document: which paths are followed, and what each line says.

Pure: the driver (``pipeline/harvest.py``) asks for the routes that ``Branch.is_open`` leaves, hands the readings in, and at the
end takes the patterns. A route is looked at once, however many paths lead to the same nodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from zlib import crc32

from proxy.index.build import Row, number, text
from proxy.index.support import SupportIndex
from proxy.index.ttql import UNKNOWN, Edge, Frequency, LiteralGroup, Pattern, Target, frequency
from proxy.index.ttql_queries import Route, Step
from proxy.query.term import RDF_LANG_STRING, Iri, Literal

EdgeKey = tuple[str, bool]
"""Property, and whether it is followed against its direction."""
Shape = tuple[str, str | None]
"""Datatype and language of literals."""


@dataclass(slots=True)
class EdgeReading:
    """One edge of a set of nodes, counted.

    of: nodes that were looked at. holders: those that have the edge; None: not known.
    targets, literals: (holders of an edge that leads there, distinct other ends); None: only that there are some.
    """

    of: int
    holders: int | None = None
    is_estimated: bool = False
    targets: dict[str | None, tuple[int, int] | None] = field(default_factory=dict)
    literals: dict[Shape, tuple[int, int] | None] = field(default_factory=dict)

    @property
    def is_split(self) -> bool:
        """Whether nodes may be in several groups, so that their sum does not tell the holders."""
        return len(self.targets) + len(self.literals) > 1


@dataclass(slots=True)
class Reading:
    """All edges of the nodes of a route, and examples of their literals."""

    nodes: int | None = None
    sample: int = 0
    edges: dict[EdgeKey, EdgeReading] = field(default_factory=dict)
    examples: dict[tuple[str, Shape], tuple[str, ...]] = field(default_factory=dict)

    def groups_without_examples(self) -> list[tuple[str, Shape]]:
        """Literal groups that the sample has no short value of, sorted."""
        groups = ((p, s) for (p, _), edge in self.edges.items() for s in edge.literals)
        return sorted((g for g in groups if g not in self.examples), key=lambda g: (g[0], g[1][0], g[1][1] or ""))


def shape_of(datatype: str, language: str | None) -> Shape:
    """The group of a literal; only rdf:langString is told apart by language."""
    return datatype, (language.lower() if language and datatype == RDF_LANG_STRING else None)


def read_edges(
    rows: Iterable[Row], *, of: int, is_inverse: bool = False, property_: str | None = None, is_estimated: bool = False
) -> dict[EdgeKey, EdgeReading]:
    """Read the answer of ``ttql_queries.edges``; holders of edges with several groups are left None."""
    found: dict[EdgeKey, EdgeReading] = {}
    for row in rows:
        key = (property_ if property_ is not None else text(row["p"])), is_inverse
        edge = found.setdefault(key, EdgeReading(of, is_estimated=is_estimated))
        counts = number(row["n"]), number(row["m"])
        datatype, class_ = row.get("t"), row.get("c")
        if isinstance(datatype, Literal) and datatype.lexical:
            edge.literals[shape_of(datatype.lexical, text(row["l"]))] = counts
        else:
            edge.targets[class_.value if isinstance(class_, Iri) else None] = counts
    for edge in found.values():
        if not edge.is_split:
            edge.holders = max(group[0] for group in (*edge.targets.values(), *edge.literals.values()) if group is not None)
    return found


def read_examples(rows: Iterable[Row], *, most: int) -> dict[tuple[str, Shape], tuple[str, ...]]:
    """Read the answer of ``literals`` or ``literals_of``: the most frequent of each group, equals in a fixed mixed order."""
    groups: dict[tuple[str, Shape], list[tuple[int, int, str]]] = defaultdict(list)
    for row in rows:
        value = text(row["v"])
        key = text(row["p"]), shape_of(text(row["t"]), text(row["l"]))
        groups[key].append((-number(row.get("n")), crc32(value.encode("utf-8", "replace")), value))
    return {key: tuple(dict.fromkeys(v for _, _, v in sorted(values)))[:most] for key, values in groups.items()}


# -- what the matrix says there must be


@dataclass(slots=True)
class Expected:
    """What an edge of a class leads to: classes (None: nodes without one) and datatypes."""

    targets: set[str | None] = field(default_factory=set)
    datatypes: set[str] = field(default_factory=set)


def expected(index: SupportIndex) -> Mapping[str | None, Mapping[EdgeKey, Expected]]:
    """Every class-level edge of M in both directions, but for those of the class predicate."""
    found: dict[str | None, dict[EdgeKey, Expected]] = defaultdict(lambda: defaultdict(Expected))
    for s, p, o in zip(index.subject.tolist(), index.property.tolist(), index.object.tolist(), strict=True):
        property_, kind = index.properties[p], index.kinds[o]
        if property_ == index.class_predicate:
            continue
        for subject_class in index.kinds[s].classes or (None,):
            edge = found[subject_class][property_, False]
            if kind.datatype is not None:
                edge.datatypes.add(kind.datatype)
                continue
            edge.targets.update(kind.classes or (None,))
            for class_ in kind.classes:
                found[class_][property_, True].targets.add(subject_class)
    return {class_: dict(edges) for class_, edges in found.items()}


def kinds_at_ends(index: SupportIndex) -> Mapping[EdgeKey, Collection[frozenset[str]]]:
    """The exact class sets of the nodes that each edge leads to; empty where the index knows single classes only."""
    found: dict[EdgeKey, set[frozenset[str]]] = defaultdict(set)
    if index.are_kinds_exact:
        for s, p, o in zip(index.subject.tolist(), index.property.tolist(), index.object.tolist(), strict=True):
            found[index.properties[p], False].add(index.kinds[o].classes)
            found[index.properties[p], True].add(index.kinds[s].classes)
    return dict(found)


def missing(reading: Reading, wanted: Mapping[EdgeKey, Expected]) -> list[EdgeKey]:
    """Edges of *wanted* that *reading* lacks, wholly or a target of them; sorted."""
    return sorted(key for key, edge in wanted.items() if not _covers(reading.edges.get(key), edge))


def _covers(edge: EdgeReading | None, wanted: Expected) -> bool:
    return edge is not None and wanted.targets <= edge.targets.keys() and wanted.datatypes <= {d for d, _ in edge.literals}


def complete(reading: Reading, wanted: Mapping[EdgeKey, Expected]) -> int:
    """Add what *reading* lacks of *wanted*, with frequencies unknown; returns the number of edges concerned."""
    lacking = missing(reading, wanted)
    for key in lacking:
        edge = reading.edges.setdefault(key, EdgeReading(reading.nodes or 0))
        for class_ in wanted[key].targets:
            edge.targets.setdefault(class_, None)
        for datatype in wanted[key].datatypes - {d for d, _ in edge.literals}:
            edge.literals[datatype, None] = None
    return len(lacking)


# -- growing


@dataclass(frozen=True, slots=True)
class Rules:
    """How far paths go.

    depth: edges on a path at most. floor: below it an edge under the root is left out and a target is not followed.
    instances: class → how many nodes have it. with_edges: classes (None too) whose nodes have properties.
    kinds: as ``kinds_at_ends`` has them.
    """

    depth: int
    floor: float
    instances: Mapping[str, int]
    with_edges: Collection[str | None]
    kinds: Mapping[EdgeKey, Collection[frozenset[str]]]


@dataclass(slots=True)
class Branch:
    """A target on a path, or the root: nodes of *class_*, to be followed from *route*.

    nodes: how many there are, where the edge that leads here was counted exactly.
    used: (class, property) of the edges on the path. is_open: its edges are wanted; they come by ``grow``.
    """

    class_: str | None
    route: Route
    depth: int = 0
    used: frozenset[tuple[str | None, str]] = frozenset()
    is_open: bool = True
    is_cut: bool = False
    share: Frequency = UNKNOWN
    nodes: int | None = None
    edges: list[tuple[EdgeKey, Frequency, list[Branch], list[LiteralGroup], bool]] = field(default_factory=list)

    @property
    def lines(self) -> int:
        """Lines that its own edges take, about."""
        return sum(1 + len(targets) for _, _, targets, _, _ in self.edges)


def grow(branch: Branch, reading: Reading, rules: Rules) -> list[Branch]:
    """Give *branch* the edges of *reading*; returns the new branches that are open."""
    branch.is_open = False
    opened: list[Branch] = []
    for key, edge in reading.edges.items():
        property_, is_inverse = key
        if is_inverse and branch.depth:
            continue  # inverse edges are for roots: who points here is not asked of every node on a path
        share = UNKNOWN if edge.holders is None else frequency(edge.holders, edge.of, is_estimated=edge.is_estimated)
        if not is_inverse and (branch.class_, property_) in branch.used:
            continue
        if branch.depth and edge.holders is not None and edge.holders < rules.floor * edge.of:
            branch.is_cut = True
            continue
        targets, is_cut = [], False
        for class_, counts in edge.targets.items():
            target = _target(branch, key, class_, counts, edge, rules)
            if target is None:
                is_cut = True
            else:
                targets.append(target)
        _follow_once(targets, edge, rules.kinds.get(key, ()), rules)
        targets.sort(key=lambda t: (-(t.share.share or 0), t.class_ is None, t.class_ or ""))
        literals = [_group(reading, property_, shape, counts, edge) for shape, counts in edge.literals.items()]
        literals.sort(key=lambda g: (-(g.frequency.share or 0), g.datatype, g.language or ""))
        opened += (t for t in targets if t.is_open)
        branch.edges.append((key, share, targets, literals, is_cut))
    branch.edges.sort(key=lambda e: (e[0][1], -(e[1].share or 0), e[0][0]))
    return opened


def _target(
    branch: Branch, key: EdgeKey, class_: str | None, counts: tuple[int, int] | None, edge: EdgeReading, rules: Rules
) -> Branch | None:
    property_, is_inverse = key
    share = UNKNOWN
    if counts is not None and edge.holders is not None:
        share = frequency(counts[0], edge.holders, is_estimated=edge.is_estimated)
    is_rare = counts is not None and counts[0] < rules.floor * edge.of
    if branch.depth and is_rare:
        return None
    used = branch.used | {(class_ if is_inverse else branch.class_, property_)}
    route = branch.route.then(Step(property_, is_inverse, class_))
    if class_ is not None and counts is not None and not edge.is_estimated and counts[1] == rules.instances.get(class_):
        route = Route(class_)  # all instances of the class: what is known of them holds here too
    depth = branch.depth + 1
    may_open = depth < rules.depth and class_ in rules.with_edges
    is_open = may_open and counts is not None and not is_rare
    nodes = None if counts is None or edge.is_estimated else counts[1]
    return Branch(class_, route, depth, used, is_open, is_cut=may_open and not is_open, share=share, nodes=nodes)


def _follow_once(targets: Iterable[Branch], edge: EdgeReading, kinds: Collection[frozenset[str]], rules: Rules) -> None:
    """Close targets whose nodes are also those of a narrower class: the same text again would tell nothing.

    They are the same if every kind there that has the narrower class has the wider one, and both have as many nodes.
    """
    followed: list[Branch] = []
    narrow_first = sorted((t for t in targets if t.class_), key=lambda t: (rules.instances.get(t.class_ or "", 0), t.class_))
    for target in (t for t in narrow_first if t.is_open):
        wide = target.class_
        for narrow in (t.class_ for t in followed):
            if edge.targets[narrow] == edge.targets[wide] and kinds and all(wide in k for k in kinds if narrow in k):
                target.is_open, target.is_cut = False, True
                break
        else:
            followed.append(target)


def _group(reading: Reading, property_: str, shape: Shape, counts: tuple[int, int] | None, edge: EdgeReading) -> LiteralGroup:
    datatype, language = shape
    share = UNKNOWN
    if counts is not None and edge.holders is not None:
        share = frequency(counts[0], edge.holders, is_estimated=edge.is_estimated)
    examples = reading.examples.get((property_, shape), ())
    is_whole = counts is not None and not edge.is_estimated and counts[1] == len(examples)
    return LiteralGroup(datatype, language, share, examples, is_whole)


def pattern(root: Branch, *, instances: int | None, sample: int) -> Pattern:
    """The pattern of a root, as far as it has grown; what is still open is marked as cut."""
    return Pattern(root.class_, instances, sample, _edges(root), root.is_cut or root.is_open)


def _edges(branch: Branch) -> tuple[Edge, ...]:
    return tuple(
        Edge(
            property_,
            is_inverse,
            share,
            tuple(Target(t.class_, t.share, _edges(t), t.is_cut or t.is_open) for t in targets),
            tuple(literals),
            is_cut,
        )
        for (property_, is_inverse), share, targets, literals, is_cut in branch.edges
    )
