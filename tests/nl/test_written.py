import asyncio
import re

import numpy as np
import pyoxigraph as ox
import pytest

from proxy.backends.embedded import EmbeddedBackend
from proxy.config import Config
from proxy.index.support import SupportIndex
from proxy.nl.memory import Confirmed
from proxy.nl.written import in_words, messages, nearest, read, with_complaints
from proxy.pipeline.distil import distil
from proxy.query.parse import parse

NS = "http://bikes.example/terms/"
PREFIXES = {"": NS}
BIKES = """
@prefix : <http://bikes.example/terms/> .
:b1 a :Bicycle ; :name "Swift" ; :madeBy :m1 .
:m1 a :Maker ; :country "Austria" .
"""
GOOD = "SELECT ?n WHERE { ?b a :Bicycle ; :name ?n }"


@pytest.fixture(scope="module")
def index() -> SupportIndex:
    store = ox.Store()
    store.load(BIKES.encode(), ox.RdfFormat.TURTLE)
    return asyncio.run(distil(EmbeddedBackend(store), Config().index)).index


@pytest.mark.parametrize(
    "reply",
    [
        GOOD,
        f"```sparql\n{GOOD}\n```",
        f"Sure! Here it is:\n\n```\nPREFIX : <{NS}>\n{GOOD}\n```\nIt lists the names.",
        f"Here it is:\n{GOOD}\n\nThis lists the names of all bicycles.",
        f"Here it is:\n{GOOD}\nThis lists the names.",
        f"<think>SELECT * {{ ?x a :Bicycle }} is too much</think>\n{GOOD}",
        f"First I thought of\n```sparql\nSELECT ?x {{ ?x :wheels 2 }}\n```\nbut better is\n```sparql\n{GOOD}\n```",
        f"```sparql\n{GOOD}\n```\nor, which does not parse,\n```sparql\nSELECT ?n WHERE {{\n```",
        f"```sparql\n{GOOD}",
    ],
    ids=["bare", "fence", "prose", "blank line", "line", "thought", "second block", "first block", "not closed"],
)
def test_the_query_is_found_in_what_a_model_says(index, reply):
    """Prose, fences, thoughts and other blocks do not matter; prefixes of the description need not be declared."""
    draft = read(reply, index, PREFIXES)
    assert (draft.complaints, draft.is_usable) == ((), True)
    assert draft.parsed == parse(f"PREFIX : <{NS}> {GOOD}")


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("I do not know.", "no SPARQL query"),
        ("", "no SPARQL query"),
        ("```sql\nDROP TABLE bikes\n```", "no SPARQL query"),
        ("SELECT ?n WHERE { ?b :name }", "does not parse.*line"),
        (f"PREFIX : <{NS}>\nDELETE WHERE {{ ?s ?p ?o }}", "Only SELECT and ASK"),
        (f"PREFIX : <{NS}>\nCONSTRUCT WHERE {{ ?b :name ?n }}", "Only SELECT and ASK"),
        ("SELECT * { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }", "SERVICE is not allowed"),
        ("SELECT * { { SELECT * { OPTIONAL { SERVICE SILENT ?x { ?s ?p ?o } } } } }", "SERVICE is not allowed"),
        ("SELECT * FROM <http://a.example/> { ?s ?p ?o }", "FROM"),
        ("SELECT * { ?s ?p '" + "x" * 9000 + "' }", "longer than"),
        ("SELECT ?b { ?b a :Bicycle ; :country ?c }", "Bicycle|country"),
    ],
    ids=["prose", "nothing", "sql", "syntax", "update", "construct", "service", "nested", "from", "long", "empty"],
)
def test_what_must_not_run_is_not_usable(index, reply, words):
    """And why is said, for the model."""
    draft = read(reply, index, PREFIXES)
    assert not draft.is_usable
    assert draft.complaints
    assert re.search(words, draft.complaints[0])


def test_what_is_suspicious_may_run_if_nothing_better_comes(index):
    """An ASK that is proved empty is answered by false, which may be right."""
    draft = read("ASK { ?b a :Bicycle ; :country 'Austria' }", index, PREFIXES)
    assert draft.is_usable
    assert draft.complaints


def test_the_conversation(index):
    """The rules, description and examples stand before the question; complaints follow the draft they are about."""
    asked = messages("Which bikes?", "DESCRIPTION", [Confirmed("How many bikes?", "SELECT (COUNT(*) AS ?n) {}")])
    assert [m.role for m in asked] == ["system", "user"]
    assert "DESCRIPTION" in asked[0].text and "How many bikes?" in asked[0].text
    assert asked[1].text == "Question: Which bikes?"

    draft = read("SELECT ?b { ?b :wheels 2 }", index, PREFIXES)
    again = with_complaints(asked, draft)
    assert [m.role for m in again] == ["system", "user", "assistant", "user"]
    assert ":wheels" in again[2].text
    assert draft.complaints[0] in again[3].text


def test_the_most_similar_examples_stand_last():
    vectors = {"q": (1.0, 0.0), "near": (0.9, 0.1), "far": (0.0, 1.0), "middle": (0.5, 0.5)}
    pairs = [Confirmed(q, "ASK {}") for q in ("near", "far", "middle")]

    def encode(texts):
        return np.array([vectors[t] for t in texts], dtype=np.float32)

    assert [c.question for c in nearest("q", pairs, encode, most=2)] == ["middle", "near"]
    assert nearest("q", [], encode, most=2) == []


def test_a_query_in_words():
    parsed = parse(f"PREFIX : <{NS}> SELECT (AVG(?p) AS ?a) {{ ?b a :Bicycle ; :price ?p ; :name 'Mule' }} ORDER BY ?a LIMIT 3")
    words = in_words(parsed, {f"{NS}Bicycle": "bike"})
    assert all(w in words for w in ("average", "bike", "price", "Mule", "top 3"))
