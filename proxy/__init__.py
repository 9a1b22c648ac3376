"""Sparlance: a transparent SPARQL-protocol proxy that also understands plain language.

What a plugin may import is listed in ``__all__``; everything else may move. The names load on first use, so that
``import proxy`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proxy.backends.base import BackendRequest
    from proxy.errors import NotAcceptable, OperationForbidden, QueryRejected, RequestError
    from proxy.index.support import SupportIndex
    from proxy.log import filter_log
    from proxy.pipeline.exchange import Exchange
    from proxy.plugin.hooks import BodyFilter, Plugin, refusal
    from proxy.query.magic import is_magic
    from proxy.query.model import (
        AlternativePath,
        And,
        BasicGraphPattern,
        Bind,
        Comparison,
        DeleteData,
        DeleteWhere,
        Exists,
        Filter,
        FunctionCall,
        GraphManagement,
        GraphPattern,
        GraphSet,
        Group,
        InlineData,
        InsertData,
        InversePath,
        Load,
        Minus,
        Modify,
        NegatedPropertySet,
        OneOrMorePath,
        Optional,
        ParsedQuery,
        ParsedUpdate,
        PropertyPath,
        QuadPattern,
        QueryForm,
        SequencePath,
        Service,
        Span,
        SubSelect,
        TriplePattern,
        TripleTerm,
        Union,
        ZeroOrMorePath,
        ZeroOrOnePath,
        is_relative,
        walk,
    )
    from proxy.query.operation import DatasetDescription, OperationKind, Question, SparqlOperation
    from proxy.query.parse import parse
    from proxy.query.render import render
    from proxy.query.term import Iri, Literal, Variable
    from proxy.validation.finding import Finding, Severity

__version__ = "0.1.0"

__all__ = [
    "AlternativePath",
    "And",
    "BackendRequest",
    "BasicGraphPattern",
    "Bind",
    "BodyFilter",
    "Comparison",
    "DatasetDescription",
    "DeleteData",
    "DeleteWhere",
    "Exchange",
    "Exists",
    "Filter",
    "Finding",
    "FunctionCall",
    "GraphManagement",
    "GraphPattern",
    "GraphSet",
    "Group",
    "InlineData",
    "InsertData",
    "InversePath",
    "Iri",
    "Literal",
    "Load",
    "Minus",
    "Modify",
    "NegatedPropertySet",
    "NotAcceptable",
    "OneOrMorePath",
    "OperationForbidden",
    "OperationKind",
    "Optional",
    "ParsedQuery",
    "ParsedUpdate",
    "Plugin",
    "PropertyPath",
    "QuadPattern",
    "QueryForm",
    "QueryRejected",
    "Question",
    "RequestError",
    "SequencePath",
    "Service",
    "Severity",
    "Span",
    "SparqlOperation",
    "SubSelect",
    "SupportIndex",
    "TriplePattern",
    "TripleTerm",
    "Union",
    "Variable",
    "ZeroOrMorePath",
    "ZeroOrOnePath",
    "__version__",
    "filter_log",
    "is_magic",
    "is_relative",
    "parse",
    "refusal",
    "render",
    "walk",
]

_HOMES = {
    "AlternativePath": "proxy.query.model",
    "And": "proxy.query.model",
    "BackendRequest": "proxy.backends.base",
    "BasicGraphPattern": "proxy.query.model",
    "Bind": "proxy.query.model",
    "BodyFilter": "proxy.plugin.hooks",
    "Comparison": "proxy.query.model",
    "DatasetDescription": "proxy.query.operation",
    "DeleteData": "proxy.query.model",
    "DeleteWhere": "proxy.query.model",
    "Exchange": "proxy.pipeline.exchange",
    "Exists": "proxy.query.model",
    "Filter": "proxy.query.model",
    "Finding": "proxy.validation.finding",
    "FunctionCall": "proxy.query.model",
    "GraphManagement": "proxy.query.model",
    "GraphPattern": "proxy.query.model",
    "GraphSet": "proxy.query.model",
    "Group": "proxy.query.model",
    "InlineData": "proxy.query.model",
    "InsertData": "proxy.query.model",
    "InversePath": "proxy.query.model",
    "Iri": "proxy.query.term",
    "Literal": "proxy.query.term",
    "Load": "proxy.query.model",
    "Minus": "proxy.query.model",
    "Modify": "proxy.query.model",
    "NegatedPropertySet": "proxy.query.model",
    "NotAcceptable": "proxy.errors",
    "OneOrMorePath": "proxy.query.model",
    "OperationForbidden": "proxy.errors",
    "OperationKind": "proxy.query.operation",
    "Optional": "proxy.query.model",
    "ParsedQuery": "proxy.query.model",
    "ParsedUpdate": "proxy.query.model",
    "Plugin": "proxy.plugin.hooks",
    "PropertyPath": "proxy.query.model",
    "QuadPattern": "proxy.query.model",
    "QueryForm": "proxy.query.model",
    "QueryRejected": "proxy.errors",
    "Question": "proxy.query.operation",
    "RequestError": "proxy.errors",
    "SequencePath": "proxy.query.model",
    "Service": "proxy.query.model",
    "Severity": "proxy.validation.finding",
    "Span": "proxy.query.model",
    "SparqlOperation": "proxy.query.operation",
    "SubSelect": "proxy.query.model",
    "SupportIndex": "proxy.index.support",
    "TriplePattern": "proxy.query.model",
    "TripleTerm": "proxy.query.model",
    "Union": "proxy.query.model",
    "Variable": "proxy.query.term",
    "ZeroOrMorePath": "proxy.query.model",
    "ZeroOrOnePath": "proxy.query.model",
    "filter_log": "proxy.log",
    "is_magic": "proxy.query.magic",
    "is_relative": "proxy.query.model",
    "parse": "proxy.query.parse",
    "refusal": "proxy.plugin.hooks",
    "render": "proxy.query.render",
    "walk": "proxy.query.model",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
