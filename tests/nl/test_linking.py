import pytest

from proxy.nl.engine import QuestionEngine
from proxy.nl.schema import Attribute
from proxy.nl.sketch import Slot


@pytest.mark.parametrize(
    ("question", "text", "property_"),
    [
        ("Where does Bo Lind live?", "Bo Lind", "fullName"),
        ('Who repaired the "Wave 7"?', "Wave 7", "model"),
        ("volunteers from aarhus", "aarhus", "townName"),
        ("Which volunteers live in Odenze?", "Odenze", "townName"),
        ("volunteers with skill sewing", "sewing", "skill"),
    ],
)
def test_values_are_found(cafe: QuestionEngine, question: str, text: str, property_: str) -> None:
    """Names, quotations, lower case and typing errors lead to the property that holds the value."""
    _, mentions = cafe.linker.read(question)
    found = {m.text: [e.property for e, _ in m.entries] for m in mentions}
    assert f"http://cafe.example/terms/{property_}" in found[text]


def test_words_of_the_vocabulary_are_no_values(cafe: QuestionEngine) -> None:
    """A label of a class or property is not taken for a value."""
    assert cafe.linker.read("how many volunteers repair an appliance in each town")[1] == []


@pytest.mark.parametrize(
    ("words", "context", "property_"),
    [
        ("age", "volunteers", "age"),
        ("name", "towns", "townName"),
        ("weight", "", "weightKg"),
        ("inhabitants", "town", "population"),
    ],
)
def test_attributes_are_found(cafe: QuestionEngine, words: str, context: str, property_: str) -> None:
    """By the same words, by part of them with the class as context, and by meaning."""
    best = cafe.linker.attribute_links(Slot(words, context))[0].term
    assert isinstance(best, Attribute)
    assert best.path[0] == f"http://cafe.example/terms/{property_}"


def test_a_slot_keeps_several_candidates(cafe: QuestionEngine) -> None:
    """At least five readings are kept for the ranking to choose from."""
    assert len(cafe.linker.attribute_links(Slot("date of the repair"))) >= 5
