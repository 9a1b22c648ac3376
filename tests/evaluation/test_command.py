"""``sparlance eval`` on a folder of its own."""

from __future__ import annotations

import json

import pytest

from proxy.cli import main
from proxy.evaluation.parts import Part

GRAPH = """
@prefix : <http://shop.example/terms/> .
:north a :Shop ; :name "North" ; :rent 900 . :south a :Shop ; :name "South" ; :rent 400 .
"""
COUNT = "SELECT (COUNT(?s) AS ?n) { ?s a <http://shop.example/terms/Shop> }"
RENT = 'SELECT ?r { ?s <http://shop.example/terms/name> "South" ; <http://shop.example/terms/rent> ?r }'


def test_a_folder_is_asked_scored_and_compared(tmp_path, capsys):
    """The report has the scores, the saved run can be compared with, and a gold query that does not run is left out."""
    (tmp_path / "graph.ttl").write_text(GRAPH)
    questions = [
        {"id": "count", "question": "How many shops are there?", "query": COUNT},
        {"id": "rent", "question": "What is the rent of South?", "query": RENT},
        {"id": "broken", "question": "What?", "query": "SELECT"},
    ]
    (tmp_path / "questions.json").write_text(json.dumps(questions))
    saved = tmp_path / "run.json"
    assert main(["eval", str(tmp_path), "--save", str(saved)]) == 0
    printed = capsys.readouterr()
    assert "2 questions" in printed.out
    assert "| strict | 1.000 |" in printed.out
    assert "1 gold queries do not run" in printed.err
    assert main(["eval", str(tmp_path), "--compare", str(saved), "--limit", "1"]) == 0
    assert "| strict | +0.000 |" in capsys.readouterr().out


def test_a_missing_file_is_one_sentence(tmp_path, capsys):
    """No traceback."""
    assert main(["eval", str(tmp_path / "none.jsonl")]) == 2
    assert "cannot read" in capsys.readouterr().err


@pytest.mark.parametrize("part", [str(p) for p in Part])
def test_every_part_can_be_left_out(tmp_path, capsys, part):
    """The engine still answers, or says that it cannot; without shape, nothing is counted."""
    (tmp_path / "graph.ttl").write_text(GRAPH)
    (tmp_path / "questions.json").write_text(
        json.dumps([{"id": "count", "question": "How many shops are there?", "query": COUNT}])
    )
    saved = tmp_path / "run.json"
    assert main(["eval", str(tmp_path), "--without", part, "--save", str(saved)]) == 0
    assert f"without {part}" in capsys.readouterr().out
    (outcome,) = json.loads(saved.read_text())["outcomes"]
    assert outcome["strict"] == (0.0 if part == "shape" else 1.0)
    assert outcome["calls"] <= 8


def test_plots_are_svg(tmp_path, capsys):
    """One picture each for risks, outcomes and times."""
    pytest.importorskip("matplotlib", reason="the extra eval is not installed")
    (tmp_path / "graph.ttl").write_text(GRAPH)
    (tmp_path / "questions.json").write_text(
        json.dumps([{"id": "rent", "question": "What is the rent of South?", "query": RENT}])
    )
    assert main(["eval", str(tmp_path), "--plots", str(tmp_path / "plots")]) == 0
    assert sorted(p.name for p in (tmp_path / "plots").iterdir()) == ["outcomes.svg", "risk.svg", "times.svg"]
    assert all(p.read_text().count("<svg") == 1 for p in (tmp_path / "plots").iterdir())
