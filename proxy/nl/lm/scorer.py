"""A language model as judge of candidates: how likely is the question, given what a query does in words.

It reads and never writes, so no text of a question or of a graph can make it do anything but score.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from proxy.nl.lm.decoding import Clock, likelihoods
from proxy.nl.lm.prefixes import PrefixCache
from proxy.nl.lm.step import StepModel

INSTRUCTION = """Each line describes what a database query returns, and then the question that it answers.
Query: number of singer
Question: How many singers are there?
Query: name of city with population more than 5000
Question: Which cities have over 5000 inhabitants?
Query: title of film with the highest budget
Question: What is the title of the most expensive film?
"""
"""Read once for all questions."""
LONGEST = 600
"""Characters of a text that are read; what is longer says no more."""


class LmScorer:
    """Scores texts for questions with *model*; *prefixes* are its own. Safe to call from several threads."""

    def __init__(self, model: StepModel, prefixes: PrefixCache) -> None:
        self.model, self.prefixes = model, prefixes
        self._lock = threading.Lock()

    def score(self, question: str, texts: Sequence[str], *, clock: Clock, deadline: float) -> list[float | None]:
        """Mean log-probability by token of *question* after each of *texts*; None where *deadline* (of *clock*) came first.

        Raises:
            ModelError: the model failed.
        """
        with self._lock:  # one question at a time: a step uses all threads it may
            prefix, _ = self.prefixes.get(INSTRUCTION)
            pairs = [(f"Query: {_line(t)}\nQuestion:", f" {_line(question)}") for t in texts]
            return likelihoods(self.model, prefix, pairs, clock=clock, deadline=deadline)


def _line(text: str) -> str:
    return " ".join(text.split())[:LONGEST]
