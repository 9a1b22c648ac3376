"""A dataset while its index is built, fails, and is built again."""

import asyncio

import pyoxigraph as ox
import pytest

from proxy.backends.embedded import EmbeddedBackend
from proxy.config import load_config
from proxy.errors import BackendUnreachable
from proxy.pipeline.dataset import BuildState, Dataset
from proxy.pipeline.distil import distil

TURTLE = b"@prefix e: <http://e/> . e:a a e:C ; e:p 1 . e:b a e:D ; e:q e:a ."
CONFIG = load_config(None)


def backend() -> EmbeddedBackend:
    store = ox.Store()
    store.load(TURTLE, ox.RdfFormat.TURTLE)
    return EmbeddedBackend(store)


async def build(source, progress, epoch):
    return await distil(source, CONFIG.index, progress=progress, epoch=epoch)


def test_index_is_built_in_the_background():
    """Not ready at the start, and it says so; ready after, with a summary in numbers."""

    async def check():
        one = Dataset("d", backend(), CONFIG, distil=build)
        one.start()
        assert one.index is None and "being built" in one.reasons()[0]
        await one.built()
        assert one.reasons() == [] == await one.readiness()
        summary = one.summary()
        assert (summary["state"], summary["triples"], summary["builds"]) == ("ready", 4, 1)
        assert summary["classes"] == {"http://e/C": 1, "http://e/D": 1}
        assert one.index.epoch == 1
        await one.aclose()

    asyncio.run(check())


@pytest.mark.parametrize("fails", [False, True], ids=["well", "badly"])
def test_progress_is_shown_while_something_is_built(fails):
    """During a build its phase; before and after it nothing, however it ended, and so it is for a rebuild."""
    goes_on = asyncio.Event()

    async def slow(source, progress, epoch):
        progress("writing", 1, 2)
        await goes_on.wait()
        if fails:
            raise BackendUnreachable("nobody there", backend="x")
        return await build(source, progress, epoch)

    async def check():
        one = Dataset("d", backend(), CONFIG, distil=slow)
        assert one.summary()["progress"] is None
        one.start()
        while one.summary()["progress"] is None:
            await asyncio.sleep(0)
        assert one.summary()["progress"] == {"phase": "writing", "done": 1, "total": 2}
        goes_on.set()
        await one.built()
        assert one.summary()["progress"] is None
        await one.aclose()

    asyncio.run(check())


def test_failed_build_is_shown_and_tried_again():
    """A backend that is down at the start is a reason; once it is there, the index comes by itself."""
    calls = 0

    async def flaky(source, progress, epoch):
        nonlocal calls
        calls += 1
        if calls < 3:
            raise BackendUnreachable("nobody there", backend="x")
        return await build(source, progress, epoch)

    async def check():
        one = Dataset("d", backend(), CONFIG, distil=flaky, retry_first_s=0.02)
        one.start()
        await one.built()
        assert one.index_build.state is BuildState.FAILED and "nobody there" in one.reasons()[0]
        while one.index is None:
            await asyncio.sleep(0.01)
        assert one.reasons() == [] and calls == 3
        await one.aclose()

    asyncio.run(check())


def test_no_request_works_out_what_the_index_can_have_ready():
    """The projection of a large index takes a while: it is made before the index begins to serve."""

    async def check():
        one = Dataset("d", backend(), CONFIG, distil=build)
        one.start()
        await one.built()
        assert {"matrix", "class_instances", "_kinds_with_class"} <= vars(one.index).keys()
        await one.aclose()

    asyncio.run(check())


def test_refresh_ends_the_pause_after_a_failed_build():
    """Who has mended the backend and asks for a build need not wait for up to a minute; another change of the data does."""
    calls = 0

    async def flaky(source, progress, epoch):
        nonlocal calls
        calls += 1
        if calls == 1:
            raise BackendUnreachable("nobody there", backend="x")
        return await build(source, progress, epoch)

    async def check():
        one = Dataset("d", backend(), CONFIG, distil=flaky, retry_first_s=60.0)
        one.start()
        await one.built()
        assert one.index_build.state is BuildState.FAILED
        one.mark_stale()
        await asyncio.sleep(0.05)
        assert calls == 1
        one.refresh()
        async with asyncio.timeout(10):
            while one.index is None:
                await asyncio.sleep(0.01)
        await one.aclose()

    asyncio.run(check())


def test_stale_index_is_rebuilt_and_serves_meanwhile():
    """After a change the old index stays in place until the new one is there."""
    async def check():
        one = Dataset("d", backend(), CONFIG, distil=build, rebuild_pause_s=0.0, settle_s=0.02)
        one.start()
        await one.built()
        first = one.index
        one.mark_stale()
        assert one.is_stale and one.index is first and one.reasons() == []
        while one.index is first:
            await asyncio.sleep(0.01)
        assert one.index.epoch == 2 and not one.is_stale
        await one.aclose()

    asyncio.run(check())


def test_failing_engine_does_not_unsettle_the_index():
    """An engine that cannot be made is a reason; the index serves."""

    def make(index, values):
        raise OSError("no model")

    async def check():
        one = Dataset("d", backend(), CONFIG, distil=build, make_engine=make)
        one.start()
        await one.built()
        assert one.index is not None and one.engine is None
        assert one.reasons() == ["the question engine could not be built: no model"]
        await one.aclose()

    asyncio.run(check())


def test_without_index_there_is_nothing_to_wait_for():
    """The pure proxy is ready at once."""

    async def check():
        one = Dataset("d", backend(), CONFIG)
        one.start()
        await one.built()
        assert one.reasons() == [] and one.summary()["state"] == "off"
        await one.aclose()

    asyncio.run(check())
