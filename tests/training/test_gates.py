"""Gates from samples: what the contest would have chosen, whether it was wrong, and models that tell so on other graphs."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest

from proxy.errors import ModelError
from proxy.nl.evidence import Seen
from proxy.nl.gate import Gate, Gates, read_gates
from proxy.nl.outline import Outline
from proxy.training.gates import fit_gates, gates_card, write_gates
from proxy.training.gating import Table, auc, cases, coverage, figures, logistic
from proxy.training.samples import Option, Sample


def option(n: int, *, is_right: bool, near: float, rows: int, **more) -> Option:
    seen, outline = Seen.of([(n, i) for i in range(rows)]), Outline(n, n, n, n, n)
    return Option(f"words {n}", {"near": near}, is_right, not rows, {"unsaid": 1.0 - near}, outline, seen, **more)


def sample(n: int, *, is_lacking: bool = False) -> Sample:
    """Three candidates. The first is right unless the question is hard, which its traits tell in nine of ten cases."""
    rng = random.Random(n)
    is_hard = is_lacking or rng.random() < 0.4
    unsaid = 0.5 if is_hard == (rng.random() < 0.9) else 0.1
    options = tuple(
        replace(
            option(k, is_right=not is_hard and k == 1, near=0.9 - 0.2 * k, rows=k),
            traits={"unsaid": unsaid, "foreign_noun": float(is_lacking)},
        )
        for k in (1, 2, 3)
    )
    return Sample(f"graph {n % 12}", str(n), f"question {n}", f"gold {n}", options, 3, is_lacking)


MANY = [sample(n) for n in range(240)] + [sample(n, is_lacking=True) for n in range(240, 300)]


def test_gates_tell_wrong_from_right_on_graphs_that_they_have_not_seen() -> None:
    """Far better than chance, calibrated, and the gate of what is lacking sees what only such questions have."""
    fitted = fit_gates(MANY, prior=None)
    for kind in ("executed", "unexecuted"):
        assert fitted.figures[kind]["auc"] > 0.8
        assert fitted.figures[kind]["ece"] < 0.15
        assert fitted.figures[kind]["right_below_half"] > 0.8
    assert fitted.figures["lacking"]["auc"] > 0.95
    assert (fitted.questions, fitted.lacking, fitted.graphs) == (300, 60, 12)
    at_half = next(t for t in fitted.thresholds if t["above"] == 0.5)
    assert at_half["refused"] > 0.9 and at_half["right_lost"] < 0.05


def test_chance_is_not_taken_for_knowledge() -> None:
    """Where what is right has nothing to do with the evidence, the measured figure says so: it is of other graphs."""
    rng = random.Random(1)
    noise = [
        Sample(f"g{n % 12}", str(n), "?", f"q{n}", (option(1, is_right=rng.random() < 0.5, near=rng.random(), rows=2),), 1)
        for n in range(240)
    ]
    assert 0.35 < fit_gates(noise, prior=None).figures["executed"]["auc"] < 0.65


def test_few_pairs_correct_gates_and_do_not_replace_them() -> None:
    """Near a prior, weights of evidence that the samples lack stay; without one they are gone."""
    prior = Gates(Gate({"elsewhere": 2.0, "unsaid": 1.0}, -1.0), Gate({"elsewhere": 2.0}, 0.0), Gate({"foreign_far": 3.0}, -2))
    own = MANY[:60]
    near, alone = fit_gates(own, prior=prior).gates, fit_gates(own, prior=None).gates
    assert near.executed.weights["elsewhere"] == 2.0 and "elsewhere" not in alone.executed.weights
    assert near.lacking == prior.lacking, "no sample says what is lacking"
    assert alone.lacking.risk({}) < 1e-9


def test_too_little_to_learn_from_is_said() -> None:
    with pytest.raises(ModelError, match="at least 10 must be answered right"):
        fit_gates(MANY[:12], prior=None)


def test_only_what_the_contest_would_run_is_a_case() -> None:
    """A query that is proved empty is not let in; of four the best by score and answers is chosen."""
    barred = Sample("g", "1", "?", "q", (option(1, is_right=True, near=0.9, rows=1, is_barred=True), *MANY[0].options[1:]), 3)
    found = [c for c in cases([*MANY[:40], barred], execute=4, strength=0.003) if c.sample == 40]
    assert [c.option for c in found] == [1, 2] and sum(c.is_chosen for c in found) == 1
    assert "agreeing" in found[0].executed and "agreeing" not in found[0].unexecuted


def test_what_is_written_is_read(tmp_path) -> None:
    """The folder holds gates that give the same risks, to four digits, and a card with what was measured."""
    fitted = fit_gates(MANY, prior=None)
    write_gates(fitted, tmp_path / "gate", made_by="a test", data=["12 graphs"])
    read = read_gates(tmp_path / "gate")
    for case in cases(MANY[:50], execute=4, strength=0.003):
        assert read.executed.risk(case.executed) == pytest.approx(fitted.gates.executed.risk(case.executed), abs=0.01)
    card = (tmp_path / "gate" / "MODEL_CARD.md").read_text()
    assert card == gates_card(fitted, made_by="a test", data=["12 graphs"])
    assert f"| area under the curve | {fitted.figures['executed']['auc']:.3f} |" in card


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "[" * 100_000, "{}", '{"executed": 1, "unexecuted": 1, "lacking": 1}']
    + [
        json.dumps({kind: {"bias": b, "weights": w} for kind in ("executed", "unexecuted", "lacking")})
        for b, w in (("x", {}), (0, []), (0, {"a": "x"}), (float("nan"), {}), (0, {"a": float("inf")}))
    ],
    ids=range(11),
)
def test_files_that_hold_no_gates(tmp_path, text) -> None:
    """A ModelError that names the file."""
    (tmp_path / "gate.json").write_text(text)
    with pytest.raises(ModelError, match=r"gate\.json"):
        read_gates(tmp_path)
    with pytest.raises(ModelError, match="cannot read the gates"):
        read_gates(tmp_path / "none")


def test_figures_by_hand() -> None:
    """Four answers: the risks order them but for one pair."""
    risk, wrong = np.array([0.1, 0.4, 0.3, 0.9]), np.array([False, False, True, True])
    assert auc(risk, wrong) == 0.75
    found = figures(risk, wrong)
    assert (found["share_below_half"], found["right_below_half"]) == (0.75, pytest.approx(2 / 3))
    assert coverage(risk, wrong, shares=(0.5,)) == [{"share": 0.5, "right": 0.5, "risk": 0.3}]


def test_logistic_finds_the_odds() -> None:
    """One number that doubles the log odds, and a constant: its weight cannot be known and is not made up."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=4000)
    wrong = rng.random(4000) < 1 / (1 + np.exp(-(2 * x - 0.5)))
    gate = logistic(Table.of([{"x": v, "same": 1.0} for v in x]), wrong, l2=1e-6)
    assert gate.weights["x"] == pytest.approx(2, abs=0.2) and gate.bias == pytest.approx(-0.5, abs=0.15)
    assert "same" not in gate.weights
