"""What a backend says of the state of its data."""

from __future__ import annotations

import asyncio

import pytest

from proxy.backends.base import Solutions
from proxy.backends.marker import change_marker
from proxy.errors import BackendGarbled
from proxy.query.term import Literal

ONE = (Literal("1"),)


class Counter:
    """Answers every query with *rows*."""

    name = "counter"

    def __init__(self, *rows) -> None:
        self.rows = rows

    async def select(self, query, **more):
        return Solutions(("n",), list(self.rows))


@pytest.mark.parametrize("rows", [(), (ONE, ONE), ((),)], ids=["none", "two", "no column"])
def test_a_count_that_is_not_one_number_is_garbled(rows):
    """An endpoint that answers COUNT against the rules is told so, by name."""
    with pytest.raises(BackendGarbled, match="counter"):
        asyncio.run(change_marker("sparql", timeout_s=1.0)(Counter(*rows)))


def test_counts():
    """Triples, then those in named graphs."""
    assert asyncio.run(change_marker("sparql", timeout_s=1.0)(Counter(ONE))) == "count 1 1"
