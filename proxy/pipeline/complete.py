"""Is this the whole document? A status of 200 does not say so.

Oxigraph and QLever append the text of an error to a result that has begun, and end the transfer as if all were well
(docs/load.md). JSON and XML show it: the document does not close. Lines of CSV, TSV or N-Triples look the same with or without
an end; there only a Content-Length tells, because a server that sends one knew the whole body before it sent any of it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable

INFLATED_RATIO = 16
"""A compressed body that grows by more than this is not looked into."""
_XML_ENDS = {b"</sparql>": b"<sparql", b"</rdf:RDF>": b"<rdf:RDF"}


def is_complete(
    body: bytes,
    *,
    media_type: bytes,
    coding: bytes,
    content_length: int | None,
    is_json: Callable[[bytes], bool] | None = None,
) -> bool:
    """Whether *body* provably is a complete answer.

    Args:
        media_type: of Content-Type, lower case, without parameters. coding: of Content-Encoding, empty: none.
        content_length: as the backend announced it, or None.
        is_json: whether some bytes are one JSON document and nothing else; None: ``closes_json``.
    """
    if content_length is not None and content_length != len(body):
        return False
    if coding not in (b"", b"identity"):
        inflated = inflate(body, coding, limit_bytes=len(body) * INFLATED_RATIO)
        if inflated is None:
            return False
        body = inflated
    if media_type.endswith((b"+json", b"/json")):
        return (is_json or closes_json)(body)
    if media_type.endswith((b"+xml", b"/xml")):
        return closes_xml(body)
    return content_length is not None


def closes_json(body: bytes) -> bool:
    """Whether *body* is one JSON object or array and nothing else.

    The whole is read: an error text behind a broken document may well end in a brace.
    """
    try:
        return isinstance(json.loads(body), dict | list)
    except (ValueError, RecursionError):
        return False


def closes_xml(body: bytes) -> bool:
    """Whether *body* ends with the end tag of SPARQL results or RDF/XML, and has one such element."""
    body = body.rstrip(b" \t\r\n")
    for end, begin in _XML_ENDS.items():
        if body.endswith(end):
            return body.count(end) == 1 and body.count(begin) == 1
    return False


def inflate(body: bytes, coding: bytes, *, limit_bytes: int) -> bytes | None:
    """The content of a gzip or deflate body; None if it does not end, is another coding, or larger than the limit."""
    if coding in (b"gzip", b"x-gzip"):
        decoder = zlib.decompressobj(16 + zlib.MAX_WBITS)
    elif coding == b"deflate":
        decoder = zlib.decompressobj()
    else:
        return None
    try:
        content = decoder.decompress(body, limit_bytes)
    except zlib.error:
        return None
    return content if decoder.eof and not decoder.unused_data else None
