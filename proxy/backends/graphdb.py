"""GraphDB's quirks as data: the RDF4J protocol, one repository."""

from __future__ import annotations

from urllib.parse import quote

from proxy.backends.base import PathKind
from proxy.backends.product import Monitor, Product
from proxy.query.formats import CSV, JSON, JSON_LD, N3, N_QUADS, N_TRIPLES, RDF_XML, TRIG, TSV, TURTLE, XML, ResultFormat
from proxy.query.parse import GRAPHDB_PREFIXES

BOOLEAN_TEXT = ResultFormat("boolean", "text/boolean", ("text/boolean",))


def graphdb(repository: str) -> Product:
    """The product with its paths for *repository*. What creates, removes or configures repositories is not among them."""
    name = quote(repository, safe="")
    path = f"/repositories/{name}"
    return Product(
        kind="graphdb",
        query_path=path,
        update_path=f"{path}/statements",
        paths={
            path: PathKind.QUERY,
            f"{path}/statements": PathKind.STATEMENTS,
            f"{path}/rdf-graphs/*": PathKind.GRAPH_STORE,
            f"{path}/transactions": PathKind.TRANSACTIONS,
            f"{path}/transactions/*": PathKind.TRANSACTIONS,
            f"{path}/size": PathKind.INFORMATION,
            f"{path}/contexts": PathKind.INFORMATION,
            f"{path}/namespaces": PathKind.INFORMATION,
            f"{path}/namespaces/*": PathKind.INFORMATION,
            f"{path}/rdf-graphs": PathKind.INFORMATION,
            f"{path}/health": PathKind.INFORMATION,
            "/repositories": PathKind.INFORMATION,
            "/protocol": PathKind.INFORMATION,
        },
        # Tomcat's limit for request line and fields is 8 KiB, and 2 MiB for a form, whose parameters it drops beyond.
        head_limit_bytes=7_900,
        form_limit_bytes=2_000_000,
        text_needs_charset=True,
        legal_target_only=True,
        # Another language than SPARQL is text that we cannot judge.
        parameter_values={"queryLn": frozenset(["sparql"])},
        prefixes=GRAPHDB_PREFIXES,
        timeout=lambda seconds: str(max(round(seconds), 1)),
        monitor=Monitor(b"x-graphdb-track-alias", "delete", f"/rest/monitor/repository/{name}/query?query={{name}}"),
        solution_formats=(JSON, XML, CSV, TSV),
        boolean_formats=(JSON, XML, BOOLEAN_TEXT),
        graph_formats=(TURTLE, N_TRIPLES, RDF_XML, N_QUADS, TRIG, JSON_LD, N3),
    )
