"""What is read of a request to the embedded store, and what is refused before the store sees it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyoxigraph as ox

from proxy.backends.base import BackendRequest, Parameters
from proxy.errors import MalformedQuery
from proxy.query.formats import BadAccept, ResultFormat, choose
from proxy.query.keywords import holds_keyword
from proxy.query.model import Load, Service, walk
from proxy.query.operation import DatasetDescription
from proxy.query.parse import parse
from proxy.query.weight import is_heavier

LIMIT_TOKENS = 50_000
LIMIT_DEPTH = 20_000
"""What a stack of ``workers.STACK_BYTES`` holds, several times over, of every construct (docs/decisions.md)."""


class Refusal(Exception):
    """An error answer: status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@contextmanager
def refusals() -> Iterator[None]:
    """What pyoxigraph says of an operation, as the answer for the client: 400 for its text or IRIs, 500 for its evaluation."""
    try:
        yield
    except SyntaxError as error:
        raise Refusal(400, str(error.msg)) from error
    except ValueError as error:
        raise Refusal(400, str(error)) from error
    except (RuntimeError, OSError) as error:
        raise Refusal(500, str(error)) from error


def require_safe(text: str) -> None:
    """Keep everything away from the store that would overflow its stack or make it send requests."""
    if is_heavier(text, limit_tokens=LIMIT_TOKENS, limit_depth=LIMIT_DEPTH):
        raise Refusal(
            400, f"The embedded store takes {LIMIT_TOKENS:,} tokens outside of inline data and nesting of {LIMIT_DEPTH:,}"
        )
    if not holds_keyword(text, "SERVICE", "LOAD"):
        return
    try:
        parsed = parse(text)
    except MalformedQuery as error:
        raise Refusal(400, f"error at {error.line or 1}:{error.column or 1}: {error}") from error
    if any(isinstance(node, Service | Load) for node in walk(parsed)):
        raise Refusal(400, "The embedded store sends no requests: SERVICE and LOAD are not supported")


def choose_format(accept: str | None, offers: Sequence[ResultFormat]) -> ResultFormat:
    try:
        chosen = choose(accept, offers)
    except BadAccept as error:
        raise Refusal(400, str(error)) from error
    if chosen is None:
        accepted = " or ".join((offers[0].accepts[0], offers[-1].accepts[0]))
        raise Refusal(406, f"The accept header does not provide any accepted format like {accepted}")
    return chosen


def has_flag(parameters: Iterable[tuple[str, str]], name: str) -> bool:
    return any(n == name and v.lower() not in ("false", "0") for n, v in parameters)


def scope_of(parameters: Parameters) -> tuple[DatasetDescription, bool]:
    dataset = DatasetDescription(
        tuple(v for n, v in parameters if n == "default-graph-uri"), tuple(v for n, v in parameters if n == "named-graph-uri")
    )
    return dataset, has_flag(parameters, "union-default-graph")


def graph_of(parameters: Parameters) -> Any:
    """The graph that a graph store request names; None: the whole dataset."""
    named = [v for n, v in parameters if n == "graph"]
    is_default = any(n == "default" for n, _ in parameters)
    if len(named) + is_default > 1:
        raise Refusal(400, "Both graph and default are given")
    try:
        return ox.NamedNode(named[0]) if named else ox.DefaultGraph() if is_default else None
    except ValueError as error:
        raise Refusal(400, f"Invalid graph IRI: {error}") from error


def base_iri(request: BackendRequest) -> str | None:
    """Return what relative IRIs are relative to: as in Oxigraph, the address that the client used."""
    host = next((v.decode("latin-1") for n, v in request.headers if n == b"host"), "")
    if not host:
        return None
    base = f"http://{host}{request.target.partition(b'?')[0].decode('latin-1')}"
    try:
        ox.NamedNode(base)
    except ValueError:
        return None
    return base
