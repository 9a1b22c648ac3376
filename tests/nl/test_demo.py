"""Questions on the demo graph, which is what people try first. Gold queries are in demo_questions.json."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from proxy.demo.coast import NAMESPACE, graph, ontology
from proxy.nl.engine import QuestionEngine
from proxy.nl.onnx import OnnxEncoder
from tests.nl.conftest import engine_of, store_of

QUESTIONS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "demo_questions.json").read_text(encoding="utf-8"))
PREFIXES = f"PREFIX : <{NAMESPACE}> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> "
FLOOR = 35
"""Right answers of 40, by the first candidate."""


@pytest.fixture(scope="module")
def coast() -> ox.Store:
    return store_of(ontology() + graph())


@pytest.fixture(scope="module")
def engine(coast: ox.Store, encoder: OnnxEncoder) -> QuestionEngine:
    return engine_of(coast, encoder)


def rows(store: ox.Store, query: str) -> set[tuple[str, ...]]:
    result = store.query(query)
    if isinstance(result, ox.QueryBoolean):
        return {(str(bool(result)),)}
    names = [v.value for v in result.variables]
    return {tuple("" if s[n] is None else s[n].value for n in names) for s in result}


def is_right(store: ox.Store, engine: QuestionEngine, question: dict[str, Any]) -> bool:
    from proxy.query.operation import Question

    candidates = engine.propose(Question(question["question"])).candidates
    if not candidates:
        return False
    got = rows(store, candidates[0].sparql)
    width = len(next(iter(got), ()))
    for gold in (question["query"], *question.get("also", ())):
        want = rows(store, PREFIXES + gold)
        assert want, f"the gold query is empty: {gold}"
        if any({tuple(r[i] for i in order) for r in got} == want for order in itertools.permutations(range(width))):
            return True
    return False


@pytest.mark.parametrize("question", [q for q in QUESTIONS if q.get("plain")], ids=lambda q: q["question"])
def test_plain_questions_are_right(coast: ox.Store, engine: QuestionEngine, question: dict[str, Any]) -> None:
    """What everybody asks first has its gold answer, column by column."""
    assert is_right(coast, engine, question)


def test_most_questions_are_right(coast: ox.Store, engine: QuestionEngine) -> None:
    """Over all questions, not fewer are right than the floor."""
    wrong = [q["question"] for q in QUESTIONS if not is_right(coast, engine, q)]
    assert len(QUESTIONS) - len(wrong) >= FLOOR, wrong


def test_a_name_that_nothing_has_gets_no_other_ones_answer(coast: ox.Store, engine: QuestionEngine) -> None:
    """There is a Herring Island and an Iron Island, but no Moon Island: no number is given for it."""
    from proxy.query.operation import Question

    best = engine.propose(Question("What is the population of Moon Island?")).candidates[0]
    assert rows(coast, best.sparql) == set()
