"""A real Redis or Valkey server on a Unix socket of its own."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest


def require_redis() -> str:
    """The program; skips the test where it, or the client package, is not installed."""
    pytest.importorskip("redis", reason="the package redis is not installed")
    program = shutil.which("valkey-server") or shutil.which("redis-server")
    if program is None:
        pytest.skip("neither valkey-server nor redis-server is installed")
    return program


class RedisServer:
    """In *folder*; forgets everything when it stops."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program, self._folder = program, folder
        self.process: subprocess.Popen[bytes] | None = None
        self.url = f"unix://{folder}/s"

    def start(self) -> None:
        options = ["--port", "0", "--unixsocket", "s", "--save", "", "--appendonly", "no", "--loglevel", "warning"]
        self.process = subprocess.Popen([self._program, *options], cwd=self._folder, stdout=subprocess.DEVNULL)
        for _ in range(500):
            if (self._folder / "s").exists():
                return
            time.sleep(0.02)
        raise AssertionError("the server did not start")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(10)

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            (self._folder / "s").unlink(missing_ok=True)
