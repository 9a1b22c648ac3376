"""A real RDF4J Server: the WAR of the Eclipse RDF4J project in an embedded Tomcat, at the root of a loopback port.

GraphDB's query API is RDF4J's, so what holds here is as near to GraphDB as an open server comes.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.servers.java_build import build, class_path, java
from tests.servers.process import ServerProcess

VERSION = "4.1.3"
"""Of the WAR; java/pom.xml says it too, and a test compares them."""

_REPOSITORY = """
@prefix rep: <http://www.openrdf.org/config/repository#> .
@prefix sr: <http://www.openrdf.org/config/repository/sail#> .
@prefix sail: <http://www.openrdf.org/config/sail#> .
[] a rep:Repository ; rep:repositoryID "%s" ; rep:repositoryImpl [
    rep:repositoryType "openrdf:SailRepository" ; sr:sailImpl %s ] .
"""
_MEMORY = '[ sail:sailType "openrdf:MemoryStore" ]'
_MEMORY_RDFS = f'[ sail:sailType "rdf4j:SchemaCachingRDFSInferencer" ; sail:delegate {_MEMORY} ]'


class Rdf4jServer(ServerProcess):
    """RDF4J Server with one repository in memory.

    Args:
        data: RDF text by media type, loaded into the repository.
        repository: its id.
        inferred: with RDFS inference, so that ``infer=`` makes a difference.
    Raises:
        JavaUnavailable: see java_build.
    """

    ready_path = "/protocol"

    def __init__(self, *, data: Mapping[str, str] | None = None, repository: str = "test", inferred: bool = False) -> None:
        super().__init__()
        self.data, self.repository, self.inferred = dict(data or {}), repository, inferred
        self._folder = tempfile.TemporaryDirectory(prefix="rdf4j-", ignore_cleanup_errors=True)

    @property
    def path(self) -> str:
        """Of the repository: queries; updates go to ``/statements`` below it."""
        return f"/repositories/{self.repository}"

    def command(self, port: int) -> Sequence[str]:
        build()
        folder = Path(self._folder.name)
        webapp = Path(__file__).with_name("java") / "rdf4j-server" / "target" / "webapp"
        return [
            java(),
            "-Xmx512m",
            "-XX:TieredStopAtLevel=1",  # it lives for seconds: compile little
            f"-Dorg.eclipse.rdf4j.appdata.basedir={folder / 'data'}",
            "-cp",
            class_path("rdf4j-server"),
            "Rdf4jServer",
            str(port),
            str(webapp),
            str(folder / "tomcat"),
        ]

    def prepare(self) -> None:
        config = _REPOSITORY % (self.repository, _MEMORY_RDFS if self.inferred else _MEMORY)
        self._expect_204("PUT", self.path, config.encode(), "text/turtle")
        for content_type, text in self.data.items():
            self._expect_204("POST", f"{self.path}/statements", text.encode(), content_type)

    def _expect_204(self, method: str, target: str, body: bytes, content_type: str) -> None:
        status, _, answer = self.request(method, target, body, {"Content-Type": content_type})
        if status != 204:
            raise RuntimeError(f"RDF4J: {method} {target} gave {status} {answer[:500]!r}")

    def close(self) -> None:
        super().close()
        self._folder.cleanup()


def run_client(url: str, repository: str, *options: str, timeout_s: float = 120.0) -> dict[str, str]:
    """Drive a server with the RDF4J client library; return the outcome of every step: PASS, SKIP, or FAIL and why.

    Args:
        url: of the server, or of a proxy before it.
        options: ``read-only``, ``no-transactions``.
    Raises:
        JavaUnavailable: see java_build.
    """
    build()
    run = subprocess.run(
        [java(), "-XX:TieredStopAtLevel=1", "-cp", class_path("rdf4j-client"), "Rdf4jClient", url, repository, *options],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    outcomes = {}
    for line in run.stdout.splitlines():
        verdict, _, rest = line.partition(" ")
        name, _, reason = rest.partition(": ")
        outcomes[name] = f"{verdict}: {reason}" if reason else verdict
    if not outcomes:
        raise RuntimeError(f"the client said nothing: {run.stderr[-2000:]}")
    return outcomes
