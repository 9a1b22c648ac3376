"""Which IRIs are nodes: never absent by mistake, whatever way they are written or the table came about."""

import random
from itertools import combinations

import numpy as np
import pytest

from proxy.index.nodes import UNKNOWN_KIND, Features, NodeTable, comparable, fingerprint, pairs_of

SAME = {
    "case of the scheme": ("HTTP://e.org/a", "http://e.org/a"),
    "case of the host": ("http://E.org/a", "http://e.org/a"),
    "default port": ("http://e.org:80/a", "http://e.org/a"),
    "percent-encoding": ("http://e.org/a%7Eb", "http://e.org/a~b"),
    "case of an escape": ("http://e.org/%c3%a9", "http://e.org/%C3%A9"),
    "an escape and its character": ("http://e.org/%C3%A9", "http://e.org/é"),
    "composed and decomposed": ("http://e.org/e\u0301", "http://e.org/\u00e9"),
    "dot segments": ("http://e.org/x/../a/./b", "http://e.org/a/b"),
    "an empty path": ("http://e.org", "http://e.org/"),
    "an empty path before a fragment": ("http://E.org/#a", "http://e.org#a"),
}
OTHER = [("http://e.org/a", "http://e.org/A"), ("http://e.org/a", "http://e.org/a/"), ("http://e.org/a", "https://e.org/a")]


@pytest.mark.parametrize(("a", "b"), SAME.values(), ids=SAME)
def test_what_an_engine_may_take_for_the_same_is_the_same(a, b):
    """RFC 3987, section 5.3: all of it, though engines do less."""
    assert fingerprint(a) == fingerprint(b)


@pytest.mark.parametrize(("a", "b"), OTHER)
def test_what_every_engine_tells_apart_is_told_apart(a, b):
    assert fingerprint(a) != fingerprint(b)


def test_both_ways_through_give_the_same():
    """An IRI that is in its comparable form already, by the looks of it, is what taking it apart makes of it."""
    rng = random.Random(1)
    parts = ["http:", "urn:", "//", "/", "..", ".", "e", "E", "?", "#", "a", ":80", "é", "e\u0301", "@"]
    for _ in range(20_000):
        scheme, rest = rng.choice(("http", "x")), "".join(rng.choices(parts, k=rng.randint(1, 8)))
        assert comparable(f"{scheme}:{rest}") == comparable(f"{scheme.upper()}:{rest}")


def test_no_node_is_absent_and_strangers_are():
    """Of 50,000 IRIs that are nodes none is missed; of as many that are none, at most a few in 2³² / n are taken for one."""
    kinds = {f"http://e.org/resource/{i:x}": i % 7 for i in range(50_000)}
    table = NodeTable.of_iris(kinds)
    assert all(table.kind(iri) in (kind, UNKNOWN_KIND) for iri, kind in kinds.items())
    assert sum(table.kind(f"http://e.org/stranger/{i:x}") is not None for i in range(50_000)) <= 5
    assert table.kinds.nbytes + table.prints.nbytes <= 6 * len(kinds)


def test_nodes_that_share_a_fingerprint_have_no_known_kind():
    """``%41`` and ``A`` may be two nodes of two kinds; neither kind may be said of the other."""
    table = NodeTable.of_iris({"http://e.org/A": 3, "http://e.org/%41": 5, "http://e.org/b": 2, "http://e.org/c": -1})
    assert (table.kind("http://e.org/A"), table.kind("http://e.org/b")) == (UNKNOWN_KIND, 2)
    assert table.kind("http://e.org/c") == UNKNOWN_KIND
    assert table.kind("http://e.org/d") is None


def test_an_empty_table_knows_that_nothing_is_there():
    assert NodeTable.of_iris({}).kind("http://e.org/a") is None


@pytest.mark.parametrize("seed", range(5))
def test_pairs_are_those_of_single_nodes(seed):
    rng = random.Random(seed)
    own = {n: set(rng.sample(range(12), rng.randint(0, 5))) for n in range(40)}
    entries = [(n, f) for n, found in own.items() for f in found]
    rng.shuffle(entries)
    table = np.array(entries, dtype=np.int64).reshape(-1, 2)
    pairs = pairs_of(table[:, 0], table[:, 1], 12)
    assert pairs is not None
    expected = {pair for found in own.values() for pair in combinations(sorted(found), 2)}
    assert {divmod(int(k), 12) for k in pairs} == expected
    features = Features([f"c{i}" for i in range(4)], [f"p{i}" for i in range(4)], pairs)
    assert features.size == 12
    for a, b in combinations(range(12), 2):
        assert features.may_meet(a, b) == features.may_meet(b, a) == ((a, b) in expected)
    assert features.without(["p0"]).may_meet(4, 0) and features.without(["p0"]).may_meet(8, 1)


def test_too_many_pairs_are_none(monkeypatch):
    monkeypatch.setattr("proxy.index.nodes.PAIRS_MOST", 100)
    nodes, features = np.zeros(40, dtype=np.int64), np.arange(40, dtype=np.int64)
    assert pairs_of(nodes, features, 40) is None
