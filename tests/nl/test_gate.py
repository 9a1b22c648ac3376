"""The gate and its evidence: what raises a risk, and that the shipped numbers fit the names that evidence has."""

import json
from importlib import resources

import pytest

from proxy.nl.evidence import LACKING, Seen, constructs, evidence, traits
from proxy.nl.gate import Gate, Gates, shipped_gates
from proxy.nl.outline import Rival
from proxy.nl.plan import Plan
from proxy.nl.requirements import Construct


def test_risk_is_logistic_in_the_evidence() -> None:
    """Evidence without a weight does not count; the scale is that of log odds."""
    gate = Gate({"lead": -1.0}, 0.0)
    assert gate.risk({"lead": 0.0, "other": 9.0}) == pytest.approx(0.5)
    assert gate.risk({"lead": 2.0}) == pytest.approx(0.1192, abs=1e-4)
    assert gate.risk({"lead": -1e9}) == pytest.approx(1.0)


@pytest.mark.parametrize("is_executed", [True, False], ids=["executed", "not executed"])
def test_every_weight_has_its_evidence(is_executed: bool) -> None:
    """A weight whose name no evidence has would be a number that does nothing."""
    loaded = json.loads((resources.files("proxy.nl") / "models" / "gate.json").read_text())
    weights = loaded["executed" if is_executed else "unexecuted"]["weights"]
    known = evidence({}, [Rival(2.0), Rival(1.0)], 0, [Seen.of([(1,)]), None], proposed=2, is_executed=is_executed)
    contest = {k for k in weights if k in known}
    assert {"share", "lead", "entropy"} <= contest
    assert ("agreeing" in contest) is is_executed
    assert 0.0 < shipped_gates().risk(known, is_executed=is_executed) < 1.0


def test_what_others_brought_is_evidence() -> None:
    """Agreement and distance are counted over the queries that ran; a query that failed is no rival."""
    same, other = Seen.of([("a",), ("b",)]), Seen.of([("c",)])
    known = evidence({}, [Rival(s) for s in (3.0, 2.5, 1.0, 0.5)], 0, [same, same, other, None], proposed=4)
    assert (known["agreeing"], known["distinct"], known["apart_lead"]) == (1.0, 2.0, 2.0)
    assert known["nothing"] == 0.0


@pytest.mark.parametrize(
    "rows", [[], [(0,)], [(0.0,)], [(None, None)], [(False,)]], ids=["none", "zero", "zero.0", "unbound", "false"]
)
def test_nothing_was_found(rows: list[tuple[object, ...]]) -> None:
    """No rows, a count of zero, unbound variables and a false ASK alike."""
    seen = Seen.of(rows)
    assert seen is not None and seen.is_nothing


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("How many ships are there?", {Construct.COUNT}),
        ("What is the average age of each team?", {Construct.AVERAGE, Construct.EACH}),
        ("Which ship is the oldest?", {Construct.EXTREME}),
        ("Is there a ship without a captain?", {Construct.ASK, Construct.NEGATION}),
        ("List the ships in alphabetical order.", {Construct.SORTING}),
        ("Wer leitet die Werft?", set()),
    ],
)
def test_cues_ask_for_constructs(question: str, asked: set[Construct]) -> None:
    """Words of the question, as a person would take them; another language has no cue."""
    assert constructs(question) == asked


def test_the_gate_of_what_is_lacking_looks_at_the_question_and_the_query_only() -> None:
    """Each of its weights is a trait; what no name of the graph is like raises it."""
    loaded = json.loads((resources.files("proxy.nl") / "models" / "gate.json").read_text())
    own = traits("How many ships are there?", Plan(()), "number of ship", {}, {})
    assert set(loaded["lacking"]["weights"]) <= set(LACKING) <= set(own)
    gate = shipped_gates().lacking
    foreign = {"foreign_noun": 0.7, "foreign_far": 0.2, "foreign_word": 0.7, "foreign_sum": 0.3, "residual_most": 0.7}
    assert gate.risk(own | foreign) > gate.risk(own)
    assert Gates(Gate({}, 0.0), Gate({}, 0.0)).lacking.risk(own) < 1e-9
