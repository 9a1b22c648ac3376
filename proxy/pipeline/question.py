"""From a question to the query that answers it: propose, validate, execute the best few under bounds, choose; if the choice is
risky, correct it; if it stays so, abstain.

The chosen query then goes the way of every query (pipeline/sparql.py) and has no privilege there. Generated queries are
SELECT or ASK.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from proxy.errors import Abstained, MalformedRequest, ModelError
from proxy.index.normalise import normalise
from proxy.index.support import SupportIndex
from proxy.index.ttql import Document
from proxy.nl.engine import Proposal, QuestionEngine
from proxy.nl.enumerate import WRITTEN, Candidate
from proxy.nl.memory import Memory, Recalled
from proxy.nl.requirements import Requirements
from proxy.nl.written import candidates as written_candidates
from proxy.pipeline.contest import ALL_ON, CANDIDATE_MOST_S, Contest, Switches, Vet, row_count
from proxy.pipeline.correction import MOST_S, Correction, correct
from proxy.pipeline.dataset import Dataset
from proxy.pipeline.writing import Task, Writer
from proxy.query.model import ParsedQuery
from proxy.query.operation import Question
from proxy.query.parse import parse
from proxy.validation.finding import Finding

AT_ONCE = 2
"""Questions that are worked on at the same time in one event loop; the others wait. One uses its threads fully."""
MOST_CHARACTERS = 4_000
"""Two pages of text. Linking looks at every run of words, so that its time grows faster than the text."""

RESERVE_S = 1.0
"""Of ``[nl] timeout_s``, which no correction may use up: the answer is there already."""
ENGLISH = "en"
"""The encoder knows its words only: of other languages' it cannot tell that a graph has nothing like them."""
RISK_OF_SAME = 0.02
"""Of the confirmed query of the same question: people err, too."""
RISK_OF_PATTERN = 0.08
"""Of a confirmed query with another value in it: the value may stand for something else."""

Told = Callable[[str, dict[str, Any]], None]
"""(stage, what it found): called in the event loop as soon as the stage is done."""
Answer = TypeVar("Answer")

_limiters: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Translation:
    """A question, answered by *query*.

    risk: probability that the query is not what was meant, 0 to 1. status: ``ok``; ``empty`` where the query was run and has no
    solutions; ``unexecuted`` where no candidate could be run. account: how it came about, JSON-ready. calls: requests to the
    backend that it took.
    """

    query: str
    risk: float
    status: str
    account: dict[str, Any]
    calls: int = 0


