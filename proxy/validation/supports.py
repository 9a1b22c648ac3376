"""The support index laid out for proofs: sets of kinds as the bits of an int, properties as pairs of kinds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from weakref import WeakKeyDictionary

from proxy.index.nodes import UNKNOWN_KIND
from proxy.index.support import SupportIndex
from proxy.index.values import ValueIndex
from proxy.query.literals import BOOLEAN, NUMERIC, TEMPORAL, Family, family
from proxy.query.term import Literal
from proxy.validation.observed import Observed

_FAMILIES = (NUMERIC, TEMPORAL, frozenset((BOOLEAN,)))
"""Datatypes whose literals may be equal in value. Outside them engines compare in different ways: any literal will do."""

_MAX_KEPT = 100_000
_SKOLEM = "/.well-known/genid/"
"""In an IRI that some stores read as a blank node (RDF 1.1 Concepts, section 3.5)."""


class Adjacency:
    """The kinds that one property joins, or several.

    pairs: (subject kind as a bit, object kinds as bits). subjects, objects: all of them.
    """

    __slots__ = ("objects", "pairs", "subjects")

    def __init__(self, pairs: Iterable[tuple[int, int]]) -> None:
        self.pairs = tuple(pairs)
        self.subjects = self.objects = 0
        for subject, objects in self.pairs:
            self.subjects |= subject
            self.objects |= objects


class Supports:
    """The index, laid out for proofs. observed: the literals; None: nothing is known of them."""

    def __init__(self, index: SupportIndex, observed: Observed | None = None) -> None:
        self.index = index
        self.observed = observed
        self.everything = (1 << len(index.kinds)) - 1
        self.literals = sum(1 << i for i, kind in enumerate(index.kinds) if kind.is_literal)
        self.nodes = self.everything & ~self.literals
        self.texts = sum(1 << i for i, kind in enumerate(index.kinds) if kind.datatype and family(kind.datatype) is Family.TEXT)
        self._families = tuple(
            sum(1 << i for i, kind in enumerate(index.kinds) if kind.datatype in datatypes) for datatypes in _FAMILIES
        )
        self._classes: dict[str, int] = {}
        for i, kind in enumerate(index.kinds):
            for c in kind.classes:
                self._classes[c] = self._classes.get(c, 0) | 1 << i
        self._adjacency: dict[str | None, Adjacency] = {}
        self._triples: dict[str, int] = {}
        self._met: dict[tuple[int, int], bool] = {}

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
            found = self._adjacency[property_] = Adjacency((1 << s, o) for s, o in objects.items())
        return found

    def literal_kinds(self, literal: Literal) -> int:
        """Kinds of the literals that some engine may hold equal to *literal*."""
        for datatypes, kinds in zip(_FAMILIES, self._families, strict=True):
            if literal.datatype in datatypes:
                return kinds
        return self.literals

    def family_kinds(self, literal: Literal) -> int:
        """Kinds of the family of *literal*, a number, date or time."""
        return self._families[0 if family(literal.datatype) is Family.NUMBER else 1]

    def triples(self, property_: str) -> int:
        """Triples of *property_*; more, where kinds are single classes."""
        found = self._triples.get(property_)
        if found is None:
            found = self._triples[property_] = int(self.index.count[self.index.cells(property_)].sum())
        return found

    def node_kinds(self, iris: Iterable[str]) -> int:
        """Kinds of those of *iris* that are nodes; 0: none is."""
        table, found = self.index.nodes, 0
        for iri in iris if table is not None else ():
            kind = table.kind(iri) if table is not None and _SKOLEM not in iri else UNKNOWN_KIND
            if kind == UNKNOWN_KIND:
                return self.nodes
            if kind is not None:
                found |= 1 << kind
        return self.nodes if table is None else found

    def may_meet(self, a: int, b: int) -> bool:
        """Whether one node may have both features (``index.features``)."""
        key = (a, b)
        found = self._met.get(key)
        if found is None:
            if len(self._met) >= _MAX_KEPT:
                self._met.clear()
            features = self.index.features
            found = self._met[key] = features is None or features.may_meet(a, b)
        return found

    def is_complete(self, classes: Sequence[str], property_: str | None) -> bool:
        """Whether absence can be trusted for triples of *property_* (None: any) whose subject has all of *classes*."""
        if not self.index.incomplete:
            return True
        properties = () if property_ is None else (property_,)
        if self.index.is_complete_for((), properties):
            return True
        return any(self.index.is_complete_for((c,), properties) for c in classes)


_SUPPORTS: WeakKeyDictionary[SupportIndex, Supports] = WeakKeyDictionary()
_WITH_VALUES: WeakKeyDictionary[ValueIndex, Supports] = WeakKeyDictionary()


def supports_of(index: SupportIndex, values: ValueIndex | None = None) -> Supports:
    """What is laid out for *index*, kept as long as it lives.

    Args:
        values: of the same build; adds what is known of literals.
    """
    if values is not None:
        known = _WITH_VALUES.get(values)
        if known is None or known.index is not index:
            known = _WITH_VALUES[values] = Supports(index, Observed(index, values))
        return known
    found = _SUPPORTS.get(index)
    if found is None:
        found = _SUPPORTS[index] = Supports(index)
    return found
