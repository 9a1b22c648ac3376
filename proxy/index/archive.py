"""A graph's indexes to and from one file: versioned, checksummed, written whole or not at all, read memory-mapped (does I/O).

Layout: the value index as a SQLite database (which does not mind what follows its last page), the arrays of the support index,
each at a multiple of 64 bytes, a JSON description of everything else, and a footer of fixed size with a digest of all of it.
The arrays and the database's pages are mapped, so several processes share one copy in memory.

A file is never trusted: a wrong magic, version, fingerprint, length or digest, or a description that does not fit the arrays,
is ``CorruptIndex``, and whoever loads builds anew.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from proxy.errors import CorruptIndex
from proxy.index.nodes import Features, NodeTable
from proxy.index.support import IncompleteChunk, Kind, SupportIndex, Vocabulary
from proxy.index.values import ValueIndex

FORMAT_VERSION = 3
"""Grows whenever an older reader would misread a file; a file of another version is built anew."""
_MAGIC = b"SPARLNCE"
_FOOTER = struct.Struct("<8sIIQQ32s")
"""Magic, version, unused, offset and length of the description, digest of all before the footer."""
_ALIGNMENT = 64
_NO_LENGTHS = np.empty(0, dtype=np.int16)
_PIECE = 1 << 20
_ARRAYS: Mapping[str, str] = {
    "instances": "<i8",
    "subject": "<i4",
    "property": "<i4",
    "object": "<i4",
    "count": "<i8",
    "lengths": "<i2",
    "node_prints": "<u4",
    "node_kinds": "<u2",
    "feature_pairs": "<i8",
}


class _Array(msgspec.Struct):
    offset: int
    size: int


class _Kind(msgspec.Struct, array_like=True):
    classes: list[str]
    datatype: str | None


class _Features(msgspec.Struct):
    """``Features`` without its pairs."""

    classes: list[str]
    properties: list[str]
    unknown: list[int]


class _Description(msgspec.Struct):
    """Everything but the arrays and the values."""

    fingerprint: str
    marker: str | None
    queries: int
    elapsed_s: float
    arrays: dict[str, _Array]
    kinds: list[_Kind]
    properties: list[str]
    are_kinds_exact: bool
    class_predicate: str
    incomplete: list[tuple[str | None, str | None, str]]
    multiplicity: dict[str, tuple[int, int]]
    languages: dict[str, list[str]]
    covers_named_graphs: bool
    built_at: float
    epoch: int
    labels: dict[str, list[tuple[str, str | None]]]
    comments: dict[str, list[tuple[str, str | None]]]
    superclasses: dict[str, list[str]]
    superproperties: dict[str, list[str]]
    declared_classes: list[str]
    declared_properties: list[str]
    has_nodes: bool
    features: _Features | None
    graphs: dict[str, _Description]
    """Of ``SupportIndex.graphs``, by IRI, each with arrays of its own."""


@dataclass(frozen=True, slots=True)
class Archived:
    """What a file holds. marker: what the backend said about its data when they were read. size_bytes: of the file.

    queries, elapsed_s: what making it cost.
    """

    index: SupportIndex
    values: ValueIndex
    marker: str | None
    queries: int
    elapsed_s: float
    size_bytes: int


def write(
    path: Path,
    index: SupportIndex,
    values: ValueIndex,
    *,
    fingerprint: str,
    marker: str | None = None,
    queries: int = 0,
    elapsed_s: float = 0.0,
) -> None:
    """Put both indexes into *path*, in place of what is there; *values* stays open and as it is.

    Args:
        fingerprint: of all settings that shaped the indexes; ``load`` compares it.
    Raises:
        OSError: the file cannot be written (a full disk); what was at *path* is still there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        values.copy_to(part)
        with part.open("r+b") as file:
            digest = hashlib.blake2b(digest_size=32)
            while piece := file.read(_PIECE):
                digest.update(piece)
            description = _describe(index, _put(file, digest, index, values.lengths), fingerprint, marker, queries, elapsed_s)
            for graph, own in index.graphs.items():
                description.graphs[graph] = _describe(own, _put(file, digest, own, _NO_LENGTHS))
            described = msgspec.json.encode(description)
            offset = file.tell()
            _append(file, digest, described)
            file.write(_FOOTER.pack(_MAGIC, FORMAT_VERSION, 0, offset, len(described), digest.digest()))
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        _sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)


