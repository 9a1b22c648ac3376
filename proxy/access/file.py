"""The file of API keys: changed whole or not at all, and read again when it has changed.

One JSON object, ``{"version": 1, "keys": […]}``, mode 0600. A change is written beside it, flushed to the disk, and renamed
over it under a lock, so that a process killed at any moment leaves the old file or the new one, and two commands at once
lose nothing.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from proxy.access.keys import Key, KeyRing, Role, ring
from proxy.errors import ConfigError

VERSION = 1
LIMIT_BYTES = 16 * 1024 * 1024
_KEY = "access.keys_file"


class _Record(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{1,64}$")]
    name: Annotated[str, Meta(min_length=1, max_length=64)]
    roles: tuple[Role, ...]
    digest: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?$")] = ""
    created: str = ""
    expires: str = ""
    revoked: str = ""
    requests_per_minute: Annotated[float, Meta(ge=0)] = 0.0
    query_seconds_per_minute: Annotated[float, Meta(ge=0)] = 0.0


class _Document(Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    keys: tuple[_Record, ...]


def read(path: Path) -> list[Key]:
    """The keys in the file, none where there is no file.

    Raises:
        ConfigError: it cannot be read, or is not what we wrote.
    """
    try:
        # Not waiting for the writer of a pipe: whoever put that in place of the file would hold up the server.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError(_KEY, f"{path} is no file of keys: it is no file")
            data = file.read(LIMIT_BYTES + 1)
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise ConfigError(_KEY, f"cannot read {path}: {exc.strerror}") from exc
    try:
        if len(data) > LIMIT_BYTES:
            raise ValueError(f"larger than {LIMIT_BYTES} bytes")
        document = msgspec.json.decode(data, type=_Document)
        if document.version != VERSION:
            raise ValueError(f"version {document.version}, this release reads {VERSION}")
    except ValueError as exc:  # of msgspec, too; it repeats types and paths, never a value
        raise ConfigError(_KEY, f"{path} is no file of keys: {exc}") from exc
    return [Key(**{**msgspec.structs.asdict(r), "roles": frozenset(r.roles)}) for r in document.keys]


def change(path: Path, edit: Callable[[list[Key]], list[Key]]) -> None:
    """Replace the keys by what *edit* makes of them; on return they are on the disk.

    Raises:
        ConfigError: the file cannot be read or written. What *edit* raises; then nothing changes.
    """
    path = Path(os.path.realpath(path))  # a link, as of a mounted secret, goes on pointing at the file
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _lock(path):
            _write(path, edit(read(path)))
    except OSError as exc:
        raise ConfigError(_KEY, f"cannot write {path}: {exc.strerror}") from exc


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    # A file of its own: the one that is renamed over is another file afterwards, and a lock on the old one would say nothing.
    with open(path.with_name(path.name + ".lock"), "a") as file:
        os.chmod(file.name, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _write(path: Path, keys: list[Key]) -> None:
    records = tuple(
        _Record(k.id, k.name, tuple(sorted(k.roles)), k.digest, k.created, k.expires, k.revoked,
                k.requests_per_minute, k.query_seconds_per_minute)
        for k in keys
    )  # fmt: skip
    data = msgspec.json.format(msgspec.json.encode(_Document(VERSION, records))) + b"\n"
    handle, name = tempfile.mkstemp(prefix=path.name + ".", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class KeyFile:
    """The keys of a file and of the environment, as they are now.

    Args:
        path: None: only *given*. given: keys that stand in no file. complain: told of a file that cannot be read any more;
            the keys known until then stay, so that a half-written file locks nobody out and lets nobody in.
    Raises:
        ConfigError: the file is no file of keys.
    """

    def __init__(
        self, path: Path | None, given: list[Key], *, complain: Callable[[ConfigError], None] = lambda error: None
    ) -> None:
        self._path = path
        self._given = given
        self._complain = complain
        self._seen = self._state()
        self.ring: KeyRing = ring([*(read(path) if path else []), *given])

    def refresh(self) -> None:
        """Read the file again if it has changed; costs one ``stat``."""
        if self._path is None or (state := self._state()) == self._seen:
            return
        self._seen = state
        try:
            self.ring = ring([*read(self._path), *self._given])
        except ConfigError as error:
            self._complain(error)

    def _state(self) -> tuple[int, int, int]:
        try:
            found = os.stat(self._path) if self._path else None
        except OSError:
            found = None
        return (found.st_mtime_ns, found.st_size, found.st_ino) if found else (0, 0, 0)
