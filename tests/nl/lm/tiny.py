"""Decoders small enough to be made in a moment: random weights in a Hugging Face folder, and the ONNX folder of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

CORPUS = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789?.,:;{}()<>\"'/_-+*\n"
LLAMA = {
    "model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 64, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "bos_token_id": 0, "eos_token_id": 1,
}  # fmt: skip
QWEN = LLAMA | {"model_type": "qwen2", "tie_word_embeddings": False, "eos_token_id": [1, 2], "rope_theta": 1e6}
GEMMA = LLAMA | {
    "model_type": "gemma3_text", "head_dim": 16, "query_pre_attn_scalar": 16, "num_hidden_layers": 3, "num_key_value_heads": 1,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"], "sliding_window": 8,
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    },
}  # fmt: skip
KINDS = {"llama": LLAMA, "qwen2": QWEN, "gemma3_text": GEMMA}


def write_source(folder: Path, config: dict[str, Any], *, seed: int = 0) -> Path:
    """A Hugging Face folder with random weights; its vocabulary is single characters and two control tokens."""
    from safetensors.numpy import save_file
    from tokenizers import AddedToken, Tokenizer, decoders, models

    folder.mkdir(parents=True, exist_ok=True)
    words = ["<s>", "</s>", "<pad>", *CORPUS]
    tokenizer = Tokenizer(models.BPE({w: i for i, w in enumerate(words)}, [], unk_token="<pad>"))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(w, special=True) for w in words[:3]])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = config | {"vocab_size": len(words)}
    (folder / "config.json").write_text(json.dumps(config))
    save_file(_tensors(config, np.random.default_rng(seed)), str(folder / "model.safetensors"))
    return folder


def _tensors(c: dict[str, Any], chance: np.random.Generator) -> dict[str, np.ndarray]:
    width, inner, is_gemma = c["hidden_size"], c["intermediate_size"], c["model_type"] == "gemma3_text"
    head_dim = c.get("head_dim") or width // c["num_attention_heads"]
    q, kv = c["num_attention_heads"] * head_dim, c["num_key_value_heads"] * head_dim
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens": (c["vocab_size"], width), "model.norm": (width,)}
    if not c["tie_word_embeddings"]:
        shapes["lm_head"] = (c["vocab_size"], width)
    for i in range(c["num_hidden_layers"]):
        of = {
            "input_layernorm": (width,), "post_attention_layernorm": (width,), "self_attn.q_proj": (q, width),
            "self_attn.k_proj": (kv, width), "self_attn.v_proj": (kv, width), "self_attn.o_proj": (width, q),
            "mlp.gate_proj": (inner, width), "mlp.up_proj": (inner, width), "mlp.down_proj": (width, inner),
        }  # fmt: skip
        if is_gemma:
            of |= {"pre_feedforward_layernorm": (width,), "post_feedforward_layernorm": (width,)}
            of |= {"self_attn.q_norm": (head_dim,), "self_attn.k_norm": (head_dim,)}
        shapes |= {f"model.layers.{i}.{name}": shape for name, shape in of.items()}
    out = {f"{n}.weight": chance.normal(0, 0.3, shape).astype(np.float32) for n, shape in shapes.items()}
    if c["model_type"] == "qwen2":
        sizes = {"q": q, "k": kv, "v": kv}
        for i in range(c["num_hidden_layers"]):
            for p, size in sizes.items():
                out[f"model.layers.{i}.self_attn.{p}_proj.bias"] = chance.normal(0, 0.3, size).astype(np.float32)
    return out
