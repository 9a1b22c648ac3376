"""From a question to the query that answers it: propose, validate, execute the best few under bounds, choose, or abstain.

The chosen query then goes the way of every query (pipeline/sparql.py) and has no privilege there. Generated queries are
SELECT or ASK.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from proxy.backends.base import Backend
from proxy.errors import Abstained, BackendError, MalformedQuery, MalformedRequest, ModelError
from proxy.index.support import SupportIndex
from proxy.nl.engine import Proposal, QuestionEngine
from proxy.nl.enumerate import Candidate
from proxy.nl.rank import choose, confidence, row_values
from proxy.pipeline.dataset import Dataset
from proxy.query.model import ParsedQuery
from proxy.query.operation import Question
from proxy.query.parse import parse
from proxy.validation.check import check
from proxy.validation.finding import Finding, Severity

AT_ONCE = 2
"""Questions that are worked on at the same time in one event loop; the others wait. One uses its threads fully."""
CANDIDATE_MOST_S = 5.0
"""For one candidate's execution: it only gathers evidence, and a bad join must not hold the answer up."""
_TRIED = 3
"""Times ``execute``: how many candidates are looked at to find that many worth executing."""

Vet = Callable[[ParsedQuery, str], Awaitable[bool]]
"""(query, its text) → whether it may be tried."""

_limiters: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Translation:
    """A question, answered by *query*.

    risk: probability that the query is not what was meant, 0 to 1. status: ``ok``; ``empty`` where the query was run and has no
    solutions; ``unexecuted`` where no candidate could be run. account: how it came about, JSON-ready.
    """

    query: str
    risk: float
    status: str
    account: dict[str, Any]


MOST_CHARACTERS = 4_000
"""Two pages of text. Linking looks at every run of words, so that its time grows faster than the text."""


async def translate(question: Question, dataset: Dataset, *, vet: Vet | None = None) -> Translation:
    """Find the query that *question* asks for.

    Args:
        vet: asked before a candidate is tried on the backend; False drops it. None: all may be.
    Raises:
        Abstained: nothing good enough was found; the account says what was understood.
        ModelError: there is no engine, or it ran out of time.
        MalformedRequest: the question is longer than a question is.
    """
    if len(question.text) > MOST_CHARACTERS:
        raise MalformedRequest(f"the question has {len(question.text):,} characters; at most {MOST_CHARACTERS:,} are read")
    engine, index, settings = dataset.engine, dataset.index, dataset.settings.nl
    if engine is None or index is None:
        raise ModelError("; ".join(dataset.reasons()) or "questions are not enabled for this dataset")
    started = time.perf_counter()
    proposal = await _propose(engine, question, settings.timeout_s)
    account = proposal.account
    proposed = time.perf_counter()
    worth = await _validated(proposal.candidates, index, question, settings.execute, vet)
    validated = time.perf_counter()
    remaining_s = min(CANDIDATE_MOST_S, max(0.5, settings.timeout_s - (validated - started)))
    answers = await _execute(
        [c for c, _ in worth], dataset.backend, question, row_limit=settings.row_limit, timeout_s=remaining_s
    )
    account["timings_ms"] |= {
        "proposal": round(1000 * (proposed - started), 1),
        "validation": round(1000 * (validated - proposed), 1),
        "execution": round(1000 * (time.perf_counter() - validated), 1),
    }
    best = choose([c for c, _ in worth], answers)
    if best is None:
        account |= {"query": None, "risk": 1.0, "findings": []}
        raise Abstained("no part of the question could be related to this graph", account=account)
    chosen, findings = worth[best]
    risk = round(1.0 - confidence([c for c, _ in worth], best, answers), 3)
    account |= {
        "query": chosen.sparql,
        "words": chosen.words,
        "risk": risk,
        "findings": [_finding(f) for f in findings],
        "executed": [
            {"words": c.words, "solutions": None if a is None else len(a)} for (c, _), a in zip(worth, answers, strict=True)
        ],
    }
    if 1.0 - risk < settings.abstain_below:
        raise Abstained(f"the best reading of the question ({chosen.words}) is too uncertain: risk {risk:.2f}", account=account)
    rows = answers[best]
    status = "unexecuted" if rows is None else "ok" if rows else "empty"
    return Translation(chosen.sparql, risk, status, account)


async def _propose(engine: QuestionEngine, question: Question, timeout_s: float) -> Proposal:
    """Run the engine in a worker thread; the place in the queue is held until the thread is done, even past the deadline."""
    loop = asyncio.get_running_loop()
    limiter = _limiters.setdefault(loop, asyncio.Semaphore(AT_ONCE))
    try:
        async with asyncio.timeout(timeout_s):
            await limiter.acquire()
            work = loop.run_in_executor(None, engine.propose, question)
            work.add_done_callback(lambda _: limiter.release())
            return await asyncio.shield(work)
    except TimeoutError as exc:
        raise ModelError(f"the question engine had no candidates after {timeout_s:g} s") from exc


async def _validated(
    candidates: Sequence[Candidate], index: SupportIndex, question: Question, wanted: int, vet: Vet | None
) -> list[tuple[Candidate, tuple[Finding, ...]]]:
    """The first *wanted* candidates that parse and are not proved empty (an ASK may be false: it stays)."""
    kept: list[tuple[Candidate, tuple[Finding, ...]]] = []
    for c in candidates[: _TRIED * wanted]:
        try:
            parsed = parse(c.sparql)
        except MalformedQuery:
            continue
        if not isinstance(parsed, ParsedQuery):
            continue
        findings = check(parsed, index, dataset=question.dataset)
        if not c.query.is_ask and any(f.severity is Severity.PROVED_EMPTY for f in findings):
            continue
        if vet is not None and not await vet(parsed, c.sparql):
            continue
        kept.append((c, findings))
        if len(kept) == wanted:
            break
    return kept


async def _execute(
    candidates: Sequence[Candidate], backend: Backend, question: Question, *, row_limit: int, timeout_s: float
) -> list[list[tuple[object, ...]] | None]:
    """The rows of each, None for one that failed or was not run.

    A question with a dataset description of its own is not executed here: our own queries see the default dataset only.
    """
    if question.dataset:
        return [None for _ in candidates]

    async def run(c: Candidate) -> list[tuple[object, ...]] | None:
        try:
            if c.query.is_ask:
                return [(await backend.ask(c.sparql, timeout_s=timeout_s),)]
            text = c.sparql if c.query.limit is not None else f"{c.sparql}\nLIMIT {row_limit}"
            found = await backend.select(text, timeout_s=timeout_s, limit_rows=row_limit)
        except BackendError:
            return None
        return row_values(found.rows)

    return list(await asyncio.gather(*(run(c) for c in candidates)))


def _finding(f: Finding) -> dict[str, Any]:
    return {
        "severity": str(f.severity), "pattern": f.pattern, "line": f.line, "column": f.column, "message": f.message,
        "evidence": f.evidence, "suggestions": list(f.suggestions), "rule": f.rule,
    }  # fmt: skip
