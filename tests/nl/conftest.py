"""A repair café, small enough to answer by hand, and an engine over it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pyoxigraph as ox
import pytest

from proxy.backends.embedded import EmbeddedBackend
from proxy.config import Config, NlSettings
from proxy.nl.engine import QuestionEngine
from proxy.nl.onnx import OnnxEncoder
from proxy.pipeline.distil import distil
from proxy.query.operation import Question

CAFE = """
@prefix : <http://cafe.example/terms/> .
@prefix d: <http://cafe.example/data/> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:Volunteer a owl:Class ; rdfs:label "volunteer"@en, "bénévole"@fr .
:Appliance a owl:Class ; rdfs:label "appliance"@en .
:Repair a owl:Class ; rdfs:label "repair"@en .
:Town a owl:Class ; rdfs:label "town"@en .
d:anna a :Volunteer ; :fullName "Anna Holm" ; :age 34 ; :livesIn d:aarhus ; :skill "soldering" .
d:bo a :Volunteer ; :fullName "Bo Lind" ; :age 61 ; :livesIn d:odense ; :skill "sewing" .
d:cem a :Volunteer ; :fullName "Cem Kaya" ; :age 28 ; :livesIn d:aarhus ; :skill "soldering" .
d:dina a :Volunteer ; :fullName "Dina Roth" ; :age 45 ; :livesIn d:ribe ; :skill "joinery" .
d:aarhus a :Town ; :townName "Aarhus" ; :population 280000 .
d:odense a :Town ; :townName "Odense" ; :population 180000 .
d:ribe a :Town ; :townName "Ribe" ; :population 8000 .
d:toaster a :Appliance ; :model "Toastmaster 2" ; :weightKg 1.8 ; :yearMade 2011 .
d:lamp a :Appliance ; :model "Bright Eye" ; :weightKg 0.9 ; :yearMade 2019 .
d:radio a :Appliance ; :model "Wave 7" ; :weightKg 2.6 ; :yearMade 1987 .
d:kettle a :Appliance ; :model "Steamer" ; :weightKg 1.2 ; :yearMade 2015 .
d:r1 a :Repair ; :repairOf d:toaster ; :doneBy d:anna ; :costs 4.5 ; :finishedOn "2024-03-02"^^xsd:date .
d:r2 a :Repair ; :repairOf d:lamp ; :doneBy d:anna ; :costs 12.0 ; :finishedOn "2024-05-11"^^xsd:date .
d:r3 a :Repair ; :repairOf d:radio ; :doneBy d:bo ; :costs 30.0 ; :finishedOn "2025-01-20"^^xsd:date .
d:r4 a :Repair ; :repairOf d:radio ; :doneBy d:cem ; :costs 8.0 ; :finishedOn "2025-02-14"^^xsd:date .
"""

TABLES = """
@prefix : <http://shop.example/db/> .
@prefix shop: <http://shop.example/db/shop#> .
@prefix clerk: <http://shop.example/db/clerk#> .
<http://shop.example/db/shop/shop_id=1> a :shop ; shop:shopname "North" ; shop:city "Turku" .
<http://shop.example/db/shop/shop_id=2> a :shop ; shop:shopname "South" ; shop:city "Oulu" .
<http://shop.example/db/shop/shop_id=3> a :shop ; shop:shopname "East" ; shop:city "Oulu" .
<http://shop.example/db/clerk/clerk_id=1> a :clerk ; clerk:fname "Ida" ; clerk:salary 2100 ;
  clerk:ref-shop_id <http://shop.example/db/shop/shop_id=1> .
<http://shop.example/db/clerk/clerk_id=2> a :clerk ; clerk:fname "Jon" ; clerk:salary 2600 ;
  clerk:ref-shop_id <http://shop.example/db/shop/shop_id=2> .
<http://shop.example/db/clerk/clerk_id=3> a :clerk ; clerk:fname "Kai" ; clerk:salary 1900 ;
  clerk:ref-shop_id <http://shop.example/db/shop/shop_id=2> .
"""


@pytest.fixture(scope="session")
def encoder() -> OnnxEncoder:
    return OnnxEncoder(threads=1)


def store_of(turtle: str) -> ox.Store:
    store = ox.Store()
    store.load(turtle.encode(), ox.RdfFormat.TURTLE)
    return store


def engine_of(store: ox.Store, encoder: OnnxEncoder, nl: NlSettings | None = None) -> QuestionEngine:
    settings = Config()

    async def read() -> QuestionEngine:
        backend = EmbeddedBackend(store)
        found = await distil(backend, settings.index)
        await backend.aclose()
        return QuestionEngine(found.index, found.values, encoder, nl or settings.nl)

    return asyncio.run(read())


@pytest.fixture(scope="session")
def cafe_store() -> ox.Store:
    return store_of(CAFE)


@pytest.fixture(scope="session")
def cafe(cafe_store: ox.Store, encoder: OnnxEncoder) -> QuestionEngine:
    return engine_of(cafe_store, encoder)


@pytest.fixture(scope="session")
def tables_store() -> ox.Store:
    return store_of(TABLES)


@pytest.fixture(scope="session")
def tables(tables_store: ox.Store, encoder: OnnxEncoder) -> QuestionEngine:
    return engine_of(tables_store, encoder)


def answer(engine: QuestionEngine, store: ox.Store, question: str) -> object:
    """Rows of the best candidate, as tuples of text; a bool for ASK."""
    best = engine.propose(Question(question)).candidates[0]
    result = store.query(best.sparql)
    if isinstance(result, ox.QueryBoolean):
        return bool(result)
    names = [v.value for v in result.variables]
    return [tuple(None if s[n] is None else s[n].value for n in names) for s in result]


Ask = Callable[[str], object]


@pytest.fixture
def ask_cafe(cafe: QuestionEngine, cafe_store: ox.Store) -> Ask:
    return lambda question: answer(cafe, cafe_store, question)


@pytest.fixture
def ask_tables(tables: QuestionEngine, tables_store: ox.Store) -> Ask:
    return lambda question: answer(tables, tables_store, question)
