"""The vocabulary that a question is about comes first."""

from __future__ import annotations

import pytest

from proxy.nl.engine import QuestionEngine
from proxy.nl.shape import sketches
from proxy.query.operation import Question

T = "http://cafe.example/terms/"


def found(engine: QuestionEngine, question: str, limit: int = 10) -> list[str]:
    items, _ = engine.linker.read(question)
    return [r.iri.removeprefix(T) for r in engine.retriever.retrieve(items, sketches(items), limit)]


@pytest.mark.parametrize(
    ("question", "needed"),
    [
        ("What are the full names of the volunteers who live in Aarhus?", {"Volunteer", "fullName", "livesIn"}),
        ("Which appliance was made first?", {"Appliance", "yearMade"}),
        ("What did the repairs of the appliances cost?", {"Repair", "Appliance", "repairOf", "costs"}),
        ("How many inhabitants does each town have?", {"Town", "population"}),
    ],
)
def test_what_a_question_needs_is_among_the_first(cafe: QuestionEngine, question: str, needed: set[str]) -> None:
    """Classes, attributes, and the edges between two classes that are both meant."""
    assert needed <= set(found(cafe, question, 6))


def test_attributes_of_the_class_asked_about_come_before_those_of_others(cafe: QuestionEngine) -> None:
    """Both are a kind of weight in time or money; the class decides, and the other one stays in the list."""
    ranked = found(cafe, "What does the appliance weigh?", 20)
    assert ranked.index("weightKg") < ranked.index("costs")
    assert ranked.index("weightKg") < ranked.index("population")


def test_terms_are_bounded_and_in_the_account(cafe: QuestionEngine) -> None:
    """Ten at most, one for each IRI, best first."""
    schema = cafe.propose(Question("What is the age of Bo Lind?")).account["schema"]
    assert 0 < len(schema) <= 10
    assert len({s["term"] for s in schema}) == len(schema)
    assert [s["score"] for s in schema] == sorted((s["score"] for s in schema), reverse=True)
