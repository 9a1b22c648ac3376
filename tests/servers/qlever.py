"""A stand-in for the QLever server, faithful in what a client sees on the wire; the texts and limits are in qlever.toml.

QLever itself cannot be installed here. What the real one was found to do stands in its source and documentation; where this
stand-in had to guess, it is the stricter reading (a URL character that may be illegal is illegal).
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import urllib.parse
import uuid
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

import pyoxigraph as ox

from tests.servers import websocket
from tests.servers.qlever_engine import QUIRKS, Engine, OperationError, Result, error_document, seconds
from tests.servers.rdf_store import RDF_TYPES, accepted, form_of
from tests.servers.wire import BadFraming, Cancellation, Connection, Faults, Gone, Request, WireServer

_TEXT: dict[str, str] = QUIRKS["text"]
_OPERATION: dict[str, str] = QUIRKS["operation"]
_MEDIA: dict[str, list[str]] = QUIRKS["media"]
_LEGAL_TARGET = re.compile(rb"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*")
_SINGLE = ("query", "update", "cmd", "timeout", "send", "action", "access-token", "graph")
Parameters = dict[str, list[str]]


class TextError(Exception):
    """What QLever reports as plain text: everything that goes wrong before an operation is known."""

    def __init__(self, status: int, key: str, /, **holes: object) -> None:
        super().__init__(_TEXT[key].format(**holes))
        self.status = status


@dataclass(slots=True)
class QleverFaults(Faults):
    """Beyond Faults:

    memory: operations fail for want of memory.
    export_error: this message ends an export after *export_error_at* bytes: as a status while they are still buffered, else as
        the text that QLever appends to the body.
    """

    memory: bool = False
    export_error: str | None = None
    export_error_at: int = 1_500_000


@dataclass(frozen=True, slots=True)
class Operation:
    kind: str
    text: str
    parameters: Parameters


class Qlever(WireServer):
    """The stand-in; a context manager.

    Args:
        data: RDF text by media type: the index.
        token: the access token; None: started without one.
        workers: queries evaluated at once; more wait, with their time running.
    Attributes:
        cancelled: ids of queries that a client cancelled while they ran or waited.
        finished: ids of operations that ran to their end, whether or not anybody still listened.
        cache_clears, settings: what commands did.
    """

    header_limit_closes = True

    def __init__(self, *, data: Mapping[str, str] | None = None, token: str | None = "secret", workers: int = 1) -> None:
        super().__init__()
        self.faults: QleverFaults = QleverFaults()
        self.header_limit_bytes = QUIRKS["header_limit_bytes"]
        self.keep_alive_s = QUIRKS["keep_alive_s"]
        self.body_limit = QUIRKS["body_limit_bytes"]
        self.settings: dict[str, str] = dict(QUIRKS["settings"])
        self.settings["default-query-timeout"] = QUIRKS["default_query_timeout"]
        self.token = token
        self.engine = Engine()
        for media_type, text in (data or {}).items():
            self.engine.load(text, media_type)
        self.cancelled: list[str] = []
        self.finished: list[str] = []
        self.cache_clears = 0
        self._running: dict[str, Cancellation] = {}
        self._watchers: dict[str, set[Connection]] = {}
        self._worker_count = workers

    def __enter__(self) -> Self:
        self._workers = ThreadPoolExecutor(self._worker_count, thread_name_prefix="qlever")
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for stop in list(self._running.values()):
            stop.cancel()
        super().__exit__(kind, error, trace)
        self._workers.shutdown(wait=True)

    def body_limit_bytes(self) -> int | None:
        return int(self.body_limit)

    async def refuse(self, problem: BadFraming, connection: Connection) -> None:
        if problem.status == 413:
            body = _TEXT["body_limit"].format(limit=self.body_limit).encode()
            headers = [("Content-Type", "text/plain"), *self._cors(), ("Content-Length", str(len(body)))]
            await connection.start(413, "Payload Too Large", headers, chunked=False)
            await connection.write(body)

    @staticmethod
    def _faults(connection: Connection) -> QleverFaults:
        assert isinstance(connection.faults, QleverFaults)
        return connection.faults

    @staticmethod
    def _cors() -> list[tuple[str, str]]:
        return [(name, value) for name, value in QUIRKS["cors"]]

    async def handle(self, request: Request, connection: Connection) -> bool:
        if websocket.is_upgrade(request) and request.path.startswith("/watch/"):
            await self._watch(request, connection)
            return False
        try:
            await self._answer(request, connection)
        except TextError as error:
            await self._reply(request, connection, error.status, "text/plain", str(error).encode())
        except Gone:
            return False
        keeps = (request.header("connection") or "").lower()
        return keeps != "close" if request.version == "HTTP/1.1" else keeps == "keep-alive"

    async def _reply(self, request: Request, connection: Connection, status: int, media_type: str, body: bytes) -> None:
        await self._start(request, connection, status, media_type)
        if body:
            await connection.write(body)
        await connection.end()

    async def _start(self, request: Request, connection: Connection, status: int, media_type: str) -> None:
        headers = [("Content-Type", media_type), *self._cors()]
        # Whole tokens only: "gzip;q=1.0" is not recognised. zlib's format is what HTTP calls deflate.
        offered = [token.strip() for token in (request.header("accept-encoding") or "").split(",")]
        for coding, window in (("deflate", 15), ("gzip", 31)):
            if coding in offered:
                headers.append(("Content-Encoding", coding))
                connection.coder = zlib.compressobj(wbits=window)
                break
        await connection.start(status, HTTPStatus(status).phrase, headers, chunked=True, body=request.method != "HEAD")
        if request.method == "HEAD":
            connection.coder = None

    async def _answer(self, request: Request, connection: Connection) -> None:
        if request.method == "OPTIONS":
            return await self._reply(request, connection, 200, "text/plain", b"")
        if not _LEGAL_TARGET.fullmatch(request.target):
            raise TextError(400, "url", target=request.target.decode("latin-1"))
        url = _grouped(request.parameters())
        if request.path == "/ping" and request.method == "GET":
            return await self._reply(request, connection, 200, "text/plain", QUIRKS["liveness"].encode())
        operation, parameters = self._operation(request, url)
        has_token = self._check_token(request, parameters)
        if request.path == "/metrics" and request.method == "GET":
            if not has_token:
                raise TextError(403, "token_needed", what="metrics")
            raise TextError(404, "metrics_off")
        command = self._command(parameters, has_token)
        command = self._set(parameters, has_token) or command
        if operation is not None:
            return await self._operate(request, connection, operation, has_token)
        if command is not None:
            return await self._reply(request, connection, 200, *command)
        if not request.query_string and request.method == "GET":
            raise TextError(404, "unknown_path")
        raise TextError(400, "unknown_parameters")

    def _operation(self, request: Request, url: Parameters) -> tuple[Operation | None, Parameters]:
        """Say what is asked for, by SPARQL Protocol and Graph Store Protocol. Raises TextError."""
        store = "graph" in url or "default" in url or request.path.startswith(QUIRKS["graph_store_prefix"])
        parameters = url
        if request.method == "POST" and request.content_type == "application/x-www-form-urlencoded":
            if request.query_string:
                raise TextError(400, "form_with_query_string")
            parameters, store = _grouped(request.form()), False
        for name in _SINGLE:
            if len(parameters.get(name, [])) > 1:
                raise TextError(400, "repeated", name=name, count=len(parameters[name]))
        match request.method:
            case "GET":
                if "update" in parameters:
                    raise TextError(400, "update_by_get")
                if "query" in parameters:
                    return Operation("query", parameters["query"][0], parameters), parameters
            case "POST":
                body = request.body.decode("utf-8", "replace")
                if request.content_type == "application/x-www-form-urlencoded":
                    if "query" in parameters and "update" in parameters:
                        raise TextError(400, "query_and_update")
                    for kind in ("query", "update"):
                        if kind in parameters:
                            return Operation(kind, parameters[kind][0], parameters), parameters
                    return None, parameters
                for kind in ("query", "update"):
                    if request.content_type == f"application/sparql-{kind}":
                        return Operation(kind, body, parameters), parameters
                if not store:
                    raise TextError(400, "content_type", type=request.content_type)
            case "HEAD" | "PUT" | "DELETE" | "TSOP":
                if not store:
                    raise TextError(400, "no_graph")
            case _:
                raise TextError(405, "method", method=request.method)
        return (Operation("graph store", request.body.decode("utf-8", "replace"), parameters) if store else None), parameters

    def _check_token(self, request: Request, parameters: Parameters) -> bool:
        """Return whether the right token came; none is fine. Raises TextError for any other."""
        authorization, parameter = request.header("authorization"), parameters.get("access-token", [None])[0]
        if authorization is not None and not authorization.startswith("Bearer "):
            raise TextError(400, "token_scheme")
        bearer = authorization.removeprefix("Bearer ") if authorization is not None else None
        if bearer is not None and parameter is not None and bearer != parameter:
            raise TextError(400, "token_two")
        given = bearer if bearer is not None else parameter
        if given is None:
            return False
        if self.token is None:
            raise TextError(403, "token_unknown")
        if given != self.token:
            raise TextError(403, "token_wrong")
        return True

    def _command(self, parameters: Parameters, has_token: bool) -> tuple[str, bytes] | None:
        name = parameters.get("cmd", [""])[0]
        if name in QUIRKS["commands"]["token"] and not has_token:
            raise TextError(403, "token_needed", what=f"The command `{name}`")
        size = len(self.engine.base)
        cache = dict.fromkeys(QUIRKS["commands"]["cache_stats"], 0)
        document: Any
        match name:
            case "stats":
                document = self._statistics()
            case "cache-stats":
                document = cache
            case "clear-cache" | "clear-cache-complete" | "clear-named-cache":
                self.cache_clears += 1
                document = cache
            case "get-settings":
                document = self.settings
            case "get-index-id":
                stats = self._statistics()
                counts = [stats[f"num-{what}-normal"] for what in ("triples", "subjects", "predicates", "objects")]
                return "text/plain", ("#" + ".".join([stats["name-index"], *map(str, counts)])).encode()
            case "clear-delta-triples" | "vacuum-delta-triples":
                document = self.engine.forget() if name.startswith("clear") else self.engine.delta()
            case "rebuild-index":
                self.engine.fold()
                document = {"status": "OK", "num-triples": size}
            case "dump-active-queries":
                document = {identifier: {} for identifier in self._running}
            case _:
                return None
        return "application/json", json.dumps(document, indent=4).encode()

    def _statistics(self) -> dict[str, Any]:
        quads = self.engine.index_quads()
        stats: dict[str, Any] = {
            "name-index": "stand-in",
            "git-hash-index": "0" * 40,
            "git-hash-server": "0" * 40,
            "version-server": "stand-in",
            "num-permutations": 6,
            "name-text-index": "",
            "num-text-records": len(QUIRKS["magic"]["words"]),
            "num-word-occurrences": 0,
            "num-entity-occurrences": 0,
            "num-triples-normal": len({(q.subject, q.predicate, q.object) for q in quads}),
            "num-triples-internal": 0,
        }
        for what in ("subject", "predicate", "object"):
            stats[f"num-{what}s-normal"] = len({getattr(quad, what) for quad in quads})
            stats[f"num-{what}s-internal"] = 0
        return stats

    def _set(self, parameters: Parameters, has_token: bool) -> tuple[str, bytes] | None:
        for name, values in parameters.items():
            if name in QUIRKS["settings"]:
                if not has_token:
                    raise TextError(403, "token_needed", what=f"setting {name}")
                self.settings[name] = values[0]
                return "application/json", json.dumps(self.settings, indent=4).encode()
        return None

    async def _operate(self, request: Request, connection: Connection, operation: Operation, has_token: bool) -> None:
        started = time.monotonic()
        identifier = request.header("query-id") or str(uuid.uuid4())
        registered = False
        try:
            if identifier in self._running:
                raise OperationError(409, _OPERATION["id_in_use"].format(id=identifier))
            limit_s = self._time_limit(operation.parameters, has_token)
            send = self._send_limit(operation.parameters)
            stop = Cancellation(started + limit_s)
            self._running[identifier], registered = stop, True
            writes = operation.kind == "update" or (operation.kind == "graph store" and request.method not in ("GET", "HEAD"))
            if writes and not has_token:
                raise OperationError(403, _TEXT["token_needed"].format(what="SPARQL Update"))
            if self._faults(connection).memory:
                raise OperationError(500, _OPERATION["memory"].format(wanted="5 GB", left="1 GB"))
            if operation.kind == "query":
                await self._query(request, connection, operation, stop, send)
            elif operation.kind == "update":
                self.engine.check(operation.text, is_update=True)
                account = await self._work(
                    self.engine.update,
                    operation.text,
                    operation.parameters.get("using-graph-uri", []),
                    operation.parameters.get("using-named-graph-uri", []),
                    stop,
                    connection.faults.compute_s,
                )
                self.cache_clears += 1
                await self._reply(request, connection, 200, "application/json", json.dumps(account).encode())
            else:
                await self._graph_store(request, connection, operation, stop)
            self.finished.append(identifier)
        except Gone:
            self.finished.append(identifier)
            raise
        except OperationError as error:
            if error.status == 429 and registered and self._running[identifier].is_manual:
                self.cancelled.append(identifier)
            body = error_document(error, operation.text, time.monotonic() - started)
            await self._reply(request, connection, error.status, "application/json", body)
        finally:
            if registered:
                del self._running[identifier]
                for watcher in self._watchers.pop(identifier, set()):
                    watcher.writer.close()

    def _time_limit(self, parameters: Parameters, has_token: bool) -> float:
        highest = self.settings["default-query-timeout"]
        if "timeout" not in parameters:
            return seconds(highest)
        limit_s = seconds(parameters["timeout"][0])
        if limit_s > seconds(highest) and not has_token:
            raise TextError(403, "timeout_too_long", limit=highest)
        return limit_s

    @staticmethod
    def _send_limit(parameters: Parameters) -> int | None:
        text = parameters.get("send", [None])[0]
        if text is not None and not text.isdigit():
            raise OperationError(500, _OPERATION["send"].format(text=text))
        return int(text) if text is not None else None

    async def _work(self, function: Any, *arguments: Any) -> Any:
        """Run in a worker, or wait for one. Nothing that the client does meanwhile is noticed."""
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._workers, function, *arguments))

    @staticmethod
    def _media_type(request: Request, operation: Operation, form: str) -> str:
        action = operation.parameters.get("action", [""])[0]
        supported = _MEDIA[{"ASK": "ask", "SELECT": "select"}.get(form, "construct")]
        if QUIRKS["actions"].get(action) in supported:
            return str(QUIRKS["actions"][action])
        header = request.header("accept")
        ranges = accepted(header)
        if ranges and not any("*" in media or media in _MEDIA["known"] for media in ranges):
            raise OperationError(406, _OPERATION["media"].format(accept=header, known=", ".join(_MEDIA["known"])))
        for media in ranges:
            if media in supported:
                return media
            if "*" in media:
                break
        return supported[0]

    async def _query(
        self, request: Request, connection: Connection, operation: Operation, stop: Cancellation, send: int | None
    ) -> None:
        self.engine.check(operation.text, is_update=False)
        media_type = self._media_type(request, operation, form_of(operation.text) or "SELECT")
        result: Result = await self._work(
            self.engine.evaluate,
            operation.text,
            operation.parameters.get("default-graph-uri", []),
            operation.parameters.get("named-graph-uri", []),
            stop,
            connection.faults.compute_s,
        )
        await self._export(request, connection, result, media_type, operation.text, send)

    async def _export(
        self, request: Request, connection: Connection, result: Result, media_type: str, text: str, send: int | None
    ) -> None:
        fails, fails_at = self._faults(connection).export_error, self._faults(connection).export_error_at
        produced, buffered = 0, bytearray()
        is_started = False
        for piece in self.engine.export(result, media_type, text=text, send=send):
            produced += len(piece)
            if fails is not None and produced >= fails_at:
                if not is_started and produced < QUIRKS["buffered_bytes"]:
                    raise OperationError(500, fails)
                if not is_started:
                    await self._start(request, connection, 200, media_type)
                    await connection.write(bytes(buffered))
                await connection.write(_OPERATION["trailer"].format(message=fails).encode())
                return await connection.end()
            if is_started:
                await connection.write(piece)
                continue
            buffered += piece
            if len(buffered) >= QUIRKS["buffered_bytes"]:
                await self._start(request, connection, 200, media_type)
                await connection.write(bytes(buffered))
                is_started = True
        if not is_started:
            await self._start(request, connection, 200, media_type)
            for position in range(0, len(buffered), 32768):
                await connection.write(bytes(buffered[position : position + 32768]))
        await connection.end()

    async def _graph_store(self, request: Request, connection: Connection, operation: Operation, stop: Cancellation) -> None:
        graph: ox.NamedNode | ox.DefaultGraph = ox.DefaultGraph()
        if "graph" in operation.parameters:
            graph = ox.NamedNode(operation.parameters["graph"][0])
        elif "default" not in operation.parameters:
            graph = ox.NamedNode(f"http://{request.header('host')}{urllib.parse.unquote(request.path)}")
        base, size = self.engine.base, len(request.body)
        if request.method in ("GET", "HEAD"):
            media_type = self._media_type(request, operation, "CONSTRUCT")
            quads = list(base.quads_for_pattern(None, None, None, graph))
            result = Result("CONSTRUCT", rows=[(q.subject, q.predicate, q.object) for q in quads])
            return await self._export(request, connection, result, media_type, "", None)
        existed = isinstance(graph, ox.DefaultGraph) or base.contains_named_graph(graph)
        if request.method == "DELETE":
            if not existed:
                raise OperationError(404, f"Graph {graph} not found")
            text = "CLEAR DEFAULT" if isinstance(graph, ox.DefaultGraph) else f"DROP GRAPH {graph}"
        else:
            if request.method == "POST" and size == 0:
                return await self._reply(request, connection, 204, "text/plain", b"")
            if request.content_type not in _MEDIA["graph_store_bodies"]:
                raise OperationError(415, _OPERATION["graph_body"].format(type=request.content_type))
            try:
                parsed = ox.parse(request.body, format=RDF_TYPES[request.content_type])
                triples = " ".join(f"{q.subject} {q.predicate} {q.object} ." for q in parsed)
            except SyntaxError as error:
                raise OperationError(400, _OPERATION["syntax"].format(message=str(error))) from error
            block = f"{{ {triples} }}" if isinstance(graph, ox.DefaultGraph) else f"{{ GRAPH {graph} {{ {triples} }} }}"
            text = ("DELETE" if request.method == "TSOP" else "INSERT") + f" DATA {block}"
            if request.method == "PUT":
                text = ("CLEAR DEFAULT" if isinstance(graph, ox.DefaultGraph) else f"CLEAR SILENT GRAPH {graph}") + f" ; {text}"
        account = await self._work(self.engine.update, text, [], [], stop, connection.faults.compute_s)
        status = 201 if request.method == "PUT" and not existed else 200
        await self._reply(request, connection, status, "application/json", json.dumps(account).encode())

    async def _watch(self, request: Request, connection: Connection) -> None:
        """Serve ``/watch/<Query-Id>``: ``cancel`` stops the query now, ``cancel_on_close`` when this socket closes."""
        identifier = urllib.parse.unquote(request.path.removeprefix("/watch/"))
        await websocket.accept(request, connection)
        self._watchers.setdefault(identifier, set()).add(connection)
        await websocket.send(connection, websocket.TEXT, b'{"description":"waiting","status":"not started"}')
        on_close = False
        try:
            while (message := await websocket.receive(connection)) is not None:
                if message == "cancel":
                    self._cancel(identifier)
                elif message == "cancel_on_close":
                    on_close = True
        finally:
            self._watchers.get(identifier, set()).discard(connection)
            if on_close:
                self._cancel(identifier)

    def _cancel(self, identifier: str) -> None:
        stop = self._running.get(identifier)
        if stop is not None:
            stop.cancel()


def _grouped(pairs: list[tuple[str, str]]) -> Parameters:
    grouped: Parameters = {}
    for name, value in pairs:
        grouped.setdefault(name, []).append(value)
    return grouped
