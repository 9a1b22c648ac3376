"""The real Oxigraph server, from the PyPI package of that name."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.servers.process import ServerProcess

_CONTENT_TYPES = {
    ".ttl": "text/turtle",
    ".nt": "application/n-triples",
    ".nq": "application/n-quads",
    ".trig": "application/trig",
}


def binary() -> Path:
    """Return the server's path, beside the interpreter that runs the tests.

    Raises:
        FileNotFoundError: the package ``oxigraph`` is not installed there.
    """
    path = Path(sys.executable).with_name("oxigraph")
    if not path.exists():
        raise FileNotFoundError(f"{path}: install the development dependencies (the PyPI package oxigraph is the server)")
    return path


class Oxigraph(ServerProcess):
    """Oxigraph in memory (or in *location*), filled with *files* and *data*.

    Args:
        files: RDF files, put into the default graph, or with their own graphs for .nq and .trig.
        data: RDF text by media type, loaded after the files.
        flags: further options of ``serve``, such as ``--cors``, ``--timeout-s 2``, ``--union-default-graph``.
        location: folder of a database to keep; with *read_only* one that exists.
    """

    ready_path = "/query"

    def __init__(
        self,
        *,
        files: Sequence[Path] = (),
        data: Mapping[str, str] | None = None,
        flags: Sequence[str] = (),
        location: Path | None = None,
        read_only: bool = False,
    ) -> None:
        super().__init__()
        self.files, self.data, self.flags = files, dict(data or {}), flags
        self.location, self.read_only = location, read_only

    def command(self, port: int) -> Sequence[str]:
        place = [] if self.location is None else ["--location", str(self.location)]
        verb = "serve-read-only" if self.read_only else "serve"
        return [str(binary()), verb, *place, "--bind", f"127.0.0.1:{port}", *self.flags]

    def prepare(self) -> None:
        for path in self.files:
            self.load(path.read_bytes(), _CONTENT_TYPES[path.suffix])
        for content_type, text in self.data.items():
            self.load(text.encode(), content_type)

    def load(self, body: bytes, content_type: str) -> None:
        """Add RDF; a format that has graphs keeps them, another one goes to the default graph."""
        target = "/store" if content_type in ("application/n-quads", "application/trig") else "/store?default"
        status, _, answer = self.request("POST", target, body, {"Content-Type": content_type})
        if status not in (201, 204):
            raise RuntimeError(f"Oxigraph refused the data: {status} {answer[:500]!r}")
