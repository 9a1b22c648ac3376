"""``/-/openapi.json``: our own pages and the SPARQL endpoint as OpenAPI 3.1, made from the table of pages that is served."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from proxy import __version__
from proxy.access.keys import Role
from proxy.protocol.access import ROLES_OF_PAGES
from proxy.protocol.negotiation import PROBLEM_JSON

_TEXT = {"type": "string"}
_DATASET = {"name": "dataset", "in": "query", "schema": _TEXT, "description": "its name; default: the first one"}
_PAGES: Mapping[tuple[str, str], tuple[str, str, tuple[str, ...]]] = {
    # method and path → what it does, its success, its media types
    ("GET", "/-/live"): ("Whether the process answers at all.", "200", ("application/json",)),
    ("GET", "/-/ready"): ("200 once all can serve and the backends answer; else 503 and why.", "200", ("application/json",)),
    ("GET", "/-/index"): ("What the index of a dataset holds: counts, age, completeness, cost.", "200", ("application/json",)),
    ("POST", "/-/index"): ("Build the index anew; GET shows the progress.", "202", ("application/json",)),
    ("GET", "/-/ttql"): ("The graph described for a language model.", "200", ("text/plain",)),
    ("GET", "/-/metrics"): ("Numbers for Prometheus.", "200", ("text/plain",)),
    ("POST", "/-/reload"): ("Read the configuration again and serve by it; what has changed.", "200", ("application/json",)),
    ("POST", "/-/check"): ("What the index says against a query, which is not run.", "200", ("application/json",)),
    ("POST", "/-/feedback"): ("Say whether an answer was right.", "201", ("application/json",)),
    ("GET", "/-/openapi.json"): ("This description.", "200", ("application/json",)),
    ("GET", "/text2sparql"): ("The query that a question asks for; it is not run.", "200", ("application/json",)),
}
_OF_A_DATASET = ("/-/index", "/-/ttql", "/-/check", "/-/feedback")
_RESULTS = (
    "application/sparql-results+json",
    "application/sparql-results+xml",
    "text/csv",
    "text/tab-separated-values",
    "text/turtle",
    "application/n-triples",
)


def describe_api(pages: Mapping[str, Iterable[str]], datasets: Iterable[str]) -> dict[str, Any]:
    """The document. *pages*: path → methods, as served. *datasets*: their names, the first also at the root."""
    paths: dict[str, Any] = {}
    for path, methods in pages.items():
        for method in methods:
            paths.setdefault(path, {})[method.lower()] = _page(method, path)
    for path in ["/sparql", *(f"/{name}/sparql" for name in datasets)]:
        paths[path] = {"get": _operation(path, is_get=True), "post": _operation(path, is_get=False)}
    schema = {"$ref": "#/components/schemas/Problem"}
    problem = {"description": "What is wrong (RFC 9457)", "content": {PROBLEM_JSON: {"schema": schema}}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sparlance",
            "version": __version__,
            "description": "The SPARQL 1.1 Protocol, with nl= in place of query= for plain language, and pages of the proxy.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Problem": _PROBLEM, "Finding": _FINDING},
            "responses": {"Problem": problem},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic"},
                "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
    }


def _page(method: str, path: str) -> dict[str, Any]:
    summary, status, media = _PAGES.get((method, path), ("", "200", ("application/json",)))
    role = ROLES_OF_PAGES.get((method, path), Role.ADMIN)
    operation = _answers(summary, status, media, role)
    if path == "/text2sparql":
        question = _query("question", "in plain language", is_required=True)
        operation["parameters"] = [question, _DATASET, _query("lang", "BCP 47 tag")]
    elif path in _OF_A_DATASET:
        operation["parameters"] = [_DATASET]
    if path == "/-/check":
        operation["requestBody"] = {"required": True, "content": {"application/sparql-query": {"schema": _TEXT}}}
    elif path == "/-/feedback":
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": _FEEDBACK}}}
    return operation


def _operation(path: str, *, is_get: bool) -> dict[str, Any]:
    operation = _answers("A SPARQL query, or a question in plain language.", "200", _RESULTS, Role.QUERY)
    parameters = [
        _query("query", "SPARQL 1.1 Query; either this or nl"),
        _query("nl", "a question in plain language; the query is in the header Sparlance-Query"),
        _query("default-graph-uri", "SPARQL 1.1 Protocol, 2.1.4; may be repeated"),
        _query("named-graph-uri", "SPARQL 1.1 Protocol, 2.1.4; may be repeated"),
    ]
    if is_get:
        operation["parameters"] = parameters
    else:
        form = {"type": "object", "properties": {p["name"]: p["schema"] for p in [*parameters, _query("update", "")]}}
        operation["requestBody"] = {
            "content": {
                "application/x-www-form-urlencoded": {"schema": form},
                "application/sparql-query": {"schema": _TEXT},
                "application/sparql-update": {"schema": _TEXT},
            }
        }
    return operation


def _answers(summary: str, status: str, media: Iterable[str], role: Role | None) -> dict[str, Any]:
    content = {m: {"schema": {} if m == "application/json" else _TEXT} for m in media}
    operation: dict[str, Any] = {
        "summary": summary,
        "responses": {
            status: {"description": summary, "content": content},
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }
    if role is not None:
        operation["description"] = f"Role: {role}."
        operation["security"] = [{}, {"bearer": []}, {"basic": []}, {"apiKey": []}]
    return operation


def _query(name: str, description: str, *, is_required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": is_required, "schema": _TEXT, "description": description}


_FINDING = {
    "type": "object",
    "required": ["severity", "pattern", "line", "column", "message", "evidence", "suggestions"],
    "properties": {
        "severity": {"type": "string", "enum": ["proved-empty", "vacuous", "suspicious", "not-analysed"]},
        "pattern": _TEXT,
        "line": {"type": "integer"},
        "column": {"type": "integer"},
        "message": _TEXT,
        "evidence": _TEXT,
        "suggestions": {"type": "array", "items": _TEXT},
        "rule": _TEXT,
    },
}
_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "request_id", "findings"],
    "properties": {
        "type": _TEXT,
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
        "request_id": _TEXT,
        "findings": {"type": "array", "items": {"$ref": "#/components/schemas/Finding"}},
        "plugin": _TEXT,  # the one that refused, if one did
    },
}
_FEEDBACK = {
    "type": "object",
    "required": ["question", "query", "verdict"],
    "additionalProperties": False,
    "properties": {
        "question": _TEXT,
        "query": _TEXT,
        "verdict": {"type": "string", "enum": ["right", "wrong"]},
        "lang": _TEXT,
        "dataset": _TEXT,
    },
}
