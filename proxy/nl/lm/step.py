"""One step of a causal language model by onnxruntime: tokens in, logits and a longer cache out. Nobody else runs its graphs.

The cache stays where the model runs: on CUDA it never comes to the host (I/O binding); only the logits that are asked for do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from proxy.errors import ModelError
from proxy.nl.lm.folder import FILE, TOKENIZER, LmFolder, read_folder, weights_of
from proxy.nl.sessions import open_session

Tokens = NDArray[np.int64]
Logits = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Cache:
    """Keys and values of *length* positions for *batch* texts, in whatever form the model keeps them. Never changed: a step
    returns a new one, so that many texts may go on from one prefix."""

    length: int
    batch: int
    held: Sequence[Any] = ()


class StepModel(Protocol):
    """A causal language model, one step at a time. Safe to call from several threads.

    tokens_read: how many it has read since it was loaded, padding left out; about so many where threads meet.
    """

    tokens_read: int

    @property
    def folder(self) -> LmFolder: ...

    @property
    def cache_type(self) -> np.dtype[Any]:
        """Of the numbers in a cache."""

    @property
    def fingerprint(self) -> str:
        """Differs between models and forms whose caches differ."""

    def export(self, cache: Cache) -> list[NDArray[Any]]:
        """Keys and values of *cache* by layer, each (batch, kv_heads, length, head_dim), on the host."""

    def restore(self, arrays: Sequence[NDArray[Any]]) -> Sequence[Any]:
        """What `Cache.held` is of what `export` gave. Raises: ModelError: memory among other things."""

    def step(
        self,
        tokens: Tokens,
        mask: Tokens,
        cache: Cache | None = None,
        wanted: Sequence[int] | None = None,
        rows: Sequence[int] | None = None,
    ) -> tuple[Logits, Cache]:
        """Read *tokens* after what *cache* holds.

        tokens: (batch, n). mask: (batch, cache.length + n), 0 where a text is padded; positions are counted without padding.
        wanted: columns of *tokens* whose logits are needed; None: the last. rows: for each text of *tokens* the text of *cache*
        that it goes on from, so that texts may branch, change places and end; None: its own, or the only one there is.
        Returns: (batch, wanted, vocabulary) float32, and the cache with *tokens* in it.
        Raises:
            ModelError: onnxruntime failed, memory among other things.
        """

    def encode(self, text: str) -> list[int]:
        """The tokens of *text*; markup of control tokens in it is text like any other."""

    def encode_markup(self, text: str) -> list[int]:
        """The tokens of *text*, control tokens that it spells among them: for a chat's frame, never for what others wrote."""

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of *tokens*, without control tokens."""


class OnnxStepModel:
    """The model in *folder*.

    Args:
        threads: of one step on the CPU; 0 lets onnxruntime decide. form: None: fp16 where CUDA runs it, else int8, else what
            there is. runtime, has_driver: in place of onnxruntime and `has_cuda_driver`.
    Raises:
        ModelError: a file or a library is missing or does not fit.
    """

    def __init__(
        self,
        folder: Path,
        *,
        threads: int = 0,
        form: str | None = None,
        runtime: Any = None,
        has_driver: Callable[[], bool] | None = None,
    ) -> None:
        self.folder = read_folder(folder)
        if form is not None and form not in self.folder.forms:
            raise ModelError(f"{folder} has no {form} form; it has {', '.join(self.folder.forms)}")
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError as exc:
            raise ModelError(f"{exc.name} is not installed: pip install 'sparlance[nl]'") from exc
        self._ort = ort = runtime or onnxruntime
        try:
            self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
            self._tokenizer.encode_special_tokens = True  # what users and graphs write is never a control token
        except Exception as exc:  # tokenizers raises bare Exception
            raise ModelError(f"{folder / TOKENIZER} cannot be used: {exc}") from exc
        self.tokens_read = 0
        on_cuda = form or _first(self.folder, "fp16", "int8")
        on_cpu = form or _first(self.folder, "int8", "fp32")
        graphs = {name: folder / self.folder.forms[name] for name in (on_cuda, on_cpu)}
        opened = open_session(ort, self._options(threads), cuda=graphs[on_cuda], cpu=graphs[on_cpu], has_driver=has_driver)
        self._session, self.device = opened.session, opened.device
        self.notice = opened.notice
        """Why it does not run on the GPU that is there; empty: it does, or there is none."""
        self.form = on_cuda if opened.device == "cuda" else on_cpu
        self.cache_type: np.dtype[Any] = np.dtype("<f2" if self.form == "fp16" else "<f4")
        self._outputs = [o.name for o in self._session.get_outputs()]
        self._check()

    def _check(self) -> None:
        """Raise ModelError where the graph is not the one that ``lm.json`` describes."""
        f, kind = self.folder, "tensor(float16)" if self.form == "fp16" else "tensor(float)"
        wanted = {"tokens", "positions", "mask", "wanted", "rows"}
        inputs = {i.name: i for i in self._session.get_inputs()}
        fits = len(inputs) == len(wanted) + 2 * f.layers and inputs.keys() == {*wanted, *self._cache_names()}
        fits = fits and self._outputs[:1] == ["logits"] and len(self._outputs) == 1 + 2 * f.layers
        for name in inputs.keys() - wanted if fits else ():
            fits = fits and inputs[name].type == kind and list(inputs[name].shape[1::2]) == [f.kv_heads, f.head_dim]
        if not fits or self._session.get_outputs()[0].shape[-1] != f.vocabulary:
            raise ModelError(f"{f.path / f.forms[self.form]} is not the graph that {FILE} describes: import the model again")
        if (tokens := self._tokenizer.get_vocab_size()) > f.vocabulary:
            raise ModelError(f"{f.path / TOKENIZER} has {tokens:,} tokens, and the model {f.vocabulary:,}")

    def _options(self, threads: int) -> Any:
        options = self._ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4  # what goes wrong is an exception, or self.notice
        # Its threads share the cores with the event loop.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.enable_cpu_mem_arena = False  # it would keep the largest batch's memory for good
        return options

    def step(
        self,
        tokens: Tokens,
        mask: Tokens,
        cache: Cache | None = None,
        wanted: Sequence[int] | None = None,
        rows: Sequence[int] | None = None,
    ) -> tuple[Logits, Cache]:
        batch, n = tokens.shape
        before = cache or self._empty()
        if rows is None and before.batch in (1, batch):
            rows = [0] * batch if before.batch == 1 else range(batch)
        is_fitting = rows is not None and len(rows) == batch and all(0 <= r < before.batch for r in rows)
        if mask.shape != (batch, before.length + n) or not is_fitting:
            raise ValueError(f"tokens {tokens.shape}, mask {mask.shape}, cache {before.batch}×{before.length} do not fit")
        positions = np.maximum(np.cumsum(mask, axis=1) - 1, 0)[:, before.length :]
        columns = np.asarray([n - 1] if wanted is None else wanted, dtype=np.int64)
        binding = self._session.io_binding()
        try:
            given = {"tokens": tokens, "positions": positions, "mask": mask, "wanted": columns, "rows": np.asarray(rows)}
            for name, array in given.items():
                binding.bind_cpu_input(name, np.ascontiguousarray(array, dtype=np.int64))
            for name, value in zip(self._cache_names(), before.held, strict=True):
                binding.bind_ortvalue_input(name, value)
            for name in self._outputs:
                binding.bind_output(name, "cpu" if name == "logits" else self.device)
            self._session.run_with_iobinding(binding)
            logits, *held = binding.get_outputs()
            self.tokens_read += int(mask[:, before.length :].sum())
        except ValueError:
            raise
        except Exception as exc:  # as above
            raise ModelError(f"the language model failed: {exc}") from exc
        return logits.numpy().astype(np.float32, copy=False), Cache(before.length + n, batch, tuple(held))

    def export(self, cache: Cache) -> list[NDArray[Any]]:
        try:
            return [value.numpy() for value in cache.held]
        except Exception as exc:  # as above
            raise ModelError(f"the cache of the language model cannot be copied: {exc}") from exc

    def restore(self, arrays: Sequence[NDArray[Any]]) -> Sequence[Any]:
        try:
            return tuple(self._ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(a), self.device) for a in arrays)
        except Exception as exc:  # as above
            raise ModelError(f"the cache of the language model cannot be filled: {exc}") from exc

    @cached_property
    def fingerprint(self) -> str:
        """By the contents of the small files and by size and time of the weights, which are too large to be read for it."""
        found = blake2b(digest_size=16)
        graph = self.folder.path / self.folder.forms[self.form]
        try:
            for path in (self.folder.path / FILE, self.folder.path / TOKENIZER, graph):
                found.update(blake2b(path.read_bytes()).digest())
            state = weights_of(graph).stat()
        except OSError as exc:
            raise ModelError(f"cannot read {exc.filename}: {exc.strerror}") from exc
        found.update(f"{state.st_size} {state.st_mtime_ns}".encode())
        return found.hexdigest()

    def _cache_names(self) -> list[str]:
        return [f"past_{kind}_{i}" for i in range(self.folder.layers) for kind in ("keys", "values")]

    def _empty(self) -> Cache:
        nothing = np.zeros((1, self.folder.kv_heads, 0, self.folder.head_dim), dtype=self.cache_type)
        return Cache(0, 1, tuple(self._ort.OrtValue.ortvalue_from_numpy(nothing) for _ in self._cache_names()))

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(_whole(text), add_special_tokens=False).ids)

    @cached_property
    def _markup(self) -> Any:
        """A second tokenizer, since the first must never read markup; made when asked for, as a large one takes some 100 MB."""
        made = type(self._tokenizer).from_str(self._tokenizer.to_str())
        made.encode_special_tokens = False
        return made

    def encode_markup(self, text: str) -> list[int]:
        return list(self._markup.encode(_whole(text), add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))


def _whole(text: str) -> str:
    """*text* with a question mark for each half of a character, which is no text to a tokenizer."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _first(folder: LmFolder, *preferred: str) -> str:
    return next((f for f in preferred if f in folder.forms), next(iter(folder.forms)))
