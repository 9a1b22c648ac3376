"""Prefixes that were read once: kept in memory, and in files, so that a restart or another worker need not read them again.

The cache of a graph description of 1,500 tokens is some 60 MB and takes a CPU seconds to compute, and a disk a moment to give
back. A file is named by a digest of the model and of the tokens; it holds the tokens themselves and a digest of all it says,
and is only used where both agree, so another index, another model or a damaged file means that the text is read anew.
"""

from __future__ import annotations

import json
import math
import os
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxy.errors import ModelError
from proxy.nl.lm.decoding import Prefix, prefix_tokens, read_prefix
from proxy.nl.lm.step import Cache, StepModel

_MAGIC = b"sparlance prefix 1\n"
_SUFFIX = ".prefix"
_HEADER_MOST = 16_000_000
_DIGEST = 32
_TYPES = {"<f4": np.float32, "<f2": np.float16}


@dataclass(slots=True)
class Counts:
    """How often a prefix was found in memory, found on disk, read by the model; files that were damaged, could not be kept."""

    memory: int = 0
    disk: int = 0
    read: int = 0
    damaged: int = 0
    unkept: int = 0


class PrefixCache:
    """Prefixes of *model*. Not for several threads at once: whoever gives the model its work asks here.

    Args:
        folder: where they are kept between processes; None: nowhere. It may be shared by processes and models.
        disk_bytes: of all files in *folder* together; what was used longest ago goes first. memory_bytes: of all that are held,
            beside the last one.
    """

    def __init__(
        self, model: StepModel, *, folder: Path | None = None, disk_bytes: int = 1_000_000_000, memory_bytes: int = 500_000_000
    ) -> None:
        self.model, self.folder, self.disk_bytes, self.memory_bytes = model, folder, disk_bytes, memory_bytes
        self.counts = Counts()
        self._held: OrderedDict[str | tuple[int, ...], Prefix] = OrderedDict()

    def get(self, text: str | Sequence[int]) -> tuple[Prefix, str]:
        """The prefix of *text* and where it came from: "memory", "disk" or "read".

        Whatever is wrong with a file or its folder, the text is read: a cache never fails a question.

        Raises:
            ModelError: the text is empty, longer than the context, or the model failed.
        """
        key = text if isinstance(text, str) else tuple(text)
        if key in self._held:
            self._held.move_to_end(key)
            self.counts.memory += 1
            return self._held[key], "memory"
        tokens = tuple(prefix_tokens(self.model, text))
        found, where = self._stored(tokens), "disk"
        if found is None:
            found, where = read_prefix(self.model, tokens[self.model.folder.begin is not None :]), "read"
            self.counts.read += 1
            self._store(found)
        else:
            self.counts.disk += 1
        self._held[key] = found
        while len(self._held) > 1 and sum(map(self._size, self._held.values())) > self.memory_bytes:
            self._held.popitem(last=False)
        return found, where

    def _size(self, prefix: Prefix) -> int:
        f = self.model.folder
        return 2 * f.layers * f.kv_heads * f.head_dim * len(prefix.tokens) * self.model.cache_type.itemsize

    def _path(self, tokens: Sequence[int]) -> Path | None:
        """Where the prefix of *tokens* is kept; None: nowhere, also where the model's own files are gone."""
        if self.folder is None:
            return None
        try:
            fingerprint = self.model.fingerprint
        except ModelError:
            return None
        name = blake2b(np.asarray(tokens, dtype="<i8").tobytes(), key=fingerprint.encode()[:64], digest_size=20)
        return self.folder / f"{name.hexdigest()}{_SUFFIX}"

    def _stored(self, tokens: tuple[int, ...]) -> Prefix | None:
        path = self._path(tokens)
        if path is None:
            return None
        try:
            if path.stat().st_size > self.disk_bytes:
                raise ValueError("larger than all files may be")
            found = _unpacked(path.read_bytes(), tokens, self.model)
            os.utime(path)  # its last use, by which the oldest is found
            return found
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError, MemoryError, ModelError):
            self.counts.damaged += 1
            _removed(path)
            return None

    def _store(self, prefix: Prefix) -> None:
        path = self._path(prefix.tokens)
        if path is None:
            return
        draft = path.with_suffix(f".{os.getpid()}.draft")
        try:
            content = _packed(prefix, self.model)
            if len(content) > self.disk_bytes:
                self.counts.unkept += 1
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            self._make_room(path.parent, len(content))
            draft.write_bytes(content)
            os.replace(draft, path)  # others see a whole file or none
        except (OSError, MemoryError, ModelError):
            self.counts.unkept += 1
            _removed(draft)

    def _make_room(self, folder: Path, needed: int) -> None:
        """Remove what was used longest ago; drafts of processes that ended count like the rest."""
        there = []
        for path in (*folder.glob(f"*{_SUFFIX}"), *folder.glob("*.draft")):
            try:
                state = path.stat()
            except FileNotFoundError:  # another process was quicker
                continue
            there.append((state.st_mtime, state.st_size, path))
        total = sum(size for _, size, _ in there)
        for _, size, path in sorted(there):
            if total + needed <= self.disk_bytes:
                return
            _removed(path)
            total -= size


def _removed(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        pass  # it is not used, whether it can be removed or not


def _packed(prefix: Prefix, model: StepModel) -> bytes:
    """Magic, length of the header (8 bytes, little-endian), header in JSON, arrays, digest of all before."""
    arrays = [prefix.last, *model.export(prefix.cache)]
    header = {"tokens": prefix.tokens, "arrays": [[a.dtype.str, a.shape] for a in arrays]}
    text = json.dumps(header).encode()
    body = b"".join([_MAGIC, len(text).to_bytes(8, "little"), text, *(np.ascontiguousarray(a).tobytes() for a in arrays)])
    return body + blake2b(body, digest_size=_DIGEST).digest()


def _unpacked(data: bytes, tokens: tuple[int, ...], model: StepModel) -> Prefix:
    """Raises: ValueError, KeyError, TypeError: it is damaged, or of other tokens or another model than it should be."""
    body = memoryview(data)[:-_DIGEST]
    if len(data) < len(_MAGIC) + 8 + _DIGEST or blake2b(body, digest_size=_DIGEST).digest() != data[-_DIGEST:]:
        raise ValueError("damaged")
    at = len(_MAGIC) + 8
    length = int.from_bytes(body[len(_MAGIC) : at], "little")
    if bytes(body[: len(_MAGIC)]) != _MAGIC or length > min(_HEADER_MOST, len(body) - at):
        raise ValueError("another format")
    header: dict[str, Any] = json.loads(bytes(body[at : at + length]))
    at += length
    f = model.folder
    wanted = [("<f4", (f.vocabulary,)), *[(model.cache_type.str, (1, f.kv_heads, len(tokens), f.head_dim))] * (2 * f.layers)]
    if tuple(header["tokens"]) != tokens or [(t, tuple(s)) for t, s in header["arrays"]] != wanted:
        raise ValueError("of another text or model")
    arrays: list[NDArray[Any]] = []
    for kind, shape in wanted:
        found = np.frombuffer(body, dtype=_TYPES[kind], count=math.prod(shape), offset=at)
        arrays.append(found.reshape(shape))
        at += found.nbytes
    if at != len(body):
        raise ValueError("too long")
    return Prefix(tokens, Cache(len(tokens), 1, model.restore(arrays[1:])), arrays[0].copy())
