from proxy.nl.engine import QuestionEngine
from proxy.nl.onnx import OnnxEncoder
from proxy.nl.schema import Step
from proxy.nl.tree import connect
from tests.nl.conftest import answer, engine_of, store_of

CAFE = "http://cafe.example/terms/"
SHOP = "http://shop.example/db/"


def test_words_come_from_labels_and_names(cafe: QuestionEngine, tables: QuestionEngine) -> None:
    """A label first, else the local name cut into words, without what only says "reference"."""
    assert cafe.schema.classes[CAFE + "Volunteer"].words[0] == "volunteer"
    assert tables.schema.property_words(SHOP + "clerk#ref-shop_id") == ("shop id",)
    assert tables.schema.property_words(SHOP + "clerk#fname") == ("first name",)


def test_the_naming_attribute_is_found(cafe: QuestionEngine) -> None:
    """By what it is called, or as the one text that tells all instances apart."""
    names = {c: cafe.schema.name_of(CAFE + c) for c in ("Volunteer", "Town", "Appliance", "Repair")}
    assert [n.path[0].removeprefix(CAFE) if n else None for n in names.values()] == ["fullName", "townName", "model", None]


def test_classes_are_joined_by_the_shortest_walk(cafe: QuestionEngine) -> None:
    """A volunteer and an appliance meet in a repair, walked against and along its edges."""
    tree = connect([CAFE + "Volunteer", CAFE + "Appliance"], cafe.schema)[0]
    assert [c.removeprefix(CAFE) for c in tree.nodes] == ["Volunteer", "Repair", "Appliance"]
    assert [b.step.is_inverse for b in tree.branches] == [True, False]


def test_unreachable_classes_make_no_tree(cafe: QuestionEngine) -> None:
    """No edge, no join."""
    assert connect([CAFE + "Volunteer", CAFE + "Nowhere"], cafe.schema) == []


CREWS = """
@prefix : <http://crews.example/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:s1 a :Ship ; rdfs:label "Heron" ; :pilot :p1 ; :owner :p1 .
:s2 a :Ship ; rdfs:label "Tern" ; :owner :p2 .
:p1 a :Pilot , :Person ; rdfs:label "Ada Lunde" .
:p2 a :Person ; rdfs:label "Per Moe" .
"""


def test_a_class_that_everything_there_has_need_not_be_said(encoder: OnnxEncoder) -> None:
    """A property to instances that all have two classes needs neither; one to instances of which not all have it needs it."""
    store = store_of(CREWS)
    engine = engine_of(store, encoder)
    needs = {
        (e.property.rpartition("/")[2], e.object_class.rpartition("/")[2]): not engine.schema.reaches_only_target(
            Step(e, False)
        )
        for e in engine.schema.edges
    }
    assert needs == {
        ("pilot", "Pilot"): False, ("pilot", "Person"): False, ("owner", "Person"): False, ("owner", "Pilot"): True,
    }  # fmt: skip
    assert answer(engine, store, "Which ships have no pilot?") == [("Tern",)]
