"""From the trained network to what ships: one ONNX file with fused attention and int8 weights, and its tokenizer."""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

from proxy.errors import ModelError
from proxy.training.crossencoder import forward, require_torch


def export(network: Any, tokenizer: Path, folder: Path, *, words: Collection[str] | None = None) -> None:
    """Write ``model.onnx`` and ``tokenizer.json`` into *folder*.

    Args:
        tokenizer: the ``tokenizer.json`` that the network was trained with.
        words: tokens to keep; the others' embeddings are dropped and what they spell is read in smaller pieces. None: all.
    Raises:
        ModelError: a library for the export is missing.
    """
    torch = require_torch()
    try:
        import onnx
        from onnxruntime.quantization import QuantType, quantize_dynamic
        from onnxruntime.transformers.optimizer import optimize_model
    except ImportError as exc:
        raise ModelError(f"the export needs {exc.name}: pip install 'sparlance[train]'") from exc
    folder.mkdir(parents=True, exist_ok=True)
    bert = network["bert"]
    if words is None:
        shutil.copyfile(tokenizer, folder / "tokenizer.json")
    else:
        kept = prune(tokenizer, folder / "tokenizer.json", words)
        table = bert.embeddings.word_embeddings.weight.detach()[torch.tensor(kept)]
        bert.embeddings.word_embeddings = torch.nn.Embedding.from_pretrained(table, padding_idx=0)
    network.eval()

    class Scorer(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, input_ids: Any, token_type_ids: Any, attention_mask: Any) -> Any:
            return forward(self.network, input_ids, token_type_ids, attention_mask)

    names = ["input_ids", "token_type_ids", "attention_mask"]
    example = tuple(torch.ones(2, 8, dtype=torch.int64) for _ in names)
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, fused = str(Path(scratch, "plain.onnx")), str(Path(scratch, "fused.onnx"))
        torch.onnx.export(
            Scorer(), example, plain, input_names=names, output_names=["logits"], dynamo=False, opset_version=17,
            dynamic_axes={n: {0: "pairs", 1: "tokens"} for n in names} | {"logits": {0: "pairs"}},
        )  # fmt: skip
        heads, width = bert.config.num_attention_heads, bert.config.hidden_size
        optimize_model(plain, model_type="bert", num_heads=heads, hidden_size=width, opt_level=0).save_model_to_file(fused)
        quantize_dynamic(
            fused, str(folder / "model.onnx"), weight_type=QuantType.QInt8, per_channel=True,
            op_types_to_quantize=["MatMul", "Attention", "Gather", "EmbedLayerNormalization"],
            extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
        )  # fmt: skip


def prune(tokenizer: Path, target: Path, words: Collection[str]) -> list[int]:
    """Write *tokenizer* with only the tokens in *words*, the special ones and single characters; the old ids of those kept, in
    order of their new ids."""
    document = json.loads(tokenizer.read_text(encoding="utf-8"))
    vocabulary: dict[str, int] = document["model"]["vocab"]
    special = {t["content"] for t in document["added_tokens"]}
    kept = [
        (word, n)
        for word, n in sorted(vocabulary.items(), key=lambda x: x[1])
        if word in special or word in words or len(word.removeprefix("##")) == 1
    ]
    new = {word: n for n, (word, _) in enumerate(kept)}
    document["model"]["vocab"] = new
    for token in document["added_tokens"]:
        token["id"] = new[token["content"]]
    for name, token in (document.get("post_processor") or {}).get("special_tokens", {}).items():
        token["ids"] = [new[name]]
    document["truncation"] = document["padding"] = None
    target.write_text(json.dumps(document, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
    return [n for _, n in kept]
