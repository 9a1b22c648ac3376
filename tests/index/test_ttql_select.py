"""Smaller documents: budgets hold, paths stay whole, what is lost is said, slices connect what was asked for."""

import pytest

from proxy.index.ttql import ALWAYS, Document, Edge, Frequency, LiteralGroup, Pattern, Target
from proxy.index.ttql_parse import parse
from proxy.index.ttql_select import above, cut, entries, fragments, only, prune, with_prefixes
from proxy.index.ttql_text import estimate_tokens, render
from tests.index.test_ttql import random_document

NAME = (LiteralGroup(examples=("x", "y")),)


def edge(property_: str, *targets: Target, share: float = 1.0, inverse: bool = False, literals=()) -> Edge:
    return Edge("http://e/" + property_, inverse, Frequency(share), targets, literals)


def to(class_: str, *edges: Edge) -> Target:
    return Target("http://e/" + class_, ALWAYS, edges)


def root(class_: str, *edges: Edge) -> Pattern:
    return Pattern("http://e/" + class_, 10, 10, edges)


TOWN = with_prefixes(
    Document(
        (
            root(
                "Person",
                edge("name", literals=NAME),
                edge(
                    "livesIn",
                    to("House", edge("street", to("Street", edge("name", literals=NAME))), edge("built", literals=NAME)),
                ),
                edge("hobby", literals=NAME, share=0.2),
                edge("keeps", to("Animal", edge("wing", literals=NAME, share=0.1), edge("leg", literals=NAME))),
                edge("owner", to("House", edge("built", literals=NAME)), inverse=True, share=0.5),
            ),
            root("House", edge("street", to("Street", edge("name", literals=NAME))), edge("built", literals=NAME)),
            root("Street", edge("name", literals=NAME), edge("lamps", literals=NAME, share=0.001)),
        ),
        notes=("all of it",),
    )
)


def edges_of(document: Document) -> set[tuple[str, ...]]:
    """Every edge as the words on its path."""
    found: set[tuple[str, ...]] = set()

    def walk(edges, path):
        for e in edges:
            here = (*path, ("^" if e.is_inverse else "") + e.property.removeprefix("http://e/"))
            found.add(here)
            for t in e.targets:
                walk(t.edges, here)

    for p in document.patterns:
        walk(p.edges, (p.class_.removeprefix("http://e/"),))
    return found


@pytest.mark.parametrize("budget", [60, 100, 150, 250, 400, 10_000])
def test_a_budget_of_tokens_holds(budget):
    """The whole text fits, more budget never shows less, the loss is said in a note, and the text is TTQL."""
    document = prune(TOWN, budget_tokens=budget)
    text = render(document)
    assert estimate_tokens(text) <= budget and parse(text) == document
    assert edges_of(document) <= edges_of(prune(TOWN, budget_tokens=budget + 50)) <= edges_of(TOWN)
    lost = len(edges_of(TOWN)) - len(edges_of(document))
    assert document == prune(TOWN, budget_tokens=budget)
    if lost:
        assert f"{lost} of {len(edges_of(TOWN))} edges" in document.notes[-1]
    else:
        assert document == TOWN


def test_a_budget_of_lines_holds():
    """Lines are counted as the text has them, notes and blank lines too."""
    for lines in range(8, render(TOWN).count("\n") + 2):
        assert render(prune(TOWN, budget_lines=lines)).count("\n") <= lines


def test_roots_stay_before_paths():
    """Every forward edge of a root outlives what lies deeper or points at it; then likelier paths outlive others."""
    sizes = range(60, estimate_tokens(render(TOWN)), 5)
    roots = {e for e in edges_of(TOWN) if len(e) == 2 and not e[1].startswith("^")}
    for budget in sizes:
        kept = edges_of(prune(TOWN, budget_tokens=budget))
        assert roots <= kept or kept <= roots
        assert ("Person", "keeps", "wing") not in kept or {("Person", "keeps", "leg"), ("Person", "^owner")} <= kept
        assert ("Person", "^owner", "built") not in kept or ("Person", "livesIn", "built") in kept


@pytest.mark.parametrize("seed", range(40))
def test_no_edge_without_its_path(seed):
    """Whatever the budget: what is kept is a part of the document, marked where something is missing."""
    document = with_prefixes(random_document(seed))
    whole = estimate_tokens(render(document))
    for budget in (whole // 3, whole // 2, whole - 1):
        found = prune(document, budget_tokens=budget)
        assert parse(render(found)) == found
        for small in found.patterns:
            assert any(_is_part(small, big) for big in document.patterns)


def _is_part(small, big) -> bool:
    if isinstance(small, Edge):
        return (small.property, small.is_inverse, small.frequency, small.literals) == (
            big.property, big.is_inverse, big.frequency, big.literals,
        ) and all(_is_part(s, b) for s, b in zip(small.targets, big.targets, strict=True))  # fmt: skip
    rest = iter(big.edges)
    is_marked = small.is_cut or len(small.edges) == len(big.edges)
    return small.class_ == big.class_ and is_marked and all(any(_is_part(s, b) for b in rest) for s in small.edges)


def test_what_cannot_fit_leaves_the_notes():
    """A budget below the notes keeps them and drops every pattern."""
    document = prune(TOWN, budget_tokens=1)
    assert document.patterns == () and document.notes[0] == "all of it" and "3 patterns" in document.notes[1]


def test_floor_depth_and_classes():
    """Rare edges go with what hangs on them; deep edges go without a mark; other classes go."""
    rare = {("Person", "hobby"), ("Person", "keeps", "wing"), ("Street", "lamps")}
    assert edges_of(TOWN) - edges_of(above(TOWN, 0.3)) == rare
    assert above(TOWN, 0.3).notes[-1] == "edges below 0.3 left out: 3" and above(TOWN, 0.0) == TOWN
    assert edges_of(above(TOWN, 0.6)) & {("Person", "^owner"), ("Person", "^owner", "built")} == set()
    assert max(e.depth for e in entries(cut(TOWN, 2))) == 2 and not cut(TOWN, 2).patterns[0].is_cut
    assert [p.class_ for p in only(TOWN, ["http://e/House"]).patterns] == ["http://e/House"]


def test_fragments_connect_what_was_asked_for():
    """People and streets: both patterns and the path between them, before anything else, without notes."""
    wanted = ["http://e/Person", "http://e/Street"]
    smallest = next(
        kept for budget in range(20, 400) if len(kept := edges_of(fragments(TOWN, wanted, budget_tokens=budget))) >= 2
    )
    assert smallest == {("Person", "livesIn"), ("Person", "livesIn", "street")}
    whole = fragments(TOWN, wanted)
    assert {p.class_ for p in whole.patterns} == set(wanted) and whole.notes == ()


def test_fragments_find_a_property_outside():
    """A property that no pattern of the classes reaches brings the first pattern that has it."""
    found = fragments(TOWN, ["http://e/Person"], ["http://e/lamps"])
    assert [p.class_ for p in found.patterns] == ["http://e/Person", "http://e/Street"]
    assert ("Street", "lamps") in edges_of(fragments(TOWN, [], ["http://e/lamps"], budget_tokens=60))
    assert edges_of(fragments(TOWN, [])) == edges_of(TOWN)
