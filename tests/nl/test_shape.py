from dataclasses import dataclass

import pytest

from proxy.nl.ir import Aggregate, Operator
from proxy.nl.linking import as_number
from proxy.nl.shape import sketches
from proxy.nl.sketch import Item, Sketch
from proxy.nl.words import expand, tokenize


def items_of(question: str) -> list[Item]:
    items = []
    for t in tokenize(expand(question)):
        number = as_number(t.text)
        kind = "number" if number is not None else "word" if t.text[0].isalnum() or t.text == "'s" else "mark"
        items.append(Item(t.text, kind, t.start, t.end, number=number))
    return items


def read(question: str) -> Sketch:
    return sketches(items_of(question))[0]


@dataclass(frozen=True)
class Shows:
    question: str
    slots: tuple[tuple[Aggregate | None, str], ...]


SHOWS = [
    Shows("List the name and age of all volunteers.", ((None, "name"), (None, "age"))),
    Shows("How many lamps are there?", ((Aggregate.COUNT, "lamps"),)),
    Shows("What is the number of lamps?", ((Aggregate.COUNT, "lamps"),)),
    Shows("What are the average and maximum weight of lamps?", ((Aggregate.AVG, "weight"), (Aggregate.MAX, "weight"))),
    Shows("Show the first and last name of each clerk.", ((None, "first name"), (None, "last name"))),
    Shows("What is Anna's age?", ((None, "age"),)),
    Shows("How old is the lamp?", ((None, "age"),)),
    Shows("Who repaired the lamp?", ((None, "name"),)),
    Shows("When was the lamp repaired?", ((None, "date"),)),
    Shows("For each town, how many shops are there?", ((Aggregate.COUNT, "shops"),)),
    Shows("Find the towns along with the number of shops in each town.", ((None, "towns"), (Aggregate.COUNT, "shops"))),
]


@pytest.mark.parametrize("case", SHOWS, ids=lambda c: c.question)
def test_what_is_shown(case: Shows) -> None:
    """The things asked for are slots, in order, with their aggregates."""
    assert tuple((s.aggregate, s.words) for s in read(case.question).select) == case.slots


@pytest.mark.parametrize(
    ("question", "operator", "numbers", "words"),
    [
        ("Which lamps weigh more than 3 kg", Operator.GREATER, (3.0,), None),
        ("lamps whose price is at least 20", Operator.AT_LEAST, (20.0,), "price"),
        ("lamps with a price between 5 and 9", Operator.BETWEEN, (5.0, 9.0), "price"),
        ("volunteers who have more than two repairs", Operator.GREATER, (2.0,), "repairs"),
        ("volunteers older than 30", Operator.GREATER, (30.0,), "age"),
        ("volunteers below age 30", Operator.LESS, (30.0,), "age"),
        ("repairs finished after the year 2020", Operator.GREATER, (2020.0,), None),
        ("shops with exactly 2 clerks", Operator.EQUAL, (2.0,), "clerks"),
        ("lamps that cost 20 or more", Operator.AT_LEAST, (20.0,), None),
    ],
)
def test_comparisons(question: str, operator: Operator, numbers: tuple[float, ...], words: str | None) -> None:
    """A bound has its operator, its numbers, and the words of what it bounds."""
    (found,) = read(question).comparisons
    assert (found.operator, found.numbers) == (operator, numbers)
    if words is not None:
        assert found.slot is not None
        assert found.slot.words == words


def test_comparison_with_the_average() -> None:
    """ "Above the average" compares an attribute with an aggregate of itself."""
    (found,) = read("Show lamps whose price is above the average.").comparisons
    assert found.against is Aggregate.AVG
    assert found.slot is not None and found.slot.words == "price"


@pytest.mark.parametrize(
    ("question", "words", "is_descending", "limit"),
    [
        ("Which lamp has the highest price?", "price", True, 1),
        ("Who is the youngest volunteer?", "age", False, 1),
        ("Show the 3 most expensive lamps", "price", True, 3),
        ("Which volunteer has the fewest repairs?", "repairs", False, 1),
        ("List the lamps sorted by price in descending order", "price", True, None),
        ("List the lamps ordered by weight", "weight", False, None),
    ],
)
def test_order(question: str, words: str, is_descending: bool, limit: int | None) -> None:
    """Superlatives and sorting name what they sort by, the direction and how many are wanted."""
    order = read(question).order
    assert order is not None and order.slot is not None
    assert (order.slot.words, order.is_descending, order.limit) == (words, is_descending, limit)


@pytest.mark.parametrize(
    "question", ["Count the shops in each town", "How many shops are there per town?", "For every town, count the shops."]
)
def test_group(question: str) -> None:
    """Each, every and per make a group."""
    group = read(question).group
    assert group is not None
    assert group.words == "town"


@pytest.mark.parametrize(
    "question", ["lamps that were never repaired", "shops which don't have clerks", "shops without clerks"]
)
def test_negation(question: str) -> None:
    """The place from which on things must be absent is known."""
    assert read(question).negated_from is not None


def test_highest_may_be_an_aggregate_or_an_order() -> None:
    """ "The maximum weight" is read both ways, as MAX first."""
    found = sketches([Item(w, "word", i, i + 1) for i, w in enumerate("what is the maximum weight of lamps".split())])
    assert found[0].select[0].aggregate is Aggregate.MAX
    assert any(s.order is not None and s.order.is_descending for s in found)


def test_a_number_that_is_stored_is_averaged() -> None:
    """ "The average number of rooms" is about an attribute; "the number of rooms" is a count."""
    slots = read("What is the minimum and maximum number of rooms of all flats?").select
    assert [(s.words, s.aggregate) for s in slots] == [
        ("number of rooms", Aggregate.MIN),
        ("number of rooms", Aggregate.MAX),
    ]
    assert read("What is the number of rooms?").select[0].aggregate is Aggregate.COUNT
    assert read("What is the total amount of rent?").select[0].aggregate is Aggregate.SUM


@pytest.mark.parametrize(
    ("question", "limit", "descending", "words"),
    [
        ("Which three towns have the largest population?", 3, True, "population"),
        ("Which lamp is the heaviest?", 1, True, "weight"),
        ("Which shop was opened first?", 1, False, "opened"),
    ],
)
def test_extremes_wherever_they_stand(question: str, limit: int, descending: bool, words: str) -> None:
    """The number may stand with the noun, the adjective behind it, and a verb may say what came first."""
    order = read(question).order
    assert order is not None
    assert order.slot is not None
    assert (order.limit, order.is_descending, order.slot.words) == (limit, descending, words)


def test_everything_about_a_thing() -> None:
    """ "All the information about" is no attribute; "the information of" may be one."""
    (slot,) = sketches(items_of("List all the information about volunteers"))[0].select
    assert slot.words == "volunteers"
    assert sketches(items_of("List all the information about volunteers"))[0].note == "everything"
    assert not any(s.note == "everything" for s in sketches(items_of("Show the information of volunteers")))


def test_of_every_groups_nothing_where_nothing_is_measured() -> None:
    """ "The name of every shop" means all shops; "the number of clerks of every shop" is for each."""
    assert read("Show the name and city of every shop").group is None
    assert read("Show the number of clerks of every shop").group is not None


def test_the_second_bound_is_about_the_same() -> None:
    """ "over 8 or under 5": both bound what stands before."""
    first, second = read("shops with a rent over 800 or under 500").comparisons
    assert first.slot == second.slot
