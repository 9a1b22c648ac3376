"""A GGUF file: its metadata, and its tensors as float32 arrays, one at a time.

Format: ``docs/gguf.md`` of ggml, versions 2 and 3, little-endian. The header is read here, since it comes from strangers:
every count and length is held against what the file has left before anything is made of it. (The reader of the package
``gguf`` trusts them, and is slow with a large vocabulary.) How blocks of quantised weights become numbers is that package's.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxy.errors import ModelError

Array = NDArray[np.float32]
_NUMBERS = {0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8", 11: "<i8", 12: "<f8"}
_STRING, _ARRAY = 8, 9
_VERSIONS = (2, 3)
_DIMENSIONS_MOST = 4
_ALIGNMENT_MOST = 1 << 16
_SMALLEST_ENTRY = 12
"""Bytes that an entry of the header takes at least."""
VALUES_MOST = 8_000_000
"""Values in all lists of a header: they become Python objects of some 60 bytes. Gemma 3 has 0.8 million, Llama 3 0.5."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Of one tensor. kind: number of its ggml type. shape: slowest first. at: first byte in the file."""

    kind: int
    shape: tuple[int, ...]
    at: int


class GgufFile(Mapping[str, Array]):
    """The tensors in *path* by name, read anew at each look-up; *metadata*: what the file says of them.

    Raises:
        ModelError: it is no GGUF file, is damaged, or the package ``gguf`` is missing. So does a look-up of a tensor in a
            quantisation that the package does not know.
    """

    def __init__(self, path: Path) -> None:
        try:
            import gguf
        except ImportError as exc:
            raise ModelError(f"a GGUF file needs the package {exc.name}: pip install 'sparlance[lm]'") from exc
        self.path, self._gguf = path, gguf
        try:
            with path.open("rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as exc:
            raise ModelError(f"cannot read {path}: {exc.strerror}") from exc
        except ValueError as exc:  # an empty file cannot be mapped
            raise ModelError(f"{path} is no GGUF file: it is empty") from exc
        try:
            self.metadata, self._places = _header(_Reader(self._bytes))
            for name, place in self._places.items():
                self._check(name, place)
        except (ValueError, struct.error) as exc:  # UnicodeDecodeError among them
            raise ModelError(f"{path} is no GGUF file that can be read: {exc}") from exc

    def __getitem__(self, name: str) -> Array:
        place = self._places[name]
        raw = np.frombuffer(self._bytes, dtype=np.uint8, count=self._size(place), offset=place.at)
        kind = self._gguf.GGMLQuantizationType(place.kind)
        rows = math.prod(place.shape[:-1])
        try:
            found = self._gguf.dequantize(raw.reshape(rows, -1), kind)
        except NotImplementedError as exc:
            raise ModelError(f"{self.path}: {name} is {kind.name}, which the package gguf cannot read") from exc
        return np.asarray(found, dtype=np.float32).reshape(place.shape)

    def __contains__(self, name: object) -> bool:  # a Mapping would read the tensor
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def kinds(self) -> dict[str, int]:
        """How many tensors there are of each type."""
        found: dict[str, int] = {}
        for place in self._places.values():
            name = self._gguf.GGMLQuantizationType(place.kind).name
            found[name] = found.get(name, 0) + 1
        return found

    def _size(self, place: _Place) -> int:
        block, size = self._gguf.GGML_QUANT_SIZES[self._gguf.GGMLQuantizationType(place.kind)]
        if place.shape[-1] % block:
            raise ValueError(f"rows of {place.shape[-1]} numbers in blocks of {block}")
        return math.prod(place.shape) // int(block) * int(size)

    def _check(self, name: str, place: _Place) -> None:
        known = {int(kind) for kind in self._gguf.GGML_QUANT_SIZES}
        if place.kind not in known:
            raise ValueError(f"{name} has type {place.kind}, which the package gguf does not know")
        if place.at + self._size(place) > len(self._bytes):
            raise ValueError(f"it ends within {name}")


class _Reader:
    """Reads on from a place; what would lead beyond the end is a ValueError, before any memory is taken."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at, self.values = data, 0, 0

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise ValueError(f"{count:,} bytes are said to follow byte {self.at:,}, and {len(self.data) - self.at:,} do")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form: str) -> Any:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def count(self, what: str, *, each: int) -> int:
        """How many follow, of *each* bytes at least."""
        found = int(self.number("Q"))
        if found * each > len(self.data) - self.at:
            raise ValueError(f"{found:,} {what} do not fit into the {len(self.data) - self.at:,} bytes that are left")
        self.values += found
        if self.values > VALUES_MOST:
            raise ValueError(f"its header has more than {VALUES_MOST:,} values")
        return found

    def text(self) -> str:
        return self.take(self.number("Q")).decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            inner = self.number("I")
            if inner == _STRING:
                return [self.text() for _ in range(self.count("strings", each=8))]
            if inner not in _NUMBERS:
                raise ValueError(f"an array of type {inner}")
            each = np.dtype(_NUMBERS[inner]).itemsize
            return np.frombuffer(self.take(each * self.count("numbers", each=each)), dtype=_NUMBERS[inner]).tolist()
        if kind not in _NUMBERS:
            raise ValueError(f"a value of type {kind}")
        return np.frombuffer(self.take(np.dtype(_NUMBERS[kind]).itemsize), dtype=_NUMBERS[kind])[0].item()


def _header(reader: _Reader) -> tuple[dict[str, Any], dict[str, _Place]]:
    if reader.take(4) != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    version = reader.number("I")
    if version not in _VERSIONS:
        raise ValueError(f"version {version}; 2 and 3, little-endian, can be read")
    tensors = reader.count("tensors", each=_SMALLEST_ENTRY)
    entries = reader.count("entries", each=_SMALLEST_ENTRY)
    metadata: dict[str, Any] = {}
    for _ in range(entries):
        key = reader.text()
        if key in metadata:
            raise ValueError(f"{key[:100]!r} is there twice")
        metadata[key] = reader.value(reader.number("I"))
    places: dict[str, _Place] = {}
    for _ in range(tensors):
        name, dimensions = reader.text(), reader.number("I")
        if name in places or not 1 <= dimensions <= _DIMENSIONS_MOST:
            raise ValueError(f"{name[:100]!r} is there twice, or has {dimensions} dimensions")
        shape = tuple(reader.number("Q") for _ in range(dimensions))[::-1]  # the file has the fastest first
        if 0 in shape:
            raise ValueError(f"{name[:100]!r} has no numbers")
        places[name] = _Place(reader.number("I"), shape, reader.number("Q"))
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 1 <= alignment <= _ALIGNMENT_MOST or alignment & (alignment - 1):
        raise ValueError(f"an alignment of {alignment}")
    start = -(-reader.at // alignment) * alignment
    return metadata, {name: _Place(p.kind, p.shape, start + p.at) for name, p in places.items()}
