"""The backend's service description, with the address of the endpoint made ours (SPARQL 1.1 Service Description, 3.1).

Clients take ``sd:endpoint`` for the place to send queries to. An address of the backend's there would lead them past us, or
nowhere.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection

from proxy.backends.base import BackendResponse, Headers
from proxy.query.formats import GRAPH_FORMATS

LIMIT_BYTES = 1 << 20
"""A description beyond this is passed as it is: it is data."""
_TYPES = frozenset(media.encode("ascii") for offer in GRAPH_FORMATS for media in offer.accepts)


class Readdressed:
    """A response read as a whole, or (beyond the limit) as it comes."""

    def __init__(self, response: BackendResponse, start: bytes, headers: Headers, rest: AsyncIterator[bytes] | None) -> None:
        self._response = response
        self._start = start
        self._rest = rest
        self.status = response.status
        self.headers = headers
        self.is_complete = False

    async def chunks(self) -> AsyncIterator[bytes]:
        self.is_complete = self._rest is None
        if self._start:
            yield self._start
        if self._rest is not None:
            async for piece in self._rest:
                yield piece

    async def aclose(self) -> None:
        await self._response.aclose()


async def readdress(response: BackendResponse, theirs: Collection[str], ours: str) -> BackendResponse:
    """Return *response* with each of the addresses *theirs* replaced by *ours*, if it is a description at all.

    Raises:
        BackendError: as ``response.chunks``; the response is then closed.
    """
    fields = dict(response.headers)
    media = fields.get(b"content-type", b"").partition(b";")[0].strip().lower()
    coding = fields.get(b"content-encoding", b"identity").lower()
    if response.status != 200 or media not in _TYPES or coding != b"identity":
        return response
    try:
        pieces, size, chunks = [], 0, response.chunks()
        async for piece in chunks:
            pieces.append(piece)
            size += len(piece)
            if size > LIMIT_BYTES:
                return Readdressed(response, b"".join(pieces), response.headers, chunks)
    except BaseException:
        await response.aclose()
        raise
    body = replace_addresses(b"".join(pieces), theirs, ours)
    headers = [field for field in response.headers if field[0] not in (b"content-length", b"etag")]
    return Readdressed(response, body, [*headers, (b"content-length", b"%d" % len(body))], None)


def replace_addresses(document: bytes, theirs: Collection[str], ours: str) -> bytes:
    """Replace whole IRIs only: what goes on behind an address is another IRI."""
    wanted = b"|".join(re.escape(address.encode("utf-8")) for address in sorted(theirs, key=len, reverse=True) if address)
    if not wanted:
        return document
    return re.sub(b"(?<=[<\"'])(?:" + wanted + b")(?=[>\"'])", lambda _: ours.encode("utf-8"), document)
