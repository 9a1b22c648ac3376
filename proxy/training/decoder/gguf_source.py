"""A GGUF file of llama.cpp as the source of an import: its metadata as ``config.json`` would say it, its tensors under
Hugging Face's names. What is specific to llama.cpp ends here: its names, its order of rotary halves, its norms of 1 + weight.

Source: ``gguf-py/gguf/tensor_mapping.py``, ``convert_hf_to_gguf.py`` and ``src/llama-model.cpp`` of llama.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from proxy.errors import ModelError
from proxy.training.decoder.config import Decoder, decoder_of
from proxy.training.decoder.gguf_file import Array, GgufFile

KINDS = {"llama": "llama", "qwen2": "qwen2", "gemma3": "gemma3_text"}
"""Architecture of the file → that of `proxy.training.decoder.config`."""
_OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_INSIDE = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    "post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm",
}  # fmt: skip
_FACTORS = "rope_freqs.weight"
"""Divisors of the rotary frequencies: how llama.cpp keeps the scaling "llama3"."""
_GEMMA_27B_LAYERS = 62
_GEMMA_NEAR = 10_000.0


def decoder_in(file: GgufFile) -> Decoder:
    """What the metadata of *file* says of its decoder.

    Raises:
        ModelError: its architecture cannot be imported, or a value is missing, of another type or impossible.
    """
    known = file.metadata
    name = known.get("general.architecture")
    if name not in KINDS:
        raise ModelError(f"{file.path}: architecture {str(name)[:60]!r}; {', '.join(KINDS)} can be imported")
    if known.get("split.count", 1) not in (0, 1):
        raise ModelError(f"{file.path} is one of {known['split.count']} parts: join them first (llama-gguf-split --merge)")
    try:
        found = decoder_of(_config(file, str(name)))
        if _FACTORS in file:
            factors = file[_FACTORS].astype(np.float64)
            if factors.shape != found.frequencies[0].shape or not (factors > 0).all():
                raise ValueError(f"{_FACTORS} does not hold one divisor for each frequency")
            found = replace(found, frequencies=tuple(f / factors for f in found.frequencies))
        return found
    except (ValueError, KeyError, TypeError, OverflowError) as exc:
        raise ModelError(f"{file.path} does not describe a decoder: {type(exc).__name__} {exc}") from exc


def _config(file: GgufFile, name: str) -> dict[str, Any]:
    known, kind = file.metadata, KINDS[name]

    def of(key: str, default: Any = None) -> Any:
        found = known.get(f"{name}.{key}", default)
        if isinstance(found, list):
            raise ModelError(f"{file.path}: {name}.{key} differs between layers, which cannot be imported")
        return found

    def needed(key: str) -> Any:
        found = of(key)
        if found is None:
            raise KeyError(f"{name}.{key}")
        return found

    if of("expert_count", 0):
        raise ModelError(f"{file.path} is a mixture of experts, which cannot be imported")
    heads, width = int(needed("attention.head_count")), int(needed("embedding_length"))
    if heads < 1:
        raise ValueError(f"{heads} heads")
    head_dim = int(of("attention.key_length") or width // heads)
    if {head_dim, int(of("attention.value_length", head_dim)), int(of("rope.dimension_count", head_dim))} != {head_dim}:
        raise ModelError(f"{file.path}: keys, values and rotary positions of unlike sizes cannot be imported")
    layers = int(needed("block_count"))
    config: dict[str, Any] = {
        "model_type": kind, "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": int(of("attention.head_count_kv", heads)), "head_dim": head_dim,
        "vocab_size": len(known.get("tokenizer.ggml.tokens", ())), "max_position_embeddings": int(needed("context_length")),
        "rms_norm_eps": float(needed("attention.layer_norm_rms_epsilon")), "rope_theta": of("rope.freq_base"),
        "tie_word_embeddings": "output.weight" not in file, "bos_token_id": _begin(known), "eos_token_id": _end(known),
        "final_logit_softcapping": of("final_logit_softcapping"), "attn_logit_softcapping": of("attn_logit_softcapping"),
    }  # fmt: skip
    scaling = of("rope.scaling.type", "none")
    if scaling != "none":
        config["rope_scaling"] = {"rope_type": scaling, "factor": of("rope.scaling.factor", 1.0)}
    if kind == "gemma3_text":
        # As llama.cpp has it: the largest Gemma 3 alone scales by its width.
        config["query_pre_attn_scalar"] = width / heads if layers == _GEMMA_27B_LAYERS else head_dim
        config["sliding_window"] = int(needed("attention.sliding_window"))
        config["rope_local_base_freq"] = of("rope.freq_base_swa", _GEMMA_NEAR)
        if isinstance(pattern := of("attention.sliding_window_pattern"), int) and not isinstance(pattern, bool):
            config["sliding_window_pattern"] = pattern
    return config


def _begin(known: Mapping[str, Any]) -> Any:
    is_added = known.get("tokenizer.ggml.add_bos_token")
    if is_added is None:  # llama.cpp's defaults
        is_added = known.get("tokenizer.ggml.model") == "llama" or known.get("tokenizer.ggml.pre") in ("llama-bpe", "llama3")
    return known.get("tokenizer.ggml.bos_token_id") if is_added else None


def _end(known: Mapping[str, Any]) -> list[Any]:
    ids = [known.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom")]
    # A chat ends its turns with a token that older files do not name.
    words = known.get("tokenizer.ggml.tokens", ())
    ids += [i for i, word in enumerate(words) if word in ("<|im_end|>", "<|eot_id|>", "<end_of_turn>")]
    return list(dict.fromkeys(i for i in ids if i is not None))


class GgufWeights(Mapping[str, Array]):
    """The tensors of *file* under Hugging Face's names, as `proxy.training.decoder.weights.Weights` gives them.

    Raises:
        ModelError: the file has a tensor that has no place in *decoder*: no model is imported without a part of it.
    """

    def __init__(self, file: GgufFile, decoder: Decoder) -> None:
        self._file, self._decoder = file, decoder
        self._names: dict[str, str] = {}
        for name in file:
            if name != _FACTORS:
                self._names[_renamed(name, decoder) or self._strange(name)] = name

    def _strange(self, name: str) -> str:
        raise ModelError(f"{self._file.path}: a tensor {name[:100]!r}, which cannot be imported")

    def __getitem__(self, name: str) -> Array:
        there = self._names[name]
        with np.errstate(all="ignore"):  # what is no number is refused when the graph is written
            return self._turned(self._file[there], there)

    def _turned(self, found: Array, there: str) -> Array:
        part = there.split(".")[-2]
        if self._decoder.is_gemma and part.endswith("norm"):
            return found - np.float32(1)
        if self._decoder.architecture == "llama" and part in ("attn_q", "attn_k"):
            heads = self._decoder.heads if part == "attn_q" else self._decoder.kv_heads
            if len(found) != heads * self._decoder.head_dim:
                raise ModelError(f"{self._file.path}: {there} has {len(found)} rows")
            # llama.cpp has the two numbers that a rotary position turns side by side.
            return found.reshape(heads, -1, 2, *found.shape[1:]).swapaxes(1, 2).reshape(found.shape)
        return found

    def __contains__(self, name: object) -> bool:  # a Mapping would read the tensor
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _renamed(name: str, decoder: Decoder) -> str | None:
    stem, _, what = name.rpartition(".")
    *at, part = stem.split(".")
    if what not in ("weight", "bias"):
        return None
    if not at:
        return f"{_OUTSIDE[part]}.{what}" if part in _OUTSIDE and what == "weight" else None
    is_layer = len(at) == 2 and at[0] == "blk" and at[1].isascii() and at[1].isdigit() and int(at[1]) < decoder.layers
    inside = _INSIDE | {"ffn_norm": "pre_feedforward_layernorm" if decoder.is_gemma else "post_attention_layernorm"}
    is_known = part in inside and (what == "weight" or part in ("attn_q", "attn_k", "attn_v", "attn_output"))
    return f"model.layers.{int(at[1])}.{inside[part]}.{what}" if is_layer and is_known else None
