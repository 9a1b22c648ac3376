"""How much work a caller allows: analysis stops where it would keep others waiting, and is begun anew elsewhere.

Counted, not timed, so that it is the same everywhere; one unit is about a microsecond.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LEFT: ContextVar[list[int] | None] = ContextVar("effort_left", default=None)


class TooMuchEffort(Exception):
    """The work is not done, and nothing is wrong with it."""


@contextmanager
def limited(units: int) -> Iterator[None]:
    """Let what is called within spend *units*."""
    token = _LEFT.set([units])
    try:
        yield
    finally:
        _LEFT.reset(token)


def spend(units: int) -> None:
    """Note work that is about to be done.

    Raises:
        TooMuchEffort: it is more than the caller allows.
    """
    left = _LEFT.get()
    if left is not None:
        left[0] -= units
        if left[0] < 0:
            raise TooMuchEffort


_REACHED: ContextVar[dict[str, None] | None] = ContextVar("bounds_reached", default=None)


@contextmanager
def noting() -> Iterator[dict[str, None]]:
    """Collect which bounds what is called within has come to, each once, in order."""
    reached: dict[str, None] = {}
    token = _REACHED.set(reached)
    try:
        yield reached
    finally:
        _REACHED.reset(token)


def reach(bound: str) -> None:
    """Note that a part was left out because of *bound*, a clause such as "more than 64 alternatives"."""
    reached = _REACHED.get()
    if reached is not None:
        reached[bound] = None
