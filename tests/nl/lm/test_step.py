import json
import threading
from pathlib import Path

import numpy as np
import pytest

from proxy.errors import ModelError
from proxy.nl.lm.step import OnnxStepModel
from proxy.training.decoder.config import read_config
from proxy.training.decoder.reference import logits
from proxy.training.decoder.weights import Weights

TEXT = "Which ships are heavier than 100 tonnes?"


def expected(model: OnnxStepModel, tokens: list[int]) -> np.ndarray:
    source = model.folder.path.parent / "source"
    return logits(tokens, read_config(source), dict(Weights(source)))


def test_one_step_is_what_the_reference_says(model: OnnxStepModel) -> None:
    """Each architecture computes the logits of its papers."""
    tokens = model.encode(TEXT)
    found, cache = model.step(np.array([tokens]), np.ones((1, len(tokens)), dtype=np.int64), wanted=range(len(tokens)))
    assert np.allclose(found[0], expected(model, tokens), atol=2e-3)
    assert (cache.length, cache.batch) == (len(tokens), 1)


def test_a_batch_goes_on_from_one_prefix_whatever_its_padding(model: OnnxStepModel) -> None:
    """Texts of different lengths behind one cache, padded left or right, get the logits they would get alone."""
    prefix, texts = model.encode(TEXT[:20]), [model.encode("abc"), model.encode("de fghi")]
    _, cache = model.step(np.array([[0, 0, *prefix]]), np.array([[0, 0, *[1] * len(prefix)]]))
    longest = max(map(len, texts))
    tokens = np.array([t + [0] * (longest - len(t)) for t in texts])
    mask = np.array([[0, 0, *[1] * (len(prefix) + len(t)), *[0] * (longest - len(t))] for t in texts])
    found, after = model.step(tokens, mask, cache, wanted=range(longest))
    for row, text in zip(found, texts, strict=True):
        assert np.allclose(row[: len(text)], expected(model, prefix + text)[len(prefix) :], atol=2e-3)
    assert (after.length, after.batch, cache.batch) == (2 + len(prefix) + longest, 2, 1)


def test_texts_branch_change_places_and_end(model: OnnxStepModel) -> None:
    """rows says which text of the cache each goes on from: twice the same, in another order, or not at all."""
    texts = [model.encode("abcd"), model.encode("efgh"), model.encode("ijkl")]
    _, cache = model.step(np.array(texts), np.ones((3, 4), dtype=np.int64))
    rows, more = [2, 0, 2, 2], [model.encode(c)[0] for c in "mnop"]
    found, after = model.step(np.array(more)[:, None], np.ones((4, 5), dtype=np.int64), cache, rows=rows)
    for got, row, token in zip(found, rows, more, strict=True):
        assert np.allclose(got[0], expected(model, [*texts[row], token])[-1], atol=2e-3)
    assert after.batch == 4
    for wrong in ([0, 1, 2], [0, 1, 2, 3], [0, 1, 2, -1]):
        with pytest.raises(ValueError, match="do not fit"):
            model.step(np.array(more)[:, None], np.ones((4, 5), dtype=np.int64), cache, rows=wrong)


@pytest.mark.parametrize(("form", "most"), [("fp16", 0.05), ("int8", 0.2)])
def test_smaller_forms_stay_near(folder: Path, form: str, most: float) -> None:
    """fp16 and int8 say nearly the same as fp32."""
    model = OnnxStepModel(folder, threads=1, form=form)
    tokens = model.encode(TEXT)
    found, _ = model.step(np.array([tokens]), np.ones((1, len(tokens)), dtype=np.int64), wanted=range(len(tokens)))
    wanted = expected(model, tokens)
    assert np.sqrt(((found[0] - wanted) ** 2).mean()) / wanted.std() < most


def test_threads_share_a_model(model: OnnxStepModel) -> None:
    """Steps of several threads do not mix."""
    tokens = np.array([model.encode(TEXT)])
    alone, _ = model.step(tokens, np.ones_like(tokens))
    found: list[bool] = []

    def run() -> None:
        found.extend(bool(np.allclose(model.step(tokens, np.ones_like(tokens))[0], alone, atol=1e-5)) for _ in range(20))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [True] * 80


