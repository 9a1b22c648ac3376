import pyoxigraph as ox
import pytest

from proxy.nl.ir import Aggregate, Column, Filter, Having, Operator, Pattern, Query, Triple, render, variable_name
from proxy.query.term import RDF_LANG_STRING, RDF_TYPE, XSD, Iri, Literal

SHOP = "http://shop.example/terms/"
A_SHOP = Triple("shop", RDF_TYPE, Iri(SHOP + "Shop"))
ONE = Literal("1", XSD + "integer")
AVERAGE = Query(Pattern((Triple("o", SHOP + "size", "s"),)), (Column("s", Aggregate.AVG),))
NAME = Triple("shop", SHOP + "name", "name")


def names(text: str) -> str:
    """The text without its prefixes."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("PREFIX"))


def test_a_query_reads_as_if_a_person_wrote_it() -> None:
    """One prefix per namespace in use, ``a`` for the class, one triple a line."""
    query = Query(Pattern((A_SHOP, NAME)), (Column("name"),), order=((Column("name"), True),), limit=3, is_distinct=True)
    assert render(query) == (
        "PREFIX shop: <http://shop.example/terms/>\n"
        "SELECT DISTINCT ?name WHERE {\n  ?shop a shop:Shop .\n  ?shop shop:name ?name .\n}\nORDER BY DESC(?name)\nLIMIT 3"
    )


QUERIES = {
    "ask": Query(Pattern((A_SHOP,)), is_ask=True),
    "group": Query(
        Pattern((A_SHOP, NAME)),
        (Column("name"), Column("shop", Aggregate.COUNT, True)),
        group_by=("name",),
        having=Having(Column("shop", Aggregate.COUNT), Operator.AT_LEAST, 2),
        order=((Column("", Aggregate.COUNT), True),),
    ),
    "filters": Query(
        Pattern(
            (A_SHOP, NAME),
            (
                Filter("name", Operator.CONTAINS, (Literal('a "quoted"\n\\ one'),)),
                Filter("name", Operator.IN, (Literal("x", RDF_LANG_STRING, "en-GB"), Literal("2020-01-01", XSD + "date"))),
                Filter("name", Operator.BETWEEN, (ONE, Literal("2.5", XSD + "decimal")), is_text_number=True),
                Filter("name", Operator.STARTS, (Literal("x"),)),
                Filter("name", Operator.EQUAL, (Literal("1", "http://odd.example/type"),)),
            ),
        ),
        (Column("name"),),
    ),
    "against": Query(
        Pattern(
            (NAME,),
            (Filter("name", Operator.GREATER, against=AVERAGE),),
        ),
        (Column("name", Aggregate.SUM, is_text_number=True),),
    ),
    "absent": Query(Pattern((A_SHOP, NAME), (), (Pattern((Triple("clerk", SHOP + "worksAt", "shop"),)),)), (Column("name"),)),
    "odd IRIs": Query(
        Pattern((Triple("s", "http://x.example/a#b.c", "o"), Triple("s", "urn:x:p", "o"), Triple("s", SHOP + "rdf", "o"))),
        (Column("s"),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_every_part_renders_to_valid_sparql(query: Query) -> None:
    """Whatever the query graph can say, an engine accepts."""
    ox.Store().query(render(query))


def test_literals_cannot_break_out() -> None:
    """A quotation mark in a value stays in the value."""
    query = Query(Pattern((Triple("s", SHOP + "name", Literal('x" . ?s ?p ?o } #')),)), (Column("s"),))
    store = ox.Store()
    store.add(ox.Quad(ox.NamedNode("http://x.example/"), ox.NamedNode(SHOP + "name"), ox.Literal('x" . ?s ?p ?o } #')))
    assert len(list(store.query(render(query)))) == 1


def test_variable_names() -> None:
    """Words become a camel-case name that SPARQL accepts."""
    assert variable_name("birth date") == "birthDate"
    assert variable_name("2nd name") == "v2ndName"
    assert variable_name("日本") == "value"
