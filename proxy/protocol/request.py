"""Method, query string, media type and body → the operation that they ask for (SPARQL 1.1 Protocol, section 2; pure).

Three forms of query (GET, POST form, POST direct; also the QUERY method), two of update (POST form, POST direct), and ``nl=``.
"""

from __future__ import annotations

import re
import zlib
from binascii import a2b_qp
from collections.abc import Sequence
from urllib.parse import parse_qsl, quote_plus

from proxy.errors import BodyTooLarge, MalformedRequest, UnsupportedMediaType
from proxy.query.operation import DatasetDescription, OperationKind, Question, SparqlOperation

FORM = "application/x-www-form-urlencoded"
SPARQL_QUERY = "application/sparql-query"
SPARQL_UPDATE = "application/sparql-update"
BODY_METHODS = frozenset(["POST", "QUERY"])
PARAMETER_LIMIT = 10_000
_MAYBE_BLANK = re.compile(rb"(?:\A|&)[+%\s]|(?:[+\s]|%[0-9A-Fa-f]{2})(?:=|&|\Z)")
_WELL_ESCAPED = re.compile(rb"[^%]*(?:%[0-9A-Fa-f]{2}[^%]*)*")
_GRAPH_NAMES = frozenset(["default-graph-uri", "named-graph-uri", "using-graph-uri", "using-named-graph-uri"])
_TEXT_NAMES = frozenset(["query", "update", "nl"])
_LANGUAGE_NAMES = frozenset(["lang", "language"])


def read_operation(
    *,
    method: str,
    query_string: bytes,
    content_type: str | None = None,
    body: bytes = b"",
    accept: str | None = None,
    expected: OperationKind | None = None,
) -> SparqlOperation | Question | None:
    """Understand one request.

    Args:
        body: without its content coding (``unpack``).
        expected: what the path takes; None: queries and updates.
    Returns:
        None where a GET names no operation at all: that asks for the service description, or for what only the backend knows.
    Raises:
        MalformedRequest, UnsupportedMediaType
    """
    parameters = read_parameters(query_string, "the query string")
    direct: tuple[str, str] | None = None
    if method in BODY_METHODS:
        media, charset = split_media_type(content_type)
        if media in (SPARQL_QUERY, SPARQL_UPDATE):
            if charset not in (None, "utf-8", "utf8", "us-ascii", "ascii"):
                raise UnsupportedMediaType(f"charset {charset}: SPARQL text is UTF-8 (SPARQL 1.1 Protocol, section 2.1)")
            direct = ("query" if media == SPARQL_QUERY else "update", decode(body, "the body"))
        elif media == FORM or (media is None and not body):
            parameters += read_parameters(body, "the form")
        else:
            found = "no Content-Type" if media is None else media
            raise UnsupportedMediaType(f"{found}; accepted: {FORM}, {SPARQL_QUERY}, {SPARQL_UPDATE}")
    given = [(name, value) for name, value in parameters if name in _TEXT_NAMES]
    if direct is not None:
        given.append(direct)
    if not given:
        if method in BODY_METHODS:
            raise MalformedRequest("no query=, update= or nl= in the request")
        return None
    if len(given) > 1:
        names = sorted({name for name, _ in given})
        if len(names) > 1:
            raise MalformedRequest(f"more than one operation in one request: {' and '.join(names)}")
        raise MalformedRequest(f"{names[0]}= is given twice")
    name, text = given[0]
    rest = tuple((n, v) for n, v in parameters if n not in _TEXT_NAMES and n not in _GRAPH_NAMES)
    if name == "update":
        return _update(method, text, parameters, rest, accept, expected)
    dataset = DatasetDescription(_values(parameters, "default-graph-uri"), _values(parameters, "named-graph-uri"))
    if expected is OperationKind.UPDATE:
        raise MalformedRequest(f"{name}= is sent to the path for updates")
    if name == "nl":
        if not text.strip():
            raise MalformedRequest("nl= is empty")
        language = next((v for n, v in rest if n in _LANGUAGE_NAMES and v), None)
        rest = tuple((n, v) for n, v in rest if n not in _LANGUAGE_NAMES)
        return Question(text, language, dataset, rest, accept)
    return SparqlOperation(OperationKind.QUERY, text, dataset, rest, accept)


def _update(
    method: str,
    text: str,
    parameters: Sequence[tuple[str, str]],
    rest: tuple[tuple[str, str], ...],
    accept: str | None,
    expected: OperationKind | None,
) -> SparqlOperation:
    if method not in BODY_METHODS or method == "QUERY":
        raise MalformedRequest("an update must be sent by POST (SPARQL 1.1 Protocol, section 2.2)")
    if expected is OperationKind.QUERY:
        raise MalformedRequest("an update is sent to the path for queries")
    dataset = DatasetDescription(_values(parameters, "using-graph-uri"), _values(parameters, "using-named-graph-uri"))
    return SparqlOperation(OperationKind.UPDATE, text, dataset, rest, accept)


