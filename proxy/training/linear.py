"""The linear ranking: weights by maximum likelihood of the right candidates.

The problem is small (some seventy numbers) and nearly convex, so numpy is enough and the result does not depend on chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from proxy.training.samples import Sample, fold_of

Matrix = NDArray[np.float64]

LEAST_DEVIATION = 0.02
"""Of a feature over all candidates: one that is nearly always the same would else get a weight of any size."""


def fit_weights(
    samples: Sequence[Sample], *, l2: float = 0.003, prior: Mapping[str, float] | None = None, steps: int = 400
) -> dict[str, float]:
    """Weights that maximise the softmax probability of right candidates among all of a question, under a Gaussian prior.

    Questions where all candidates are right or none is say nothing and are left out; with none left, the prior is the result.

    Args:
        l2: strength of the prior, on features scaled to unit deviation.
        prior: the weights that the result stays near; None: zeros.
    """
    useful = [s for s in samples if s.is_answerable and not all(o.is_right for o in s.options)]
    before = dict(prior or {})
    names = sorted(before.keys() | {k for s in useful for o in s.options for k in o.features})
    if not useful:
        return before
    x = np.concatenate([matrix(s, names) for s in useful])
    right = np.array([o.is_right for s in useful for o in s.options])
    scale = np.maximum(x.std(axis=0), LEAST_DEVIATION)
    start = np.array([before.get(k, 0.0) for k in names]) * scale
    weights = softmax_fit(x / scale, right, [len(s.options) for s in useful], start=start, l2=l2, steps=steps) / scale
    return dict(zip(names, weights.tolist(), strict=True))


def matrix(sample: Sample, names: Sequence[str]) -> Matrix:
    """(candidates, features)."""
    return np.array([[o.features.get(k, 0.0) for k in names] for o in sample.options], dtype=np.float64)


def scores(sample: Sample, weights: Mapping[str, float]) -> Matrix:
    """The linear score of each candidate."""
    return np.array([sum(weights.get(k, 0.0) * v for k, v in o.features.items()) for o in sample.options])


def softmax_fit(
    x: Matrix, right: NDArray[np.bool_], sizes: Sequence[int], *, start: Matrix, l2: float, steps: int, rate: float = 0.05
) -> Matrix:
    """Full-batch Adam on the negative log likelihood of *right* rows within their group, from *start* and drawn to it. sizes:
    rows of each group."""
    bounds = np.cumsum([0, *sizes])
    owner = np.repeat(np.arange(len(sizes)), sizes)
    w = start.copy()
    m, v = np.zeros_like(w), np.zeros_like(w)
    for step in range(1, steps + 1):
        s = x @ w
        s -= np.maximum.reduceat(s, bounds[:-1])[owner]
        e = np.exp(s)
        p = e / np.add.reduceat(e, bounds[:-1])[owner]
        q = p * right
        q = q / np.maximum(np.add.reduceat(q, bounds[:-1])[owner], 1e-12)
        gradient = x.T @ (p - q) / len(sizes) + l2 * (w - start)
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        w -= rate * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    return w


Figure = tuple[float, float, float]
"""A share, and the ends of its 95 % interval."""


def first_right(samples: Sequence[Sample], found: Sequence[Matrix], *, resamples: int = 2000, seed: int = 0) -> Figure:
    """Share of samples whose best candidate by the scores *found* is right; the interval by bootstrap over gold queries, so
    that paraphrases count as one."""
    hits = [bool(s.options) and s.options[int(np.argmax(f))].is_right for s, f in zip(samples, found, strict=True)]
    return interval([float(h) for h in hits], [(s.graph, s.gold) for s in samples], resamples=resamples, seed=seed)


def interval(values: Sequence[float], clusters: Sequence[object], *, resamples: int, seed: int) -> Figure:
    """Mean of *values*, and a 95 % interval by bootstrap over *clusters*."""
    if not values:
        return 0.0, 0.0, 0.0
    number = {c: n for n, c in enumerate(dict.fromkeys(clusters))}
    at = np.array([number[c] for c in clusters])
    totals, sizes = np.bincount(at, values), np.bincount(at)
    drawn = np.random.default_rng(seed).integers(0, len(number), (resamples, len(number)))
    means = totals[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(np.mean(values)), float(low), float(high)


def out_of_fold(
    samples: Sequence[Sample], *, l2: float, prior: Mapping[str, float] | None = None, folds: int = 5, by_question: bool = False
) -> list[Matrix]:
    """Of each sample the scores by weights fitted on the other folds."""
    part = [fold_of(s, folds, by_question=by_question) for s in samples]
    fitted = [
        fit_weights([s for s, p in zip(samples, part, strict=True) if p != f], l2=l2, prior=prior) for f in range(folds)
    ]
    return [scores(s, fitted[p]) for s, p in zip(samples, part, strict=True)]
