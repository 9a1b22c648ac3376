"""What is printed besides answers: how far long work is, sentences on stderr, tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TextIO


class ProgressLine:
    """Tells how far long work is: one line that is written over on a terminal, a line for each phase elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._phase = ""
        self._width = 0

    def __call__(self, phase: str, done: int, total: int) -> None:
        if self._is_terminal:
            text = f"{phase} {done}/{total}" if total else phase
            self._stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        elif phase != self._phase:
            self._stream.write(f"{phase} ...\n")
        self._phase = phase
        self._stream.flush()

    def of(self, what: str) -> Callable[[str, int, int], None]:
        """The same, with *what* is done put before each phase."""
        return lambda phase, done, total: self(f"{what} {phase}", done, total)

    def end(self) -> None:
        """Take the line away again."""
        if self._is_terminal and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell, with a rule under the heads."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [heads, ["-" * w for w in widths], *rows]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines)
