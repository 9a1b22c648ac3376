"""Other names for what the graph has: demonyms, codes, abbreviations, initials, units, IRIs; and typing errors."""

from __future__ import annotations

import pyoxigraph as ox
import pytest

from proxy.nl.aliases import aliases, corrected, in_vocabulary, initials
from proxy.nl.engine import QuestionEngine
from proxy.nl.onnx import OnnxEncoder
from tests.nl.conftest import answer, engine_of, store_of

MAKERS = """
@prefix : <http://makers.example/terms/> .
@prefix d: <http://makers.example/data/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
d:a a :Maker ; rdfs:label "Lumen" ; :country "Denmark" ; :heightKm 3 ; :trainedAt d:m ; :sells d:Model_T .
d:b a :Maker ; rdfs:label "Ljus" ; :country "Sweden" ; :heightKm 5 ; :trainedAt d:n ; :sells d:Model_B .
d:p a :Person ; rdfs:label "Ida" ; :gender "F" ; :shift "Mon" .
d:q a :Person ; rdfs:label "Ole" ; :gender "M" ; :shift "Tue" .
d:m a :School ; rdfs:label "Massachusetts Institute of Technology" .
d:n a :School ; rdfs:label "Kungliga Tekniska" .
d:Model_T a :Lamp ; :watts 40 .
d:Model_B a :Lamp ; :watts 60 .
"""

QUESTIONS = [
    ("List the names of Danish makers.", {("Lumen",)}),
    ("What are the names of the female persons?", {("Ida",)}),
    ("Which makers were trained at MIT?", {("Lumen",)}),
    ("How many wats does Model_T have?", {("40",)}),
    ("Which makers have a height above 4 kilometres?", {("Ljus",)}),
    ("What is the height in kilometres of Lumen?", {("3",)}),
    ("Show the names of all makrs.", {("Lumen",), ("Ljus",)}),
]


@pytest.fixture(scope="module")
def store() -> ox.Store:
    return store_of(MAKERS)


@pytest.fixture(scope="module")
def engine(store: ox.Store, encoder: OnnxEncoder) -> QuestionEngine:
    return engine_of(store, encoder)


@pytest.mark.parametrize(("question", "rows"), QUESTIONS, ids=[q for q, _ in QUESTIONS])
def test_what_goes_by_another_name_is_found(
    engine: QuestionEngine, store: ox.Store, question: str, rows: set[tuple[str, ...]]
) -> None:
    found = answer(engine, store, question)
    assert isinstance(found, list)
    assert set(found) == rows


def test_codes_are_names_in_capitals_only() -> None:
    """ "in" is a preposition, "IN" may be India; longer names may be written as one likes."""
    assert "India" in {a.text for a in aliases("IN")}
    assert aliases("in") == ()
    assert "Denmark" in {a.text for a in aliases("danish")}


@pytest.mark.parametrize(
    ("word", "found"),
    [("volunter", "volunteer"), ("volumteer", "volunteer"), ("appliacne", "appliance"), ("twn", None), ("elephant", None),
     ("bolunteer", None), ("t0wns", None)],
)  # fmt: skip
def test_typing_errors(word: str, found: str | None) -> None:
    """One letter, or two that are swapped; never the first letter, never what two words are equally near to."""
    assert corrected(word, ["appliance", "repair", "town", "volunteer"]) == found


def test_a_typing_error_of_two_words_is_of_none() -> None:
    assert corrected("pater", ["later", "paper", "pacer"]) is None


def test_units() -> None:
    assert in_vocabulary("kilometres", frozenset({"km"})) == "km"
    assert in_vocabulary("km", frozenset({"kilometer"})) == "kilometer"
    assert in_vocabulary("km", frozenset({"mile"})) is None


@pytest.mark.parametrize(
    ("text", "short"), [("Massachusetts Institute of Technology", "MIT"), ("Oslo", ""), ("Club-Brugge KV", "CBK")]
)
def test_initials(text: str, short: str) -> None:
    assert initials(text) == short
