"""RDF files by their suffix: N-Triples, Turtle, N-Quads, TriG, RDF/XML, each also gzipped."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, cast

Progress = Callable[[str, int, int], None]
"""Called with (file name, bytes read, bytes in all)."""

SUFFIXES = {
    ".nt": "n-triples",
    ".ttl": "turtle",
    ".nq": "n-quads",
    ".trig": "trig",
    ".rdf": "rdf-xml",
    ".owl": "rdf-xml",
    ".xml": "rdf-xml",
}
"""Suffix → name of the format; ``.gz`` may follow each."""
STEP_BYTES = 1 << 20


class UnreadableFile(ValueError):
    """A file cannot be loaded; the message begins with its path and, where known, the line."""


def format_name(path: Path) -> str:
    """Return the name of the format of *path*.

    Raises:
        UnreadableFile: its suffix is none that we know.
    """
    suffixes = [s.lower() for s in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    name = SUFFIXES.get(suffixes[-1]) if suffixes else None
    if name is None:
        raise UnreadableFile(f"{path}: unknown suffix; accepted: {', '.join(SUFFIXES)}, each also with .gz")
    return name


class Reader:
    """Reads *path*, unpacked if it ends in ``.gz``, and tells how far it is. A context manager."""

    def __init__(self, path: Path, progress: Progress) -> None:
        self._path = path
        self._progress = progress
        self._stack = ExitStack()
        self._told = -STEP_BYTES

    def __enter__(self) -> Reader:
        try:
            self._raw = self._stack.enter_context(self._path.open("rb"))
        except OSError as exc:
            raise UnreadableFile(f"{self._path}: {exc.strerror}") from exc
        self._total = os.fstat(self._raw.fileno()).st_size
        self._file: IO[bytes] = self._raw
        if self._path.suffix.lower() == ".gz":
            self._file = cast("IO[bytes]", self._stack.enter_context(gzip.open(self._raw, "rb")))
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def read(self, size: int = -1) -> bytes:
        try:
            data = self._file.read(size)
        except (OSError, EOFError, zlib.error) as exc:
            raise UnreadableFile(f"{self._path}: not a complete gzip file: {exc}") from exc
        done = self._raw.tell()
        if not data or done - self._told >= STEP_BYTES:
            self._told = done
            self._progress(self._path.name, done, self._total)
        return data
