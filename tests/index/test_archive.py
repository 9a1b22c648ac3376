"""Indexes to and from one file: the same again, shared, and never trusted."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyoxigraph as ox
import pytest

from proxy.backends.embedded import EmbeddedBackend
from proxy.config import IndexSettings
from proxy.errors import CorruptIndex
from proxy.index import archive
from proxy.index.archive import Archived
from proxy.index.support import IncompleteChunk, SupportIndex
from proxy.index.values import ValueIndex
from proxy.pipeline.distil import Distilled, distil

LIBRARY = Path(__file__).parent.parent / "data" / "library.ttl"
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def library() -> Distilled:
    return asyncio.run(distil(EmbeddedBackend.load([LIBRARY]), IndexSettings(), epoch=7, method="download"))


def written(path: Path, made: Distilled, **more) -> Path:
    archive.write(path, made.index, made.values, fingerprint="f", marker="m", queries=9, elapsed_s=1.5, **more)
    return path


def same_tables(a: SupportIndex, b: SupportIndex) -> bool:
    """Which IRIs are nodes, and what nodes have together."""
    nodes = [i.nodes and (i.nodes.prints.tolist(), i.nodes.kinds.tolist()) for i in (a, b)]
    features = [(f := i.features) and (f.classes, f.properties, f.unknown, f.pairs.tolist()) for i in (a, b)]
    return nodes[0] == nodes[1] and features[0] == features[1]


def same_index(a: SupportIndex, b: SupportIndex) -> bool:
    arrays = all(
        np.array_equal(getattr(a, n), getattr(b, n)) for n in ("instances", "subject", "property", "object", "count")
    )
    rest = "kinds properties are_kinds_exact class_predicate incomplete vocabulary multiplicity languages built_at epoch"
    return arrays and same_tables(a, b) and all(getattr(a, n) == getattr(b, n) for n in [*rest.split(), "covers_named_graphs"])


def dump(values: ValueIndex) -> list[str]:
    return list(values._connection.iterdump())


def test_what_is_written_is_what_is_loaded(library, tmp_path):
    """Every part of both indexes, and what making them cost; searching finds the same."""
    found = archive.load(written(tmp_path / "new" / "a.index", library), fingerprint="f")
    assert isinstance(found, Archived)
    assert same_index(found.index, library.index)
    assert found.index.epoch == 7 and found.index.matrix == library.index.matrix
    assert dump(found.values) == dump(library.values)
    pairs = [(c, p) for c in library.index.class_instances for p in library.index.properties]
    text = next(e.text for c, p in pairs for e in library.values.examples(c, p) if len(e.text) > 5)
    assert found.values.search(text[1:], 3) == library.values.search(text[1:], 3) != []
    assert (found.marker, found.queries, found.elapsed_s) == ("m", 9, 1.5)
    assert found.size_bytes == (tmp_path / "new" / "a.index").stat().st_size
    found.values.close()


def test_arrays_are_mapped_and_cannot_be_written(library, tmp_path):
    """Loading copies nothing, so that workers share the pages, and nobody can change what the others see."""
    found = archive.load(written(tmp_path / "a.index", library), fingerprint="f")
    assert isinstance(found.index.count, np.memmap)
    with pytest.raises(ValueError):
        found.index.count[0] = 5
    found.values.close()


def test_incomplete_chunks_survive(tmp_path):
    """Where nothing may be proved before, nothing may be proved after; an empty graph is a file too."""
    made = asyncio.run(distil(EmbeddedBackend(ox.Store()), IndexSettings()))
    empty = np.empty(0, dtype=np.int32)
    index = SupportIndex(
        kinds=[],
        instances=np.empty(0, dtype=np.int64),
        properties=[],
        subject=empty,
        property_=empty,
        object_=empty,
        count=np.empty(0, dtype=np.int64),
        are_kinds_exact=False,
        incomplete=[IncompleteChunk(None, "http://e/p", "why"), IncompleteChunk("http://e/C", None, "why not")],
        covers_named_graphs=True,
    )
    archive.write(tmp_path / "a", index, made.values, fingerprint="")
    found = archive.load(tmp_path / "a", fingerprint="")
    assert same_index(found.index, index)
    found.values.close()


def test_another_fingerprint_is_foreign(library, tmp_path):
    """An index of another backend, or under other settings, says nothing about this one."""
    path = written(tmp_path / "a", library)
    with pytest.raises(CorruptIndex, match="other settings"):
        archive.load(path, fingerprint="g")
    with pytest.raises(FileNotFoundError):
        archive.load(tmp_path / "b", fingerprint="f")


def test_any_changed_byte_is_noticed(library, tmp_path):
    """Wherever a byte differs: in the values, in an array, in the description, in the footer."""
    path = written(tmp_path / "a", library)
    good = path.read_bytes()
    for position in [*range(0, len(good), len(good) // 97), *range(len(good) - 64, len(good), 5)]:
        bad = bytearray(good)
        bad[position] ^= 0x10
        if len(good) - 52 <= position < len(good) - 48:
            continue  # four unused bytes
        path.write_bytes(bad)
        with pytest.raises(CorruptIndex):
            archive.load(path, fingerprint="f")


@pytest.mark.parametrize("kept", [0, 1, 63, 64, 100, 4096, -1, -64, -4096])
def test_a_truncated_file_is_noticed(library, tmp_path, kept):
    """A copy that was cut off, anywhere."""
    path = written(tmp_path / "a", library)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CorruptIndex):
        archive.load(path, fingerprint="f")


def test_an_older_format_is_built_anew(library, tmp_path, monkeypatch):
    """A file of another version, correct in itself."""
    with monkeypatch.context() as patched:
        patched.setattr(archive, "FORMAT_VERSION", 0)
        path = written(tmp_path / "a", library)
    with pytest.raises(CorruptIndex, match="format 0"):
        archive.load(path, fingerprint="f")


def test_a_disk_that_fills_up_leaves_the_old_file(library, tmp_path):
    """The file size is limited in a process of its own; the write fails, the old file is whole, no part is left behind."""
    path = written(tmp_path / "a", library)
    before = path.read_bytes()
    program = f"""
