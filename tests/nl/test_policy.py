"""What stands for an entity in an answer, and how a few pairs tell it."""

from __future__ import annotations

import msgspec
import pyoxigraph as ox
import pytest

from proxy.config import Config
from proxy.nl.engine import QuestionEngine
from proxy.nl.onnx import OnnxEncoder
from proxy.nl.policy import Answer, learn_policy
from proxy.query.model import ParsedQuery
from proxy.query.parse import parse
from tests.nl.conftest import answer, engine_of

D = "http://cafe.example/data/"
PREFIXES = "PREFIX : <http://cafe.example/terms/> "
BY_IRI = ("Which towns are there?", "SELECT ?t { ?t a :Town }")
NAMED_BY_IRI = ("What are the names of the towns?", "SELECT ?t { ?t a :Town }")
BY_NAME = ("Which towns are there?", "SELECT ?n { ?t a :Town ; :townName ?n }")
NAMED = ("What are the names of the towns?", "SELECT ?n { ?t a :Town ; :townName ?n }")
REACHED = ("Where does Anna live?", "SELECT ?t { ?v :fullName 'Anna Holm' ; :livesIn ?t }")
COUNTED = ("How many towns are there?", "SELECT (COUNT(?t) AS ?n) { ?t a :Town }")


def read(pairs: list[tuple[str, str]]) -> list[tuple[str, ParsedQuery]]:
    found = []
    for question, text in pairs:
        query = parse(PREFIXES + text)
        assert isinstance(query, ParsedQuery)
        found.append((question, query))
    return found


@pytest.mark.parametrize(
    ("pairs", "policy", "told"),
    [
        ([BY_NAME, NAMED, COUNTED], Answer.LABEL, 2),
        ([BY_IRI, NAMED_BY_IRI, REACHED], Answer.ENTITY, 3),
        ([BY_IRI, NAMED, REACHED], Answer.AS_WRITTEN, 3),
        ([COUNTED], Answer.LABEL, 0),
        ([], Answer.LABEL, 0),
    ],
)
def test_pairs_tell_the_policy(cafe: QuestionEngine, pairs: list[tuple[str, str]], policy: Answer, told: int) -> None:
    """By what their queries show for what their questions ask; aggregates tell nothing."""
    learned = learn_policy(read(pairs), cafe.schema)
    assert (learned.policy, learned.pairs, learned.agreeing) == (policy, told, told)


@pytest.mark.parametrize(
    ("policy", "question", "row"),
    [
        ("label", "Which volunteer is the oldest?", "Bo Lind"),
        ("entity", "Which volunteer is the oldest?", D + "bo"),
        ("as-written", "Which volunteer is the oldest?", D + "bo"),
        ("label", "What is the full name of the oldest volunteer?", "Bo Lind"),
        ("entity", "What is the full name of the oldest volunteer?", D + "bo"),
        ("as-written", "What is the full name of the oldest volunteer?", "Bo Lind"),
    ],
)
def test_answers_follow_the_policy(cafe_store: ox.Store, encoder: OnnxEncoder, policy: str, question: str, row: str) -> None:
    """The same question shows the name, or the IRI of what has it."""
    settings = msgspec.structs.replace(Config().nl, answer=policy)
    engine = engine_of(cafe_store, encoder, settings)
    assert answer(engine, cafe_store, question) == [(row,)]
