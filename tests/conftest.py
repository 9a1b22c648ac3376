"""For all tests: no index file in the working directory, be it left or found; no logging that outlives its test."""

from collections.abc import Iterator

import pytest
import structlog

from proxy.config import IndexSettings

_DEFAULT = IndexSettings().directory


@pytest.fixture(autouse=True)
def memory_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a test does not name a directory for the index, it has none; in child processes too."""
    from proxy import indexing

    place = indexing.archive_path

    def placed(config, name):
        return None if config.index.directory == _DEFAULT else place(config, name)

    monkeypatch.setattr(indexing, "archive_path", placed)
    monkeypatch.setenv("SPARLANCE_INDEX_DIRECTORY", "")


@pytest.fixture(autouse=True)
def forget_logging() -> Iterator[None]:
    """A command run in this process sets a level; the next test's capture would not see what lies below it."""
    yield
    structlog.reset_defaults()
