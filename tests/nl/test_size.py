"""Joins that would have far too many solutions are not proposed."""

from __future__ import annotations

import pytest

from proxy.nl.engine import QuestionEngine
from proxy.nl.ir import Operator
from proxy.nl.onnx import OnnxEncoder
from proxy.nl.plan import Condition, Plan, Shown
from proxy.nl.schema import Schema
from proxy.nl.size import FEW, is_heavy, solutions
from proxy.nl.tree import connect
from proxy.query.operation import Question
from proxy.query.term import Literal
from tests.nl.conftest import engine_of, store_of

T = "http://club.example/terms/"


@pytest.fixture(scope="module")
def engine(encoder: OnnxEncoder) -> QuestionEngine:
    """One club, 1,500 members and 1,500 boats of it: joining members and boats through the club gives 2.25 million pairs."""
    lines = [f'@prefix : <{T}> . @prefix d: <http://club.example/data/> . d:club a :Club ; :name "Regatta" .']
    for i in range(1_500):
        lines.append(
            f'd:m{i} a :Member ; :name "member {i}" ; :memberOf d:club . d:b{i} a :Boat ; :name "boat {i}" ; :ownedBy d:club .'
        )
    return engine_of(store_of("\n".join(lines)), encoder)


def test_solutions_multiply_along_a_hub(engine: QuestionEngine) -> None:
    """One edge has as many solutions as triples; two edges into one hub have their product."""
    schema: Schema = engine.schema
    plan = Plan((Shown(schema.classes[T + "Member"]),))
    one, two = connect([T + "Member", T + "Club"], schema)[0], connect([T + "Member", T + "Club", T + "Boat"], schema)[0]
    assert solutions(plan, one, schema) == 1_500
    assert solutions(plan, two, schema) == 1_500 * 1_500 > FEW
    assert not is_heavy(plan, one, schema)
    assert is_heavy(plan, two, schema)


def test_a_condition_makes_a_join_light(engine: QuestionEngine) -> None:
    """With one member named, there is one solution for each boat."""
    schema = engine.schema
    name = schema.name_of(T + "Member")
    assert name is not None
    plan = Plan((Shown(schema.classes[T + "Boat"]),), (Condition(name, Operator.EQUAL, (Literal("member 7"),)),))
    tree = connect([T + "Member", T + "Club", T + "Boat"], schema)[0]
    assert solutions(plan, tree, schema) == pytest.approx(1_500)


def test_heavy_joins_are_not_proposed(engine: QuestionEngine) -> None:
    """Neither of a question that names both; one that names one member is answered."""
    for candidate in engine.propose(Question("Which members have boats?")).candidates:
        assert not {"member", "boat"} <= {t.subject for t in candidate.query.pattern.triples} or candidate.query.limit == 0
    assert engine.propose(Question("Which club is member 7 a member of?")).candidates
