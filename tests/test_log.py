"""Logging: one line for each event, in the format that the reader needs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(statement: str, *, format_: str, level: str = "info") -> list[str]:
    """Lines on stderr of a fresh interpreter that configures logging and runs *statement*."""
    program = (
        "import logging, structlog\nfrom proxy.config import LogSettings\nfrom proxy.log import configure\n"
        f"configure(LogSettings(level={level!r}, format={format_!r}))\nlog = structlog.get_logger()\n{statement}\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == ""
    return done.stderr.splitlines()


@pytest.mark.parametrize("format_", ["json", "auto"])
def test_machines_get_json(format_):
    """Also where the format is left open and stderr is no terminal; what is bound to the request is in it."""
    [line] = run(
        "structlog.contextvars.bind_contextvars(request_id='r1')\nlog.info('serving', url='http://x')", format_=format_
    )
    event = json.loads(line)
    assert {k: event[k] for k in ("event", "url", "level", "request_id")} == {
        "event": "serving", "url": "http://x", "level": "info", "request_id": "r1",
    }  # fmt: skip
    assert event["time"].endswith("Z")


@pytest.mark.parametrize("is_captured", [False, True])
def test_the_line_of_a_request_is_like_any_other(is_captured):
    """The short way of the event exchange gives what structlog's chain gives, and steps aside where the chain was changed."""
    chain = "structlog.configure(processors=[*structlog.get_config()['processors']])\n" if is_captured else ""
    [line] = run(
        f"import time\nfrom proxy import log as ours\n{chain}"
        "ours.exchanges([({'path': '/é\\n', 'status': 200, 'total_ms': 1.25, 'request_id': 'r1'}, time.time_ns())])",
        format_="json",
    )
    event = json.loads(line)
    assert event.pop("time").endswith("Z")
    assert event == {
        "event": "exchange", "level": "info", "path": "/é\n", "status": 200, "total_ms": 1.25, "request_id": "r1",
    }  # fmt: skip


def test_the_time_of_a_line_is_the_time_it_happened():
    """ISO 8601 in UTC to the microsecond, leading zeros kept."""
    [line] = run(
        "from proxy import log as ours\nours.exchanges([({}, 1_000_000_000_000_045_678)])", format_="json"
    )
    assert json.loads(line)["time"] == "2001-09-09T01:46:40.000045Z"


def test_people_get_words():
    """One line with the event and its fields, and an exception as Python prints it."""
    lines = run("try:\n    1 / 0\nexcept ZeroDivisionError:\n    log.exception('request_failed', path='/x')", format_="console")
    assert "request_failed" in lines[0] and "/x" in lines[0]
    assert "ZeroDivisionError" in lines[-1]


def test_an_exception_is_one_line_of_json():
    """A traceback does not break the line."""
    [line] = run("try:\n    1 / 0\nexcept ZeroDivisionError:\n    log.exception('request_failed')", format_="json")
    assert json.loads(line)["exception"][0]["exc_type"] == "ZeroDivisionError"


@pytest.mark.parametrize("format_", ["json", "console"])
def test_a_traceback_tells_no_values(format_):
    """Frames hold credentials and queries; where an exception came from is enough."""
    statement = (
        "def f(headers):\n    raise ValueError('x')\ntry:\n    f(['Basic ' + 'c2Vj' + 'cmV0'])\n"
        "except ValueError:\n    log.exception('request_failed')"
    )
    told = "\n".join(run(statement, format_=format_))
    assert "ValueError" in told and "c2Vjcm" not in told


def test_what_is_below_the_level_is_silent():
    """For our events, and for libraries, whose info is never shown."""
    statement = (
        "log.info('a')\nlog.warning('b')\nlogging.getLogger('uvicorn').info('c')\nlogging.getLogger('x').error('d %s', 1)"
    )
    events = [json.loads(line) for line in run(statement, format_="json", level="warning")]
    assert [(e["event"], e["level"]) for e in events] == [("b", "warning"), ("d 1", "error")]


@pytest.mark.parametrize("format_", ["json", "console"])
def test_what_is_logged_is_one_line(format_):
    """A path or a message of somebody else makes no line of its own, and moves no cursor."""
    statement = r"""
from proxy.log import exchanges
evil = "a\n2026-01-01 [info] serving\x1b[2J"
log.warning("transfer_broken", error=evil)
logging.getLogger("x").warning("%s", evil)
exchanges([({"path": evil, "request_id": "r"}, 1)])
"""
    lines = run(statement, format_=format_)
    assert len(lines) == 3
    told = re.sub(r"\x1b\[\d+m", "", "".join(lines))  # the colours of the console
    assert told.isprintable() and told.count("a\\n2026") == 3
