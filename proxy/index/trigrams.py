"""Which of many texts share most with a given one: posting lists of trigrams, weighed by rarity.

SQLite's own FTS5 trigram index was measured first and is 10 to 25 times slower at this: docs/index.md, "The value index".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

LISTS_MOST: Final = 24
POSTINGS_MOST: Final = 400_000
"""Postings read for one search, so that its time does not grow with the graph; the rarest trigrams come first."""


def trigrams(folded: str) -> frozenset[str]:
    """Three letters in a row, a blank before and after *folded* included."""
    padded = f" {folded} "
    return frozenset(padded[i : i + 3] for i in range(len(padded) - 2))


def postings(texts: Iterable[tuple[int, str]]) -> Mapping[str, NDArray[np.int32]]:
    """Trigram → ids of the (id, folded text) that hold it."""
    lists: dict[str, list[int]] = defaultdict(list)
    for i, folded in texts:
        for trigram in trigrams(folded):
            lists[trigram].append(i)
    return {t: np.array(ids, dtype=np.int32) for t, ids in lists.items()}


def closest(lists: Sequence[NDArray[np.int32]], lengths: NDArray[np.int16], length: int, *, limit: int) -> NDArray[np.intp]:
    """Ids of the *limit* texts that share the most and rarest trigrams for their length, best first.

    Args:
        lists: the postings of the trigrams of one text, rarest first, none empty.
        lengths: (ids,) characters of each text. length: of the text looked for.
    """
    if not lists:
        return np.empty(0, dtype=np.intp)
    sizes = np.array([len(ids) for ids in lists])
    read = max(1, int(np.searchsorted(np.cumsum(sizes), POSTINGS_MOST, side="right")))
    weights = np.repeat(np.log1p(len(lengths) / sizes[:read]), sizes[:read])
    shared = np.bincount(np.concatenate(lists[:read]), weights=weights, minlength=len(lengths))
    found = np.flatnonzero(shared)
    scores = shared[found] / (lengths[found] + length)
    if len(found) > limit:
        best = np.argpartition(-scores, limit - 1)[:limit]
        found, scores = found[best], scores[best]
    return found[np.lexsort((found, -scores))]