def load(path: Path, *, fingerprint: str) -> Archived:
    """Map the indexes in *path*; reads all of it once, to compare the digest.

    Raises:
        CorruptIndex: the file is not what ``write`` left, or was made under other settings. FileNotFoundError: there is none.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
            described = _verify(path, whole)
            size = len(whole)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as exc:  # ValueError: mmap of an empty file
        raise CorruptIndex(f"{path} cannot be read: {exc}") from exc
    if described.fingerprint != fingerprint:
        raise CorruptIndex(f"{path} was made for another backend or under other settings")
    try:
        graphs = {graph: _index(path, own) for graph, own in described.graphs.items()}
        index = _index(path, described, graphs)
    except (ArithmeticError, LookupError, TypeError, ValueError) as exc:
        raise CorruptIndex(f"{path} has tables that do not fit each other: {exc}") from exc
    return Archived(
        index,
        ValueIndex.open(path, _mapped(path, described.arrays["lengths"], _ARRAYS["lengths"])),
        described.marker,
        described.queries,
        described.elapsed_s,
        size,
    )


def _verify(path: Path, whole: mmap.mmap) -> _Description:
    if len(whole) < _FOOTER.size:
        raise CorruptIndex(f"{path} is cut short")
    magic, version, _, offset, length, expected = _FOOTER.unpack(whole[-_FOOTER.size :])
    if magic != _MAGIC:
        raise CorruptIndex(f"{path} is cut short, or not an index of ours")
    if version != FORMAT_VERSION:
        raise CorruptIndex(f"{path} has format {version}, and {FORMAT_VERSION} is wanted")
    end = len(whole) - _FOOTER.size
    digest = hashlib.blake2b(digest_size=32)
    for start in range(0, end, _PIECE):
        digest.update(whole[start : min(start + _PIECE, end)])
    if digest.digest() != expected or offset + length != end:
        raise CorruptIndex(f"{path} is damaged: its digest does not fit")
    try:
        described = msgspec.json.decode(whole[offset:end], type=_Description)
    except (msgspec.DecodeError, RecursionError, ValueError) as exc:
        raise CorruptIndex(f"{path} has a description that cannot be read: {exc}") from exc
    is_within = all(
        n in d.arrays
        and 0 <= d.arrays[n].offset
        and 0 <= d.arrays[n].size
        and d.arrays[n].offset + d.arrays[n].size * np.dtype(t).itemsize <= offset
        for d in (described, *described.graphs.values())
        for n, t in _ARRAYS.items()
    )
    if not is_within:
        raise CorruptIndex(f"{path} has arrays outside of the file")
    return described


def _mapped(path: Path, place: _Array, dtype: str) -> NDArray[np.generic]:
    if place.size == 0:
        return np.empty(0, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r", offset=place.offset, shape=(place.size,))


def _put(file: BinaryIO, digest: hashlib.blake2b, index: SupportIndex, lengths: NDArray[np.int16]) -> dict[str, _Array]:
    """Write all arrays; where they are."""
    places = {}
    for name, array in _arrays(index, lengths).items():
        _append(file, digest, b"\0" * (-file.tell() % _ALIGNMENT))
        places[name] = _Array(file.tell(), len(array))
        _append(file, digest, np.ascontiguousarray(array, dtype=_ARRAYS[name]).tobytes())
    return places


def _arrays(index: SupportIndex, lengths: NDArray[np.int16]) -> Mapping[str, NDArray[np.generic]]:
    return {
        "instances": index.instances,
        "subject": index.subject,
        "property": index.property,
        "object": index.object,
        "count": index.count,
        "lengths": lengths,
        "node_prints": np.empty(0, dtype=np.uint32) if index.nodes is None else index.nodes.prints,
        "node_kinds": np.empty(0, dtype=np.uint16) if index.nodes is None else index.nodes.kinds,
        "feature_pairs": np.empty(0, dtype=np.int64) if index.features is None else index.features.pairs,
    }


def _describe(
    index: SupportIndex,
    places: dict[str, _Array],
    fingerprint: str = "",
    marker: str | None = None,
    queries: int = 0,
    elapsed_s: float = 0.0,
) -> _Description:
    words = index.vocabulary
    return _Description(
        fingerprint=fingerprint,
        marker=marker,
        queries=queries,
        elapsed_s=elapsed_s,
        arrays=places,
        kinds=[_Kind(sorted(k.classes), k.datatype) for k in index.kinds],
        properties=list(index.properties),
        are_kinds_exact=index.are_kinds_exact,
        class_predicate=index.class_predicate,
        incomplete=[(c.subject_class, c.property, c.reason) for c in index.incomplete],
        multiplicity=dict(index.multiplicity),
        languages={p: sorted(tags) for p, tags in index.languages.items()},
        covers_named_graphs=index.covers_named_graphs,
        built_at=index.built_at,
        epoch=index.epoch,
        labels={t: list(texts) for t, texts in words.labels.items()},
        comments={t: list(texts) for t, texts in words.comments.items()},
        superclasses={t: list(above) for t, above in words.superclasses.items()},
        superproperties={t: list(above) for t, above in words.superproperties.items()},
        declared_classes=sorted(words.declared_classes),
        declared_properties=sorted(words.declared_properties),
        has_nodes=index.nodes is not None,
        features=None
        if (f := index.features) is None
        else _Features(list(f.classes), list(f.properties), sorted(f.unknown)),
        graphs={},
    )


def _index(path: Path, d: _Description, graphs: Mapping[str, SupportIndex] | None = None) -> SupportIndex:
    arrays = {n: _mapped(path, a, _ARRAYS[n]) for n, a in d.arrays.items()}
    sizes = {len(arrays[n]) for n in ("subject", "property", "object", "count")}
    is_fitting = len(sizes) == 1 and len(arrays["instances"]) == len(d.kinds)
    is_fitting = is_fitting and len(arrays["node_prints"]) == len(arrays["node_kinds"])
    for name, most in (("subject", len(d.kinds)), ("object", len(d.kinds)), ("property", len(d.properties))):
        ids = arrays[name]
        is_fitting = is_fitting and (len(ids) == 0 or (int(ids.min()) >= 0 and int(ids.max()) < most))
    if not is_fitting:
        raise CorruptIndex(f"{path} has arrays that do not fit each other")
    return SupportIndex(
        kinds=[Kind(frozenset(k.classes), k.datatype) for k in d.kinds],
        instances=arrays["instances"],  # type: ignore[arg-type]  # the dtypes are those of _ARRAYS
        properties=d.properties,
        subject=arrays["subject"],  # type: ignore[arg-type]
        property_=arrays["property"],  # type: ignore[arg-type]
        object_=arrays["object"],  # type: ignore[arg-type]
        count=arrays["count"],  # type: ignore[arg-type]
        are_kinds_exact=d.are_kinds_exact,
        class_predicate=d.class_predicate,
        incomplete=[IncompleteChunk(*chunk) for chunk in d.incomplete],
        vocabulary=Vocabulary(
            labels={t: tuple(texts) for t, texts in d.labels.items()},
            comments={t: tuple(texts) for t, texts in d.comments.items()},
            superclasses={t: tuple(above) for t, above in d.superclasses.items()},
            superproperties={t: tuple(above) for t, above in d.superproperties.items()},
            declared_classes=frozenset(d.declared_classes),
            declared_properties=frozenset(d.declared_properties),
        ),
        multiplicity=d.multiplicity,
        languages={p: frozenset(tags) for p, tags in d.languages.items()},
        covers_named_graphs=d.covers_named_graphs,
        graphs=graphs,
        nodes=NodeTable(arrays["node_prints"], arrays["node_kinds"]) if d.has_nodes else None,  # type: ignore[arg-type]
        features=None
        if (f := d.features) is None
        else Features(f.classes, f.properties, arrays["feature_pairs"], f.unknown),  # type: ignore[arg-type]
        built_at=d.built_at,
        epoch=d.epoch,
    )


def _append(file: BinaryIO, digest: hashlib.blake2b, data: bytes) -> None:
    file.write(data)
    digest.update(data)


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power failure too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
