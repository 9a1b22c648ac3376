"""Which literals the graph holds, and which nodes they name: exact and fuzzy look-up, examples, ranges. (Does I/O: SQLite.)

One table of distinct normalised texts with the posting lists of their trigrams, one of entries, one of (class, property)
pairs. Why SQLite and not a dictionary: docs/index.md, "The value index".
"""

from __future__ import annotations

import sqlite3
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz

from proxy.errors import CorruptIndex
from proxy.index.normalise import fold, normalise, normalise_all, without_marks
from proxy.index.trigrams import LISTS_MOST, POSTINGS_MOST, closest, postings, trigrams

LONGEST = 200
"""Characters; longer values are counted but not kept."""

MAPPED_MOST_BYTES = 1 << 40
"""Of a database on disk, how much is mapped rather than read; SQLite's own limit may be lower."""
_CANDIDATES = 96
_NO_IRI = 0
_VARIABLES_MOST = 800
"""Of one statement; SQLite takes 999 at least."""
_FOLDED_AT_ONCE = 10_000
_TEXTS_AT_ONCE = 50_000
"""Texts that are normalised at a time, with some ten bytes a letter."""
_SPELT_MOST = 100_000
"""Texts as written whose number is remembered while filling, some 200 bytes each; the others are normalised again."""
_SCHEMA = """
CREATE TABLE text (id INTEGER PRIMARY KEY, normalised TEXT NOT NULL);
CREATE TABLE iri (id INTEGER PRIMARY KEY, value TEXT NOT NULL UNIQUE);
CREATE TABLE entry (
    text_id INTEGER NOT NULL, text TEXT NOT NULL, language TEXT, datatype_id INTEGER NOT NULL,
    property_id INTEGER NOT NULL, class_id INTEGER NOT NULL, count INTEGER NOT NULL, subject TEXT
);
CREATE TABLE pair (
    class_id INTEGER NOT NULL, property_id INTEGER NOT NULL, number_of_distinct INTEGER, low REAL, high REAL,
    earliest TEXT, latest TEXT, is_complete INTEGER NOT NULL, PRIMARY KEY (class_id, property_id)
);
CREATE TABLE posting (trigram TEXT, segment INTEGER, size INTEGER NOT NULL, ids BLOB NOT NULL, PRIMARY KEY (trigram, segment))
    WITHOUT ROWID;
"""
_INDICES = """
CREATE UNIQUE INDEX IF NOT EXISTS text_normalised ON text (normalised);
CREATE INDEX IF NOT EXISTS entry_text ON entry (text_id);
CREATE INDEX IF NOT EXISTS entry_pair ON entry (class_id, property_id, count);
"""
_ENTRY = """
SELECT entry.text, language, datatype.value, property.value, class.value, count, subject FROM entry
JOIN iri AS datatype ON datatype.id = datatype_id
LEFT JOIN iri AS property ON property.id = property_id LEFT JOIN iri AS class ON class.id = class_id
"""
_PAIR = """
SELECT number_of_distinct, low, high, earliest, latest, is_complete FROM pair WHERE class_id = ? AND property_id = ?
"""

NumberedEntries = tuple[
    list[int], list[str], list[str | None], list[int], list[int], list[int], list[int], list[str | None]
]
"""``ValueEntry`` s by numbers: texts, lexical forms, languages, datatypes, properties or 0, classes or 0, counts, subjects."""


@dataclass(frozen=True, slots=True)
class ValueEntry:
    """One literal as *count* subjects of *subject_class* have it at *property*.

    text: the lexical form. language: lower case, or None. property: None where *text* is no literal but the local name of the
    node's IRI, kept for nodes that nothing else names. subject_class: None for nodes without a class. subject: IRI of the one
    node of that class that has the value; None where there are several, or it is a blank node.
    """

    text: str
    language: str | None
    datatype: str
    property: str | None
    subject_class: str | None
    count: int
    subject: str | None


@dataclass(frozen=True, slots=True)
class PairSummary:
    """What is known of the literals at one (class, property).

    distinct: None if it could not be counted. low, high: of the numbers. earliest, latest: of the dates and times, as written.
    is_complete: every literal has an entry.
    """

    distinct: int | None
    low: float | None = None
    high: float | None = None
    earliest: str | None = None
    latest: str | None = None
    is_complete: bool = False


