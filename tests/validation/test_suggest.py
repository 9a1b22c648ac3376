"""Suggestions over several graphs, and the same in every run."""

import os
import subprocess
import sys
from pathlib import Path

import pyoxigraph as ox
import pytest
from graphs import index_of, store_of

from proxy.demo import coast
from proxy.index.support import Vocabulary
from proxy.query.parse import parse
from proxy.validation.check import check

HERE = Path(__file__).parent
LIBRARY = "PREFIX : <http://library.example/> "
COAST = f"PREFIX : <{coast.NAMESPACE}> "


@pytest.fixture(scope="module")
def coast_index():
    store = store_of(coast.ontology())
    store.load(coast.graph().encode(), ox.RdfFormat.N_TRIPLES)
    superclasses = {coast.NAMESPACE + c: (coast.NAMESPACE + s,) for c, s in coast.SUPERCLASSES.items()}
    return index_of(store, vocabulary=Vocabulary(superclasses=superclasses))


def suggestions(text, index):
    return [s for f in check(parse(text), index) for s in f.suggestions]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * { ?x a :Loan ; :memberOf ?b }", "by way of :Member: :borrower/:memberOf"),
        ("SELECT * { ?x a :Novel ; :borrower ?b }", "by way of :Loan: ^:item/:borrower"),
        ("SELECT * { ?x a :Branch ; :joined ?d }", "by way of :Member: ^:memberOf/:joined"),
        ("SELECT * { ?x a :Author ; :author ?b }", "the other direction: :author leads to :Author, from :Novel (3)"),
        ("SELECT * { ?x a :Novel ; :autor ?b }", ":author (:Novel has 3)"),
    ],
)
def test_over_the_library(text, expected, exact_index):
    """A bridge forwards, two bridges backwards, the other direction, the nearest name."""
    assert expected in suggestions(LIBRARY + text, exact_index)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * { ?x a :Vessel ; :name ?n }", "what :Vessel has: :homePort, :captain"),
        ("SELECT * { ?x a :Harbours }", ":Harbour ("),
        ("SELECT * { ?x a :PortCall ; :grossTonnage ?t }", "by way of :Vessel: :vessel/:grossTonnage"),
        ("SELECT * { ?x a :Island ; :harbour ?h }", "^:island, which leads to :Harbour"),
    ],
)
def test_over_the_coast(text, expected, coast_index):
    """What a class has, near classes, bridges, other ways: on a graph that no rule was written for."""
    assert any(expected in s for s in suggestions(COAST + text, coast_index))


TIES = """
@prefix : <http://e/> .
:a a :A , :B , :C , :D ; :p :b ; :q :b ; :r :b ; :s :b . :b a :E , :F , :G ; :t 1 ; :u 1 . :c a :A , :D ; :p :b .
"""
QUERIES = """
SELECT * { ?x a :E ; :p ?y } | SELECT * { ?x a :A ; :t ?y } | SELECT * { ?x :v ?y } | SELECT * { ?x :p ?y . ?y a :A }
| SELECT * { ?x a :Z } | SELECT * { ?x :t ?y ; :p ?z } | SELECT * { ?x :p 1 }
"""


def test_the_same_in_every_run():
    """Findings, suggestions and confirmations do not hang on Python's hash seed."""
    program = (
        "from graphs import index_of, store_of, values_of\n"
        "from proxy.query.parse import parse\n"
        "from proxy.validation.check import check\n"
        "from test_suggest import QUERIES, TIES\n"
        "store = store_of(TIES)\n"
        "for exact in (True, False):\n"
        "    for text in QUERIES.split('|'):\n"
        "        query = parse('PREFIX : <http://e/> ' + text)\n"
        "        print(check(query, index_of(store, exact=exact), values=values_of(store)))\n"
    )
    path = os.pathsep.join([str(HERE), str(HERE.parent.parent), *sys.path])
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1
    assert "suggestions=('" in outputs.pop()
