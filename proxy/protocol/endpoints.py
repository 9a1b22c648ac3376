"""The SPARQL Protocol over ASGI: the client's own bytes to the backend, the backend's own bytes back (pure ASGI)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote

from proxy.access.keys import Role
from proxy.backends.base import HOP_BY_HOP, NAME, BackendRequest, Headers, KnownFields, PathKind, end_to_end
from proxy.errors import MethodNotAllowed, OperationForbidden, UnknownPath
from proxy.pipeline.exchange import Exchange
from proxy.pipeline.sparql import EmptyAnswer, Handling, SparqlPath
from proxy.protocol.access import require, require_some
from proxy.protocol.asgi import ClientWatch, Receive, Scope, Send, field, read_body, require_fits, stream_body
from proxy.protocol.description import readdress
from proxy.protocol.middleware import EXCHANGE
from proxy.protocol.paths import handling, require_no_operation, rest_of_path
from proxy.protocol.questions import QuestionAnswers
from proxy.protocol.relay import relay, respond_empty
from proxy.protocol.request import BODY_METHODS, FORM, read_operation, read_parameters, split_media_type, trim_names, unpack
from proxy.protocol.transactions import METHODS as TRANSACTION_METHODS
from proxy.protocol.transactions import read_step, read_text
from proxy.query.operation import DatasetDescription, OperationKind, Question, SparqlOperation

QUERY_METHODS = ("GET", "HEAD", "POST", "QUERY")
KNOWN_REQUESTS = 2048
KNOWN_LIMIT_BYTES = 4096
STORE_METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE")
ANSWER = "sparlance.answer"
"""Key in the ASGI scope of a request that is answered already, by that BackendResponse; nothing is left but to send it."""
READ_METHODS = ("GET", "HEAD")


@dataclass(frozen=True)
class Route:
    """What a path is. own_path: the backend's, None where the kind of operation decides. expected: None: both kinds."""

    path: SparqlPath
    own_path: str | None
    kind: PathKind
    expected: OperationKind | None

    @cached_property
    def own_path_bytes(self) -> bytes | None:
        return None if self.own_path is None else self.own_path.encode("ascii")

    @cached_property
    def query_path_bytes(self) -> bytes:
        return self.path.dataset.backend.query_path.encode("ascii")

    @cached_property
    def update_path_bytes(self) -> bytes:
        return self.path.dataset.backend.update_path.encode("ascii")


