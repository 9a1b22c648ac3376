"""A real Apache Jena Fuseki: the plain SPARQL 1.1 endpoint of the contract tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence

from tests.servers.java_build import build, class_path, java
from tests.servers.process import ServerProcess

VERSION = "5.6.0"
"""java/pom.xml says it too, and a test compares them."""


class Fuseki(ServerProcess):
    """Fuseki with one updatable dataset in memory.

    Args:
        data: RDF text by media type.
        dataset: its name; the services are below it: ``/sparql`` (also ``/query``), ``/update``, ``/data``.
        timeout_ms: of a query; None: none.
    Raises:
        JavaUnavailable: see java_build.
    """

    ready_path = "/$/ping"

    def __init__(self, *, data: Mapping[str, str] | None = None, dataset: str = "ds", timeout_ms: int | None = None) -> None:
        super().__init__()
        self.data, self.dataset, self.timeout_ms = dict(data or {}), dataset, timeout_ms
        self._folder = tempfile.TemporaryDirectory(prefix="fuseki-", ignore_cleanup_errors=True)

    @property
    def path(self) -> str:
        return f"/{self.dataset}"

    def command(self, port: int) -> Sequence[str]:
        build()
        limit = [] if self.timeout_ms is None else [f"--timeout={self.timeout_ms}"]
        return [
            java(),
            "-Xmx512m",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            class_path("fuseki-server"),
            "org.apache.jena.fuseki.main.cmds.FusekiMainCmd",
            "--localhost",
            f"--port={port}",
            "--ping",
            *limit,
            "--mem",
            "--update",
            self.path,
        ]

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "FUSEKI_BASE": self._folder.name, "FUSEKI_HOME": self._folder.name}

    def prepare(self) -> None:
        for content_type, text in self.data.items():
            target = f"{self.path}/data" + ("" if content_type in ("application/n-quads", "application/trig") else "?default")
            status, _, answer = self.request("POST", target, text.encode(), {"Content-Type": content_type})
            if status not in (200, 201, 204):
                raise RuntimeError(f"Fuseki refused the data: {status} {answer[:500]!r}")

    def close(self) -> None:
        super().close()
        self._folder.cleanup()
