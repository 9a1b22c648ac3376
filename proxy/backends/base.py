"""What the rest of Sparlance may ask of a database: one protocol, two ways in.

``send`` carries a *client's* request: its bytes out, the backend's bytes back, streamed, whatever the status. ``select``
and ``ask`` carry *our own* queries (index, confirmation of a proof, candidates of a question): small, bounded, checked to be
complete.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter
from typing import Protocol, Self, runtime_checkable

from proxy.errors import BackendError
from proxy.query.operation import SparqlOperation
from proxy.query.term import RdfTerm

Headers = Sequence[tuple[bytes, bytes]]
"""Header fields in order, names in lower case, end-to-end ones only."""


Parameters = Sequence[tuple[str, str]]
"""Protocol parameters in order: name, value."""


class PathKind(StrEnum):
    """What one of a backend's own paths takes.

    QUERY, UPDATE, GRAPH_STORE: that operation only. ANY: queries and updates, and the graph store where ``graph`` or
    ``default`` is in the query string (QLever). STATEMENTS: updates by POST; the statements themselves otherwise (RDF4J).
    TRANSACTIONS: opens and carries transactions (RDF4J). INFORMATION: GET and HEAD, passed on without being understood.
    """

    __hash__ = str.__hash__  # not Enum's, which is a call in Python for each look in a table

    QUERY = "query"
    UPDATE = "update"
    GRAPH_STORE = "graph-store"
    ANY = "any"
    STATEMENTS = "statements"
    TRANSACTIONS = "transactions"
    INFORMATION = "information"


HOP_BY_HOP = frozenset(
    [
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    ]
)
"""Fields that are about one connection only (RFC 9110, 7.6.1)."""


NAME = itemgetter(0)
"""The name of a header field."""


class KnownFields(tuple[tuple[bytes, bytes], ...]):
    """Header fields that come again and again, with what has been read from them once: as good as any other ``Headers``.

    values: by name, repeats joined by commas (RFC 9110, 5.3). size: in bytes, of names and values.
    onward, rendered: kept here by who goes on with them (``forwarded``, ``render_head``); None: nobody has so far.
    """

    values: dict[bytes, str]
    size: int
    onward: KnownFields | None = None
    rendered: bytes | None = None

    def __new__(cls, fields: Headers) -> Self:
        self = super().__new__(cls, fields)
        joined: dict[bytes, bytes] = {}
        for name, value in fields:
            joined[name] = joined[name] + b", " + value if name in joined else value
        self.values = {name: value.decode("latin-1") for name, value in joined.items()}
        self.size = sum(len(name) + len(value) for name, value in fields)
        return self


_ONLY_PERSISTENCE = frozenset([b"close", b"keep-alive"])


def end_to_end(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Drop hop-by-hop fields and those that Connection names; keep order and repeats. Names must be in lower case."""
    if HOP_BY_HOP.isdisjoint(map(NAME, headers)):
        return list(headers)
    kept = [field for field in headers if field[0] not in HOP_BY_HOP]
    named: set[bytes] = set()
    for name, value in headers:
        if name == b"connection" and value.lower() not in _ONLY_PERSISTENCE:
            named.update([token.strip().lower() for token in value.split(b",")])
    if named and named - _ONLY_PERSISTENCE:
        # Nobody may make us drop these by naming them in Connection.
        named -= {b"host", b"content-length", b"content-type", b"authorization", b"accept", b"cache-control"}
        return [field for field in kept if field[0] not in named]
    return kept


@dataclass(frozen=True, slots=True)
class BackendRequest:
    """A client's request as it shall reach the backend.

    target: origin-form, the path of *this backend* and the client's query string byte for byte.
    headers: end-to-end fields, ``host`` included; hop-by-hop fields and framing are the connection's business.
    body: the client's bytes; a stream where the body was not read (graph store uploads).
    operation: the same request understood; None for what is forwarded without being understood. An embedded backend
        answers from it, a remote one sends *target*, *headers* and *body* and never looks at it.
    """

    method: str
    target: bytes
    headers: Headers
    body: bytes | AsyncIterator[bytes] = b""
    operation: SparqlOperation | None = None


class BackendResponse(Protocol):
    """The head of an answer, and its body as it arrives.

    One that also has ``is_complete`` (a bool) says with it that ``chunks`` has given the last byte of a complete body, so that
    the piece just given can be sent as the last one.

    One that also has ``take_whole`` gives with it the whole body at once, where that has all arrived and nothing of it was
    read, and there is nothing left to be closed; else None. Small answers come so, and two generators for one piece would cost
    as much as forwarding it.
    """

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Headers:
        """End-to-end fields as received, repeats and order kept; content-length too when the backend sent one."""

    def chunks(self) -> AsyncIterator[bytes]:
        """Body bytes as received (still content-coded).

        Raises:
            BackendGarbled, BackendUnreachable, BackendTimeout: the body cannot be completed. The client must then see a
                broken transfer.
        """

    async def aclose(self) -> None:
        """Let go of the connection; before the end of the body this closes it, so that the backend can notice."""


