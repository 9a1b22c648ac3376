"""Make the ONNX folder of a language model, and hold what it computes against the reference."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from proxy.errors import ModelError
from proxy.nl.lm.folder import FILE, TOKENIZER, LmFolder, file_digest, weights_of, write_folder
from proxy.nl.lm.step import OnnxStepModel, StepModel
from proxy.training.decoder.graph import write_graph
from proxy.training.decoder.reference import logits
from proxy.training.decoder.source import Source, read_source
from proxy.training.decoder.weights import Array

PROMPT = "The weight of each ship, in tonnes: SELECT ?name WHERE {"
TOLERANCE = {"fp32": 0.002, "fp16": 0.05, "int8": 0.15}
"""Root of the mean squared difference of logits to the reference's, in standard deviations of the reference's logits."""
Told = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Verified:
    """One form held against the reference. difference: see TOLERANCE. agreeing: share of positions whose likeliest
    token is the same."""

    form: str
    size_bytes: int
    difference: float
    agreeing: float


@dataclass(frozen=True, slots=True)
class Speed:
    """Of one form on one device. load_s: to open it."""

    form: str
    device: str
    load_s: float
    prefill_tokens_s: float
    decode_tokens_s: float
    notice: str = ""


def import_model(
    source: Path, target: Path, *, forms: Sequence[str] = ("int8",), told: Told = lambda text: None
) -> list[Verified]:
    """Write the ONNX folder *target* from *source* (see `proxy.training.decoder.source`), and verify each form.

    Where a form is not what the reference computes, *target* keeps no ``lm.json``, and so cannot be used by accident. The
    same where the tokenizer does not fit: it has more tokens than the weights, loses text, or reads markup as control tokens.

    Raises:
        ModelError: something is missing or cannot be imported, the folder is not empty, or a form differs too much.
    """
    read = read_source(source)
    decoder = read.decoder
    if target.exists() and any(target.iterdir()):
        raise ModelError(f"{target} is not empty")
    try:
        target.mkdir(parents=True, exist_ok=True)
        (target / TOKENIZER).write_bytes(read.tokenizer)
        for licence in read.licences:
            shutil.copyfile(licence, target / licence.name)
        for form in forms:
            told(f"writing {form}")
            write_graph(decoder, read.weights, target / f"model.{form}.onnx", form=form)
        names = [n for f in forms for graph in [target / f"model.{f}.onnx"] for n in (graph.name, weights_of(graph).name)]
        folder = LmFolder(
            target, decoder.architecture, decoder.layers, decoder.kv_heads, decoder.head_dim, decoder.vocabulary,
            decoder.context, decoder.begin, decoder.end, {f: f"model.{f}.onnx" for f in forms}, read.name,
            {name: file_digest(target / name) for name in names},
        )  # fmt: skip
        write_folder(folder)
    except OSError as exc:
        raise ModelError(f"cannot write {target}: {exc.strerror or exc}") from exc
    try:
        told("reading the source for comparison")
        tokens, wanted = _expected(target, forms[0], read)
        return [_verified(target, form, tokens, wanted, told) for form in forms]
    except ModelError:
        (target / FILE).unlink(missing_ok=True)
        raise


def _expected(target: Path, form: str, read: Source) -> tuple[list[int], Array]:
    """The tokens of PROMPT, and the logits that the source has after each of them."""
    model = OnnxStepModel(target, form=form)
    _check_tokenizer(json.loads(read.tokenizer), model)
    begin = [] if model.folder.begin is None else [model.folder.begin]
    tokens = [*begin, *model.encode(PROMPT)]
    return tokens, logits(tokens, read.decoder, _Kept(read.weights))


def _check_tokenizer(document: Mapping[str, Any], model: StepModel) -> None:
    """Hold *document*, a ``tokenizer.json`` that could be opened, against the model that is to read its tokens."""
    known, added = document["model"]["vocab"], document.get("added_tokens") or []
    ids = [*(known.values() if isinstance(known, dict) else range(len(known))), *(t["id"] for t in added)]
    if (last := max(ids, default=-1)) >= model.folder.vocabulary:
        raise ModelError(f"the tokenizer has a token {last:,}, and the model has {model.folder.vocabulary:,}")
    if (back := model.decode(model.encode(PROMPT))) != PROMPT:
        raise ModelError(f"the tokenizer makes {back[:100]!r} of {PROMPT!r}")
    markup = [t["content"] for t in added if t["special"]]
    control = {token for text in markup for token in model.encode_markup(text)}  # the numbers in the document are not binding
    for text in markup:
        if found := control.intersection(model.encode(text)):
            raise ModelError(f"the tokenizer reads {text[:60]!r} in a text as control token {min(found)}")


def _verified(target: Path, form: str, tokens: Sequence[int], wanted: Array, told: Told) -> Verified:
    told(f"verifying {form}")
    model = OnnxStepModel(target, form=form)
    half = len(tokens) // 2
    # In two steps, the first padded on the left: so cache, positions and mask are held against the reference, too.
    ids = np.array([[0, 0, *tokens[:half]]], dtype=np.int64)
    mask = np.array([[0, 0, *[1] * len(tokens)]], dtype=np.int64)
    first, cache = model.step(ids, mask[:, : half + 2], wanted=range(2, half + 2))
    second, _ = model.step(np.array([tokens[half:]]), mask, cache, wanted=range(len(tokens) - half))
    found = np.concatenate([first[0], second[0]])
    difference = float(np.sqrt(((found - wanted) ** 2).mean()) / wanted.std())
    if not difference <= TOLERANCE[form]:  # NaN is too much, too
        raise ModelError(
            f"{form} differs from the source by {difference:.4f} standard deviations of its logits, more than {TOLERANCE[form]}"
        )
    agreeing = float((found.argmax(axis=-1) == wanted.argmax(axis=-1)).mean())
    return Verified(form, model.folder.size_bytes(form), difference, agreeing)


class _Kept(dict[str, Array]):
    """Weights that are read when they are asked for; the embedding, which is used twice, is read once."""

    def __init__(self, weights: Mapping[str, Array]) -> None:
        super().__init__()
        self._weights = weights

    def __contains__(self, name: object) -> bool:
        return name in self._weights

    def __missing__(self, name: str) -> Array:
        found = self._weights[name]
        if name == "model.embed_tokens.weight":
            self[name] = found
        return found


def measure(folder: Path, form: str | None = None, *, threads: int = 0, prefill: int = 256, decode: int = 16) -> Speed:
    """How fast the model in *folder* reads and writes here.

    Raises:
        ModelError: it cannot be used.
    """
    started = time.perf_counter()
    model = OnnxStepModel(folder, threads=threads, form=form)
    load_s = time.perf_counter() - started
    prefill = min(prefill, model.folder.context - decode - 1)
    chance = np.random.default_rng(0)
    tokens = chance.integers(0, min(1000, model.folder.vocabulary), (1, prefill))
    model.step(tokens[:, :8], np.ones((1, 8), dtype=np.int64))  # the first step also sets up memory
    started = time.perf_counter()
    _, cache = model.step(tokens, np.ones((1, prefill), dtype=np.int64))
    read_s = time.perf_counter() - started
    started = time.perf_counter()
    for n in range(decode):
        _, cache = model.step(tokens[:, :1], np.ones((1, prefill + n + 1), dtype=np.int64), cache)
    write_s = time.perf_counter() - started
    return Speed(model.form, model.device, load_s, prefill / read_s, decode / write_s, model.notice)