class _Read(NamedTuple):
    """A request as it was understood. query_string, body: as they go on. prefer: what the client wants of validation."""

    operation: SparqlOperation | Question | None
    query_string: bytes
    body: bytes
    prefer: Handling | None


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
        backend = path.dataset.backend
        for pattern, kind in backend.paths.items():
            route = Route(path, pattern, kind, _EXPECTED.get(kind))
            if pattern.endswith("*"):
                self._prefixes.append((prefix + unquote(pattern[:-1]), route))
            else:
                self._routes[prefix + unquote(pattern)] = route
        is_shared = backend.paths.get(backend.query_path) is PathKind.ANY
        self._routes[f"{prefix}/sparql"] = Route(path, None, PathKind.ANY if is_shared else PathKind.QUERY, None)

    def find(self, path: str) -> Route | None:
        """The route of *path*, or None: then it is not ours."""
        found = self._routes.get(path)
        if found is None:
            found = next((route for start, route in self._prefixes if path.startswith(start)), None)
        return found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (answer := scope.get(ANSWER)) is not None:
            with ClientWatch(receive):
                await relay(scope[EXCHANGE], answer, send)
            return
        route = self.find(scope["path"])
        if route is None:
            known = ", ".join([*self._routes, "/text2sparql", "/-/ready"])
            raise UnknownPath(f"nothing is served at {scope['path']}; there is {known}")
        exchange: Exchange = scope[EXCHANGE]
        kind = route.kind
        if kind is PathKind.STATEMENTS or (kind is PathKind.ANY and names_graph(scope["query_string"])):
            parameters = read_parameters(scope["query_string"], "the query string")
            kind = handling(kind, scope["method"], parameters, field(scope["headers"], b"content-type"))
        match kind:
            case PathKind.GRAPH_STORE:
                await self._graph_store(scope, receive, send, route, exchange)
            case PathKind.INFORMATION:
                await self._information(scope, receive, send, route, exchange)
            case PathKind.TRANSACTIONS:
                await self._transaction(scope, receive, send, route, exchange)
            case _:
                await self._operation(scope, receive, send, route, exchange)

    # -- queries and updates

    async def _operation(self, scope: Scope, receive: Receive, send: Send, route: Route, exchange: Exchange) -> None:
        method, headers = scope["method"], scope["headers"]
        if method not in QUERY_METHODS:
            raise MethodNotAllowed(f"{method} is not a method of the SPARQL Protocol", allowed=QUERY_METHODS)
        require_some(exchange)  # before the body is read
        body = await read_body(headers, receive, limit_bytes=self._limit) if method in BODY_METHODS else b""
        read = self._read(scope, route, exchange, body)
        operation = read.operation
        with ClientWatch(receive, is_body_read=method in BODY_METHODS) as watch:
            if method not in BODY_METHODS:
                watch.begin()
            if isinstance(operation, Question):
                require(exchange, Role.NL)
                exchange.question = operation
                await self._questions[route.path.dataset.name].answer(
                    exchange, operation, forwarded(scope, headers), send, prefer=read.prefer
                )
                return
            request = self._request(scope, route, exchange, read)
            if operation is None:
                await self._describe(scope, route, exchange, request, send)
                return
            answer = await route.path.run(exchange, request, prefer=read.prefer)
            if isinstance(answer, EmptyAnswer):
                await respond_empty(exchange, answer, operation.accept, send)
            else:
                await relay(exchange, answer, send)

    def route_of_query(self, scope: Scope) -> Route | None:
        """The route of a request that may be a query, by its head."""
        route = self._routes.get(scope["path"])
        if route is None or route.kind not in _QUERY_KINDS:
            return None
        return None if route.kind is PathKind.ANY and names_graph(scope["query_string"]) else route

    def read_query(
        self, scope: Scope, route: Route, exchange: Exchange, body: bytes
    ) -> tuple[BackendRequest, Handling | None] | None:
        """Read a request of method GET or POST; None where it asks something else than a query.

        Returns:
            What the backend gets unless something is changed; what the client prefers.
        Raises:
            RequestError
        """
        require_some(exchange)
        if scope["method"] in BODY_METHODS:
            require_fits(scope["headers"], body, limit_bytes=self._limit)
        read = self._read(scope, route, exchange, body)
        operation = read.operation
        if not isinstance(operation, SparqlOperation) or operation.kind is not OperationKind.QUERY:
            return None
        return self._request(scope, route, exchange, read), read.prefer

    def _read(self, scope: Scope, route: Route, exchange: Exchange, body: bytes) -> _Read:
        """Understand a request whose body is there."""
        method, headers = scope["method"], scope["headers"]
        accept = field(headers, b"accept")
        if method in BODY_METHODS:
            content_type, coding = field(headers, b"content-type"), field(headers, b"content-encoding")
            query_string = trim_names(scope["query_string"])
            operation = read_operation(
                method=method,
                query_string=query_string,
                content_type=content_type,
                body=unpack(body, coding, limit_bytes=self._limit) if coding else body,
                accept=accept,
                expected=route.expected,
            )
            if body and coding is None and split_media_type(content_type)[0] == FORM:
                body = trim_names(body)
        else:
            body = b""
            query_string, operation = self._read_get(scope["query_string"], accept, route.expected)
        prefer, applied = read_prefer(field(headers, b"prefer")) if route.path.allows_prefer else (None, None)
        if applied is not None:
            exchange.added_headers.append((b"preference-applied", applied))
        return _Read(operation, query_string, body, prefer)

    def _request(self, scope: Scope, route: Route, exchange: Exchange, read: _Read) -> BackendRequest:
        """What the backend gets, if whoever asks may ask it."""
        operation, query_string = read.operation, read.query_string
        assert not isinstance(operation, Question)
        is_update = operation is not None and operation.kind is OperationKind.UPDATE
        require(exchange, Role.UPDATE if is_update else Role.QUERY)
        backend = route.path.dataset.backend
        names = operation.parameters if operation is not None else read_parameters(query_string, "the query string")
        _require_no_administration(backend.refused_parameters, names)
        own_path = route.own_path_bytes
        if own_path is None or (operation is not None and route.expected is None):
            own_path = route.update_path_bytes if is_update else route.query_path_bytes
        exchange.operation = operation
        fields = forwarded(scope, scope["headers"])
        return BackendRequest(scope["method"], target(own_path, query_string), fields, read.body, operation)

    async def _describe(
        self, scope: Scope, route: Route, exchange: Exchange, request: BackendRequest, send: Send
    ) -> None:
        """Pass on a request that names no operation; where the answer is a service description, its endpoint is ours."""
        headers = [f for f in request.headers if f[0] != b"accept-encoding"]  # it must be read
        response = await route.path.describe(exchange, replace(request, headers=headers))
        host = field(request.headers, b"host") or ""
        path = request.target.partition(b"?")[0].decode("ascii")
        theirs = [f"http://{host}{path}", f"https://{host}{path}"]
        if root := route.path.dataset.backend.root_url:
            theirs += [root + path]
        ours = f"{scope.get('scheme', 'http')}://{host}{quote(scope['path'])}"
        await relay(exchange, await readdress(response, theirs, ours), send)

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

    # -- what is not SPARQL

    async def _graph_store(self, scope: Scope, receive: Receive, send: Send, route: Route, exchange: Exchange) -> None:
        method, headers = scope["method"], scope["headers"]
        if method not in STORE_METHODS:
            raise MethodNotAllowed(f"{method} is not a method of the graph store", allowed=STORE_METHODS)
        require(exchange, Role.QUERY if method in READ_METHODS else Role.UPDATE)
        parameters = self._parameters(scope, route)
        accept = field(headers, b"accept")
        exchange.operation = SparqlOperation(OperationKind.GRAPH_STORE, "", DatasetDescription(), parameters, accept)
        await self._pass_on(scope, receive, send, route, exchange)

    async def _information(self, scope: Scope, receive: Receive, send: Send, route: Route, exchange: Exchange) -> None:
        method = scope["method"]
        if method not in READ_METHODS:
            raise MethodNotAllowed(f"{method} is not allowed here", allowed=READ_METHODS)
        require(exchange, Role.QUERY)
        self._parameters(scope, route)
        request = BackendRequest(
            method, target(self._own_path(scope, route), scope["query_string"]), forwarded(scope, scope["headers"])
        )
        with ClientWatch(receive):
            await relay(exchange, await route.path.describe(exchange, request), send)

    async def _transaction(self, scope: Scope, receive: Receive, send: Send, route: Route, exchange: Exchange) -> None:
        """A transaction is begun at its path, and takes its steps at the path that the backend then names."""
        method, headers = scope["method"], scope["headers"]
        is_begin = not (route.own_path or "").endswith("*")
        allowed = ("POST",) if is_begin else TRANSACTION_METHODS
        if method not in allowed:
            raise MethodNotAllowed(f"{method} is not a method of transactions", allowed=allowed)
        require(exchange, Role.UPDATE)
        accept = field(headers, b"accept")
        if is_begin:
            parameters = self._parameters(scope, route)
            exchange.operation = SparqlOperation(OperationKind.TRANSACTION, "", DatasetDescription(), parameters, accept)
            await self._pass_on(scope, receive, send, route, exchange)
            return
        step = read_step(method=method, query_string=scope["query_string"], accept=accept)
        if step.judged is None:
            exchange.operation = step.operation
            await self._pass_on(scope, receive, send, route, exchange)
            return
        content_type, coding = field(headers, b"content-type"), field(headers, b"content-encoding")
        body = await read_body(headers, receive, limit_bytes=self._limit)
        plain = unpack(body, coding, limit_bytes=self._limit) if coding else body
        judged = await route.path.judge(exchange, read_text(step, content_type=content_type, body=plain))
        exchange.operation = step.operation
        fields = forwarded(scope, headers)
        if exchange.is_rewritten:
            exchange.is_rewritten = False
            body = judged.text.encode("utf-8")
            kept = [f for f in fields if f[0] not in (b"content-type", b"content-encoding", b"content-length")]
            fields = [*kept, (b"content-type", step.judged[1].encode("ascii"))]
        request = BackendRequest(
            method, target(self._own_path(scope, route), scope["query_string"]), fields, body, step.operation
        )
        with ClientWatch(receive):
            answer = await route.path.run(exchange, request)
            assert not isinstance(answer, EmptyAnswer)
            await relay(exchange, answer, send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, route: Route, exchange: Exchange) -> None:
        """Send a request as it came, its body unread, once its operation is allowed."""
        method, headers = scope["method"], scope["headers"]
        has_body = method in ("PUT", "POST")
        path = self._own_path(scope, route)
        with ClientWatch(receive, is_body_read=False) as watch:
            body = stream_body(headers, receive, limit_bytes=self._limit, at_end=watch.begin) if has_body else b""
            if not has_body:
                watch.begin()
            fields = forwarded(scope, headers)
            request = BackendRequest(method, target(path, scope["query_string"]), fields, body, exchange.operation)
            answer = await route.path.run(exchange, request)
            assert not isinstance(answer, EmptyAnswer)
            await relay(exchange, answer, send)

    @staticmethod
    def _parameters(scope: Scope, route: Route) -> tuple[tuple[str, str], ...]:
        parameters = tuple(read_parameters(scope["query_string"], "the query string"))
        require_no_operation(parameters)
        _require_no_administration(route.path.dataset.backend.refused_parameters, parameters)
        return parameters

    @staticmethod
    def _own_path(scope: Scope, route: Route) -> bytes:
        own_path = route.own_path or route.path.dataset.backend.query_path
        if own_path.endswith("*"):
            return rest_of_path(scope.get("raw_path"), scope["path"], own_path)
        return own_path.encode("ascii")


