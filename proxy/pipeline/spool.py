"""The lines of an N-Triples document apart by property, in files without a name, for what is too large to be held.

The files are gone with the process, however it ends.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from proxy.index.ntriples import NotNTriples, read, split
from proxy.index.parts import Typings
from proxy.query.term import Iri

PIECE_BYTES = 1 << 20
"""Of lines that are sorted at a time: 10 to 20 ms."""


class Spool:
    """Feed pieces with ``add``; ``sort`` when it says so; ``close``, once; then ``read``.

    Args:
        places: property → number of its file. folder: where the files are; None: where temporary ones are.
    """

    def __init__(self, places: Mapping[str, int], class_predicate: str, folder: Path | None = None) -> None:
        self.typings = Typings()
        self.lines = 0
        self.counts: dict[str, int] = defaultdict(int)
        """Property → lines."""
        self._places = places
        self._class_predicate = class_predicate
        self._files: list[IO[bytes]] = []
        self._iris: dict[bytes, str] = {}
        self._waiting: list[bytes] = []
        self._size = 0
        try:
            for _ in range(max(places.values(), default=-1) + 1):
                self._files.append(tempfile.TemporaryFile(prefix="sparlance-", dir=folder))
        except OSError:
            self.remove()
            raise

    def add(self, piece: bytes) -> bool:
        """Take the next piece of the document; whether it is time to ``sort``."""
        self._waiting.append(piece)
        self._size += len(piece)
        return self._size >= PIECE_BYTES

    def sort(self) -> None:
        """Write the whole lines that wait into their files.

        Raises:
            NotNTriples: a line that is none, or a property that has no place.
            OSError: the disk is full.
        """
        whole, end, rest = b"".join(self._waiting).rpartition(b"\n")
        self._waiting, self._size = [rest], len(rest)
        if end:
            self._write(whole + end)

    def close(self) -> None:
        """The document is complete.

        Raises:
            NotNTriples, OSError
        """
        self._waiting.append(b"\n")
        self.sort()
        self.typings.close()

    def _write(self, text: bytes) -> None:
        lines = text.split(b" .\n")
        lines.pop()
        if len(lines) != text.count(b"\n") or not text.endswith(b" .\n"):  # not as every server here writes
            lines = [b" ".join(tokens) for line in text.split(b"\n") if (tokens := split(line)) is not None]
        by_property: defaultdict[bytes, list[bytes]] = defaultdict(list)
        try:
            for line in lines:
                by_property[line.split(b" ", 2)[1]].append(line)
        except IndexError:
            raise NotNTriples("a line that is no triple") from None
        by_place: defaultdict[int, list[bytes]] = defaultdict(list)
        for token, own in by_property.items():
            property_ = self.iri(token)
            self.counts[property_] += len(own)
            by_place[self._places[property_]].extend(own)
            if property_ == self._class_predicate:
                self.typings.add([line.split(b" ", 1)[0] for line in own], [line.split(b" ", 2)[2] for line in own])
        for place, own in by_place.items():
            own.append(b"")
            self._files[place].write(b" .\n".join(own))
        self.lines += len(lines)

    def iri(self, token: bytes) -> str:
        """The property that *token* stands for.

        Raises:
            NotNTriples: it is none that has a place.
        """
        if (known := self._iris.get(token)) is None:
            term = read(token)
            if not isinstance(term, Iri) or term.value not in self._places:
                raise NotNTriples("a property that was not there when they were listed")
            known = self._iris[token] = term.value
        return known

    def pairs(self, property_: str) -> Iterator[list[tuple[bytes, bytes]]]:
        """Subject and object, as written, of all triples of *property_*, some thousand at a time."""
        if (place := self._places.get(property_)) is None:
            return
        rest = b""
        for piece in self.read(place):
            *lines, rest = (rest + piece).split(b" .\n")
            tokens = (line.split(b" ", 2) for line in lines)
            yield [(s, o) for s, p, o in tokens if self.iri(p) == property_]

    def read(self, place: int) -> Iterator[bytes]:
        """The lines of one file, in pieces."""
        file = self._files[place]
        file.seek(0)
        while piece := file.read(PIECE_BYTES):
            yield piece

    def remove(self) -> None:
        """Give the space back; nothing may be read afterwards."""
        for file in self._files:
            file.close()
