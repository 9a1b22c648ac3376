"""Reading questions with gold queries from what people keep them in."""

from __future__ import annotations

import pytest

from proxy.errors import ConfigError
from proxy.evaluating import graph_of, read_questions
from proxy.evaluation.questions import GoldQuestion, from_json, from_jsonl, from_text2sparql


def test_lines_of_json():
    """One object a line, blank lines left out; sparql or query."""
    text = '{"id": "a", "question": "Q?", "sparql": "ASK {}"}\n\n{"question": "R?", "query": "ASK {}", "lang": "de"}\n'
    assert from_jsonl(text) == [GoldQuestion("a", "Q?", "ASK {}"), GoldQuestion("1", "R?", "ASK {}", "de")]


def test_order_counts_only_where_it_is_said():
    """Groups without ``ordered`` are no order."""
    record = '[{"question": "Q?", "query": "ASK {}", "order_groups": [2, 1]}]'
    assert from_json(record)[0].groups == ()
    assert from_json(record.replace('"order', '"ordered": true, "order'))[0].groups == (2, 1)


@pytest.mark.parametrize("text", ["{", "[1]", '[{"question": "Q?"}]', '{"question": "Q?"}'])
def test_other_shapes_are_refused(text):
    """What is no list of questions with queries is said to be none."""
    with pytest.raises(ConfigError):
        from_json(text)


YAML = """
dataset: {id: https://shop.example/}
questions:
  - id: 7
    question: {en: "How many shops?", de: "Wie viele Läden?"}
    query: {sparql: "SELECT (COUNT(*) AS ?n) { ?s a <http://e/Shop> }"}
    features: [RESULT_ORDER_MATTERS]
"""


def test_text2sparql_yaml(tmp_path):
    """One question for each language; an order that matters is kept."""
    file = tmp_path / "questions.yaml"
    file.write_text(YAML, encoding="utf-8")
    found = read_questions(tmp_path)
    assert [(q.id, q.language, q.is_ordered) for q in found] == [("7-en", "en", True), ("7-de", "de", True)]
    assert [q.text for q in read_questions(file, languages=["de"])] == ["Wie viele Läden?"]
    with pytest.raises(ConfigError):
        from_text2sparql({"queries": []})


def test_a_folder_brings_its_graph(tmp_path):
    """Questions of a folder are asked of the graph beside them."""
    (tmp_path / "questions.json").write_text('[{"question": "Q?", "query": "ASK {}"}]')
    (tmp_path / "graph.ttl").write_text("")
    assert [q.text for q in read_questions(tmp_path)] == ["Q?"]
    assert graph_of(tmp_path) == [str(tmp_path / "graph.ttl")]
    with pytest.raises(ConfigError):
        read_questions(tmp_path / "none.json")
