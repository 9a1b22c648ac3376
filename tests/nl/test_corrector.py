"""Diagnosis: which stage is blamed for a risky query, and that requirements only accumulate."""

from dataclasses import replace

import pytest

from proxy.nl.corrector import Suspect, diagnose
from proxy.nl.engine import QuestionEngine
from proxy.nl.evidence import Seen
from proxy.nl.requirements import NONE, Binding, Construct, Demand, Requirement, Requirements, Stage, has
from proxy.query.operation import Question


def suspect(engine: QuestionEngine, question: str, number: int = 0) -> Suspect:
    """The candidate at *number* for *question*, with what was understood."""
    proposal = engine.propose(Question(question))
    u = proposal.understanding
    plan = proposal.candidates[number].plan
    return Suspect(u.text, plan, (), None, u.mentions, u.anchors, engine.schema)


def test_a_construct_that_is_asked_for_and_missing_is_pinned(cafe: QuestionEngine) -> None:
    """Construction is at fault, and the engine enters it anew: every query then counts."""
    found = suspect(cafe, "How many volunteers are there?")
    found = replace(found, plan=replace(found.plan, shown=tuple(replace(s, aggregate=None) for s in found.plan.shown)))
    requirement = diagnose(found, NONE)
    assert requirement is not None
    assert (requirement.stage, requirement.demand, requirement.what) == (Stage.CONSTRUCTION, Demand.PIN, Construct.COUNT)
    understanding = cafe.propose(Question("How many volunteers are there?")).understanding
    revised = cafe.revise(understanding, NONE.and_(requirement))
    assert revised and all(has(c.plan, Construct.COUNT) for c in revised)


def test_nothing_found_blames_the_binding(cafe: QuestionEngine) -> None:
    """An empty answer with a value bound: the value may stand elsewhere."""
    proposal = cafe.propose(Question('Which volunteers have the skill "sewing"?'))
    bound = next(c for c in proposal.candidates if any(x.literals for x in c.plan.conditions))
    u = proposal.understanding
    empty = Suspect(u.text, bound.plan, (), Seen.of([]), u.mentions, u.anchors, cafe.schema)
    requirement = diagnose(empty, NONE)
    assert requirement is not None and requirement.stage is Stage.BINDING
    assert not requirement.is_met_by(bound.plan) or requirement.demand is Demand.PIN


def test_requirements_accumulate_and_do_not_contradict(cafe: QuestionEngine) -> None:
    """Each diagnosis names another one, none the opposite of an earlier one, and it ends."""
    found = suspect(cafe, "How many volunteers are there?", 3)
    held = NONE
    while (requirement := diagnose(found, held)) is not None:
        assert requirement not in held.all and not held.contradict(requirement)
        held = held.and_(requirement)
        assert len(held.all) < 40
    assert held.and_(held.all[0]) is held if held.all else True


def test_what_is_banned_is_gone(cafe: QuestionEngine) -> None:
    """No revised query uses a banned term."""
    proposal = cafe.propose(Question("What are the ages of the volunteers?"))
    term = proposal.candidates[0].plan.shown[0].term
    held = Requirements((Requirement(Stage.GROUNDING, Demand.BAN, term, "a test"),))
    assert not any(has(c.plan, term) for c in cafe.revise(proposal.understanding, held))


@pytest.mark.parametrize("text", ["SEWING", "sewing"])
def test_a_binding_is_named_by_its_text(cafe: QuestionEngine, text: str) -> None:
    """Case does not matter, as in linking."""
    proposal = cafe.propose(Question('Which volunteers have the skill "sewing"?'))
    assert any(has(c.plan, Binding(text)) for c in proposal.candidates)
