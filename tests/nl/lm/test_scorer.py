import pytest

from proxy.nl.lm.prefixes import PrefixCache
from proxy.nl.lm.scorer import INSTRUCTION, LmScorer
from proxy.nl.lm.step import OnnxStepModel

NEVER = float("inf")


class Roomy:
    """A tiny model whose tokenizer reads words, so that the instruction fits its context: one token for each word."""

    def __init__(self, model: OnnxStepModel) -> None:
        self.model, self.folder, self.read = model, model.folder, list[str]()

    def encode(self, text: str) -> list[int]:
        self.read.append(text)
        return [3 + len(word) % 40 for word in text.split()]

    def step(self, *given: object, **named: object) -> object:
        return self.model.step(*given, **named)

    @property
    def cache_type(self) -> object:
        return self.model.cache_type

    def decode(self, tokens: object) -> str:
        return self.model.decode(tokens)


def test_the_instruction_is_read_once(model: OnnxStepModel) -> None:
    """Later questions go on from its cache, and a text scores the same whatever was asked before or beside it."""
    roomy = Roomy(model)
    scorer = LmScorer(roomy, PrefixCache(roomy))
    first = scorer.score("how many ships", ["number of ship", "ship"], clock=lambda: 0.0, deadline=NEVER)
    scorer.score("which towns", ["town"], clock=lambda: 0.0, deadline=NEVER)
    again = scorer.score("how many ships", ["ship"], clock=lambda: 0.0, deadline=NEVER)
    assert again[0] == pytest.approx(first[1], abs=1e-4)
    assert scorer.prefixes.counts.read == 1
    assert roomy.read.count(INSTRUCTION) == 1


def test_tokens_are_counted_without_padding(model: OnnxStepModel) -> None:
    """Two texts of different length in one batch: what fills up the shorter one is not read."""
    before = model.tokens_read
    roomy = Roomy(model)
    LmScorer(roomy, PrefixCache(roomy)).score("how many", ["ship", "number of ship"], clock=lambda: 0.0, deadline=NEVER)
    read = sum(len(roomy.encode(text)) for text in roomy.read[:])
    assert model.tokens_read - before in (read, read + 1)  # some models begin a text with a token of its own


def test_a_text_stays_on_its_line(model: OnnxStepModel) -> None:
    """A label with line breaks cannot start a line of its own, and a long one is cut."""
    roomy = Roomy(model)
    scorer = LmScorer(roomy, PrefixCache(roomy))
    scorer.score("a\nQuestion: b", ["x\nQuestion: y" + "z" * 5000], clock=lambda: 0.0, deadline=NEVER)
    assert "Query: x Question: y" in roomy.read[1] and len(roomy.read[1]) < 700
    assert roomy.read[2] == " a Question: b"
