"""Adding chunks up."""

from __future__ import annotations

from proxy.index.build import Distribution, IndexBuilder, kind_of
from proxy.index.support import UNTYPED, Kind
from proxy.query.term import XSD, Iri, Literal

A, B = Kind(frozenset("A")), Kind(frozenset("B"))


def rows(*names, of):
    """Solutions of *names*; ?p is an IRI, the rest are literals."""
    return [{n: Iri(v) if n == "p" else Literal(str(v)) for n, v in zip(names, row, strict=True)} for row in of]


def test_orders_of_a_concatenation_are_one_kind():
    """GROUP_CONCAT promises no order."""
    assert kind_of("b a") == kind_of("a b") == Kind(frozenset("ab"))
    assert kind_of("") == UNTYPED


def test_classless_objects_are_the_difference():
    """What is neither a literal nor has a class is what is left over."""
    found = Distribution()
    found.add_shapes(rows("p", "t", "l", "n", of=[("p", "", "", 10), ("p", XSD + "string", "en", 3)]), A, None)
    found.add_objects(rows("p", "j", "n", of=[("p", "B", 4), ("p", "A B", 1), ("p", "B A", 2)]), A, None)
    builder = IndexBuilder()
    builder.add(found, "A")
    index = builder.finish()
    cells = {(str(c.object), c.count) for c in map(index.cell, range(len(index.count)))}
    assert cells == {("<B>", 4), ("<A> <B>", 3), ("(no class)", 3), (f"^^<{XSD}string>", 3)}
    assert index.languages == {"p": frozenset({"en"})}
    assert builder.typed_triples("p") == 13


def test_a_kind_met_twice_counts_once():
    """The chunk of each class of a multi-typed node brings the same counts."""
    builder = IndexBuilder()
    for class_ in ("A", "B"):
        found = Distribution()
        found.add_shapes(rows("k", "p", "t", "l", "n", of=[("B A", "p", XSD + "string", "", 2)]), Kind(frozenset(class_)), None)
        builder.add(found, class_)
        builder.set_instances(kind_of("A B"), 2)
    index = builder.finish()
    assert index.triples == 2
    assert builder.typed_triples("p") == 2
    assert index.class_instances == {"A": 2, "B": 2}
    assert index.matrix == {("A", "p", XSD + "string"): 2, ("B", "p", XSD + "string"): 2}


def test_more_typed_objects_than_objects_cannot_be():
    """Counts that contradict each other make that property of that class incomplete, and keep its cells."""
    found = Distribution()
    found.add_shapes(rows("p", "t", "l", "n", of=[("p", "", "", 1), ("q", "", "", 1)]), A, None)
    found.add_objects(rows("p", "j", "n", of=[("p", "B", 2)]), A, None)
    builder = IndexBuilder()
    builder.add(found, "A")
    index = builder.finish()
    assert [(c.subject_class, c.property) for c in index.incomplete] == [("A", "p")]
    assert "changed" in index.incomplete[0].reason
    assert index.matrix == {("A", "p", "B"): 2, ("A", "q", None): 1}


def test_the_same_chunks_make_the_same_arrays():
    """Kinds, properties and cells are numbered by content, whatever order the chunks came in."""

    def build(order):
        builder = IndexBuilder()
        for name in order:
            found = Distribution()
            found.add_shapes(
                rows("p", "t", "l", "n", of=[(f"p{name}", "", "", 1), ("q", XSD + "date", "", 1)]), kind_of(name), None
            )
            builder.add(found, name)
            builder.set_instances(kind_of(name), 1)
        return builder.finish()

    one, other = build("ABC"), build("CAB")
    assert one.kinds == other.kinds
    assert one.properties == other.properties
    for name in ("subject", "property", "object", "count", "instances"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()
