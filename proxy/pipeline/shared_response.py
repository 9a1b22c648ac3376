"""What the leader and the followers of a shared request read."""

from __future__ import annotations

from collections.abc import AsyncIterator

from proxy.backends.base import BackendResponse, Headers
from proxy.pipeline.share import Share, State


class LedResponse:
    """What the leader reads: the chunks as they come."""

    __slots__ = ("_is_open", "_position", "_share")

    def __init__(self, share: Share) -> None:
        self._share = share
        self._position = 0
        self._is_open = True

    @property
    def status(self) -> int:
        assert self._share.response is not None
        return self._share.response.status

    @property
    def headers(self) -> Headers:
        assert self._share.response is not None
        return self._share.response.headers

    @property
    def is_complete(self) -> bool:
        share = self._share
        if share.is_spent:
            return getattr(share.response, "is_complete", False)
        return share.state is State.COMPLETE and self._position >= len(share.chunks)

    async def chunks(self) -> AsyncIterator[bytes]:
        share = self._share
        while True:
            while self._position < len(share.chunks):
                chunk = share.chunks[self._position]
                self._position += 1
                share.taken += len(chunk)
                share.ask_for_more()
                yield chunk
            match share.state:
                case State.PENDING:
                    await share.leader_turn()
                case State.COMPLETE:
                    await self.aclose()
                    return
                case State.FAILED:
                    assert share.error is not None
                    raise share.error.with_traceback(None)
                case State.OVERFLOWED:
                    break
        # Nobody shares it any more: from here on it is read as if alone.
        share.is_spent = True
        share.drop_chunks()
        assert share.response is not None
        async for chunk in share.response.chunks() if share.source is None else share.source:
            yield chunk
        await self.aclose()

    async def aclose(self) -> None:
        if self._is_open:
            self._is_open = False
            share = self._share
            share.leave_leader()
            if share.is_spent and share.response is not None:
                await share.response.aclose()


class JoinedResponse:
    """What a follower reads: a complete answer, from memory."""

    __slots__ = ("_chunks", "_is_open", "_share", "headers", "is_complete", "status")

    def __init__(self, share: Share) -> None:
        assert share.response is not None
        self._share = share
        self._chunks = share.chunks
        self._is_open = True
        self.is_complete = False
        self.status = share.response.status
        self.headers: Headers = share.response.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        last = len(self._chunks) - 1
        for i, chunk in enumerate(self._chunks):
            self.is_complete = i == last
            yield chunk
        await self.aclose()

    async def aclose(self) -> None:
        if self._is_open:
            self._is_open = False
            self._share.leave_follower()


def is_joined(response: BackendResponse) -> bool:
    """Whether *response* came by joining another request."""
    return isinstance(response, JoinedResponse)
