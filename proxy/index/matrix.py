"""M, the class-level matrix: (class, property, class or datatype) → triples, a projection of S in 20 bytes a cell.

A dictionary of dictionaries would answer in half the time, and take 300 bytes a cell.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Key = tuple[str | None, str, str | None]
"""None stands for "has no class"."""
Ids = NDArray[np.int64]


class HasNames(Protocol):
    """The part of a kind that matters here."""

    @property
    def classes(self) -> frozenset[str]: ...
    @property
    def datatype(self) -> str | None: ...


class Matrix(Mapping[Key, int]):
    """Immutable. Where kinds are exact a triple counts once for every pair of a class of its subject and one of its object.

    Args:
        kinds, properties: what the ids stand for. subject, property_, object_, count: (cells,) of S.
    """

    def __init__(
        self,
        kinds: Sequence[HasNames],
        properties: Sequence[str],
        subject: NDArray[np.int32],
        property_: NDArray[np.int32],
        object_: NDArray[np.int32],
        count: NDArray[np.int64],
    ) -> None:
        classes = sorted({c for k in kinds for c in k.classes})
        datatypes = sorted({k.datatype for k in kinds if k.datatype is not None}.difference(classes))
        self._properties = list(properties)
        self._targets: list[str | None] = [None, *classes, *datatypes]
        """No class, the classes, then the datatypes that are no classes, too."""
        self._numbers = {name: i for i, name in enumerate(self._targets)}
        self._property_ids = {p: i for i, p in enumerate(properties)}
        number = self._numbers
        ends = [[number[k.datatype]] if k.datatype is not None else [number[c] for c in k.classes] or [0] for k in kinds]
        rows, s = _expand(np.asarray(subject, dtype=np.int64), ends)
        again, o = _expand(np.asarray(object_, dtype=np.int64)[rows], ends)
        keys = s[again] * max(1, len(properties)) + np.asarray(property_, dtype=np.int64)[rows][again]
        cells, which = np.unique(keys * len(self._targets) + o, return_inverse=True)
        totals = np.zeros(len(cells), dtype=np.int64)
        np.add.at(totals, which, np.asarray(count, dtype=np.int64)[rows][again])
        pairs, target = np.divmod(cells, len(self._targets))
        first = np.arange(len(self._targets) + 1) * max(1, len(properties))
        self._begins = array("q", np.searchsorted(pairs, first).astype(np.int64).tobytes())
        """(targets + 1,) the first cell of each class, as it is numbered in *_targets*."""
        self._pair = array("q", pairs.tobytes())  # of which bisect reads single numbers four times as fast as of numpy's
        self._target = array("i", target.astype(np.int32).tobytes())
        self._count = array("q", totals.tobytes())

    def __len__(self) -> int:
        return len(self._pair)

    def __iter__(self) -> Iterator[Key]:
        width = max(1, len(self._properties))
        for pair, target in zip(self._pair, self._target, strict=True):
            c, p = divmod(pair, width)
            yield self._targets[c], self._properties[p], self._targets[target]

    def __getitem__(self, key: Key) -> int:
        return self.targets(key[0], key[1])[key[2]]

    def items(self) -> Iterator[tuple[Key, int]]:  # type: ignore[override]  # read once, in order; no view is made
        return zip(self, self._count, strict=True)

    def values(self) -> Iterator[int]:  # type: ignore[override]
        return iter(self._count)

    def targets(self, class_: str | None, property_: str) -> dict[str | None, int]:
        """What *property_* leads to from *class_*."""
        c, p = self._numbers.get(class_), self._property_ids.get(property_)
        if c is None or p is None:
            return {}
        pairs, pair, end = self._pair, c * len(self._properties) + p, self._begins[c + 1]
        at = bisect_left(pairs, pair, self._begins[c], end)
        found: dict[str | None, int] = {}
        while at < end and pairs[at] == pair:
            found[self._targets[self._target[at]]] = self._count[at]
            at += 1
        return found

    def properties_of(self, class_: str | None) -> dict[str, int]:
        """Properties out of *class_*."""
        width = len(self._properties)
        if (c := self._numbers.get(class_)) is None:
            return {}
        found: dict[str, int] = {}
        for at in range(self._begins[c], self._begins[c + 1]):
            p = self._properties[self._pair[at] - c * width]
            found[p] = found.get(p, 0) + self._count[at]
        return found

    def properties_into(self, target: str | None) -> dict[str, dict[str | None, int]]:
        """Properties into *target*, by class of the subject."""
        found: dict[str, dict[str | None, int]] = {}
        wanted = self._numbers.get(target, -1)
        for at in np.flatnonzero(np.array(self._target, dtype=np.int32) == wanted).tolist():
            c, p = divmod(self._pair[at], len(self._properties))
            found.setdefault(self._properties[p], {})[self._targets[c]] = self._count[at]
        return found


def _expand(kinds: Ids, ends: Sequence[Sequence[int]]) -> tuple[Ids, Ids]:
    """(row, end) for each of the *ends* of the kind of each row."""
    sizes = np.array([len(e) for e in ends], dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    flat = np.array([i for e in ends for i in e], dtype=np.int64)
    many = sizes[kinds]
    rows = np.repeat(np.arange(len(kinds)), many)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(many) - many, many)
    return rows, flat[starts[kinds][rows] + within]
