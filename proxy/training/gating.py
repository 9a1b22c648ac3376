"""From samples to gates: which query the contest would have chosen, what is known of it, whether it is wrong, and its models.

Everything is out of fold by whole graphs, and nested: in each fold the ranking is fitted on the other graphs, the choices on
the graphs left out are labelled right or wrong, and the gates are fitted to these, again by folds of graphs. So a gate learns
from the mistakes that the engine makes on graphs it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from proxy.nl.evidence import LACKING, Seen, evidence
from proxy.nl.gate import Gate
from proxy.nl.outline import Rival
from proxy.nl.rank import choose
from proxy.pipeline.contest import TRIED
from proxy.training.linear import Matrix, out_of_fold
from proxy.training.samples import Sample, fold_of

FOLDS = 5
Known = Mapping[str, float]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Case:
    """A candidate that would be run. sample: its question's place among the samples; option: its own among the candidates.

    executed, unexecuted: what a gate sees of it, with what running brought and without.
    """

    sample: int
    option: int
    fold: int
    is_chosen: bool
    is_wrong: bool
    is_lacking: bool
    executed: Known
    unexecuted: Known


def cases(
    samples: Sequence[Sample], *, execute: int, strength: float, prior: Mapping[str, float] | None = None
) -> list[Case]:
    """What the contest would run of each of *samples*, ranked by weights that were fitted on other graphs; on other questions,
    where there are fewer than three graphs.

    execute: how many are run, ``[nl] execute``. strength, prior: of the ranking's fit (``linear.fit_weights``).
    """
    by_question = len({s.graph for s in samples}) < 3
    found = out_of_fold(samples, l2=strength, prior=prior, folds=FOLDS, by_question=by_question)
    out: list[Case] = []
    for n, (sample, scores) in enumerate(zip(samples, found, strict=True)):
        out += contested(n, sample, scores, execute, fold_of(sample, FOLDS, by_question=by_question))
    return out


def contested(n: int, sample: Sample, scores: Matrix, execute: int, fold: int) -> list[Case]:
    """The contest over the candidates of *sample*, the nth, when they have *scores*."""
    order = np.argsort(-scores, kind="stable")
    ranked = [sample.options[i] for i in order]
    run = [i for i, o in enumerate(ranked[: TRIED * execute]) if not o.is_barred][:execute]
    seen: list[Seen | None] = [ranked[i].seen if i in run else None for i in range(len(ranked))]
    field = [Rival(float(scores[i]), sample.options[i].outline) for i in order]
    best = choose([field[i].score for i in run], [seen[i] for i in run])
    if best is None:
        return []
    chosen = run[best]

    def known(i: int, is_executed: bool) -> Known:
        return evidence(ranked[i].traits, field, i, seen, proposed=sample.proposed, is_executed=is_executed)

    return [
        Case(
            n, int(order[i]), fold, i == chosen, not ranked[i].is_right, sample.is_lacking, known(i, True), known(i, False)
        )
        for i in run
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """Evidence as a matrix, (cases, names)."""

    names: tuple[str, ...]
    values: Matrix

    @classmethod
    def of(cls, known: Sequence[Known], names: Sequence[str] | None = None) -> Table:
        """names: the columns; None: all that there are."""
        chosen = tuple(sorted({k for f in known for k in f}) if names is None else names)
        return cls(chosen, np.array([[f.get(k, 0.0) for k in chosen] for f in known], dtype=np.float64))

    def of_cases(self, which: Bools) -> Table:
        """The rows *which*."""
        return Table(self.names, self.values[which])


def logistic(table: Table, wrong: Bools, *, l2: float, prior: Gate | None = None) -> Gate:
    """The logistic model of *wrong*: standardised, under a Gaussian prior of strength *l2* about *prior* (None: zeros), by
    Newton's method. What does not vary keeps its prior weight."""
    mean, deviation = table.values.mean(axis=0), table.values.std(axis=0)
    before = np.array([0.0 if prior is None else prior.weights.get(k, 0.0) for k in table.names])
    used = deviation > 1e-9
    z = np.column_stack([(table.values[:, used] - mean[used]) / deviation[used], np.ones(len(wrong))])
    fixed = 0.0 if prior is None else prior.bias + float(mean[~used] @ before[~used])
    start = np.append(before[used] * deviation[used], fixed + mean[used] @ before[used])
    penalty = np.full(z.shape[1], l2)
    penalty[-1] = 1e-4 if prior is None else l2  # of the bias: so little that it only keeps it finite
    w, y = start.copy(), wrong.astype(float)
    for _ in range(30):
        p = 1 / (1 + np.exp(-np.clip(z @ w, -30, 30)))
        hessian = (z * (p * (1 - p))[:, None]).T @ z / len(y) + np.diag(penalty + 1e-9)
        step = np.linalg.solve(hessian, z.T @ (p - y) / len(y) + penalty * (w - start))
        w -= step
        if np.abs(step).max() < 1e-8:
            break
    raw = before.copy()
    raw[used] = w[:-1] / deviation[used]
    weights = {k: v for k, v in zip(table.names, raw.tolist(), strict=True) if v}
    return Gate(weights, float(w[-1] - raw[used] @ mean[used] - before[~used] @ mean[~used]))


