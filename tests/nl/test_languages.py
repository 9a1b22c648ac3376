"""German, French and Spanish questions over a graph whose schema has labels in those languages; the data have none."""

from __future__ import annotations

import json
from importlib import resources

import pyoxigraph as ox
import pytest

from proxy.nl.engine import QuestionEngine
from proxy.nl.languages import language_of, shipped
from proxy.nl.onnx import OnnxEncoder
from proxy.nl.words import tokenize
from proxy.query.operation import Question
from tests.nl.conftest import answer, engine_of, store_of

PORTS = """
@prefix : <http://ports.example/terms/> .
@prefix d: <http://ports.example/data/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
:C1 a owl:Class ; rdfs:label "ship"@en, "Schiff"@de, "navire"@fr, "barco"@es .
:C2 a owl:Class ; rdfs:label "harbour"@en, "Hafen"@de, "port"@fr, "puerto"@es .
:P1 rdfs:label "length"@en, "Länge"@de, "longueur"@fr, "eslora"@es .
:P2 rdfs:label "home port"@en, "Heimathafen"@de, "port d'attache"@fr, "puerto base"@es .
:P3 rdfs:label "depth"@en, "Tiefe"@de, "profondeur"@fr, "profundidad"@es .
:P4 rdfs:label "cargo"@en, "Ladung"@de, "cargaison"@fr, "carga"@es .
d:a a :C1 ; rdfs:label "Alba" ; :P1 120 ; :P2 d:x ; :P4 "Getreide" .
d:b a :C1 ; rdfs:label "Brisa" ; :P1 80 ; :P2 d:x ; :P4 "Kohle" .
d:c a :C1 ; rdfs:label "Corona" ; :P1 200 ; :P2 d:y ; :P4 "Kohle" .
d:x a :C2 ; rdfs:label "Norden" ; :P3 12 .
d:y a :C2 ; rdfs:label "Vigo" ; :P3 25 .
d:z a :C2 ; rdfs:label "Brest" ; :P3 30 .
"""

LONG = {("Alba",), ("Corona",)}
PER_PORT = {("Norden", "2"), ("Vigo", "1")}
QUESTIONS = [
    ("Wie viele Schiffe gibt es?", {("3",)}),
    ("Welche Schiffe sind länger als 100?", LONG),
    ("Welches ist das längste Schiff?", {("Corona",)}),
    ("Welcher Hafen ist am tiefsten?", {("Brest",)}),
    ("Zeige die Länge von Brisa.", {("80",)}),
    ("Welche Häfen haben keine Schiffe?", {("Brest",)}),
    ("Wie viele Schiffe gibt es pro Heimathafen?", PER_PORT),
    ("Welche Schiffe haben die Ladung Kohle?", {("Brisa",), ("Corona",)}),
    ("Combien de navires y a-t-il ?", {("3",)}),
    ("Quels navires ont une longueur supérieure à 100 ?", LONG),
    ("Quel est le port le plus profond ?", {("Brest",)}),
    ("Quels ports n'ont pas de navires ?", {("Brest",)}),
    ("Quel est le port d'attache de Corona ?", {("Vigo",)}),
    ("¿Cuántos barcos hay?", {("3",)}),
    ("¿Qué barcos tienen una eslora mayor que 100?", LONG),
    ("¿Cuál es el puerto más profundo?", {("Brest",)}),
    ("¿Qué puertos no tienen barcos?", {("Brest",)}),
    ("¿Cuál es el puerto base de Alba?", {("Norden",)}),
    ("¿Cuántos barcos hay por cada puerto base?", PER_PORT),
]
AVERAGES = [
    "Wie groß ist die durchschnittliche Länge der Schiffe?",
    "Quelle est la longueur moyenne des navires ?",
    "¿Cuál es la eslora media de los barcos?",
]


@pytest.fixture(scope="module")
def store() -> ox.Store:
    return store_of(PORTS)


@pytest.fixture(scope="module")
def engine(store: ox.Store, encoder: OnnxEncoder) -> QuestionEngine:
    return engine_of(store, encoder)


