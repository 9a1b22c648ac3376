"""A stand-in for what only GraphDB has, on top of what it shares with RDF4J (for that, prefer the real one: rdf4j.py).

Two kinds of statements (explicit, inferred) with ``infer``, ``sameAs`` and the pseudo-graphs; time limits that may answer 200;
the track alias; health; logins. Framing follows Tomcat, which both run in: Date, chunks where the length is unknown, and a
connection that closes after 400 and 500.
"""

from __future__ import annotations

import asyncio
import base64
import email.utils
import gzip
import json
import re
import time
import urllib.parse
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from http import HTTPStatus
from types import TracebackType
from typing import Any, Literal, Self

import pyoxigraph as ox

from tests.servers.graphdb_engine import PREDECLARED, Engine, EngineError
from tests.servers.graphdb_parameters import bindings_of, cut, graphs_of, grouped, is_true, paging_of, term_of
from tests.servers.rdf4j_formats import BOOLEAN_TYPES, GRAPH_TYPES, TUPLE_TYPES, Result, export
from tests.servers.rdf_store import RDF_TYPES, accepted, form_of
from tests.servers.wire import BadFraming, Cancellation, Connection, Faults, Gone, Request, WireServer

_LEGAL_TARGET = re.compile(rb"""[^\x00-\x20"<>\\^`{|}\x7f-\xff]*""")
_CLOSING = {400, 408, 411, 413, 414, 500, 501, 503}
_QUERY_TYPES = ("application/x-www-form-urlencoded", "application/sparql-query")
_MEMORY = (
    "Query evaluation error: com.ontotext.trree.util.NotEnoughMemoryForDistinctGroupBy: "
    "Insufficient free Heap Memory 201Mb for group by and distinct, threshold:250Mb, reached 0Mb"
)
_FOREVER_S = 3600.0
Answer = tuple[int, str, bytes]


@dataclass(slots=True)
class GraphdbFaults(Faults):
    """Beyond Faults:

    on_timeout: what a query over its limit gets: ``503``; ``empty``, a complete document without solutions (as with
        throwQueryEvaluationExceptionOnTimeout=false, before the first solution); ``partial``, a complete document with half
        of them; ``truncated``, half a document whose chunked framing ends as if all were well (seen with RDF4J in Tomcat);
        ``reset``, half a document and a reset; ``nothing``, no body at all (RDF4J 4.1, when time is up before the first
        solution). ASK always gets the 503.
    late_errors: an error in evaluation comes after the status line was decided: 200 without a body, as RDF4J 4.1 does;
        else 500.
    memory: queries fail for want of heap.
    """

    on_timeout: Literal["503", "empty", "partial", "truncated", "reset", "nothing"] = "503"
    late_errors: bool = False
    memory: bool = False


@dataclass(slots=True)
class Running:
    """A query that runs: how it can be named and stopped."""

    identifier: str
    alias: str | None
    text: str
    stop: Cancellation


