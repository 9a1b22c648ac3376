"""Counting requests: cheap to count, read seldom."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import Any

from proxy.pipeline.exchange import Exchange

BOUNDS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the classes of a histogram; one more class has no bound."""


BOUNDS_MS = tuple(bound * 1000 for bound in BOUNDS_S)
SETTLE_AFTER = 1024


class Histogram:
    """How often a time fell into which class. counts: not cumulated, one more than BOUNDS_S."""

    __slots__ = ("_counts", "_new_ms", "_total_ms")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._total_ms = 0.0
        self._new_ms: list[float] = []

    def observe_ms(self, milliseconds: float) -> None:
        """Count one time; sorting many into classes at once costs a fifth of doing so one by one."""
        new = self._new_ms
        new.append(milliseconds)
        if len(new) >= SETTLE_AFTER:
            self._settle()

    def _settle(self) -> None:
        new = sorted(self._new_ms)
        self._new_ms.clear()
        self._total_ms += sum(new)
        before = 0
        for i, bound in enumerate(BOUNDS_MS):
            place = bisect_right(new, bound)
            self._counts[i] += place - before
            before = place
        self._counts[-1] += len(new) - before

    @property
    def counts(self) -> list[int]:
        self._settle()
        return self._counts

    @property
    def total_s(self) -> float:
        self._settle()
        return self._total_ms / 1000


RISK_BOUNDS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0)
"""Upper bounds of the classes of risks; none is over 1."""


class QuestionMetrics:
    """What has become of the questions about one dataset.

    outcomes: ``ok``, ``empty``, ``unexecuted`` (Translation), ``abstained`` and ``failed`` → number.
    risks: of the queries that were first choice, before any correction; how many are in each class of RISK_BOUNDS.
    corrections: requirements that were tried: ``accepted`` where the query was replaced, else ``kept``.
    """

    def __init__(self) -> None:
        self.outcomes = dict.fromkeys(("ok", "empty", "unexecuted", "abstained", "failed"), 0)
        self.risks = [0] * len(RISK_BOUNDS)
        self.risk_total = 0.0
        self.fired = 0
        self.corrections = {"accepted": 0, "kept": 0}

    def observe(self, outcome: str, account: Mapping[str, Any]) -> None:
        """Count one question. account: of its translation, as far as it came."""
        self.outcomes[outcome] += 1
        gate = account.get("gate")
        if gate is not None:
            risk = min(max(float(gate["risk"]), 0.0), 1.0)
            self.risks[bisect_left(RISK_BOUNDS, risk)] += 1
            self.risk_total += risk
            self.fired += bool(gate["fires"])
        for step in account.get("corrections", ()):
            self.corrections["accepted" if step["accepted"] else "kept"] += 1


class Metrics:
    """What has happened to the requests of this process.

    requests: (form, verdict, class of status) → number; the class is ``2xx`` …, ``none`` where the client left before.
    stages: parse, validate, confirm, plugins, queue, backend (to the head of its answer), total → how long they took.
    """

    def __init__(self) -> None:
        self.started_at = time.time()
        self.requests: dict[tuple[str, str, str], int] = {}
        self.stages: dict[str, Histogram] = {}
        self.response_bytes = 0
        self.broken = 0

    def observe(self, exchange: Exchange, status: int, size: int, total_s: float, *, is_broken: bool) -> None:
        """Count one request that is over. size: bytes of the body. is_broken: the body could not be completed."""
        parsed, operation = exchange.parsed, exchange.operation
        if exchange.question is not None:
            form = "question"
        elif parsed is not None:
            form = getattr(parsed, "form", "UPDATE")
        else:
            form = "other" if operation is None else operation.kind
        key = form, exchange.verdict or "none", CLASSES.get(status // 100, "none")
        self.requests[key] = self.requests.get(key, 0) + 1
        self.response_bytes += size
        self.broken += is_broken
        stages = self.stages
        for name, milliseconds in exchange.timings_ms.items():
            stage = stages.get(name)
            if stage is None:
                stage = stages[name] = Histogram()
            stage.observe_ms(milliseconds)
        if "total" not in stages:
            stages["total"] = Histogram()
        stages["total"].observe_ms(total_s * 1000)


CLASSES = {n: f"{n}xx" for n in range(1, 6)}