@pytest.mark.parametrize(("question", "rows"), QUESTIONS, ids=[q for q, _ in QUESTIONS])
def test_lists_counts_extremes_comparisons_and_absence(
    engine: QuestionEngine, store: ox.Store, question: str, rows: set[tuple[str, ...]]
) -> None:
    """The same shapes are read as in English, and the labels of that language are linked."""
    found = answer(engine, store, question)
    assert isinstance(found, list)
    assert {tuple(sorted(r, reverse=True)) for r in found} == {tuple(sorted(r, reverse=True)) for r in rows}


@pytest.mark.parametrize("question", AVERAGES)
def test_an_adjective_behind_its_noun_is_an_aggregate_too(engine: QuestionEngine, store: ox.Store, question: str) -> None:
    """ "Longueur moyenne" is the average length."""
    found = answer(engine, store, question)
    assert isinstance(found, list)
    assert float(found[0][0]) == pytest.approx(400 / 3)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Welche Schiffe liegen im Hafen?", "de"),
        ("Quels sont les noms des ports ?", "fr"),
        ("¿Cuáles son los nombres de los puertos?", "es"),
        ("Cuales son los nombres de los puertos", "es"),
        ("Which players come from Die, and which from La Paz?", None),
        ("List the names of all ships in Los Angeles.", None),
        ("ships", None),
    ],
)
def test_the_language_is_found_out(text: str, code: str | None) -> None:
    """By its words of grammar, with accents or without; names of places make nothing foreign."""
    found = language_of(tokenize(text))
    assert (found.code if found is not None else None) == code


def test_what_is_said_of_the_language_counts_more() -> None:
    """A BCP 47 tag is believed; one that has no table is read as English."""
    assert language_of(tokenize("Schiffe"), "de-AT") is shipped()["de"]
    assert language_of(tokenize("Quels navires"), "en") is None
    assert language_of(tokenize("Mitä laivoja on"), "fi") is None


def test_names_are_shown_in_the_language_of_the_question(encoder: OnnxEncoder) -> None:
    """Where every instance has a name in several languages, the answer has the one that was asked in."""
    store = store_of(
        PORTS.replace('"Norden"', '"North"@en, "Norden"@de')
        .replace('"Vigo"', '"Vigo"@en, "Vigo"@de')
        .replace('"Brest"', '"Brest"@en, "Brest"@de')
    )
    engine = engine_of(store, encoder)
    german, english = (answer(engine, store, q) for q in ("Welche Häfen gibt es?", "List the names of all harbours."))
    assert isinstance(german, list)
    assert isinstance(english, list)
    assert (set(german), set(english)) == ({("Norden",), ("Vigo",), ("Brest",)}, {("North",), ("Vigo",), ("Brest",)})


@pytest.mark.parametrize("code", ["de", "es", "fr"])
def test_the_tables_are_complete(code: str) -> None:
    """Each has every part, and something for each kind of question."""
    text = (resources.files("proxy.nl.languages") / f"{code}.json").read_text(encoding="utf-8")
    data = json.loads(text)
    assert set(data) == {"language", "phrases", "adjectives", "postposed", "genitives", "endings", "glossary"}
    said = " | ".join([*data["phrases"].values(), *data["adjectives"].values()])
    for english in (
        "how many",
        "which",
        "more than",
        "at least",
        "the most",
        "oldest",
        "average",
        "no",
        "for each",
        "sorted by",
    ):
        assert english in said


def test_offsets_stay_those_of_the_question() -> None:
    """What a phrase is replaced by keeps its place, so that mentions can be shown in the question as it was written."""
    text = "Wie viele Schiffe gibt es?"
    tokens = shipped()["de"].canonical(tokenize(text), {})
    assert [(t.text, text[t.start : t.end]) for t in tokens[:2]] == [("how", "Wie viele"), ("many", "Wie viele")]


def test_questions_say_which_language_was_read(engine: QuestionEngine) -> None:
    assert engine.propose(Question("Combien de navires y a-t-il ?")).account["language"] == "fr"
