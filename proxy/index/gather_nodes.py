"""The node table and the features of a graph whose triples were all counted here (index/tally.py)."""

from __future__ import annotations

import numpy as np

from proxy.index.arrays import sorted_unique
from proxy.index.build import IndexBuilder
from proxy.index.nodes import NODES_MOST, Features, fingerprint, pairs_of
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
        prints = np.fromiter((fingerprint(tally.iri(i)) for i in ids.tolist()), dtype=np.uint32, count=len(ids))
        builder.set_nodes(prints, known, of_term[ids])
    builder.features = _features(tally)


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
