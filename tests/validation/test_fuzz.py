"""Random graphs and queries against pyoxigraph: a proof is wrong if it finds a solution.

A few thousand cases by default, seeded; ``SPARLANCE_FUZZ_CASES`` asks for more, ``SPARLANCE_FUZZ_SEED`` for others.
"""

import os
import random
from typing import Any

import pyoxigraph as ox
import pytest
from graphs import index_of, store_of, values_of
from queries import PREFIX, QueryMaker, random_graph, random_quads

from proxy.query.operation import DatasetDescription
from proxy.query.parse import parse
from proxy.query.render import render
from proxy.validation.check import check, is_proved_empty
from proxy.validation.finding import Severity

CASES = int(os.environ.get("SPARLANCE_FUZZ_CASES", "3000"))
SEED = os.environ.get("SPARLANCE_FUZZ_SEED", "library")
PER_GRAPH = 20
E = "http://e/"
DATASETS = [DatasetDescription(*graphs) for graphs in [((E + "g",), ()), ((), (E + "g",)), ((E + "g", E + "h"), (E + "h",))]]
BATCHES = 10


def has_solution(answer):
    try:
        return bool(answer) if isinstance(answer, ox.QueryBoolean) else next(iter(answer), None) is not None
    except RuntimeError:
        return False  # the evaluation ended: a variable in the subject of a triple term was bound to a literal


def alone(store, name):
    """The named graph *name* as a store of its own."""
    own = ox.Store()
    quads = store.quads_for_pattern(None, None, None, ox.NamedNode(E + name))
    own.extend(ox.Quad(q.subject, q.predicate, q.object) for q in quads)
    return own


COUNTER_EXAMPLES = {
    # each was found by the test below, and made a confirmation that was true or could not be parsed
    "a path of length zero between a node and a literal": "SELECT * { :n1 (:q/:r)? 2 . ?b a :A }",
    "likewise in one of several alternatives": "SELECT * { { ?d :q ?a } UNION { ?c :r ?c } :n1 ^(:q*) 2 }",
    "a literal in the place of a property": "SELECT * { BIND(true AS ?b) ?a ?b ?b }",
}


def test_what_is_assigned_inside_exists_is_its_own():
    """Found by the test below: pyoxigraph does not join what BIND gives a value inside EXISTS with the solution outside."""
    store = store_of("@prefix : <http://e/> . :n0 a :A , :C . :n4 a :B . :n6 a :B , :D .")
    for inside in ("BIND(007 AS ?a) MINUS { ?c a :B . ?d a :C }", "VALUES ?a { 007 } MINUS { ?c a :B }"):
        text = f"{PREFIX} SELECT * {{ ?a ?d ?c FILTER(EXISTS {{ {inside} }}) }}"
        assert not is_proved_empty(check(parse(text), index_of(store)))


def test_a_triple_of_two_graphs_may_count_twice():
    """Found by the test below: over the union of all graphs pyoxigraph gives it once for each, so that groups are larger."""
    store = store_of("@prefix : <http://e/> . :n3 a :A , :C .")
    store.update(f"{PREFIX} INSERT DATA {{ GRAPH :h {{ :n3 a :A }} }}")
    text = PREFIX + "SELECT ?d { :n3 a ?b } GROUP BY ?d HAVING (COUNT(*) >= 3)"
    assert has_solution(store.query(text, use_default_graph_as_union=True)) and not has_solution(store.query(text))
    assert not is_proved_empty(check(parse(text), index_of(store, union=True)))
    assert is_proved_empty(check(parse(text), index_of(store)))


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
    """A query that is proved empty has no solution, its confirmation is false, and it reads the same once rendered.

    The index is of exact kinds or single classes, of the default graph, of all graphs or of all and each, with the literals or
    without, with the tables of nodes or without. At times the protocol names the graphs.
    """
    proofs = 0
    for g in range(max(1, CASES // (BATCHES * PER_GRAPH))):
        rng = random.Random(f"{SEED} {batch} {g}")
        turtle = random_graph(rng)
        store = store_of(turtle)
        named = " ".join(f"GRAPH {graph} {{ {s} {p} {o} }}" for s, p, o, graph in random_quads(rng))
        store.update(f"{PREFIX} INSERT DATA {{ {named} }}")
        exact, union = rng.random() < 0.5, rng.random() < 0.5
        index = index_of(store, exact=exact, union=union, tables=rng.random() < 0.8)
        is_each = union and rng.random() < 0.5
        if is_each:
            index = index.with_graphs({f"{E}{name}": index_of(alone(store, name), exact=exact) for name in ("g", "h")})
        values = values_of(store, union=union, cap=rng.choice((3, 1000))) if rng.random() < 0.8 else None
        for _ in range(PER_GRAPH):
            text = QueryMaker(rng).query()
            dataset = rng.choice(DATASETS) if rng.random() < 0.1 else DatasetDescription()
            if dataset:
                reads: dict[str, Any] = {
                    "default_graph": [ox.NamedNode(g) for g in dataset.default_graphs],
                    "named_graphs": [ox.NamedNode(g) for g in dataset.named_graphs],
                }
            else:
                reads = {"use_default_graph_as_union": union and rng.random() < 0.5 and "FROM" not in text}
            try:
                answer = store.query(text, **reads)
            except SyntaxError:
                continue  # such as two BINDs to one variable: not SPARQL, whoever reads it
            except RuntimeError:
                continue  # as in has_solution, but at once: TRIPLE() of a literal, for one
            query = parse(text)
            assert parse(render(query)) == query, text
            findings = check(query, index, values=values, dataset=dataset)
            told = (text, turtle, named, exact, union, is_each, dataset)
            if is_proved_empty(findings):
                proofs += 1
                assert not has_solution(answer), told
            for f in findings:
                if f.severity is Severity.PROVED_EMPTY:
                    assert not store.query(f.confirmation, **(reads if dataset else {})), (*told, f.confirmation)
    assert proofs > 0
