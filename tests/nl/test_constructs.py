"""What queries can say beyond one pattern with conditions: computed values, nested aggregates, alternatives, absence, scope."""

from __future__ import annotations

import pyoxigraph as ox
import pytest

from proxy.nl.assemble import assemble
from proxy.nl.engine import QuestionEngine
from proxy.nl.ir import Aggregate, Binding, Column, Pattern, Query, Triple, render
from proxy.nl.onnx import OnnxEncoder
from proxy.nl.plan import Plan, Shown
from proxy.nl.tree import connect
from proxy.query.operation import Question
from tests.nl.conftest import answer, engine_of, store_of

WAREHOUSE = """
@prefix : <http://boxes.example/terms/> .
@prefix d: <http://boxes.example/data/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
d:a a :Box ; rdfs:label "Alpha" ; :length 2 ; :width 3 ; :height 4 ; :weight 12 ; :purchasePrice 5 ; :salePrice 9 ;
  :storedIn d:x ; :colour "red" .
d:b a :Box ; rdfs:label "Beta" ; :length 1 ; :width 1 ; :height 1 ; :weight 8 ; :purchasePrice 4 ; :salePrice 6 ;
  :storedIn d:x ; :colour "blue" .
d:c a :Box ; rdfs:label "Gamma" ; :length 5 ; :width 2 ; :height 1 ; :weight 1 ; :purchasePrice 1 ; :salePrice 11 ;
  :storedIn d:y ; :colour "blue" .
d:e a :Box ; rdfs:label "Delta" ; :length 1 ; :width 2 ; :height 1 ; :weight 30 ; :purchasePrice 2 ; :salePrice 2 ;
  :storedIn d:y ; :colour "green" .
d:f a :Box ; rdfs:label "Omega" ; :length 1 ; :width 1 ; :height 3 ; :weight 2 ; :purchasePrice 3 ; :salePrice 3 ;
  :storedIn d:y ; :colour "green" .
d:x a :Shelf ; rdfs:label "Top" ; :phone "11" .
d:y a :Shelf ; rdfs:label "Low" ; :phone "12" .
d:p a :Porter ; rdfs:label "Pim" ; :phone "13" .
"""

QUESTIONS = [
    ("Which box has the largest volume?", {("Alpha",)}),
    ("What is the volume of Beta?", {("1",)}),
    ("Which boxes have a volume above 9?", {("Alpha",), ("Gamma",)}),
    ("What is the difference between the sale price and the purchase price of Gamma?", {("10",)}),
    ("Which box has the largest difference between sale price and purchase price?", {("Gamma",)}),
    ("What is the average number of boxes per shelf?", {("2.5",)}),
    ("What is the maximum number of boxes on a shelf?", {("3",)}),
    ("Which boxes have a weight above 10 or a sale price above 10?", {("Alpha",), ("Gamma",), ("Delta",)}),
    ("Which boxes are red or have a weight below 2?", {("Alpha",), ("Gamma",)}),
    ("Which shelf has the largest number of boxes?", {("Low",)}),
    ("What are the highest and lowest weights of boxes?", {("30", "1")}),
    ("Which shelves have more than two boxes?", {("Low",)}),
    ("How many shelves have at least two boxes?", {("2",)}),
    ("Count the shelves with more than 2 boxes.", {("1",)}),
    ("Which boxes have a weight greater than that of all boxes with colour blue?", {("Alpha",), ("Delta",)}),
]

PROPOSED = [
    ("Show the phones of all shelves and porters.", {("11",), ("12",), ("13",)}),
    ("Show all colours where no box has a weight over 10.", {("blue",)}),
]


@pytest.fixture(scope="module")
def store() -> ox.Store:
    return store_of(WAREHOUSE)


@pytest.fixture(scope="module")
def engine(store: ox.Store, encoder: OnnxEncoder) -> QuestionEngine:
    return engine_of(store, encoder)


@pytest.mark.parametrize(("question", "rows"), QUESTIONS, ids=[q for q, _ in QUESTIONS])
def test_constructs(engine: QuestionEngine, store: ox.Store, question: str, rows: set[tuple[str, ...]]) -> None:
    """Each is answered by the first candidate with the rows that a person would give."""
    found = answer(engine, store, question)
    assert isinstance(found, list)
    assert set(found) == rows