class StartedResponse(BackendResponse, Protocol):
    """A response on its way that nobody waits for: a listener is called when there is something new to look at.

    Status and headers are there once ``is_head_there``. Whoever started it calls ``release`` in the end, whatever happened.
    """

    @property
    def is_head_there(self) -> bool: ...

    @property
    def error(self) -> BackendError | None:
        """Why there will be no head, or no end of the body; None: nothing is wrong so far."""

    @property
    def is_unsent(self) -> bool:
        """Whether the request has no connection yet, or met a dead one, and takes a new one (``connect``)."""

    def news(self) -> tuple[bytes, bool, BackendError | None]:
        """Take the bytes of the body that have arrived. Not to take them slows the backend down.

        Returns:
            The bytes, whether they are the last ones, and why there will be no more where they are not.
        """

    def ignore(self) -> None:
        """Call the listener no more; the response is then read like any other."""

    def release(self) -> None:
        """As ``aclose``, at once."""

    async def connect(self, listener: Callable[[], None]) -> None:
        """Send the request on a new connection. Raises BackendError: there is none."""


@dataclass(frozen=True, slots=True)
class Solutions:
    """A complete solution sequence of one of our own SELECT queries. ``None`` in a row is an unbound variable."""

    variables: tuple[str, ...]
    rows: list[tuple[RdfTerm | None, ...]]


class Backend(Protocol):
    """One database. Safe to use from many tasks of one event loop."""

    @property
    def name(self) -> str:
        """For messages and metrics, e.g. ``oxigraph at http://127.0.0.1:7878``; never holds a credential."""

    @property
    def query_path(self) -> str:
        """The path that takes queries, e.g. ``/query``."""

    @property
    def update_path(self) -> str: ...

    @property
    def paths(self) -> Mapping[str, PathKind]:
        """The backend's own paths that clients may use here, ``query_path`` and ``update_path`` among them.

        A path that ends in ``*`` stands for all that begin so.
        """

    @property
    def refused_parameters(self) -> frozenset[str]:
        """Names of protocol parameters with which a client could administer the backend."""

    @property
    def prefixes(self) -> Mapping[str, str]:
        """Prefixes that the backend knows undeclared."""

    @property
    def fetches_graphs(self) -> bool:
        """Whether a graph named in FROM, FROM NAMED, USING or a graph parameter may be fetched from the web."""

    @property
    def root_url(self) -> str:
        """Where the backend is, without a path of its own; empty if it has no address."""

    @property
    def orphan_s(self) -> float | None:
        """How long a query may go on in the backend when its client has left before the head of the answer; seconds.

        None: ``send``, when it is cancelled or out of time, has the backend stop the query.
        """

    def sees_what_we_see(self, headers: Headers) -> bool:
        """Whether a client's request with these fields is answered from the same data as our own queries.

        Not so where the client's own credential reaches the backend: it may be shown more than we are, or less.
        """

    async def send(self, request: BackendRequest) -> BackendResponse:
        """Pass a client's request on; returns when the response head is there.

        Raises:
            BackendUnreachable, BackendTimeout, BackendGarbled, BackendBusy: there is no response to pass back.
        """

    async def select(
        self, query: str, *, timeout_s: float, limit_rows: int | None = None, parameters: Parameters = ()
    ) -> Solutions:
        """Run one of our own SELECT queries and read its whole answer.

        Args:
            parameters: further protocol parameters, such as default-graph-uri.
            limit_rows: more rows than this are an error (BackendGarbled), so that a wrong bound cannot fill the memory.
        Raises:
            BackendError: any of them; a partial answer is never returned.
        """

    async def ask(self, query: str, *, timeout_s: float, parameters: Parameters = ()) -> bool:
        """Run one of our own ASK queries. Raises as ``select``."""

    async def probe(self, *, timeout_s: float) -> None:
        """Return if the backend answers; raise BackendError if not."""

    async def aclose(self) -> None:
        """Close all connections (or the store)."""


@runtime_checkable
class StartsQueries(Protocol):
    """A backend that can also pass a client's *query* on without a task."""

    def start(self, request: BackendRequest, listener: Callable[[], None]) -> StartedResponse | None:
        """As ``Backend.send``, but return at once; None: that is not possible now, and nothing has happened.

        Args:
            listener: called whenever there is something new to look at; never before this has returned.
        """
