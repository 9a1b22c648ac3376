"""Show each API key only the named graphs that it may read, and let it write only those that it may write.

Options:
    read: name of the API key -> IRIs of named graphs, or ["*"]: everything. "anonymous" is a request without a key; one that is
        not listed may read nothing.
    write: likewise, what it may change by updates and the graph store (where policy.allow_updates lets anybody). Default:
    nothing.

A query that names no dataset gets one: the graphs of its key, merged as the default graph and as named graphs, so that the
backend itself keeps ``GRAPH ?g``, paths and sub-queries inside; Sparlance-Graphs tells. One that names its dataset (FROM, or
the parameters of the protocol) may name the graphs of its key only. The default graph of the store belongs to nobody but "*".

What is sent is written anew from the parse tree, so that the backend reads what was judged. Refused for all but "*":
DESCRIBE, whose extent is the backend's choice; SERVICE, which could lead back to the backend; extension functions and search
predicates, which may read past the dataset; parameters that are not known to be harmless; transactions; questions and the
pages /-/index, /-/ttql, /-/check, which tell of the whole graph; what cannot be parsed. The index does not check their
queries, because what it suggests could name what is hidden.
"""

import re
from collections.abc import Iterable

import msgspec

from proxy import (
    DatasetDescription,
    DeleteData,
    DeleteWhere,
    Exchange,
    FunctionCall,
    GraphManagement,
    GraphPattern,
    InsertData,
    Iri,
    Modify,
    OperationForbidden,
    OperationKind,
    ParsedQuery,
    ParsedUpdate,
    Plugin,
    QuadPattern,
    QueryForm,
    Service,
    SparqlOperation,
    TriplePattern,
    is_magic,
    is_relative,
    render,
    walk,
)

ANYTHING = "*"
HARMLESS = frozenset(["format", "output", "results", "timeout"])
"""Parameters of the protocol that change no solution. ``infer``, ``queryLn``, ``union-default-graph``, ``$x`` and the like
do."""
STORE_PATH = re.compile(r"/store|/repositories/[^/]+/(?:statements|rdf-graphs/service)|/api/[^/]+|/")
"""Where the graph is named by a parameter. Elsewhere the path names it, whatever the parameters say."""
SHOWN = 10
"""Graphs in a header; of more it says how many."""
XSD = "http://www.w3.org/2001/XMLSchema#"


class Options(msgspec.Struct, frozen=True):
    read: dict[str, tuple[str, ...]]
    write: dict[str, tuple[str, ...]] = {}


def load(options: Options) -> Plugin:
    return GraphAccess(options)


