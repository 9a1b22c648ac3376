"""M of random S against the plain definition: every pair of a class of the subject and a class of the object."""

from __future__ import annotations

import random
import sys
from collections import defaultdict

import numpy as np
import pytest

from proxy.index.matrix import Matrix
from proxy.index.support import UNTYPED, Kind


def random_cells(seed: int):
    rng = random.Random(seed)
    classes, datatypes = [f"C{i}" for i in range(5)], ["x", "C1", "z"]  # a datatype may have the name of a class
    kinds = [UNTYPED, *{Kind(frozenset(rng.sample(classes, rng.randint(1, 3)))) for _ in range(6)}]
    kinds += [Kind(datatype=d) for d in datatypes[: rng.randint(0, 3)]]
    nodes = [i for i, k in enumerate(kinds) if not k.is_literal]
    properties = [f"p{i}" for i in range(rng.randint(1, 4))]
    keys = {(rng.choice(nodes), rng.randrange(len(properties)), rng.randrange(len(kinds))) for _ in range(rng.randint(0, 40))}
    return kinds, properties, [(*k, rng.randint(1, 9)) for k in sorted(keys)]


def by_definition(kinds, properties, cells):
    found = defaultdict(int)
    for s, p, o, n in cells:
        for c in kinds[s].classes or (None,):
            for d in (kinds[o].datatype,) if kinds[o].is_literal else (kinds[o].classes or (None,)):
                found[c, properties[p], d] += n
    return dict(found)


def made(kinds, properties, cells) -> Matrix:
    table = np.array(cells, dtype=np.int64).reshape(-1, 4)
    s, p, o = (table[:, i].astype(np.int32) for i in range(3))
    return Matrix(kinds, properties, s, p, o, table[:, 3])


@pytest.mark.parametrize("seed", range(30))
def test_it_is_the_projection(seed):
    """As a mapping, and by each way of looking into it."""
    kinds, properties, cells = random_cells(seed)
    matrix, wanted = made(kinds, properties, cells), by_definition(kinds, properties, cells)
    assert dict(matrix) == wanted and matrix == wanted and len(matrix) == len(wanted) and list(matrix) == list(dict(matrix))
    assert list(matrix.values()) == [n for _, n in matrix.items()]
    classes = {None, "C0", "C4", "unknown"} | {c for c, _, _ in wanted}
    for c in classes:
        of = defaultdict(int)
        for p in [*properties, "unknown"]:
            targets = {d: n for (sc, q, d), n in wanted.items() if (sc, q) == (c, p)}
            assert matrix.targets(c, p) == targets
            if targets:
                of[p] = sum(targets.values())
        assert matrix.properties_of(c) == of
    for d in classes | {"x", "C1"}:
        into = defaultdict(dict)
        for (sc, p, target), n in wanted.items():
            if target == d:
                into[p][sc] = n
        assert matrix.properties_into(d) == into
    assert (None, "unknown", None) not in matrix


def test_a_cell_takes_few_bytes():
    """The goal is 200; names, which S has too, left out."""
    kinds = [UNTYPED, *(Kind(frozenset([f"C{i}"])) for i in range(100))]
    cells = [(s, p, o, 1) for s in range(101) for p in range(20) for o in range(0, 101, 5)]
    matrix = made(kinds, [f"p{i}" for i in range(20)], cells)
    held = sum(sys.getsizeof(part) for part in (matrix._pair, matrix._target, matrix._count))
    assert len(matrix) == len(cells) and held / len(matrix) < 25
