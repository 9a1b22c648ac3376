"""The cross-encoder: a small BERT that reads question and candidate together and says what the linear score has missed.

It is trained on top of the linear score, not beside it: what is normalised by the softmax over a question's candidates is the
sum of both, and the network starts at zero. So it need not learn again what some seventy numbers already say, and the negatives
that cost most are those that the linear ranking likes.
"""

from __future__ import annotations

import copy
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from proxy.errors import ModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Group:
    """A question's candidates in words, with their linear scores; *right*: which of them are right."""

    question: str
    texts: tuple[str, ...]
    base: tuple[float, ...]
    right: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to train. layers: which of the encoder's are kept. negatives: wrong candidates beside the right ones, best first by
    linear score. patience: epochs without a better loss on the held-out groups before it stops. limit_s: of the whole."""

    layers: tuple[int, ...] = (0, 2, 4)
    max_tokens: int = 64
    negatives: int = 7
    epochs: int = 4
    patience: int = 1
    groups_per_step: int = 8
    rate: float = 1e-4
    weight_decay: float = 0.01
    dropout: float = 0.1
    seed: int = 7
    limit_s: float = 3600.0


@dataclass(slots=True)
class Trained:
    """The network at its best epoch, and the weight of its logits that was best then; 0: it never helped.

    history: of each epoch the loss in training and held out, and the share of held-out groups whose first candidate is right.
    """

    network: Any
    weight: float
    history: list[dict[str, float]]


Told = Callable[[str, int, int], None]


def require_torch() -> Any:
    """torch, or what to install.

    Raises:
        ModelError: it is not installed.
    """
    try:
        import torch
    except ImportError as exc:
        raise ModelError("training a cross-encoder needs PyTorch: pip install 'sparlance[train]'") from exc
    return torch


def start(encoder: Path, recipe: Recipe) -> Any:
    """A network whose layers are some of those of the encoder in the folder *encoder* (Hugging Face form); its output is 0.

    Raises:
        ModelError: the folder holds no such encoder.
    """
    torch = require_torch()
    from transformers import BertModel

    torch.manual_seed(recipe.seed)
    try:
        bert = BertModel.from_pretrained(
            encoder, add_pooling_layer=False, local_files_only=True, attn_implementation="eager",
            hidden_dropout_prob=recipe.dropout, attention_probs_dropout_prob=recipe.dropout,
        )  # fmt: skip
    except (OSError, ValueError) as exc:
        raise ModelError(f"{encoder} holds no BERT encoder: {exc}") from exc
    depth = len(bert.encoder.layer)
    if not recipe.layers or not all(0 <= n < depth for n in recipe.layers):
        raise ModelError(f"the encoder in {encoder} has the layers 0 to {depth - 1}")
    bert.encoder.layer = torch.nn.ModuleList(bert.encoder.layer[n] for n in recipe.layers)
    bert.config.num_hidden_layers = len(recipe.layers)
    head = torch.nn.Linear(bert.config.hidden_size, 1)
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.zeros_(head.bias)
    return torch.nn.ModuleDict({"bert": bert, "head": head})


def read_tokenizer(folder: Path) -> Any:
    """The tokenizer in ``tokenizer.json``.

    Raises:
        ModelError: the folder holds none.
    """
    from transformers import PreTrainedTokenizerFast

    path = folder / "tokenizer.json"
    if not path.is_file():
        raise ModelError(f"no such model file: tokenizer.json in {folder}")
    return PreTrainedTokenizerFast(
        tokenizer_file=str(path), pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


def forward(network: Any, ids: Any, types: Any, mask: Any) -> Any:
    """(pairs,) logits: a linear map of the mean of the last layer over the pair's tokens."""
    hidden = network["bert"](input_ids=ids, token_type_ids=types, attention_mask=mask).last_hidden_state
    weight = mask.unsqueeze(-1).to(hidden.dtype)
    return network["head"]((hidden * weight).sum(1) / weight.sum(1)).squeeze(-1)


