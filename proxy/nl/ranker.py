"""What a ranking is made of: weights of the features, and where there is one a cross-encoder that has a say on the best few.

A ranking is a folder: ``weights.json``, and with a cross-encoder ``model.onnx`` and ``tokenizer.json``, whose SHA-256 are in
weights.json. The package carries one; ``sparlance train ranker`` makes others (docs/models.md).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from proxy.errors import ModelError

FILE = "weights.json"
MOST_RERANKED = 64


class PairScorer(Protocol):
    """Says how well each of some texts answers to a question."""

    def score(self, question: str, texts: Sequence[str]) -> NDArray[Any]:
        """(texts,) logits. Safe to call from several threads."""


@dataclass(frozen=True, slots=True)
class Ranker:
    """*weights*: by name of feature; what has none is not looked at. cross: adds its logit, times *cross_weight*, to the linear
    scores of the *reranked* best."""

    weights: Mapping[str, float]
    cross: PairScorer | None = None
    cross_weight: float = 1.0
    reranked: int = 12


@lru_cache(maxsize=1)
def shipped_ranker() -> Ranker:
    """The ranking that comes with the package."""
    return read_ranker(Path(str(resources.files("proxy.nl"))) / "models")


def read_ranker(folder: Path, *, threads: int = 0) -> Ranker:
    """Load the ranking in *folder*. threads: of the cross-encoder; 0 lets onnxruntime decide.

    Raises:
        ModelError: a file is missing, is not what weights.json says, or cannot be used.
    """
    path = folder / FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        weights = {str(k): _finite(v) for k, v in document["weights"].items()}
        cross = document.get("cross")
        if cross is None:
            return Ranker(weights)
        reranked, cross_weight, max_tokens = int(cross["reranked"]), _finite(cross["weight"]), int(cross["max_tokens"])
        digests = {str(k): str(v) for k, v in cross["sha256"].items()}
    except OSError as exc:
        raise ModelError(f"cannot read the ranking {path}: {exc.strerror}") from exc
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as exc:
        raise ModelError(f"{path} holds no weights of a ranking: {exc}") from exc
    if not 1 <= reranked <= MOST_RERANKED:
        raise ModelError(f"{path}: reranked is {reranked}; 1 to {MOST_RERANKED} is possible")
    for name in ("model.onnx", "tokenizer.json"):
        if digest(folder / name) != digests.get(name):
            raise ModelError(f"{folder / name} is not the file that {FILE} was written for")
    from proxy.nl.onnx import OnnxCrossEncoder  # late: a linear ranking needs no onnxruntime

    return Ranker(weights, OnnxCrossEncoder(folder, threads=threads, max_tokens=max_tokens), cross_weight, reranked)


def _finite(value: Any) -> float:
    """A weight: of NaN no candidate would be better than another, of an infinite one all would."""
    if not math.isfinite(number := float(value)):
        raise ValueError(f"{value} is no weight")
    return number


def digest(path: Path) -> str:
    """SHA-256 of a file, in hex.

    Raises:
        ModelError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as exc:
        raise ModelError(f"no such model file: {path.name} in {path.parent}") from exc