import asyncio, resource, signal
from pathlib import Path
from proxy.backends.embedded import EmbeddedBackend
from proxy.config import IndexSettings
from proxy.index import archive
from proxy.pipeline.distil import distil
made = asyncio.run(distil(EmbeddedBackend.load([{str(LIBRARY)!r}]), IndexSettings(), method="download"))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before) // 3}, {resource.RLIM_INFINITY}))
try:
    archive.write(Path({str(path)!r}), made.index, made.values, fingerprint="f")
except OSError as error:
    print("failed")
resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before) - 10}, {resource.RLIM_INFINITY}))
try:
    archive.write(Path({str(path)!r}), made.index, made.values, fingerprint="f")
except OSError as error:
    print("failed")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.stdout.split(), done.stderr) == (["failed", "failed"], "")
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a"]


WRITE_FOR_EVER = """
import asyncio, sys
from pathlib import Path
from proxy.backends.embedded import EmbeddedBackend
from proxy.config import IndexSettings
from proxy.index import archive
from proxy.pipeline.distil import distil
path, library = map(Path, sys.argv[1:])
begin = archive.load(path, fingerprint="f").index.epoch + 1 if path.exists() else 1
backend = EmbeddedBackend.load([library])
for epoch in range(begin, 1_000_000):
    made = asyncio.run(distil(backend, IndexSettings(), epoch=epoch, method="download"))
    archive.write(path, made.index, made.values, fingerprint="f")
    made.values.close()
    print(epoch, flush=True)
"""


def test_killed_at_any_moment_the_file_is_a_whole_one(tmp_path):
    """kill -9, eight times: what loads is the last that was acknowledged or a newer one; the next process goes on from it."""
    path = tmp_path / "a.index"
    command = [sys.executable, "-c", WRITE_FOR_EVER, str(path), str(LIBRARY)]
    acknowledged = 0
    for i in range(8):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
            first = writer.stdout.readline()
            time.sleep(0.007 * i)
            writer.kill()
            told = [first, *writer.stdout.readlines()]
        acknowledged = max([acknowledged, *(int(line) for line in told if line.endswith("\n"))])
        found = archive.load(path, fingerprint="f")
        assert found.index.epoch >= acknowledged >= i + 1
        assert found.values.search("Franz Kafka") and len(found.index.count)
        found.values.close()
