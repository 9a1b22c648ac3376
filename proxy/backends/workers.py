"""Threads for calls that block and cannot be cancelled."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

STACK_BYTES = 256 * 1024 * 1024
"""Address space, not memory: pages are taken as the stack grows. pyoxigraph recurses over the text and its algebra; with the
usual 8 MB, a query of 16,000 characters ends the process."""


class Workers:
    """Up to *limit* daemon threads, made when needed. Daemons: a call that never ends must not keep the process alive."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    def submit(self, job: Callable[[], None]) -> None:
        """Run *job* in a thread; it must not raise."""
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            elif self._threads < self._limit:
                self._threads += 1
                self._start()
        self._jobs.put(job)

    def _start(self) -> None:
        before = threading.stack_size(STACK_BYTES)
        try:
            threading.Thread(target=self._work, name="sparlance-store", daemon=True).start()
        finally:
            threading.stack_size(before)

    def close(self) -> None:
        """Let idle threads end."""
        for _ in range(self._threads):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            with self._lock:
                self._idle += 1
