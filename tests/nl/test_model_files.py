"""Model files that are none: a ModelError that names the file, never a crash, never a ranking of nonsense."""

import json

import pytest

from proxy.errors import ModelError
from proxy.nl.onnx import OnnxEncoder, packaged_tokenizer
from proxy.nl.ranker import read_ranker

WHOLE = {"weights": {"a": 1.0}}
CROSS = {"reranked": 12, "weight": 1.0, "max_tokens": 64, "sha256": {}}


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "null", "{", "[" * 100_000, '{"weights": ' * 5_000, '{"weights": []}', '{"weights": {"a": "x"}}',
        '{"weights": {"a": []}}', '{"weights": {"a": NaN}}', '{"weights": {"a": Infinity}}', '{"weights": {"a": 1e999}}',
        '{"weights": {"a": ' + "9" * 10_000 + "}}", json.dumps(WHOLE | {"cross": []}),
        *(
            json.dumps(WHOLE | {"cross": CROSS | change})
            for change in (
                {"reranked": 10**9}, {"reranked": -1}, {"weight": "x"}, {"weight": float("nan")}, {"max_tokens": None},
                {"sha256": None}, {"sha256": {"../../etc/passwd": "0"}}, {"sha256": {}},
            )
        ),
    ],
    ids=range(22),
)  # fmt: skip
def test_weights_that_are_none(tmp_path, text):
    """Nesting without end, numbers that are none, a cross-encoder whose files nobody vouches for."""
    (tmp_path / "weights.json").write_text(text)
    with pytest.raises(ModelError):
        read_ranker(tmp_path)


@pytest.mark.parametrize("model", [b"", b"\x00" * 1000, b"\x08\x07" + b"\xff" * 200, b"not a model"], ids=range(4))
@pytest.mark.parametrize("words", [None, b"", b"[" * 100_000, b'{"version": "1.0", "model": {"type": "BPE"}}'], ids=range(4))
def test_an_encoder_that_is_none(tmp_path, model, words):
    """Be it the network or its words that are no such file."""
    (tmp_path / "model.onnx").write_bytes(model)
    (tmp_path / "tokenizer.json").write_bytes(packaged_tokenizer().read_bytes() if words is None else words)
    with pytest.raises(ModelError, match="cannot be used"):
        OnnxEncoder(tmp_path)
