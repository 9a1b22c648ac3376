"""For all tests: no index file is left in the working directory, and none of an earlier run is found there."""

import pytest

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
