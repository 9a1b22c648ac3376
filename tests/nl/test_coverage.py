"""Words of a question that no term of a candidate says are seen, so that it can be refused."""

from __future__ import annotations

import pytest

from proxy.nl.coverage import is_content
from proxy.nl.engine import QuestionEngine
from proxy.query.operation import Question


def residual(engine: QuestionEngine, question: str, name: str = "residual_most") -> float:
    return engine.propose(Question(question)).candidates[0].features.get(name, 0.0)


@pytest.mark.parametrize("word", ["how", "the", "names", "highest", "list", "and", "two", "kg"])
def test_grammar_and_generic_words_are_no_content(word: str) -> None:
    """They name nothing of any graph."""
    assert not is_content(word)


@pytest.mark.parametrize(
    ("answerable", "other"),
    [
        ("What is the age of Bo Lind?", "What is the salary of Bo Lind?"),
        ("List the models of all appliances.", "List the suppliers of all appliances."),
        ("Which volunteers live in Aarhus?", "Which volunteers own a submarine?"),
    ],
)
def test_what_the_graph_lacks_leaves_a_residual(cafe: QuestionEngine, answerable: str, other: str) -> None:
    """A question about something that no class, attribute or edge is like leaves more unsaid than one about what is there."""
    assert residual(cafe, answerable) < 0.4 < residual(cafe, other)


def test_a_literal_says_its_words(cafe: QuestionEngine) -> None:
    """A word that is part of a literal in a condition is said by that condition."""
    assert residual(cafe, "Which volunteers have the skill soldering?", "residual_noun") < 0.5


def test_a_name_that_nothing_has_is_left_over(cafe: QuestionEngine) -> None:
    """Words written as a name count by themselves: nothing else makes up for them."""
    assert residual(cafe, "What is the age of Bo Lind?", "residual_name") == 0.0
    assert residual(cafe, "How old is Zoltan Quux?", "residual_name") > 0.5


@pytest.mark.parametrize(
    ("question", "is_foreign"),
    [
        ("What is the age of Bo Lind?", False),
        ("Which volunteers repaired an appliance?", False),
        ("Which volunteers have the skill soldering?", False),
        ("What is the parachute of Bo Lind?", True),
        ("List the orchestras of all appliances.", True),
    ],
)
def test_what_nothing_in_the_graph_is_like_is_foreign(cafe: QuestionEngine, question: str, is_foreign: bool) -> None:
    """Names, their other forms and values are known; a noun far from all of them is foreign, whatever a candidate says."""
    found = {c.features["foreign_noun"] for c in cafe.propose(Question(question)).candidates}
    assert len(found) == 1
    assert (found.pop() > 0.5) is is_foreign
