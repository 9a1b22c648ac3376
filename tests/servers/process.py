"""Start a real server as a child process on a free loopback port, wait until it answers, stop it by its process id."""

from __future__ import annotations

import http.client
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

START_LIMIT_S = 60.0


class ServerDidNotStart(RuntimeError):
    """The process ended or stayed silent; the message ends with the last lines it wrote."""


def free_port() -> int:
    """Return a loopback port that nobody listens on. Another process may take it before the server does; then start again."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port


class ServerProcess:
    """A server in a child process, as a context manager.

    Subclasses give the command line for a port. After ``__enter__`` the server has answered *ready_path* once.
    """

    ready_path = "/"

    def __init__(self) -> None:
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()

    def command(self, port: int) -> Sequence[str]:
        raise NotImplementedError

    def environment(self) -> Mapping[str, str] | None:
        """Return the child's whole environment; None: as ours."""
        return None

    def prepare(self) -> None:
        """Do what must be done once the server answers, such as loading data."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None, "not started"
        return self.process.pid

    def request(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> tuple[int, dict[str, str], bytes]:
        """Send one request to this server; see the function of that name."""
        return request(self.port, method, target, body, headers, timeout_s)

    def start(self) -> None:
        """Start on a free port, or again on the same one after ``stop``."""
        self.port = self.port or free_port()
        # A file, not a pipe: nobody reads it, and a full pipe would stop the server.
        self.process = subprocess.Popen(
            list(self.command(self.port)), stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, env=self.environment()
        )
        until = time.monotonic() + START_LIMIT_S
        while True:
            try:
                self.request("GET", self.ready_path, timeout_s=5.0)
                break
            except (OSError, http.client.HTTPException):
                if self.process.poll() is not None or time.monotonic() > until:
                    self.stop()
                    raise ServerDidNotStart(f"{type(self).__name__}: {self.log()[-2000:]}") from None
                time.sleep(0.02)
        self.prepare()

    def stop(self, *, kill: bool = False) -> None:
        """End the process; *kill*: at once, as a crash would."""
        process, self.process = self.process, None
        if process is None:
            return
        if kill:
            process.kill()
        else:
            process.terminate()
        try:
            process.wait(5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def log(self) -> str:
        """Return what the process has written so far."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stop, and give back what the server used."""
        self.stop()
        self._log.close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def request(
    port: int,
    method: str,
    target: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
) -> tuple[int, dict[str, str], bytes]:
    """Send one request to a loopback port, on a connection of its own.

    Returns:
        Status, header fields (names in lower case; of a repeated one the last), the whole body as sent.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request(method, target, body=body, headers=dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()
