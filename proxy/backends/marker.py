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
COUNT_GRAPHS = "SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } }"


def change_marker(
    kind: str, *, repository: str = "", headers: Headers = (), timeout_s: float
) -> Callable[[Backend], Awaitable[str | None]]:
    """How to ask a backend of *kind*: GraphDB for its size (a number it keeps), all others for counts of triples.

    QLever answers COUNT from its index, others scan for it. Its delta counts (inserted and deleted triples) stand only in the
    answers to updates, which the proxy sees anyway.
    Args:
        headers: host and credential.
    """

    async def by_size(backend: Backend) -> str | None:
        target = f"/repositories/{quote(repository, safe='')}/size".encode("ascii")
        response = await backend.send(BackendRequest("GET", target, [*headers, (b"accept", b"text/plain")]))
        status = response.status
        try:
            body = b"".join([piece async for piece in response.chunks()])
        finally:
            await response.aclose()
        if status != 200:
            shown = body[:200].decode("utf-8", "replace")
            raise BackendRefused("no size", backend=backend.name, status=status, body=shown)
        return f"size {body.decode('ascii', 'replace').strip()}"

    async def by_count(backend: Backend) -> str | None:
        counts = []
        for query in (COUNT, COUNT_GRAPHS):
            rows = (await backend.select(query, timeout_s=timeout_s)).rows
            if len(rows) != 1 or len(rows[0]) != 1:
                raise BackendGarbled(f"{backend.name} answered COUNT with {len(rows)} rows, not one", backend=backend.name)
            n = rows[0][0]
            counts.append(n.lexical if isinstance(n, Literal) else "")
        return " ".join(["count", *counts])

    return by_size if kind == "graphdb" else by_count
