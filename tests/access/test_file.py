"""The file of keys: whole whatever happens, read again when it has changed."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from proxy.access.file import KeyFile, change, read
from proxy.access.keys import Role, mint
from proxy.errors import ConfigError

NOW = "2026-01-01T00:00:00Z"


def add(path, name):
    token, key = mint(name, [Role.QUERY], created=NOW)
    change(path, lambda keys: [*keys, key])
    return token


def test_what_is_written_is_read(tmp_path):
    """All members come back, and nobody but the owner may read the file."""
    path = tmp_path / "var" / "keys.json"
    token, key = mint("wiki", list(Role), created=NOW, expires="2027-01-01T00:00:00Z", requests_per_minute=10)
    change(path, lambda keys: [*keys, key])
    assert read(path) == [key]
    assert path.stat().st_mode & 0o777 == 0o600
    assert token not in path.read_text()


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{", '{"version": 2, "keys": []}', '{"version": 1, "keys": [], "x": 1}',
        '{"version": 1, "keys": [{"id": "a"}]}',
        '{"version": 1, "keys": [{"id": "a/b", "name": "n", "roles": []}]}',
        '{"version": 1, "keys": [{"id": "a", "name": "n", "roles": ["root"]}]}',
        '{"version": 1, "keys": [{"id": "a", "name": "n", "roles": [], "digest": "secretsecret"}]}',
        "\x00" * 100,
    ],
)  # fmt: skip
def test_another_file_is_refused_and_left_alone(tmp_path, text):
    """It is named, its content is not repeated, and no command writes over it."""
    path = tmp_path / "keys.json"
    path.write_text(text)
    for use in (lambda: read(path), lambda: add(path, "a")):
        with pytest.raises(ConfigError, match="no file of keys") as caught:
            use()
        assert "secretsecret" not in str(caught.value)
    assert path.read_text() == text


def test_what_the_edit_refuses_changes_nothing(tmp_path):
    """And leaves no scratch file."""
    path = tmp_path / "keys.json"
    add(path, "a")
    before = path.read_bytes()

    def refuse(keys):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        change(path, refuse)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["keys.json", "keys.json.lock"]


def test_two_at_once_lose_nothing(tmp_path):
    """Reading, editing and writing are one step."""
    path = tmp_path / "keys.json"
    threads = [threading.Thread(target=add, args=(path, f"k{i}")) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(k.name for k in read(path)) == sorted(f"k{i}" for i in range(20))


def test_a_server_sees_changes_and_survives_nonsense(tmp_path):
    """A file that cannot be read keeps what was known; one that is gone has no keys."""
    path, complaints = tmp_path / "keys.json", []
    first = add(path, "a")
    keys = KeyFile(path, [], complain=complaints.append)
    second = add(path, "b")
    assert keys.ring.find(second, now=NOW) is None
    keys.refresh()
    assert keys.ring.find(second, now=NOW).name == "b"
    path.write_text("{")
    keys.refresh()
    keys.refresh()
    assert len(complaints) == 1
    assert keys.ring.find(first, now=NOW).name == "a"
    path.unlink()
    keys.refresh()
    assert not keys.ring


MINT_FOR_EVER = """
import sys
from pathlib import Path
from proxy.access.file import change
from proxy.access.keys import Role, mint
for i in range(100000):
    token, key = mint(f"k{i}", [Role.QUERY], created="now")
    change(Path(sys.argv[1]), lambda keys: [*keys[-50:], key])
    print(key.id, flush=True)
"""


def test_killed_at_any_moment_what_was_acknowledged_is_there(tmp_path):
    """kill -9, ten times: the last key that was printed is in the file, and the file is whole."""
    path = tmp_path / "keys.json"
    for i in range(10):
        with subprocess.Popen([sys.executable, "-c", MINT_FOR_EVER, str(path)], stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            time.sleep(0.005 * i)
            os.kill(process.pid, signal.SIGKILL)
            printed = process.stdout.read().split()
        kept = [k.id for k in read(path)]
        assert not printed or printed[-1] in kept


@pytest.mark.parametrize("what", ["directory", "pipe", "device", "huge", "loop", "deep"])
def test_whatever_takes_the_place_of_the_file_the_known_keys_stay(tmp_path, what):
    """It is one complaint, at once, and nobody is locked out or let in; the next good file counts."""
    path = tmp_path / "keys.json"
    token = add(path, "wiki")
    good = path.read_bytes()
    complaints = []
    keys = KeyFile(path, [], complain=complaints.append)
    path.unlink()
    match what:
        case "directory":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "huge":
            with path.open("wb") as file:
                file.truncate(1 << 40)
        case "loop":
            path.symlink_to(path)
        case "deep":
            path.write_text('{"version": 1, "keys": ' + "[" * 1_000_000)
    began = time.monotonic()
    keys.refresh()
    keys.refresh()
    assert time.monotonic() - began < 2
    if what == "loop":  # for stat it is not there: as a file that was removed
        assert len(complaints) == 1
    else:
        [complaint] = complaints
        assert complaint.key == "access.keys_file" and str(path) in str(complaint)
    assert keys.ring.find(token, now=NOW) is not None
    with pytest.raises(ConfigError):
        add(path, "another")
    path.rmdir() if what == "directory" else path.unlink()
    path.write_bytes(good)
    keys.refresh()
    assert keys.ring.find(token, now=NOW) is not None and len(complaints) == 1


def test_a_link_goes_on_pointing_at_the_file(tmp_path):
    """As of a mounted secret: what it points at is changed, and a change there is seen through it."""
    (tmp_path / "data").mkdir()
    link, target = tmp_path / "keys.json", tmp_path / "data" / "keys.json"
    link.symlink_to(target)
    first = add(link, "one")
    keys = KeyFile(link, [])
    assert link.is_symlink() and read(target) == read(link)
    second = add(link, "two")
    keys.refresh()
    assert all(keys.ring.find(token, now=NOW) for token in (first, second))
