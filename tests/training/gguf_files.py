"""Small GGUF files as llama.cpp's converter would write them, and GGUF files broken in all ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import load_file

NAMES = {
    "input_layernorm": "attn_norm", "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output",
    "q_norm": "attn_q_norm", "k_norm": "attn_k_norm", "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down",
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm", "embed_tokens": "token_embd",
    "norm": "output_norm", "lm_head": "output",
}  # fmt: skip
ARCHITECTURES = {"llama": "llama", "qwen2": "qwen2", "gemma3_text": "gemma3"}


def write_gguf(path: Path, source: Path, *, quantised: Any = None, tokenizer: str = "gpt2", **changed: Any) -> Path:
    """The model in the Hugging Face folder *source* as a GGUF file. changed: metadata under other values; None: left out."""
    config = json.loads((source / "config.json").read_text())
    kind, heads = config["model_type"], config["num_attention_heads"]
    name = ARCHITECTURES[kind]
    rope = config["rope_parameters"]
    metadata: dict[str, Any] = {
        f"{name}.block_count": config["num_hidden_layers"], f"{name}.embedding_length": config["hidden_size"],
        f"{name}.context_length": config["max_position_embeddings"], f"{name}.attention.head_count": heads,
        f"{name}.attention.head_count_kv": config["num_key_value_heads"],
        f"{name}.attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        f"{name}.rope.freq_base": rope.get("full_attention", rope)["rope_theta"],
        "tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.eos_token_id": 1, "tokenizer.ggml.add_bos_token": kind != "qwen2",
    }  # fmt: skip
    if kind == "gemma3_text":
        metadata[f"{name}.attention.key_length"] = config["head_dim"]
        metadata[f"{name}.attention.sliding_window"] = config["sliding_window"]
        metadata[f"{name}.attention.sliding_window_pattern"] = 3
    metadata |= _tokenizer(source, tokenizer) | {key.replace("__", "."): value for key, value in changed.items()}
    writer = gguf.GGUFWriter(str(path), name)
    for key, value in metadata.items():
        if value is None or key == "general.architecture":
            continue
        add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        add.get(type(value), writer.add_array)(key, value)
    for tensor, weight in load_file(source / "model.safetensors").items():
        *at, part, what = tensor.removeprefix("model.").split(".")
        new = NAMES.get(part)
        if part == "post_attention_layernorm":
            new = "post_attention_norm" if name == "gemma3" else "ffn_norm"
        if name == "gemma3" and part.endswith("norm"):
            weight = weight + 1
        if name == "llama" and part in ("q_proj", "k_proj"):
            rows = heads if part == "q_proj" else config["num_key_value_heads"]
            weight = weight.reshape(rows, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)
        full = f"blk.{at[1]}.{new}.{what}" if at and at[0] == "layers" else f"{new}.{what}"
        if quantised is not None and weight.ndim == 2 and weight.shape[1] % 32 == 0:
            writer.add_tensor(full, gguf.quantize(weight, quantised), raw_dtype=quantised)
        else:
            writer.add_tensor(full, np.ascontiguousarray(weight))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tokenizer(source: Path, kind: str) -> dict[str, Any]:
    """The vocabulary of *source*, single characters but two, as "gpt2" or "llama" has them."""
    words = sorted((v := json.loads((source / "tokenizer.json").read_text())["model"]["vocab"]), key=v.__getitem__)
    words = [{"Y": "</", "Z": "</s"}.get(w, w) for w in words]  # halves of a control token
    if kind == "gpt2":
        words = [{" ": "Ġ", "\n": "Ċ"}.get(w, w) for w in words]
        rest: dict[str, Any] = {"tokenizer.ggml.pre": "smollm", "tokenizer.ggml.merges": ["< /", "</ s", "</s >"]}
    else:
        words = [w.replace(" ", "▁") for w in words]
        rest = {"tokenizer.ggml.pre": "default", "tokenizer.ggml.scores": [-float(i) for i in range(len(words))]}
        rest["tokenizer.ggml.unknown_token_id"] = 2
    types = [3 if i < 3 else 1 for i in range(len(words))]
    return rest | {"tokenizer.ggml.model": kind, "tokenizer.ggml.tokens": words, "tokenizer.ggml.token_type": types}
