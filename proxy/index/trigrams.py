"""Which of many texts share most with a given one: posting lists of trigrams, weighed by rarity.

SQLite's own FTS5 trigram index was measured first and is 10 to 25 times slower at this: docs/index.md, "The value index".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from proxy.index.arrays import sorted_unique

LISTS_MOST: Final = 24
POSTINGS_MOST: Final = 400_000
"""Postings read for one search, so that its time does not grow with the graph; the rarest trigrams come first."""


def trigrams(folded: str) -> frozenset[str]:
    """Three letters in a row, a blank before and after *folded* included."""
    padded = f" {folded} "
    return frozenset(padded[i : i + 3] for i in range(len(padded) - 2))


def postings(ids: Sequence[int], folded: Sequence[str]) -> Iterator[tuple[str, NDArray[np.int32]]]:
    """Trigram → those of *ids* whose text holds it, ascending, as *ids* are.

    On the code points of all texts at once, numbered densely, so that three of them and a text fit into one number.
    """
    if not ids:
        return
    # Two blanks between texts: the end of one and the beginning of the next. A trigram over the border is told by its place.
    points = np.frombuffer(f" {'  '.join(folded)} ".encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    alphabet = np.flatnonzero(np.bincount(points))
    size = len(alphabet)
    # In 16 bits, which sort in linear time, as long as there are at most 40 letters.
    width: Any = np.uint16 if size**3 <= 1 << 16 else np.int64
    dense: NDArray[Any] = np.zeros(int(alphabet[-1]) + 1, dtype=width)
    dense[alphabet] = np.arange(size)
    letters = dense[points]
    of_text = np.repeat(np.arange(len(ids), dtype=np.int32), [len(f) + 2 for f in folded])
    is_within = of_text[:-2] == of_text[2:]
    codes = ((letters[:-2] * width(size) + letters[1:-1]) * width(size) + letters[2:])[is_within]
    codes, of_text = _sorted(codes, of_text[:-2][is_within], len(ids))
    if not len(codes):
        return  # every text is empty
    all_ids = np.array(ids, dtype=np.int32)[of_text]
    begins = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
    names = [chr(a) for a in alphabet.tolist()]
    for code, lo, hi in zip(codes[begins].tolist(), begins.tolist(), [*begins[1:].tolist(), len(codes)], strict=True):
        rest, third = divmod(code, size)
        yield names[rest // size] + names[rest % size] + names[third], all_ids[lo:hi]


def _sorted(codes: NDArray[Any], of_text: NDArray[np.int32], texts: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The pairs by code, then text, each once; *of_text* is ascending."""
    if codes.dtype != np.uint16:  # numbers below 2 ** 63 up to 35,000 letters and 200,000 texts
        return np.divmod(sorted_unique((codes * texts + of_text).astype(np.int64)), texts)
    order = np.argsort(codes, kind="stable")
    codes, of_text = codes[order], of_text[order]
    is_new = np.ones(len(codes), dtype=np.bool_)
    is_new[1:] = (codes[1:] != codes[:-1]) | (of_text[1:] != of_text[:-1])
    return codes[is_new], of_text[is_new]


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
