"""A run as pictures: whether risks are true, what went wrong, how long it took. SVG, by matplotlib (extra ``eval``)."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proxy.errors import ConfigError
from proxy.evaluation.report import Outcome

BINS = 10


def write_plots(folder: Path, outcomes: Sequence[Outcome]) -> list[Path]:
    """Write the pictures that *outcomes* have data for into *folder*, which is made.

    Raises:
        ConfigError: matplotlib is not installed, or the folder cannot be written.
    """
    try:
        figure: Any = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise ConfigError("plots", "plots need the package matplotlib: pip install 'sparlance[eval]'") from error
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, draw in (("risk", _risk), ("outcomes", _outcomes), ("times", _times)):
            fig = figure.Figure(figsize=(6, 4), layout="constrained")
            if draw(fig.subplots(), outcomes):
                fig.savefig(folder / f"{name}.svg")
                written.append(folder / f"{name}.svg")
    except OSError as error:
        raise ConfigError("plots", f"cannot write into {folder}: {error}") from error
    return written


def reliability(outcomes: Sequence[Outcome]) -> list[tuple[float, float, int]]:
    """Mean risk, share of wrong answers and their number, for each tenth of risk that has answers."""
    out = []
    for b in range(BINS):
        held = [(o.risk, o.strict) for o in outcomes if o.risk is not None and min(BINS - 1, int(o.risk * BINS)) == b]
        if held:
            n = len(held)
            out.append((sum(r for r, _ in held) / n, sum(1 - s for _, s in held) / n, n))
    return out


def _risk(axes: Any, outcomes: Sequence[Outcome]) -> bool:
    points = reliability(outcomes)
    if not points:
        return False
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    axes.scatter([p[0] for p in points], [p[1] for p in points], s=[20 + 2 * p[2] for p in points])
    axes.set(xlabel="risk that was stated", ylabel="share of wrong answers", xlim=(0, 1), ylim=(0, 1))
    return True


def _outcomes(axes: Any, outcomes: Sequence[Outcome]) -> bool:
    kinds = Counter(o.kind for o in outcomes).most_common()
    axes.barh([k for k, _ in reversed(kinds)], [n for _, n in reversed(kinds)])
    axes.set(xlabel="questions")
    return bool(kinds)


def _times(axes: Any, outcomes: Sequence[Outcome]) -> bool:
    times = sorted(o.milliseconds for o in outcomes)
    axes.plot(times, [(i + 1) / len(times) for i in range(len(times))])
    axes.set(xlabel="milliseconds to the query", ylabel="share of questions", xscale="log", ylim=(0, 1))
    return bool(times)