def read_parameters(encoded: bytes, where: str) -> list[tuple[str, str]]:
    """Decode ``a=b&c=d``: order and repeats kept, names without surrounding blanks (YASGUI sends some with them).

    Raises:
        MalformedRequest: it is not UTF-8 behind the percent signs, or has too many members.
    """
    if not encoded:
        return []
    if encoded.isascii() and encoded.count(b"&") < PARAMETER_LIMIT and _WELL_ESCAPED.fullmatch(encoded) is not None:
        return _read_well_escaped(encoded, where)
    try:
        pairs = parse_qsl(
            encoded.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=PARAMETER_LIMIT, separator="&"
        )
    except UnicodeDecodeError as exc:
        raise MalformedRequest(f"{where} is not UTF-8") from exc
    except ValueError as exc:
        raise MalformedRequest(f"{where} cannot be read: {exc}") from exc
    return [(name.strip(), value) for name, value in pairs]


def _read_well_escaped(encoded: bytes, where: str) -> list[tuple[str, str]]:
    """What ``parse_qsl`` reads where each percent sign begins an escape, at a third of its cost."""
    pairs = []
    try:
        for member in encoded.replace(b"+", b" ").split(b"&"):
            if member:
                name, _, value = member.partition(b"=")
                pairs.append((_unescaped(name).strip(), _unescaped(value)))
    except UnicodeDecodeError as exc:
        raise MalformedRequest(f"{where} is not UTF-8") from exc
    return pairs


def _unescaped(text: bytes) -> str:
    if b"%" not in text:
        return text.decode("ascii")
    # Quoted-printable differs in the sign of its escapes; each of ours is one, and no other such sign is left.
    return a2b_qp(text.replace(b"=", b"%3D").replace(b"%", b"=")).decode("utf-8")


def trim_names(encoded: bytes) -> bytes:
    """Take blanks off the parameter names, so that the backend reads the names that we read; nothing else changes."""
    if _MAYBE_BLANK.search(encoded) is None:
        return encoded
    members = encoded.split(b"&")
    for i, member in enumerate(members):
        raw, equals, value = member.partition(b"=")
        decoded = parse_qsl(raw.decode("utf-8", "surrogateescape") + "=", keep_blank_values=True, errors="surrogateescape")
        if decoded and (name := decoded[0][0]) != name.strip():
            members[i] = quote_plus(name.strip(), errors="surrogateescape").encode("ascii") + equals + value
    return b"&".join(members)


def split_media_type(content_type: str | None) -> tuple[str | None, str | None]:
    """``text/plain; charset="UTF-8"`` → ("text/plain", "utf-8")."""
    if content_type is None or not content_type.strip():
        return None, None
    media, *parameters = content_type.split(";")
    charset = None
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip('"').lower()
    return media.strip().lower(), charset


def unpack(body: bytes, coding: str | None, *, limit_bytes: int) -> bytes:
    """Undo the content coding of *body* to judge what is in it; what is forwarded stays packed.

    Raises:
        UnsupportedMediaType: a coding that we cannot undo, so that nobody could judge the text.
        MalformedRequest: broken data. BodyTooLarge: more than *limit_bytes* come out.
    """
    coding = (coding or "identity").strip().lower()
    if coding in ("", "identity"):
        return body
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise UnsupportedMediaType(f"Content-Encoding {coding}; accepted: gzip, deflate")
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)  # 32: gzip or zlib, as the data say
    try:
        data = decoder.decompress(body, limit_bytes + 1)
    except zlib.error as exc:
        raise MalformedRequest(f"the body is not {coding}: {exc}") from exc
    if len(data) > limit_bytes or decoder.unconsumed_tail:
        message = f"the unpacked body is larger than {limit_bytes} bytes (server.body_limit_bytes)"
        raise BodyTooLarge(message, limit_bytes=limit_bytes)
    if not decoder.eof or decoder.unused_data:
        # A second gzip member would be read by the backend and not by us.
        raise MalformedRequest(f"the body is not one complete {coding} stream")
    return data


def _values(parameters: Sequence[tuple[str, str]], name: str) -> tuple[str, ...]:
    return tuple(value for n, value in parameters if n == name)


def decode(body: bytes, where: str) -> str:
    """*body* as UTF-8 text. Raises MalformedRequest."""
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise MalformedRequest(f"{where} is not UTF-8") from exc
