"""Posting lists made of many texts at once are those of each text alone."""

from __future__ import annotations

import random

import pytest

from proxy.index.trigrams import postings, trigrams


@pytest.mark.parametrize("letters", [1, 2, 39, 40, 41, 300])
def test_postings_are_those_of_each_text(letters):
    """With few letters, which fit into 16 bits, the blank among them, and with more; texts that are empty, equal, long."""
    rng = random.Random(letters)
    alphabet = [" ", *map(chr, range(0x61, 0x61 + letters - 1))]
    folded = ["".join(rng.choices(alphabet, k=rng.randrange(9))) for _ in range(500)] + ["", "".join(alphabet) * 3]
    ids = rng.sample(range(1, 10_000), len(folded))
    expected = {}
    for i, text in zip(ids, folded, strict=True):
        for trigram in trigrams(text):
            expected.setdefault(trigram, []).append(i)
    found = list(postings(ids, folded))
    assert len(found) == len(expected)
    assert {trigram: own.tolist() for trigram, own in found} == expected


def test_nothing_has_no_postings():
    assert list(postings([], [])) == []
