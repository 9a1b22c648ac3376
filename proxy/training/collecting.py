"""From question–query pairs to samples: ask the engine for its candidates, run them, and note which bring the right answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from proxy.errors import ModelError
from proxy.evaluating import accepted_forms, answer_of
from proxy.evaluation.questions import GoldQuestion
from proxy.evaluation.score import Answer, score
from proxy.nl.enumerate import Candidate
from proxy.nl.ir import render
from proxy.pipeline.dataset import Dataset
from proxy.query.operation import Question
from proxy.training.samples import Option, Sample

KEPT = 40
"""Candidates of a question that are run and noted: those behind are hardly ever chosen, whatever the weights."""
LEAST_ROWS = 5_000
Told = Callable[[str, int, int], None]


async def collect(
    dataset: Dataset, questions: Sequence[GoldQuestion], graph: str, *, kept: int = KEPT, told: Told = lambda *_: None
) -> list[Sample]:
    """Samples of *questions* over *dataset*, whose engine must be ready; a question whose gold query does not run is left out.

    Args:
        graph: the name under which the samples are split into training and test. told: (what, done, in all), before each.
    Raises:
        ModelError: the dataset has no engine.
    """
    if dataset.engine is None:
        raise ModelError("; ".join(dataset.reasons()) or "there is no question engine to train")
    out = []
    for n, question in enumerate(questions):
        told(graph, n, len(questions))
        gold = await answer_of(question.query, dataset)
        if gold is None:
            continue
        accepted = accepted_forms(question, gold)
        groups = question.groups or ((1,) * len(gold.rows) if question.is_ordered else ())
        candidates = dataset.engine.propose(Question(question.text, question.language)).candidates[:kept]
        options = [await _option(c, dataset, accepted, groups) for c in candidates]
        out.append(Sample(graph, question.id, question.text, question.query, tuple(options)))
    return out


async def _option(candidate: Candidate, dataset: Dataset, accepted: Sequence[Answer], groups: Sequence[int]) -> Option:
    limit = max(LEAST_ROWS, 4 * len(accepted[0].rows))
    got = await answer_of(candidate.sparql or render(candidate.query), dataset, limit_rows=limit)
    is_right = score(accepted, got, groups=groups or None).strict == 1.0
    features = {k: round(v, 4) for k, v in candidate.features.items() if v}
    return Option(candidate.words, features, is_right, got is None or _is_nothing(got))


def _is_nothing(answer: Answer) -> bool:
    """No rows, or one that holds only a zero."""
    return not answer.rows or (len(answer.rows) == 1 and answer.rows[0] in ((0,), (0.0,)))
