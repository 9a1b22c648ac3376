"""Count every triple of a graph once, here: the other way to the same index, cheaper where the graph is small (docs/index.md).

Tokens are numbered as they come; all counting is on arrays of these numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from proxy.index.build import IndexBuilder, Row
from proxy.index.ntriples import NotNTriples, read, split
from proxy.index.support import UNTYPED, Kind
from proxy.query.term import Iri, Literal, RdfTerm

Ids = NDArray[np.int64]


class Tally:
    """All triples of a graph by numbers. Feed lines with ``add``; then ``close``, once; then ask.

    About 12 bytes a triple, and a dictionary of all distinct terms.
    """

    def __init__(self, class_predicate: str) -> None:
        self.class_predicate = class_predicate
        self._ids: dict[bytes, int] = {}
        self._rest = b""
        self._parts: list[NDArray[np.int32]] = []
        self.subject = self.property = self.object = np.empty(0, dtype=np.int64)
        self.terms: list[RdfTerm] = []
        self.lines = 0

    # -- reading

    def add(self, data: bytes) -> None:
        """Take the next piece of an N-Triples document.

        Raises:
            NotNTriples
        """
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        self._take(lines)

    def _take(self, lines: Sequence[bytes]) -> None:
        self.lines += len(lines)
        ids = self._ids
        numbers: list[int] = []
        last_token, last = b"", -1
        for line in lines:
            parts = line.split(b" ", 2)
            # As every server here writes: single blanks, " ." at the end. What looks otherwise is taken apart with care.
            if len(parts) == 3 and parts[2].endswith(b" .") and line[0] in b"<_":
                s, p, o = parts[0], parts[1], parts[2][:-2]
            elif (found := split(line)) is not None:
                s, p, o = found
            else:
                continue
            if s != last_token:
                last_token, last = s, ids.setdefault(s, len(ids))
            numbers += last, ids.setdefault(p, len(ids)), ids.setdefault(o, len(ids))
        self._parts.append(np.array(numbers, dtype=np.int32))

    def close(self) -> None:
        """The document is complete: read the distinct terms, drop triples that came twice.

        Raises:
            NotNTriples
        """
        if self._rest.strip():
            self._take([self._rest])
        table = np.concatenate(self._parts).reshape(-1, 3).astype(np.int64) if self._parts else np.empty((0, 3), dtype=np.int64)
        self._parts = []
        self.terms = [read(token) for token in self._ids]
        self._ids = {}
        size = max(1, len(self.terms))
        if size**3 < 2**63:
            keys = np.unique((table[:, 1] * size + table[:, 0]) * size + table[:, 2])
            self.property, rest = np.divmod(keys, size * size)
            self.subject, self.object = np.divmod(rest, size)
        else:
            properties, number = np.unique(table[:, 1], return_inverse=True)
            if len(properties) * size**2 >= 2**63:
                raise NotNTriples("too many terms to be counted here")
            keys = np.unique((number * size + table[:, 0]) * size + table[:, 2])
            number, rest = np.divmod(keys, size * size)
            self.property = properties[number]
            self.subject, self.object = np.divmod(rest, size)
        if not all(isinstance(self.terms[p], Iri) for p in np.unique(self.property).tolist()):
            raise NotNTriples("a property that is no IRI")
        if np.any(self.is_literal[self.subject]):
            raise NotNTriples("a subject that is a literal")

    # -- what terms are

    @cached_property
    def is_literal(self) -> NDArray[np.bool_]:
        return np.array([isinstance(t, Literal) for t in self.terms], dtype=np.bool_)

    @cached_property
    def is_iri(self) -> NDArray[np.bool_]:
        return np.array([isinstance(t, Iri) for t in self.terms], dtype=np.bool_)

    @cached_property
    def properties(self) -> Mapping[str, int]:
        """Property IRI → triples."""
        ids, counts = np.unique(self.property, return_counts=True)
        return {self.iri(i): n for i, n in zip(ids.tolist(), counts.tolist(), strict=True)}

    @cached_property
    def property_ids(self) -> Mapping[str, int]:
        return {self.iri(i): i for i in np.unique(self.property).tolist()}

    def iri(self, term: int) -> str:
        found = self.terms[term]
        assert isinstance(found, Iri)
        return found.value

    @cached_property
    def typings(self) -> tuple[Ids, Ids]:
        """(nodes, classes): one pair for each class of each node, sorted by node."""
        wanted = self.property_ids.get(self.class_predicate, -1)
        chosen = (self.property == wanted) & self.is_iri[self.object] if len(self.terms) else np.zeros(0, dtype=np.bool_)
        return self.subject[chosen], self.object[chosen]

    @cached_property
    def classes(self) -> Mapping[str, int]:
        """Class IRI → instances."""
        ids, counts = np.unique(self.typings[1], return_counts=True)
        return {self.iri(i): n for i, n in zip(ids.tolist(), counts.tolist(), strict=True)}

    @cached_property
    def _kinds(self) -> tuple[list[Kind], Ids]:
        """All kinds, and (terms,) the kind of each. The first kind is UNTYPED."""
        kinds: dict[Kind, int] = {UNTYPED: 0}
        of_term = np.zeros(len(self.terms), dtype=np.int64)
        nodes, classes = self.typings
        unique, first, counts = np.unique(nodes, return_index=True, return_counts=True)
        class_ids = np.unique(classes)
        single = np.zeros(len(self.terms), dtype=np.int64)
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
        for i in np.flatnonzero(self.is_literal).tolist():
            of_term[i] = self._datatype_kind(i, kinds)
        return list(kinds), of_term

    def _datatype_kind(self, term: int, kinds: dict[Kind, int]) -> int:
        literal = self.terms[term]
        assert isinstance(literal, Literal)
        number = self._datatypes.get(literal.datatype)
        if number is None:
            number = self._datatypes[literal.datatype] = kinds.setdefault(Kind(datatype=literal.datatype), len(kinds))
        return number

    @cached_property
    def _datatypes(self) -> dict[str, int]:
        return {}

    # -- counting

    def count_into(self, builder: IndexBuilder, excluded: frozenset[str], *, kind_cap: int) -> None:
        """Hand all cells, instances, multiplicities and languages over, those of *excluded* properties left out."""
        kinds, of_term = self._kinds
        node_kinds = np.bincount(of_term[np.unique(self.typings[0])], minlength=len(kinds))
        are_exact = int(np.count_nonzero(node_kinds)) <= kind_cap
        builder.are_kinds_exact = are_exact
        if are_exact:
            for i in np.flatnonzero(node_kinds).tolist():
                builder.set_instances(kinds[i], int(node_kinds[i]))
        else:
            for class_, n in self.classes.items():
                builder.set_instances(Kind(frozenset([class_])), n)
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
        for name, lo, hi in zip(names, bounds, [*bounds[1:], len(self.property)], strict=True):
            if name not in excluded:
                most = [int(np.unique(side[lo:hi], return_counts=True)[1].max()) for side in (self.subject, self.object)]
                builder.set_multiplicity(name, objects=most[0], subjects=most[1])
        for name, tags in self._languages(names, number).items():
            if name not in excluded:
                builder.add_languages(name, tags)

    def _languages(self, names: Sequence[str], number: Ids) -> Mapping[str, set[str]]:
        tags: dict[str, int] = {"": 0}
        of_term = np.zeros(len(self.terms), dtype=np.int64)
        for i, term in enumerate(self.terms):
            if isinstance(term, Literal) and term.language is not None:
                of_term[i] = tags.setdefault(term.language.lower(), len(tags))
        found: dict[str, set[str]] = defaultdict(set)
        listed = list(tags)
        for key in np.unique(number * len(listed) + of_term[self.object]).tolist():
            p, tag = divmod(key, len(listed))
            if tag:
                found[names[p]].add(listed[tag])
        return found

    # -- rows, as the queries of chunks.py would have brought them

    def statements(self, property_: str, subjects: frozenset[str] | None = None) -> list[Row]:
        """?s ?o of *property_*; of *subjects* only, if given."""
        p = self.property_ids.get(property_)
        if p is None:
            return []
        lo, hi = np.searchsorted(self.property, [p, p + 1])
        rows: list[Row] = []
        for s, o in zip(self.subject[lo:hi].tolist(), self.object[lo:hi].tolist(), strict=True):
            subject = self.terms[s]
            if subjects is None or (isinstance(subject, Iri) and subject.value in subjects):
                rows.append({"s": subject, "o": self.terms[o]})
        return rows

    def literals(self) -> Iterator[tuple[str | None, str, Ids, Ids, Ids]]:
        """(class or None, property, literals, their counts, one subject of each), a pair at a time; most frequent first."""
        nodes, classes = self.typings
        chosen = np.flatnonzero(self.is_literal[self.object])
        s, p, o = self.subject[chosen], self.property[chosen], self.object[chosen]
        first = np.searchsorted(nodes, s, side="left")
        many = np.searchsorted(nodes, s, side="right") - first
        rows = np.repeat(np.arange(len(s)), np.maximum(many, 1))
        starts = np.repeat(np.cumsum(np.maximum(many, 1)) - np.maximum(many, 1), np.maximum(many, 1))
        places = np.repeat(first, np.maximum(many, 1)) + np.arange(len(rows)) - starts
        class_of = np.full(len(rows), -1, dtype=np.int64)
        is_typed = np.repeat(many > 0, np.maximum(many, 1))
        class_of[is_typed] = classes[places[is_typed]]
        s, p, o = s[rows], p[rows], o[rows]
        order = np.lexsort((o, p, class_of))
        s, p, o, class_of = s[order], p[order], o[order], class_of[order]
        if not len(s):
            return
        is_new = np.ones(len(s), dtype=np.bool_)
        is_new[1:] = (o[1:] != o[:-1]) | (p[1:] != p[:-1]) | (class_of[1:] != class_of[:-1])
        begins = np.flatnonzero(is_new)
        counts = np.diff(np.append(begins, len(s)))
        s, p, o, class_of = s[begins], p[begins], o[begins], class_of[begins]
        pairs = np.flatnonzero(np.append(True, (p[1:] != p[:-1]) | (class_of[1:] != class_of[:-1])))
        for lo, hi in zip(pairs.tolist(), [*pairs[1:].tolist(), len(s)], strict=True):
            by_count = lo + np.argsort(-counts[lo:hi], kind="stable")
            c = int(class_of[lo])
            yield None if c < 0 else self.iri(c), self.iri(int(p[lo])), o[by_count], counts[by_count], s[by_count]

    def unlabelled(self, class_: str, labels: Sequence[str], *, limit: int) -> list[Row]:
        """?s: instances of *class_* named by an IRI that have none of *labels*."""
        nodes, classes = self.typings
        c = next((i for i in np.unique(classes).tolist() if self.iri(i) == class_), -1)
        labelled = [self.property_ids[p] for p in labels if p in self.property_ids]
        having = np.unique(self.subject[np.isin(self.property, labelled)])
        found = np.setdiff1d(nodes[(classes == c) & self.is_iri[nodes]], having)
        return [{"s": self.terms[i]} for i in found[:limit].tolist()]


def _atoms(kind: Kind) -> Sequence[Kind]:
    """The single classes that stand for a kind where there are too many kinds."""
    return [Kind(frozenset([c])) for c in kind.classes] if len(kind.classes) > 1 else (kind,)
