"""The support index S: which kinds of node are joined by which property, with counts.

A *kind* is the exact set of classes of a node, or the datatype of a literal. Mapping every term of a solution to its kind turns
the solution into a homomorphism of the query into S; so where no homomorphism exists, no solution does (docs/index.md).
The class-level matrix M[class, property, class | datatype] is a projection of S.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import NewType

import numpy as np
from numpy.typing import NDArray

from proxy.index.matrix import Matrix
from proxy.index.nodes import Features, NodeTable
from proxy.query.term import RDF_TYPE

PropertyId = NewType("PropertyId", int)
KindSet = NDArray[np.bool_]
"""A set of kinds as a mask over ``SupportIndex.kinds``."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What the graph says a term is: *classes* of a node (empty: it has none), or *datatype* of a literal."""

    classes: frozenset[str] = frozenset()
    datatype: str | None = None

    @property
    def is_literal(self) -> bool:
        return self.datatype is not None

    def __str__(self) -> str:
        if self.datatype is not None:
            return f"^^<{self.datatype}>"
        return " ".join(f"<{c}>" for c in sorted(self.classes)) or "(no class)"


UNTYPED = Kind()


@dataclass(frozen=True, slots=True)
class Cell:
    """One non-zero entry of S, or of its projection M: *count* triples."""

    subject: Kind
    property: str
    object: Kind
    count: int


