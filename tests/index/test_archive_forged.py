"""Index files that somebody has made up, digest and all: refused, or read without harm to the process.

A digest shows damage, not who wrote a file; whoever can write the folder, or the Redis that replicas share, can forge one.
``SPARLANCE_FUZZ_CASES=100000 pytest tests/index/test_archive_forged.py`` tries longer.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import sqlite3
import struct
from pathlib import Path

import pytest

from proxy.backends.embedded import EmbeddedBackend
from proxy.config import IndexSettings
from proxy.errors import CorruptIndex
from proxy.index import archive
from proxy.pipeline.distil import distil
from proxy.query.parse import parse
from proxy.validation.check import check

LIBRARY = Path(__file__).parent.parent / "data" / "library.ttl"
CASES = int(os.environ.get("SPARLANCE_FUZZ_CASES", "300"))
FOOTER = struct.Struct("<8sIIQQ32s")
ODD = [
    0, -1, 1, 2**31, 2**63 - 1, -(2**63), 2**70, 1e308, "", "x", "\x00", [], {}, None, True, "http://e/" + "x" * 999,
    [[]] * 9,
]  # fmt: skip
QUERIES = [
    parse("SELECT * { ?s a ?c ; ?p ?o . ?o a ?d }"),
    parse('PREFIX l: <http://example.org/library/> SELECT * { ?b a l:Book ; l:title "x" ; l:writtenBy ?a . ?a a l:Book }'),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    made = asyncio.run(distil(EmbeddedBackend.load([LIBRARY]), IndexSettings(), method="download"))
    path = tmp_path_factory.mktemp("index") / "a.index"
    archive.write(path, made.index, made.values, fingerprint="f")
    return path.read_bytes()


def parts(whole: bytes) -> tuple[bytes, dict]:
    """What stands before the description (database and arrays), and the description."""
    offset, length = FOOTER.unpack(whole[-FOOTER.size :])[3:5]
    return whole[:offset], json.loads(whole[offset : offset + length])


def signed(body: bytes, description: bytes, *, length: int | None = None) -> bytes:
    """An index file of these, with the digest that it needs."""
    digest = hashlib.blake2b(body + description, digest_size=32).digest()
    described = len(description) if length is None else length
    return body + description + FOOTER.pack(b"SPARLNCE", archive.FORMAT_VERSION, 0, len(body), described, digest)


def use(path: Path) -> bool:
    """Read *path* and do with it what a server does; False: it was refused."""
    try:
        found = archive.load(path, fingerprint="f")
    except CorruptIndex:
        return False
    try:
        for query in QUERIES:
            check(query, found.index, values=found.values)
        found.values.search("Moby Dick")
        found.values.lookup("moby dick")
        for class_ in list(found.index.class_instances)[:3]:
            for property_ in found.index.properties[:3]:
                found.values.examples(class_, property_)
    except sqlite3.Error:
        pass  # of a page that is no page: the request ends in an error, the process goes on
    finally:
        found.values.close()
    return True


def leaves(value, at=()):
    """Every place in a document."""
    yield at
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from leaves(inner, (*at, key))


def changed(document: dict, rng: random.Random) -> dict:
    document = json.loads(json.dumps(document))
    for _ in range(rng.randint(1, 3)):
        *above, last = rng.choice([p for p in leaves(document) if p])
        holder = document
        for key in above:
            holder = holder[key]
        holder[last] = rng.choice(ODD)
    return document


def test_a_file_that_is_signed_anew_is_read(whole, tmp_path):
    """The forger of these tests forges well."""
    body, description = parts(whole)
    path = tmp_path / "a.index"
    path.write_bytes(signed(body, json.dumps(description).encode()))
    assert use(path)


def test_a_forged_description_is_refused_or_harmless(whole, tmp_path):
    """Whatever number or text stands in place of another: CorruptIndex or an index."""
    body, description = parts(whole)
    path = tmp_path / "a.index"
    read = 0
    for seed in range(CASES):
        path.write_bytes(signed(body, json.dumps(changed(description, random.Random(seed))).encode()))
        read += use(path)
    assert 0 < read < CASES  # both happen


def test_forged_arrays_are_refused_or_harmless(whole, tmp_path):
    """Ids beyond the tables, offsets that leave a file; in the arrays, and in the pages of the database."""
    body, description = parts(whole)
    begin = min(place["offset"] for place in description["arrays"].values())
    path = tmp_path / "a.index"
    for seed in range(CASES):
        rng = random.Random(seed)
        forged = bytearray(body)
        low, high = (begin, len(body)) if seed % 2 else (0, begin)
        for _ in range(rng.randint(1, 20)):
            at = rng.randrange(low, high)
            forged[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        path.write_bytes(signed(bytes(forged), json.dumps(description).encode()))
        use(path)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"[]", b"null", b"[" * 100_000, b'{"graphs":' * 10_000, b'{"a":' * 1_000_000, b"\xff\xfe", b'{"fingerprint":"f"}',
        b'"' + b"x" * 1_000_000 + b'"', b"1e999999999", b"9" * 100_000,
    ],
    ids=range(11),
)  # fmt: skip
def test_a_description_that_is_none_is_refused(whole, tmp_path, text):
    """Nesting without end, too."""
    path = tmp_path / "a.index"
    path.write_bytes(signed(parts(whole)[0], text))
    assert not use(path)


def test_places_beyond_the_file_are_refused(whole, tmp_path):
    """An array of more bytes than there are takes no memory, one that begins before the file none either."""
    body, description = parts(whole)
    path = tmp_path / "a.index"
    for offset, size in [(0, 2**62), (-64, 4), (0, -1), (2**62, 2**62), (len(body), 1), (1, 3)]:
        for name in description["arrays"]:
            forged = json.loads(json.dumps(description))
            forged["arrays"][name] = {"offset": offset, "size": size}
            path.write_bytes(signed(body, json.dumps(forged).encode()))
            if use(path):
                assert (offset, size) == (1, 3)


@pytest.mark.parametrize(
    "statement",
    [
        # A view in place of a table is a program: this one never ends.
        "DROP TABLE text; CREATE VIEW text AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) "
        "SELECT i AS id, 'moby dick' AS normalised FROM n",
        "DROP TABLE iri; CREATE VIEW iri AS SELECT 1 AS id, hex(zeroblob(1000000000)) AS value",
        "DROP TABLE pair",
        "CREATE TRIGGER t AFTER INSERT ON iri BEGIN DELETE FROM entry; END",
        "ALTER TABLE posting RENAME COLUMN ids TO other",
        "CREATE TABLE more (x)",
        "DROP INDEX entry_text; CREATE INDEX entry_text ON entry (upper(text))",
    ],
)
def test_a_database_of_another_schema_is_refused(whole, tmp_path, statement):
    """Only tables as ours are: a view or an index may hold expressions, which would run."""
    body, description = parts(whole)
    (database := tmp_path / "d.sqlite").write_bytes(body)
    with sqlite3.connect(database) as connection:
        connection.executescript(statement)
    connection.close()
    path = tmp_path / "a.index"
    changed_database = database.read_bytes()
    begin = min(place["offset"] for place in description["arrays"].values())
    arrays, shift = body[begin:], -begin + len(changed_database)
    shift += -shift % 64
    for place in description["arrays"].values():
        place["offset"] += shift
    padded = changed_database.ljust(begin + shift, b"\0")
    path.write_bytes(signed(padded + arrays, json.dumps(description).encode()))
    assert not use(path)
