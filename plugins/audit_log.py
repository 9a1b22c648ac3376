"""Write down who asked for what and what became of it, in a file that shows later changes.

Options:
    path: the file; one JSON object a line. Relative to the working directory.

A line is on the disk (fsync) before its request reaches the backend, and before the head of the answer reaches the client, so
that a process killed at any moment has told nobody anything that is not written. Where it cannot be written, nothing is
answered. Each line holds the SHA-256 of the one before: ``python plugins/audit_log.py FILE`` finds a line that was changed,
taken out or put in, and prints the last hash; keep that elsewhere, as nothing else shows that lines at the end are missing.
Several processes may share the file. No text of a query or question is written, and no literal: predicates, graphs, and a
hash of the query's shape, which is the same for queries that differ in literals only. What is refused before it is an
operation (a wrong key) is not here.
"""

import asyncio
import fcntl
import hashlib
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from proxy import (
    Exchange,
    GraphPattern,
    Iri,
    ParsedQuery,
    ParsedUpdate,
    Plugin,
    QuadPattern,
    TriplePattern,
    walk,
)

FIRST = "0" * 64
"""In place of the hash before the first line."""
NAMED_MOST = 50
"""Predicates and graphs in a line; the shape holds them all."""


class Options(msgspec.Struct, frozen=True):
    path: str


def load(options: Options) -> Plugin:
    return AuditLog(Path(options.path))


class AuditLog(Plugin):
    may_refuse = True

    def __init__(self, path: Path) -> None:
        self.chain = Chain(path)
        self.waiting: list[dict[str, Any]] = []
        self.next: asyncio.Task[None] | None = None
        self.lock = asyncio.Lock()

    async def startup(self) -> None:
        await self.write({"event": "started", "time": now()})

    async def verdict(self, exchange: Exchange) -> None:
        await self.write({"event": "decided", **about(exchange)})

    async def response(self, exchange: Exchange) -> None:
        await self.write({"event": "answered", "time": now(), "request_id": exchange.request_id, "status": exchange.status})

    async def write(self, record: dict[str, Any]) -> None:
        """Return when *record* is on the disk. Records that come while others are being written share the next fsync."""
        self.waiting.append(record)
        if self.next is None:
            self.next = asyncio.create_task(self.write_waiting())
        await asyncio.shield(self.next)  # a client that leaves takes nobody's record with it

    async def write_waiting(self) -> None:
        async with self.lock:
            records, self.waiting, self.next = self.waiting, [], None
            await asyncio.to_thread(self.chain.append, records)


def about(exchange: Exchange) -> dict[str, Any]:
    """What is written of a request: names from the query, no literal."""
    record: dict[str, Any] = {
        "time": now(),
        "request_id": exchange.request_id,
        "key": exchange.caller,
        "dataset": exchange.dataset,
        "method": exchange.method,
        "is_question": exchange.question is not None,
        "verdict": exchange.verdict,
    }
    operation, parsed = exchange.operation, exchange.parsed
    if operation is not None:
        record["kind"] = str(operation.kind)
        record["dataset_graphs"] = [*operation.dataset.default_graphs, *operation.dataset.named_graphs][:NAMED_MOST]
        record["store_graphs"] = [v for n, v in operation.parameters if n in ("graph", "context")][:NAMED_MOST]
    if exchange.refusal is not None:
        record["refused_by"] = getattr(exchange.refusal, "plugin", "") or "sparlance"
    if isinstance(parsed, ParsedQuery | ParsedUpdate):
        record["form"] = str(parsed.form) if isinstance(parsed, ParsedQuery) else "UPDATE"
        predicates: dict[str, None] = {}
        graphs: dict[str, None] = {}
        shape = hashlib.sha256()
        for node in walk(parsed):
            said = str(node) if isinstance(node, Iri) else type(node).__name__
            shape.update(f"{said}\n".encode("utf-8", "replace"))
            match node:
                case TriplePattern():
                    predicates.update((p.value, None) for p in walk(node.predicate) if isinstance(p, Iri))
                case GraphPattern(name=Iri(value=graph)) | QuadPattern(graph=Iri(value=graph)):
                    graphs[graph] = None
        record |= {"predicates": [*predicates][:NAMED_MOST], "graphs": [*graphs][:NAMED_MOST], "shape": shape.hexdigest()}
    return record


class Chain:
    """Lines in a file, each with the hash of the one before. Safe to use from several processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = -1
        self.last = FIRST
        self.number = 0

    def append(self, records: list[dict[str, Any]]) -> None:
        """Write *records*; on return they are on the disk.

        Raises:
            OSError: they are not. ValueError: the file is not one of ours.
        """
        is_new = not self.path.exists()
        with self.path.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            size = file.seek(0, os.SEEK_END)
            if size != self.size:
                size = self.catch_up(file, size)
            lines = b""
            last, number = self.last, self.number
            for record in records:
                number += 1
                line, last = seal({"number": number, **record, "before": last})
                lines += line
            try:
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                self.size = -1  # nobody knows how much of it is there
                raise
            self.size, self.last, self.number = size + len(lines), last, number
        if is_new:
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def catch_up(self, file: Any, size: int) -> int:
        """Find the last line, which another process or an earlier one wrote; take off what a killed one left unfinished."""
        tail, at = b"", size
        while at > 0 and tail.rstrip(b"\n").count(b"\n") < 2:
            step = min(at, 65536)
            at -= step
            file.seek(at)
            tail = file.read(step) + tail
        whole, newline, torn = tail.rpartition(b"\n")
        if torn:  # under the lock: whoever began it is dead, and nobody was told that it is there
            size -= len(torn)
            file.truncate(size)
        self.last, self.number = FIRST, 0
        if newline:
            record = read(whole.rpartition(b"\n")[2])
            self.last, self.number = record["hash"], record["number"]
        return size


def seal(record: dict[str, Any]) -> tuple[bytes, str]:
    """The line of *record* with its hash at the end, and the hash."""
    text = json.dumps(record, ensure_ascii=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode("ascii")).hexdigest()
    return f'{text[:-1]},"hash":"{digest}"}}\n'.encode("ascii"), digest


def read(line: bytes) -> dict[str, Any]:
    """The record of a line that is what was written. Raises ValueError."""
    record = json.loads(line)
    if not isinstance(record, dict) or not isinstance(digest := record.pop("hash", None), str):
        raise ValueError("this is no line of an audit log")
    if seal(record) != (line + b"\n", digest):
        raise ValueError("the line was changed: its hash is another")
    return {**record, "hash": digest}


def verify(path: Path) -> tuple[int, str]:
    """Read the whole file; return how many lines it has, and the hash of the last.

    Raises:
        ValueError: the first line that is not what was written, and what is wrong.
    """
    number, last = 0, FIRST
    with path.open("rb") as file:
        for line in file:
            try:
                if not line.endswith(b"\n"):
                    raise ValueError("the line is unfinished: a process was killed while it wrote it, before anybody was told")
                record = read(line[:-1])
                if record["before"] != last or record["number"] != number + 1:
                    raise ValueError("a line before it is missing, was put in, or stands elsewhere")
            except (ValueError, KeyError) as error:
                raise ValueError(f"line {number + 1}: {error}") from error
            number, last = record["number"], record["hash"]
    return number, last


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


if __name__ == "__main__":
    try:
        print("{} lines, the last hash is {}".format(*verify(Path(sys.argv[1]))))
    except (ValueError, OSError, IndexError) as error:
        sys.exit(f"audit_log: {error}")
