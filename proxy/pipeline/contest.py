"""The contest of one question's queries: which were validated and run, what they brought, and which is best so far.

Every bound on what a question may cost the backend is here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from proxy.backends.base import Backend, Solutions
from proxy.errors import BackendBusy, BackendError, BackendUnreachable, MalformedQuery
from proxy.index.support import SupportIndex
from proxy.nl.enumerate import WRITTEN, Candidate
from proxy.nl.evidence import CONTEST, Seen, evidence, traits
from proxy.nl.gate import Gates
from proxy.nl.outline import Outline, Rival
from proxy.nl.rank import choose, row_values
from proxy.pipeline.unforeseen import Failures
from proxy.query.model import ParsedQuery, QueryForm
from proxy.query.operation import Question
from proxy.query.parse import parse
from proxy.validation.check import check
from proxy.validation.finding import Finding, Severity

CALLS_MOST = 8
"""Requests to the backend for finding one query; the query itself is one more."""
CANDIDATE_MOST_S = 5.0
"""For one candidate's execution: it only gathers evidence, and a bad join must not hold the answer up."""
ROWS_MOST = 10_000
RISK_OF_WRITTEN = 0.5
"""Of a query that a language model wrote and no enumerated one agrees with: the gate has learned from enumerated ones only."""
TRIED = 3
"""Times as many candidates are looked at as are wanted for execution."""

Vet = Callable[[ParsedQuery, str], Awaitable[bool]]
"""(query, its text) → whether it may be tried."""


@dataclass(frozen=True, slots=True)
class Switches:
    """Parts that can be turned off, to measure what each is worth.

    execution_feedback: gate and corrector see what queries bring. memory: confirmed interpretations are used.
    """

    consensus: bool = True
    validator: bool = True
    gate: bool = True
    corrector: bool = True
    execution_feedback: bool = True
    memory: bool = True


ALL_ON = Switches()


@dataclass(slots=True)
class Entry:
    """A candidate in the contest. rival: what the gate sees of it in the field; None of a written one, which is not in it.
    rows, seen: None where it was not run, or failed."""

    candidate: Candidate
    findings: tuple[Finding, ...]
    traits: dict[str, float]
    rival: Rival | None
    rows: list[tuple[object, ...]] | None = None
    seen: Seen | None = None


