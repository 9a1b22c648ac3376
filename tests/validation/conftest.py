"""The library graph and its index, once for all rule tables."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))  # graphs.py and queries.py, beside the tests that use them

from graphs import index_of, store_of  # noqa: E402

from proxy.index.support import Vocabulary  # noqa: E402

NS = "http://library.example/"
VOCABULARY = Vocabulary(
    labels={NS + "Author": (("author", "en"),), NS + "Branch": (("branch library", "en"),)},
    superclasses={
        NS + "Novel": (NS + "Work",),
        NS + "Atlas": (NS + "Work",),
        NS + "Author": (NS + "Person",),
        NS + "Member": (NS + "Person",),
    },
    declared_classes=frozenset((NS + "Work", NS + "Person")),
)


@pytest.fixture(scope="session")
def library():
    return store_of((HERE.parent / "data" / "library.ttl").read_text())


@pytest.fixture(scope="session", params=[True, False], ids=["exact kinds", "single classes"])
def index(request, library):
    return index_of(library, exact=request.param, vocabulary=VOCABULARY)


@pytest.fixture(scope="session")
def exact_index(library):
    return index_of(library, vocabulary=VOCABULARY)
