"""The SPARQL Protocol over ASGI: the client's own bytes to the backend, the backend's own bytes back (pure ASGI)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from proxy.backends.base import BackendRequest, end_to_end
from proxy.errors import MethodNotAllowed, OperationForbidden, UnknownPath
from proxy.pipeline.exchange import Exchange
from proxy.pipeline.sparql import EmptyAnswer, Handling, SparqlPath
from proxy.protocol.asgi import ClientWatch, Receive, Scope, Send, field, read_body, stream_body
from proxy.protocol.middleware import EXCHANGE
from proxy.protocol.questions import QuestionAnswers
from proxy.protocol.relay import relay, respond_empty
from proxy.protocol.request import BODY_METHODS, FORM, read_operation, read_parameters, split_media_type, trim_names, unpack
from proxy.query.operation import DatasetDescription, OperationKind, Question, SparqlOperation

QUERY_METHODS = ("GET", "HEAD", "POST", "QUERY")
KNOWN_REQUESTS = 2048
KNOWN_LIMIT_BYTES = 4096
STORE_METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE")


@dataclass(frozen=True, slots=True)
class Route:
    """What a path is. own_path: the backend's, None where the kind of operation decides. expected: None: both kinds."""

    path: SparqlPath
    own_path: str | None
    expected: OperationKind | None


class SparqlEndpoints:
    """All paths that speak SPARQL.

    Args:
        paths: by dataset name, in order; the first is at the root too.
        questions: answers ``nl=``; by dataset name.
    """

    def __init__(
        self, paths: Mapping[str, SparqlPath], questions: Mapping[str, QuestionAnswers], *, body_limit_bytes: int
    ) -> None:
        self._limit = body_limit_bytes
        self._questions = questions
        self._routes: dict[str, Route] = {}
        self._known: dict[
            tuple[bytes, str | None, OperationKind | None], tuple[bytes, SparqlOperation | Question | None]
        ] = {}
        self._prefixes: list[tuple[str, Route]] = []
        for i, (name, path) in enumerate(paths.items()):
            for prefix in ([""] if i == 0 else []) + [f"/{name}"]:
                self._add(prefix, path)

    def _add(self, prefix: str, path: SparqlPath) -> None:
        own = path.dataset.backend.paths
        for pattern, kind in own.items():
            # One path for both kinds, as QLever has it, is decided by the parameters.
            is_shared = path.dataset.backend.query_path == path.dataset.backend.update_path
            route = Route(path, pattern, None if is_shared and kind is not OperationKind.GRAPH_STORE else kind)
            if pattern.endswith("*"):
                self._prefixes.append((prefix + pattern[:-1], route))
            else:
                self._routes[prefix + pattern] = route
        self._routes[f"{prefix}/sparql"] = Route(path, None, None)

    def find(self, path: str) -> Route | None:
        """The route of *path*, or None: then it is not ours."""
        found = self._routes.get(path)
        if found is None:
            found = next((route for start, route in self._prefixes if path.startswith(start)), None)
        return found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self.find(scope["path"])
        if route is None:
            known = ", ".join([*self._routes, "/text2sparql", "/-/ready"])
            raise UnknownPath(f"nothing is served at {scope['path']}; there is {known}")
        exchange: Exchange = scope[EXCHANGE]
        if route.expected is OperationKind.GRAPH_STORE:
            await self._graph_store(scope, receive, send, route, exchange)
        else:
            await self._operation(scope, receive, send, route, exchange)

    # -- queries and updates

    async def _operation(self, scope: Scope, receive: Receive, send: Send, route: Route, exchange: Exchange) -> None:
        method, headers = scope["method"], scope["headers"]
        if method not in QUERY_METHODS:
            raise MethodNotAllowed(f"{method} is not a method of the SPARQL Protocol", allowed=QUERY_METHODS)
        body = b""
        content_type = coding = None
        if method in BODY_METHODS:
            content_type, coding = field(headers, b"content-type"), field(headers, b"content-encoding")
            body = await read_body(headers, receive, limit_bytes=self._limit)
        accept = field(headers, b"accept")
        if method in BODY_METHODS:
            query_string = trim_names(scope["query_string"])
            operation = read_operation(
                method=method,
                query_string=query_string,
                content_type=content_type,
                body=unpack(body, coding, limit_bytes=self._limit) if coding else body,
                accept=accept,
                expected=route.expected,
            )
        else:
            query_string, operation = self._read_get(scope["query_string"], accept, route.expected)
        if body and coding is None and split_media_type(content_type)[0] == FORM:
            body = trim_names(body)
        prefer, applied = read_prefer(field(headers, b"prefer")) if route.path.allows_prefer else (None, None)
        if applied is not None:
            exchange.added_headers.append((b"preference-applied", applied))
        with ClientWatch(receive, is_body_read=method in BODY_METHODS) as watch:
            if method not in BODY_METHODS:
                watch.begin()
            if isinstance(operation, Question):
                exchange.question = operation
                await self._questions[route.path.dataset.name].answer(
                    exchange, operation, forwarded(scope, headers), send, prefer=prefer
                )
                return
            backend = route.path.dataset.backend
            names = operation.parameters if operation is not None else read_parameters(query_string, "the query string")
            _require_no_administration(backend.refused_parameters, names)
            own_path = route.own_path
            if own_path is None or (operation is not None and route.expected is None):
                is_update = operation is not None and operation.kind is OperationKind.UPDATE
                own_path = backend.update_path if is_update else backend.query_path
            request = BackendRequest(
                method, target(own_path.encode("ascii"), query_string), forwarded(scope, headers), body, operation
            )
            if operation is None:
                await relay(exchange, await route.path.describe(exchange, request), send)
                return
            exchange.operation = operation
            answer = await route.path.run(exchange, request, prefer=prefer)
            if isinstance(answer, EmptyAnswer):
                await respond_empty(exchange, answer, operation.accept, send)
            else:
                await relay(exchange, answer, send)

    def _read_get(
        self, query_string: bytes, accept: str | None, expected: OperationKind | None
    ) -> tuple[bytes, SparqlOperation | Question | None]:
        """Read a request without a body; the same one comes again and again, and reading costs as much as forwarding."""
        key = query_string, accept, expected
        known = self._known.get(key)
        if known is None:
            trimmed = trim_names(query_string)
            known = trimmed, read_operation(method="GET", query_string=trimmed, accept=accept, expected=expected)
            if len(query_string) <= KNOWN_LIMIT_BYTES:
                if len(self._known) >= KNOWN_REQUESTS:
                    self._known.clear()
                self._known[key] = known
        return known

    # -- graph store

    async def _graph_store(self, scope: Scope, receive: Receive, send: Send, route: Route, exchange: Exchange) -> None:
        method, headers = scope["method"], scope["headers"]
        if method not in STORE_METHODS:
            raise MethodNotAllowed(f"{method} is not a method of the graph store", allowed=STORE_METHODS)
        parameters = tuple(read_parameters(scope["query_string"], "the query string"))
        accept = field(headers, b"accept")
        operation = SparqlOperation(OperationKind.GRAPH_STORE, "", DatasetDescription(), parameters, accept)
        exchange.operation = operation
        own_path = route.own_path or ""
        path = own_path.encode("ascii")
        if own_path.endswith("*"):
            # What stands behind is a graph's name, byte for byte.
            path = scope.get("raw_path") or quote(scope["path"]).encode("ascii")
            path = path[path.index(path_start(own_path)) :]
        has_body = method in ("PUT", "POST")
        with ClientWatch(receive, is_body_read=False) as watch:
            body = stream_body(headers, receive, limit_bytes=self._limit, at_end=watch.begin) if has_body else b""
            if not has_body:
                watch.begin()
            request = BackendRequest(
                method, target(path, scope["query_string"]), forwarded(scope, headers), body, operation
            )
            answer = await route.path.run(exchange, request)
            assert not isinstance(answer, EmptyAnswer)
            await relay(exchange, answer, send)