async def translate(
    question: Question,
    dataset: Dataset,
    *,
    vet: Vet | None = None,
    told: Told = lambda stage, found: None,
    switches: Switches = ALL_ON,
) -> Translation:
    """Find the query that *question* asks for.

    Args:
        vet: asked before a candidate is tried on the backend; False drops it. None: all may be.
        told: hears of every stage.
        switches: parts to leave out, for measuring them.
    Raises:
        Abstained: nothing good enough was found; the account says what was understood.
        BackendUnreachable, BackendBusy: nothing good enough was found, and no candidate could be tried for this reason.
        ModelError: there is no engine, or it ran out of time.
        MalformedRequest: the question is longer than a question is.
    """
    if len(question.text) > MOST_CHARACTERS:
        raise MalformedRequest(f"the question has {len(question.text):,} characters; at most {MOST_CHARACTERS:,} are read")
    engine, index, settings = dataset.engine, dataset.index, dataset.settings.nl
    if engine is None or index is None:
        raise ModelError("; ".join(dataset.reasons()) or "questions are not enabled for this dataset")
    started = time.perf_counter()
    deadline = started + settings.timeout_s
    keeper = dataset.memory if switches.memory else None
    memory = keeper.memory if keeper is not None else None
    proposal = await _propose(engine, question, settings.timeout_s, told, memory)
    account = proposal.account
    if memory is not None and (known := _recall(memory, question, proposal, index, dataset)) is not None:
        return await _recalled(known, dataset, question, vet, told, account)
    rejected = keeper.rejected if keeper is not None else frozenset()
    if rejected:
        asked = normalise(question.text)
        proposal.candidates = [c for c in proposal.candidates if (asked, c.sparql) not in rejected]
    proposed = time.perf_counter()
    if dataset.judge is not None:
        left_s = deadline - proposed - RESERVE_S
        proposal.candidates, account["scorer"] = await dataset.judge.judge(question.text, proposal.candidates, timeout_s=left_s)
        told("scorer", account["scorer"])
        proposed = time.perf_counter()
    if not settings.execution_feedback:
        switches = replace(switches, execution_feedback=False)
    contest = Contest(question, index, dataset.trying, engine.gates, settings.row_limit, switches, vet, dataset.failures)
    timeout_s = min(CANDIDATE_MOST_S, max(0.5, deadline - proposed))
    if dataset.writer is None or question.dataset:  # a description of the default graph says nothing of another one
        await contest.enter(proposal.candidates, wanted=settings.execute, timeout_s=timeout_s)
    else:
        left_s = deadline - proposed - RESERVE_S
        writing = asyncio.create_task(_write(dataset.writer, dataset, engine, question.text, proposal, memory, left_s))
        try:
            await contest.enter(proposal.candidates, wanted=settings.execute, timeout_s=timeout_s)
            written, account["writer"] = await writing
        finally:
            writing.cancel()
        told("writer", account["writer"])
        left_s = min(CANDIDATE_MOST_S, max(0.5, deadline - time.perf_counter()))
        await contest.enter(written, wanted=len(written), timeout_s=left_s)
    executed = time.perf_counter()
    told("execution", {"executed": _executed(contest)})
    first = contest.best()
    if first is None:
        account |= {"query": None, "risk": 1.0, "findings": []}
        raise Abstained("no part of the question could be related to this graph", account=account)
    found = Correction(first, contest.risk(first))
    fires = found.risk >= settings.correct_above
    gate = {"risk": round(found.risk, 3), "correct_above": settings.correct_above, "fires": fires}
    account["gate"] = gate | {"query": first.candidate.sparql}
    told("gate", gate | {"words": first.candidate.words, "findings": [_finding(f) for f in first.findings]})
    if fires and switches.corrector and first.candidate.source != WRITTEN:
        until = min(executed + MOST_S, deadline - RESERVE_S)

        async def revise(requirements: Requirements) -> list[Candidate]:
            return await _in_worker(lambda: engine.revise(proposal.understanding, requirements, memory=memory), until)

        found = await correct(
            contest, first, found.risk, proposal.understanding, engine.schema, revise,
            above=settings.correct_above, budget=settings.corrections, timeout_s=timeout_s, told=told,
        )  # fmt: skip
    account["timings_ms"] |= {
        "proposal": round(1000 * (proposed - started), 1),
        "execution": round(1000 * (executed - proposed), 1),
        "correction": round(1000 * (time.perf_counter() - executed), 1),
    }
    lacking = contest.lacking(found.entry) if proposal.understanding.language == ENGLISH else 0.0
    account["lacking"] = round(lacking, 3)
    return _given(found, contest, account, least=settings.abstain_below, lacks=lacking > settings.lacking_above)


async def _write(
    writer: Writer,
    dataset: Dataset,
    engine: QuestionEngine,
    question: str,
    proposal: Proposal,
    memory: Memory | None,
    timeout_s: float,
) -> tuple[list[Candidate], dict[str, Any]]:
    """What a language model wrote for *question*, beside what was proposed, and an account of it."""
    assert dataset.index is not None

    async def describe(wait_s: float) -> Document | None:
        found = await dataset.ttql.document(wait_s=wait_s)
        return None if found is None else found.document

    terms = [t["term"] for t in proposal.account.get("schema", ())]
    confirmed = memory.all if memory is not None else ()
    encode = engine.linker.encode
    drafts, account = await writer.write(
        Task(question, dataset.index, describe, terms, confirmed, encode, dataset.failures), timeout_s=max(0.0, timeout_s)
    )
    weight = engine.ranker.weights.get("cosine", 0.0)
    found = await asyncio.to_thread(
        written_candidates, question, drafts, proposal.candidates, engine.schema, encode, cosine_weight=weight
    )
    return found, account


