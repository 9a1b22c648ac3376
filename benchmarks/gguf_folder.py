#!/usr/bin/env python3
"""Write the Hugging Face folder of a GGUF file (llama or gemma3), for `sparlance model import`. Needs the package gguf.

    gguf_folder.py FILE.gguf FOLDER

Weights are dequantised to float32 (gemma: about 1.8 GB for 270 M parameters). No torch is needed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, dequantize
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

NAMES = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head", "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}  # fmt: skip

CONTROL = 3
"""Type of a token, in a GGUF file, that is no text."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("file", type=Path)
    arguments.add_argument("folder", type=Path)
    given = arguments.parse_args()
    reader = GGUFReader(str(given.file))
    known = {name: field.contents() for name, field in reader.fields.items()}
    kind = known["general.architecture"]
    is_gemma = kind == "gemma3"
    given.folder.mkdir(parents=True, exist_ok=True)

    def of(name: str, default: object = None) -> object:
        return known.get(f"{kind}.{name}", default)

    heads, kv_heads = int(of("attention.head_count")), int(of("attention.head_count_kv"))
    tensors: dict[str, np.ndarray] = {}
    for tensor in reader.tensors:
        parts = tensor.name.removesuffix(".weight").split(".")
        array = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        name = parts[-1]
        if is_gemma and name.endswith("norm"):
            array = array - 1  # llama.cpp keeps 1 + weight
        if not is_gemma and name in ("attn_q", "attn_k"):
            array = unpermuted(array, heads if name == "attn_q" else kv_heads)
        before_ffn = "pre_feedforward_layernorm" if is_gemma else "post_attention_layernorm"
        target = NAMES.get(name, before_ffn)
        prefix = f"model.layers.{parts[1]}." if parts[0] == "blk" else ""
        tensors[f"{prefix}{target}.weight"] = np.ascontiguousarray(array)
    save_file(tensors, str(given.folder / "model.safetensors"))
    config = {
        "model_type": "gemma3_text" if is_gemma else "llama",
        "hidden_size": of("embedding_length"), "num_hidden_layers": of("block_count"), "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "vocab_size": len(known["tokenizer.ggml.tokens"]),
        "max_position_embeddings": of("context_length"), "rms_norm_eps": of("attention.layer_norm_rms_epsilon"),
        "rope_theta": of("rope.freq_base"), "tie_word_embeddings": "lm_head.weight" not in tensors,
        "bos_token_id": known["tokenizer.ggml.bos_token_id"], "eos_token_id": known["tokenizer.ggml.eos_token_id"],
    }  # fmt: skip
    if is_gemma:
        head_dim = of("attention.key_length")
        config |= {"head_dim": head_dim, "query_pre_attn_scalar": head_dim, "sliding_window": of("attention.sliding_window")}
    (given.folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    words = {k.rsplit(".", 1)[1]: v for k, v in known.items() if k.startswith("tokenizer.ggml.")}
    tokenizer(words).save(str(given.folder / "tokenizer.json"))


def tokenizer(words: dict[str, Any]) -> Tokenizer:
    """From the vocabulary of the file: byte-level BPE ("gpt2", digits one by one), or SentencePiece's BPE ("llama")."""
    tokens: list[str] = words["tokens"]
    vocabulary = {t: i for i, t in enumerate(tokens)}
    if words["model"] == "gpt2":
        merges = [tuple(m.split(" ")) for m in words["merges"]]
        made = Tokenizer(models.BPE(vocabulary, merges))
        made.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        made.decoder = decoders.ByteLevel()
    else:
        found = []
        for t, score in zip(tokens, words["scores"], strict=True):
            found += [(-score, t[:n], t[n:]) for n in range(1, len(t)) if t[:n] in vocabulary and t[n:] in vocabulary]
        found.sort(key=lambda m: m[0])
        unknown = tokens[words["unknown_token_id"]]
        made = Tokenizer(models.BPE(vocabulary, [m[1:] for m in found], unk_token=unknown, byte_fallback=True, fuse_unk=True))
        made.normalizer = normalizers.Replace(" ", "▁")
        made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    control = [AddedToken(t, special=True) for t, kind in zip(tokens, words["token_type"], strict=True) if kind == CONTROL]
    made.add_special_tokens(control)
    return made


def unpermuted(weight: np.ndarray, heads: int) -> np.ndarray:
    """llama.cpp interleaves the halves that rotary positions turn."""
    half = weight.shape[0] // heads // 2
    return weight.reshape(heads, half, 2, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


if __name__ == "__main__":
    main()
