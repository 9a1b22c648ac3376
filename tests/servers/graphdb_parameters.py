"""The protocol parameters of RDF4J and GraphDB: what changes an answer from outside the query text."""

from __future__ import annotations

from typing import Any

import pyoxigraph as ox

from tests.servers.graphdb_engine import PREDECLARED, EngineError
from tests.servers.wire import Request

Parameters = dict[str, list[str]]
Paging = tuple[int, int | None, bool]
"""Offset, limit, and whether repeated solutions are left out."""


def grouped(request: Request) -> Parameters:
    """Return the parameters of the query string and then those of a form, values by name. Readers take the first value."""
    pairs = request.parameters()
    if request.content_type == "application/x-www-form-urlencoded":
        pairs += request.form()
    parameters: Parameters = {}
    for name, value in pairs:
        parameters.setdefault(name, []).append(value)
    return parameters


def is_true(parameters: Parameters, name: str) -> bool:
    """Read ``infer`` or ``sameAs``: true unless something else is said."""
    return parameters.get(name, ["true"])[0] == "true"


def graphs_of(parameters: Parameters, name: str) -> list[str]:
    """Read default-graph-uri or named-graph-uri; ``null`` is the graph without a name. Raises EngineError (400)."""
    for iri in parameters.get(name, []):
        if ":" not in iri and iri != "null":
            raise EngineError(400, f"Illegal IRI for {name.partition('-')[0]} graph: {iri}")
    return [PREDECLARED["sesame"] + "nil" if iri == "null" else iri for iri in parameters.get(name, [])]


def bindings_of(parameters: Parameters) -> dict[str, Any]:
    """Read the ``$name`` parameters. Raises EngineError (400)."""
    return {name[1:]: term_of(values[0], name) for name, values in parameters.items() if name.startswith("$")}


def term_of(text: str | None, name: str) -> Any:
    """Read an N-Triples term. Raises EngineError (400)."""
    if text is None:
        return None
    try:
        (quad,) = ox.parse(f"<x:s> <x:p> {text} .", format=ox.RdfFormat.N_TRIPLES)
    except SyntaxError as error:
        raise EngineError(400, f"Invalid value for parameter '{name}': {text}") from error
    return quad.object


def paging_of(parameters: Parameters) -> Paging:
    """Read offset, limit and distinct. Raises EngineError (400)."""
    numbers: list[int | None] = []
    for name in ("offset", "limit"):
        text = parameters.get(name, [None])[0]
        if text is not None and not text.isdigit():
            raise EngineError(400, f"Invalid value for parameter '{name}': For input string: \"{text}\"")
        numbers.append(int(text) if text is not None else None)
    return numbers[0] or 0, numbers[1], parameters.get("distinct", ["false"])[0] == "true"


def cut(rows: list[tuple[Any, ...]], paging: Paging, at_most: int) -> list[tuple[Any, ...]]:
    """Apply paging, and the repository's own limit (0: none)."""
    offset, limit, distinct = paging
    if distinct:
        rows = list(dict.fromkeys(rows))
    rows = rows[offset:] if limit is None else rows[offset : offset + limit]
    return rows[:at_most] if at_most else rows
