"""The TTQL document of a dataset in a file beside its index, so that a restart need not ask the backend for it again.

Text, as ``GET /-/ttql`` shows it, under one line of JSON that says of what index it is. Whatever does not fit is no document:
it is made anew.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec

from proxy.index.support import SupportIndex
from proxy.index.ttql_parse import parse
from proxy.index.ttql_text import render
from proxy.pipeline.harvest import Harvested, HarvestSettings

FORMAT = 1
"""Grows when the same index and settings would give another document than before."""


class _Head(msgspec.Struct):
    """key: of the index and the settings. digest: of the text. The rest as in ``Harvested``."""

    key: str
    digest: str
    queries: int
    elapsed_s: float
    incomplete: list[str]


def key_of(index: SupportIndex, settings: HarvestSettings, *, fingerprint: str) -> str:
    """What a document depends on: the build of *index* (*fingerprint*: of what shaped it) and how much is read for the text."""
    parts = [FORMAT, fingerprint, index.built_at, index.epoch, index.triples, len(index.count), settings]
    return _digest(msgspec.json.encode(parts))


def read(path: Path, key: str) -> Harvested | None:
    """What ``write`` left under *key*; None: nothing that fits."""
    try:
        head, end, text = path.read_bytes().partition(b"\n")
        found = msgspec.json.decode(head, type=_Head)
        if not end or found.key != key or found.digest != _digest(text):
            return None
        return Harvested(parse(text.decode("utf-8")), found.queries, found.elapsed_s, found.incomplete)
    except (OSError, ValueError, msgspec.DecodeError):
        return None


def write(path: Path, key: str, harvested: Harvested) -> None:
    """Put the document in place of what is there.

    Raises:
        OSError: it cannot be written; what was there still is.
    """
    text = render(harvested.document).encode("utf-8")
    head = _Head(key, _digest(text), harvested.queries, harvested.elapsed_s, harvested.incomplete)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(msgspec.json.encode(head) + b"\n" + text)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
