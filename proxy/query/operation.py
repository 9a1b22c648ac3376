"""What a client asks for, once HTTP is taken off (SPARQL 1.1 Protocol, section 2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class OperationKind(StrEnum):
    """TRANSACTION: one step of a transaction that the backend holds open (RDF4J); its parameter ``action`` says which."""

    __hash__ = str.__hash__  # not Enum's, which is a call in Python for each look in a table

    QUERY = "query"
    UPDATE = "update"
    GRAPH_STORE = "graph-store"
    TRANSACTION = "transaction"


@dataclass(frozen=True, slots=True)
class DatasetDescription:
    """The RDF dataset that the *protocol* names; it replaces FROM / FROM NAMED (Protocol, section 2.1.4).

    For an update these are the values of using-graph-uri and using-named-graph-uri (section 2.2.3).
    """

    default_graphs: tuple[str, ...] = ()
    named_graphs: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.default_graphs or self.named_graphs)


@dataclass(frozen=True, slots=True)
class SparqlOperation:
    """One query or update operation.

    text: exactly as the client wrote it, decoded.
    parameters: every *other* protocol parameter in its order, names trimmed, values decoded (timeout, infer, format …).
    accept: the Accept header as sent, or None.
    """

    kind: OperationKind
    text: str
    dataset: DatasetDescription = field(default_factory=DatasetDescription)
    parameters: tuple[tuple[str, str], ...] = ()
    accept: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A question in plain language, ``nl=`` in place of ``query=``. *language* is a BCP 47 tag, or None: unknown."""

    text: str
    language: str | None = None
    dataset: DatasetDescription = field(default_factory=DatasetDescription)
    parameters: tuple[tuple[str, str], ...] = ()
    accept: str | None = None