def test_markup_in_a_text_is_text(model: OnnxStepModel) -> None:
    """A label that spells a control token does not end anything."""
    tokens = model.encode("</s>")
    assert not set(tokens) & set(model.folder.end)
    assert model.decode(tokens) == "</s>"
    assert model.encode_markup("</s>a") == [1, *model.encode("a")]
    assert model.encode("</s>") == tokens


def test_what_does_not_fit_is_said(model: OnnxStepModel) -> None:
    """A mask of another length is the caller's mistake, not a wrong answer."""
    with pytest.raises(ValueError, match="do not fit"):
        model.step(np.array([[3, 4]]), np.ones((1, 3), dtype=np.int64))


def test_it_chooses_a_form_for_the_device_and_says_why(folder: Path) -> None:
    """Without a GPU int8 runs on the CPU, without a word; with one that onnxruntime cannot use there is a word."""
    model = OnnxStepModel(folder, threads=1)
    assert (model.form, model.device) == ("fp16", "cuda") if model.device == "cuda" else ("int8", "cpu")
    with pytest.raises(ModelError, match="int4"):
        OnnxStepModel(folder, form="int4")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 9}, "format 9"),
        ({"forms": {"int8": "../other.onnx"}}, "not the name of a file"),
        ({"forms": {"int8": "absent.onnx"}}, r"no such model file: absent\.onnx"),
        ({"layers": 0}, "number below 1"),
        ({"end": None}, "does not describe"),
        ({"context": float("inf")}, "does not describe"),
        ({"end": [4_000_000]}, "a token 4000000 of"),
        ({"begin": -1}, "a token -1 of"),
    ],
    ids=["format", "outside", "absent", "number", "type", "infinite", "end", "begin"],
)
def test_a_damaged_folder_is_named(folder: Path, tmp_path: Path, change: dict[str, object], message: str) -> None:
    """Each fault of lm.json is an error that says which."""
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    (tmp_path / "lm.json").write_text(json.dumps(json.loads((folder / "lm.json").read_text()) | change))
    with pytest.raises(ModelError, match=message):
        OnnxStepModel(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"layers": 9}, {"layers": 1}, {"layers": 1_000_000_000}, {"kv_heads": 5}, {"head_dim": 6}, {"vocabulary": 90},
        {"forms": {"fp16": "model.fp32.onnx"}},
    ],
    ids=str,
)  # fmt: skip
def test_a_graph_that_is_not_the_one_described_is_refused(folder: Path, tmp_path: Path, change: dict[str, object]) -> None:
    """When it is opened, not at the first question; numbers of lm.json are compared before anything is made of them."""
    for file in folder.iterdir():
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "lm.json").unlink()
    described = json.loads((folder / "lm.json").read_text()) | {"forms": {"fp32": "model.fp32.onnx"}}
    (tmp_path / "lm.json").write_text(json.dumps(described | change))
    with pytest.raises(ModelError, match="is not the graph that"):
        OnnxStepModel(tmp_path, threads=1)


def test_files_that_are_cut_short_are_refused(folder: Path, tmp_path: Path) -> None:
    """A graph, its weights or a tokenizer that was copied in part."""
    for name in ("model.fp32.onnx", "model.fp32.bin", "tokenizer.json"):
        for file in folder.iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ModelError, match="cannot be used"):
            OnnxStepModel(tmp_path, threads=1, form="fp32")


def test_a_tokenizer_of_another_model_is_refused(folder: Path, tmp_path: Path) -> None:
    """One with more tokens than the model has weights for."""
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    document = json.loads((tmp_path / "tokenizer.json").read_text())
    document["model"]["vocab"] |= {f"token {n}": 1000 + n for n in range(3)}
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    with pytest.raises(ModelError, match="tokens, and the model"):
        OnnxStepModel(tmp_path, threads=1)


def test_half_a_character_is_text(model: OnnxStepModel) -> None:
    """A lone surrogate, which JSON can spell and UTF-8 cannot, breaks nothing."""
    assert model.encode("a\ud800b") == model.encode("a?b")
