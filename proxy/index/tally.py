"""Count every triple of a graph once, here: the other way to the same index, cheaper where the graph is small (docs/index.md).

Tokens are numbered as they come; all counting is on arrays of these numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count

import numpy as np
from numpy.typing import NDArray

from proxy.index.arrays import sorted_unique
from proxy.index.build import IndexBuilder, Row
from proxy.index.ntriples import Literals, NotNTriples, read, read_iri, read_iris, read_literals, require_nodes, split
from proxy.index.support import UNTYPED, Kind
from proxy.query.term import Iri, RdfTerm

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LiteralPairs:
    """The distinct literals of every (class, property), one pair after another, in each the most frequent first.

    classes, properties: (pairs,) term numbers, class -1 for subjects without one. begins: (pairs,) first entry of each.
    literals: (entries,) positions in ``Tally.literals``. counts, subjects: (entries,) triples, and the subject of one of them.
    """

    classes: Ids
    properties: Ids
    begins: Ids
    literals: Ids
    counts: Ids
    subjects: Ids


class Tally:
    """All triples of a graph by numbers. Feed lines with ``add``; then ``close``, once; then ask.

    About 12 bytes a triple, and a dictionary of all distinct terms.
    """

    def __init__(self, class_predicate: str) -> None:
        self.class_predicate = class_predicate
        self._ids: defaultdict[bytes, int] = defaultdict(count().__next__)
        self._rest = b""
        self._parts: list[NDArray[np.int32]] = []
        self.subject = self.property = self.object = np.empty(0, dtype=np.int64)
        self.tokens: list[bytes] = []
        self.literals = Literals([], np.empty(0, dtype=np.int64), [])
        self.literal_ids = np.empty(0, dtype=np.int64)
        """(literals,) the numbers of *literals*, ascending."""
        self.lines = 0
        self.is_literal = self.is_iri = np.empty(0, dtype=np.bool_)

    # -- reading

    def add(self, data: bytes) -> None:
        """Take the next piece of an N-Triples document.

        Raises:
            NotNTriples
        """
        whole, end, self._rest = (self._rest + data).rpartition(b"\n")
        if end:
            self._take(whole + end)

    def _take(self, text: bytes) -> None:
        """Number the terms of whole lines."""
        lines = text.split(b" .\n")
        n = text.count(b"\n")
        self.lines += n
        tokens: list[bytes] = []
        if not lines.pop() and len(lines) == n:  # as every server here writes: single blanks, " ." at the end
            tokens = list(chain.from_iterable([line.split(b" ", 2) for line in lines]))
        if len(tokens) < 3 * n:  # a line that looks otherwise: each is taken apart with care
            tokens = list(chain.from_iterable(filter(None, map(split, text.split(b"\n")))))
        self._parts.append(np.fromiter(map(self._ids.__getitem__, tokens), dtype=np.int32, count=len(tokens)))

    def close(self) -> None:
        """The document is complete: read the distinct terms, drop triples that came twice.

        Raises:
            NotNTriples
        """
        if self._rest.strip():
            self._take(self._rest + b"\n")
        table = np.concatenate(self._parts).reshape(-1, 3).astype(np.int64) if self._parts else np.empty((0, 3), dtype=np.int64)
        self._parts = []
        self.tokens = list(self._ids)
        self._ids.clear()
        self._read_terms()
        size = max(1, len(self.tokens))
        if size**3 < 2**63:
            keys = sorted_unique((table[:, 1] * size + table[:, 0]) * size + table[:, 2])
            self.property, rest = np.divmod(keys, size * size)
            self.subject, self.object = np.divmod(rest, size)
        else:
            properties, number = np.unique(table[:, 1], return_inverse=True)
            if len(properties) * size**2 >= 2**63:
                raise NotNTriples("too many terms to be counted here")
            keys = sorted_unique((number * size + table[:, 0]) * size + table[:, 2])
            number, rest = np.divmod(keys, size * size)
            self.property = properties[number]
            self.subject, self.object = np.divmod(rest, size)
        if not (np.all(self.is_iri[sorted_unique(self.property)]) and not np.any(self.is_literal[self.subject])):
            raise NotNTriples("a literal in the place of a subject, or a property that is no IRI")

    def _read_terms(self) -> None:
        begins = np.frombuffer(b"".join([token[:1] for token in self.tokens]), dtype=np.uint8)
        if len(begins) < len(self.tokens):
            raise NotNTriples("an empty term")
        self.is_literal = begins == ord('"')
        self.is_iri = begins == ord("<")
        self.literal_ids = np.flatnonzero(self.is_literal)
        tokens = self.tokens
        self.literals = read_literals([tokens[i] for i in self.literal_ids.tolist()])
        require_nodes([tokens[i] for i in np.flatnonzero(~self.is_literal).tolist()])

    # -- what terms are

    def term(self, i: int) -> RdfTerm:
        """What the number stands for."""
        return Iri(self.iri(i)) if self.is_iri[i] else read(self.tokens[i])

    def iri(self, i: int) -> str:
        """The IRI that the number stands for."""
        return read_iri(self.tokens[i])

    def iris(self, numbers: Ids) -> list[str]:
        """``iri`` of each."""
        tokens = self.tokens
        return read_iris([tokens[i] for i in numbers.tolist()])

    @cached_property
    def properties(self) -> Mapping[str, int]:
        """Property IRI → triples."""
        ids, counts = np.unique(self.property, return_counts=True)
        return {self.iri(i): n for i, n in zip(ids.tolist(), counts.tolist(), strict=True)}

    @cached_property
    def property_ids(self) -> Mapping[str, int]:
        return {self.iri(i): i for i in sorted_unique(self.property).tolist()}

    @cached_property
    def typings(self) -> tuple[Ids, Ids]:
        """(nodes, classes): one pair for each class of each node, sorted by node."""
        wanted = self.property_ids.get(self.class_predicate, -1)
        chosen = (self.property == wanted) & self.is_iri[self.object] if len(self.tokens) else np.zeros(0, dtype=np.bool_)
        return self.subject[chosen], self.object[chosen]

    @cached_property
    def classes(self) -> Mapping[str, int]:
        """Class IRI → instances."""
        ids, counts = np.unique(self.typings[1], return_counts=True)
        return {self.iri(i): n for i, n in zip(ids.tolist(), counts.tolist(), strict=True)}

    @cached_property
    def kinds(self) -> tuple[list[Kind], Ids]:
        """All kinds, and (terms,) the kind of each. The first kind is UNTYPED."""
        kinds: dict[Kind, int] = {UNTYPED: 0}
        of_term = np.zeros(len(self.tokens), dtype=np.int64)
        nodes, classes = self.typings
        unique, first, counts = np.unique(nodes, return_index=True, return_counts=True)
        class_ids = sorted_unique(classes)
        single = np.zeros(len(self.tokens), dtype=np.int64)
        for c in class_ids.tolist():
            single[c] = kinds.setdefault(Kind(frozenset([self.iri(c)])), len(kinds))
        of_term[unique[counts == 1]] = single[classes[first[counts == 1]]]
        several = counts > 1
        known: dict[tuple[int, ...], int] = {}
        for node, at, n in zip(unique[several].tolist(), first[several].tolist(), counts[several].tolist(), strict=True):
            key = tuple(sorted(classes[at : at + n].tolist()))
            if (number := known.get(key)) is None:
                kind = Kind(frozenset(self.iri(c) for c in key))
                number = known[key] = kinds.setdefault(kind, len(kinds))
            of_term[node] = number
        datatypes = [kinds.setdefault(Kind(datatype=datatype), len(kinds)) for datatype, _ in self.literals.endings]
        of_term[self.literal_ids] = np.array(datatypes, dtype=np.int64)[self.literals.ending]
        return list(kinds), of_term

    # -- counting

    def count_into(self, builder: IndexBuilder, excluded: frozenset[str], *, kind_cap: int) -> None:
        """Hand all cells, instances, multiplicities and languages over, those of *excluded* properties left out."""
        kinds, of_term = self.kinds
        are_exact = self._set_instances(builder, kind_cap)
        width = len(kinds)
        pids, number = np.unique(self.property, return_inverse=True)
        pairs = of_term[self.subject] * max(1, len(pids)) + number
        keys, counts = np.unique(pairs * width + of_term[self.object], return_counts=True)
        cells: dict[tuple[Kind, str, Kind], int] = defaultdict(int)
        names = [self.iri(p) for p in pids.tolist()]
        for key, n in zip(keys.tolist(), counts.tolist(), strict=True):
            rest, o = divmod(key, width)
            s, p = divmod(rest, len(names))
            if names[p] in excluded:
                continue
            for subject in (kinds[s],) if are_exact else _atoms(kinds[s]):
                for object_ in (kinds[o],) if are_exact else _atoms(kinds[o]):
                    cells[subject, names[p], object_] += n
        builder.set_cells(cells)
        bounds = np.searchsorted(self.property, pids).tolist()
        ends = [*bounds[1:], len(self.property)] if bounds else []
        for name, lo, hi in zip(names, bounds, ends, strict=True):
            if name not in excluded:
                most = [int(np.unique(side[lo:hi], return_counts=True)[1].max()) for side in (self.subject, self.object)]
                builder.set_multiplicity(name, objects=most[0], subjects=most[1])
        for name, tags in self._languages(names, number).items():
            if name not in excluded:
                builder.add_languages(name, tags)

    def _set_instances(self, builder: IndexBuilder, kind_cap: int) -> bool:
        """Hand over how many nodes there are of each kind; whether kinds are exact."""
        kinds, of_term = self.kinds
        sizes = np.bincount(of_term[sorted_unique(self.typings[0])], minlength=len(kinds))
        return self._tell_instances(builder, kind_cap, kinds, sizes.tolist())

    def _tell_instances(self, builder: IndexBuilder, kind_cap: int, kinds: Sequence[Kind], sizes: Sequence[int]) -> bool:
        builder.are_kinds_exact = sum(n > 0 for n in sizes) <= kind_cap
        if builder.are_kinds_exact:
            for kind, n in zip(kinds, sizes, strict=True):
                if n:
                    builder.set_instances(kind, n)
        else:
            for class_, n in self.classes.items():
                builder.set_instances(Kind(frozenset([class_])), n)
        return builder.are_kinds_exact

    def _languages(self, names: Sequence[str], number: Ids) -> Mapping[str, set[str]]:
        tags: dict[str, int] = {"": 0}
        of_term = np.zeros(len(self.tokens), dtype=np.int64)
        of_ending = [0 if tag is None else tags.setdefault(tag.lower(), len(tags)) for _, tag in self.literals.endings]
        of_term[self.literal_ids] = np.array(of_ending, dtype=np.int64)[self.literals.ending]
        found: dict[str, set[str]] = defaultdict(set)
        listed = list(tags)
        for key in sorted_unique(number * len(listed) + of_term[self.object]).tolist():
            p, tag = divmod(key, len(listed))
            if tag:
                found[names[p]].add(listed[tag])
        return found

    # -- rows, as the queries of chunks.py would have brought them

    def statements(
        self, property_: str, subjects: frozenset[str] | None = None, objects: frozenset[str] | None = None
    ) -> list[Row]:
        """?s ?o of *property_*; of these *subjects* and *objects* only, if given."""
        p = self.property_ids.get(property_)
        if p is None:
            return []
        lo, hi = np.searchsorted(self.property, [p, p + 1])
        rows: list[Row] = []
        chosen = np.arange(lo, hi)
        for side, wanted in ((self.subject, subjects), (self.object, objects)):
            if wanted is not None:
                chosen = chosen[np.isin(side[chosen], self._among(sorted_unique(side[chosen]), wanted))]
        for s, o in zip(self.subject[chosen].tolist(), self.object[chosen].tolist(), strict=True):
            rows.append({"s": self.term(s), "o": self.term(o)})
        return rows

    def _among(self, numbers: Ids, wanted: frozenset[str]) -> list[int]:
        """Those of *numbers* that stand for one of the IRIs *wanted*; most are told by their bytes, unread."""
        tokens, own = self.tokens, {f"<{iri}>".encode("utf-8", "surrogatepass") for iri in wanted}
        return [
            i for i in numbers.tolist() if (t := tokens[i]) in own or (b"\\" in t and self.is_iri[i] and self.iri(i) in wanted)
        ]

    def literal_pairs(self, excluded: frozenset[str]) -> LiteralPairs:
        """Every literal of every (class, property), but for *excluded* properties."""
        nodes, classes = self.typings
        left_out = [self.property_ids[p] for p in excluded if p in self.property_ids]
        chosen = np.flatnonzero(self.is_literal[self.object] & ~np.isin(self.property, left_out))
        s, p = self.subject[chosen], self.property[chosen]
        o = np.searchsorted(self.literal_ids, self.object[chosen])
        first = np.searchsorted(nodes, s, side="left")
        many = np.searchsorted(nodes, s, side="right") - first
        times = np.maximum(many, 1)
        rows = np.repeat(np.arange(len(s)), times)
        places = first[rows] + np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
        class_of = np.full(len(rows), -1, dtype=np.int64)
        is_typed = many[rows] > 0
        class_of[is_typed] = classes[places[is_typed]]
        s, p, o = s[rows], p[rows], o[rows]
        order = np.lexsort((o, p, class_of))
        s, p, o, class_of = s[order], p[order], o[order], class_of[order]
        begins = _changes(class_of, p, o)
        counts = np.diff(np.append(begins, len(s)))
        s, p, o, class_of = s[begins], p[begins], o[begins], class_of[begins]
        begins = _changes(class_of, p)
        pair = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(s))))
        order = np.lexsort((-counts, pair))
        return LiteralPairs(class_of[begins], p[begins], begins, o[order], counts[order], s[order])

    def unlabelled(self, class_: str, labels: Sequence[str], *, limit: int) -> list[Row]:
        """?s: instances of *class_* named by an IRI that have none of *labels*."""
        nodes, classes = self.typings
        c = next((i for i in sorted_unique(classes).tolist() if self.iri(i) == class_), -1)
        labelled = [self.property_ids[p] for p in labels if p in self.property_ids]
        having = sorted_unique(self.subject[np.isin(self.property, labelled)])
        found = np.setdiff1d(nodes[(classes == c) & self.is_iri[nodes]], having)
        return [{"s": self.term(i)} for i in found[:limit].tolist()]


def _atoms(kind: Kind) -> Sequence[Kind]:
    """The single classes that stand for a kind where there are too many kinds."""
    return [Kind(frozenset([c])) for c in kind.classes] if len(kind.classes) > 1 else (kind,)


def _changes(*columns: Ids) -> Ids:
    """(groups,) where a run of equal rows begins."""
    differs = np.ones(len(columns[0]), dtype=np.bool_)
    differs[1:] = np.logical_or.reduce([c[1:] != c[:-1] for c in columns])
    return np.flatnonzero(differs)
