"""``sparlance eval`` on a folder of its own."""

from __future__ import annotations

import json

from proxy.cli import main

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