_QUERY_KINDS = frozenset([PathKind.QUERY, PathKind.ANY])
_EXPECTED = {
    PathKind.QUERY: OperationKind.QUERY,
    PathKind.UPDATE: OperationKind.UPDATE,
    PathKind.STATEMENTS: OperationKind.UPDATE,
}
"""What a path takes by its kind; both where it is not listed."""


def names_graph(query_string: bytes) -> bool:
    """Whether a graph of the graph store may be named. A name in escapes is none: such a request is handled as SPARQL."""
    return b"graph" in query_string or b"default" in query_string


_CONTINUED = frozenset([b"x-forwarded-for", b"forwarded", b"expect"])
"""Fields that we go on with; but for Expect, which our server has answered."""
_CHANGED = HOP_BY_HOP | _CONTINUED


def target(path: bytes, query_string: bytes) -> bytes:
    return path + b"?" + query_string if query_string else path


def _require_no_administration(refused: frozenset[str], parameters: Sequence[tuple[str, str]]) -> None:
    if parameters and refused and (found := refused.intersection(name for name, _ in parameters)):
        raise OperationForbidden(f"{', '.join(sorted(found))}= is not forwarded ([policy] allowed_parameters)")


def forwarded(scope: Scope, headers: Headers) -> Headers:
    """The client's end-to-end fields, and who it is (RFC 7239; X-Forwarded-For for those that read only that)."""
    if type(headers) is KnownFields:  # of one connection, whose client, scheme and version are the same each time
        if headers.onward is None:
            headers.onward = KnownFields(_forwarded(scope, headers))
        return headers.onward
    return _forwarded(scope, headers)


def _forwarded(scope: Scope, headers: Headers) -> list[tuple[bytes, bytes]]:
    client = scope.get("client")
    own = _own_fields(client[0] if client else "unknown", scope.get("scheme", "http"))
    if scope.get("http_version") == "1.0" and scope.get("server") and not any(name == b"host" for name, _ in headers):
        # What it connected to: HTTP/1.1, which we speak to the backend, has to name a host.
        headers = [(b"host", "{}:{}".format(*scope["server"]).encode("ascii")), *headers]
    if _CHANGED.isdisjoint(map(NAME, headers)):
        return [*headers, *own]
    theirs = end_to_end(headers)
    kept = [field for field in theirs if field[0] not in _CONTINUED]
    for name, value in own:
        kept.append((name, b", ".join([*(v for n, v in theirs if n == name), value])))
    return kept


@lru_cache(1024)
def _own_fields(address: str, scheme: str) -> tuple[tuple[bytes, bytes], ...]:
    node = f'"[{address}]"' if ":" in address else address
    own = f"for={node};proto={scheme}".encode("latin-1")
    return (b"x-forwarded-for", address.encode("latin-1")), (b"forwarded", own)


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
