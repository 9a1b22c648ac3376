"""The corrector at work: a risky query's stage is entered anew, under one requirement more each time.

Not a rewrite: what comes out is ranked, validated and run like the first candidates, and replaces the query only if the gate
thinks less ill of it. So a right query is rarely lost, and a budget bounds what the rest costs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from proxy.errors import ModelError
from proxy.nl.corrector import Suspect, diagnose
from proxy.nl.engine import Understanding
from proxy.nl.enumerate import Candidate
from proxy.nl.requirements import NONE, Requirements
from proxy.nl.schema import Schema
from proxy.pipeline.contest import CALLS_MOST, Contest, Entry

ENTERED = 1
"""Candidates that one requirement may bring into the contest; the first that meets it is its best."""
MARGIN = 0.05
"""By which a correction's risk must be less: a draw is no reason to change one's mind."""

MOST_S = 2.0
"""For all corrections of a question. Each is a second enumeration, and nobody waits three seconds for a better guess."""

Revise = Callable[[Requirements], Awaitable[list[Candidate]]]
"""Enters the stages anew under requirements; ranked, best first. ModelError: there is no time left."""


@dataclass(slots=True)
class Correction:
    """What became of a query under suspicion. risk: of *entry*. steps: each requirement and what it led to, JSON-ready."""

    entry: Entry
    risk: float
    steps: list[dict[str, Any]] = field(default_factory=list)


async def correct(
    contest: Contest,
    entry: Entry,
    risk: float,
    understanding: Understanding,
    schema: Schema,
    revise: Revise,
    *,
    above: float,
    budget: int,
    timeout_s: float,
    told: Callable[[str, dict[str, Any]], None],
) -> Correction:
    """Try to replace *entry* by a less risky query; stop below *above*, at the budget, or where nothing is left to say."""
    found = Correction(entry, risk)
    held = NONE
    while found.risk >= above and len(held.all) < budget and contest.calls < CALLS_MOST:
        seen = found.entry.seen if contest.switches.execution_feedback else None
        suspect = Suspect(
            understanding.text, found.entry.candidate.plan, found.entry.findings, seen,
            understanding.mentions, understanding.anchors, schema,
        )  # fmt: skip
        requirement = diagnose(suspect, held)
        if requirement is None:
            break
        held = held.and_(requirement)
        try:
            revised = await revise(held)
        except ModelError:
            break  # out of time: what there is stands
        entered = await contest.enter(revised, wanted=ENTERED, timeout_s=timeout_s)
        step: dict[str, Any] = {"requirement": requirement.as_json(), "accepted": False, "query": None}
        for rival in entered:
            rival_risk = contest.risk(rival)
            step |= {"words": rival.candidate.words, "query": rival.candidate.sparql, "risk": round(rival_risk, 3)}
            if rival_risk < found.risk - MARGIN:
                found.entry, found.risk = rival, rival_risk
                step["accepted"] = True
        found.steps.append(step)
        told("correction", step)
    return found
