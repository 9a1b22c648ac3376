"""What a run over many questions comes to: means, kinds of error, times, and whether two runs differ by more than chance."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from proxy.evaluation.score import ErrorKind

RESAMPLES = 2000
SEED = 11
METRICS = ("strict", "columns", "f1")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question of one run.

    milliseconds: from question to query. risk: as computed, None where it abstained. calls: requests to the backend for finding
    the query, without the query itself. tokens: of a language model; the engine asks none. first_strict: as *strict*, of the
    query before its correction. is_triggered: the gate let it be corrected.
    """

    id: str
    question: str
    strict: float
    columns: float
    f1: float
    kind: str
    milliseconds: float
    risk: float | None = None
    query: str | None = None
    gold: str = ""
    calls: int = 0
    tokens: int = 0
    is_triggered: bool = False
    first_strict: float | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Difference:
    """Of a metric between two runs on the same questions: mean of new minus old, and its 95 % interval by paired bootstrap."""

    metric: str
    mean: float
    low: float
    high: float
    questions: int

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that *share* of *values* do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1))]


def compare(old: Sequence[Outcome], new: Sequence[Outcome], *, resamples: int = RESAMPLES) -> list[Difference]:
    """Compare two runs over the questions that both have, by id; an empty list where there are none."""
    before = {o.id: o for o in old}
    pairs = [(before[n.id], n) for n in new if n.id in before]
    if not pairs:
        return []
    random = Random(SEED)
    picks = [[int(random.random() * len(pairs)) for _ in pairs] for _ in range(resamples)]
    out = []
    for metric in METRICS:
        changes = [getattr(n, metric) - getattr(o, metric) for o, n in pairs]
        means = sorted(statistics.fmean(changes[i] for i in pick) for pick in picks)
        low, high = percentile(means, 0.025), percentile(means, 0.975)
        out.append(Difference(metric, statistics.fmean(changes), low, high, len(pairs)))
    return out


def markdown(outcomes: Sequence[Outcome], *, title: str, differences: Sequence[Difference] = ()) -> str:
    """The report, for people."""
    n = len(outcomes)
    lines = [f"# {title}", "", f"{n} questions", "", "| metric | mean |", "| --- | ---: |"]
    lines += [f"| {m} | {statistics.fmean(getattr(o, m) for o in outcomes):.3f} |" for m in METRICS]
    times = [o.milliseconds for o in outcomes]
    lines += [f"| p50 | {percentile(times, 0.5):.0f} ms |", f"| p95 | {percentile(times, 0.95):.0f} ms |"]
    calls = [float(o.calls) for o in outcomes]
    lines.append(f"| calls to the backend before the query, mean and most | {statistics.fmean(calls):.1f}, {max(calls):.0f} |")
    lines.append(f"| tokens of a language model, mean | {statistics.fmean(o.tokens for o in outcomes):.0f} |")
    kinds = Counter(o.kind for o in outcomes)
    lines += ["", "| outcome | questions | share |", "| --- | ---: | ---: |"]
    lines += [f"| {k} | {kinds[k]} | {kinds[k] / n:.1%} |" for k in map(str, ErrorKind) if kinds[k]]
    if given := [o for o in outcomes if o.risk is not None]:
        lines += ["", "| risk | answers | right | 1 - risk, mean |", "| --- | ---: | ---: | ---: |"]
        for low in (0.0, 0.2, 0.4, 0.6, 0.8):
            held = [(o, o.risk) for o in given if o.risk is not None and low <= o.risk < low + 0.2 + 1e-9 * (low == 0.8)]
            if held:
                right, expected = statistics.fmean(o.strict for o, _ in held), 1 - statistics.fmean(r for _, r in held)
                lines.append(f"| {low:.1f} to {low + 0.2:.1f} | {len(held)} | {right:.2f} | {expected:.2f} |")
    lines += _of_the_corrector(outcomes)
    if differences:
        lines += ["", f"Against the earlier run, on {differences[0].questions} questions (paired bootstrap, 95 %):", ""]
        lines += ["| metric | difference | interval | |", "| --- | ---: | --- | --- |"]
        for d in differences:
            verdict = "clear" if d.is_clear else "may be chance"
            lines.append(f"| {d.metric} | {d.mean:+.3f} | {d.low:+.3f} to {d.high:+.3f} | {verdict} |")
    wrong = [o for o in outcomes if o.strict < 1]
    if wrong:
        lines += ["", "## Not right", ""]
        lines += [f"- {o.id} ({o.kind}): {o.question}" for o in wrong]
    return "\n".join(lines) + "\n"


def _of_the_corrector(outcomes: Sequence[Outcome]) -> list[str]:
    """Strict scores before and after correction, over the questions that the gate let be corrected."""
    groups = {
        "triggered": [o for o in outcomes if o.is_triggered],
        "triggered, wrong before": [o for o in outcomes if o.is_triggered and o.first_strict == 0.0],
        "triggered, right before": [o for o in outcomes if o.is_triggered and o.first_strict == 1.0],
    }
    if not groups["triggered"]:
        return []
    lines = ["", "| corrected | questions | right before | right after |", "| --- | ---: | ---: | ---: |"]
    for name, held in groups.items():
        if held:
            before = statistics.fmean(o.first_strict or 0.0 for o in held)
            lines.append(f"| {name} | {len(held)} | {before:.3f} | {statistics.fmean(o.strict for o in held):.3f} |")
    return lines
