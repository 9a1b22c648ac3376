"""Confirmed interpretations: the same question, the same pattern with another value, and questions that are near."""

import pytest

from proxy.nl.engine import QuestionEngine
from proxy.nl.memory import Confirmed, Memory, replayed, signature, still_fits
from proxy.query.operation import Question

AGE = """PREFIX t: <http://cafe.example/terms/>
SELECT ?age WHERE { ?v a t:Volunteer ; t:fullName "Bo Lind" ; t:age ?age . }"""
OLDER = """PREFIX t: <http://cafe.example/terms/>
SELECT ?name WHERE { ?v a t:Volunteer ; t:fullName ?name ; t:age ?age . FILTER(?age > 40) }"""


def recall(cafe: QuestionEngine, memory: Memory, question: str) -> str | None:
    mentions = cafe.propose(Question(question)).understanding.mentions
    found = memory.recall(question, mentions, cafe.schema.index)
    return None if found is None else found.sparql


def test_the_same_question_is_answered_as_confirmed(cafe: QuestionEngine) -> None:
    """Whatever its case and punctuation."""
    memory = Memory((Confirmed("How old is Bo Lind?", AGE),))
    assert recall(cafe, memory, "how old is bo lind") == AGE


def test_another_value_in_the_same_pattern(cafe: QuestionEngine) -> None:
    """The value is written as the graph has it; the rest of the query stays."""
    memory = Memory((Confirmed("How old is Bo Lind?", AGE),))
    assert recall(cafe, memory, "How old is anna holm?") == AGE.replace("Bo Lind", "Anna Holm")


def test_another_number_in_the_same_pattern(cafe: QuestionEngine) -> None:
    """Numbers are slots, too."""
    memory = Memory((Confirmed("Who is older than 40?", OLDER),))
    assert recall(cafe, memory, "Who is older than 50?") == OLDER.replace("40", "50")


@pytest.mark.parametrize(
    "question", ["How tall is Bo Lind?", "How old is Bo Lind in Ribe?", "How old is the toaster?", "Who is Bo Lind?"]
)
def test_another_pattern_is_notreplayed(cafe: QuestionEngine, question: str) -> None:
    """Every word outside the values counts."""
    assert recall(cafe, Memory((Confirmed("How old is Bo Lind?", AGE),)), question) is None


def test_a_vanished_edge_stops_the_replay(cafe: QuestionEngine) -> None:
    """A property that the graph has no more is not asked for."""
    assert still_fits(AGE, cafe.schema.index)
    gone = AGE.replace("t:age", "t:shoeSize")
    assert not still_fits(gone, cafe.schema.index)
    assert recall(cafe, Memory((Confirmed("How old is Bo Lind?", gone),)), "How old is Bo Lind?") is None


@pytest.mark.parametrize("text", ["DELETE WHERE { ?s ?p ?o }", "not SPARQL", "CONSTRUCT WHERE { ?s ?p ?o }"])
def test_only_what_reads_isreplayed(cafe: QuestionEngine, text: str) -> None:
    """An update in the file, however it came there, is never run."""
    assert not still_fits(text, cafe.schema.index)


def test_a_value_cannot_break_out_of_its_literal(cafe: QuestionEngine) -> None:
    """A spelling with quotes is escaped where it is put into the query."""
    confirmed = Confirmed("How old is Bo Lind?", AGE)
    question = "How old is X?"
    found = replayed(confirmed, question, [(11, 12, 'a" } DROP ALL #\\')])
    assert found is not None and '"a\\" } DROP ALL #\\\\"' in found


def test_a_word_becomes_an_alias(cafe: QuestionEngine) -> None:
    """After two confirmed uses, a word that no name has leads to the term that came with it."""
    town = "PREFIX t: <http://cafe.example/terms/> SELECT ?n WHERE {{ ?t a t:Town ; t:townName ?n ; t:population {} }}"
    pairs = [Confirmed(f"Which burgh has {n} souls?", town.format(n)) for n in (8000, 180000)]
    pairs += [Confirmed("Who is older than 40?", OLDER), Confirmed("How old is Bo Lind?", AGE)]
    memory = Memory(tuple(pairs))
    assert memory.aliases["soul"].get("http://cafe.example/terms/population", 0) > 0.2
    favoured = cafe.propose(Question("How many souls has Ribe?"), memory=memory).candidates[0]
    assert "http://cafe.example/terms/population" in signature(favoured.sparql)


def test_what_stands_for_an_entity_is_learned(cafe: QuestionEngine) -> None:
    """Five pairs that show IRIs are a convention, four are not; then questions about things are answered by IRIs."""
    shown = "PREFIX t: <http://cafe.example/terms/> SELECT ?v WHERE {{ ?v a t:Volunteer ; t:age ?age . FILTER(?age > {}) }}"
    pairs = tuple(Confirmed(f"Volunteers over {n}?", shown.format(n)) for n in range(5))
    assert Memory(pairs[:4]).policy(cafe.schema) is None
    assert Memory(pairs).policy(cafe.schema) is not None
    found = cafe.propose(Question("Which volunteers are from Aarhus?"), memory=Memory(pairs)).candidates[0]
    assert found.query.columns[0].var == "volunteer"
