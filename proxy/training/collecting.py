"""From question–query pairs to samples: ask the engine for its candidates, run them, and note which bring the right answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass

from proxy.backends.base import Solutions
from proxy.errors import BackendError, ModelError
from proxy.evaluating import accepted_forms, answer_of
from proxy.evaluation.questions import GoldQuestion
from proxy.evaluation.score import Answer, comparable, score
from proxy.index.support import SupportIndex
from proxy.nl.engine import QuestionEngine
from proxy.nl.enumerate import Candidate
from proxy.nl.evidence import Seen, traits
from proxy.nl.outline import Outline
from proxy.pipeline.contest import CANDIDATE_MOST_S, trial
from proxy.pipeline.dataset import Dataset
from proxy.query.model import ParsedQuery
from proxy.query.operation import Question
from proxy.query.parse import parse
from proxy.training.lacking import lacking
from proxy.training.samples import Option, Sample
from proxy.validation.check import check
from proxy.validation.finding import Severity

KEPT = 40
"""Candidates of a question that are run and noted: those behind are hardly ever chosen, whatever the weights."""
LACKING_ID = "-lacking"
"""How the ids end of questions that were made of others."""
Told = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """What to collect. kept: candidates of each question. lacking_every: of so many questions one is also asked with a noun
    that the graph does not know (0: none). known: (graph, id) of questions that were collected before."""

    kept: int = KEPT
    lacking_every: int = 0
    known: Collection[tuple[str, str]] = ()


async def collect(
    dataset: Dataset, questions: Sequence[GoldQuestion], graph: str, *, asked: Asked = Asked(), told: Told = lambda *_: None
) -> AsyncIterator[Sample]:
    """Samples of *questions* over *dataset*, whose engine must be ready; a question whose gold query does not run is left out.

    Args:
        graph: the name under which the samples are split into training and test. told: (what, done, in all), before each.
    Raises:
        ModelError: the dataset has no engine.
    """
    engine, index = dataset.engine, dataset.index
    if engine is None or index is None:
        raise ModelError("; ".join(dataset.reasons()) or "there is no question engine to train")
    for n, question in enumerate(questions):
        told(graph, n, len(questions))
        if (graph, question.id) not in asked.known and (gold := await answer_of(question.query, dataset)) is not None:
            accepted = accepted_forms(question, gold)
            groups = question.groups or ((1,) * len(gold.rows) if question.is_ordered else ())
            right = _Right(accepted, groups)
            options, proposed = await _options(question.text, question.language, dataset, engine, index, right, asked.kept)
            yield Sample(graph, question.id, question.text, question.query, options, proposed)
        odd = f"{question.id}{LACKING_ID}"
        if asked.lacking_every and n % asked.lacking_every == 0 and (graph, odd) not in asked.known:
            text = lacking(question.text, engine.linker)
            if text is not None:
                options, proposed = await _options(text, question.language, dataset, engine, index, None, asked.kept)
                yield Sample(graph, odd, text, question.query, options, proposed, is_lacking=True)


@dataclass(frozen=True, slots=True)
class _Right:
    accepted: Sequence[Answer]
    groups: Sequence[int]

    def __call__(self, got: Answer | None) -> bool:
        return score(self.accepted, got, groups=self.groups or None).strict == 1.0


async def _options(
    text: str, language: str | None, dataset: Dataset, engine: QuestionEngine, index: SupportIndex, right: _Right | None,
    kept: int,
) -> tuple[tuple[Option, ...], int]:  # fmt: skip
    candidates = engine.propose(Question(text, language)).candidates
    return tuple([await _option(text, c, dataset, index, right) for c in candidates[:kept]]), len(candidates)


async def _option(text: str, c: Candidate, dataset: Dataset, index: SupportIndex, right: _Right | None) -> Option:
    parsed = parse(c.sparql)
    found = check(parsed, index) if isinstance(parsed, ParsedQuery) else ()
    severities = Counter(str(f.severity) for f in found)
    got = await _answer(c, dataset)
    seen = Seen.of(None if got is None else got.rows, text)
    return Option(
        words=c.words,
        features={k: round(v, 4) for k, v in c.features.items() if v},
        is_right=right is not None and right(got),
        is_nothing=seen is None or seen.is_nothing,
        traits={k: round(v, 4) for k, v in traits(text, c.plan, c.words, c.features, severities).items() if v},
        outline=Outline.of(c.plan, c.query, c.words),
        seen=seen,
        is_barred=not c.query.is_ask and severities[str(Severity.PROVED_EMPTY)] > 0,
    )


async def _answer(c: Candidate, dataset: Dataset) -> Answer | None:
    """What *c* brings when it is tried; None if it fails."""
    try:
        found = await trial(c, dataset.trying, timeout_s=CANDIDATE_MOST_S, row_limit=dataset.settings.nl.row_limit)
    except BackendError:
        return None
    if not isinstance(found, Solutions):
        return Answer(("boolean",), [(found,)])
    return Answer(tuple(found.variables), [tuple(comparable(t) for t in row) for row in found.rows])
