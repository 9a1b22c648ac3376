"""``GET /-/ttql``: the graph as text, whole or as much as is wanted of it (docs/ttql.md)."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from proxy.errors import MalformedRequest
from proxy.pipeline.dataset import Dataset

WAIT_S = 10.0
"""How long a request waits for a document that is being made."""
RETRY_AFTER_S = 5
_NO_STORE = {"cache-control": "no-store"}


class TtqlPage:
    """The page; *dataset_of* finds the dataset that a request means."""

    def __init__(self, dataset_of: Callable[[Request], Dataset]) -> None:
        self._dataset_of = dataset_of

    async def get(self, request: Request) -> Response:
        """200 with the text; 503 while index or document are being made.

        Parameters: class=, property= (both may be repeated), depth=, floor=, budget_tokens=, budget_lines=.
        """
        dataset = self._dataset_of(request)
        depth, floor = _count(request, "depth"), _share(request, "floor")
        budget_tokens, budget_lines = _count(request, "budget_tokens"), _count(request, "budget_lines")
        deepest = dataset.settings.index.ttql_depth
        if depth is not None and depth > deepest:
            raise MalformedRequest(f"depth= is from 1 to {deepest} here ([index] ttql_depth)")
        harvested = await dataset.ttql.document(wait_s=WAIT_S)
        if harvested is None:
            return _not_yet(dataset)
        from proxy.index.ttql_text import render  # late: a proxy without an index needs neither
        from proxy.pipeline.ttql import select

        document = select(
            harvested.document,
            classes=request.query_params.getlist("class"),
            properties=request.query_params.getlist("property"),
            depth=depth,
            floor=floor,
            budget_tokens=budget_tokens,
            budget_lines=budget_lines,
        )
        return PlainTextResponse(render(document), headers=_NO_STORE)


def _not_yet(dataset: Dataset) -> Response:
    reasons = dataset.index_build.describe("index")
    if reasons is None and dataset.index is not None:
        reasons = f"the description is being made ({dataset.ttql.progress})"
    headers = {**_NO_STORE, "retry-after": str(RETRY_AFTER_S)}
    content = {"title": "Not ready", "status": 503, "detail": reasons or "there is no index ([index] enabled)"}
    return JSONResponse(content, status_code=503, headers=headers, media_type="application/problem+json")


def _count(request: Request, name: str) -> int | None:
    value = request.query_params.get(name)
    if value is None:
        return None
    if len(value) > 9 or not (value.isascii() and value.isdecimal()) or int(value) < 1:
        raise MalformedRequest(f"{name}= is a whole number from 1")
    return int(value)


def _share(request: Request, name: str) -> float | None:
    value = request.query_params.get(name)
    if value is None:
        return None
    try:
        share = float(value)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise MalformedRequest(f"{name}= is a number from 0 to 1")
    return share
