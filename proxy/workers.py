"""Several processes on one port: a supervisor that holds the socket, forks workers, and keeps their number.

All workers accept from the one listening socket, so a connection that comes while a worker dies is taken by another; with a
socket for each (SO_REUSEPORT) it would be reset. A worker that dies is replaced; one that cannot start at all ends the
whole. The supervisor serves nothing and imports nothing heavy, so a fork of it is small and has no threads.

Workers share nothing but that socket and, for ``/-/metrics``, a folder of Unix sockets over which they tell their numbers.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from proxy.errors import ConfigError, ProxyError

RESTART_FIRST_S = 0.1
RESTART_MOST_S = 30.0
LONG_LIFE_S = 10.0
"""A worker that lived for as long is replaced at once; those that die sooner, later and later."""
GRACE_S = 5.0
"""Beyond the time that requests get to end, before a worker is killed."""
TOLD_WITHIN_S = 1.0
PAGE_LIMIT_BYTES = 4 * 1024 * 1024
_SIGNALS = frozenset(
    [signal.SIGTERM, signal.SIGINT, getattr(signal, "SIGCHLD", signal.SIGTERM), getattr(signal, "SIGHUP", signal.SIGTERM)]
)
_HANGUP = getattr(signal, "SIGHUP", None)


@dataclass(frozen=True, slots=True)
class Worker:
    """What a worker knows of itself. number: from 0. is_first: the first process of this number.

    lifeline: its end tells that the supervisor is gone. ready: end of a pipe to tell that it serves. supervisor: its process.
    """

    number: int
    is_first: bool
    lifeline: int
    ready: int
    supervisor: int

    def tell_hangup(self) -> None:
        """Have all workers read the configuration again, this one too; it finds nothing changed if it just has."""
        if os.getppid() == self.supervisor:
            os.kill(self.supervisor, signal.SIGHUP)

    def tell_ready(self) -> None:
        """Tell the supervisor that requests are accepted; end with it from now on. Call in the event loop."""
        os.write(self.ready, b"1")
        asyncio.get_running_loop().add_reader(self.lifeline, self._end)

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self.lifeline)
        os.kill(os.getpid(), signal.SIGTERM)


@dataclass(slots=True)
class _Life:
    number: int
    began_at: float
    ready: int
    is_first: bool


class Supervisor:
    """Keeps *workers* processes that each do *work*.

    Args:
        work: called in each of them; returns its exit code.
        shutdown_s: how long running requests get once a signal says stop.
        failed: exit code if they cannot start.
    """

    def __init__(self, work: Callable[[Worker], int], *, workers: int, shutdown_s: float, failed: int) -> None:
        if not hasattr(os, "fork"):
            raise ConfigError("server.workers", "more than 1 needs an operating system with fork; accepted here: 1")
        self._work = work
        self._workers = workers
        self._shutdown_s = shutdown_s
        self._failed = failed
        self._lives: dict[int, _Life] = {}
        self._due: list[tuple[float, int]] = []
        """When to start which worker again."""
        self._pauses = dict.fromkeys(range(workers), RESTART_FIRST_S)
        self._lifeline, self._held = os.pipe()

    def run(self) -> int:
        """Serve until a signal says stop; 0 if all went well, *failed* if a worker could not start."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            for number in range(self._workers):
                self._start(number, is_first=True)
            return self._watch()
        finally:
            self._stop()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(self._lifeline)
            os.close(self._held)

    def _watch(self) -> int:
        while True:
            wait_s = max(min(due for due, _ in self._due) - time.monotonic(), 0.0) if self._due else 3600.0
            heard = signal.sigtimedwait(_SIGNALS, wait_s)
            if heard is not None and heard.si_signo in (signal.SIGTERM, signal.SIGINT):
                return 0
            if heard is not None and heard.si_signo == _HANGUP:
                self._signal(signal.SIGHUP)
            for pid, status in self._ended():
                if not self._replace(pid, status):
                    return self._failed
            now = time.monotonic()
            for entry in [entry for entry in self._due if entry[0] <= now]:
                self._due.remove(entry)
                self._start(entry[1], is_first=False)

    def _replace(self, pid: int, status: int) -> bool:
        life = self._lives.pop(pid)
        has_served = bool(_read(life.ready))
        os.close(life.ready)
        code = os.waitstatus_to_exitcode(status)
        if life.is_first and not has_served:
            return False  # it has said why
        number = life.number
        if time.monotonic() - life.began_at >= LONG_LIFE_S:
            self._pauses[number] = RESTART_FIRST_S
        pause_s = self._pauses[number]
        self._pauses[number] = min(pause_s * 2, RESTART_MOST_S)
        self._due.append((time.monotonic() + pause_s, number))
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        structlog.get_logger().warning("worker_ended", worker=number, pid=pid, how=how, restart_s=round(pause_s, 1))
        return True

    def _ended(self) -> list[tuple[int, int]]:
        found = [os.waitpid(pid, os.WNOHANG) for pid in self._lives]
        return [(pid, status) for pid, status in found if pid]

    def _start(self, number: int, *, is_first: bool) -> None:
        ready, tell = os.pipe()
        os.set_blocking(ready, False)
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            os.close(ready)
            os.close(self._held)  # only the supervisor's own end may keep the line open
            self._be(Worker(number, is_first, self._lifeline, tell, os.getppid()))
        os.close(tell)
        self._lives[pid] = _Life(number, time.monotonic(), ready, is_first)

    def _be(self, worker: Worker) -> None:
        """Work, and end this process whatever happens: nothing of the supervisor may run in it."""
        code = self._failed
        try:
            # SIGHUP stays blocked, and waits, until the worker has a handler for it: the default would end it.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS - {_HANGUP})
            code = self._work(worker)
        except ProxyError as error:
            print(f"sparlance: {error}", file=sys.stderr)
        except KeyboardInterrupt:
            code = 130
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _stop(self) -> None:
        """End all workers: politely, then not."""
        self._signal(signal.SIGTERM)
        ends = time.monotonic() + self._shutdown_s + GRACE_S
        while self._lives:
            left_s = ends - time.monotonic()
            if left_s <= 0:
                self._signal(signal.SIGKILL)
            signal.sigtimedwait(_SIGNALS, min(max(left_s, 0.05), 0.5))
            for pid, _ in self._ended():
                os.close(self._lives.pop(pid).ready)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._lives:
            os.kill(pid, number)


