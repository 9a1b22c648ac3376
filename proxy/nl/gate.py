"""The gate: the probability that a query is not what was meant, from what is known of it (``evidence``).

A logistic model of some hundred numbers, fitted on what the engine chose for questions about graphs that it was not fitted
on (docs/questions.md, "The gate"). There are two: one that sees what running the queries brought, and one that does not.
A third tells whether the question asks for what the graph does not have, which is a reason of its own to refuse: nearly every
question has its doubts, but this one has no right answer to lose.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from proxy.errors import ModelError

FILE = "gate.json"


@dataclass(frozen=True, slots=True)
class Gate:
    """*weights* by name of evidence, and *bias*. What has no weight is not looked at."""

    weights: Mapping[str, float]
    bias: float

    def risk(self, known: Mapping[str, float]) -> float:
        """P(wrong), 0 to 1."""
        z = self.bias + sum(w * known.get(name, 0.0) for name, w in self.weights.items())
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, z))))

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Gate:
        """From the numbers of a file; *bias* and *weights* must be there."""
        return cls({str(k): float(v) for k, v in document["weights"].items()}, float(document["bias"]))


NEVER = Gate({}, -30.0)
"""Suspects nothing."""


@dataclass(frozen=True, slots=True)
class Gates:
    """The gates of one engine. lacking: P(the graph does not have what is asked for), from a query's traits alone."""

    executed: Gate
    unexecuted: Gate
    lacking: Gate = NEVER

    def risk(self, known: Mapping[str, float], *, is_executed: bool) -> float:
        """P(wrong), by the gate that sees what execution brought, or by the other."""
        return (self.executed if is_executed else self.unexecuted).risk(known)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Gates:
        """From the document of a file of all three."""
        return cls(*(Gate.of(document[k]) for k in ("executed", "unexecuted", "lacking")))


@lru_cache(maxsize=1)
def shipped_gates() -> Gates:
    """The gates that come with the package."""
    return read_gates(Path(str(resources.files("proxy.nl"))) / "models")


def read_gates(folder: Path) -> Gates:
    """Load the gates in *folder*, which ``sparlance train gate`` wrote.

    Raises:
        ModelError: the file is missing, or holds no gates.
    """
    path = folder / FILE
    try:
        gates = Gates.of(json.loads(path.read_text(encoding="utf-8")))
    except OSError as exc:
        raise ModelError(f"cannot read the gates {path}: {exc.strerror}") from exc
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as exc:
        raise ModelError(f"{path} holds no gates: {type(exc).__name__}: {exc}") from exc
    numbers = [n for g in (gates.executed, gates.unexecuted, gates.lacking) for n in (g.bias, *g.weights.values())]
    if not all(map(math.isfinite, numbers)):
        raise ModelError(f"{path}: a weight is no finite number")
    return gates
