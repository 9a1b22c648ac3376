"""TTQL as model and as text: rounding, writing, reading, and back."""

import os
import random
import re
import string
from pathlib import Path

import pytest

from proxy.index.ttql import (
    ALWAYS,
    UNKNOWN,
    Document,
    Edge,
    Frequency,
    LiteralGroup,
    Pattern,
    Target,
    frequency,
)
from proxy.index.ttql_names import Namer, prefixes_for
from proxy.index.ttql_parse import DEEPEST, parse
from proxy.index.ttql_text import estimate_tokens, render
from proxy.query.term import RDF_LANG_STRING, XSD

LIB = "http://lib.example/terms#"
TEXT = """# TTQL: made by hand
@prefix lib: <http://lib.example/terms#>

pattern lib:Loan {
  ?instance-count 5120
  ?sample-size 100
  (1.00) lib:borrower {
    (0.97) lib:Member {
      (1.00) lib:city { @literal [["Oulu", "Turku"]] }
      (~0.40) lib:sponsor { (1.00) lib:Member { ... } }
    }
    (0.03) _ { }
  }
  (0.62) lib:due { @literal [(0.99) ["2026-01-31", ...]^^<http://www.w3.org/2001/XMLSchema#date>, (0.01) ["soon"]@en] }
  (?) ^lib:of { (?) lib:Copy { } ... }
  ...
}
"""


def random_term(rng: random.Random) -> str:
    local = "".join(rng.choices(string.ascii_letters + string.digits + "_-.", k=rng.randint(1, 5)))
    odd = rng.choice(["", "", "", "", "é", ".", " ", ">", "\\", "/", "#"])
    return rng.choice([LIB, "http://e.example/", "urn:x:", "http://lib.example/a/b#", "no-scheme"]) + local + odd


def random_frequency(rng: random.Random) -> Frequency:
    whole = rng.choice([1, 3, 200, 10**7])
    return rng.choice([ALWAYS, UNKNOWN, frequency(rng.randint(0, whole), whole, is_estimated=rng.random() < 0.3)])


def random_group(rng: random.Random) -> LiteralGroup:
    letters = 'aä"\\\n\r\t\x00\x85\u2028]}#,@ 😀'
    examples = tuple("".join(rng.choices(letters, k=rng.randint(0, 6))) for _ in range(rng.randint(0, 3)))
    datatype, language = rng.choice(
        [
            (XSD + "string", None),
            (RDF_LANG_STRING, "en"),
            (RDF_LANG_STRING, "de-at"),
            (RDF_LANG_STRING, None),
            (LIB + "odd", None),
        ]
    )
    return LiteralGroup(datatype, language, random_frequency(rng), examples, rng.random() < 0.5)


def random_edges(rng: random.Random, depth: int) -> tuple[Edge, ...]:
    return tuple(
        Edge(
            random_term(rng),
            rng.random() < 0.3,
            random_frequency(rng),
            tuple(
                Target(
                    None if rng.random() < 0.2 else random_term(rng),
                    random_frequency(rng),
                    random_edges(rng, depth - 1),
                    rng.random() < 0.3,
                )
                for _ in range(rng.randint(0, 2))
            ),
            tuple(random_group(rng) for _ in range(rng.randint(0, 2))),
            rng.random() < 0.3,
        )
        for _ in range(rng.randint(0, 3) if depth else 0)
    )


def random_document(seed: int) -> Document:
    rng = random.Random(seed)
    patterns = tuple(
        Pattern(
            None if rng.random() < 0.1 else random_term(rng),
            rng.choice([None, 0, 5120]),
            rng.randint(0, 100),
            random_edges(rng, 3),
            rng.random() < 0.3,
        )
        for _ in range(rng.randint(0, 3))
    )
    terms = [random_term(rng) for _ in range(4)] if rng.random() < 0.8 else []
    notes = tuple(rng.choice(["", "a note", " indented", "# twice", "with {braces} (0.5)"]) for _ in range(rng.randint(0, 3)))
    return Document(patterns, prefixes_for(terms), notes)


@pytest.mark.parametrize("seed", range(300))
def test_a_document_is_read_as_it_was_written(seed):
    """Document → text → document, and text → document → text, whatever terms, texts and shares are in it."""
    document = random_document(seed)
    text = render(document)
    assert parse(text) == document
    assert render(parse(text)) == text


@pytest.mark.parametrize("seed", range(60))
def test_layout_means_nothing(seed):
    """The same tokens on one line, or with comments and blanks between the lines, are the same patterns."""
    text = render(random_document(seed))
    rng = random.Random(seed)
    head, _, body = text.partition("\npattern ")
    if not body:
        return
    other = (
        head
        + "\npattern "
        + "".join(line + rng.choice([" ", "\n\n", " # in between }\n", "\t\r\n"]) for line in body.split("\n"))
    )
    assert parse(other).patterns == parse(text).patterns


