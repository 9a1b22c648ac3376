"""``sparlance demo`` prints three commands, and each does what is said above it. A real server on loopback, a real shell."""

import contextlib
import os
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import unquote

import httpx
import pytest

from proxy.query.parse import parse

ROOT = Path(__file__).parents[2]
START_LIMIT_S = 90
pytestmark = pytest.mark.loopback


@contextlib.contextmanager
def demo():
    """The lines that the command prints until its tour is complete."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("SPARLANCE_")}
    command = [sys.executable, "-m", "proxy", "demo", "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    printed: queue.Queue[str] = queue.Queue()
    errors: list[str] = []
    readers = [
        threading.Thread(target=lambda: [printed.put(line.rstrip("\n")) for line in process.stdout], daemon=True),
        threading.Thread(target=lambda: errors.extend(process.stderr), daemon=True),
    ]
    for reader in readers:
        reader.start()
    try:
        lines: list[str] = []
        deadline = time.monotonic() + START_LIMIT_S
        while not (lines and lines[-1].startswith("Ctrl-C")):
            try:
                lines.append(printed.get(timeout=0.2))
            except queue.Empty:
                assert process.poll() is None and time.monotonic() < deadline, "".join(errors)
        yield lines
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0, "".join(errors)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        for reader in readers:
            reader.join(timeout=5)
        process.stdout.close()
        process.stderr.close()


@pytest.fixture(scope="module")
def tour():
    """Promise → what its command printed."""
    with demo() as lines:
        commands = [line for line in lines if line.startswith("curl ")]
        promises = [line for line in lines if line.startswith("# ")]
        assert len(commands) == len(promises) == 3
        yield dict(zip(promises, map(run, commands), strict=True))


def run(command: str) -> str:
    """What the shell prints; without curl on the machine, what httpx gets for the same words."""
    if shutil.which("curl"):
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.replace("\r\n", "\n")
    words = shlex.split(command)
    name, _, value = words[-1].partition("=")
    headers = dict([words[words.index("-H") + 1].split(": ")]) if "-H" in words else {}
    response = httpx.get(next(w for w in words if w.startswith("http")), params={name: value}, headers=headers, timeout=60)
    head = "".join(f"{k}: {v}\n" for k, v in response.headers.items())
    return f"HTTP/1.1 {response.status_code}\n{head}\n{response.text}" if "-si" in words else response.text


def output(tour: dict[str, str], words: str) -> str:
    [found] = [text for promise, text in tour.items() if words in promise]
    return found


def test_the_query_is_answered(tour):
    """Three harbours, the deepest first."""
    head, *rows = output(tour, "three deepest harbours").splitlines()
    assert head == "name,depth"
    depths = [float(row.rpartition(",")[2]) for row in rows]
    assert len(depths) == 3 and depths == sorted(depths, reverse=True)


def test_the_question_is_answered_with_its_query(tour):
    """The vessels that are registered in Amber Haven, all of them; the header has a query that names the place."""
    head, _, body = output(tour, "A question").partition("\n\n")
    fields = {k.lower(): v for k, _, v in (line.partition(": ") for line in head.splitlines())}
    assert head.splitlines()[0].startswith("HTTP/1.1 200")
    query = unquote(fields["sparlance-query"])
    assert parse(query) and "Amber Haven" in query
    assert sorted(body.splitlines()[1:]) == ["MS Kestrel", "MS Morning Tide", "MV Ostrava Star", "Tug Terrier"]


def test_what_cannot_be_is_refused_with_reasons(tour):
    """The pattern at fault is named, and so is what does have berths."""
    text = output(tour, "cannot answer")
    assert "?lighthouse h:berths ?berths" in text
    assert "0 of 15" in text
    assert "h:berths of h:Harbour" in text
