"""Which handling a path of the backend's gets, and what of a path is passed on (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, unquote_to_bytes

from proxy.backends.base import PathKind
from proxy.errors import MalformedRequest, UnknownPath, UnsupportedMediaType
from proxy.protocol.request import FORM, SPARQL_QUERY, SPARQL_UPDATE, split_media_type
from proxy.query.formats import GRAPH_FORMATS

RDF_TYPES = frozenset(media for offer in GRAPH_FORMATS for media in offer.accepts) | frozenset(
    "application/x-binary-rdf application/trix application/rdf+json application/x-ld+ndjson application/ndjson "
    "application/x-turtlestar application/x-trigstar application/x-turtle-star application/x-trig-star "
    "application/x-nquads text/x-turtle".split()
)
"""What may be uploaded as statements. Not ``application/x-rdftransaction``: updates may be in it, which nobody would judge."""
_SPARQL_TYPES = frozenset([FORM, SPARQL_QUERY, SPARQL_UPDATE])
_OPERATION_NAMES = frozenset(["query", "update"])


def handling(
    kind: PathKind, method: str, parameters: Sequence[tuple[str, str]], content_type: str | None
) -> PathKind:
    """Return the handling of a request to a path of *kind*: the same, or for ANY and STATEMENTS what this request means.

    Raises:
        UnsupportedMediaType: an upload that is not RDF.
    """
    names = {name for name, _ in parameters}
    if kind is PathKind.ANY:
        is_named = bool(names & {"graph", "default"}) and not names & _OPERATION_NAMES
        is_store = is_named and (method not in ("POST", "QUERY") or not _is_sparql(content_type))
        return PathKind.GRAPH_STORE if is_store else PathKind.QUERY
    if kind is PathKind.STATEMENTS:
        if method != "POST":
            return PathKind.GRAPH_STORE
        if names & _OPERATION_NAMES or content_type is None or _is_sparql(content_type):
            return PathKind.UPDATE
        media, _ = split_media_type(content_type)
        if media not in RDF_TYPES:
            raise UnsupportedMediaType(f"{media}; accepted: {SPARQL_UPDATE}, {FORM}, and RDF such as text/turtle")
        return PathKind.GRAPH_STORE
    return kind


def _is_sparql(content_type: str | None) -> bool:
    media, _ = split_media_type(content_type)
    # Also what only begins so: some servers compare no more than that.
    return media is not None and (media in _SPARQL_TYPES or media.startswith(("application/sparql-", FORM)))


def require_no_operation(parameters: Sequence[tuple[str, str]]) -> None:
    """Keep SPARQL text away from paths where nobody judges it, and a backend might still evaluate it.

    Raises:
        MalformedRequest
    """
    for name, _ in parameters:
        if name in _OPERATION_NAMES:
            raise MalformedRequest(f"{name}= is sent to a path that takes no SPARQL")


def rest_of_path(raw_path: bytes | None, path: str, pattern: str) -> bytes:
    """The client's path from *pattern* (which ends in ``*``) on, byte for byte: what stands behind is a name.

    Raises:
        UnknownPath: a dot segment could lead out of *pattern*: servers resolve ``..``, ``%2e%2e`` and ``..;x`` first.
    """
    raw = raw_path or quote(path).encode("ascii")
    start = raw.find(pattern.rstrip("*").encode("ascii"))
    if start < 0:
        raise UnknownPath(f"nothing is served at {path}")
    rest = raw[start:]
    plain = unquote_to_bytes(rest).replace(b"\\", b"/")
    if any(segment.partition(b";")[0] in (b".", b"..") for segment in plain.split(b"/")):
        raise UnknownPath(f"{path} has a dot segment, which is not forwarded")
    return rest
