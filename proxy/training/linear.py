"""The linear ranking: weights by maximum likelihood of the right candidates, and the logistic model of the confidence.

Both are convex and small (some seventy numbers), so numpy is enough and the result does not depend on chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from proxy.training.samples import Sample

Matrix = NDArray[np.float64]

LEAST_DEVIATION = 0.02
"""Of a feature over all candidates: one that is nearly always the same would else get a weight of any size."""


def fit_weights(samples: Sequence[Sample], *, l2: float = 0.003, steps: int = 400) -> dict[str, float]:
    """Weights that maximise the softmax probability of right candidates among all of a question, under a Gaussian prior.

    Questions where all candidates are right or none is say nothing and are left out. l2: strength of the prior, on features
    scaled to unit deviation.
    """
    useful = [s for s in samples if s.is_answerable and not all(o.is_right for o in s.options)]
    names = sorted({k for s in useful for o in s.options for k in o.features})
    if not useful or not names:
        return {}
    x = np.concatenate([matrix(s, names) for s in useful])
    right = np.array([o.is_right for s in useful for o in s.options])
    sizes = [len(s.options) for s in useful]
    scale = np.maximum(x.std(axis=0), LEAST_DEVIATION)
    weights = softmax_fit(x / scale, right, sizes, l2=l2, steps=steps) / scale
    return dict(zip(names, weights.tolist(), strict=True))


def matrix(sample: Sample, names: Sequence[str]) -> Matrix:
    """(candidates, features)."""
    return np.array([[o.features.get(k, 0.0) for k in names] for o in sample.options], dtype=np.float64)


def scores(sample: Sample, weights: Mapping[str, float]) -> Matrix:
    """The linear score of each candidate."""
    return np.array([sum(weights.get(k, 0.0) * v for k, v in o.features.items()) for o in sample.options])


def softmax_fit(
    x: Matrix, right: NDArray[np.bool_], sizes: Sequence[int], *, l2: float, steps: int, rate: float = 0.05
) -> Matrix:
    """Full-batch Adam on the negative log likelihood of *right* rows within their group; *sizes*: rows of each group."""
    bounds = np.cumsum([0, *sizes])
    owner = np.repeat(np.arange(len(sizes)), sizes)
    w = np.zeros(x.shape[1])
    m, v = np.zeros_like(w), np.zeros_like(w)
    for step in range(1, steps + 1):
        s = x @ w
        s -= np.maximum.reduceat(s, bounds[:-1])[owner]
        e = np.exp(s)
        p = e / np.add.reduceat(e, bounds[:-1])[owner]
        q = p * right
        q = q / np.maximum(np.add.reduceat(q, bounds[:-1])[owner], 1e-12)
        gradient = x.T @ (p - q) / len(sizes) + l2 * w
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        w -= rate * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    return w


def logistic_fit(x: Matrix, y: Matrix, *, l2: float = 1e-3) -> Matrix:
    """Logistic regression by Newton's method."""
    w = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ w))
        hessian = (x * (p * (1 - p))[:, None]).T @ x / len(y) + l2 * np.eye(len(w))
        w -= np.linalg.solve(hessian, x.T @ (p - y) / len(y) + l2 * w)
    return w