class Graphdb(WireServer):
    """The stand-in, with one repository; a context manager.

    Args:
        data: RDF text by media type: explicit statements.
        repository: its id.
        users: passwords by name; None: security is off.
        free_access: anybody may read although security is on.
    Attributes:
        health: of the repository: green, yellow or red.
        query_timeout_s, query_limit_results, throw_on_timeout: settings of the repository; 0: none. Fractions are for tests.
        aborted: track aliases and ids that a monitor call stopped.
        administered: method and path of every request that creates, removes, or rewrites something otherwise than by SPARQL
            Update or the graph store. What stands here was let through.
    """

    def __init__(
        self,
        *,
        data: Mapping[str, str] | None = None,
        repository: str = "test",
        users: Mapping[str, str] | None = None,
        free_access: bool = False,
    ) -> None:
        super().__init__()
        self.faults: GraphdbFaults = GraphdbFaults()
        self.keep_alive_s = 60.0
        self.repository, self.users, self.free_access = repository, users, free_access
        self.repositories = {repository: Engine()}
        for media_type, text in (data or {}).items():
            self.engine.load(text, media_type)
        self.health: Literal["green", "yellow", "red"] = "green"
        self.query_timeout_s = 0.0
        self.query_limit_results = 0
        self.throw_on_timeout = False
        self.namespaces = {"rdf": PREDECLARED["rdf"], "ex": "http://example.org/"}
        self.aborted: list[str] = []
        self.administered: list[tuple[str, str]] = []
        self._tokens: set[str] = set()
        self._running: dict[str, Running] = {}

    @property
    def engine(self) -> Engine:
        return self.repositories[self.repository]

    def __enter__(self) -> Self:
        self._workers = ThreadPoolExecutor(8, thread_name_prefix="graphdb")
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for running in list(self._running.values()):
            running.stop.cancel()
        super().__exit__(kind, error, trace)
        self._workers.shutdown(wait=True)

    async def refuse(self, problem: BadFraming, connection: Connection) -> None:
        await self._send(None, connection, (problem.status, "text/html;charset=utf-8", _page(problem.reason)))

    async def handle(self, request: Request, connection: Connection) -> bool:
        answer: Answer | None
        if request.header("content-encoding") == "gzip":
            request = replace(request, body=gzip.decompress(request.body))
        try:
            if not _LEGAL_TARGET.fullmatch(request.target):
                await self.refuse(BadFraming(400, "Invalid character found in the request target"), connection)
                return False
            answer = self._check_login(request) or await self._answer(request, connection)
        except EngineError as error:
            answer = error.status, "text/plain;charset=UTF-8", error.body.encode()
        except Gone:
            return False
        if answer is None:  # already on its way
            return (request.header("connection") or "").lower() != "close"
        return await self._send(request, connection, answer)

    async def _send(self, request: Request | None, connection: Connection, answer: Answer, *more: tuple[str, str]) -> bool:
        """Send a whole answer; return whether the connection stays open."""
        status, content_type, body = answer
        headers = [*more]
        if content_type:
            headers += [("Content-Type", content_type), ("Content-Language", "en")]
        if status != 204:
            headers.append(("Content-Length", str(len(body))))
        if status == 401 and request is not None and (request.header("x-requested-with") is None):
            headers.append(("WWW-Authenticate", 'Basic realm="GraphDB"'))
        headers.append(("Date", email.utils.formatdate(usegmt=True)))
        keeps = request is not None and status not in _CLOSING and (request.header("connection") or "").lower() != "close"
        if not keeps:
            headers.append(("Connection", "close"))
        with_body = status != 204 and not (request is not None and request.method == "HEAD")
        await connection.start(status, HTTPStatus(status).phrase, headers, chunked=False, body=with_body)
        await connection.write(body)
        return keeps

    def _check_login(self, request: Request) -> Answer | None:
        if self.users is None or request.path in ("/rest/login", "/protocol"):
            return None
        scheme, _, credentials = (request.header("authorization") or "").partition(" ")
        if scheme == "GDB" and credentials in self._tokens:
            return None
        if scheme == "Basic":
            name, _, password = base64.b64decode(credentials + "==").decode("latin-1").partition(":")
            if self.users.get(name) == password:
                return None
        elif not scheme and self.free_access and request.method in ("GET", "HEAD"):
            return None
        return 401, "text/plain;charset=UTF-8", b"Unauthorized"

    async def _answer(self, request: Request, connection: Connection) -> Answer | None:
        parts = [urllib.parse.unquote(part) for part in request.path.strip("/").split("/")]
        text, document = "text/plain;charset=UTF-8", "application/json;charset=UTF-8"
        match [request.method, *parts]:
            case ["GET", "protocol"]:
                return 200, text, b"12"
            case ["POST", "rest", "login"]:
                return await self._login(request, connection)
            case ["GET", "rest", "info", "version"]:
                return 200, document, b'{"productVersion":"0.0-stand-in","productType":"free"}'
            case ["GET", "rest", "repositories"]:
                known = [{"id": name, "title": "", "type": "graphdb"} for name in self.repositories]
                return 200, document, json.dumps(known).encode()
            case ["GET" | "HEAD", "repositories"]:
                return await self._list_repositories(request, connection)
            case [_, "rest", "repositories"] | [_, "repositories"]:
                self.administered.append((request.method, request.path))
                return 201, text, b""
            case [_, "rest", "monitor", "repository", name, *rest]:
                return self._monitor(request, name, rest)
            case [_, "rest", "repositories", name, *rest]:
                return self._describe(request, name, rest)
            case [_, "repositories", name, *rest]:
                if name not in self.repositories and not (request.method == "PUT" and not rest):
                    raise EngineError(404, f"Unknown repository: {name}")
                return await self._repository(request, connection, name, rest)
        return 404, "text/html;charset=utf-8", _page("Not Found")

    async def _login(self, request: Request, connection: Connection) -> Answer | None:
        try:
            given = json.loads(request.body)
        except ValueError:
            return 400, "text/plain;charset=UTF-8", b"not JSON"
        if self.users is None or self.users.get(given.get("username")) != given.get("password"):
            return 401, "text/plain;charset=UTF-8", b"Bad credentials"
        token = f"stand-in.{uuid.uuid4().hex}.token"
        self._tokens.add(token)
        body = json.dumps({"username": given["username"], "authorities": ["ROLE_USER"]}).encode()
        await self._send(request, connection, (200, "application/json;charset=UTF-8", body), ("Authorization", f"GDB {token}"))
        return None

    def _describe(self, request: Request, name: str, rest: list[str]) -> Answer:
        if request.method != "GET":
            self.administered.append((request.method, request.path))
            return 200, "", b""
        engine = self.repositories.get(name)
        if engine is None:
            return 404, "application/json;charset=UTF-8", b"{}"
        if rest == ["size"]:
            return 200, "application/json;charset=UTF-8", json.dumps(engine.counts()).encode()
        settings = {
            "ruleset": "rdfsplus-optimized",
            "queryTimeout": str(int(self.query_timeout_s)),
            "queryLimitResults": str(self.query_limit_results),
            "throwQueryEvaluationExceptionOnTimeout": str(self.throw_on_timeout).lower(),
            "readOnly": "false",
        }
        params = {key: {"name": key, "label": key, "value": value} for key, value in settings.items()}
        body = {"id": name, "title": "", "type": "graphdb", "params": params}
        return 200, "application/json;charset=UTF-8", json.dumps(body).encode()

    def _monitor(self, request: Request, name: str, rest: list[str]) -> Answer:
        if rest == ["query"] and request.method == "DELETE":
            wanted = dict(request.parameters()).get("query", "")
            for running in list(self._running.values()):
                if wanted in (running.identifier, running.alias):
                    self.aborted.append(wanted)
                    running.stop.cancel()
            return 204, "", b""
        if request.method != "GET":
            self.administered.append((request.method, request.path))
            return 405, "", b""
        if rest == ["query"]:
            running_queries = [
                {"trackId": running.identifier, "trackAlias": running.alias, "sparqlString": running.text[:500]}
                for running in self._running.values()
            ]
            return 200, "application/json;charset=UTF-8", json.dumps(running_queries).encode()
        body = {
            "queries": {"slow": 0, "suboptimal": 0},
            "entityPool": {"epoolReads": 0, "epoolWrites": 0, "epoolSize": len(self.repositories[name].base)},
            "activeTransactions": 0,
            "openConnections": len(self._running),
        }
        return 200, "application/json;charset=UTF-8", json.dumps(body).encode()

    async def _repository(self, request: Request, connection: Connection, name: str, rest: list[str]) -> Answer | None:
        engine = self.repositories.get(name)
        text = "text/plain;charset=UTF-8"
        if request.method == "OPTIONS":
            await self._send(request, connection, (200, "", b""), ("Allow", "GET,POST,PUT,DELETE,HEAD,OPTIONS"))
            return None
        if not rest and request.method in ("PUT", "DELETE"):
            self.administered.append((request.method, request.path))
            if request.method == "PUT":
                self.repositories.setdefault(name, Engine())
            else:
                del self.repositories[name]
            return 204, "", b""
        assert engine is not None
        match [request.method, *rest]:
            case ["GET" | "HEAD" | "POST"]:
                return await self._query(request, connection, engine)
            case ["POST", "statements"] if self._update_text(request) is not None:
                return await self._update(request, connection, engine)
            case ["GET" | "HEAD", "statements"]:
                return await self._statements(request, connection, engine)
            case [_, "statements"] | ["PUT" | "DELETE" | "POST", "namespaces", *_]:
                self.administered.append((request.method, request.path))
                return self._store(request, engine, None)
            case [_, "rdf-graphs", graph]:
                return self._graph_store(request, engine, graph)
            case ["GET", "size"]:
                return 200, text, str(len(engine.base)).encode()
            case ["GET" | "HEAD", "contexts"]:
                rows: list[tuple[Any, ...]] = [(graph,) for graph in engine.named_graphs()]
                result = Result("SELECT", ("contextID",), rows)
                return await self._send_result(request, connection, result, "contexts")
            case ["GET" | "HEAD", "namespaces"]:
                rows = [(ox.Literal(prefix), ox.Literal(iri)) for prefix, iri in self.namespaces.items()]
                return await self._send_result(
                    request, connection, Result("SELECT", ("prefix", "namespace"), rows), "namespaces"
                )
            case ["GET", "health"]:
                body = {
                    "name": name,
                    "status": self.health,
                    "components": [{"name": "read-availability", "status": self.health}],
                }
                status = {"green": 200, "yellow": 206, "red": 500}[self.health]
                return status, "application/json;charset=UTF-8", json.dumps(body).encode()
        return 404, "text/html;charset=utf-8", _page("Not Found")

    async def _list_repositories(self, request: Request, connection: Connection) -> Answer | None:
        variables = ("uri", "id", "title", "readable", "writable")
        rows: list[tuple[Any, ...]] = []
        for name in self.repositories:
            uri = ox.NamedNode(f"http://{request.header('host')}/repositories/{name}")
            rows.append((uri, ox.Literal(name), ox.Literal(""), ox.Literal(True), ox.Literal(True)))
        return await self._send_result(request, connection, Result("SELECT", variables, rows), "repositories")

    def _time_limit(self, parameters: dict[str, list[str]]) -> float:
        text = parameters.get("timeout", ["0"])[0]
        if not re.fullmatch(r"-?\d+", text):
            raise EngineError(400, f"Invalid timeout value: {text}")
        limits = [limit for limit in (float(text), self.query_timeout_s) if limit > 0]
        return min(limits) if limits else _FOREVER_S

    async def _query(self, request: Request, connection: Connection, engine: Engine) -> Answer | None:
        if request.method == "POST" and request.content_type not in _QUERY_TYPES:
            raise EngineError(415, f"Unsupported MIME type: {request.content_type}")
        parameters = grouped(request)
        text = parameters.get("query", [None])[0]
        if request.content_type == "application/sparql-query":
            text = request.body.decode()
        if text is None:
            raise EngineError(400, "Missing parameter: query")
        limit_s, paging = self._time_limit(parameters), paging_of(parameters)
        default_graphs, named_graphs = (graphs_of(parameters, f"{kind}-graph-uri") for kind in ("default", "named"))
        if self._faults(connection).memory:
            raise EngineError(500, _MEMORY)
        stop = Cancellation(time.monotonic() + limit_s)
        running = Running(uuid.uuid4().hex, request.header("x-graphdb-track-alias"), text, stop)
        self._running[running.identifier] = running
        try:
            result: Result = await self._work(
                lambda: engine.evaluate(
                    text,
                    infer=is_true(parameters, "infer"),
                    same_as=is_true(parameters, "sameAs"),
                    default_graphs=default_graphs,
                    named_graphs=named_graphs,
                    bindings=bindings_of(parameters),
                    stop=stop,
                    compute_s=connection.faults.compute_s,
                )
            )
        except EngineError as error:
            if error.status != 500 or not self._faults(connection).late_errors or form_of(text) == "ASK":
                raise
            return await self._send_result(request, connection, Result(form_of(text) or "SELECT"), "query-result", "nothing")
        finally:
            del self._running[running.identifier]
        if stop.is_manual:
            raise EngineError(503, "Query evaluation took too long")
        result.rows = cut(result.rows, paging, self.query_limit_results)
        ending = None
        if time.monotonic() >= stop.deadline:
            ending = self._faults(connection).on_timeout
            if ending == "503" or result.form == "ASK":
                raise EngineError(503, "Query evaluation took too long")
            if ending in ("empty", "partial"):
                result.rows = result.rows[: len(result.rows) // 2 if ending == "partial" else 0]
        return await self._send_result(request, connection, result, "query-result", ending)

    @staticmethod
    def _faults(connection: Connection) -> GraphdbFaults:
        assert isinstance(connection.faults, GraphdbFaults)
        return connection.faults

    async def _work(self, function: Any) -> Any:
        """Run in a worker thread. A client that leaves meanwhile is not noticed before the next write."""
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._workers, function))

    def _negotiate(self, request: Request, types: dict[str, str]) -> tuple[str, str, bool]:
        """Return media type, file extension, and whether the Accept *header* chose. Raises EngineError 406 or 400."""
        parameter = grouped(request).get("Accept", [None])[0]
        ranges = accepted(parameter if parameter is not None else request.header("accept")) or ["*/*"]
        for media_range in ranges:
            for media_type, extension in types.items():
                kind = media_type.partition("/")[0]
                if media_range in (media_type, "*/*", f"{kind}/*"):
                    # The format's own type comes back, whichever of its names was asked for.
                    return next(name for name, end in types.items() if end == extension), extension, parameter is None
        if parameter is not None:
            raise EngineError(400, f"UNSUPPORTED FILE FORMAT: {parameter}")
        raise EngineError(406, "No acceptable file format found.")

    async def _send_result(
        self, request: Request, connection: Connection, result: Result, name: str, ending: str | None = None
    ) -> Answer | None:
        types = {"SELECT": TUPLE_TYPES, "ASK": BOOLEAN_TYPES}.get(result.form, GRAPH_TYPES)
        media_type, extension, by_header = self._negotiate(request, types)
        headers = [("Vary", "Accept")] if by_header else []
        headers += [
            ("Content-Disposition", f"attachment; filename={name}.{extension}"),
            ("Content-Type", f"{media_type};charset=UTF-8"),
            ("Content-Language", "en"),
            ("Date", email.utils.formatdate(usegmt=True)),
        ]
        if request.method == "HEAD" or ending == "nothing":
            await connection.start(200, "OK", [*headers, ("Content-Length", "0")], chunked=False, body=False)
            return None
        breaks = ending in ("truncated", "reset")
        pieces = list(export(result, media_type))
        if breaks:
            whole = b"".join(pieces)
            pieces = [whole[: len(whole) // 2]]
        await connection.start(200, "OK", headers, chunked=True)
        for piece in pieces:
            await connection.write(piece)
        if ending == "reset":
            connection.reset()
            raise Gone
        await connection.end()
        if breaks:
            raise Gone  # Tomcat closes after an error in a response that has begun
        return None

    def _update_text(self, request: Request) -> str | None:
        if request.content_type == "application/sparql-update":
            return request.body.decode()
        return grouped(request).get("update", [None])[0]

    async def _update(self, request: Request, connection: Connection, engine: Engine) -> Answer:
        text = self._update_text(request) or ""
        if not text.strip():
            raise EngineError(400, "Updates must be non-empty")
        stop = Cancellation(time.monotonic() + self._time_limit(grouped(request)))
        await self._work(lambda: engine.update(text, stop=stop, compute_s=connection.faults.compute_s))
        return 204, "", b""

    async def _statements(self, request: Request, connection: Connection, engine: Engine) -> Answer | None:
        parameters = grouped(request)
        subject, predicate, value = (term_of(parameters.get(name, [None])[0], name) for name in ("subj", "pred", "obj"))
        quads = list(engine.base.quads_for_pattern(subject, predicate, value, None))
        result = Result("CONSTRUCT", rows=[(quad.subject, quad.predicate, quad.object) for quad in quads])
        return await self._send_result(request, connection, result, "statements")

    def _graph_store(self, request: Request, engine: Engine, name: str) -> Answer:
        parameters = grouped(request)
        graph: str | None = None
        if name != "service":
            graph = f"http://{request.header('host')}{request.path}"
        elif "graph" in parameters:
            graph = parameters["graph"][0]
        elif "default" not in parameters:
            raise EngineError(400, "Missing parameter: graph")
        node = ox.NamedNode(graph) if graph else ox.DefaultGraph()
        if request.method in ("GET", "HEAD"):
            triples = [quad.triple for quad in engine.base.quads_for_pattern(None, None, None, node)]
            media_type, _, _ = self._negotiate(request, GRAPH_TYPES)
            body = ox.serialize(triples, format=RDF_TYPES[media_type]) or b""
            return 200, f"{media_type};charset=UTF-8", body
        return self._store(request, engine, graph or "")

    def _store(self, request: Request, engine: Engine, graph: str | None) -> Answer:
        """Replace (PUT), add (POST) or remove (DELETE) statements: of one graph (``""``: the unnamed), or (None) of all."""
        if request.method in ("PUT", "DELETE"):
            if graph is None:
                engine.base.clear()
            else:
                engine.base.clear_graph(ox.NamedNode(graph) if graph else ox.DefaultGraph())
        if request.method in ("PUT", "POST"):
            if request.content_type not in RDF_TYPES:
                raise EngineError(415, f"Unsupported MIME type: {request.content_type}")
            try:
                engine.load(request.body, request.content_type, graph or None)
            except SyntaxError as error:
                raise EngineError(400, f"MALFORMED DATA: {error}") from error
        engine.changed()
        return 204, "", b""


def _page(reason: str) -> bytes:
    return f"<!doctype html><html><head><title>{reason}</title></head><body><h1>{reason}</h1></body></html>".encode()
