import pytest

from proxy.nl.onnx import OnnxEncoder
from proxy.nl.words import Splitter, expand, is_opaque, local_name, stem, tokenize


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("birthDate", "birth date"),
        ("max_gross_weight", "maximum gross weight"),
        ("lampweight", "lamp weight"),
        ("fname", "first name"),
        ("HTTPServer", "http server"),
        ("owner-name", "owner name"),
    ],
)
def test_names_are_cut_into_words(encoder: OnnxEncoder, name: str, words: str) -> None:
    """Case, separators, common abbreviations and run-together words are all seen."""
    assert Splitter(encoder.ranks).words(name) == words


def test_without_ranks_run_together_words_stay() -> None:
    """A vocabulary that is not ordered by frequency cuts nothing it cannot be sure of."""
    assert Splitter({}).words("lampweight") == "lampweight"


@pytest.mark.parametrize(
    ("plural", "singular"),
    [("cities", "city"), ("boxes", "box"), ("people", "person"), ("glass", "glass"), ("status", "status"), ("names", "name")],
)
def test_plurals_fold(plural: str, singular: str) -> None:
    """Only plurals change."""
    assert stem(plural) == singular


def test_local_names() -> None:
    """The informative end of an IRI is decoded; identifiers are known as such."""
    assert local_name("http://x.example/a#ref-shop") == "ref-shop"
    assert local_name("urn:example:caf%C3%A9") == "café"
    assert is_opaque("Q42") and is_opaque("P31") and not is_opaque("Shop")


def test_tokens_keep_numbers_dates_and_possessives() -> None:
    """Numbers with marks inside are one token; an ending 's is its own."""
    assert [t.text for t in tokenize("Anna's 1,200.5 lamps.")] == ["Anna", "'s", "1,200.5", "lamps", "."]


def test_contractions_are_written_out() -> None:
    """So that a negation is a word."""
    assert expand("shops that  don't, can't and aren’t") == "shops that do not, can not and are not"
