"""Take no updates at certain hours of the week.

Options:
    closed: list of {days = ["mon", ...], begin = "HH:MM", end = "HH:MM"}; an *end* that is not after *begin* is on the next
    day. timezone: name in the IANA database. Default: "UTC".

Updates, writes by the graph store, and transactions are refused (403) while it is closed; reading is not. A transaction that
was begun before cannot go on.
"""

from collections.abc import Callable
from datetime import datetime, time, timedelta
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

import msgspec

from proxy import Exchange, OperationForbidden, OperationKind, Plugin

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
Clock = Annotated[str, msgspec.Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]


class Window(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    days: tuple[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"], ...]
    begin: Clock
    end: Clock


class Options(msgspec.Struct, frozen=True):
    closed: tuple[Window, ...]
    timezone: str = "UTC"


def load(options: Options) -> Plugin:
    try:
        zone = ZoneInfo(options.timezone)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"timezone: {options.timezone!r} is not in the IANA database") from error
    return ReadOnlyHours(options.closed, lambda: datetime.now(zone))


class ReadOnlyHours(Plugin):
    may_refuse = True

    def __init__(self, closed: tuple[Window, ...], now: Callable[[], datetime]) -> None:
        self.closed = closed
        self.now = now

    def request(self, exchange: Exchange) -> None:
        operation = exchange.operation
        if operation is None or operation.kind is OperationKind.QUERY:
            return
        if operation.kind is OperationKind.GRAPH_STORE and exchange.method in ("GET", "HEAD"):
            return
        now = self.now()
        for window in self.closed:
            if (until := closed_until(window, now)) is not None:
                raise OperationForbidden(f"nothing is written here until {until:%H:%M} ({until.tzinfo})")


def closed_until(window: Window, now: datetime) -> datetime | None:
    """When *window* ends, if *now* is in it."""
    begin, end = time.fromisoformat(window.begin), time.fromisoformat(window.end)
    for day in (now - timedelta(days=1), now):
        if DAYS[day.weekday()] in window.days:
            opens = datetime.combine(day if end > begin else day + timedelta(days=1), end, now.tzinfo)
            if datetime.combine(day, begin, now.tzinfo) <= now < opens:
                return opens
    return None
