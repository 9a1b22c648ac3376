"""One step of an RDF4J transaction → what must be judged in it (RDF4J REST API, "Transactions"; pure).

Whoever reads a request otherwise than the backend does judges the wrong text. So where the protocol leaves room, such as a
text in the body *and* in a parameter, the request is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.errors import MalformedRequest, OperationForbidden, UnsupportedMediaType
from proxy.protocol.request import FORM, SPARQL_QUERY, SPARQL_UPDATE, decode, read_parameters, split_media_type
from proxy.query.operation import DatasetDescription, OperationKind, SparqlOperation

METHODS = ("POST", "PUT", "DELETE")
WRITES = frozenset(["ADD", "DELETE"])
OTHERS = frozenset(["GET", "SIZE", "PING", "PREPARE", "COMMIT", "ROLLBACK"])
_TEXTS = {"QUERY": (OperationKind.QUERY, SPARQL_QUERY), "UPDATE": (OperationKind.UPDATE, SPARQL_UPDATE)}
_TEXT_NAMES = frozenset(["query", "update"])


@dataclass(frozen=True, slots=True)
class Step:
    """operation: the step itself, with the parameters of the query string. judged: kind and media type of the SPARQL text that
    it carries; None: it carries none, so that its body need not be read."""

    operation: SparqlOperation
    judged: tuple[OperationKind, str] | None


def read_step(*, method: str, query_string: bytes, accept: str | None) -> Step:
    """Say what a request to an open transaction does.

    Raises:
        MalformedRequest, OperationForbidden: not one of the known actions, or not clearly one.
    """
    parameters = read_parameters(query_string, "the query string")
    operation = SparqlOperation(OperationKind.TRANSACTION, "", DatasetDescription(), tuple(parameters), accept)
    actions = [value for name, value in parameters if name == "action"]
    if method == "DELETE" and not actions:
        return Step(operation, None)
    if len(actions) != 1:
        raise MalformedRequest("a step of a transaction names its action once, in the query string")
    action = actions[0]
    if action in _TEXTS:
        return Step(operation, _TEXTS[action])
    if action not in WRITES | OTHERS:
        raise OperationForbidden(f"the transaction step action={action} is not forwarded")
    if any(name in _TEXT_NAMES and value for name, value in parameters):
        raise MalformedRequest(f"action={action} takes no query= or update=")
    return Step(operation, None)


def read_text(step: Step, *, content_type: str | None, body: bytes) -> SparqlOperation:
    """The SPARQL operation within *step*, to be judged.

    Args:
        body: without its content coding.
    Raises:
        MalformedRequest: there is no text, or more than one. UnsupportedMediaType
    """
    assert step.judged is not None
    kind, direct = step.judged
    media, _ = split_media_type(content_type)
    parameters = list(step.operation.parameters)
    given: list[str] = []
    if media == direct:
        given.append(decode(body, "the body"))
    elif media == FORM:
        form = read_parameters(body, "the form")
        if any(name == "action" for name, _ in form):
            raise MalformedRequest("a step of a transaction names its action once, in the query string")
        parameters += form
    elif body or media is not None:
        raise UnsupportedMediaType(f"{media or 'no Content-Type'}; accepted: {FORM}, {direct}")
    # RDF4J's own client sends an empty query= beside the text in the body.
    given += [value for name, value in parameters if name in _TEXT_NAMES and value]
    if len(given) != 1:
        raise MalformedRequest(f"{len(given)} texts in one step of a transaction; accepted: one")
    rest = tuple((name, value) for name, value in parameters if name not in _TEXT_NAMES)
    graphs = ("using-graph-uri", "using-named-graph-uri")
    if kind is OperationKind.QUERY:
        graphs = ("default-graph-uri", "named-graph-uri")
    dataset = DatasetDescription(*(tuple(value for name, value in rest if name == graph) for graph in graphs))
    return SparqlOperation(kind, given[0], dataset, rest, step.operation.accept)
