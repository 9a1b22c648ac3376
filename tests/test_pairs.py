"""``sparlance pairs``: lint, import and split over a graph of two shops."""

import json

import pytest

from proxy.cli import main
from proxy.evaluation.questions import GoldQuestion
from proxy.pairs import split, template

GRAPH = """
@prefix : <http://shop.example/terms/> .
:north a :Shop ; :name "North" ; :rent 900 . :south a :Shop ; :name "South" ; :rent 400 .
"""
RENT = 'SELECT ?r {{ ?s <http://shop.example/terms/name> "{}" ; <http://shop.example/terms/rent> ?r }}'


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "graph.ttl").write_text(GRAPH)
    pairs = [
        {"id": "a", "question": "What does South pay?", "sparql": RENT.format("South")},
        {"id": "b", "question": "what does south pay", "sparql": RENT.format("North")},
        {"id": "c", "question": "Who owns North?", "sparql": "SELECT ?o { ?s <http://shop.example/terms/owner> ?o }"},
        {"id": "d", "question": "Delete?", "sparql": "DELETE WHERE { ?s ?p ?o }"},
        {"id": "e", "question": "What does West pay?", "sparql": RENT.format("West")},
    ]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(p) + "\n" for p in pairs))
    return tmp_path


def test_lint_names_each_bad_pair(folder, capsys):
    """Contradicting, unknown, and writing pairs; exit code 1."""
    assert main(["pairs", "lint", str(folder / "pairs.jsonl"), "--load", str(folder / "graph.ttl")]) == 1
    out = capsys.readouterr().out
    assert "b: the question of a again, with another query" in out
    assert "c: " in out and "owner" in out
    assert "d: neither SELECT nor ASK" in out
    assert "a: " not in out


def test_import_takes_what_fits(folder, capsys, monkeypatch):
    """The pairs are in the memory, with where they came from; the others are named."""
    monkeypatch.setenv("SPARLANCE_NL_MEMORY", str(folder / "memory"))
    assert main(["pairs", "import", str(folder / "pairs.jsonl"), "--load", str(folder / "graph.ttl")]) == 0
    kept = [json.loads(line) for line in (folder / "memory" / "default.jsonl").read_text().splitlines()]
    assert [k["question"] for k in kept][:1] == ["What does South pay?"] and {k["source"] for k in kept} == {"import"}
    assert "pairs taken" in capsys.readouterr().err


def test_split_parts_no_template(folder, capsys):
    """Two questions that differ in a value are on one side; the files read again."""
    assert main(["pairs", "split", str(folder / "pairs.jsonl"), "--share", "0.5", "-o", str(folder / "split")]) == 0
    parts = [[json.loads(x) for x in (folder / "split" / n).read_text().splitlines()] for n in ("train.jsonl", "test.jsonl")]
    assert sum(map(len, parts)) == 5
    templates = [{template(p["sparql"]) for p in part} for part in parts]
    assert not templates[0] & templates[1]


def test_a_split_is_always_the_same():
    """And near the share that is asked for."""
    pairs = [GoldQuestion(str(i), f"Q{i}", f"SELECT ?x {{ ?x <http://e/p{i}x> 1 }}") for i in range(400)]
    assert split(pairs, share=0.25) == split(pairs, share=0.25)
    assert 60 <= len(split(pairs, share=0.25)[1]) <= 140