def risks(gate: Gate, table: Table) -> Matrix:
    """The risk of each case in *table*."""
    z = table.values @ np.array([gate.weights.get(k, 0.0) for k in table.names]) + gate.bias
    found: Matrix = 1 / (1 + np.exp(-np.clip(z, -30, 30)))
    return found


def held_out(folds: Sequence[int], table: Table, labels: Bools, *, l2: float, prior: Gate | None = None) -> Matrix:
    """Of each case the risk by a gate (`logistic`) that was fitted to the other *folds*."""
    part, risk = np.array(folds), np.zeros(len(labels))
    for fold in np.unique(part):
        others, own = part != fold, part == fold
        risk[own] = risks(logistic(table.of_cases(others), labels[others], l2=l2, prior=prior), table.of_cases(own))
    return risk


def lacking_evidence(known: Known) -> Known:
    """The part that tells whether the graph lacks what is asked for."""
    return {k: v for k, v in known.items() if k in LACKING}


# -- what a gate is worth


def auc(risk: Matrix, wrong: Bools) -> float:
    """Probability that a wrong one has a greater risk than a right one; ties count half."""
    right, bad = np.sort(risk[~wrong]), risk[wrong]
    below, upto = np.searchsorted(right, bad, "left"), np.searchsorted(right, bad, "right")
    return float(((below + upto) / 2).mean() / len(right))


def log_loss(risk: Matrix, wrong: Bools) -> float:
    """Mean negative log likelihood of *wrong*, in nats."""
    p = np.clip(risk, 1e-6, 1 - 1e-6)
    return float(-np.where(wrong, np.log(p), np.log(1 - p)).mean())


def figures(risk: Matrix, wrong: Bools) -> dict[str, float]:
    """AUC, log loss, calibration error in ten bins, false positives where 80 % of the wrong ones are found, and what is given
    with a risk under one half. What compares right and wrong is left out where one of them is missing."""
    bins = np.clip((risk * 10).astype(int), 0, 9)
    error = sum(abs(wrong[bins == b].mean() - risk[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins))
    low = risk < 0.5
    compared: dict[str, float] = {}
    if wrong.any() and not wrong.all():
        threshold = np.sort(risk[wrong])[int(0.2 * wrong.sum())]
        compared = {"auc": auc(risk, wrong), "fpr_at_recall_80": float((risk[~wrong] >= threshold).mean())}
    return {
        **compared,
        "log_loss": log_loss(risk, wrong),
        "ece": float(error),
        "share_below_half": float(low.mean()),
        "right_below_half": float(1 - wrong[low].mean()) if low.any() else 0.0,
    }


def coverage(risk: Matrix, wrong: Bools, *, shares: Sequence[float] = (0.1, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)) -> list[Known]:
    """Of the least risky *shares* of all, how many are right, and the greatest risk among them."""
    order = np.argsort(risk, kind="stable")
    out: list[Known] = []
    for share in shares:
        kept = order[: max(1, round(share * len(order)))]
        out.append({"share": share, "right": float(1 - wrong[kept].mean()), "risk": float(risk[kept].max())})
    return out