def _given(found: Correction, contest: Contest, account: dict[str, Any], *, least: float, lacks: bool) -> Translation:
    """The answer with its account.

    Raises:
        Abstained: its probability of being right is under *least*, or the graph lacks what is asked for (*lacks*).
        BackendUnreachable, BackendBusy: it is under *least*, and the backend took no candidate; the gate counts that against
            each of them, though it says nothing of the question, which may be answered a moment later.
    """
    chosen, risk = found.entry.candidate, round(found.risk, 3)
    account |= {
        "query": chosen.sparql,
        "words": chosen.words,
        "source": chosen.source,
        "risk": risk,
        "findings": [_finding(f) for f in found.entry.findings],
        "executed": _executed(contest),
        "corrections": found.steps,
        "endpoint_calls": contest.calls,
    }
    if lacks or 1.0 - risk < least:
        guesses = sorted(contest.entries, key=contest.risk)[:3]
        account["guesses"] = [{"words": e.candidate.words, "query": e.candidate.sparql} for e in guesses]
        if lacks:
            missing = "the question seems to ask for something that this graph does not have"
            raise Abstained(f"{missing}; the nearest that it has: {chosen.words}", account=account)
        if contest.away is not None:
            raise contest.away
        raise Abstained(f"the best reading of the question ({chosen.words}) is too uncertain: risk {risk:.2f}", account=account)
    rows = found.entry.rows
    status = "unexecuted" if rows is None else "ok" if rows else "empty"
    return Translation(chosen.sparql, risk, status, account, contest.calls)


def _recall(
    memory: Memory, question: Question, proposal: Proposal, index: SupportIndex, dataset: Dataset
) -> Recalled | None:
    try:
        return memory.recall(question.text, proposal.understanding.mentions, index)
    except Exception as error:  # it checks what it recalls: a bug there costs the memory, not the answer; see unforeseen.py
        dataset.failures.note(question.text, "check", error)
        return None


async def _recalled(
    known: Recalled, dataset: Dataset, question: Question, vet: Vet | None, told: Told, account: dict[str, Any]
) -> Translation:
    """The answer from memory; the way it came is in its account.

    Raises:
        Abstained: the query may not be run.
    """
    origin = known.origin
    account["memory"] = {
        "how": known.how, "question": origin.question, "source": str(origin.source), "confirmed_at": origin.at,
    }  # fmt: skip
    told("memory", account["memory"])
    parsed = parse(known.sparql)
    if vet is not None and isinstance(parsed, ParsedQuery) and not await vet(parsed, known.sparql):
        raise Abstained("the confirmed query of this question may not be run", account=account)
    rows = None if question.dataset else await row_count(known.sparql, dataset.trying)
    risk = RISK_OF_SAME if known.how == "same question" else RISK_OF_PATTERN
    account |= {"query": known.sparql, "risk": risk, "findings": [], "endpoint_calls": 0 if question.dataset else 1}
    status = "unexecuted" if rows is None else "ok" if rows else "empty"
    return Translation(known.sparql, risk, status, account, account["endpoint_calls"])


async def _propose(
    engine: QuestionEngine, question: Question, timeout_s: float, told: Told, memory: Memory | None
) -> Proposal:
    loop = asyncio.get_running_loop()

    def tell(stage: str, found: dict[str, Any]) -> None:
        loop.call_soon_threadsafe(told, stage, found)

    return await _in_worker(lambda: engine.propose(question, told=tell, memory=memory), time.perf_counter() + timeout_s)


async def _in_worker(work: Callable[[], Answer], deadline: float) -> Answer:
    """Do *work* of the engine in a worker thread; the place in the queue is held until it is done, even past the deadline."""
    loop = asyncio.get_running_loop()
    limiter = _limiters.setdefault(loop, asyncio.Semaphore(AT_ONCE))
    try:
        async with asyncio.timeout(max(0.0, deadline - time.perf_counter())):
            await limiter.acquire()
            done = loop.run_in_executor(None, work)
            done.add_done_callback(lambda _: limiter.release())
            return await asyncio.shield(done)
    except TimeoutError as exc:
        raise ModelError("the question engine had no candidates after [nl] timeout_s") from exc


def _executed(contest: Contest) -> list[dict[str, Any]]:
    return [
        {"words": e.candidate.words, "source": e.candidate.source, "solutions": None if e.rows is None else len(e.rows)}
        for e in contest.entries
    ]


def _finding(f: Finding) -> dict[str, Any]:
    return {
        "severity": str(f.severity), "pattern": f.pattern, "line": f.line, "column": f.column, "message": f.message,
        "evidence": f.evidence, "suggestions": list(f.suggestions), "rule": f.rule,
    }  # fmt: skip
