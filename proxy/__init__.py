"""Sparlance: a transparent SPARQL-protocol proxy that also understands plain language.

What a plugin may import is listed in ``__all__``; everything else may move. The names load on first use, so that
``import proxy`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proxy.errors import OperationForbidden, QueryRejected, RequestError
    from proxy.pipeline.exchange import Exchange
    from proxy.plugin.hooks import Plugin
    from proxy.query.model import ParsedQuery, ParsedUpdate
    from proxy.query.operation import OperationKind, Question, SparqlOperation
    from proxy.query.parse import parse
    from proxy.validation.finding import Finding, Severity

__version__ = "0.1.0"

__all__ = [
    "Exchange",
    "Finding",
    "OperationForbidden",
    "OperationKind",
    "ParsedQuery",
    "ParsedUpdate",
    "Plugin",
    "QueryRejected",
    "Question",
    "RequestError",
    "Severity",
    "SparqlOperation",
    "__version__",
    "parse",
]

_HOMES = {
    "Exchange": "proxy.pipeline.exchange",
    "Finding": "proxy.validation.finding",
    "OperationForbidden": "proxy.errors",
    "OperationKind": "proxy.query.operation",
    "ParsedQuery": "proxy.query.model",
    "ParsedUpdate": "proxy.query.model",
    "Plugin": "proxy.plugin.hooks",
    "QueryRejected": "proxy.errors",
    "Question": "proxy.query.operation",
    "RequestError": "proxy.errors",
    "Severity": "proxy.validation.finding",
    "SparqlOperation": "proxy.query.operation",
    "parse": "proxy.query.parse",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
