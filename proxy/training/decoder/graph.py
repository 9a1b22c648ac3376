"""A decoder as an ONNX graph with a cache: written node by node, its weights streamed into a file beside it.

Inputs: tokens (batch, n), positions (batch, n), mask (batch, past + n), wanted (columns), rows (batch), and of each layer
past_keys and past_values (cached, kv_heads, past, head_dim). Outputs: logits (batch, wanted, vocabulary), and of each layer
its longer cache. rows says which text of the cache each text goes on from: so one prefix serves a batch, the beams of a
search change places, and texts that have ended drop out, and the cache never leaves the device.

Only standard operators of opset 21, and MatMulNBits of onnxruntime for int8: onnxruntime fuses the norms by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from proxy.errors import ModelError
from proxy.nl.lm.folder import weights_of
from proxy.training.decoder.config import Decoder

Array = NDArray[np.float32]
BLOCK = 32
"""Weights that share a scale in int8."""
_OPSET = 21
_ALIGNED = 64
_HIDDEN = -1e9
"""Added to the score of a position that may not be seen. Not -inf: a row of padding alone must not become NaN."""


def write_graph(decoder: Decoder, weights: Mapping[str, Array], path: Path, *, form: str) -> None:
    """Write the graph to *path* and the weights beside it. form: one of `proxy.nl.lm.folder.FORMS`.

    Raises:
        ModelError: the package ``onnx`` is missing, a tensor is missing, has another shape, or numbers that *form* cannot keep.
    """
    try:
        import onnx
    except ImportError as exc:
        raise ModelError("importing a model needs the package onnx: pip install 'sparlance[lm]'") from exc
    with weights_of(path).open("wb") as file:
        writer = _Writer(onnx, decoder, weights, file, form)
        writer.decoder()
    onnx.save_model(writer.model(weights_of(path).name), str(path))


class _Writer:
    """Collects nodes; each method adds some and returns the name of their output."""

    def __init__(self, onnx: Any, decoder: Decoder, weights: Mapping[str, Array], file: BinaryIO, form: str) -> None:
        self.onnx, self.d, self.weights, self.file, self.form = onnx, decoder, weights, file, form
        self.half = np.float16 if form == "fp16" else np.float32
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self._small: dict[tuple[Any, ...], str] = {}

    def model(self, location: str) -> Any:
        helper = self.onnx.helper
        for tensor in self.initializers:
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = location
        graph = helper.make_graph(self.nodes, self.d.architecture, self.inputs, self.outputs, self.initializers)
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10, producer_name="sparlance")

    # -- parts of a graph

    def add(self, operator: str, *inputs: str, output: str = "", domain: str = "", **attributes: Any) -> str:
        output = output or f"{operator}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), [output], domain=domain, **attributes))
        return output

    def constant(self, array: NDArray[Any]) -> str:
        """A small array; equal ones are kept once."""
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._small:
            name = self._small[key] = f"constant_{len(self._small)}"
            self.initializers.append(self.onnx.numpy_helper.from_array(array, name))
        return self._small[key]

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, dtype=np.int64))

    def number(self, value: float) -> str:
        return self.constant(np.array(value, dtype=np.float32))

    def large(self, name: str, array: NDArray[Any]) -> str:
        """An array that goes into the file of weights."""
        array = np.ascontiguousarray(array)
        self.file.write(b"\0" * (-self.file.tell() % _ALIGNED))
        tensor = self.onnx.TensorProto(name=name, dims=array.shape, data_location=self.onnx.TensorProto.EXTERNAL)
        tensor.data_type = self.onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        for key, value in (("location", ""), ("offset", self.file.tell()), ("length", array.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        array.tofile(self.file)
        self.initializers.append(tensor)
        return name

    def cast(self, x: str, to: Any) -> str:
        return self.add("Cast", x, to=self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(to)))

    def halved(self, x: str) -> str:
        return self.cast(x, np.float16) if self.half is np.float16 else x

    def full(self, x: str) -> str:
        return self.cast(x, np.float32) if self.half is np.float16 else x

    def tensor(self, name: str, *shape: int) -> Array:
        if name not in self.weights:
            raise ModelError(f"the source has no tensor {name}")
        found = self.weights[name]
        if found.shape != shape:
            raise ModelError(f"{name} is {found.shape}; config.json says {shape}")
        most = float(np.abs(found).max())
        if not most <= float(np.finfo(np.float32 if self.form == "fp32" else np.float16).max):  # nor NaN
            raise ModelError(f"{name} has {'a weight that is no number' if np.isnan(most) else f'weights up to {most:.3g}'}")
        return found

    def port(self, name: str, kind: Any, *shape: str | int) -> Any:
        return self.onnx.helper.make_tensor_value_info(name, self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)

    # -- parts of a decoder

    def linear(self, x: str, name: str, rows: int, columns: int, *, source: str = "") -> str:
        """x (…, columns) float32 × tensor (rows, columns) → (…, rows) float32."""
        weight = self.tensor(source or name + ".weight", rows, columns)
        if self.form == "int8" and columns % BLOCK == 0:
            packed, scales = blocks(weight)
            out = self.add(
                "MatMulNBits", x, self.large(name + ".int8", packed), self.large(name + ".scales", scales),
                domain="com.microsoft", K=columns, N=rows, bits=8, block_size=BLOCK, accuracy_level=4,
            )  # fmt: skip
        else:
            out = self.full(self.add("MatMul", self.halved(x), self.large(name, weight.T.astype(self.half))))
        if name + ".bias" in self.weights:
            out = self.add("Add", out, self.large(name + ".bias", self.tensor(name + ".bias", rows)))
        return out

    def norm(self, x: str, name: str, width: int) -> str:
        weight = self.tensor(name + ".weight", width) + np.float32(self.d.is_gemma)
        mean = self.add("ReduceMean", self.add("Pow", x, self.number(2.0)), self.ints(-1), keepdims=1)
        root = self.add("Sqrt", self.add("Add", mean, self.number(self.d.epsilon)))
        return self.add("Mul", self.add("Div", x, root), self.large(name, weight))

    def heads(self, x: str, count: int, *, norm: str = "") -> str:
        """(batch, n, count × head_dim) → (batch, count, n, head_dim)."""
        x = self.add("Reshape", x, self.ints(0, 0, count, self.d.head_dim))
        return self.add("Transpose", self.norm(x, norm, self.d.head_dim) if norm else x, perm=[0, 2, 1, 3])

    def rotated(self, x: str, angles: tuple[str, str]) -> str:
        left, right = f"left_{len(self.nodes)}", f"right_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node("Split", [x], [left, right], axis=-1, num_outputs=2))
        turned = self.add("Concat", self.add("Neg", right), left, axis=-1)
        return self.add("Add", self.add("Mul", x, angles[0]), self.add("Mul", turned, angles[1]))

    def angles(self, frequencies: NDArray[np.float64], known: dict[bytes, tuple[str, str]]) -> tuple[str, str]:
        """Cosines and sines of the positions, (batch, 1, n, head_dim); once for each set of frequencies."""
        key = frequencies.tobytes()
        if key not in known:
            at = self.add("Unsqueeze", self.cast("positions", np.float32), self.ints(1, 3))
            by = self.constant(np.tile(frequencies, 2).astype(np.float32))
            turn = self.add("Mul", at, by)
            known[key] = self.add("Cos", turn), self.add("Sin", turn)
        return known[key]

    def hidden(self, window: int | None, known: dict[int | None, str]) -> str:
        """What is added to the scores, (batch, 1, n, past + n): 0 where a position may be seen."""
        if window not in known:
            counted = self.add("Sub", self.add("CumSum", "mask", self.constant(np.array(1, dtype=np.int64))), self.ints(1))
            key, query = self.add("Unsqueeze", counted, self.ints(1, 2)), self.add("Unsqueeze", "positions", self.ints(1, 3))
            seen = self.add("LessOrEqual", key, query)
            seen = self.add("And", seen, self.add("Cast", self.add("Unsqueeze", "mask", self.ints(1, 2)), to=9))
            if window is not None:
                seen = self.add("And", seen, self.add("Greater", key, self.add("Sub", query, self.ints(window))))
            known[window] = self.add("Where", seen, self.number(0.0), self.number(_HIDDEN))
        return known[window]

    def cached(self, x: str, kind: str, layer: int) -> str:
        d, past, present = self.d, f"past_{kind}_{layer}", f"present_{kind}_{layer}"
        self.inputs.append(self.port(past, self.half, "cached", d.kv_heads, "past", d.head_dim))
        self.outputs.append(self.port(present, self.half, "batch", d.kv_heads, "total", d.head_dim))
        return self.add("Concat", self.add("Gather", past, "rows", axis=0), self.halved(x), axis=2, output=present)

    def attention(self, x: str, layer: int, angles: tuple[str, str], hidden: str) -> str:
        d, name = self.d, f"model.layers.{layer}.self_attn."
        q = self.heads(
            self.linear(x, name + "q_proj", d.heads * d.head_dim, d.width), d.heads, norm=name + "q_norm" if d.is_gemma else ""
        )
        k = self.heads(
            self.linear(x, name + "k_proj", d.kv_heads * d.head_dim, d.width), d.kv_heads,
            norm=name + "k_norm" if d.is_gemma else "",
        )  # fmt: skip
        v = self.heads(self.linear(x, name + "v_proj", d.kv_heads * d.head_dim, d.width), d.kv_heads)
        q = self.halved(self.add("Mul", self.rotated(q, angles), self.number(d.attention_scale)))
        keys, values = self.cached(self.rotated(k, angles), "keys", layer), self.cached(v, "values", layer)
        # Queries of one group stand below each other, so that keys and values need not be repeated.
        q = self.add("Reshape", q, self.ints(0, d.kv_heads, -1, d.head_dim))
        scores = self.full(self.add("MatMul", q, self.add("Transpose", keys, perm=[0, 1, 3, 2])))
        apart = self.add("Reshape", scores, "by_head")
        weights = self.halved(self.add("Softmax", self.add("Add", apart, hidden), axis=-1))
        mixed = self.full(self.add("MatMul", self.add("Reshape", weights, "by_group"), values))
        mixed = self.add("Transpose", self.add("Reshape", mixed, "by_query"), perm=[0, 2, 1, 3])
        return self.linear(
            self.add("Reshape", mixed, self.ints(0, 0, d.heads * d.head_dim)), name + "o_proj", d.width, d.heads * d.head_dim
        )

    def feed_forward(self, x: str, layer: int) -> str:
        d, name = self.d, f"model.layers.{layer}.mlp."
        inner = self.weights[name + "gate_proj.weight"].shape[0]
        gate = self.linear(x, name + "gate_proj", inner, d.width)
        if d.is_gemma:
            gate = self.add("Gelu", gate, approximate="tanh")
        else:
            gate = self.add("Mul", gate, self.add("Sigmoid", gate))
        up = self.linear(x, name + "up_proj", inner, d.width)
        return self.linear(self.add("Mul", gate, up), name + "down_proj", d.width, inner)

    def shapes(self) -> None:
        """Names of shapes that depend on the batch."""
        d = self.d
        shape = self.add("Shape", "mask")
        batch, total = self.add("Gather", shape, self.ints(0)), self.add("Gather", shape, self.ints(1))
        self.add("Concat", batch, self.ints(d.heads, -1), total, axis=0, output="by_head")
        self.add("Concat", batch, self.ints(d.kv_heads, -1), total, axis=0, output="by_group")
        self.add("Concat", batch, self.ints(d.heads, -1, d.head_dim), axis=0, output="by_query")

    def decoder(self) -> None:
        d = self.d
        for name, shape in (("tokens", ("batch", "n")), ("positions", ("batch", "n")), ("mask", ("batch", "total"))):
            self.inputs.append(self.port(name, np.int64, *shape))
        self.inputs += [self.port("wanted", np.int64, "columns"), self.port("rows", np.int64, "batch")]
        self.outputs.append(self.port("logits", np.float32, "batch", "columns", d.vocabulary))
        self.shapes()
        table = self.tensor("model.embed_tokens.weight", d.vocabulary, d.width)
        kept = np.float32 if self.form == "fp32" else np.float16
        x = self.cast(self.add("Gather", self.large("embedding", table.astype(kept)), "tokens"), np.float32)
        if d.embedding_scale != 1.0:
            x = self.add("Mul", x, self.number(d.embedding_scale))
        del table
        angles: dict[bytes, tuple[str, str]] = {}
        hidden: dict[int | None, str] = {}
        for i in range(d.layers):
            name = f"model.layers.{i}."
            h = self.norm(x, name + "input_layernorm", d.width)
            h = self.attention(h, i, self.angles(d.frequencies[i], angles), self.hidden(d.windows[i], hidden))
            between = "post_attention_layernorm"
            if d.is_gemma:
                h, between = self.norm(h, name + "post_attention_layernorm", d.width), "pre_feedforward_layernorm"
            x = self.add("Add", x, h)
            h = self.feed_forward(self.norm(x, name + between, d.width), i)
            x = self.add("Add", x, self.norm(h, name + "post_feedforward_layernorm", d.width) if d.is_gemma else h)
        x = self.norm(self.add("Gather", x, "wanted", axis=1), "model.norm", d.width)
        source = "model.embed_tokens.weight" if d.is_tied else "lm_head.weight"
        logits = self.linear(x, "head", d.vocabulary, d.width, source=source)
        self.add("Identity", logits, output="logits")


def blocks(weight: Array) -> tuple[NDArray[np.uint8], Array]:
    """*weight* (rows, columns) in 8 bits as MatMulNBits reads it: (rows, blocks, BLOCK) around 128, and a scale each."""
    rows, columns = weight.shape
    parts = weight.reshape(rows, columns // BLOCK, BLOCK)
    scales = np.abs(parts).max(axis=-1) / 127.0
    packed = np.rint(parts / np.where(scales == 0, 1.0, scales)[..., None]) + 128
    return packed.astype(np.uint8), scales.astype(np.float32).reshape(-1)