@pytest.mark.parametrize(("question", "rows"), PROPOSED, ids=[q for q, _ in PROPOSED])
def test_constructs_are_proposed(engine: QuestionEngine, store: ox.Store, question: str, rows: set[tuple[str, ...]]) -> None:
    """Where another reading is as likely, the one with these rows is among the first five."""
    found = []
    for candidate in engine.propose(Question(question)).candidates[:5]:
        solutions = store.query(candidate.sparql)
        assert isinstance(solutions, ox.QuerySolutions)
        names = [v.value for v in solutions.variables]
        found.append({tuple(s[n].value for n in names) for s in solutions})
    assert rows in found


def test_each_variable_is_selected_once(engine: QuestionEngine, store: ox.Store) -> None:
    """Two phrases that mean one attribute make one column: SPARQL refuses a name twice."""
    weight = next(a for a in engine.schema.attributes if a.words[0] == "weight")
    colour = next(a for a in engine.schema.attributes if a.words[0] == "colour")
    for aggregate, names in ((None, ["weight", "colour"]), (Aggregate.MAX, ["maximumWeight", "colour"])):
        plan = Plan((Shown(weight, aggregate), Shown(colour), Shown(weight, aggregate)))
        query = assemble(plan, connect(plan.classes(), engine.schema, limit=1)[0], engine.schema)
        assert query is not None
        solutions = store.query(render(query))
        assert isinstance(solutions, ox.QuerySolutions)
        assert [v.value for v in solutions.variables] == names


def test_union_and_binding_and_outer_aggregate_are_rendered() -> None:
    """The IR's new parts become UNION, BIND and a sub-select."""
    one, other = (Pattern((Triple("x", f"http://e.example/{p}", "v"),)) for p in "pq")
    text = render(Query(Pattern(either=(one, other)), (Column("v"),), is_distinct=True))
    assert "{\n    ?x example:p ?v .\n  } UNION {\n    ?x example:q ?v .\n  }" in text or "UNION" in text
    pattern = Pattern(
        (Triple("x", "http://e.example/p", "a"), Triple("x", "http://e.example/q", "b")),
        bindings=(Binding("d", "-", ("a", "b"), (False, True)),),
    )
    assert "BIND(?a - xsd:decimal(?b) AS ?d)" in render(Query(pattern, (Column("d"),)))
    counted = Query(one, (Column("x", Aggregate.COUNT),), group_by=("v",), outer=Aggregate.AVG)
    assert "SELECT (AVG(?numberOfX) AS ?averageNumberOfX) WHERE {\n  {\n    SELECT (COUNT(?x)" in render(counted)
    for query in (text, render(Query(pattern, (Column("d"),))), render(counted)):
        ox.Store().query(query)


PARTLY = """
@prefix : <http://clubs.example/terms/> .
@prefix d: <http://clubs.example/data/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
d:a a :Member ; rdfs:label "Ada Berg" ; :age 30 ; :phone "11" .
d:b a :Member ; rdfs:label "Bea Dahl" ; :age 40 .
d:c a :Member ; rdfs:label "Cy Ek" ; :age 50 ; :phone "13" .
"""


def test_what_is_asked_for_if_any_may_be_missing(encoder: OnnxEncoder) -> None:
    """ "If any" keeps those without; without it, they are left out."""
    store = store_of(PARTLY)
    engine = engine_of(store, encoder)
    asked = answer(engine, store, "List the ages and phones of all members, if any.")
    plain = answer(engine, store, "List the ages and phones of all members.")
    assert isinstance(asked, list)
    assert isinstance(plain, list)
    assert set(asked) == {("30", "11"), ("40", None), ("50", "13")}
    assert set(plain) == {("30", "11"), ("50", "13")}


def test_all_information_about_one_thing(encoder: OnnxEncoder) -> None:
    """Every attribute of its class, the name first, and what it lacks stays unbound."""
    store = store_of(PARTLY)
    engine = engine_of(store, encoder)
    assert answer(engine, store, "Show all information about Bea Dahl.") == [("Bea Dahl", "40", None)]
    found = answer(engine, store, "Show all information about members.")
    assert isinstance(found, list)
    assert len(found) == 3
