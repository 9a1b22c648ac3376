"""plugins/read_only_hours.py: nothing is written at the hours that are closed, whichever way."""

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from proxy.errors import ConfigError, OperationForbidden
from proxy.pipeline.exchange import Exchange
from proxy.plugin.loading import load_file
from proxy.query.operation import OperationKind, SparqlOperation

FILE = Path(__file__).parents[2] / "plugins" / "read_only_hours.py"
NIGHT = {"closed": [{"days": ["fri"], "begin": "22:00", "end": "06:30"}], "timezone": "Europe/Berlin"}
DAY = {"closed": [{"days": ["mon", "tue"], "begin": "08:00", "end": "17:00"}]}
ALWAYS = {"closed": [{"days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"], "begin": "00:00", "end": "00:00"}]}


def refused(options: dict, when: str, kind: OperationKind = OperationKind.UPDATE, method: str = "POST") -> str:
    """The message of the refusal at *when*, local time; empty: it passes."""
    plugin = load_file(FILE, options).plugin
    plugin.now = lambda: datetime.fromisoformat(when).replace(tzinfo=ZoneInfo(options.get("timezone", "UTC")))
    try:
        plugin.request(Exchange("r", operation=SparqlOperation(kind, ""), method=method))
    except OperationForbidden as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("options", "when", "until"),
    [
        (NIGHT, "2026-11-27T22:00", "06:30"),
        (NIGHT, "2026-11-28T06:29", "06:30"),
        (NIGHT, "2026-11-28T06:30", ""),
        (NIGHT, "2026-11-27T21:59", ""),
        (NIGHT, "2026-11-27T05:00", ""),
        (NIGHT, "2026-11-28T23:00", ""),
        (DAY, "2026-11-30T08:00", "17:00"),
        (DAY, "2026-12-01T16:59", "17:00"),
        (DAY, "2026-12-01T17:00", ""),
        (DAY, "2026-12-02T09:00", ""),
        (ALWAYS, "2026-12-02T00:00", "00:00"),
        (ALWAYS, "2026-12-02T23:59", "00:00"),
    ],
)
def test_the_hours(options, when, until):
    """The beginning is closed, the end is open; a window over midnight belongs to the day it begins on."""
    message = refused(options, when)
    assert bool(message) == bool(until) and until in message


@pytest.mark.parametrize(
    ("kind", "method", "passes"),
    [
        (OperationKind.QUERY, "POST", True),
        (OperationKind.GRAPH_STORE, "GET", True),
        (OperationKind.GRAPH_STORE, "HEAD", True),
        (OperationKind.GRAPH_STORE, "PUT", False),
        (OperationKind.GRAPH_STORE, "DELETE", False),
        (OperationKind.TRANSACTION, "POST", False),
        (OperationKind.UPDATE, "POST", False),
    ],
)
def test_reading_passes(kind, method, passes):
    """Whatever may write does not."""
    assert (refused(ALWAYS, "2026-12-02T12:00", kind, method) == "") is passes


def test_it_works_in_a_server(server):
    """403 for an update, 200 for a query."""
    days = '["mon", "tue", "wed", "thu", "fri", "sat", "sun"]'
    options = f'[plugins.read_only_hours]\nclosed = [{{days = {days}, begin = "00:00", end = "00:00"}}]\n'
    made = server(enabled=("read_only_hours",), options=options, allow_updates=True)
    assert made.update("CLEAR ALL").json()["plugin"] == "read_only_hours"
    assert made.ask("ASK {}").status_code == 200


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"closed": [{"days": ["day"], "begin": "08:00", "end": "09:00"}]},
        {"closed": [{"days": ["mon"], "begin": "24:00", "end": "09:00"}]},
        {"closed": [{"days": ["mon"], "begin": "8:00", "end": "09:00"}]},
        {"closed": [{"days": ["mon"], "from": "08:00", "end": "09:00"}]},
        {"closed": [], "timezone": "Middle/Earth"},
    ],
)
def test_wrong_options_stop_the_start(options):
    """A misspelt hour would leave the door open."""
    with pytest.raises(ConfigError, match=r"^plugins\.read_only_hours"):
        load_file(FILE, options)
