"""From the answers of chunk queries to a ``SupportIndex``: adding up, and subtracting where that is exact.

Nothing is asked here. The distiller (pipeline/distil.py) runs the queries of chunks.py and hands each *complete* answer over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from proxy.index.chunks import End
from proxy.index.nodes import UNKNOWN_KIND, Features, NodeTable
from proxy.index.support import UNTYPED, IncompleteChunk, Kind, SupportIndex, Vocabulary
from proxy.query.term import RDF_TYPE, BlankNode, Iri, Literal, RdfTerm, TripleTerm

KIND_CAP = 2_000
"""More kinds than this are not listed; single classes stand in for them (``are_kinds_exact=False``)."""

Row = Mapping[str, RdfTerm | None]


def number(term: RdfTerm | None) -> int:
    """Read a COUNT or MAX; an absent one (MAX over nothing) is 0."""
    return int(float(term.lexical)) if isinstance(term, Literal) else 0


def text(term: RdfTerm | None) -> str:
    """The IRI or lexical form of *term*; empty for what has neither."""
    match term:
        case Iri(value):
            return value
        case Literal(lexical=lexical):
            return lexical
        case BlankNode() | TripleTerm() | None:
            return ""


def kind_of(classes: str) -> Kind:
    """Read a blank-separated concatenation of class IRIs, in any order."""
    return Kind(frozenset(classes.split()))


@dataclass(slots=True)
class Distribution:
    """What the objects of one chunk's triples are, by subject kind and property.

    literals: (kind, property) → datatype → triples. nodes: (kind, property) → triples whose object is not a literal.
    objects: (kind, property) → kind (or, with atoms, class) of the object → triples; only objects that have a class.
    typed: (kind, property) → triples whose object has a class, each once; None: the sum of *objects*.
    languages: property → language tags.
    """

    literals: dict[tuple[Kind, str], dict[str, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    nodes: dict[tuple[Kind, str], int] = field(default_factory=lambda: defaultdict(int))
    objects: dict[tuple[Kind, str], dict[Kind, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    typed: dict[tuple[Kind, str], int] | None = None
    languages: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add_shapes(self, rows: Iterable[Row], subject: Kind, property_: str | None) -> None:
        """Take the answer of ``chunks.shapes``; *subject* and *property_* stand in for ?k and ?p where these were not asked."""
        for row in rows:
            key = _key(row, subject, property_)
            datatype = text(row.get("t"))
            if not datatype:
                self.nodes[key] += number(row.get("n"))
                continue
            self.literals[key][datatype] += number(row.get("n"))
            if language := text(row.get("l")):
                self.languages[key[1]].add(language)

    def add_objects(self, rows: Iterable[Row], subject: Kind, property_: str | None) -> None:
        """Take the answer of ``chunks.object_kinds`` or ``chunks.object_classes``."""
        for row in rows:
            self.objects[_key(row, subject, property_)][kind_of(text(row.get("j")))] += number(row.get("n"))

    def add_typed(self, rows: Iterable[Row], subject: Kind, property_: str | None) -> None:
        """Take the answer of ``chunks.typed_objects``."""
        if self.typed is None:
            self.typed = defaultdict(int)
        for row in rows:
            self.typed[_key(row, subject, property_)] += number(row.get("n"))

    def without(self, excluded: frozenset[str]) -> Distribution:
        """The same, less the properties in *excluded*."""
        if not excluded:
            return self
        return Distribution(
            {k: v for k, v in self.literals.items() if k[1] not in excluded},
            {k: v for k, v in self.nodes.items() if k[1] not in excluded},
            {k: v for k, v in self.objects.items() if k[1] not in excluded},
            None if self.typed is None else {k: v for k, v in self.typed.items() if k[1] not in excluded},
            {p: v for p, v in self.languages.items() if p not in excluded},
        )

    def triples(self) -> Mapping[tuple[Kind, str], int]:
        """(kind, property) → triples, each once."""
        totals: dict[tuple[Kind, str], int] = defaultdict(int, self.nodes)
        for key, by_datatype in self.literals.items():
            totals[key] += sum(by_datatype.values())
        return totals

    def untyped_objects(self) -> Mapping[tuple[Kind, str], int]:
        """(kind, property) → triples whose object is a node without a class.

        A difference of two counts of the same triples, each once, so it is exact; below zero, the data changed in between.
        """
        typed = self.typed if self.typed is not None else {k: sum(v.values()) for k, v in self.objects.items()}
        keys = self.nodes.keys() | typed.keys()
        return {key: self.nodes.get(key, 0) - typed.get(key, 0) for key in keys}


def _key(row: Row, subject: Kind, property_: str | None) -> tuple[Kind, str]:
    kind = kind_of(text(row["k"])) if "k" in row else subject
    return kind, property_ if property_ is not None else text(row.get("p"))


class IndexBuilder:
    """Collects chunks; one per build.

    Args:
        are_kinds_exact: as in ``SupportIndex``; decided before the first cell, from the kinds found.
    """

    def __init__(self, *, class_predicate: str = RDF_TYPE, are_kinds_exact: bool = True) -> None:
        self.class_predicate = class_predicate
        self.are_kinds_exact = are_kinds_exact
        self.incomplete: list[IncompleteChunk] = []
        self._instances: dict[Kind, int] = {}
        self._cells: dict[tuple[Kind, str, Kind], int] = {}
        self._typed_triples: dict[str, int] = defaultdict(int)
        self._languages: dict[str, set[str]] = defaultdict(set)
        self._multiplicity: dict[str, tuple[int, int]] = {}
        self._nodes: tuple[NDArray[np.uint32], NDArray[np.int64], list[Kind | None]] | None = None
        self.features: Features | None = None

    def set_instances(self, kind: Kind, count: int) -> None:
        """Note that *count* nodes have exactly *kind* (or, with atoms, that class). Said twice, it counts once."""
        self._instances[kind] = count

    def set_multiplicity(self, property_: str, *, objects: int, subjects: int) -> None:
        self._multiplicity[property_] = (objects, subjects)

    def give_up(self, subject_class: str | None, property_: str | None, reason: str) -> None:
        """Note that no certificate holds for this chunk. None means all."""
        self.incomplete.append(IncompleteChunk(subject_class, property_, reason))

    def add(self, found: Distribution, subject_class: str | None) -> None:
        """Take the cells of one complete chunk.

        A kind with several classes is met in the chunk of each, with the same counts: set, not added. Counts that cannot both
        be true (a write came between two queries) make the chunk incomplete and keep every cell that either saw.
        """
        for (kind, p), by_datatype in found.literals.items():
            for datatype, n in by_datatype.items():
                self._set(kind, p, Kind(datatype=datatype), n)
        for (kind, p), by_kind in found.objects.items():
            for object_kind, n in by_kind.items():
                self._set(kind, p, object_kind, n)
        changed = set()
        for (kind, p), n in found.untyped_objects().items():
            if n > 0:
                self._set(kind, p, UNTYPED, n)
            elif n < 0:
                changed.add(p)
        for p in sorted(changed):
            self.give_up(subject_class, p, "the data changed while it was read")
        for p, tags in found.languages.items():
            self._languages[p] |= tags

    def _set(self, subject: Kind, property_: str, object_: Kind, n: int) -> None:
        more = n - self._cells.get((subject, property_, object_), 0)
        if more > 0:
            self._cells[subject, property_, object_] = n
            if subject != UNTYPED:
                self._typed_triples[property_] += more

    def set_cells(self, cells: Mapping[tuple[Kind, str, Kind], int]) -> None:
        """Take all cells at once, from a count of every triple (index/tally.py)."""
        for (s, p, o), n in cells.items():
            self._set(s, p, o, n)

    def begin_with(self, index: SupportIndex, touched: Collection[str]) -> None:
        """Take everything of *index* but what it has of *touched* properties."""
        self.class_predicate = index.class_predicate
        self.are_kinds_exact = index.are_kinds_exact
        self.incomplete = [c for c in index.incomplete if c.property is None or c.property not in touched]
        for kind, n in zip(index.kinds, index.instances.tolist(), strict=True):
            if n:
                self.set_instances(kind, n)
        for position in range(len(index.count)):
            if (cell := index.cell(position)).property not in touched:
                self._set(cell.subject, cell.property, cell.object, cell.count)
        self._multiplicity = {p: m for p, m in index.multiplicity.items() if p not in touched}
        if (table := index.nodes) is not None:
            number = np.where(table.kinds == UNKNOWN_KIND, -1, table.kinds.astype(np.int64))
            self._nodes = table.prints, number, list(index.kinds)
        if index.features is not None:
            self.features = index.features.without(touched)
        self._languages.update({p: set(tags) for p, tags in index.languages.items() if p not in touched})

    def set_nodes(self, prints: NDArray[np.uint32], kinds: Sequence[Kind | None], kind: NDArray[np.int64]) -> None:
        """Take the IRIs that are nodes.

        Args:
            prints: (entries,) fingerprints, in any order. kind: (entries,) positions in *kinds*; None there: unknown.
        """
        self._nodes = prints, kind, list(kinds)

    def add_nodes(self, prints: NDArray[np.uint32], kind: Kind) -> None:
        """Add nodes of *kind* to those of ``begin_with``."""
        assert self._nodes is not None
        known, number, kinds = self._nodes
        more = np.full(len(prints), len(kinds), dtype=np.int64)
        self._nodes = np.concatenate([known, prints]), np.concatenate([number, more]), [*kinds, kind]

    def drop_nodes(self) -> None:
        """Forget which IRIs are nodes."""
        self._nodes = None

    @property
    def has_nodes(self) -> bool:
        return self._nodes is not None

    def cells(self) -> Collection[tuple[Kind, str, Kind]]:
        """What has a cell so far."""
        return self._cells.keys()

    def untyped_ends(self) -> Mapping[tuple[str, End], int]:
        """The ends of properties where there are nodes without a class → triples."""
        found: dict[tuple[str, End], int] = defaultdict(int)
        for (subject, p, object_), n in self._cells.items():
            if subject == UNTYPED:
                found[p, "subject"] += n
            if object_ == UNTYPED:
                found[p, "object"] += n
        return dict(found)

    def add_languages(self, property_: str, tags: Iterable[str]) -> None:
        self._languages[property_].update(tags)

    def typed_triples(self, property_: str) -> int:
        """Triples of *property_* so far whose subject has a class, each once; meaningful only with exact kinds."""
        return self._typed_triples[property_]

    def properties(self) -> frozenset[str]:
        """Properties with a cell so far."""
        return frozenset(p for _, p, _ in self._cells)

    def literal_cells(self) -> Mapping[tuple[str | None, str], Mapping[str, int]]:
        """(class or None, property) → datatype → triples: the pairs that have values to gather.

        With exact kinds the count is exact: a subject has one kind, so it is counted once for each of its classes.
        """
        found: dict[tuple[str | None, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for (subject, p, o), n in self._cells.items():
            if o.datatype is not None:
                for c in subject.classes or (None,):
                    found[c, p][o.datatype] += n
        return {key: dict(v) for key, v in sorted(found.items(), key=lambda item: (item[0][0] or "", item[0][1]))}

    def finish(
        self,
        *,
        vocabulary: Vocabulary | None = None,
        covers_named_graphs: bool = False,
        built_at: float = 0.0,
        epoch: int = 0,
    ) -> SupportIndex:
        """Number kinds and properties in a stable order and make the arrays."""
        kinds = self._instances.keys() | {k for s, _, o in self._cells for k in (s, o)}
        ordered = sorted(kinds, key=lambda k: (k.is_literal, k.datatype or "", sorted(k.classes)))
        kind_ids = {k: i for i, k in enumerate(ordered)}
        properties = sorted({p for _, p, _ in self._cells})
        property_ids = {p: i for i, p in enumerate(properties)}
        cells = sorted((kind_ids[s], property_ids[p], kind_ids[o], n) for (s, p, o), n in self._cells.items())
        table = np.array(cells, dtype=np.int64).reshape(-1, 4)
        return SupportIndex(
            kinds=ordered,
            instances=np.array([self._instances.get(k, 0) for k in ordered], dtype=np.int64),
            properties=properties,
            subject=table[:, 0].astype(np.int32),
            property_=table[:, 1].astype(np.int32),
            object_=table[:, 2].astype(np.int32),
            count=table[:, 3].copy(),
            are_kinds_exact=self.are_kinds_exact,
            class_predicate=self.class_predicate,
            incomplete=self.incomplete,
            vocabulary=vocabulary,
            multiplicity=self._multiplicity,
            languages={p: frozenset(tags) for p, tags in self._languages.items()},
            covers_named_graphs=covers_named_graphs,
            nodes=self._node_table(kind_ids),
            features=self.features,
            built_at=built_at,
            epoch=epoch,
        )

    def _node_table(self, kind_ids: Mapping[Kind, int]) -> NodeTable | None:
        if self._nodes is None:
            return None
        prints, kind, kinds = self._nodes
        # a kind without a cell is what an unlucky write in between has made: nothing is known of it
        numbers = np.array([-1, *(-1 if k is None else kind_ids.get(k, -1) for k in kinds)], dtype=np.int64)
        return NodeTable.of(prints, numbers[kind + 1])
