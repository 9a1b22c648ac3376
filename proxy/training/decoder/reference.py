"""The decoder in plain numpy, as its papers write it: what an imported graph is held against. Slow, and meant to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from proxy.training.decoder.config import Decoder

Array = NDArray[np.float32]


def logits(tokens: Sequence[int], decoder: Decoder, weights: Mapping[str, Array]) -> Array:
    """(tokens, vocabulary) logits of one text without a cache."""
    d, n = decoder, len(tokens)
    at = np.arange(n)
    table = weights["model.embed_tokens.weight"]
    x = table[list(tokens)] * np.float32(d.embedding_scale)
    for i in range(d.layers):
        name = f"model.layers.{i}."
        window = d.windows[i]
        seen = at[None, :] <= at[:, None]
        if window is not None:
            seen &= at[None, :] > at[:, None] - window
        h = _norm(x, weights[name + "input_layernorm.weight"], d)
        q, k, v = (_linear(h, name + f"self_attn.{p}_proj", weights).reshape(n, -1, d.head_dim) for p in "qkv")
        if d.is_gemma:
            q = _norm(q, weights[name + "self_attn.q_norm.weight"], d)
            k = _norm(k, weights[name + "self_attn.k_norm.weight"], d)
        q, k = _rotate(q, at, d.frequencies[i]), _rotate(k, at, d.frequencies[i])
        k, v = (np.repeat(a, d.heads // d.kv_heads, axis=1) for a in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) * d.attention_scale
        scores = np.where(seen, scores, -np.inf)
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = np.einsum("hqk,khd->qhd", scores / scores.sum(axis=-1, keepdims=True), v).reshape(n, -1)
        mixed = _linear(mixed.astype(np.float32), name + "self_attn.o_proj", weights)
        if d.is_gemma:
            x = x + _norm(mixed, weights[name + "post_attention_layernorm.weight"], d)
            h = _norm(x, weights[name + "pre_feedforward_layernorm.weight"], d)
        else:
            x = x + mixed
            h = _norm(x, weights[name + "post_attention_layernorm.weight"], d)
        gate = _linear(h, name + "mlp.gate_proj", weights)
        if d.is_gemma:
            gate = 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
        else:
            gate = gate / (1 + np.exp(-gate))
        h = _linear((gate * _linear(h, name + "mlp.up_proj", weights)).astype(np.float32), name + "mlp.down_proj", weights)
        x = x + (_norm(h, weights[name + "post_feedforward_layernorm.weight"], d) if d.is_gemma else h)
    head = table if d.is_tied else weights["lm_head.weight"]
    found: Array = _norm(x, weights["model.norm.weight"], d) @ head.T
    return found


def _norm(x: Array, weight: Array, d: Decoder) -> Array:
    scaled = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + d.epsilon)
    found: Array = (scaled * (weight + d.is_gemma)).astype(np.float32)
    return found


def _linear(x: Array, name: str, weights: Mapping[str, Array]) -> Array:
    out: Array = x @ weights[name + ".weight"].T
    return out + weights[name + ".bias"] if name + ".bias" in weights else out


def _rotate(x: Array, at: NDArray[np.int64], frequencies: NDArray[np.float64]) -> Array:
    angles = (at[:, None] * frequencies)[:, None, :]
    left, right = np.split(x, 2, axis=-1)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1).astype(np.float32)