def _read(pipe: int) -> bytes:
    try:
        return os.read(pipe, 1)
    except BlockingIOError:
        return b""


class Siblings:
    """The workers of one port, as one of them sees the others: it tells its own page, and asks for theirs.

    Args:
        folder: of the sockets. number: of this worker. page: writes its page.
    """

    def __init__(self, folder: Path, number: int, page: Callable[[], str]) -> None:
        self._folder = folder
        self._own = folder / f"{number}.sock"
        self._page = page
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._own.unlink(missing_ok=True)  # of a predecessor
        self._server = await asyncio.start_unix_server(self._tell, self._own)

    async def aclose(self) -> None:
        if self._server is not None:
            self._server.close()
            self._own.unlink(missing_ok=True)

    async def pages(self) -> list[str]:
        """Its own page and those of the others; one that does not answer soon is left out."""
        others = [self._ask(path) for path in sorted(self._folder.glob("*.sock")) if path != self._own]
        return [self._page(), *(page for page in await asyncio.gather(*others) if page)]

    async def _tell(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(self._page().encode("utf-8"))
            await writer.drain()
        except ConnectionError:
            pass  # whoever asked has gone
        finally:
            writer.close()

    async def _ask(self, path: Path) -> str:
        try:
            async with asyncio.timeout(TOLD_WITHIN_S):
                reader, writer = await asyncio.open_unix_connection(path)
                try:
                    return (await reader.read(-1))[:PAGE_LIMIT_BYTES].decode("utf-8")
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return ""
