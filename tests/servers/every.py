"""All servers of the tests by one name each, for suites that hold for every backend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.servers.fuseki import Fuseki
from tests.servers.graphdb import Graphdb
from tests.servers.java_build import build_or_skip
from tests.servers.oxigraph import Oxigraph
from tests.servers.process import ServerProcess
from tests.servers.qlever import Qlever
from tests.servers.rdf4j import Rdf4jServer
from tests.servers.wire import WireServer

KINDS = ("oxigraph", "qlever", "graphdb", "rdf4j", "fuseki")
JAVA_KINDS = ("rdf4j", "fuseki")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A running server and how to speak to it.

    kind: one of KINDS; *backend* is what a configuration calls it.
    update_headers: what an update needs beyond its content type.
    has_union: the default graph of a query without FROM is everything.
    server: for what only this kind can do: faults, requests, stop, start.
    """

    kind: str
    backend: str
    server: ServerProcess | WireServer
    query_path: str
    update_path: str
    has_union: bool
    repository: str = ""
    update_headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def port(self) -> int:
        return self.server.port


@contextmanager
def running(kind: str, data: Mapping[str, str]) -> Iterator[Endpoint]:
    """Start one server with *data* (RDF text by media type). Skips the test where it needs Java and there is none."""
    if kind in JAVA_KINDS:
        build_or_skip()
    match kind:
        case "oxigraph":
            with Oxigraph(data=data) as oxigraph:
                yield Endpoint(kind, "oxigraph", oxigraph, "/query", "/update", has_union=False)
        case "qlever":
            with Qlever(data=data) as qlever:
                token = {"Authorization": f"Bearer {qlever.token}"}
                yield Endpoint(kind, "qlever", qlever, "/", "/", has_union=True, update_headers=token)
        case "graphdb":
            with Graphdb(data=data) as graphdb:
                path = f"/repositories/{graphdb.repository}"
                yield Endpoint(
                    kind, "graphdb", graphdb, path, f"{path}/statements", has_union=True, repository=graphdb.repository
                )
        case "rdf4j":
            with Rdf4jServer(data=data) as rdf4j:
                path = rdf4j.path
                yield Endpoint(kind, "graphdb", rdf4j, path, f"{path}/statements", has_union=True, repository=rdf4j.repository)
        case "fuseki":
            with Fuseki(data=data) as fuseki:
                yield Endpoint(kind, "sparql", fuseki, f"{fuseki.path}/sparql", f"{fuseki.path}/update", has_union=False)
        case _:
            raise ValueError(kind)
