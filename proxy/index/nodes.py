"""Which IRIs are nodes of the graph, of which kind each is, and what no single node has together.

Both tables err on one side: an IRI that is a node is never said to be absent, nor of a kind that it has not, and two features
of one node are never said to exclude each other. The reverse may happen and costs a proof only.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from urllib.parse import unquote_to_bytes
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from proxy.index.arrays import sorted_unique

NODES_MOST = 4_000_000
"""IRIs that are kept, at 6 bytes each; of a larger graph none are."""
PAIRS_MOST = 4_000_000
"""Pairs of features that are kept, at 8 bytes each; of a graph with more none are."""
UNKNOWN_KIND = 0xFFFF

_PLAIN = re.compile(r"[a-z][a-z0-9+.-]*+:(?://[a-z0-9._-]++(?=/[!$&-.0->@-~])|(?![./]))(?:[!-$&-.0-~]++|/(?![./]))*+")
"""IRIs that are in this form already; most are."""
_PLAIN_BYTES = re.compile(_PLAIN.pattern.encode("ascii"))
_PARTS = re.compile(r"([^:/?#]+:)(//[^/?#]*)?([^?#]*)(.*)", re.DOTALL)
_DEFAULT_PORT = re.compile(r":(?:80|443)?\Z")


def comparable(iri: str) -> str:
    """The form in which IRIs are compared here: one for all that some engine may take for the same (RFC 3987, section 5.3).

    Escapes are decoded, scheme and authority are in lower case without a default port, dot segments and repeated slashes are
    removed, the rest is in Unicode's NFC. More IRIs fall together than in any engine, which loses nothing but proofs.
    """
    if _PLAIN.fullmatch(iri):
        return iri
    text = unquote_to_bytes(iri).decode("utf-8", "surrogateescape") if "%" in iri else iri
    parts = _PARTS.fullmatch(unicodedata.normalize("NFC", text))
    if parts is None:
        return text
    scheme, authority, path, rest = parts[1].lower(), (parts[2] or "").lower(), parts[3], parts[4]
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == ".." and kept:
            kept.pop()
        elif segment not in (".", "..", ""):
            kept.append(segment)
    ending = "/" if kept and path.endswith(("/", "/.", "/..")) else ""
    start = "/" if kept and path.startswith("/") else ""
    return f"{scheme}{_DEFAULT_PORT.sub('', authority)}{start}{'/'.join(kept)}{ending}{rest}"


def fingerprint(iri: str) -> int:
    """32 bits of *iri* in its comparable form."""
    return crc32(comparable(iri).encode("utf-8", "surrogatepass"))


def fingerprints(tokens: Sequence[bytes], read: Callable[[bytes], str]) -> NDArray[np.uint32]:
    """Those of IRIs as N-Triples has them, in angle brackets; *read* makes the IRI of a token that is not plain ASCII."""
    own = [token[1:-1] for token in tokens]
    found = np.fromiter(map(crc32, own), dtype=np.uint32, count=len(own))
    for i, is_plain in enumerate(map(_PLAIN_BYTES.fullmatch, own)):
        if is_plain is None:
            found[i] = fingerprint(read(tokens[i]))
    return found


class NodeTable:
    """The IRIs that are subject or object of some triple, by fingerprint.

    Args:
        prints: (nodes,) ascending, each once.
        kinds: (nodes,) position in ``SupportIndex.kinds``; UNKNOWN_KIND where several nodes share the fingerprint, or where
            the node has several of these kinds.
    """

    def __init__(self, prints: NDArray[np.uint32], kinds: NDArray[np.uint16]) -> None:
        self.prints = prints
        self.kinds = kinds
        # One look-up in plain Python costs less than one call of numpy.
        self._sorted = np.ascontiguousarray(prints, dtype=np.uint32).data.cast("B").cast("I") if len(prints) else b""

    def __len__(self) -> int:
        return len(self.prints)

    def kind(self, iri: str) -> int | None:
        """The kind of *iri*, UNKNOWN_KIND if that is all that is known; None: it is certainly no node.

        An IRI that is no node is taken for one in n of 2³² cases.
        """
        wanted = fingerprint(iri)
        at = bisect_left(self._sorted, wanted)
        if at == len(self._sorted) or self._sorted[at] != wanted:
            return None
        return int(self.kinds[at])

    @classmethod
    def of(cls, prints: NDArray[np.uint32], kinds: NDArray[np.int64]) -> NodeTable:
        """From one entry per node, or several for nodes with several kinds; a kind below zero is unknown."""
        order = np.lexsort((kinds, prints))
        prints, kinds = prints[order], kinds[order]
        begins = np.flatnonzero(np.append(True, prints[1:] != prints[:-1])) if len(prints) else np.empty(0, dtype=np.int64)
        ends = np.append(begins[1:], len(prints)) - 1 if len(prints) else begins
        low, high = kinds[begins], kinds[ends]
        is_known = (low == high) & (low >= 0) & (low < UNKNOWN_KIND)
        return cls(prints[begins], np.where(is_known, low, UNKNOWN_KIND).astype(np.uint16))

    @classmethod
    def of_iris(cls, kinds: Mapping[str, int]) -> NodeTable:
        """From IRI → kind, below zero where it is unknown."""
        prints = np.fromiter(map(fingerprint, kinds), dtype=np.uint32, count=len(kinds))
        return cls.of(prints, np.fromiter(kinds.values(), dtype=np.int64, count=len(kinds)))


class Features:
    """Which features occur together at one node: having a class, being subject of a property, being object of one.

    Features are numbered: the classes, then the properties as subjects, then as objects.

    Args:
        pairs: (pairs,) ``a * size + b`` with a < b, ascending: the features that some node has both of.
        unknown: numbers of features that nothing is said about.
    """

    def __init__(
        self, classes: Sequence[str], properties: Sequence[str], pairs: NDArray[np.int64], unknown: Iterable[int] = ()
    ) -> None:
        self.classes = tuple(classes)
        self.properties = tuple(properties)
        self.pairs = pairs
        self.unknown = frozenset(unknown)
        self._of_class = {c: i for i, c in enumerate(self.classes)}
        self._of_property = {p: len(self.classes) + i for i, p in enumerate(self.properties)}

    @property
    def size(self) -> int:
        return len(self.classes) + 2 * len(self.properties)

    def of_class(self, class_: str) -> int | None:
        return self._of_class.get(class_)

    def of_subject(self, property_: str) -> int | None:
        return self._of_property.get(property_)

    def of_object(self, property_: str) -> int | None:
        found = self._of_property.get(property_)
        return None if found is None else found + len(self.properties)

    def may_meet(self, a: int, b: int) -> bool:
        """Whether one node may have both features."""
        if a == b or a in self.unknown or b in self.unknown:
            return True
        key = np.int64(min(a, b) * self.size + max(a, b))
        at = int(np.searchsorted(self.pairs, key))
        return at < len(self.pairs) and bool(self.pairs[at] == key)

    def without(self, properties: Iterable[str]) -> Features:
        """The same, less what is said about *properties*."""
        found = {f for p in properties for f in (self.of_subject(p), self.of_object(p)) if f is not None}
        return Features(self.classes, self.properties, self.pairs, self.unknown | found)


def pairs_of(nodes: NDArray[np.int64], features: NDArray[np.int64], size: int) -> NDArray[np.int64] | None:
    """``Features.pairs`` from (node, feature) entries, in any order; None: more than PAIRS_MOST.

    Nodes of a kind tend to have the same features, so each distinct set is spread out once.
    """
    keys = sorted_unique(nodes * size + features)
    nodes, features = np.divmod(keys, size)
    ends = [*(np.flatnonzero(nodes[1:] != nodes[:-1]) + 1).tolist(), len(nodes)]
    packed, width = features.tobytes(), features.itemsize
    sets = {packed[width * lo : width * hi] for lo, hi in zip([0, *ends], ends, strict=False)}
    found = np.empty(0, dtype=np.int64)
    waiting: list[NDArray[np.int64]] = []
    size_waiting = 0
    of_length: defaultdict[int, list[bytes]] = defaultdict(list)
    for one in sets:
        of_length[len(one) // width].append(one)
    for length, alike in of_length.items():
        if length < 2:
            continue
        if length**2 > 2 * PAIRS_MOST:
            return None
        a, b = np.triu_indices(length, 1)
        at_once = 1 + PAIRS_MOST // (4 * len(a))
        for at in range(0, len(alike), at_once):
            own = np.frombuffer(b"".join(alike[at : at + at_once]), dtype=np.int64).reshape(-1, length)
            waiting.append(sorted_unique((own[:, a] * size + own[:, b]).ravel()))
            size_waiting += len(waiting[-1])
            if size_waiting > PAIRS_MOST:
                found = sorted_unique(np.concatenate([found, *waiting]))
                waiting, size_waiting = [], 0
                if len(found) > PAIRS_MOST:
                    return None
    found = sorted_unique(np.concatenate([found, *waiting])) if waiting else found
    return found if len(found) <= PAIRS_MOST else None
