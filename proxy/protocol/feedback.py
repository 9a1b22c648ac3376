"""``POST /-/feedback``: what somebody says about an answer, checked, kept, and only then acknowledged."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from proxy.errors import MalformedQuery, MalformedRequest, ModelError, UnsupportedMediaType
from proxy.pipeline.dataset import Dataset
from proxy.protocol.asgi import read_body
from proxy.protocol.request import split_media_type
from proxy.query.model import ParsedQuery, QueryForm
from proxy.query.parse import parse

LIMIT_BYTES = 64 * 1024
_QUESTION_MOST = 4_000
_VERDICTS = ("right", "wrong")
_KEYS = frozenset(["question", "query", "verdict", "lang", "dataset"])


class FeedbackPage:
    """The page. *dataset_of*: which dataset a request is about."""

    def __init__(self, dataset_of: Callable[[Request], Dataset]) -> None:
        self._dataset_of = dataset_of

    async def post(self, request: Request) -> Response:
        """Keep one pair: 201 once it is on the disk.

        The body is ``{"question": …, "query": …, "verdict": "right" | "wrong"}``, the query being the one that was shown
        (``Sparlance-Query``) or the one that it should have been. An answer that is right is replayed from now on.

        Raises:
            MalformedRequest: it says something else, or the query does not fit the graph. ModelError: nothing is kept here.
        """
        body = await read_body(request.scope["headers"], request.receive, limit_bytes=LIMIT_BYTES)
        if split_media_type(request.headers.get("content-type"))[0] not in (None, "application/json"):
            raise UnsupportedMediaType("feedback is application/json")
        dataset = self._dataset_of(request)
        keeper = dataset.memory
        if keeper is None:
            raise ModelError("feedback is not kept ([nl] memory names a folder for it)")
        question, query, is_right, language = read_feedback(body)
        from proxy.nl.memory import Confirmed, still_fits  # late: they bring in what only questions need
        from proxy.pipeline.memory import Feedback

        if is_right and dataset.index is not None and not still_fits(query, dataset.index):
            raise MalformedRequest("the query names what the graph does not have, or cannot have a solution")
        pair = Confirmed(question, query, at=time.time(), language=language)
        confirmed = await asyncio.to_thread(keeper.add, Feedback(pair, is_right))
        return JSONResponse({"kept": True, "confirmed": confirmed}, status_code=201, headers={"cache-control": "no-store"})


def read_feedback(body: bytes) -> tuple[str, str, bool, str | None]:
    """Question, query, whether it is right, language.

    Raises:
        MalformedRequest: the body says something else.
    """
    try:
        said: Any = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise MalformedRequest("the body is not JSON") from exc
    if not isinstance(said, Mapping) or not said.keys() <= _KEYS:
        raise MalformedRequest(f"an object with {', '.join(sorted(_KEYS))} is wanted, and nothing else")
    question, query, verdict, language = (said.get(k) for k in ("question", "query", "verdict", "lang"))
    if not isinstance(question, str) or not question.strip() or len(question) > _QUESTION_MOST:
        raise MalformedRequest(f"question is missing, no text, or longer than {_QUESTION_MOST:,} characters")
    if verdict not in _VERDICTS:
        raise MalformedRequest("verdict is right or wrong")
    if language is not None and (not isinstance(language, str) or len(language) > 35):
        raise MalformedRequest("lang is a language tag")
    if not isinstance(query, str) or not query.strip():
        raise MalformedRequest("query is missing, or no text")
    try:
        parsed = parse(query)
    except MalformedQuery as exc:
        raise MalformedRequest(f"the query cannot be read: {exc}") from exc
    if not isinstance(parsed, ParsedQuery) or parsed.form not in (QueryForm.SELECT, QueryForm.ASK):
        raise MalformedRequest("only SELECT and ASK answer questions")
    return question.strip(), query.strip(), verdict == "right", language
