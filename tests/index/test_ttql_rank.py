"""The order of classes: reciprocal ranks, ties, schema classes."""

import numpy as np
import pytest

from proxy.index.support import Kind, SupportIndex
from proxy.index.ttql_rank import competition_ranks, has_subjects_without_class, ranked, scores
from proxy.query.term import OWL, RDF_TYPE


def index(cells: list[tuple[str | None, str, str | None]], instances: dict[str, int]) -> SupportIndex:
    """An index with one triple for each of *cells* (a target ``^^d`` is a datatype)."""

    def kind(name: str | None) -> Kind:
        if name is None:
            return Kind()
        return Kind(datatype=name[2:]) if name.startswith("^^") else Kind(frozenset([name]))

    kinds = list(dict.fromkeys([kind(c) for c in instances] + [kind(x) for s, _, o in cells for x in (s, o)]))
    properties = sorted({p for _, p, _ in cells})
    return SupportIndex(
        kinds=kinds,
        instances=np.array([instances.get(next(iter(k.classes), ""), 0) for k in kinds], dtype=np.int64),
        properties=properties,
        subject=np.array([kinds.index(kind(s)) for s, _, _ in cells], dtype=np.int32),
        property_=np.array([properties.index(p) for _, p, _ in cells], dtype=np.int32),
        object_=np.array([kinds.index(kind(o)) for _, _, o in cells], dtype=np.int32),
        count=np.ones(len(cells), dtype=np.int64),
    )


CELLS = [
    ("Hub", "p1", "Leaf"),
    ("Hub", "p2", "Other"),
    ("Hub", "p3", "^^d"),
    ("Leaf", "q", "^^d"),
    ("Other", "q", "^^d"),
    ("Hub", RDF_TYPE, None),
    (None, "r", "^^d"),
]


def test_competition_ranks():
    """Equal values share a rank; the next one is skipped."""
    assert competition_ranks({"a": 5, "b": 9, "c": 5, "d": 1}) == {"b": 1, "a": 2, "c": 2, "d": 4}


def test_scores():
    """0.8/r_inst + 2.5/r_props + 2.2/r_nbr; neighbours in both directions; datatypes and the class predicate are none."""
    found = scores(index(CELLS, {"Hub": 1, "Leaf": 10, "Other": 10}))
    assert found == pytest.approx(
        {"Hub": 0.8 / 3 + 2.5 + 2.2, "Leaf": 0.8 + 2.5 / 2 + 2.2 / 2, "Other": 0.8 + 2.5 / 2 + 2.2 / 2}
    )


def test_order():
    """By score, ties by IRI, classes of the schema languages last whatever their score."""
    cells = [*CELLS, *((OWL + "Class", f"s{i}", "Leaf") for i in range(9))]
    assert ranked(index(cells, {"Other": 10, "Leaf": 10, "Hub": 1, OWL + "Class": 99})) == [
        "Hub",
        "Leaf",
        "Other",
        OWL + "Class",
    ]


def test_subjects_without_class():
    """Their own block is worth it only if they say more than their class, which they have not."""
    assert has_subjects_without_class(index(CELLS, {"Hub": 1}))
    assert not has_subjects_without_class(index([(None, RDF_TYPE, None)], {"Hub": 1}))
