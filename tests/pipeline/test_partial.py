"""After an update of some properties, reading only these anew gives what a whole build gives."""

from __future__ import annotations

import asyncio
import random

import pyoxigraph as ox
import pytest

from proxy.config import IndexSettings
from proxy.index.nodes import UNKNOWN_KIND, Features
from proxy.index.support import SupportIndex
from proxy.pipeline.distil import distil
from proxy.pipeline.partial import redistil
from proxy.query.term import RDF_TYPE
from tests.pipeline.test_distil import EX, over, random_graph, seen_cells
from tests.pipeline.test_download import entries, pairs_by_name

SETTINGS = IndexSettings(values_per_property=1000)


def change(store: ox.Store, rng: random.Random, properties: list[str]) -> None:
    """Add and take away triples of *properties* only."""
    for quad in list(store):
        if quad.predicate.value in properties and rng.random() < 0.5:
            store.remove(quad)
    for _ in range(6):
        s = ox.NamedNode(EX + f"n{rng.randrange(14)}")
        literals = [ox.Literal("new text"), ox.Literal(5), ox.Literal("neu", language="de")]
        o = rng.choice([ox.NamedNode(EX + f"n{rng.randrange(14)}"), *literals])
        store.add(ox.Quad(s, ox.NamedNode(rng.choice(properties)), o))


def number(features: Features, role: str, iri: str) -> int | None:
    return {"a": features.of_class, "of": features.of_subject, "to": features.of_object}[role](iri)


def same(a: SupportIndex, b: SupportIndex) -> bool:
    parts = "kinds properties multiplicity languages incomplete are_kinds_exact vocabulary"
    return a.instances.tolist() == b.instances.tolist() and all(getattr(a, n) == getattr(b, n) for n in parts.split())


@pytest.mark.parametrize("kind_cap", [1000, 2])
@pytest.mark.parametrize("seed", range(20))
def test_a_partial_build_is_a_whole_one(seed, kind_cap):
    """Cells, counts, multiplicities, languages, vocabulary and values; the old index is untouched."""
    rng = random.Random(seed)
    store = random_graph(seed)
    properties = [EX + f"p{i}" for i in rng.sample(range(7), 2)]

    async def run():
        old = await distil(over(store), SETTINGS, kind_cap=kind_cap)
        before = seen_cells(old), entries(old.values)
        change(store, rng, properties)
        part = await redistil(over(store), SETTINGS, old.index, old.values, properties, epoch=5)
        whole = await distil(over(store), SETTINGS, kind_cap=kind_cap)
        assert (seen_cells(old), entries(old.values)) == before
        return part, whole

    part, whole = asyncio.run(run())
    assert part is not None and part.index.epoch == 5
    assert seen_cells(part) == seen_cells(whole)
    # UNTYPED and datatypes may stay listed as kinds while a cell has them: both builds number the same kinds.
    assert same(part.index, whole.index)
    # what was deleted may stay in the tables; what is there must be
    for iri in (EX + f"n{i}" for i in range(14)):
        kind, known = whole.index.nodes.kind(iri), part.index.nodes.kind(iri)
        assert kind is None or known in (kind, UNKNOWN_KIND)
    known, now = part.index.features, whole.index.features
    for a, b in pairs_by_name(now) if now is not None and known is not None else ():
        numbers = [number(known, *f) for f in (a, b)]
        assert None in numbers or known.may_meet(*numbers)
    named = {k: n for k, n in entries(whole.values)[0].items() if k[3] is not None}
    assert {k: n for k, n in entries(part.values)[0].items() if k[3] is not None} == named
    assert entries(part.values)[1] == entries(whole.values)[1]
    for text in ("new text", "neu", "a"):
        wanted = {(e, s) for e, s in whole.values.search(text, 50) if e.property is not None}
        assert {(e, s) for e, s in part.values.search(text, 50) if e.property is not None} == wanted
    assert part.queries < whole.queries


def test_what_changes_kinds_needs_a_whole_build():
    """The class predicate; a subject of a class that was not there."""
    store = random_graph(2)

    async def run(property_: str):
        old = await distil(over(store), SETTINGS)
        if property_.startswith(EX):
            store.add(ox.Quad(ox.NamedNode(EX + "x"), ox.NamedNode(RDF_TYPE), ox.NamedNode(EX + "New")))
            store.add(ox.Quad(ox.NamedNode(EX + "x"), ox.NamedNode(property_), ox.Literal("v")))
        return await redistil(over(store), SETTINGS, old.index, old.values, [property_])

    assert asyncio.run(run(RDF_TYPE)) is None
    assert asyncio.run(run(EX + "p1")) is None
