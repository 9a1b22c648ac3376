"""What makes one product's HTTP interface differ from another's, as data (docs/backends.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from proxy.backends.base import PathKind
from proxy.query.formats import GRAPH_FORMATS, SOLUTION_FORMATS, ResultFormat


@dataclass(frozen=True, slots=True)
class Monitor:
    """How a running query is named and stopped.

    field: header with which a request names its query; one that the client sent is kept.
    kind: ``watch``: a WebSocket at *path* takes the message *path*-independent ``cancel``; ``delete``: DELETE of *path*.
        ``{name}`` in *path* is the name.
    """

    field: bytes
    kind: str
    path: str


@dataclass(frozen=True, slots=True)
class Product:
    """One product, for one dataset of it.

    paths: the product's own paths that clients may use, ``*`` at the end for all that begin so.
    query_string, update_string: sent with every query and update, before the client's own.
    head_limit_bytes: of request line and fields; a longer GET query travels as POST. None: no known limit.
    form_limit_bytes: of a form; a longer one travels as the bare text with its parameters in the URL.
    form_takes_query_string: whether a form may come with parameters in the URL.
    text_needs_charset: SPARQL text, in a form or bare, without a charset is taken for ISO 8859-1.
    legal_target_only: it refuses a URL with characters that RFC 3986 wants escaped.
    head_queries: whether HEAD works where GET asks a query; if not, GET is sent and the body left.
    refused_parameters: with these a client could administer the product, or have its answers cut unnoticed.
    parameter_values: parameter → its only values that may pass (in lower case).
    prefixes: known undeclared.
    client_authorization: what becomes of a client's Authorization unless configured: pass or drop.
    writes_need_authorization: ours is added to writes even where a client's is dropped.
    timeout: seconds → value of ``timeout=``; None: there is no such parameter.
    monitor: None: a query cannot be stopped.
    fetches_graphs: FROM and graph parameters may name what it fetches from the web.
    solution_formats, boolean_formats, graph_formats: what it can answer in, its default first.
    cancelled: texts that the product appends to a result when it gave up, taken as BackendTimeout in answers to us.
    """

    kind: str
    query_path: str
    update_path: str
    paths: Mapping[str, PathKind] = field(default_factory=dict)
    query_string: bytes = b""
    update_string: bytes = b""
    head_limit_bytes: int | None = None
    form_limit_bytes: int | None = None
    form_takes_query_string: bool = True
    text_needs_charset: bool = False
    legal_target_only: bool = False
    head_queries: bool = True
    refused_parameters: frozenset[str] = frozenset()
    parameter_values: Mapping[str, frozenset[str]] = field(default_factory=dict)
    prefixes: Mapping[str, str] = field(default_factory=dict)
    client_authorization: str = "pass"
    writes_need_authorization: bool = False
    timeout: Callable[[float], str] | None = None
    monitor: Monitor | None = None
    fetches_graphs: bool = False
    solution_formats: tuple[ResultFormat, ...] = SOLUTION_FORMATS
    boolean_formats: tuple[ResultFormat, ...] = SOLUTION_FORMATS
    graph_formats: tuple[ResultFormat, ...] = GRAPH_FORMATS
    cancelled: tuple[bytes, ...] = ()
