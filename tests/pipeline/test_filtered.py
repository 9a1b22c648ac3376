"""Bodies through the filters of plugins, and against the clock: what is passed on, and when it is broken off."""

import asyncio
import time

import pytest

from proxy.errors import BackendTimeout, PluginError
from proxy.pipeline.exchange import Exchange
from proxy.pipeline.filtered import FilteredResponse, HurriedResponse
from proxy.plugin.chain import LoadedPlugin, PluginChain
from proxy.plugin.hooks import Plugin


class Response:
    """A body in *pieces*, *pause_s* before each."""

    def __init__(self, *pieces: bytes, headers=(), status: int = 200, pause_s: float = 0.0) -> None:
        self.status = status
        self.headers = list(headers)
        self.pieces = pieces
        self.pause_s = pause_s
        self.is_closed = False

    async def chunks(self):
        for piece in self.pieces:
            await asyncio.sleep(self.pause_s)
            yield piece

    async def aclose(self):
        self.is_closed = True


class Upper:
    def feed(self, chunk: bytes) -> bytes:
        return chunk.upper()

    def close(self) -> bytes:
        return b"!"


class Shouting(Plugin):
    def __init__(self, *, may_refuse: bool) -> None:
        self.may_refuse = may_refuse

    def body(self, exchange):
        return Upper()


def filters(*, may_refuse: bool = True):
    plugin = LoadedPlugin("p", Shouting(may_refuse=may_refuse))
    return asyncio.run(PluginChain([plugin]).body(Exchange("r")))


def read(response) -> bytes:
    async def steps():
        return b"".join([piece async for piece in response.chunks()])

    return asyncio.run(steps())


FIELDS = [(b"content-type", b"text/csv"), (b"content-length", b"4"), (b"etag", b'"x"'), (b"vary", b"accept")]


def test_a_changed_body_has_no_fields_of_the_old_one():
    """Its length and its validators would be wrong of it; all others stay."""
    response = FilteredResponse(Response(b"ab", b"cd", headers=FIELDS), filters())
    assert (read(response), response.headers) == (b"ABCD!", [FIELDS[0], FIELDS[3]])


def test_a_watched_body_stays_as_it_is():
    """With all its fields."""
    response = FilteredResponse(Response(b"ab", b"cd", headers=FIELDS), filters(may_refuse=False))
    assert (read(response), response.headers) == (b"abcd", FIELDS)


@pytest.mark.parametrize(
    ("fields", "status"), [([(b"content-encoding", b"gzip")], 200), ([(b"content-encoding", b"br")], 200), ([], 206)]
)
def test_a_body_that_cannot_be_read_is_not_passed_on(fields, status):
    """A guard that sees only compressed bytes, or a part, guards nothing."""
    with pytest.raises(PluginError, match="plugin p cannot read this body"):
        FilteredResponse(Response(headers=fields, status=status), filters())
    FilteredResponse(Response(headers=fields, status=status), filters(may_refuse=False))


def test_closing_reaches_the_backend():
    """A client that leaves ends the query."""
    inner = Response()
    asyncio.run(FilteredResponse(inner, filters()).aclose())
    assert inner.is_closed


def hurried(inner: Response, limit_s: float) -> HurriedResponse:
    return HurriedResponse(inner, deadline=time.perf_counter() + limit_s, limit_s=limit_s, backend="b")


def test_what_is_in_time_is_passed_on():
    """Byte for byte, with its fields."""
    response = hurried(Response(b"ab", b"cd", headers=FIELDS), 30)
    assert (read(response), response.headers) == (b"abcd", FIELDS)


def test_a_body_that_takes_too_long_is_broken_off():
    """Whether it is silent or trickles: the time counts until the last byte."""
    for inner in (Response(b"ab", pause_s=20), Response(*[b"a"] * 1000, pause_s=0.005)):
        started = time.perf_counter()
        with pytest.raises(BackendTimeout, match=r"b had 0\.05 s") as caught:
            read(hurried(inner, 0.05))
        assert caught.value.limit == "plugin" and time.perf_counter() - started < 10