def train(
    network: Any, tokenizer: Any, groups: Sequence[Group], held_out: Sequence[Group], recipe: Recipe, *, told: Told
) -> Trained:
    """Train *network* in place and return it as it was after its best epoch."""
    torch = require_torch()
    chance = random.Random(recipe.seed)
    torch.manual_seed(recipe.seed)
    useful = [g for g in groups if any(g.right) and not all(g.right)]
    slow = [p for n, p in network.named_parameters() if p.ndim < 2]
    decayed = [p for n, p in network.named_parameters() if p.ndim >= 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": slow, "weight_decay": 0.0}], lr=recipe.rate
    )
    steps = max(1, math.ceil(len(useful) / recipe.groups_per_step) * recipe.epochs)
    warm = max(1, steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: min((n + 1) / warm, max(0.02, (steps - n) / max(1, steps - warm)))
    )
    began = time.monotonic()
    history: list[dict[str, float]] = []
    best_weight = 0.0
    best, best_state, stale = math.inf, copy.deepcopy(network.state_dict()), 0
    for epoch in range(recipe.epochs):
        network.train()
        order = useful[:]
        chance.shuffle(order)
        losses = []
        for at in range(0, len(order), recipe.groups_per_step):
            batch = [shortened(g, recipe.negatives) for g in order[at : at + recipe.groups_per_step]]
            loss = torch.stack(listwise(network, tokenizer, batch, recipe)).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
            told(f"epoch {epoch + 1}, loss {np.mean(losses[-50:]):.3f}", min(len(order), at + len(batch)), len(order))
            if time.monotonic() - began > recipe.limit_s:
                break
        weight, loss_held, first = judge(held_out, logits_of(network, tokenizer, held_out, recipe))
        history.append(
            {"loss": float(np.mean(losses)), "weight": weight, "held_out_loss": loss_held, "held_out_first": first}
        )
        if loss_held < best:
            best, best_weight, best_state, stale = loss_held, weight, copy.deepcopy(network.state_dict()), 0
        else:
            stale += 1
        if stale > recipe.patience or time.monotonic() - began > recipe.limit_s:
            break
    network.load_state_dict(best_state)
    network.eval()
    return Trained(network, best_weight, history)


def shortened(group: Group, negatives: int) -> Group:
    """*group* with its two best right candidates and the *negatives* best wrong ones."""
    order = sorted(range(len(group.texts)), key=lambda i: -group.base[i])
    kept = [i for i in order if group.right[i]][:2] + [i for i in order if not group.right[i]][:negatives]
    return Group(
        group.question,
        tuple(group.texts[i] for i in kept),
        tuple(group.base[i] for i in kept),
        tuple(group.right[i] for i in kept),
    )


def listwise(network: Any, tokenizer: Any, batch: Sequence[Group], recipe: Recipe) -> list[Any]:
    """Of each group the negative log probability of its right candidates."""
    torch = require_torch()
    logits = forward(network, *encoded(tokenizer, batch, recipe.max_tokens))
    out, at = [], 0
    for g in batch:
        total = logits[at : at + len(g.texts)] + torch.tensor(g.base, dtype=torch.float32)
        at += len(g.texts)
        right = torch.tensor(g.right)
        out.append(torch.logsumexp(total, 0) - torch.logsumexp(total[right], 0))
    return out


def encoded(tokenizer: Any, batch: Sequence[Group], max_tokens: int) -> tuple[Any, Any, Any]:
    """Token ids, segment ids and mask of all pairs in *batch*."""
    found = tokenizer(
        [g.question for g in batch for _ in g.texts],
        [t for g in batch for t in g.texts],
        padding=True,
        truncation="longest_first",
        max_length=max_tokens,
        return_tensors="pt",
        return_token_type_ids=True,
    )
    return found["input_ids"], found["token_type_ids"], found["attention_mask"]


def logits_of(network: Any, tokenizer: Any, groups: Sequence[Group], recipe: Recipe) -> list[NDArray[np.float32]]:
    """The network's logits for all candidates of each group."""
    torch = require_torch()
    network.eval()
    out: list[NDArray[np.float32]] = []
    with torch.inference_mode():
        for g in groups:
            found = forward(network, *encoded(tokenizer, [g], recipe.max_tokens)) if g.texts else torch.zeros(0)
            out.append(found.numpy().astype(np.float32))
    return out


WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""By which logits may be multiplied before they are added to the linear scores."""


def judge(groups: Sequence[Group], logits: Sequence[NDArray[np.float32]]) -> tuple[float, float, float]:
    """The weight of *logits* with the least mean loss over the groups that a ranking can get wrong, that loss, and the share of
    groups whose first candidate is then right."""
    found = [(*_judged(groups, logits, w), w) for w in WEIGHTS]
    loss, first, weight = min(found, key=lambda x: (x[0], x[2]))
    return weight, loss, first


def _judged(groups: Sequence[Group], logits: Sequence[NDArray[np.float32]], weight: float) -> tuple[float, float]:
    losses, hits = [], 0
    for g, found in zip(groups, logits, strict=True):
        if not g.texts:
            continue
        total, right = np.asarray(g.base) + weight * found, np.asarray(g.right)
        hits += bool(right[int(np.argmax(total))])
        if right.any() and not right.all():
            losses.append(float(np.logaddexp.reduce(total) - np.logaddexp.reduce(total[right])))
    return (float(np.mean(losses)) if losses else math.inf), hits / max(1, len(groups))
