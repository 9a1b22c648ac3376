"""The file of what people confirmed about one dataset: appended, synced, read again when another process has added to it.

One JSON object a line. What is acknowledged is on the disk; a line that a kill left half written is cut off by the next one.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy.errors import MalformedRequest, ProxyError
from proxy.index.normalise import normalise
from proxy.nl.memory import Confirmed, Memory, Source

ENTRIES_MOST = 10_000
"""Each question looks at all of them; past this, pairs belong into training."""
LINE_MOST_BYTES = 64 * 1024
_BYTES_MOST = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Feedback:
    """What somebody says about an answer. is_right false: *pair*'s query is not what its question means."""

    pair: Confirmed
    is_right: bool = True


class MemoryKeeper:
    """Keeps the feedback in the file at *path*. Safe to use from several processes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._memory = Memory(())
        self._rejected: frozenset[tuple[str, str]] = frozenset()

    @property
    def memory(self) -> Memory:
        """What is confirmed now."""
        self._refresh()
        return self._memory

    @property
    def rejected(self) -> frozenset[tuple[str, str]]:
        """(normalised question, query) that somebody said is wrong, and nobody later that it is right."""
        self._refresh()
        return self._rejected

    def add(self, *feedback: Feedback) -> int:
        """Append *feedback* and sync it to the disk; returns how many pairs are confirmed then. Blocks: call it in a thread.

        Raises:
            MalformedRequest: one is too long, or the file is full. ProxyError: the disk does not take it.
        """
        lines = b"".join(_line(f) for f in feedback)
        if len(self.memory.all) + len(feedback) > ENTRIES_MOST:
            raise MalformedRequest(f"the memory would hold more than {ENTRIES_MOST:,} pairs; forget some of {self._path}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                _cut(file.fileno())
                os.write(file.fileno(), lines)
                os.fsync(file.fileno())
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as exc:
            raise ProxyError(f"{self._path} cannot be written: {exc.strerror}") from exc
        return len(self.memory.all)

    def _refresh(self) -> None:
        try:
            stat = self._path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
            if stamp == self._stamp:
                return
            with self._path.open("rb") as file:
                data = file.read(_BYTES_MOST)
        except OSError:
            stamp, data = (0, 0), b""
            if self._stamp == stamp:
                return
        confirmed: dict[tuple[str, str], Confirmed] = {}
        rejected: set[tuple[str, str]] = set()
        for feedback in _read(data):
            key = (normalise(feedback.pair.question), feedback.pair.sparql)
            if feedback.is_right:
                confirmed.pop(key, None)
                confirmed[key] = feedback.pair
                rejected.discard(key)
            else:
                confirmed.pop(key, None)
                rejected.add(key)
        self._memory = Memory(tuple(confirmed.values())[-ENTRIES_MOST:])
        self._rejected = frozenset(rejected)
        self._stamp = stamp


def _line(feedback: Feedback) -> bytes:
    pair = feedback.pair
    record: dict[str, Any] = {
        "question": pair.question, "sparql": pair.sparql, "source": str(pair.source), "at": round(pair.at, 3),
    }  # fmt: skip
    record |= {"lang": pair.language} if pair.language else {}
    record |= {} if feedback.is_right else {"verdict": "wrong"}
    line = json.dumps(record, ensure_ascii=False).encode("utf-8") + b"\n"
    if len(line) > LINE_MOST_BYTES:
        raise MalformedRequest(f"a pair of {len(line):,} bytes; at most {LINE_MOST_BYTES:,} are kept")
    return line


def _cut(file: int) -> None:
    """Cut off a last line without its end: its writer was killed, and never acknowledged it."""
    size = os.fstat(file).st_size
    tail = os.pread(file, min(size, LINE_MOST_BYTES), max(0, size - LINE_MOST_BYTES))
    if tail and not tail.endswith(b"\n"):
        os.ftruncate(file, size - len(tail) + tail.rfind(b"\n") + 1)


def _read(data: bytes) -> Iterator[Feedback]:
    """The whole lines of *data*; one that is damaged is passed over."""
    for line in data[: data.rfind(b"\n") + 1].splitlines():
        try:
            record = json.loads(line)
            pair = Confirmed(
                str(record["question"]), str(record["sparql"]), Source(record.get("source", "human")),
                float(record.get("at", 0.0)), record.get("lang"),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        yield Feedback(pair, record.get("verdict") != "wrong")
