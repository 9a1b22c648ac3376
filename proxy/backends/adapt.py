"""A client's request → the request that this product can take (pure); the identity wherever it takes it as it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from urllib.parse import parse_qsl, quote, quote_plus

from proxy.backends.base import BackendRequest, KnownFields
from proxy.backends.product import Product
from proxy.errors import MalformedQuery, OperationForbidden
from proxy.query.formats import BadAccept, ResultFormat, choose
from proxy.query.model import ParsedQuery, QueryForm
from proxy.query.operation import OperationKind
from proxy.query.parse import parse

FORM = b"application/x-www-form-urlencoded"
_TEXT_TYPES = (FORM, b"application/sparql-query", b"application/sparql-update")
_ILLEGAL = re.compile(rb"[^A-Za-z0-9\-._~!$&'()*+,;=:@/?%]|%(?![0-9A-Fa-f]{2})")
_FRAMING = frozenset([b"content-type", b"content-encoding", b"content-length"])


def adapt(request: BackendRequest, product: Product) -> BackendRequest:
    """Change what *product* would refuse or misread, and nothing else. Source: docs/backends.md.

    The form of the request may change (GET to POST, form to bare text); text, parameters and their order stay.
    """
    operation = request.operation
    if operation is not None and product.parameter_values:
        require_known_values(operation.parameters, product)
    if operation is None and request.method == "HEAD" and not product.head_queries:
        request = replace(request, method="GET")
    if operation is None or operation.kind not in (OperationKind.QUERY, OperationKind.UPDATE):
        return legal(request) if product.legal_target_only else request
    is_query = operation.kind is OperationKind.QUERY
    if not product.head_queries and request.method == "HEAD":
        request = replace(request, method="GET")
    own = product.query_string if is_query else product.update_string
    if own:
        path, _, rest = request.target.partition(b"?")
        request = replace(request, target=path + b"?" + own + (b"&" + rest if rest else b""))
    limit = product.head_limit_bytes
    if limit is not None and is_query and request.method == "GET" and head_size(request) > limit:
        request = as_post(request)
    body = request.body
    if request.method == "POST" and isinstance(body, bytes) and media_type(request) == FORM:
        if product.form_limit_bytes is not None and len(body) > product.form_limit_bytes:
            request = as_direct(request)
        elif not product.form_takes_query_string and b"?" in request.target and not is_coded(request):
            path, _, rest = request.target.partition(b"?")
            request = replace(request, target=path, body=body + b"&" + rest)
    if product.text_needs_charset and request.method in ("POST", "QUERY"):
        request = with_charset(request)
    return legal(request) if product.legal_target_only else request


def require_known_values(parameters: Sequence[tuple[str, str]], product: Product) -> None:
    """Raise OperationForbidden where a parameter would make the text mean something else than what was judged."""
    for name, value in parameters:
        known = product.parameter_values.get(name)
        if known is not None and value.lower() not in known:
            raise OperationForbidden(f"{name}={value} is not forwarded; accepted: {', '.join(sorted(known))}")


def head_size(request: BackendRequest) -> int:
    """Bytes of request line and fields, about."""
    headers = request.headers
    size = headers.size if type(headers) is KnownFields else sum(map(len, chain.from_iterable(headers)))
    return len(request.target) + 16 + 4 * len(headers) + size


def as_post(request: BackendRequest) -> BackendRequest:
    """Move the query string of a GET query into a form body, byte for byte (Protocol, 2.1.2: they are the same encoding)."""
    path, _, query_string = request.target.partition(b"?")
    headers = [*without(request, _FRAMING), (b"content-type", FORM)]
    return replace(request, method="POST", target=path, headers=headers, body=query_string)


def as_direct(request: BackendRequest) -> BackendRequest:
    """Send the text of a form as the body, and its other members in the query string, byte for byte."""
    operation = request.operation
    assert operation is not None and isinstance(request.body, bytes)
    kind = str(operation.kind)
    path, _, query_string = request.target.partition(b"?")
    members = [query_string] if query_string else []
    if is_coded(request):
        pairs = operation.parameters
        members = [f"{quote_plus(name)}={quote_plus(value)}".encode("ascii") for name, value in (*graphs(request), *pairs)]
    else:
        members += [m for m in request.body.split(b"&") if m and name_of(m) != kind]
    target = path + (b"?" + b"&".join(members) if members else b"")
    headers = [*without(request, _FRAMING), (b"content-type", f"application/sparql-{kind}".encode("ascii"))]
    return replace(request, target=target, headers=headers, body=operation.text.encode("utf-8"))


def with_charset(request: BackendRequest) -> BackendRequest:
    """Say that the text is UTF-8, which it is by definition (Protocol, sections 2.1.2 and 2.1.3)."""
    for i, (name, value) in enumerate(request.headers):
        if name == b"content-type" and value.strip().lower() in _TEXT_TYPES:
            headers = list(request.headers)
            headers[i] = name, value.strip() + b"; charset=utf-8"
            return replace(request, headers=headers)
    return request


def graphs(request: BackendRequest) -> Sequence[tuple[str, str]]:
    """The graph parameters of the operation."""
    operation = request.operation
    assert operation is not None
    names = ("using-graph-uri", "using-named-graph-uri")
    if operation.kind is OperationKind.QUERY:
        names = ("default-graph-uri", "named-graph-uri")
    dataset = operation.dataset
    return [*((names[0], g) for g in dataset.default_graphs), *((names[1], g) for g in dataset.named_graphs)]


def name_of(member: bytes) -> str:
    """The decoded name of ``name=value``, as forms encode it."""
    raw = member.partition(b"=")[0].decode("utf-8", "surrogateescape")
    decoded = parse_qsl(raw + "=", keep_blank_values=True, errors="surrogateescape")
    return decoded[0][0].strip() if decoded else ""


def legal(request: BackendRequest) -> BackendRequest:
    """Escape the characters that a URL may not hold (RFC 3986, section 3), such as ``{`` and bytes beyond ASCII."""
    if _ILLEGAL.search(request.target) is None:
        return request
    return replace(request, target=_ILLEGAL.sub(lambda m: b"%%%02X" % m[0][0], request.target))


def with_timeout(request: BackendRequest, value: str) -> BackendRequest:
    """Add ``timeout=`` where the client gives none."""
    operation = request.operation
    if operation is None or any(name == "timeout" for name, _ in operation.parameters):
        return request
    return with_parameter(request, b"timeout=" + quote(value, safe="").encode("ascii"))


def with_parameter(request: BackendRequest, member: bytes) -> BackendRequest:
    """Add one encoded parameter: to a form if the request is one that can be read, else to the query string."""
    is_form = request.method == "POST" and media_type(request) == FORM and not is_coded(request)
    if is_form and isinstance(request.body, bytes):
        return replace(request, body=request.body + b"&" + member)
    return replace(request, target=request.target + (b"&" if b"?" in request.target else b"?") + member)


def with_one_type(request: BackendRequest, product: Product) -> BackendRequest:
    """Accept the one type of the product's that the client likes best; unchanged where that is unknown or there is none.

    Source: RFC 9110, 12.5.1. For products that ignore q, take the first type known, or guess at a wildcard.
    """
    operation = request.operation
    if operation is None or operation.kind is not OperationKind.QUERY or any(n == "Accept" for n, _ in operation.parameters):
        return request
    try:
        parsed = parse(operation.text, prefixes=product.prefixes)
        if not isinstance(parsed, ParsedQuery):
            return request
        chosen = choose(operation.accept, offers(product, parsed.form))
    except (MalformedQuery, BadAccept):
        return request
    if chosen is None:
        return request
    return replace(request, headers=[*without(request, frozenset([b"accept"])), (b"accept", chosen.accepts[0].encode("ascii"))])


def offers(product: Product, form: QueryForm) -> Sequence[ResultFormat]:
    """What *product* can answer a query of this form in."""
    match form:
        case QueryForm.SELECT:
            return product.solution_formats
        case QueryForm.ASK:
            return product.boolean_formats
        case QueryForm.CONSTRUCT | QueryForm.DESCRIBE:
            return product.graph_formats


def media_type(request: BackendRequest) -> bytes:
    """The media type of the body without parameters, in lower case."""
    value = next((v for n, v in request.headers if n == b"content-type"), b"")
    return value.partition(b";")[0].strip().lower()


def is_coded(request: BackendRequest) -> bool:
    """Whether the body has a content coding, so that its bytes are not what they mean."""
    return any(n == b"content-encoding" and v.strip().lower() not in (b"", b"identity") for n, v in request.headers)


def without(request: BackendRequest, names: frozenset[bytes]) -> list[tuple[bytes, bytes]]:
    return [field for field in request.headers if field[0] not in names]
