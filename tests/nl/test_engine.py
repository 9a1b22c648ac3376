import json
from collections.abc import Callable

import pytest

from proxy.nl.engine import QuestionEngine
from proxy.query.operation import Question

Ask = Callable[[str], object]

CAFE_ROWS = [
    ("How many volunteers are there?", [("4",)]),
    ("List the models of all appliances.", [("Toastmaster 2",), ("Bright Eye",), ("Wave 7",), ("Steamer",)]),
    ("What is the age of Bo Lind?", [("61",)]),
    ("Which volunteers are older than 40?", [("Bo Lind",), ("Dina Roth",)]),
    ("What is the full name of the oldest volunteer?", [("Bo Lind",)]),
    ("What are the names of the volunteers who live in Aarhus?", [("Anna Holm",), ("Cem Kaya",)]),
    ("What is the average age of the volunteers?", [("42.0",), ("42",)]),
    ("Which volunteer has done the most repairs?", [("Anna Holm",)]),
    ("Show the full name and age of volunteers whose skill is soldering.", [("Anna Holm", "34"), ("Cem Kaya", "28")]),
    ("Which appliances have never been repaired?", [("Steamer",)]),
    ("What is the model of the appliances made before 2000?", [("Wave 7",)]),
    ("What are the full names of volunteers who repaired the radio Wave 7?", [("Bo Lind",), ("Cem Kaya",)]),
]  # fmt: skip


@pytest.mark.parametrize(("question", "rows"), CAFE_ROWS, ids=[q for q, _ in CAFE_ROWS])
def test_questions_on_a_graph_with_labels(ask_cafe: Ask, question: str, rows: list[tuple[str, ...]]) -> None:
    """Lists, counts, look-ups, comparisons, extremes, joins and absence bring the rows that a person would give."""
    found = ask_cafe(question)
    assert isinstance(found, list)
    assert set(found) <= set(rows)
    assert len(set(found)) == (1 if "average" in question else len(rows))


TABLE_ROWS = [
    ("How many clerks work in each shop? Show the shop name.", {("North", "1"), ("South", "2")}),
    ("What is the first name of the clerk with the highest salary?", {("Jon",)}),
    ("Show the names of shops in Oulu.", {("South",), ("East",)}),
    ("Show the names of shops that do not have any clerk.", {("East",)}),
]


@pytest.mark.parametrize(("question", "rows"), TABLE_ROWS, ids=[q for q, _ in TABLE_ROWS])
def test_questions_on_a_graph_made_from_tables(ask_tables: Ask, question: str, rows: set[tuple[str, ...]]) -> None:
    """Names that look like table#column work as well as labels do."""
    found = ask_tables(question)
    assert isinstance(found, list)
    assert {tuple(sorted(r)) for r in found} == {tuple(sorted(r)) for r in rows}


def test_yes_or_no(ask_cafe: Ask) -> None:
    """A question that begins with an auxiliary verb is an ASK."""
    assert ask_cafe("Is there a volunteer who lives in Ribe?") is True


def test_account_is_json_and_shows_what_was_understood(cafe: QuestionEngine) -> None:
    """The account names the mentions with their values, the shape, and the best candidates with their queries."""
    account = cafe.propose(Question("What is the age of Bo Lind?")).account
    assert json.loads(json.dumps(account)) == account
    assert account["mentions"][0]["text"] == "Bo Lind"
    assert account["mentions"][0]["values"][0]["property"] == "http://cafe.example/terms/fullName"
    assert account["candidates"][0]["query"].startswith("PREFIX")


@pytest.mark.parametrize(
    "question",
    [
        "",
        "?",
        "''",
        '"',
        "how many",
        "the of and",
        "Wie alt ist Bo Lind?",
        "年齢",
        "x" * 5000,
        "' OR 1=1 } DELETE WHERE { ?s ?p ?o",
        "\x00\n\t",
        "1 2 3",
    ],
    ids=range(12),
)
def test_odd_questions_only_ever_select(cafe: QuestionEngine, question: str) -> None:
    """Whatever is asked, in whatever language, what comes out is SELECT or ASK, or nothing."""
    for candidate in cafe.propose(Question(question)).candidates[:50]:
        body = "\n".join(line for line in candidate.sparql.splitlines() if not line.startswith("PREFIX"))
        assert body.startswith(("SELECT", "ASK"))


def test_label_in_another_language_is_understood(cafe: QuestionEngine) -> None:
    """A class is found by each of its labels."""
    assert cafe.linker.class_links("bénévole")[0].term.words[0] == "volunteer"


def test_candidates_are_bounded(cafe: QuestionEngine) -> None:
    """A question full of names of things makes no more candidates than a few times the setting."""
    many = " and ".join(["name", "age", "skill", "town", "population", "model", "weight", "cost", "year"] * 3)
    assert len(cafe.propose(Question(f"Show the {many} of volunteers and appliances")).candidates) <= 1200
