"""Ways of speaking that meet the vocabulary only halfway: words run together, verbs for nouns, units, absence, and the kind of
thing that is asked for."""

from __future__ import annotations

import pyoxigraph as ox
import pytest

from proxy.nl.engine import QuestionEngine
from proxy.nl.onnx import OnnxEncoder
from tests.nl.conftest import answer, engine_of, store_of

SEEDS = """
@prefix : <http://seeds.example/terms/> .
@prefix d: <http://seeds.example/data/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
d:bean a :SeedPacket ; rdfs:label "Early Bean" ; :weight 20 ; :price 3 ; :packedOn "2019-01-02"^^xsd:date ; :packedAt d:vik ;
  :kind "bush bean" ; :grownBy d:tora ; :website <http://bean.example/> .
d:leek a :SeedPacket ; rdfs:label "Winter Leek" ; :weight 5 ; :price 4 ; :packedOn "2021-06-01"^^xsd:date ; :packedAt d:nes ;
  :kind "leek" ; :grownBy d:liv ; :website <http://leek.example/> .
d:pea a :SeedPacket ; rdfs:label "Sweet Pea" ; :weight 12 ; :price 7 ; :packedOn "2020-03-09"^^xsd:date ; :packedAt d:vik ;
  :kind "shelling pea" ; :grownBy d:tora .
d:kale a :SeedPacket ; rdfs:label "Black Kale" ; :weight 4 ; :price 2 ; :packedOn "2018-11-30"^^xsd:date ; :packedAt d:vik ;
  :kind "kale" ; :grownBy d:tora .
d:tora a :Grower ; rdfs:label "Tora Vang" ; :apprenticeOf d:liv ; :phone "11" .
d:liv a :Grower ; rdfs:label "Liv Dahl" ; :phone "12" .
d:odd a :Grower ; rdfs:label "Odd Berg" ; :apprenticeOf d:tora .
d:vik a :Town ; rdfs:label "Vik" .
d:nes a :Town ; rdfs:label "Nes" .
"""

QUESTIONS = [
    ("Which seedpackets weigh more than 10 grams?", {("Early Bean",), ("Sweet Pea",)}),
    ("Which seed-packets cost less than $4?", {("3",), ("2",)}),
    ("Which seed packets are bush beans?", {("Early Bean",)}),
    ("Which seed packets have 'ea' in their names?", {("Early Bean",), ("Sweet Pea",)}),
    ("Which seed packet was packed most recently?", {("Winter Leek",)}),
    ("When was the Early Bean packed?", {("2019-01-02",)}),
    ("Where was the Winter Leek packed?", {("Nes",)}),
    ("What is the website of the Early Bean?", {("http://bean.example/",)}),
    ("Who is an apprentice of Liv Dahl?", {("Tora Vang",)}),
    ("Which growers have no phone?", {("Odd Berg",)}),
    ("Which grower grows nothing?", {("Odd Berg",)}),
    ("In how many towns were seed packets packed?", {("2",)}),
    (
        "What is the average price of different kinds of seed packets?",
        {("bush bean", "3"), ("kale", "2"), ("leek", "4"), ("shelling pea", "7")},
    ),
]


@pytest.fixture(scope="module")
def store() -> ox.Store:
    return store_of(SEEDS)


@pytest.fixture(scope="module")
def engine(store: ox.Store, encoder: OnnxEncoder) -> QuestionEngine:
    return engine_of(store, encoder)


@pytest.mark.parametrize(("question", "rows"), QUESTIONS, ids=[q for q, _ in QUESTIONS])
def test_phrasing(engine: QuestionEngine, store: ox.Store, question: str, rows: set[tuple[str, ...]]) -> None:
    """Each is answered by the first candidate with the rows that a person would give."""
    found = answer(engine, store, question)
    assert isinstance(found, list)
    assert set(found) == rows


@pytest.mark.parametrize("order", ["in descending order of count", "ordered by ascending count"])
def test_the_count_that_is_shown_sorts(engine: QuestionEngine, store: ox.Store, order: str) -> None:
    """ "Ordered by count" sorts by the count that is asked for."""
    rows = [("Tora Vang", "3"), ("Liv Dahl", "1")]
    found = answer(engine, store, f"Show the number of seed packets for each grower {order}.")
    assert found == (rows if "descending" in order else rows[::-1])
