"""How much work a caller allows: analysis stops where it would keep others waiting, and is begun anew elsewhere.

Counted, not timed, so that it is the same everywhere; one unit is about a microsecond.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")

_LEFT: ContextVar[list[int] | None] = ContextVar("effort_left", default=None)


class TooMuchEffort(Exception):
    """The work is not done, and nothing is wrong with it."""


class _Within(Generic[T]):
    """A value of a context variable for a block. Each check enters two, and a generator would cost more than the block."""

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[T | None], value: T) -> None:
        self._variable, self._value = variable, value

    def __enter__(self) -> T:
        self._token: Token[T | None] = self._variable.set(self._value)
        return self._value

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._variable.reset(self._token)


def limited(units: int) -> _Within[list[int]]:
    """Let what is called within spend *units*."""
    return _Within(_LEFT, [units])


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


def noting() -> _Within[dict[str, None]]:
    """Collect which bounds what is called within has come to, each once, in order."""
    return _Within(_REACHED, {})


def reach(bound: str) -> None:
    """Note that a part was left out because of *bound*, a clause such as "more than 64 alternatives"."""
    reached = _REACHED.get()
    if reached is not None:
        reached[bound] = None
