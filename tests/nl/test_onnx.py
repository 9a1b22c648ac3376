from pathlib import Path

import numpy as np
import pytest

from proxy.errors import ModelError
from proxy.nl.onnx import OnnxEncoder


def test_vectors_are_of_length_one_and_in_order(encoder: OnnxEncoder) -> None:
    """Each text has its own row, whatever the order in which lengths are batched."""
    texts = ["a rather long text about the weight of lamps and of other appliances", "age", "lamp"]
    together = encoder.encode(texts)
    assert np.allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)
    assert all(float(together[i] @ encoder.encode([t])[0]) > 0.98 for i, t in enumerate(texts))
    assert encoder.encode([]).shape[0] == 0


def test_nearness_follows_meaning(encoder: OnnxEncoder) -> None:
    """Synonyms are nearer than strangers."""
    gender, sex, weight = encoder.encode(["gender", "sex", "weight"])
    assert gender @ sex > gender @ weight


def test_the_cache_is_bounded(encoder: OnnxEncoder) -> None:
    """More texts than the cache holds still get right vectors."""
    small = OnnxEncoder(threads=1, cache_size=2)
    assert np.allclose(small.encode(["age", "lamp", "town", "age"])[0], encoder.encode(["age"])[0], atol=0.1)


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    """The error says which file is not there."""
    with pytest.raises(ModelError, match=r"model\.onnx"):
        OnnxEncoder(tmp_path)


def test_a_broken_model_is_a_model_error(tmp_path: Path) -> None:
    """Garbage in the folder does not leak a library's own exception."""
    (tmp_path / "model.onnx").write_bytes(b"no model")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="cannot be used"):
        OnnxEncoder(tmp_path)


def test_it_says_what_it_runs_on(encoder: OnnxEncoder) -> None:
    """The providers are those of the session, not those hoped for."""
    assert encoder.providers[-1] == "CPUExecutionProvider"
