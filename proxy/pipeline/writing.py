"""A language model that writes queries for a question: asked with the graph's description and like questions, corrected by
what the validator says of its drafts, within a time of its own.

An answer never depends on it: where it is down, slow or busy, the enumerated queries stand alone, and the account says why.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from proxy.errors import ModelError, ProxyError
from proxy.index.support import SupportIndex
from proxy.index.ttql import Document
from proxy.index.ttql_select import fragments
from proxy.index.ttql_text import estimate_tokens, render
from proxy.nl.generate import Generator, Wanted
from proxy.nl.memory import Confirmed
from proxy.nl.written import Draft, Encode, messages, nearest, read, with_complaints
from proxy.pipeline.unforeseen import Failures

AT_ONCE = 8
"""Questions that a writer works on at the same time; to more it is busy."""
FAILURES = 3
"""In a row, after which it is left alone for a while, so that not every question waits for a server that is gone."""
REST_S = 30.0
_EXAMPLES_READ = 500
"""Confirmed pairs that are looked at for like questions: the latest."""
_DESCRIBED_S = 0.5
"""How long a question waits for the description of the graph, where it is still to be made."""


class WriterSettings(Protocol):
    """The part of the configuration that matters here (``[writer]``)."""

    @property
    def drafts(self) -> int: ...
    @property
    def repairs(self) -> int: ...
    @property
    def temperature(self) -> float: ...
    @property
    def seed(self) -> int: ...
    @property
    def prompt_tokens(self) -> int: ...
    @property
    def max_tokens(self) -> int: ...
    @property
    def examples(self) -> int: ...
    @property
    def timeout_s(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Task:
    """What there is to write from.

    describe: the description, or None if it is not there within so many seconds. terms: IRIs that the question may mean, best
    first. confirmed: pairs of this graph, the latest last. failures: told where our own reading of a draft fails.
    """

    question: str
    index: SupportIndex
    describe: Callable[[float], Awaitable[Document | None]]
    terms: Sequence[str]
    confirmed: Sequence[Confirmed]
    encode: Encode
    failures: Failures = field(default_factory=Failures)


@dataclass(slots=True)
class Writer:
    """*generator*, asked as *settings* say. outcomes: state → questions; tokens: read and written so far."""

    generator: Generator
    settings: WriterSettings
    outcomes: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    running: int = 0
    _failed: int = 0
    _rests_until: float = 0.0

    async def write(self, task: Task, *, timeout_s: float) -> tuple[list[Draft], dict[str, Any]]:
        """The drafts for a question, repaired as far as time and budget go, and an account of them, JSON-ready. Never raises
        for what the model or the description does."""
        started = time.perf_counter()
        account: dict[str, Any] = {"rounds": 0, "tokens_read": 0, "tokens_written": 0}
        drafts: list[Draft] = []
        account["state"] = await self._written(task, drafts, account, started + min(timeout_s, self.settings.timeout_s))
        account["drafts"] = [{"query": d.sparql, "usable": d.is_usable, "complaints": list(d.complaints)} for d in drafts]
        account["ms"] = round(1000 * (time.perf_counter() - started), 1)
        self.outcomes[account["state"]] += 1
        return drafts, account

    async def _written(self, task: Task, drafts: list[Draft], account: dict[str, Any], deadline: float) -> str:
        if self.running >= AT_ONCE:
            return "busy"
        if time.perf_counter() < self._rests_until:
            return "resting"
        self.running += 1
        try:
            async with asyncio.timeout(max(0.0, deadline - time.perf_counter())):
                return await self._rounds(task, drafts, account, deadline)
        except TimeoutError:
            self._fail()
            return "out of time"
        except ModelError as exc:
            self._fail()
            account["error"] = str(exc)[:300]
            return "failed"
        finally:
            self.running -= 1

    async def _rounds(self, task: Task, drafts: list[Draft], account: dict[str, Any], deadline: float) -> str:
        s = self.settings
        try:
            document = await task.describe(_DESCRIBED_S)
        except ProxyError:
            document = None
        if document is None:
            return "no description"
        description, whole = await asyncio.to_thread(described, document, task.terms, s.prompt_tokens)
        examples = await asyncio.to_thread(
            nearest, task.question, task.confirmed[-_EXAMPLES_READ:], task.encode, most=s.examples
        )
        account |= {"description": "whole" if whole else "slice", "examples": len(examples)}
        asked = first = messages(task.question, description, examples)
        for at in range(1 + s.repairs):
            wanted = Wanted(s.drafts if at == 0 else 1, s.max_tokens, s.temperature, s.seed + at)
            found = await self.generator.write(asked, wanted, timeout_s=max(0.05, deadline - time.perf_counter()))
            self._failed = 0
            account["rounds"] += 1
            for name, number in (("tokens_read", found.tokens_read), ("tokens_written", found.tokens_written)):
                account[name] += number
                self.tokens[name] += number
            new = await asyncio.to_thread(_read_all, found.texts[: wanted.drafts], task, document.prefixes)
            drafts += new
            if any(not d.complaints for d in drafts):
                break
            if not new:
                break
            asked = with_complaints(first, min(new, key=_badness))
        return "written" if any(d.is_usable for d in drafts) else "nothing usable"

    def _fail(self) -> None:
        self._failed += 1
        if self._failed >= FAILURES:
            self._failed, self._rests_until = 0, time.perf_counter() + REST_S

    async def aclose(self) -> None:
        """Close what the generator holds."""
        await self.generator.aclose()


def described(document: Document, terms: Sequence[str], budget_tokens: int) -> tuple[str, bool]:
    """The description in at most *budget_tokens*: whole if it fits, else the slice of *terms*; and whether it is whole."""
    text = render(document)
    if estimate_tokens(text) <= budget_tokens:
        return text, True
    classes = {p.class_ for p in document.patterns if p.class_ is not None}
    meant = [t for t in terms if t in classes]
    others = [t for t in terms if t not in classes]
    return render(fragments(document, meant, others, budget_tokens=budget_tokens)), False


def _read_all(texts: Sequence[str], task: Task, prefixes: Mapping[str, str]) -> list[Draft]:
    out = []
    for text in texts:
        try:
            out.append(read(text, task.index, prefixes))
        except Exception as error:  # a bug of ours costs the draft; see unforeseen.py
            task.failures.note(text, "check", error)
    return out


def _badness(d: Draft) -> tuple[bool, bool, int]:
    return not d.is_usable, d.parsed is None, len(d.complaints)
