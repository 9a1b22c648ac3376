"""``nl=`` and ``/text2sparql``: a question becomes a query, and the query goes the way of every other, with no privilege."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from proxy.backends.base import BackendRequest, BackendResponse
from proxy.errors import Abstained, BackendError, BackendGarbled, ModelError, ProxyError
from proxy.pipeline.exchange import Exchange
from proxy.pipeline.sparql import EmptyAnswer, Handling, SparqlPath, rewritten
from proxy.protocol.asgi import Fields, Send, respond
from proxy.protocol.negotiation import EVENT_STREAM, SPARQL_QUERY, AnswerStyle, answer_style
from proxy.protocol.problems import describe, describe_finding
from proxy.protocol.relay import relay, respond_empty
from proxy.protocol.results import empty_result
from proxy.query.operation import OperationKind, Question, SparqlOperation

if TYPE_CHECKING:
    from proxy.pipeline.question import Translation

RESULTS_JSON = "application/sparql-results+json"
ACCOUNT_LIMIT_BYTES = 64 * 1024 * 1024
"""Of a result within an account, which must be read whole; a result alone is streamed and has no limit."""


class QuestionAnswers:
    """Answers the questions about one dataset."""

    def __init__(self, path: SparqlPath) -> None:
        self._path = path
        self._settings = path.dataset.settings.nl

    async def translate(
        self, exchange: Exchange, *, told: Callable[[str, dict[str, Any]], None] = lambda stage, found: None
    ) -> Translation:
        """Find the query that ``exchange.question`` asks for, as the plugins leave it. *told* hears of every stage.

        Raises:
            ModelError: questions are off, not ready yet, or out of time. Abstained: no query is good enough.
            BackendUnreachable, BackendBusy: nor could any be tried. RequestError, PluginError: a plugin refuses it.
        """
        hooks = self._path.hooks
        exchange.dataset = self._path.dataset.name
        if "question" in hooks.active:
            await hooks.question(exchange)
        question = exchange.question
        assert question is not None
        dataset = self._path.dataset
        if not self._settings.enabled or not dataset.settings.index.enabled:
            raise ModelError("questions in plain language are off ([nl] enabled and [index] enabled turn them on)")
        if dataset.engine is None:
            reasons = "; ".join(dataset.reasons()) or "the question engine is not there"
            raise ModelError(f"questions in plain language cannot be answered yet: {reasons}")
        from proxy.pipeline.question import translate  # late: it brings in what only questions need

        try:
            async with asyncio.timeout(self._settings.timeout_s):
                vet = partial(hooks.candidate, exchange) if "candidate" in hooks.active else None
                translation = await translate(question, dataset, vet=vet, told=told)
            dataset.questions.observe(translation.status, translation.account)
            return translation
        except Abstained as error:
            dataset.questions.observe("abstained", error.account)
            raise
        except (ModelError, BackendError):
            dataset.questions.observe("failed", {})
            raise
        except TimeoutError as exc:
            dataset.questions.observe("failed", {})
            raise ModelError(f"no query was found within {self._settings.timeout_s:g} s ([nl] timeout_s)") from exc

    async def answer(
        self, exchange: Exchange, question: Question, headers: Fields, send: Send, *, prefer: Handling | None
    ) -> None:
        """Answer in the style that the client accepts. *headers* are what the backend shall see."""
        style = answer_style(question.accept)
        if style is AnswerStyle.STEPS:
            await self._answer_in_steps(exchange, question, headers, send, prefer)
            return
        translation = await self.translate(exchange)
        question = exchange.question or question
        exchange.added_headers += own_fields(translation)
        match style:
            case AnswerStyle.QUERY:
                body = translation.query.encode("utf-8")
                await respond(send, 200, _fields(f"{SPARQL_QUERY}; charset=utf-8", len(body), exchange), body)
            case AnswerStyle.ACCOUNT:
                result = await self._result(exchange, translation, question, headers, prefer)
                account = {**account_of(question, translation), "findings": _findings(exchange), "result": result}
                body = json.dumps(account, ensure_ascii=False).encode("utf-8")
                await respond(send, 200, _fields("application/json", len(body), exchange), body)
            case AnswerStyle.RESULT:
                outcome = await self._run(exchange, translation, question, headers, prefer)
                if isinstance(outcome, EmptyAnswer):
                    await respond_empty(exchange, outcome, question.accept, send)
                else:
                    await relay(exchange, outcome, send)

    async def _run(
        self, exchange: Exchange, translation: Translation, question: Question, headers: Fields, prefer: Handling | None
    ) -> BackendResponse | EmptyAnswer:
        parameters = question.parameters
        if self._path.dataset.settings.index.graphs == "union":
            parameters = (*parameters, ("union-default-graph", "true"))  # the graph that the index describes
        operation = SparqlOperation(
            OperationKind.QUERY, translation.query, question.dataset, parameters, question.accept
        )
        exchange.operation = operation
        path = self._path.dataset.backend.query_path
        request = rewritten(BackendRequest("POST", b"", headers), operation, path=path)
        handling = prefer or Handling(self._path.dataset.settings.validation.nl_policy)
        return await self._path.run(exchange, request, prefer=handling)

    async def _result(
        self, exchange: Exchange, translation: Translation, question: Question, headers: Fields, prefer: Handling | None
    ) -> Any:
        """Run the query and return its whole SPARQL JSON result as a value."""
        dropped = (b"accept", b"accept-encoding")
        headers = [*(f for f in headers if f[0] not in dropped), (b"accept", RESULTS_JSON.encode("ascii"))]
        question = replace(question, accept=RESULTS_JSON)
        outcome = await self._run(exchange, translation, question, headers, prefer)
        if isinstance(outcome, EmptyAnswer):
            return json.loads(empty_result(outcome.form, outcome.variables, RESULTS_JSON)[1])
        try:
            data = b"".join([piece async for piece in _bounded(outcome, self._path.dataset.backend.name)])
            if outcome.status != 200:
                return {"error": {"status": outcome.status, "message": data[:2000].decode("utf-8", "replace")}}
            return json.loads(data)
        except ValueError as exc:
            name = self._path.dataset.backend.name
            raise BackendGarbled(f"{name} gave no complete result document", backend=name) from exc
        finally:
            await outcome.aclose()

    async def _answer_in_steps(
        self, exchange: Exchange, question: Question, headers: Fields, send: Send, prefer: Handling | None
    ) -> None:
        """Server-sent events, each as soon as its stage is done: question, linking, shape, candidates, execution, gate, each
        correction, translation, result; or problem, where one of them fails."""
        start = [(b"content-type", EVENT_STREAM.encode("ascii")), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": start})

        async def event(name: str, value: object) -> None:
            data = f"event: {name}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n".encode()
            await send({"type": "http.response.body", "body": data, "more_body": True})

        await event("question", {"question": question.text, "language": question.language})
        stages: asyncio.Queue[tuple[str, dict[str, Any]] | None] = asyncio.Queue()
        work = asyncio.create_task(self.translate(exchange, told=lambda stage, found: stages.put_nowait((stage, found))))
        work.add_done_callback(lambda _: stages.put_nowait(None))
        try:
            while (stage := await stages.get()) is not None:
                await event(*stage)
            translation = await work
            question = exchange.question or question
            await event("translation", account_of(question, translation))
            await event("result", await self._result(exchange, translation, question, headers, prefer))
        except ProxyError as error:
            # The stream has begun, so the error travels in it.
            await event("problem", describe(error, exchange.request_id))
        finally:
            work.cancel()
        await send({"type": "http.response.body", "body": b""})


async def _bounded(response: BackendResponse, name: str) -> AsyncIterator[bytes]:
    size = 0
    async for piece in response.chunks():
        size += len(piece)
        if size > ACCOUNT_LIMIT_BYTES:
            raise BackendGarbled(f"{name}: the result is too large for an account; ask for the result alone", backend=name)
        yield piece


def account_of(question: Question, translation: Translation) -> dict[str, Any]:
    """How the question was understood, JSON-ready."""
    return {
        "question": question.text,
        "query": translation.query,
        "risk": translation.risk,
        "status": translation.status,
        "account": translation.account,
    }


def own_fields(translation: Translation) -> list[tuple[bytes, bytes]]:
    """The fields of every answer to a question."""
    return [
        (b"sparlance-query", quote(translation.query, safe="").encode("ascii")),
        (b"sparlance-risk", f"{translation.risk:.3f}".encode("ascii")),
        (b"sparlance-status", translation.status.encode("ascii", "replace")),
    ]


def _fields(content_type: str, length: int, exchange: Exchange) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", content_type.encode("ascii")),
        (b"content-length", b"%d" % length),
        *exchange.added_headers,
    ]


def _findings(exchange: Exchange) -> list[dict[str, Any]]:
    return [describe_finding(f) for f in exchange.findings]