@dataclass(frozen=True, slots=True)
class IncompleteChunk:
    """A part of the graph that could not be enumerated to its end, so that nothing is proved there.

    subject_class, property: what the chunk was about; None means all. reason: a sentence.
    """

    subject_class: str | None
    property: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the graph says about its own terms; hints for people and for linking, never grounds of a proof.

    labels: IRI of a class or property → (text, language or None), every labelling predicate. comments: likewise, descriptions.
    superclasses, superproperties: as declared, direct, not closed. declared_*: named by an ontology, populated or not.
    """

    labels: Mapping[str, tuple[tuple[str, str | None], ...]] = field(default_factory=dict)
    comments: Mapping[str, tuple[tuple[str, str | None], ...]] = field(default_factory=dict)
    superclasses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    superproperties: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    declared_classes: frozenset[str] = frozenset()
    declared_properties: frozenset[str] = frozenset()


class SupportIndex:
    """An immutable snapshot of S, with the lookups that proofs and questions need.

    Args:
        kinds: distinct.
        instances: (kinds,) nodes of each kind; 0 for datatypes and for UNTYPED, whose nodes nobody counts.
        subject, property_, object_: (cells,) ids into *kinds*, *properties*, *kinds*; each triple of ids at most once.
        count: (cells,) triples, > 0. Every triple of the graph is in some cell, those of the class predicate too.
        are_kinds_exact: True: a node has exactly one kind. False: *kinds* are single classes (and UNTYPED), a node belongs to
            each of its classes; then two asserted classes must be tested one after the other, never as one kind.
        multiplicity: property IRI → (most objects of one subject, most subjects of one object); absent: not known.
        languages: property IRI → language tags of its literals, lower case.
        covers_named_graphs: whether S was built over the union of all graphs, named ones included; then a pattern inside GRAPH
            may be compared with it. False: S is what the backend's default graph shows, and says nothing of the others.
        graphs: named graph → S of that graph alone, where it was read; what is inside GRAPH may be compared with that too.
        nodes: which IRIs are nodes; None: not known. features: what nodes have together; None: not known.
        built_at: seconds since the Unix epoch. epoch: grows with every rebuild of this dataset.
    """

    def __init__(
        self,
        *,
        kinds: Sequence[Kind],
        instances: NDArray[np.int64],
        properties: Sequence[str],
        subject: NDArray[np.int32],
        property_: NDArray[np.int32],
        object_: NDArray[np.int32],
        count: NDArray[np.int64],
        are_kinds_exact: bool = True,
        class_predicate: str = RDF_TYPE,
        incomplete: Sequence[IncompleteChunk] = (),
        vocabulary: Vocabulary | None = None,
        multiplicity: Mapping[str, tuple[int, int]] | None = None,
        languages: Mapping[str, frozenset[str]] | None = None,
        covers_named_graphs: bool = False,
        graphs: Mapping[str, SupportIndex] | None = None,
        nodes: NodeTable | None = None,
        features: Features | None = None,
        built_at: float = 0.0,
        epoch: int = 0,
    ) -> None:
        self.kinds = tuple(kinds)
        self.instances = instances
        self.properties = tuple(properties)
        self.subject = subject
        self.property = property_
        self.object = object_
        self.count = count
        self.are_kinds_exact = are_kinds_exact
        self.class_predicate = class_predicate
        self.incomplete = tuple(incomplete)
        self.vocabulary = vocabulary or Vocabulary()
        self.multiplicity = dict(multiplicity or {})
        self.languages = dict(languages or {})
        self.covers_named_graphs = covers_named_graphs
        self.graphs: Mapping[str, SupportIndex] = dict(graphs or {})
        self.nodes = nodes
        self.features = features
        self.built_at = built_at
        self.epoch = epoch
        self._property_ids = {iri: PropertyId(i) for i, iri in enumerate(self.properties)}
        self._cells_of_property: dict[int, NDArray[np.intp]] = {}
        order = np.argsort(property_, kind="stable")
        bounds = np.searchsorted(property_[order], np.arange(len(self.properties) + 1))
        for i in range(len(self.properties)):
            self._cells_of_property[i] = order[bounds[i] : bounds[i + 1]]

    def with_graphs(self, graphs: Mapping[str, SupportIndex]) -> SupportIndex:
        """The same with *graphs*."""
        made = copy(self)
        made.graphs = dict(graphs)
        return made

    # -- sets of kinds

    @property
    def triples(self) -> int:
        return int(self.count.sum())

    @cached_property
    def is_literal(self) -> KindSet:
        """(kinds,) True for datatypes."""
        return np.array([k.is_literal for k in self.kinds], dtype=np.bool_)

    @cached_property
    def class_instances(self) -> Mapping[str, int]:
        """Class → nodes that have it."""
        totals: dict[str, int] = defaultdict(int)
        for kind, n in zip(self.kinds, self.instances.tolist(), strict=True):
            for c in kind.classes:
                totals[c] += n
        return dict(totals)

    @cached_property
    def _kinds_with_class(self) -> Mapping[str, KindSet]:
        masks: dict[str, KindSet] = {}
        for i, kind in enumerate(self.kinds):
            for c in kind.classes:
                masks.setdefault(c, np.zeros(len(self.kinds), dtype=np.bool_))[i] = True
        return masks

    def kinds_with_class(self, class_: str) -> KindSet:
        """Kinds whose nodes have *class_*; empty where it has no instance. Do not write to the result."""
        found = self._kinds_with_class.get(class_)
        return np.zeros(len(self.kinds), dtype=np.bool_) if found is None else found

    # -- cells

    def property_id(self, iri: str) -> PropertyId | None:
        return self._property_ids.get(iri)

    def cells(self, property_: str) -> NDArray[np.intp]:
        """Positions of the cells of *property_*; empty for a property without triples."""
        found = self._property_ids.get(property_)
        return np.empty(0, dtype=np.intp) if found is None else self._cells_of_property[found]

    def cell(self, position: int) -> Cell:
        return Cell(
            self.kinds[self.subject[position]],
            self.properties[self.property[position]],
            self.kinds[self.object[position]],
            int(self.count[position]),
        )

    # -- the class-level matrix

    @cached_property
    def matrix(self) -> Matrix:
        """M: (class or None, property, class or datatype or None) → triples. None stands for "has no class".

        With exact kinds a triple counts once for every pair of a class of its subject and a class of its object.
        """
        return Matrix(self.kinds, self.properties, self.subject, self.property, self.object, self.count)

    def prepare(self) -> None:
        """Work out now what is else worked out when it is first asked for: in the middle of somebody's request."""
        _ = self.is_literal, self.class_instances, self._kinds_with_class, self.matrix

    def targets(self, class_: str | None, property_: str) -> Mapping[str | None, int]:
        """What *property_* leads to from *class_*: class, datatype or None → triples."""
        return self.matrix.targets(class_, property_)

    def properties_of(self, class_: str | None) -> Mapping[str, int]:
        """Properties whose subjects have *class_* → triples (multi-typed objects counted once per class)."""
        return self.matrix.properties_of(class_)

    def properties_into(self, class_: str | None) -> Mapping[str, Mapping[str | None, int]]:
        """Properties whose objects have *class_* → subject class → triples."""
        return self.matrix.properties_into(class_)

    def subject_classes(self, property_: str) -> Mapping[str | None, int]:
        """Classes of the subjects of *property_* → triples."""
        totals: dict[str | None, int] = defaultdict(int)
        for position in self.cells(property_).tolist():
            cell = self.cell(position)
            for c in cell.subject.classes or (None,):
                totals[c] += cell.count
        return dict(totals)

    # -- completeness

    def is_complete_for(self, classes: Iterable[str] = (), properties: Iterable[str] = ()) -> bool:
        """Whether every chunk that could hold a triple of these is complete; without arguments: whether all are."""
        wanted_classes, wanted_properties = frozenset(classes), frozenset(properties)
        for chunk in self.incomplete:
            class_ok = chunk.subject_class is not None and wanted_classes and chunk.subject_class not in wanted_classes
            property_ok = chunk.property is not None and wanted_properties and chunk.property not in wanted_properties
            if not (class_ok or property_ok):
                return False
        return True