class GraphAccess(Plugin):
    may_refuse = True

    def __init__(self, options: Options) -> None:
        self.read = {name: frozenset(graphs) for name, graphs in options.read.items()}
        self.write = {name: frozenset(graphs) for name, graphs in options.write.items()}

    def readable(self, exchange: Exchange) -> frozenset[str] | None:
        """The graphs that this caller may read; None: all."""
        graphs = self.read.get(exchange.caller or "anonymous", frozenset())
        return None if ANYTHING in graphs else graphs

    def writable(self, exchange: Exchange) -> frozenset[str] | None:
        graphs = self.write.get(exchange.caller or "anonymous", frozenset())
        return None if ANYTHING in graphs else graphs

    # -- what comes in

    def request(self, exchange: Exchange) -> None:
        readable, writable = self.readable(exchange), self.writable(exchange)
        if readable is None and writable is None:
            return
        match exchange.operation:
            case SparqlOperation(kind=OperationKind.QUERY) as operation:
                if readable is not None:
                    require_harmless(operation)
                    exchange.leave_unchecked()
            case SparqlOperation(kind=OperationKind.UPDATE) as operation:
                require_harmless(operation)
            case SparqlOperation(kind=OperationKind.GRAPH_STORE) as operation:
                is_read = exchange.method in ("GET", "HEAD")
                self.require_store(exchange, operation, readable if is_read else writable)
            case _:
                if readable is not None:
                    raise OperationForbidden("this tells of the whole dataset, and this API key may not read all of it")
                if exchange.operation is not None:
                    raise OperationForbidden("a transaction may change anything, and this API key may not")

    def question(self, exchange: Exchange) -> None:
        if self.readable(exchange) is not None:
            raise OperationForbidden("questions are answered from all graphs, and this API key may not read all of them")

    def require_store(self, exchange: Exchange, operation: SparqlOperation, allowed: frozenset[str] | None) -> None:
        if allowed is None:
            return
        if not STORE_PATH.fullmatch(exchange.path):
            raise OperationForbidden("name the graph by graph=; a graph that the path names is not for this API key")
        graphs = [value for name, value in operation.parameters if name == "graph"]
        graphs += [value.removeprefix("<").removesuffix(">") for name, value in operation.parameters if name == "context"]
        if not graphs or any(name == "default" for name, _ in operation.parameters):
            raise OperationForbidden("name one graph that is for this API key; the store as a whole is not")
        self.require_all(graphs, allowed)

    # -- queries

    def query(self, exchange: Exchange) -> None:
        readable = self.readable(exchange)
        match exchange.parsed:
            case ParsedUpdate() as update:
                self.require_update(exchange, update, readable)
            case ParsedQuery() as query:
                if readable is not None:
                    self.require_query(exchange, query, readable)
            case _:
                if readable is not None or self.writable(exchange) is not None:
                    raise OperationForbidden("the text cannot be parsed, so nobody can say which graphs it reads")

    def require_query(self, exchange: Exchange, query: ParsedQuery, readable: frozenset[str]) -> None:
        if query.form is QueryForm.DESCRIBE:
            raise OperationForbidden("DESCRIBE may tell of any graph; ask with CONSTRUCT")
        self.require_inside(query, readable)
        assert exchange.operation is not None
        exchange.replace_query(render(query))  # what was judged is what is sent, in parameters of our own writing
        described = [d for d in (exchange.operation.dataset, query.dataset) if d]
        for dataset in described:
            self.require_all((*dataset.default_graphs, *dataset.named_graphs), readable)
        if not described:
            if not readable:
                raise OperationForbidden("this API key may read no graph")
            graphs = tuple(sorted(readable))
            exchange.replace_dataset(DatasetDescription(graphs, graphs))
            shown = ", ".join(f"<{g}>" for g in graphs) if len(graphs) <= SHOWN else f"{len(graphs)} graphs"
            exchange.add_header("Sparlance-Graphs", shown.encode("ascii", "replace").decode())

    def require_inside(self, node: object, readable: frozenset[str]) -> None:
        """Refuse what may read past the dataset, and every graph named that is not *readable*."""
        for part in walk(node):
            match part:
                case GraphPattern(name=Iri() as name):
                    self.require_all([name.value], readable)
                case Service():
                    raise OperationForbidden("SERVICE is not for this API key: what answers it may be the same database")
                case FunctionCall(name=Iri() as name) if not name.value.startswith(XSD):
                    raise OperationForbidden(f"the function {name} is not for this API key: it may read any graph")
                case TriplePattern() if any(isinstance(p, Iri) and is_magic(p) for p in walk(part)):
                    raise OperationForbidden("a search predicate is not for this API key: it may read any graph")

    # -- updates

    def require_update(self, exchange: Exchange, update: ParsedUpdate, readable: frozenset[str] | None) -> None:
        writable = self.writable(exchange)
        if readable is None and writable is None:
            return
        assert exchange.operation is not None
        exchange.replace_query(render(update))
        for operation in update.operations:
            match operation:
                case InsertData(quads) | DeleteData(quads):
                    self.require_quads(quads, None, writable)
                case DeleteWhere(quads):
                    self.require_quads(quads, None, writable)
                    self.require_quads(quads, None, readable)
                case Modify():
                    self.require_quads((*operation.delete, *operation.insert), operation.with_graph, writable)
                    self.require_where(operation, exchange.operation.dataset, readable)
                case GraphManagement(name, target, source):
                    self.require_graph(target, writable)
                    if source is not None:
                        self.require_graph(source, readable)
                        if name == "MOVE":
                            self.require_graph(source, writable)
                case _:
                    raise OperationForbidden("LOAD is not for this API key")

    def require_where(self, operation: Modify, described: DatasetDescription, readable: frozenset[str] | None) -> None:
        if readable is None:
            return
        datasets = [d for d in (operation.using, described) if d]
        if not datasets:
            raise OperationForbidden("say what WHERE reads: USING <graph>, one of those for this API key")
        for dataset in datasets:
            self.require_all((*dataset.default_graphs, *dataset.named_graphs), readable)
        self.require_inside(operation.where, readable)

    def require_quads(self, quads: Iterable[QuadPattern], default: Iri | None, allowed: frozenset[str] | None) -> None:
        for quad in quads:
            self.require_graph(quad.graph or default, allowed)

    def require_graph(self, graph: object, allowed: frozenset[str] | None) -> None:
        """*graph* None is the default graph; a variable, DEFAULT, NAMED and ALL may be any."""
        if allowed is None:
            return
        if not isinstance(graph, Iri):
            raise OperationForbidden("name the graph, one of those for this API key")
        self.require_all([graph.value], allowed)

    def require_all(self, graphs: Iterable[str], allowed: frozenset[str]) -> None:
        for graph in graphs:
            if graph not in allowed or is_relative(Iri(graph)):
                raise OperationForbidden(f"<{graph}> is not for this API key")


def require_harmless(operation: SparqlOperation) -> None:
    for name, _ in operation.parameters:
        if name not in HARMLESS:
            raise OperationForbidden(f"{name}= is not for this API key: it may change which graphs are read")