def path_start(own_path: str) -> bytes:
    """The fixed part of a path pattern."""
    return own_path.rstrip("*").encode("ascii")


def target(path: bytes, query_string: bytes) -> bytes:
    return path + b"?" + query_string if query_string else path


def _require_no_administration(refused: frozenset[str], parameters: Sequence[tuple[str, str]]) -> None:
    if refused and (found := refused.intersection(name for name, _ in parameters)):
        raise OperationForbidden(f"{', '.join(sorted(found))}= administers the backend and is not forwarded")


def forwarded(scope: Scope, headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The client's end-to-end fields, and who it is (RFC 7239; X-Forwarded-For for those that read only that)."""
    client = scope.get("client")
    address = client[0] if client else "unknown"
    node = f'"[{address}]"' if ":" in address else address
    so_far: list[bytes] = []
    forwarded_so_far: list[bytes] = []
    kept = []
    for name, value in end_to_end(headers):
        if name == b"x-forwarded-for":
            so_far.append(value)
        elif name == b"forwarded":
            forwarded_so_far.append(value)
        elif name != b"expect":  # our server has answered it
            kept.append((name, value))
    own = f"for={node};proto={scope.get('scheme', 'http')}".encode("latin-1")
    kept.append((b"x-forwarded-for", b", ".join([*so_far, address.encode("latin-1")])))
    kept.append((b"forwarded", b", ".join([*forwarded_so_far, own])))
    return kept


def read_prefer(prefer: str | None) -> tuple[Handling | None, bytes | None]:
    """Read ``Prefer: handling=strict|lenient`` (RFC 7240, 4.4): what to do, and the Preference-Applied value."""
    if prefer is None:
        return None, None
    for member in prefer.lower().split(","):
        name, _, value = member.partition(";")[0].partition("=")
        if name.strip() == "handling":
            match value.strip().strip('"'):
                case "strict":
                    return Handling.REJECT, b"handling=strict"
                case "lenient":
                    return Handling.ANNOTATE, b"handling=lenient"
    return None, None
