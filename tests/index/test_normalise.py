"""What counts as the same text."""

from __future__ import annotations

import random

import pytest

from proxy.index.normalise import fold, local_name, normalise, normalise_all, words

SAME = [
    ("New-York", "new york"),
    ("O'Brien", "OBrien"),
    ("O\u2019Brien", "o'brien"),
    ("  a \t b ", "a b"),
    ("Straße", "STRASSE"),
    ("\ufb01ne", "fine"),
    ("Washington, D.C.", "washington d c"),
    ("(x)", "x"),
    ("a_b", "a b"),
]
DIFFERENT = [
    ("3.5", "35"),
    ("3.5", "3 5"),
    ("-2", "2"),
    ("C++", "C"),
    ("C", "C#+"),
    ("São", "Sao"),
    ("50%", "50"),
    ("1,000", "1000"),
]


@pytest.mark.parametrize(("one", "other"), SAME, ids=[a for a, _ in SAME])
def test_same(one, other):
    """Case, punctuation, blanks and compatibility forms do not matter."""
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=[f"{a} {b}" for a, b in DIFFERENT])
def test_different(one, other):
    """What changes a number or a name matters."""
    assert normalise(one) != normalise(other)


@pytest.mark.parametrize("text", ["", "?!", "İstanbul", "हिन्दी", "a\u0301", "x-y-z", "--1", "1.-2", "a.b.", "\u00ad", "٣.٥"])
def test_normal_forms_stay(text):
    """A normalised text normalises to itself, and only the empty one is empty."""
    assert normalise(normalise(text)) == normalise(text)
    assert bool(normalise(text)) == bool(text)


def test_fold_drops_accents():
    """Accents matter to an exact look-up only; the dots and signs of other scripts that carry meaning go with them."""
    assert fold("São Tomé") == fold("sao tome") == "sao tome"
    assert fold("Łódź") != fold("Lodz")


IRIS = [
    ("http://ex.org/a#Blue_Whale", "Blue_Whale", "Blue Whale"),
    ("http://ex.org/hasDeliveryDate", "hasDeliveryDate", "has Delivery Date"),
    ("http://ex.org/HTMLParser", "HTMLParser", "HTML Parser"),
    ("http://ex.org/city/id=12;lang=en", "id=12;lang=en", "id 12 lang en"),
    ("http://ex.org/S%C3%A3o%20Paulo", "São Paulo", "São Paulo"),
    ("http://ex.org/%FF", "\ufffd", "\ufffd"),
    ("urn:isbn:123", "123", "123"),
    ("http://ex.org/folder/", "folder", "folder"),
    ("nothing", "nothing", "nothing"),
]


@pytest.mark.parametrize(("iri", "name", "text"), IRIS, ids=[i for i, _, _ in IRIS])
def test_words_of_an_iri(iri, name, text):
    """The last part of an IRI, and how a person would write it."""
    assert local_name(iri) == name
    assert words(iri) == text


def test_short_cuts_change_nothing():
    """ASCII texts take a quick way to the same form as all others."""
    import random
    import unicodedata

    from proxy.index import normalise as module

    def slowly(text: str) -> str:
        lowered = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
        folded = module._LOOSE_MARK.sub(" ", module._JOINING.sub("", lowered).translate(module._SEPARATORS))
        return " ".join(folded.split()) or " ".join(lowered.split())

    rng = random.Random(4)
    for _ in range(20_000):
        text = "".join(rng.choice("aB1 9.,-'_%+\t\n Zé") for _ in range(rng.randrange(9)))
        assert module.normalise(text) == slowly(text), text


def test_many_at_once_are_as_each_alone():
    """Whatever is among them: nothing, line ends, blanks at an end or in a row, controls, other letters, marks, surrogates."""
    pieces = ["", "a", "B", "7", " ", "  ", "\n", "\t", "\r", "\x00", "-", ".", "_", "É", "ﬁ", "İ", "𝔸", "\ud800"]
    rng = random.Random(4)
    texts = ["".join(rng.choices(pieces, k=rng.randrange(6))) for _ in range(5_000)]
    assert normalise_all(texts) == [normalise(t) for t in texts]
    assert [normalise_all(some) for some in ([], [""], ["\n"], ["A b"])] == [[], [""], [""], ["a b"]]
