"""The node table and the features of a graph whose triples were all counted here (index/tally.py)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from proxy.index.arrays import sorted_unique
from proxy.index.build import IndexBuilder
from proxy.index.nodes import NODES_MOST, Features, fingerprints, pairs_of
from proxy.index.ntriples import read_iri
from proxy.index.parts import Part, numbers_of
from proxy.index.support import Kind
from proxy.index.tally import Tally


def gather_nodes(tally: Tally, builder: IndexBuilder) -> None:
    """Hand over which IRIs are nodes and what nodes have together; after ``Tally.count_into``, which decides about kinds.

    Every triple counts, those of excluded properties too.
    """
    ids = sorted_unique(np.concatenate([tally.subject, tally.object]))
    ids = ids[tally.is_iri[ids]]
    if len(ids) <= NODES_MOST:
        kinds, of_term = tally.kinds
        known: list[Kind | None] = [k if builder.are_kinds_exact or len(k.classes) < 2 else None for k in kinds]
        prints = fingerprints([tally.tokens[i] for i in ids.tolist()], read_iri)
        builder.set_nodes(prints, known, of_term[ids])
    builder.features = _features(tally)


class NodesOfParts:
    """The node table of a graph that is counted in parts; its features are not known, for no part has all that a node has."""

    def __init__(self) -> None:
        self._hashes = np.empty(0, dtype=np.int64)
        self._checks = np.empty(0, dtype=np.uint32)
        self._found: list[tuple[NDArray[np.uint32], NDArray[np.int32]]] = []
        self._kinds: list[Kind] = []

    def add(self, part: Part) -> None:
        """Take the nodes of *part* that no part before it had."""
        if len(self._hashes) > NODES_MOST:
            return
        ids = sorted_unique(np.concatenate([part.subject, part.object]))
        ids = ids[part.is_iri[ids]]
        hashes, checks = numbers_of([part.tokens[i] for i in ids.tolist()])
        is_new = np.ones(len(ids), dtype=np.bool_)
        if len(self._hashes):
            at = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
            is_new = (self._hashes[at] != hashes) | (self._checks[at] != checks)
        ids = ids[is_new]
        prints = fingerprints([part.tokens[i] for i in ids.tolist()], read_iri)
        self._found.append((prints, part.node_kinds[ids].astype(np.int32)))
        self._kinds = part.kinds_of_nodes
        hashes, checks = np.append(self._hashes, hashes[is_new]), np.append(self._checks, checks[is_new])
        order = np.argsort(hashes)
        self._hashes, self._checks = hashes[order], checks[order]

    def hand_over(self, builder: IndexBuilder) -> None:
        """After the last part."""
        if len(self._hashes) <= NODES_MOST:
            known: list[Kind | None] = [k if builder.are_kinds_exact or len(k.classes) < 2 else None for k in self._kinds]
            prints = [p for p, _ in self._found] or [np.empty(0, dtype=np.uint32)]
            kinds = [k for _, k in self._found] or [np.empty(0, dtype=np.int32)]
            builder.set_nodes(np.concatenate(prints), known, np.concatenate(kinds).astype(np.int64))


def _features(tally: Tally) -> Features | None:
    properties, of_triple = np.unique(tally.property, return_inverse=True)
    classes, of_typing = np.unique(tally.typings[1], return_inverse=True)
    to_node = ~tally.is_literal[tally.object]
    size = len(classes) + 2 * len(properties)
    nodes = np.concatenate([tally.typings[0], tally.subject, tally.object[to_node]])
    features = np.concatenate(
        [of_typing, of_triple + len(classes), of_triple[to_node] + len(classes) + len(properties)]
    ).astype(np.int64)
    pairs = pairs_of(nodes, features, size)
    if pairs is None:
        return None
    return Features([tally.iri(i) for i in classes.tolist()], [tally.iri(i) for i in properties.tolist()], pairs)
