"""The file of confirmed pairs: what is acknowledged survives a kill, what is half written does not hurt."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from proxy.errors import MalformedRequest
from proxy.nl.memory import Confirmed
from proxy.pipeline.memory import LINE_MOST_BYTES, Feedback, MemoryKeeper

QUERY = "SELECT ?s WHERE { ?s ?p ?o }"


def pair(n: int) -> Feedback:
    return Feedback(Confirmed(f"Question {n}?", QUERY))


def test_another_keeper_sees_what_was_added(tmp_path: Path) -> None:
    """Two processes share the file: each reads again when it has changed."""
    one, other = MemoryKeeper(tmp_path / "m.jsonl"), MemoryKeeper(tmp_path / "m.jsonl")
    assert not other.memory.all
    assert one.add(pair(1)) == 1
    assert [c.question for c in other.memory.all] == ["Question 1?"]


def test_wrong_takes_a_confirmation_back(tmp_path: Path) -> None:
    """And the query is not chosen for that question again, until somebody says that it is right."""
    keeper = MemoryKeeper(tmp_path / "m.jsonl")
    keeper.add(pair(1))
    keeper.add(Feedback(pair(1).pair, is_right=False))
    assert not keeper.memory.all and keeper.rejected == {("question 1", QUERY)}
    keeper.add(pair(1))
    assert len(keeper.memory.all) == 1 and not keeper.rejected


def test_a_half_written_line_is_cut_off(tmp_path: Path) -> None:
    """The next one is whole, and the earlier ones stay."""
    path = tmp_path / "m.jsonl"
    keeper = MemoryKeeper(path)
    keeper.add(pair(1))
    with path.open("ab") as file:
        file.write(b'{"question": "Half')
    assert len(MemoryKeeper(path).memory.all) == 1
    assert keeper.add(pair(2)) == 2
    assert path.read_bytes().count(b"\n") == 2


def test_a_damaged_line_is_passed_over(tmp_path: Path) -> None:
    """One bad record does not take the others with it."""
    path = tmp_path / "m.jsonl"
    MemoryKeeper(path).add(pair(1))
    path.write_bytes(b'{"question": 3}\n[]\nnull\n\xff\xfe\n' + path.read_bytes())
    assert [c.question for c in MemoryKeeper(path).memory.all] == ["Question 1?"]


def test_a_pair_is_bounded(tmp_path: Path) -> None:
    """Too long is refused, and nothing is written."""
    keeper = MemoryKeeper(tmp_path / "m.jsonl")
    with pytest.raises(MalformedRequest, match="at most 65,536"):
        keeper.add(Feedback(Confirmed("?" * LINE_MOST_BYTES, QUERY)))
    assert not (tmp_path / "m.jsonl").exists()


WRITER = """
import sys
from pathlib import Path
from proxy.nl.memory import Confirmed
from proxy.pipeline.memory import Feedback, MemoryKeeper
keeper = MemoryKeeper(Path(sys.argv[1]))
for n in range(int(sys.argv[2]), 100_000):
    keeper.add(Feedback(Confirmed(f"Question {n}?", "SELECT ?s WHERE { ?s ?p ?o }")))
    print(n, flush=True)
"""


def test_a_kill_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """SIGKILL amid writing, six times, two writers each: every acknowledged pair is there; the file takes further ones."""
    path = tmp_path / "m.jsonl"
    told: list[int] = []
    for i in range(6):
        begins = (10_000 * i, 10_000 * i + 5_000)
        commands = [[sys.executable, "-c", WRITER, str(path), str(begin)] for begin in begins]
        writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
        for writer in writers:
            assert writer.stdout is not None
            told.append(int(writer.stdout.readline()))
        time.sleep(0.005 * i)
        for writer in writers:
            writer.kill()
        for writer in writers:
            assert writer.stdout is not None
            told += [int(line) for line in writer.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
            writer.stdout.close()
            writer.wait()
    keeper = MemoryKeeper(path)
    held = {c.question for c in keeper.memory.all}
    assert len(told) > 12 and {f"Question {n}?" for n in told} <= held
    assert keeper.add(pair(-1)) == len(held) + 1
