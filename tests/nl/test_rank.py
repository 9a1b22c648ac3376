from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxy.nl.enumerate import Candidate
from proxy.nl.evidence import Seen
from proxy.nl.ir import Pattern, Query
from proxy.nl.plan import Plan
from proxy.nl.rank import choose, rank, row_values
from proxy.nl.ranker import Ranker
from proxy.query.term import XSD, Iri, Literal


def candidate(words: str, **features: float) -> Candidate:
    return Candidate(Plan(()), Query(Pattern()), words, dict(features))


def test_the_nearer_words_win(encoder) -> None:
    """With all else equal the candidate whose words mean the same as the question comes first."""
    near, far = candidate("age of the volunteer"), candidate("price of the lamp")
    assert rank("How old is the volunteer?", [far, near], encoder, Ranker({"cosine": 1.0}))[0] is near


class Prefers:
    """A scorer that gives 2 to texts with a word in them, else 0."""

    def __init__(self, word: str) -> None:
        self.word = word

    def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([2.0 if self.word in t else 0.0 for t in texts], dtype=np.float32)


def test_a_cross_encoder_has_its_say_on_the_best_few(encoder) -> None:
    """It reorders those it reads, by weight, and what stands behind them stays behind."""
    made = [candidate(f"{w} lamp", a=a) for w, a in (("red", 3.0), ("green", 2.5), ("blue", 1.0))]

    def first(word: str, **settings: Any) -> str:
        ranker = Ranker({"a": 1.0}, Prefers(word), **settings)
        return rank("?", made, encoder, ranker)[0].words

    assert first("green") == "green lamp"
    assert first("green", cross_weight=0.1) == "red lamp"
    assert first("blue", reranked=2) == "red lamp"


def test_an_empty_answer_counts_against_but_does_not_ban() -> None:
    """Close scores: the one with rows is chosen; a clear lead survives an empty answer."""
    nothing, one = Seen.of([]), Seen.of([("x",)])
    assert choose([5.0, 4.5], [nothing, one]) == 1
    assert choose([9.0, 4.5], [nothing, one]) == 0
    assert choose([], []) is None


def test_agreement_counts_for_a_candidate() -> None:
    """Two that bring the same rows beat one that is a little better by itself."""
    assert choose([5.1, 5.0, 4.9], [Seen.of([("x",)]), Seen.of([("y",)]), Seen.of([("y",)])]) == 1


def test_rows_compare_by_value() -> None:
    """Numbers are equal whatever their datatype or spelling."""
    rows = [
        (Literal("3.0", XSD + "decimal"), Iri("http://x.example/"), None),
        (Literal("3", XSD + "integer"), Iri("http://x.example/"), None),
    ]
    first, second = row_values(rows)
    assert first == second
