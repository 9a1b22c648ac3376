"""The procedure behind ``sparlance train ranker``: samples in, a folder with a ranking and its model card out.

The linear weights are fitted near a prior, the ranking that is in force, so that a few pairs of one's own correct it and do
not replace it. A cross-encoder is trained on top of scores that are out of fold, and kept only where it raises the share of
held-out questions that are answered right.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from proxy import __version__
from proxy.errors import ModelError
from proxy.nl.ranker import FILE, digest
from proxy.training.crossencoder import Group, Recipe, logits_of, read_tokenizer, start, train
from proxy.training.export import export
from proxy.training.linear import Figure, Matrix, first_right, fit_weights, out_of_fold, scores
from proxy.training.samples import Sample, fold_of

FOLDS = 5
STRENGTHS = (0.003, 0.03, 0.3)
"""Of the prior, weakest first; which one is chosen out of fold."""
Told = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Source:
    """What a cross-encoder starts from: a folder in Hugging Face form, with ``tokenizer.json``."""

    folder: Path
    recipe: Recipe = field(default_factory=Recipe)
    reranked: int = 12


@dataclass(slots=True)
class Fitted:
    """A ranking and what is known of it. figures: name → share of questions whose first candidate is right, all out of fold or
    held out. network: the cross-encoder, where one was worth keeping."""

    weights: dict[str, float]
    strength: float
    questions: int
    graphs: int
    figures: dict[str, Figure]
    network: Any = None
    cross_weight: float = 0.0
    source: Source | None = None
    notes: list[str] = field(default_factory=list)


def fit(
    samples: Sequence[Sample],
    *,
    prior: Mapping[str, float] | None,
    source: Source | None = None,
    strengths: Sequence[float] = STRENGTHS,
    told: Told = lambda *_: None,
) -> Fitted:
    """Fit a ranking to *samples*. Folds are of whole graphs; of gold queries where there are fewer than three graphs.

    Args:
        prior: weights that those in the result stay near; None: zeros. source: to train a cross-encoder too.
    Raises:
        ModelError: there is nothing to learn from, or no cross-encoder can be trained here.
    """
    usable = [s for s in samples if s.options and not s.is_lacking]
    graphs = {s.graph for s in usable}
    by_question = len(graphs) < 3
    if not any(s.is_answerable and not all(o.is_right for o in s.options) for s in usable):
        raise ModelError("nothing to learn: there is no question of which some candidates are right and some are wrong")
    found: dict[float, list[Matrix]] = {}
    for n, strength in enumerate(strengths):
        told("fitting weights", n, len(strengths))
        found[strength] = out_of_fold(usable, l2=strength, prior=prior, folds=FOLDS, by_question=by_question)
    best = min(strengths, key=lambda s: _loss(usable, found[s]))
    figures = {
        "the engine's own order": first_right(usable, [-np.arange(len(s.options), dtype=np.float64) for s in usable]),
        "linear, out of fold": first_right(usable, found[best]),
        "any candidate is right": first_right(usable, [np.array([float(o.is_right) for o in s.options]) for s in usable]),
    }
    if prior:
        figures["the weights before"] = first_right(
            usable, [scores(s, prior) for s in usable]
        )
    fitted = Fitted(fit_weights(usable, l2=best, prior=prior), best, len(usable), len(graphs), figures)
    if source is not None:
        _add_cross(fitted, usable, found[best], source, by_question=by_question, told=told)
    return fitted


def _loss(samples: Sequence[Sample], found: Sequence[Matrix]) -> float:
    losses = []
    for sample, s in zip(samples, found, strict=True):
        right = np.array([o.is_right for o in sample.options])
        if right.any() and not right.all():
            losses.append(float(np.logaddexp.reduce(s) - np.logaddexp.reduce(s[right])))
    return float(np.mean(losses))


# -- the cross-encoder


def _add_cross(
    fitted: Fitted, samples: Sequence[Sample], found: Sequence[Matrix], source: Source, *, by_question: bool, told: Told
) -> None:
    """Train on seven of ten parts, stop early by one, and measure on two, which decide whether the network is kept."""
    tokenizer = read_tokenizer(source.folder)
    parts: list[list[tuple[Sample, Group]]] = [[] for _ in range(10)]
    for sample, base in zip(samples, found, strict=True):
        group = group_of(sample, base)
        parts[fold_of(sample, 10, by_question=by_question, seed=source.recipe.seed)].append((sample, group))
    test = parts[0] + parts[1]
    held_out = [_best(g, source.reranked) for _, g in parts[2]]
    training = [g for part in parts[3:] for _, g in part]
    if not test or not held_out or not training:
        raise ModelError("too few graphs or questions to hold any out for a cross-encoder")
    network = start(source.folder, source.recipe)
    trained = train(network, tokenizer, training, held_out, source.recipe, told=told)
    recipe, weight = source.recipe, trained.weight
    logits = logits_of(trained.network, tokenizer, [_best(g, source.reranked) for _, g in test], recipe)
    linear = first_right([s for s, _ in test], [np.asarray(g.base) for _, g in test])
    both = first_right([s for s, _ in test], [joined(g.base, x, weight) for (_, g), x in zip(test, logits, strict=True)])
    fitted.figures |= {"linear, on the test part": linear, "with the cross-encoder, on the test part": both}
    fitted.notes += [f"epoch {n}: {json.dumps(h)}" for n, h in enumerate(trained.history, 1)]
    if weight > 0 and both[0] > linear[0]:
        fitted.network, fitted.cross_weight, fitted.source = trained.network, weight, source
    else:
        fitted.notes.append("The cross-encoder answered no more test questions right than the linear ranking: left out.")


def group_of(sample: Sample, base: Matrix) -> Group:
    """All options of *sample*, with their linear scores."""
    return Group(
        sample.question,
        tuple(o.words for o in sample.options),
        tuple(float(b) for b in base),
        tuple(o.is_right for o in sample.options),
    )


def _best(group: Group, reranked: int) -> Group:
    """The first *reranked* by linear score, as the ranking will read them."""
    kept = np.argsort(-np.asarray(group.base), kind="stable")[:reranked]
    return Group(
        group.question,
        tuple(group.texts[i] for i in kept),
        tuple(group.base[i] for i in kept),
        tuple(group.right[i] for i in kept),
    )


def joined(base: Sequence[float], logits: Any, weight: float) -> Matrix:
    """The linear scores *base* of all, with *weight* times the logits of the best added as `proxy.nl.rank.rank` does."""
    total = np.asarray(base, dtype=np.float64).copy()
    best = np.argsort(-total, kind="stable")[: len(logits)]
    total[best] += weight * (logits - logits.mean()) if len(logits) else 0.0
    return total


# -- what is written


def write(fitted: Fitted, folder: Path, *, made_by: str, data: Sequence[str]) -> None:
    """Write the ranking into *folder*, with ``MODEL_CARD.md``. made_by: the command. data: what it was trained on."""
    folder.mkdir(parents=True, exist_ok=True)
    document = ranking_document(fitted, made_by=made_by)
    for name in ("model.onnx", "tokenizer.json"):
        (folder / name).unlink(missing_ok=True)
    if fitted.network is not None and fitted.source is not None:
        export(fitted.network, fitted.source.folder / "tokenizer.json", folder)
        document["cross"] = {
            "weight": fitted.cross_weight,
            "reranked": fitted.source.reranked,
            "max_tokens": fitted.source.recipe.max_tokens,
            "sha256": {name: digest(folder / name) for name in ("model.onnx", "tokenizer.json")},
        }
    (folder / FILE).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "MODEL_CARD.md").write_text(card(fitted, made_by=made_by, data=data), encoding="utf-8")


def ranking_document(fitted: Fitted, *, made_by: str) -> dict[str, Any]:
    """The content of ``weights.json``, without a cross-encoder."""
    return {
        "note": f"Written by {made_by} (docs/models.md); numbers only.",
        "version": __version__,
        "questions": fitted.questions,
        "graphs": fitted.graphs,
        "figures": {k: [round(x, 3) for x in v] for k, v in fitted.figures.items()},
        "weights": {k: round(v, 4) for k, v in fitted.weights.items()},
    }


def card(fitted: Fitted, *, made_by: str, data: Sequence[str]) -> str:
    """The model card, in Markdown."""
    rows = [f"| {name} | {v:.3f} | {low:.3f} to {high:.3f} |" for name, (v, low, high) in fitted.figures.items()]
    recipe = [] if fitted.source is None else [f"- cross-encoder: `{json.dumps(asdict(fitted.source.recipe))}`"]
    return "\n".join(
        [
            "# Ranking of candidate queries",
            "",
            f"Written by `{made_by}` (Sparlance {__version__}). It orders the queries that the question engine enumerates; it",
            "writes none. Use it with `[nl] ranker = \"<this folder>\"`.",
            "",
            f"- trained on {fitted.questions} questions over {fitted.graphs} graph{'s' * (fitted.graphs != 1)}:",
            *(f"  - {d}" for d in data),
            f"- {len(fitted.weights)} linear weights; prior strength {fitted.strength:g}, chosen out of fold",
            *recipe,
            "",
            "Share of questions whose first candidate is right, before anything is executed; 95 % intervals by bootstrap over",
            "gold queries:",
            "",
            "| ranking | right | interval |",
            "| --- | --- | --- |",
            *rows,
            "",
            *(f"- {note}" for note in fitted.notes),
            "",
        ]
    )  # fmt: skip

