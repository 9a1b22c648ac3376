"""Random graphs and queries against pyoxigraph: a proof is wrong if it finds a solution.

A few thousand cases by default, seeded; ``SPARLANCE_FUZZ_CASES`` asks for more, ``SPARLANCE_FUZZ_SEED`` for others.
"""

import os
import random

import pyoxigraph as ox
import pytest
from graphs import index_of, store_of
from queries import PREFIX, QueryMaker, random_graph

from proxy.query.parse import parse
from proxy.query.render import render
from proxy.validation.check import check, is_proved_empty
from proxy.validation.finding import Severity

CASES = int(os.environ.get("SPARLANCE_FUZZ_CASES", "3000"))
SEED = os.environ.get("SPARLANCE_FUZZ_SEED", "library")
PER_GRAPH = 20
BATCHES = 10


def has_solution(answer):
    return bool(answer) if isinstance(answer, ox.QueryBoolean) else next(iter(answer), None) is not None


COUNTER_EXAMPLES = {
    # each was found by the test below, and made a confirmation that was true or could not be parsed
    "a path of length zero between a node and a literal": "SELECT * { :n1 (:q/:r)? 2 . ?b a :A }",
    "likewise in one of several alternatives": "SELECT * { { ?d :q ?a } UNION { ?c :r ?c } :n1 ^(:q*) 2 }",
    "a literal in the place of a property": "SELECT * { BIND(true AS ?b) ?a ?b ?b }",
}


@pytest.mark.parametrize("text", COUNTER_EXAMPLES.values(), ids=COUNTER_EXAMPLES)
def test_counter_examples(text):
    """The confirmation of each proof parses and is false."""
    store = store_of("@prefix : <http://e/> . :n1 a :A ; :p :n2 . :n2 :r 1 .")
    findings = check(parse(PREFIX + text), index_of(store))
    assert is_proved_empty(findings)
    assert not has_solution(store.query(PREFIX + text))
    for f in findings:
        if f.severity is Severity.PROVED_EMPTY:
            assert not store.query(f.confirmation)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_proof_is_wrong(batch):
    """A query that is proved empty has no solution, its confirmation is false, and it reads the same once rendered."""
    proofs = 0
    for g in range(max(1, CASES // (BATCHES * PER_GRAPH))):
        rng = random.Random(f"{SEED} {batch} {g}")
        turtle = random_graph(rng)
        store = store_of(turtle)
        store.add(ox.Quad(*(ox.NamedNode(f"http://e/{n}") for n in ("n1", "p", "n2", "g"))))
        index = index_of(store, exact=rng.random() < 0.5)
        for _ in range(PER_GRAPH):
            text = QueryMaker(rng).query()
            try:
                answer = store.query(text)
            except SyntaxError:
                continue  # such as two BINDs to one variable: not SPARQL, whoever reads it
            query = parse(text)
            assert parse(render(query)) == query, text
            findings = check(query, index)
            if is_proved_empty(findings):
                proofs += 1
                assert not has_solution(answer), (text, turtle)
            for f in findings:
                if f.severity is Severity.PROVED_EMPTY:
                    assert not store.query(f.confirmation), (text, turtle, f.confirmation)
    assert proofs > 0
