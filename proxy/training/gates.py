"""The procedure behind ``sparlance train gate``: samples in, a folder with three gates and their model card out.

Which strength of the prior each gate gets is chosen by its log loss on held-out graphs, over the queries that would have been
given as answers. What the card says was measured out of fold, too, by graphs that neither ranking nor gate was fitted on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from proxy import __version__
from proxy.errors import ModelError
from proxy.nl.gate import FILE, Gate, Gates
from proxy.training.gating import (
    Bools,
    Known,
    Table,
    auc,
    cases,
    coverage,
    figures,
    held_out,
    lacking_evidence,
    log_loss,
    logistic,
)
from proxy.training.linear import Matrix
from proxy.training.samples import Sample

Told = Callable[[str, int, int], None]

STRENGTHS = (0.003, 0.01, 0.03, 0.1, 0.3)
"""Of the prior, weakest first."""
LEAST = 10
"""Right and wrong choices that there must be of each."""
KINDS = ("executed", "unexecuted", "lacking")


@dataclass(frozen=True, slots=True)
class FittedGates:
    """Gates and what is known of them. figures, strengths: of each kind; thresholds: what ``[nl] lacking_above`` would refuse.

    questions, lacking, graphs: how many there were, those included that ask for what their graph lacks. right: share of the
    answerable ones whose chosen query is right, by a ranking that was fitted on other graphs.
    """

    gates: Gates
    figures: Mapping[str, Mapping[str, float]]
    strengths: Mapping[str, float]
    covered: Sequence[Mapping[str, float]]
    thresholds: Sequence[Mapping[str, float]]
    questions: int
    lacking: int
    graphs: int
    right: float


def fit_gates(
    samples: Sequence[Sample],
    *,
    prior: Gates | None,
    execute: int = 4,
    ranking: Mapping[str, float] | None = None,
    ranking_strength: float = 0.003,
    strengths: Sequence[float] = STRENGTHS,
    told: Told = lambda *_: None,
) -> FittedGates:
    """Fit all three gates to *samples*. Folds are of whole graphs; of questions where there are fewer than three graphs.

    Args:
        prior: gates that those in the result stay near, and which stand where there is nothing to learn; None: no evidence.
        execute: how many candidates are run, ``[nl] execute``.
        ranking, ranking_strength: what the rankings stay near that choose in each fold; None: zeros.
    Raises:
        ModelError: too few choices were right, or wrong.
    """
    usable = [s for s in samples if s.options]
    told("choosing as the engine would", 0, 0)
    found = cases(usable, execute=execute, strength=ranking_strength, prior=ranking)
    wrong = np.array([c.is_wrong for c in found], dtype=np.bool_)
    chosen = np.array([c.is_chosen for c in found], dtype=np.bool_)
    lacks = np.array([c.is_lacking for c in found], dtype=np.bool_)
    if min(int(wrong[chosen].sum()), int((~wrong)[chosen].sum())) < LEAST:
        raise ModelError(f"too few questions: at least {LEAST} must be answered right, and {LEAST} wrong")
    gates: dict[str, Gate] = {}
    noted: dict[str, dict[str, float]] = {}
    best: dict[str, float] = {}
    covered: Sequence[Mapping[str, float]] = ()
    for n, kind in enumerate(KINDS[:2]):
        told("fitting gates", n, len(KINDS))
        known = [getattr(c, kind) for c in found]
        before = None if prior is None else getattr(prior, kind)
        table = Table.of(known, _names(known, before))
        best[kind], risk = _strongest([c.fold for c in found], table, wrong, chosen, before, strengths)
        gates[kind] = logistic(table, wrong, l2=best[kind], prior=before)
        noted[kind] = figures(risk[chosen & ~lacks], wrong[chosen & ~lacks])
        if kind == "executed":
            covered = coverage(risk[chosen & ~lacks], wrong[chosen & ~lacks])
    told("fitting gates", 2, len(KINDS))
    thresholds: list[Mapping[str, float]] = []
    given = np.flatnonzero(chosen).tolist()
    if LEAST <= lacks[chosen].sum() <= len(given) - LEAST:
        known = [lacking_evidence(found[i].unexecuted) for i in given]
        before = None if prior is None else prior.lacking
        table, every = Table.of(known, _names(known, before)), np.ones(len(given), dtype=np.bool_)
        best["lacking"], risk = _strongest([found[i].fold for i in given], table, lacks[given], every, before, strengths)
        gates["lacking"] = logistic(table, lacks[given], l2=best["lacking"], prior=before)
        noted["lacking"] = {"auc": auc(risk, lacks[given])}
        thresholds = [_refusals(risk, lacks[given], wrong[given], t) for t in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)]
    elif prior is not None:
        gates["lacking"] = prior.lacking
    return FittedGates(
        Gates(**gates), noted, best, covered, thresholds, len(given), int(lacks[chosen].sum()),
        len({s.graph for s in usable}), float(1 - wrong[chosen & ~lacks].mean()),
    )  # fmt: skip


def _strongest(
    folds: Sequence[int], table: Table, labels: Bools, measured: Bools, prior: Gate | None, strengths: Sequence[float]
) -> tuple[float, Matrix]:
    """The strength with the least log loss on *measured* cases of held-out graphs, and the risks that it gives there."""
    tried = {s: held_out(folds, table, labels, l2=s, prior=prior) for s in strengths}
    best = min(strengths, key=lambda s: log_loss(tried[s][measured], labels[measured]))
    return best, tried[best]


def _names(known: Sequence[Known], prior: Gate | None) -> Sequence[str]:
    return sorted({k for f in known for k in f} | (prior.weights.keys() if prior is not None else set()))


def _refusals(risk: Matrix, lacks: Bools, wrong: Bools, threshold: float) -> Mapping[str, float]:
    above = risk > threshold
    return {
        "above": threshold,
        "refused": float(above[lacks].mean()),
        "right_lost": float((above & ~wrong & ~lacks).sum() / (~lacks).sum()),
    }


# -- what is written


def write_gates(fitted: FittedGates, folder: Path, *, made_by: str, data: Sequence[str]) -> None:
    """Write the gates into *folder*, with ``MODEL_CARD.md``. made_by: the command. data: what they were trained on."""
    folder.mkdir(parents=True, exist_ok=True)
    document = gates_document(fitted, made_by=made_by)
    (folder / FILE).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "MODEL_CARD.md").write_text(gates_card(fitted, made_by=made_by, data=data), encoding="utf-8")


def gates_document(fitted: FittedGates, *, made_by: str) -> dict[str, Any]:
    """The content of ``gate.json``."""
    document: dict[str, Any] = {
        "note": f"Written by {made_by} (docs/models.md); numbers only.",
        "version": __version__,
        "questions": fitted.questions,
        "graphs": fitted.graphs,
    }
    for kind in KINDS:
        gate: Gate = getattr(fitted.gates, kind)
        document[kind] = {
            "out_of_fold": {k: round(v, 3) for k, v in fitted.figures.get(kind, {}).items()},
            "bias": round(gate.bias, 4),
            "weights": {k: round(v, 4) for k, v in sorted(gate.weights.items()) if round(v, 4)},
        }
    return document


def gates_card(fitted: FittedGates, *, made_by: str, data: Sequence[str]) -> str:
    """The model card, in Markdown."""
    names = {
        "auc": "area under the curve", "log_loss": "log loss", "ece": "calibration error, ten bins",
        "fpr_at_recall_80": "right ones suspected where 80 % of the wrong ones are",
        "share_below_half": "share with a risk below ½", "right_below_half": "right among these",
    }  # fmt: skip
    held = [k for k in KINDS[:2] if k in fitted.figures]
    rows = [
        f"| {name} | " + " | ".join(f"{fitted.figures[k][key]:.3f}" if key in fitted.figures[k] else "–" for k in held) + " |"
        for key, name in names.items()
    ]
    lines = [
        "# Gates of the question engine",
        "",
        f"Written by `{made_by}` (Sparlance {__version__}). They tell how likely a query is not what was meant, and how likely",
        "a question asks for what the graph does not have. Use them with `[nl] gate = \"<this folder>\"`.",
        "",
        f"- fitted on {fitted.questions} questions over {fitted.graphs} graph{'s' * (fitted.graphs != 1)}, {fitted.lacking} of "
        "them about what the graph lacks:",
        *(f"  - {d}" for d in data),
        f"- logistic; prior strength {', '.join(f'{k} {v:g}' for k, v in fitted.strengths.items())}, chosen out of fold",
        f"- of the answerable questions {fitted.right:.3f} were answered right, out of fold",
        "",
        "Out of fold, of the answerable questions:",
        "",
        "| | " + " | ".join({"executed": "with what running brought", "unexecuted": "without"}[k] for k in held) + " |",
        "| --- |" + " --- |" * len(held),
        *rows,
        "",
        "| of the answers, the least risky | right | greatest risk |",
        "| --- | --- | --- |",
        *(f"| {c['share']:.0%} | {c['right']:.3f} | {c['risk']:.2f} |" for c in fitted.covered),
        "",
    ]  # fmt: skip
    if fitted.thresholds:
        lines += [
            f"What a graph lacks (area under the curve {fitted.figures['lacking']['auc']:.3f}):",
            "",
            "| `lacking_above` | of such questions refused | right answers lost, of the answerable |",
            "| --- | --- | --- |",
            *(f"| {t['above']:g} | {t['refused']:.3f} | {t['right_lost']:.3f} |" for t in fitted.thresholds),
            "",
        ]
    return "\n".join(lines)

