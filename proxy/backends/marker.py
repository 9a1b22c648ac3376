"""Whether a backend's data have changed: an opaque text that moves with them, as cheaply as each product can tell.

None of them tells everything (docs/backends.md): an insertion and a deletion of as many triples goes unseen by a count. So this
only ever speeds a rebuild up; what stands against a stale index is the live ASK.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import quote

from proxy.backends.base import Backend, BackendRequest, Headers
from proxy.errors import BackendGarbled, BackendRefused
from proxy.query.term import Literal

COUNT = "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"
_TEXT_BYTES = 10_000
COUNT_GRAPHS = "SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } }"


def change_marker(
    kind: str, *, repository: str = "", headers: Headers = (), timeout_s: float
) -> Callable[[Backend], Awaitable[str | None]]:
    """How to ask a backend of *kind*: GraphDB for its size (a number it keeps), all others for counts of triples.

    QLever answers COUNT from its index, others scan for it; it also names the index it serves, which tells one of as many
    triples. Its delta counts (inserted and deleted triples) stand only in the answers to updates, which the proxy sees anyway,
    and behind a token.
    Args:
        headers: host and credential.
    """

    async def by_size(backend: Backend) -> str | None:
        target = f"/repositories/{quote(repository, safe='')}/size"
        return f"size {await _text(backend, target, headers)}"

    async def by_count(backend: Backend) -> str | None:
        counts = []
        for query in (COUNT, COUNT_GRAPHS):
            rows = (await backend.select(query, timeout_s=timeout_s)).rows
            if len(rows) != 1 or len(rows[0]) != 1:
                raise BackendGarbled(f"{backend.name} answered COUNT with {len(rows)} rows, not one", backend=backend.name)
            n = rows[0][0]
            counts.append(n.lexical if isinstance(n, Literal) else "")
        return " ".join(["count", *counts])

    async def by_count_and_index(backend: Backend) -> str | None:
        counts = await by_count(backend)
        try:
            return f"{counts} of {await _text(backend, f'{backend.query_path}?cmd=get-index-id', headers)}"
        except BackendRefused:  # an older one, or something before it, that knows no commands
            return counts

    return {"graphdb": by_size, "qlever": by_count_and_index}.get(kind, by_count)


async def _text(backend: Backend, target: str, headers: Headers) -> str:
    """A short text from the backend.

    Raises:
        BackendRefused: another status than 200.
    """
    response = await backend.send(BackendRequest("GET", target.encode("ascii"), [*headers, (b"accept", b"text/plain")]))
    status, body = response.status, bytearray()
    try:
        async for piece in response.chunks():
            body += piece
            if len(body) > _TEXT_BYTES:
                raise BackendGarbled(f"{backend.name} answered {target} with a long text", backend=backend.name)
    finally:
        await response.aclose()
    text = body.decode("utf-8", "replace").strip()
    if status != 200:
        raise BackendRefused(f"no answer to {target}", backend=backend.name, status=status, body=text[:200])
    return text
