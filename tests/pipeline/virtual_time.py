"""An event loop whose clock jumps to the next timer, so that tests of waiting wait for nothing."""

import asyncio
import selectors


class _Skipping(selectors.DefaultSelector):
    """Where the loop would sleep, move its clock on instead."""

    passed_s = 0.0

    def select(self, timeout=None):
        ready = super().select(0)
        if not ready and timeout is None:
            raise AssertionError("everybody waits for something that will not come")
        if not ready:
            self.passed_s += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self):
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self):
        return self._skipping.passed_s


def run(main):
    """As ``asyncio.run``; a task that nobody can wake fails the test instead of hanging it."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def now():
    """The time of the running virtual loop, to be given as ``now=``."""
    return asyncio.get_running_loop().time()
