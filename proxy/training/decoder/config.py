"""What ``config.json`` of a decoder says, for the architectures that can be imported; what it says beyond is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxy.errors import ModelError

ARCHITECTURES = ("llama", "qwen2", "gemma3_text")
"""Values of ``model_type``. SmolLM2 is llama; Qwen2.5-Coder is qwen2."""
_WIDEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder of pre-norm blocks with rotary positions and grouped-query attention.

    frequencies: of each layer, (head_dim / 2,) inverse. windows: of each layer, tokens it looks back at, None: all.
    is_gemma: RMSNorm multiplies by 1 + weight, queries and keys are normed, so are the outputs of both halves of a block.
    """

    architecture: str
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int
    epsilon: float
    frequencies: tuple[NDArray[np.float64], ...]
    windows: tuple[int | None, ...]
    attention_scale: float
    embedding_scale: float
    is_tied: bool
    begin: int | None
    end: tuple[int, ...]

    @property
    def is_gemma(self) -> bool:
        return self.architecture == "gemma3_text"


def read_config(folder: Path) -> Decoder:
    """Raises: ModelError: config.json is missing, damaged, or of a model that cannot be imported."""
    path = folder / "config.json"
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
        kind = given.get("model_type")
        if kind not in ARCHITECTURES:
            raise ModelError(f"{path}: model_type is {kind!r}; {', '.join(ARCHITECTURES)} can be imported")
        return decoder_of(given)
    except OSError as exc:
        raise ModelError(f"cannot read {path}: {exc.strerror}") from exc
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise ModelError(f"{path} does not describe a decoder: {type(exc).__name__} {exc}") from exc


def decoder_of(given: Mapping[str, Any]) -> Decoder:
    """The decoder that *given*, a ``config.json`` of one of `ARCHITECTURES`, describes.

    Raises:
        ModelError: it needs what cannot be imported. ValueError, KeyError, TypeError: it is damaged.
    """
    kind = str(given["model_type"])
    layers, heads, width = int(given["num_hidden_layers"]), int(given["num_attention_heads"]), int(given["hidden_size"])
    head_dim = int(given.get("head_dim") or width // heads)
    kv_heads, vocabulary = int(given.get("num_key_value_heads") or heads), int(given["vocab_size"])
    for name, value, most in (
        ("layers", layers, 1000), ("width", width, _WIDEST), ("heads", heads, _WIDEST), ("key-value heads", kv_heads, heads),
        ("numbers in a head", head_dim, _WIDEST), ("tokens", vocabulary, 1 << 24),
    ):  # fmt: skip
        if not 1 <= value <= most:
            raise ValueError(f"{value:,} {name}; 1 to {most:,} are possible")
    if heads % kv_heads or head_dim % 2:
        raise ValueError(f"{heads} heads of {head_dim} numbers over {kv_heads} of keys and values")
    is_gemma = kind == "gemma3_text"
    wanted = "gelu_pytorch_tanh" if is_gemma else "silu"
    activation = given.get("hidden_activation") or given.get("hidden_act") or wanted
    _refuse(activation != wanted, f"activation {activation}")
    _refuse(bool(given.get("attn_logit_softcapping") or given.get("final_logit_softcapping")), "soft caps of logits")
    _refuse(kind == "qwen2" and bool(given.get("use_sliding_window")), "a sliding window in qwen2")
    _refuse(bool(given.get("mlp_bias")), "mlp_bias")
    rope = given.get("rope_parameters") or {}
    theta = float(rope.get("rope_theta") or given.get("rope_theta") or 10_000.0)
    scaling = rope if "rope_type" in rope else given.get("rope_scaling")
    if is_gemma:
        full, local = rope.get("full_attention") or {}, rope.get("sliding_attention") or {}
        theta = float(full.get("rope_theta") or given.get("rope_theta") or 1_000_000.0)
        near = float(local.get("rope_theta") or given.get("rope_local_base_freq") or 10_000.0)
        scaling = full if full else given.get("rope_scaling")
        pattern = int(given.get("sliding_window_pattern") or given.get("_sliding_window_pattern") or 6)
        kinds = given.get("layer_types") or [
            "full_attention" if (i + 1) % pattern == 0 else "sliding_attention" for i in range(layers)
        ]
        is_full = [k == "full_attention" for k in kinds]
    else:
        near, is_full = theta, [True] * layers
    _refuse(len(is_full) != layers, "layer_types of another length")
    far, close = _frequencies(theta, head_dim, scaling), _frequencies(near, head_dim, None)
    begin = given.get("bos_token_id") if kind != "qwen2" else None
    end = given.get("eos_token_id")
    end = tuple(int(t) for t in end) if isinstance(end, list) else () if end is None else (int(end),)
    if strange := [t for t in (*end, *(() if begin is None else (int(begin),))) if not 0 <= t < vocabulary]:
        raise ValueError(f"a token {strange[0]} of {vocabulary:,}")
    return Decoder(
        architecture=kind, width=width, layers=layers, heads=heads, kv_heads=kv_heads,
        head_dim=head_dim, vocabulary=vocabulary, context=int(given["max_position_embeddings"]),
        epsilon=float(given.get("rms_norm_eps") or 1e-6),
        frequencies=tuple(far if f else close for f in is_full),
        windows=tuple(None if f else int(given["sliding_window"]) for f in is_full),
        attention_scale=float(given.get("query_pre_attn_scalar") or head_dim) ** -0.5 if is_gemma else head_dim**-0.5,
        embedding_scale=math.sqrt(width) if is_gemma else 1.0,
        is_tied=bool(given.get("tie_word_embeddings", is_gemma)),
        begin=None if begin is None else int(begin), end=end,
    )  # fmt: skip


def _frequencies(theta: float, head_dim: int, scaling: Mapping[str, Any] | None) -> NDArray[np.float64]:
    """Inverse frequencies of rotary positions (RoFormer, section 3.4.2), with the scalings "linear" and "llama3"."""
    plain = theta ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    kind = (scaling or {}).get("rope_type") or (scaling or {}).get("type") or "default"
    if scaling is None or kind == "default":
        return plain
    factor = float(scaling["factor"])
    if kind == "linear":
        found: NDArray[np.float64] = plain / factor
        return found
    _refuse(kind != "llama3", f"rope scaling {kind}")
    low, high, old = (float(scaling[k]) for k in ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings"))
    smooth = np.clip((old * plain / (2 * math.pi) - low) / (high - low), 0.0, 1.0)
    scaled: NDArray[np.float64] = (1 - smooth) * plain / factor + smooth * plain
    return scaled


def _refuse(is_so: bool, what: str) -> None:
    if is_so:
        raise ModelError(f"the model uses {what}, which cannot be imported")