def _schema(connection: sqlite3.Connection) -> frozenset[tuple[Any, ...]]:
    """What a database consists of, as SQLite remembers it."""
    return frozenset(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


@lru_cache(maxsize=1)
def _own_schema() -> frozenset[tuple[Any, ...]]:
    connection = sqlite3.connect(":memory:")
    connection.executescript(_SCHEMA + _INDICES)
    found = _schema(connection)
    connection.close()
    return found


class ValueIndex:
    """Read-only once built (``ValueIndexBuilder``). Safe to use from many threads, which take turns."""

    def __init__(
        self, connection: sqlite3.Connection, lengths: NDArray[np.int16], lock: threading.Lock | None = None
    ) -> None:
        self._connection = connection
        self.lengths = lengths
        """(text ids,) characters of each folded text; the fuzzy search needs them all."""
        self._lock = lock or threading.Lock()

    @classmethod
    def open(cls, path: Path, lengths: NDArray[Any]) -> ValueIndex:
        """Map the database at *path*, which nobody writes any more; more may follow its last page (index/archive.py).

        Raises:
            CorruptIndex: it is none, or of another schema: views and indices of others could hold expressions, which run.
        """
        try:
            # immutable: no lock and no look for a journal, so many processes read one file, on read-only media too.
            connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)
            connection.execute(f"PRAGMA mmap_size = {MAPPED_MOST_BYTES}")
            connection.execute("PRAGMA trusted_schema = OFF")
            found = _schema(connection)
        except (sqlite3.Error, UnicodeDecodeError) as exc:
            raise CorruptIndex(f"{path} does not begin with a value index: {exc}") from exc
        if found != _own_schema():
            connection.close()
            raise CorruptIndex(f"{path} has a value index of another schema")
        return cls(connection, lengths)

    def copy(self) -> sqlite3.Connection:
        """The database once more, in memory."""
        target = sqlite3.connect(":memory:", check_same_thread=False)
        with self._lock:
            self._connection.backup(target)
        return target

    def copy_to(self, path: Path) -> None:
        """Write the database into a new file.

        Raises:
            OSError: it cannot be written.
        """
        try:
            with self._lock:
                target = sqlite3.connect(str(path))
                try:
                    target.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
                    self._connection.backup(target)
                finally:
                    target.close()
        except sqlite3.Error as exc:
            raise OSError(f"{path} cannot be written: {exc}") from exc

    def _rows(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connection.execute(query, parameters).fetchall()

    def _entries(self, condition: str, parameters: Sequence[object]) -> list[ValueEntry]:
        return [ValueEntry(*row) for row in self._rows(_ENTRY + condition, parameters)]

    def __len__(self) -> int:
        return int(self._rows("SELECT COUNT(*) FROM entry")[0][0])

    def lookup(self, normalised: str) -> list[ValueEntry]:
        """Entries whose normalised text is *normalised* (see ``normalise``), most frequent first."""
        return self._entries(
            "JOIN text ON text.id = text_id WHERE text.normalised = ? ORDER BY count DESC, entry.rowid", (normalised,)
        )

    def search(self, text: str, limit: int = 10) -> list[tuple[ValueEntry, float]]:
        """Entries that resemble *text*, best first, each with its likeness (0 to 1; 1 is equal but for accents).

        Finds typing errors, missing or swapped words, and the beginnings of words. What shares no three letters in a row with
        *text* is not found.
        """
        wanted = fold(text)[: 2 * LONGEST]
        ids = closest(self._postings(wanted), self.lengths, len(wanted), limit=max(_CANDIDATES, limit)) if limit > 0 else ()
        marks = ", ".join("?" * len(ids))
        candidates = self._rows(f"SELECT id, normalised FROM text WHERE id IN ({marks})", [int(i) for i in ids])
        scored = sorted((-likeness(wanted, without_marks(n)), i) for i, n in candidates)[:limit]
        found: list[tuple[ValueEntry, float]] = []
        for score, text_id in scored:
            found += ((e, -score) for e in self._entries("WHERE text_id = ? ORDER BY count DESC, entry.rowid", (text_id,)))
            if len(found) >= limit:
                break
        return found[:limit]

    def _postings(self, folded: str) -> list[NDArray[np.int32]]:
        """Posting lists of the trigrams of *folded* that occur at all, rarest first: common ones cost time and tell little."""
        wanted = sorted(trigrams(folded))
        marks = ", ".join("?" * len(wanted))
        query = f"SELECT trigram, SUM(size) AS n FROM posting WHERE trigram IN ({marks}) GROUP BY 1 ORDER BY n, 1"
        sizes = self._rows(query, wanted)
        lists: list[NDArray[np.int32]] = []
        read = 0
        for trigram, size in sizes[:LISTS_MOST]:
            read += size
            if lists and read > POSTINGS_MOST:
                break
            segments = self._rows("SELECT ids FROM posting WHERE trigram = ? ORDER BY segment", (trigram,))
            lists.append(np.concatenate([np.frombuffer(ids, dtype=np.int32) for (ids,) in segments]))
        return lists

    def examples(self, class_: str | None, property_: str, limit: int = 5) -> list[ValueEntry]:
        """The most frequent literals of *property_* at instances of *class_* (None: at nodes without a class)."""
        ids = self._pair_ids(class_, property_)
        condition = "WHERE class_id = ? AND property_id = ? ORDER BY count DESC, entry.rowid LIMIT ?"
        return [] if ids is None else self._entries(condition, (*ids, limit))

    def _pair_ids(self, class_: str | None, property_: str) -> tuple[int, int] | None:
        wanted = [iri for iri in (class_, property_) if iri is not None]
        marks = ", ".join("?" * len(wanted))
        ids = {iri: int(i) for iri, i in self._rows(f"SELECT value, id FROM iri WHERE value IN ({marks})", wanted)}
        if property_ not in ids or (class_ is not None and class_ not in ids):
            return None
        return (_NO_IRI if class_ is None else ids[class_]), ids[property_]

    def summary(self, class_: str | None, property_: str) -> PairSummary | None:
        """What is known of the literals of *property_* at *class_*; None: the pair has none, or was not read."""
        ids = self._pair_ids(class_, property_)
        rows = [] if ids is None else self._rows(_PAIR, ids)
        if not rows:
            return None
        distinct, low, high, earliest, latest, is_complete = rows[0]
        return PairSummary(distinct, low, high, earliest, latest, bool(is_complete))

    def number_range(self, class_: str | None, property_: str) -> tuple[float, float] | None:
        """Least and greatest number; None where there is none."""
        found = self.summary(class_, property_)
        return None if found is None or found.low is None or found.high is None else (found.low, found.high)

    def date_range(self, class_: str | None, property_: str) -> tuple[str, str] | None:
        """Earliest and latest date, time or year, as written; None where there is none."""
        found = self.summary(class_, property_)
        return None if found is None or found.earliest is None or found.latest is None else (found.earliest, found.latest)

    def distinct(self, class_: str | None, property_: str) -> int | None:
        """Distinct literals; None where they could not be counted or there are none."""
        found = self.summary(class_, property_)
        return None if found is None else found.distinct

    def is_complete(self, class_: str | None, property_: str) -> bool:
        """Whether every literal of *property_* at *class_* has an entry, so that a missing one is known to be missing."""
        found = self.summary(class_, property_)
        return found is not None and found.is_complete

    def close(self) -> None:
        """Let go of the file (or the memory). Nothing may be asked afterwards."""
        with self._lock:
            self._connection.close()


class ValueIndexBuilder:
    """Fills a new ``ValueIndex``; threads take turns.

    ``close`` may come at any time, from any thread: whoever is filling it then gets a ``sqlite3.Error``. (SQLite does not
    look out for that: a connection closed under a running statement ends the process.)

    Args:
        path: a file to be created; None keeps everything in memory.
        segment: texts whose trigrams are sorted out at a time; bounds the memory of ``finish``.
    """

    def __init__(self, path: Path | None = None, *, segment: int = 200_000) -> None:
        self._segment = segment
        self._lock = threading.Lock()
        self._is_closed = False
        self._connection = sqlite3.connect(str(path) if path is not None else ":memory:", check_same_thread=False)
        # A build that dies leaves nothing worth recovering, so neither journal nor fsync.
        self._connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + _SCHEMA)
        self._iris: dict[str, int] = {}
        self._texts: defaultdict[str, int] = defaultdict(count(1).__next__)
        """Normalised text → number, in the order of the numbers."""
        self._texts_written = 0
        self._spelt: dict[str, int] = {}
        self._known_lengths = np.zeros(1, dtype=np.int16)

    @classmethod
    def changing(cls, old: ValueIndex, properties: Collection[str], path: Path | None = None) -> ValueIndexBuilder:
        """Begin with all of *old* but what it has of *properties*; texts that nobody has any more stay until a new build."""
        builder = cls(path)
        builder._connection.close()
        if path is not None:
            path.unlink()
            old.copy_to(path)
            builder._connection = sqlite3.connect(str(path), check_same_thread=False)
        else:
            builder._connection = old.copy()
        run = builder._connection.execute
        run("PRAGMA synchronous = OFF")
        builder._iris = {iri: int(i) for iri, i in run("SELECT value, id FROM iri")}
        texts = list(run("SELECT normalised, id FROM text ORDER BY id"))
        builder._texts = defaultdict(count(len(texts) + 1).__next__, texts)
        builder._texts_written = len(texts)
        builder._known_lengths = np.array(old.lengths, dtype=np.int16)
        for p in properties:
            if (known := builder._iris.get(p)) is not None:
                run("DELETE FROM entry WHERE property_id = ?", (known,))
                run("DELETE FROM pair WHERE property_id = ?", (known,))
        return builder

    def _iri_id(self, iri: str | None) -> int:
        if iri is None:
            return _NO_IRI
        if (known := self._iris.get(iri)) is None:
            known = self._iris[iri] = len(self._iris) + 1
            self._connection.execute("INSERT INTO iri VALUES (?, ?)", (known, iri))
        return known

    def _text_id(self, text: str) -> int:
        if (known := self._spelt.get(text)) is not None:
            return known
        if len(self._spelt) >= _SPELT_MOST:
            self._spelt.clear()
        known = self._spelt[text] = self._texts[normalise(text)]
        return known

    def add(self, entries: Iterable[ValueEntry]) -> None:
        """Take entries; those longer than LONGEST are passed over."""
        with self._use():
            kept = [e for e in entries if len(e.text) <= LONGEST]
            self._write(
                (
                    [self._text_id(e.text) for e in kept],
                    [e.text for e in kept],
                    [e.language for e in kept],
                    [self._iri_id(e.datatype) for e in kept],
                    [self._iri_id(e.property) for e in kept],
                    [self._iri_id(e.subject_class) for e in kept],
                    [e.count for e in kept],
                    [e.subject for e in kept],
                )
            )

    def number_texts(self, texts: Sequence[str]) -> list[int]:
        """Numbers of *texts* for ``add_numbered``; equal ones get the same, and so do those that normalise alike."""
        with self._use():
            numbers: list[int] = []
            for at in range(0, len(texts), _TEXTS_AT_ONCE):
                numbers += map(self._texts.__getitem__, normalise_all(texts[at : at + _TEXTS_AT_ONCE]))
                self._write_texts()
            return numbers

    def number_iris(self, iris: Iterable[str]) -> list[int]:
        """Numbers of *iris* for ``add_numbered``."""
        with self._use():
            return [self._iri_id(iri) for iri in iris]

    def add_numbered(self, columns: NumberedEntries) -> None:
        """Take entries whose texts and IRIs have been numbered; the same as ``add``, in less time."""
        with self._use():
            self._write(columns)

    def _write(self, columns: NumberedEntries) -> None:
        self._write_texts()
        self._insert("entry", columns)

    def _write_texts(self) -> None:
        """Write the texts that have been numbered since."""
        new = list(islice(reversed(self._texts.items()), len(self._texts) - self._texts_written))
        new.reverse()
        self._insert("text", ([number for _, number in new], [text for text, _ in new]))
        self._texts_written = len(self._texts)

    def _insert(self, table: str, columns: Sequence[Sequence[Any]]) -> None:
        """Add the rows of *columns*, many by one statement: half of the time that one for each takes."""
        width = len(columns)
        cells: list[Any] = [None] * (width * len(columns[0]))
        for i, column in enumerate(columns):
            cells[i::width] = column
        row, at_once = f"({', '.join('?' * width)})", _VARIABLES_MOST // width * width
        for at in range(0, len(cells), at_once):
            some = cells[at : at + at_once]
            places = ", ".join([row] * (len(some) // width))  # all but the last statement are the same, and prepared once
            self._connection.execute(f"INSERT INTO {table} VALUES {places}", some)

    def describe(self, class_: str | None, property_: str, summary: PairSummary) -> None:
        """Note what is known of a pair, once for each."""
        with self._use():
            self._connection.execute(
                "INSERT INTO pair VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    self._iri_id(class_),
                    self._iri_id(property_),
                    summary.distinct,
                    summary.low,
                    summary.high,
                    summary.earliest,
                    summary.latest,
                    summary.is_complete,
                ),
            )

    def finish(self) -> ValueIndex:
        """Build the look-up structures; the builder is spent."""
        with self._use():
            return self._finish()

    def _finish(self) -> ValueIndex:
        self._texts.clear()
        self._spelt.clear()
        self._connection.commit()
        self._connection.executescript(_INDICES)
        last = self._connection.execute("SELECT COALESCE(MAX(id), 0) FROM text").fetchone()[0]
        begin = len(self._known_lengths)
        lengths = np.zeros(last + 1, dtype=np.int16)
        lengths[:begin] = self._known_lengths
        for first in range(begin, last + 1, self._segment):  # one segment in memory at a time
            query = "SELECT id, normalised FROM text WHERE id >= ? AND id < ?"
            texts = self._connection.execute(query, (first, first + self._segment))
            ids: list[int] = []
            folded: list[str] = []
            while some := texts.fetchmany(_FOLDED_AT_ONCE):
                self._require_open()
                ids += [i for i, _ in some]
                folded += [n if n.isascii() else without_marks(n) for _, n in some]
            lengths[ids] = [len(f) for f in folded]
            self._connection.executemany(
                "INSERT INTO posting VALUES (?, ?, ?, ?)",
                self._rows_of(first, ids, folded),
            )
        self._connection.commit()
        self._require_open()
        return ValueIndex(self._connection, lengths, self._lock)

    def close(self) -> None:
        """Abandon the build; a thread that works on it is interrupted, and waited for."""
        if self._is_closed:
            return
        self._is_closed = True
        with suppress(sqlite3.ProgrammingError):  # the index that was made of it is closed already
            self._connection.interrupt()
        with self._lock:
            self._connection.close()

    @contextmanager
    def _use(self) -> Iterator[None]:
        with self._lock:
            self._require_open()
            yield

    def _require_open(self) -> None:
        if self._is_closed:
            raise sqlite3.ProgrammingError("the value index was closed while it was built")

    def _rows_of(self, first: int, ids: list[int], folded: list[str]) -> Iterator[tuple[str, int, int, bytes]]:
        for trigram, found in postings(ids, folded):
            self._require_open()
            yield trigram, first, len(found), found.tobytes()


def likeness(wanted: str, found: str) -> float:
    """How alike two folded texts are, 0 to 1; 1 only if equal.

    The best of: spelling (share of letters in common order), the same after sorting the words, and containment of all words
    of one in the other, which is worth at most .95 and less the more is left over.
    """
    if wanted == found:
        return 1.0
    spelling = fuzz.ratio(wanted, found) / 100
    sorted_words = 0.97 * fuzz.token_sort_ratio(wanted, found) / 100
    few, many = sorted((set(wanted.split()), set(found.split())), key=len)
    covered = min(len(wanted), len(found)) / max(len(wanted), len(found), 1)
    contained = 0.55 + 0.4 * covered if few and few <= many else 0.0
    begun = 0.45 + 0.4 * covered if len(wanted) >= 3 and f" {found}".find(f" {wanted}") >= 0 else 0.0
    return min(0.99, max(spelling, sorted_words, contained, begun))
