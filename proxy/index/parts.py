"""Count a graph that is too large to be held, a few whole properties at a time (docs/index.md, "Downloading in parts").

What one property cannot know is which classes its nodes have. ``Typings`` keeps that for all nodes, by numbers made of their
tokens; ``Part`` is a ``Tally`` of some properties that looks it up there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import count
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from proxy.index.build import IndexBuilder
from proxy.index.ntriples import NotNTriples, read_iri
from proxy.index.support import UNTYPED, Kind
from proxy.index.tally import Ids, Tally


def numbers_of(tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Two numbers of each token, 96 bits together: Python's own keyed hash, and CRC-32.

    Two of ten million tokens have both the same with a chance of one in 10^15. Nobody outside can raise it, as the key of the
    hash is new in every process; so the numbers mean nothing in another one.
    """
    size = len(tokens)
    return np.fromiter(map(hash, tokens), np.int64, size), np.fromiter(map(crc32, tokens), np.uint32, size)


class Typings:
    """The classes of every node of a graph: 16 bytes a node. Feed with ``add``; then ``close``, once; then ask."""

    def __init__(self) -> None:
        self._ids: defaultdict[bytes, int] = defaultdict(count().__next__)
        self._parts: list[tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.int32]]] = []
        self.tokens: list[bytes] = []
        """(classes,) as they are written."""
        self.counts: Mapping[str, int] = {}
        """Class IRI → instances."""
        self.kinds: list[Kind] = [UNTYPED]
        """UNTYPED, then every exact kind of a node."""
        self.sizes: list[int] = [0]
        """(kinds,) nodes of each."""
        self._begins = self._members = np.empty(0, dtype=np.int64)
        self._hashes = np.empty(0, dtype=np.int64)
        self._checks = np.empty(0, dtype=np.uint32)
        self._kind = np.empty(0, dtype=np.int32)

    def add(self, subjects: Sequence[bytes], objects: Sequence[bytes]) -> None:
        """Note typings: *subjects* have the classes *objects*, of which only IRIs count."""
        named = [i for i, o in enumerate(objects) if o.startswith(b"<")]
        classes = np.fromiter((self._ids[objects[i]] for i in named), np.int32, len(named))
        self._parts.append((*numbers_of([subjects[i] for i in named]), classes))

    def close(self) -> None:
        """All typings are there: sort the nodes out.

        Raises:
            NotNTriples: two nodes share the hash by which they are found (once in a million graphs of a million nodes).
        """
        self.tokens = list(self._ids)
        columns = [np.concatenate(column) for column in zip(*self._parts, strict=True)] if self._parts else []
        self._parts = []
        hashes, checks, classes = columns or (self._hashes, self._checks, self._kind)
        order = np.lexsort((classes, checks, hashes))
        hashes, checks, classes = hashes[order], checks[order], classes[order]
        is_new = np.ones(len(hashes), dtype=np.bool_)
        is_new[1:] = (hashes[1:] != hashes[:-1]) | (checks[1:] != checks[:-1])
        is_other = is_new.copy()
        is_other[1:] |= classes[1:] != classes[:-1]  # the same typing twice is one
        begins = np.flatnonzero(is_new[is_other])
        hashes, checks, classes = hashes[is_other], checks[is_other], classes[is_other]
        self._hashes, self._checks = hashes[begins], checks[begins]
        if np.any(self._hashes[1:] == self._hashes[:-1]):
            raise NotNTriples("two nodes that cannot be told apart here")
        names = [read_iri(token) for token in self.tokens]
        self.counts = dict(zip(names, np.bincount(classes, minlength=len(names)).tolist(), strict=True))
        self._find_kinds(begins, classes.astype(np.int64), names)

    def _find_kinds(self, begins: Ids, classes: Ids, names: Sequence[str]) -> None:
        many = np.diff(np.append(begins, len(classes)))
        single = classes[begins]
        kind = np.zeros(len(begins), dtype=np.int32)
        members: list[tuple[int, ...]] = [()]
        alone = np.unique(single[many == 1])
        number_of = np.zeros(len(names), dtype=np.int32)
        number_of[alone] = np.arange(1, len(alone) + 1)
        members.extend((c,) for c in alone.tolist())
        kind[many == 1] = number_of[single[many == 1]]
        known: dict[bytes, int] = {}
        for node in np.flatnonzero(many > 1).tolist():
            own = classes[begins[node] : begins[node] + many[node]]
            number = known.setdefault(own.tobytes(), len(members))
            if number == len(members):
                members.append(tuple(own.tolist()))
            kind[node] = number
        self._kind = kind
        self.kinds = [Kind(frozenset(names[c] for c in own)) for own in members]
        self.sizes = np.bincount(kind, minlength=len(members)).tolist()
        self._begins = np.cumsum([0, *map(len, members)])
        self._members = np.array([c for own in members for c in own], dtype=np.int64)

    def kinds_of(self, tokens: Sequence[bytes]) -> NDArray[np.int64]:
        """(tokens,) positions in *kinds*; 0 for what has no class."""
        hashes, checks = numbers_of(tokens)
        if not len(self._hashes):
            return np.zeros(len(tokens), dtype=np.int64)
        at = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        is_known = (self._hashes[at] == hashes) & (self._checks[at] == checks)
        return np.where(is_known, self._kind[at], 0).astype(np.int64)

    def classes_of(self, kinds: Ids) -> tuple[Ids, Ids]:
        """(entries,) of *kinds*, positions in it and class numbers: one for each class of each."""
        many = self._begins[kinds + 1] - self._begins[kinds]
        rows = np.repeat(np.arange(len(kinds)), many)
        places = self._begins[kinds][rows] + np.arange(len(rows)) - np.repeat(np.cumsum(many) - many, many)
        return rows, self._members[places]


class Part(Tally):
    """All triples of some properties, with the classes of their nodes from *typings*."""

    def __init__(self, class_predicate: str, typings: Typings) -> None:
        super().__init__(class_predicate)
        self._all = typings
        for token in typings.tokens:
            _ = self._ids[token]  # so that the class with number n in *typings* is term n here

    @cached_property
    def node_kinds(self) -> Ids:
        """(terms,) positions in ``Typings.kinds``."""
        found = np.zeros(len(self.tokens), dtype=np.int64)
        nodes = np.flatnonzero(~self.is_literal)
        found[nodes] = self._all.kinds_of([self.tokens[i] for i in nodes.tolist()])
        return found

    @property
    def kinds_of_nodes(self) -> list[Kind]:
        return self._all.kinds

    @cached_property
    def typings(self) -> tuple[Ids, Ids]:
        return self._all.classes_of(self.node_kinds)

    @cached_property
    def classes(self) -> Mapping[str, int]:
        return self._all.counts

    @cached_property
    def kinds(self) -> tuple[list[Kind], Ids]:
        of_term = self.node_kinds.copy()
        of_term[self.literal_ids] = self.literals.ending + len(self._all.kinds)
        return [*self._all.kinds, *(Kind(datatype=datatype) for datatype, _ in self.literals.endings)], of_term

    def _set_instances(self, builder: IndexBuilder, kind_cap: int) -> bool:
        return self._tell_instances(builder, kind_cap, self._all.kinds, self._all.sizes)
