"""When two requests must get the same answer: the key under which reads are joined and responses kept.

Everything that reaches the backend counts, except what is listed here as without influence. A field too many costs a hit; a
field too few would give one client another's answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from proxy.backends.base import BackendRequest
from proxy.query.operation import OperationKind

IGNORED_HEADERS = frozenset(
    b"user-agent content-length content-type transfer-encoding connection keep-alive te trailer upgrade expect "
    b"cache-control pragma forwarded x-real-ip via from referer date dnt priority upgrade-insecure-requests "
    b"traceparent tracestate baggage x-request-id x-correlation-id query-id x-graphdb-track-alias".split()
)
"""Fields that say who asks or how the bytes travel. Not ``host``: it is the base IRI of relative IRIs (RFC 3986, 5.1.3)."""
IGNORED_PREFIXES = (b"sec-", b"x-forwarded-")
CREDENTIAL_HEADERS = frozenset(
    b"authorization proxy-authorization cookie x-api-key api-key x-auth-token x-access-token x-csrf-token".split()
)
CREDENTIAL_PARAMETERS = frozenset(["access-token", "access_token", "apikey", "api-key", "api_key", "authtoken", "token"])
_UNREPEATABLE = re.compile(r"(?<![\w:])(?:rand\w*|now|uuid|struuid)\b|\\u|random", re.IGNORECASE)
_REMOTE = re.compile(r"\bservice\b", re.IGNORECASE)
KNOWN_LIMIT = 4096
"""Characters; what was found in a longer text is not remembered, so that the memory is bounded in bytes too."""


@dataclass(frozen=True, slots=True)
class RequestKey:
    """Identifies the answer to a read; equal digests mean that the same answer is due.

    digest: 32 bytes; holds no credential in clear. is_authenticated: the request carries a credential.
    may_use_stored, may_store: what the client's Cache-Control and the query itself allow; a federated query is not stored, as
        nobody tells us when the data elsewhere change. max_age_s: the oldest answer the client takes; None: any.
    """

    dataset: str
    digest: bytes
    is_authenticated: bool = False
    may_use_stored: bool = True
    may_store: bool = True
    max_age_s: float | None = None


def request_key(dataset: str, request: BackendRequest) -> RequestKey | None:
    """The key of a query operation, whether it came by GET or POST; None where each request must get an answer of its own.

    That is: anything but a query, a HEAD, a Range, and a query whose answer differs each time (RAND, NOW, UUID, STRUUID).
    """
    operation = request.operation
    if operation is None or operation.kind is not OperationKind.QUERY or request.method == "HEAD":
        return None
    text = operation.text
    is_repeated, is_remote = (_known if len(text) <= KNOWN_LIMIT else _look)(text)
    if not is_repeated:
        return None
    is_authenticated, may_use_stored, may_store, max_age_s = False, True, not is_remote, None
    kept: list[tuple[bytes, bytes]] = []
    for field in request.headers:
        name = field[0]
        if name in IGNORED_HEADERS:
            if name == b"cache-control" or name == b"pragma":
                use, store, age = read_directives(field[1])
                may_use_stored, may_store = may_use_stored and use, may_store and store
                max_age_s = age if max_age_s is None else max_age_s
        elif name.startswith(IGNORED_PREFIXES):
            pass
        elif name == b"range":
            return None
        else:
            is_authenticated = is_authenticated or name in CREDENTIAL_HEADERS
            kept.append((name, field[1]))
    kept.sort(key=_name)  # stable: the order of fields of one name counts, that of different ones does not (RFC 9110, 5.3)
    for parameter in operation.parameters:
        is_authenticated = is_authenticated or parameter[0].lower() in CREDENTIAL_PARAMETERS
    described = operation.dataset
    # repr is unambiguous: it quotes each part, so no two different lists look alike. The text, which is long, comes last.
    path = request.target.partition(b"?")[0]
    material = repr(
        (dataset, path, described.default_graphs, described.named_graphs, operation.parameters, operation.accept, kept)
    )
    digest = blake2b(f"{material}\n{text}".encode("utf-8", "surrogatepass"), digest_size=32).digest()
    return RequestKey(dataset, digest, is_authenticated, may_use_stored, may_store, max_age_s)


def is_repeatable(text: str) -> bool:
    """Whether the text calls nothing that answers differently each time.

    Wrong in one direction only: a text that merely looks so (in a literal, a comment, behind a ``\\u`` escape) counts as not
    repeatable, which costs a hit and no answer.
    """
    return _look(text)[0]


def _look(text: str) -> tuple[bool, bool]:
    """Whether *text* is repeatable, and whether it may ask elsewhere."""
    lowered = text.lower()
    is_escaped = "\\u" in lowered
    may_vary = is_escaped or "rand" in lowered or "now" in lowered or "uuid" in lowered
    is_remote = is_escaped or ("service" in lowered and _REMOTE.search(text) is not None)
    return not may_vary or _UNREPEATABLE.search(text) is None, is_remote


_known = lru_cache(1024)(_look)


def read_directives(value: bytes) -> tuple[bool, bool, float | None]:
    """A request's Cache-Control or Pragma: may a stored answer be used, may the answer be stored, how old may it be (s)."""
    may_use, may_store, max_age_s = True, True, None
    for directive in value.lower().split(b","):
        name, _, argument = directive.strip().partition(b"=")
        if name == b"no-store":
            may_use = may_store = False
        elif name == b"no-cache":
            may_use = False
        elif name == b"max-age":
            seconds = argument.strip(b' "')
            max_age_s = float(seconds) if seconds.isdigit() else 0.0
    return may_use and max_age_s != 0, may_store, max_age_s


def _name(field: tuple[bytes, bytes]) -> bytes:
    return field[0]
