"""Tensors of ``*.safetensors`` files as float32 arrays, one at a time, bfloat16 among them (numpy has no such type).

Format: 8 bytes length, JSON header (name → dtype, shape, offsets), raw little-endian data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxy.errors import ModelError

Array = NDArray[np.float32]
_TYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_HEADER_MOST = 100_000_000


class Weights(Mapping[str, Array]):
    """The tensors of all ``*.safetensors`` of *folder*, by name; read anew at each look-up.

    Raises:
        ModelError: there are none, or a header is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._places: dict[str, tuple[Path, str, tuple[int, ...], int]] = {}
        for path in sorted(folder.glob("*.safetensors")):
            self._places |= dict(_places(path))
        if not self._places:
            raise ModelError(f"no tensors in {folder}/*.safetensors; pickled files are not read, a GGUF file is named itself")

    def __getitem__(self, name: str) -> Array:
        path, kind, shape, at = self._places[name]
        raw = np.fromfile(path, dtype=_TYPES[kind], count=int(np.prod(shape, dtype=np.int64)), offset=at)
        if raw.size != np.prod(shape, dtype=np.int64):
            raise ModelError(f"{path} ends within {name}")
        if kind == "BF16":
            raw = (raw.astype(np.uint32) << 16).view(np.float32)
        return raw.astype(np.float32, copy=False).reshape(shape)

    def __contains__(self, name: object) -> bool:  # a Mapping would read the tensor
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _places(path: Path) -> Iterator[tuple[str, tuple[Path, str, tuple[int, ...], int]]]:
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= _HEADER_MOST:
                raise ValueError(f"a header of {length} bytes")
            header: dict[str, Any] = json.loads(file.read(length))
        header.pop("__metadata__", None)
        for name, entry in header.items():
            kind, shape = str(entry["dtype"]), tuple(int(n) for n in entry["shape"])
            if kind not in _TYPES:
                raise ModelError(f"{path}: {name} is {kind}; {', '.join(_TYPES)} can be imported")
            yield name, (path, kind, shape, 8 + length + int(entry["data_offsets"][0]))
    except OSError as exc:
        raise ModelError(f"cannot read {path}: {exc.strerror}") from exc
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise ModelError(f"{path} is no safetensors file: {exc}") from exc
