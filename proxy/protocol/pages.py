"""Our own pages: ``/-/…`` and ``/text2sparql`` (starlette; none of them is on the path of a query)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from proxy.access.keys import Role
from proxy.errors import MalformedRequest, MethodNotAllowed, UnknownPath, UnsupportedMediaType
from proxy.pipeline.sparql import SparqlPath
from proxy.protocol.access import ROLES_OF_PAGES, require
from proxy.protocol.asgi import ClientWatch, Receive, Scope, Send, field, read_body
from proxy.protocol.descriptions import TtqlPage
from proxy.protocol.exposition import CONTENT_TYPE
from proxy.protocol.feedback import FeedbackPage
from proxy.protocol.middleware import EXCHANGE
from proxy.protocol.openapi import describe_api
from proxy.protocol.problems import describe_finding
from proxy.protocol.questions import QuestionAnswers
from proxy.protocol.request import FORM, SPARQL_QUERY, read_operation, read_parameters, split_media_type
from proxy.query.operation import OperationKind, Question, SparqlOperation
from proxy.validation.finding import Severity

Page = Callable[[Request], Awaitable[Response]]
_OF_THE_DATA = frozenset(["/-/index", "/-/ttql", "/-/check"])
"""Pages that tell what is in the graph, so that a plugin may keep them from somebody."""
NO_STORE = {"cache-control": "no-store"}
CHECK_TAKES = (
    "a query is wanted: its text as the body, with Content-Type: application/sparql-query or none, or query= in a form "
    "(curl -d sends a form unless it is told another type)"
)


class Reloaded(Protocol):
    """What reading the configuration again has brought: names of what has changed."""

    @property
    def changed(self) -> Sequence[str]: ...


class Pages:
    """The pages, for datasets by name; the first is meant where a request names none.

    Args:
        metrics: writes the page of that name; None: there is none. reload: reads the configuration again.
        is_stopping: whether the process is about to end, so that nobody should send more.
    """

    def __init__(
        self,
        paths: Mapping[str, SparqlPath],
        questions: Mapping[str, QuestionAnswers],
        *,
        body_limit_bytes: int,
        metrics: Callable[[], Awaitable[str]] | None = None,
        reload: Callable[[], Awaitable[Reloaded]] | None = None,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._is_stopping = is_stopping
        self._metrics = metrics
        self._reload = reload
        self._paths = paths
        self._questions = questions
        self._limit = body_limit_bytes
        ttql = TtqlPage(lambda request: self._path(request).dataset).get
        feedback = FeedbackPage(lambda request: self._path(request).dataset).post
        self._pages: dict[str, dict[str, Page]] = {
            "/-/live": {"GET": self.live},
            "/-/ready": {"GET": self.ready},
            "/-/index": {"GET": self.index, "POST": self.refresh},
            "/-/ttql": {"GET": ttql},
            "/-/metrics": {"GET": self.metrics},
            "/-/reload": {"POST": self.reload},
            "/-/check": {"POST": self.check},
            "/-/feedback": {"POST": feedback},
            "/-/openapi.json": {"GET": self.openapi},
            "/text2sparql": {"GET": self.text2sparql},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer from the page at the path; HEAD is read as GET.

        Raises:
            UnknownPath: there is no such page. MethodNotAllowed: it does not take this method.
        """
        path, method = scope["path"], scope["method"]
        if (methods := self._pages.get(path)) is None:
            known = ", ".join(p for p in self._pages if p.startswith("/-/"))
            raise UnknownPath(f"nothing is served at {path}; there is {known}")
        if (page := methods.get("GET" if method == "HEAD" else method)) is None:
            allowed = [name for known in methods for name in ((known, "HEAD") if known == "GET" else (known,))]
            raise MethodNotAllowed(f"{path} takes {' and '.join(methods)}, not {method}", allowed=allowed)
        if (role := ROLES_OF_PAGES.get(("GET" if method == "HEAD" else method, path), Role.ADMIN)) is not None:
            require(scope[EXCHANGE], role)
        request = Request(scope, receive, send)
        if path in _OF_THE_DATA:
            scope[EXCHANGE].method = method
            await self._path(request).admit(scope[EXCHANGE])
        response = await page(request)
        await response(scope, receive, send)

    async def live(self, request: Request) -> Response:
        """200 while the process answers at all."""
        return JSONResponse({"live": True}, headers=NO_STORE)

    async def ready(self, request: Request) -> Response:
        """200 once index and engine can serve and the backend answers; 503 and why: what is missing, or the end is near."""
        if self._is_stopping():
            content = {"ready": False, "reasons": ["the server is stopping"], "datasets": {}}
            return JSONResponse(content, status_code=503, headers=NO_STORE)
        reasons = {name: await path.dataset.readiness() for name, path in self._paths.items()}
        is_ready = not any(reasons.values())
        flat = [reason for found in reasons.values() for reason in found]
        content = {"ready": is_ready, "reasons": flat, "datasets": reasons}
        return JSONResponse(content, status_code=200 if is_ready else 503, headers=NO_STORE)

    async def openapi(self, request: Request) -> Response:
        """These pages and the SPARQL endpoint, as OpenAPI 3.1."""
        return JSONResponse(describe_api(self._pages, self._paths), headers=NO_STORE)

    async def index(self, request: Request) -> Response:
        """What is known of the graph, in numbers."""
        dataset = self._path(request).dataset
        headers = NO_STORE if dataset.index is None else NO_STORE | {"sparlance-epoch": str(dataset.index.epoch)}
        return JSONResponse(dataset.summary(), headers=headers)

    async def metrics(self, request: Request) -> Response:
        """Numbers for Prometheus."""
        if self._metrics is None:
            raise UnknownPath("no numbers are kept here")
        return Response(await self._metrics(), media_type=CONTENT_TYPE, headers=NO_STORE)

    async def reload(self, request: Request) -> Response:
        """Read the configuration again and serve by it; says what has changed. One that cannot be used changes nothing."""
        if self._reload is None:
            raise UnknownPath("no configuration is read here")
        done = await self._reload()
        return JSONResponse({"changed": list(done.changed)}, headers=NO_STORE)

    async def refresh(self, request: Request) -> Response:
        """Build the index anew, now; 202, as it takes its time: GET shows the progress, the next epoch its end."""
        dataset = self._path(request).dataset
        if dataset.distil is None:
            raise MalformedRequest("there is no index to refresh (index.enabled, --no-index)")
        dataset.refresh()
        return JSONResponse(dataset.summary(), status_code=202, headers=NO_STORE)

    async def check(self, request: Request) -> Response:
        """What the validator says about a query, by the index alone; no query and no ASK of a proof runs.

        Nor does the hook ``query`` of a plugin: a guard may count or write down what it sees, and a check is no request.
        """
        headers = request.scope["headers"]
        body = await read_body(headers, request.receive, limit_bytes=self._limit)
        content_type = request.headers.get("content-type")
        media = split_media_type(content_type)[0]
        if media in (None, "text/plain"):
            content_type = "application/sparql-query"
        elif media == FORM:
            given = (*read_parameters(request.scope["query_string"], "the query string"), *read_parameters(body, "the form"))
            if all(name != "query" for name, _ in given):
                raise MalformedRequest(f"the form has no query=; {CHECK_TAKES}")
        elif media != SPARQL_QUERY:
            raise UnsupportedMediaType(f"{media}; {CHECK_TAKES}")
        operation = read_operation(
            method="POST",
            query_string=request.scope["query_string"],
            content_type=content_type,
            body=body,
            expected=OperationKind.QUERY,
        )
        if not isinstance(operation, SparqlOperation):
            raise UnsupportedMediaType(CHECK_TAKES)
        path = self._path(request)
        findings = await path.check(operation)
        is_rejected = any(f.severity is Severity.PROVED_EMPTY for f in findings or ())
        content = {
            "verdict": "reject" if is_rejected else "pass",
            "findings": [describe_finding(f) for f in findings or ()],
        }
        if findings is None:
            content["note"] = "; ".join(path.dataset.reasons()) or "there is no index, so nothing can be found"
        return JSONResponse(content, headers=NO_STORE)

    async def text2sparql(self, request: Request) -> Response:
        """The TEXT2SPARQL challenge's interface: a question in, the query out, not run."""
        text, dataset = request.query_params.get("question", ""), request.query_params.get("dataset", "")
        if not text.strip():
            raise MalformedRequest("question= is missing")
        name = dataset if dataset in self._questions else next(iter(self._questions))
        question = Question(text, request.query_params.get("lang"), accept=field(request.scope["headers"], b"accept"))
        exchange = request.scope[EXCHANGE]
        exchange.question = question
        with ClientWatch(request.receive, is_body_read=False) as watch:
            watch.begin()
            translation = await self._questions[name].translate(exchange)
        return JSONResponse({"dataset": dataset, "question": text, "query": translation.query})

    def _path(self, request: Request) -> SparqlPath:
        name = request.query_params.get("dataset") or next(iter(self._paths))
        if name not in self._paths:
            raise MalformedRequest(f"there is no dataset {name!r}; there is {', '.join(self._paths)}")
        return self._paths[name]