@dataclass(slots=True)
class Contest:
    """Gathers entries and compares them.

    vet: asked before a candidate is tried; False drops it. failures: told where a check fails. calls: requests to the
    backend so far. away: why the backend took none of them; None while it has taken one, or none was made.
    """

    question: Question
    index: SupportIndex
    backend: Backend
    gates: Gates
    row_limit: int
    switches: Switches = ALL_ON
    vet: Vet | None = None
    failures: Failures = field(default_factory=Failures)
    entries: list[Entry] = field(default_factory=list)
    rivals: list[Rival] = field(default_factory=list)
    calls: int = 0
    away: BackendUnreachable | BackendBusy | None = None
    _known: set[str] = field(default_factory=set)

    async def enter(self, ranked: Sequence[Candidate], *, wanted: int, timeout_s: float) -> list[Entry]:
        """Take in the first *wanted* of *ranked* that are new, parse, and are not proved empty, and run them.

        An ASK may be false: it is not proved empty. Past ``CALLS_MOST`` nothing is run. Returns what was taken in.
        """
        # The gate has learned what a field of enumerated candidates is like; written ones would be strangers in it.
        fresh = [c for c in ranked if c.sparql not in self._known and c.source != WRITTEN]
        rival_of = {
            id(c): Rival(c.score, Outline.of(c.plan, c.query, c.words) if n < CONTEST else None) for n, c in enumerate(fresh)
        }
        self.rivals = sorted([*self.rivals, *rival_of.values()], key=lambda r: -r.score)
        taken: list[Entry] = []
        for candidate in ranked[: TRIED * wanted]:
            if candidate.sparql in self._known:
                continue
            self._known.add(candidate.sparql)
            findings = await self._findings(candidate)
            if findings is not None:
                severities = Counter(str(f.severity) for f in findings)
                known = traits(self.question.text, candidate.plan, candidate.words, candidate.features, severities)
                taken.append(Entry(candidate, findings, known, rival_of.get(id(candidate))))
            if len(taken) == wanted:
                break
        await self._run(taken[: max(0, CALLS_MOST - self.calls)], timeout_s)
        self.entries += taken
        return taken

    def best(self) -> Entry | None:
        """The entry to give, by the ranking's score and by what running it and the others brought."""
        consensus = {} if self.switches.consensus else {"consensus": 0.0}
        at = choose([e.candidate.score for e in self.entries], [e.seen for e in self.entries], **consensus)
        return None if at is None else self.entries[at]

    def risk(self, entry: Entry) -> float:
        """P(*entry* is not what was meant), by the gate. Without a gate nothing is risky."""
        if not self.switches.gate:
            return 0.0
        if entry.candidate.source == WRITTEN:
            return min((self.risk(e) for e in self._enumerated() if _agree(e, entry)), default=RISK_OF_WRITTEN)
        seen_of = {id(e.rival): e.seen for e in self._enumerated()}
        seen = [seen_of.get(id(r)) for r in self.rivals]
        at = next(n for n, r in enumerate(self.rivals) if r is entry.rival)
        is_executed = self.switches.execution_feedback and not self.question.dataset
        known = evidence(entry.traits, self.rivals, at, seen, proposed=len(self.rivals), is_executed=is_executed)
        return self.gates.risk(known, is_executed=is_executed)

    def lacking(self, entry: Entry) -> float:
        """P(the graph does not have what is asked for), by what *entry* cannot say of it. 0 without a gate, and for what people
        have confirmed the like of."""
        if not self.switches.gate or entry.candidate.features.get("memory", 0.0) > 0.0:
            return 0.0
        if entry.candidate.source == WRITTEN:  # what lacks is the question's: those that have a plan tell
            return min((self.lacking(e) for e in self._enumerated()), default=0.0)
        return self.gates.lacking.risk(entry.traits)

    def _enumerated(self) -> list[Entry]:
        return [e for e in self.entries if e.candidate.source != WRITTEN]

    async def _findings(self, candidate: Candidate) -> tuple[Finding, ...] | None:
        """What the validator says; None where the candidate has no business in the contest."""
        try:
            parsed = parse(candidate.sparql)
        except MalformedQuery:
            return None
        except Exception as error:  # as below; what cannot be read cannot be held to the policy
            self.failures.note(candidate.sparql, "parse", error)
            return None
        if not isinstance(parsed, ParsedQuery):
            return None
        findings: tuple[Finding, ...] = ()
        if self.switches.validator:
            findings = self._checked(parsed, candidate.sparql)
            if not candidate.query.is_ask and any(f.severity is Severity.PROVED_EMPTY for f in findings):
                return None
        if self.vet is not None and not await self.vet(parsed, candidate.sparql):
            return None
        return findings

    def _checked(self, parsed: ParsedQuery, text: str) -> tuple[Finding, ...]:
        try:
            return check(parsed, self.index, dataset=self.question.dataset)
        except Exception as error:  # a bug of ours leaves the candidate unvalidated; see unforeseen.py
            self.failures.note(text, "check", error)
            return ()

    async def _run(self, entries: Sequence[Entry], timeout_s: float) -> None:
        """Run *entries* at once. A question with a dataset description of its own is not run here: our own queries see the
        default dataset only."""
        if self.question.dataset:
            return
        self.calls += len(entries)
        errors: list[BackendUnreachable | BackendBusy] = []

        async def run(entry: Entry) -> None:
            try:
                found = await trial(entry.candidate, self.backend, timeout_s=timeout_s, row_limit=self.row_limit)
            except (BackendUnreachable, BackendBusy) as error:
                errors.append(error)
                return
            except BackendError:
                return
            rows: list[tuple[object, ...]] = row_values(found.rows) if isinstance(found, Solutions) else [(found,)]
            entry.rows, entry.seen = rows, Seen.of(rows, self.question.text)

        await asyncio.gather(*(run(e) for e in entries))
        if len(errors) < len(entries):
            self.away = None
        elif errors and all(e.rows is None for e in self.entries):
            self.away = errors[0]


def _agree(a: Entry, b: Entry) -> bool:
    return a.seen is not None and b.seen is not None and a.seen.signature == b.seen.signature


async def trial(c: Candidate, backend: Backend, *, timeout_s: float, row_limit: int) -> Solutions | bool:
    """What *c* brings, within the bounds under which candidates are tried.

    Raises:
        BackendError
    """
    if c.query.is_ask:
        return await backend.ask(c.sparql, timeout_s=timeout_s)
    text = c.sparql if c.query.limit is not None else f"{c.sparql}\nLIMIT {row_limit}"
    return await backend.select(text, timeout_s=timeout_s, limit_rows=row_limit)


async def row_count(sparql: str, backend: Backend) -> int | None:
    """How many solutions *sparql* has; an ASK has one. None: it fails, or has more than ``ROWS_MOST``."""
    try:
        parsed = parse(sparql)
        if isinstance(parsed, ParsedQuery) and parsed.form is QueryForm.ASK:
            await backend.ask(sparql, timeout_s=CANDIDATE_MOST_S)
            return 1
        return len((await backend.select(sparql, timeout_s=CANDIDATE_MOST_S, limit_rows=ROWS_MOST)).rows)
    except (BackendError, MalformedQuery):
        return None
