"""What a build has been told so far, kept beside the archive, so that a build that is killed goes on where it was.

One record per answer: its length, a checksum, the digest of the query, the rows. The build asks the same queries in the same
way each time, so a record replaces the answer. The first record says under which settings and on which data (the backend's
change marker) the answers were given; answers of another state are thrown away. A record that was half written is cut off.
Only complete answers are in here. Not synced to the disk: what is lost in a power failure is asked again.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Self

import msgspec

from proxy.backends.base import Solutions
from proxy.query.term import BlankNode, Iri, Literal, RdfTerm, TripleTerm

_HEAD = struct.Struct("<II16s")  # length, checksum, digest of the query
_MAGIC = b"SPARLANCE-JOURNAL-1\n"

_Term = list[str | None]
"""One IRI; a blank node's label and None; a literal's lexical form, datatype and language."""


class _Answer(msgspec.Struct, array_like=True):
    variables: list[str]
    rows: list[list[_Term | None]]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Answer).decode


class Journal:
    """Answers by query. A disk that cannot be written makes it forget, never fail: see *error*.

    replayed: answers taken from an earlier build. error: why nothing is kept any more; empty while all is well.
    """

    def __init__(self, path: Path, file: BinaryIO, places: dict[bytes, tuple[int, int]]) -> None:
        self._path = path
        self._file = file
        self._places = places
        self.replayed = 0
        self.error = ""

    @classmethod
    def open(cls, path: Path, *, state: str) -> Self:
        """Open the journal at *path*; one of another *state* (settings and change marker) is begun anew.

        Raises:
            OSError: the file cannot be made.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b")
        try:
            first = _MAGIC + hashlib.blake2b(state.encode("utf-8"), digest_size=32).digest()
            file.seek(0)
            places: dict[bytes, tuple[int, int]] = {}
            if file.read(len(first)) == first:
                end = _scan(file, len(first), places)
                file.truncate(end)
            else:
                file.truncate(0)
                file.write(first)
                file.flush()
        except BaseException:
            file.close()
            raise
        return cls(path, file, places)

    def __len__(self) -> int:
        return len(self._places)

    def get(self, query: str) -> Solutions | None:
        """The answer to *query* in an earlier build; None: it has to be asked."""
        place = self._places.get(_digest(query))
        if place is None or self._file.closed:
            return None
        self._file.seek(place[0])
        try:
            answer = _decode(self._file.read(place[1]))
            rows = [tuple(None if term is None else _read(term) for term in row) for row in answer.rows]
        except (msgspec.DecodeError, OSError, ValueError):
            return None
        self.replayed += 1
        return Solutions(tuple(answer.variables), rows)

    def put(self, query: str, answer: Solutions) -> None:
        """Keep a complete answer."""
        if self.error or self._file.closed:
            return
        flat = [[None if term is None else _flat(term) for term in row] for row in answer.rows]
        if any(term == [] for row in flat for term in row):
            return  # a triple term: rare enough to be asked again
        data = _encode(_Answer(list(answer.variables), flat))
        head = _HEAD.pack(len(data), zlib.crc32(data), _digest(query))
        try:
            self._file.write(head + data)
            self._file.flush()
        except OSError as exc:
            self.error = f"{self._path} cannot be written: {exc.strerror}"

    def close(self) -> None:
        """Stop, and leave the file for the next build."""
        try:
            self._file.close()
        except OSError:  # what was buffered is lost, and is asked again
            pass

    def discard(self) -> None:
        """The build is done: nothing needs to be remembered."""
        self.close()
        self._path.unlink(missing_ok=True)


def _scan(file: BinaryIO, start: int, places: dict[bytes, tuple[int, int]]) -> int:
    """Note where each whole record's rows are; returns where the last one ends."""
    end = start
    while len(head := file.read(_HEAD.size)) == _HEAD.size:
        length, checksum, digest = _HEAD.unpack(head)
        data = file.read(length)
        if len(data) < length or zlib.crc32(data) != checksum:
            break
        places[digest] = (end + _HEAD.size, length)
        end += _HEAD.size + length
    return end


def _digest(query: str) -> bytes:
    return hashlib.blake2b(query.encode("utf-8"), digest_size=16).digest()


def _flat(term: RdfTerm) -> _Term:
    match term:
        case Iri(value):
            return [value]
        case BlankNode(label):
            return [label, None]
        case Literal(lexical, datatype, language):
            return [lexical, datatype, language]
        case TripleTerm():
            return []


def _read(parts: Sequence[str | None]) -> RdfTerm:
    match parts:
        case [str(value)]:
            return Iri(value)
        case [str(label), None]:
            return BlankNode(label)
        case [str(lexical), str(datatype), language]:
            return Literal(lexical, datatype, language)
    raise ValueError(f"not a term: {parts}")
