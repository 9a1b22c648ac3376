"""QLever's quirks, all of them, as data: one path for everything, tokens, settings by URL, text or JSON errors."""

from __future__ import annotations

from urllib.parse import quote

from proxy.backends.base import PathKind
from proxy.backends.product import Monitor, Product
from proxy.query.formats import CSV, JSON, N_TRIPLES, TSV, TURTLE, XML, ResultFormat
from proxy.query.parse import QLEVER_PREFIXES

SETTINGS = frozenset(
    "cache-load-results cache-max-num-entries cache-max-size cache-max-size-lazy-result cache-max-size-single-entry "
    "cache-service-results default-query-timeout division-by-zero-is-undef enable-distributive-union "
    "enable-prefilter-on-index-scans group-by-disable-index-scan-optimizations group-by-hash-map-enabled "
    "lazy-index-scan-max-size-materialization lazy-index-scan-num-threads lazy-index-scan-queue-size "
    "lazy-result-max-cache-size query-planning-budget request-body-limit service-max-value-rows "
    "small-index-scan-size-estimate-divisor sort-estimate-cancellation-factor sparql-results-json-with-time "
    "spatial-join-max-num-threads spatial-join-prefilter-max-size strip-columns syntax-test-mode throw-on-unbound-variables "
    "treat-default-graph-as-named-graph treat-default-graph-like-named-graph use-binsearch-transitive-path "
    "websocket-updates-enabled zero-cost-estimate-for-cached-subtree".split()
)
"""Runtime parameters: each of these in a URL, with the token, changes the server for everybody.

The names are those of RuntimeParameters.h over the years; newer ones may lack. Without the token, which no client is given,
QLever refuses to change any.
"""
QLEVER_JSON = ResultFormat("qlever-json", "application/qlever-results+json", ("application/qlever-results+json",))


def qlever(access_path: str = "") -> Product:
    """The product; *access_path* is the NAME of ``/api/NAME``, empty for the root."""
    path = f"/api/{quote(access_path, safe='')}" if access_path else "/"
    return Product(
        kind="qlever",
        query_path=path,
        update_path=path,
        paths={path: PathKind.ANY, "/http-graph-store/*": PathKind.GRAPH_STORE, "/ping": PathKind.INFORMATION},
        # Larger heads make it drop the connection without an answer.
        head_limit_bytes=7_900,
        form_takes_query_string=False,
        legal_target_only=True,
        head_queries=False,  # 400
        # send cuts standard JSON too, and nothing in it says so.
        refused_parameters=frozenset(["cmd", "access-token", "send", *SETTINGS]),
        prefixes=QLEVER_PREFIXES,
        # Anything but "Bearer TOKEN" fails the request, and so does a wrong token, for plain reads too.
        client_authorization="drop",
        writes_need_authorization=True,
        timeout=lambda seconds: f"{max(round(seconds), 1)}s",
        monitor=Monitor(b"query-id", "watch", "/watch/{name}"),
        solution_formats=(JSON, XML, CSV, TSV, QLEVER_JSON),
        boolean_formats=(JSON, XML, QLEVER_JSON),
        graph_formats=(TURTLE, N_TRIPLES, CSV, TSV, QLEVER_JSON),
        cancelled=(b"!!!!>>#",),
    )
