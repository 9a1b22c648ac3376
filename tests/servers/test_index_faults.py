"""Over a real connection: whatever an answer lacks, each triple is in a cell of the index or in a chunk that is incomplete."""

from __future__ import annotations

import dataclasses

import pyoxigraph as ox
import pytest

from proxy.pipeline.distil import Distilled
from tests.pipeline.test_distil import plain, true_cells
from tests.servers.every import running
from tests.servers.graphdb import Graphdb, GraphdbFaults
from tests.servers.qlever import Qlever
from tests.servers.test_distil import build, expected

EX = "http://e.example/"
TURTLE = f"""@prefix : <{EX}> .
:a a :Mill , :Old ; :by :river ; :name "A"@en , "B" ; :height 12 . :b a :Mill ; :by :sea ; :name "C" ; :near :a .
:river a :Water ; :name "Long"@en . :sea a :Water . :u :near :a ; :note "untyped" ."""
FILLER = "".join(f"<{EX}n{i}> <{EX}filler> {i} .\n" for i in range(15_000))
"""Makes a download of more than the megabyte up to which QLever can still change its mind about the status."""


def require_cover(made: Distilled, store: ox.Store) -> None:
    index = made.index
    seen = {(plain(c.subject), c.property, plain(c.object)) for c in map(index.cell, range(len(index.count)))}
    for s, p, o in true_cells(store)[0]:
        assert (s, p, o) in seen or not index.are_kinds_exact or not index.is_complete_for(s, [p]), (s, p, o)


@pytest.fixture
def store() -> ox.Store:
    found = ox.Store()
    found.load(TURTLE.encode(), ox.RdfFormat.TURTLE)
    return found


@pytest.mark.parametrize("after", [0, 40, 200, 330, 400])
@pytest.mark.parametrize("what", [b"Mill", b"Water", b"near", b"height", b"GROUP"])
@pytest.mark.parametrize("method", ["ask", "download"])
def test_answers_that_break_off(store: ox.Store, after: int, what: bytes, method: str) -> None:
    """A 200 whose body ends in the middle, for all queries about one thing."""
    with running("qlever", {"text/turtle": TURTLE}) as endpoint:
        server = endpoint.server
        assert isinstance(server, Qlever)
        server.faults.only_if, server.faults.die_after_bytes = what, after
        require_cover(build(endpoint, method=method), store)


def test_a_time_out_behind_a_200(store: ox.Store) -> None:
    """The error is text at the end of a long download, whose stream ends as it should; then the graph is asked for."""
    store.load(FILLER.encode(), ox.RdfFormat.TURTLE)
    with running("qlever", {"text/turtle": TURTLE + FILLER}) as endpoint:
        server = endpoint.server
        assert isinstance(server, Qlever)
        assert build(endpoint, method="download").method == "download"
        server.faults = dataclasses.replace(server.faults, export_error="Operation timed out.", only_if=b"CONSTRUCT")
        made = build(endpoint, method="download")
        assert made.method == "ask" and made.index.incomplete == ()
        require_cover(made, store)


@pytest.mark.parametrize("lie", ["empty", "partial", "truncated", "nothing", "reset"])
def test_time_outs_that_look_like_answers(lie: str) -> None:
    """GraphDB and RDF4J end a query over its limit with a 200: of no solutions, of half of them, of half a document."""
    with running("graphdb", {"text/turtle": TURTLE}) as endpoint:
        server = endpoint.server
        assert isinstance(server, Graphdb)
        there = expected(endpoint, union=True)
        server.faults = GraphdbFaults(only_if=b"near", compute_s=3.0, on_timeout=lie)
        made = build(endpoint, method="ask", chunk_timeout_s=1.0)
        require_cover(made, there)
        assert [c.property for c in made.index.incomplete] and not made.index.is_complete_for([], [f"{EX}near"])