def test_the_hand_written_example():
    """What the grammar calls things: estimates, unknown shares, groups by datatype and language, inverse edges, elisions."""
    document = parse(TEXT)
    assert document.notes == ("TTQL: made by hand",)
    (pattern,) = document.patterns
    borrower, due, of = pattern.edges
    assert (pattern.class_, pattern.instances, pattern.sample, pattern.is_cut) == (LIB + "Loan", 5120, 100, True)
    assert [t.class_ for t in borrower.targets] == [LIB + "Member", None]
    assert borrower.targets[0].edges[1].frequency == Frequency(0.4, is_estimated=True)
    assert borrower.targets[0].edges[1].targets[0].is_cut
    assert [(g.datatype, g.language, g.is_whole) for g in due.literals] == [
        (XSD + "date", None, False),
        (RDF_LANG_STRING, "en", True),
    ]
    assert of.is_inverse and of.is_cut and of.frequency == UNKNOWN
    assert render(document) == TEXT


def test_the_example_of_the_documentation():
    """It is TTQL as this version writes it."""
    page = (Path(__file__).parents[2] / "docs" / "ttql.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```\n(@prefix lib.*?)```", page, re.DOTALL)
    assert render(parse(example)) == example


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(0, 5, "0.00"), (5, 5, "1.00"), (1, 3, "0.33"), (1, 1000, "0.001"), (1, 4000, "0.0003"), (9999, 10000, "0.9999")],
)
def test_rounding_keeps_rare_from_never_and_common_from_always(part, whole, text):
    """Two decimals, and more only where 0.00 or 1.00 would be false."""
    assert f"({text})" in render(Document((Pattern("urn:c", 1, 1, (Edge("urn:p", frequency=frequency(part, whole)),)),)))


def test_rounding_at_the_edges():
    """Beyond six decimals the nearest that is neither 0 nor 1; counts that cannot be a share are unknown."""
    assert frequency(1, 10**9).share == 1e-6 and frequency(10**9 - 1, 10**9).share == 0.999999
    assert frequency(3, 2) == frequency(0, 0) == UNKNOWN
    with pytest.raises(ValueError):
        Frequency(None, is_estimated=True)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("pattern", "1:8"),
        ("pattern x:C { ?instance-count 1 ?sample-size 1 }", "1:9"),
        ("pattern <c> { ?instance-count 1 ?sample-size 1\n (1.5) <p> { } }", "2:2"),
        ("pattern <c> { ?instance-count 1 ?sample-size 1\n (0.5) <p> { @literal [] } }", "2:24"),
        ('pattern <c> { ?instance-count 1 ?sample-size 1\n (0.5) <p> { @literal [["\\q"]] } }', "2:25"),
        ("pattern <c> { ?instance-count 1 ?sample-size 1\n (0.5) <p> { ... <q> } }", "2:18"),
        ("\x00", "1:1"),
        ("pattern <c> { ?instance-count 1 ?sample-size 1 " + "(1.0) <p> { (1.0) <c> { " * (DEEPEST + 1), "1:"),
    ],
)
def test_what_is_no_ttql(text, place):
    """A ValueError that begins with line and column, at the place, and nothing else whatever the text."""
    with pytest.raises(ValueError, match=f"^{place}"):
        parse(text)


DAMAGE = [
    "", "{", "}", "(", ")", "...", '"', "\\", "_", "@literal", "@", "^", "^^<", "[[", "]]", "<", ">", "#", "\n", "\0",
    "\ud800", "\u2028", "\\u", "\\U0010FFFF", "\\uD800", "prefix", "pattern", ":", ",", "9" * 5000, "1e999", "-1", "nan",
    "(" * 500, "{" * 3000, '"' + "x" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("seed", range(int(os.environ.get("SPARLANCE_FUZZ_CASES", "200"))))
def test_damaged_text_is_refused_or_read(seed):
    """No text brings another error than ValueError; SPARLANCE_FUZZ_CASES=100000 tries longer."""
    rng = random.Random(seed)
    text = list(render(random_document(seed % 20)) or TEXT)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(text))
        text[place : place + rng.randint(0, 3)] = rng.choice(DAMAGE)
    try:
        parse("".join(text))
    except ValueError as error:
        assert str(error).split(":")[0].isdecimal()


def test_prefixes():
    """Well-known names, the last word of the namespace otherwise, numbered if taken; local names that need no escapes only."""
    namespaces = ["http://a/lib#", "http://b/lib#", "http://www.w3.org/2000/01/rdf-schema#", "urn:isbn:", "http://e/owl#"]
    prefixes = prefixes_for([n + "x" for n in namespaces] + ["http://a/lib#y"])
    assert prefixes == {
        "lib": "http://a/lib#",
        "lib2": "http://b/lib#",
        "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
        "owl2": "http://e/owl#",
        "isbn": "urn:isbn:",
    }
    name = Namer(prefixes)
    assert name("http://a/lib#x.1") == "lib:x.1"
    assert name("http://a/lib#x/y") == "<http://a/lib#x/y>" and name("http://a/lib#") == "<http://a/lib#>"
    assert name("urn:a b>") == "<urn:a\\U00000020b\\U0000003E>"


def test_tokens_are_a_quarter_of_the_characters():
    """Rounded up; the unit of every budget."""
    assert [estimate_tokens(t) for t in ("", "a", "abcd", "abcde")] == [0, 1, 1, 2]
