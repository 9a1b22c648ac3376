import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the extra lm is not installed: models cannot be imported")

from proxy.cli import main
from proxy.errors import ModelError
from proxy.training.decoder import importing
from proxy.training.decoder.config import read_config
from proxy.training.decoder.graph import BLOCK, blocks
from proxy.training.decoder.importing import import_model
from proxy.training.decoder.weights import Weights
from tests.nl.lm.tiny import GEMMA, LLAMA, write_source


def test_the_command_imports_checks_and_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sizes, differences and speeds are said; a second import into the same folder is refused."""
    source, target = write_source(tmp_path / "source", LLAMA), tmp_path / "models" / "tiny"
    assert main(["model", "import", str(source), "-o", str(target), "--form", "int8", "--form", "fp32"]) == 0
    told = capsys.readouterr().out
    assert "int8: 0 MB, differs from the source by 0." in told and "tokens/s read" in told
    assert main(["model", "check", str(target)]) == 0
    assert "llama of 2 layers" in capsys.readouterr().out
    (tmp_path / "models" / "broken").mkdir()
    (tmp_path / "models" / "broken" / "lm.json").write_text("{}")
    assert main(["model", "list", str(tmp_path / "models")]) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("broken: ")
    assert main(["model", "import", str(source), "-o", str(target)]) == 2
    assert "is not empty" in capsys.readouterr().err


def test_a_folder_that_changed_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One bit of the weights makes another model, which runs and is wrong: the check compares all of them."""
    folder = tmp_path / "model"
    import_model(write_source(tmp_path / "source", LLAMA), folder, forms=("fp32",))
    weights = bytearray((folder / "model.fp32.bin").read_bytes())
    weights[1000] ^= 1
    (folder / "model.fp32.bin").write_bytes(weights)
    assert main(["model", "check", str(folder)]) == 2
    assert "model.fp32.bin in" in capsys.readouterr().err


@pytest.mark.parametrize("absent", ["config.json", "tokenizer.json", "model.safetensors"])
def test_what_is_absent_is_named(tmp_path: Path, absent: str) -> None:
    """A folder without one of its parts, a path to nothing."""
    source = write_source(tmp_path / "source", LLAMA)
    (source / absent).unlink()
    with pytest.raises(ModelError, match="safetensors" if absent.startswith("model") else absent):
        import_model(source, tmp_path / "target")
    with pytest.raises(ModelError, match="no folder and no file"):
        import_model(tmp_path / "nothing", tmp_path / "target")


def test_the_command_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Greedy, drawn, searched, behind a prefix and up to a stop string; the account is JSON on stderr."""
    folder, prefix = tmp_path / "model", tmp_path / "prefix.txt"
    import_model(write_source(tmp_path / "source", LLAMA), folder, forms=("fp32",))
    prefix.write_text("Class Ship")

    def run(*given: str) -> tuple[list[str], dict[str, Any]]:
        assert main(["model", "write", str(folder), "Which", "--max-tokens", "6", *given]) == 0
        found = capsys.readouterr()
        return found.out.removesuffix("\n").split("\n---\n"), json.loads(found.err.splitlines()[-1])

    greedy, account = run()
    assert account["tokens_written"] == 6 and account["texts"][0]["ended"] == "length"
    assert run("--stop", greedy[0][2])[0] == [greedy[0][: greedy[0].index(greedy[0][2])]]
    drawn = run("--temperature", "1.5", "--seed", "3", "--drafts", "4")
    assert len(set(drawn[0])) > 1 and drawn[0] == run("--temperature", "1.5", "--seed", "3", "--drafts", "4")[0]
    assert run("--temperature", "1.5", "--top-p", "0.000001")[0] == greedy
    searched = run("--beams", "3")
    assert len(searched[0]) == 3 and searched[1]["texts"][0]["likelihood"] >= account["texts"][0]["likelihood"]
    kept = ("--prefix", str(prefix), "--prefix-cache", str(tmp_path / "kept"))
    (one, first), (other, second) = run(*kept), run(*kept)
    assert one == other and [first["prefix"], second["prefix"]] == ["read", "disk"]
    for wrong in (["--temperature", "-1"], ["--prefix", str(tmp_path / "absent")], ["--form", "int8"]):
        assert main(["model", "write", str(folder), "Which", *wrong]) == 2


def test_a_graph_that_computes_something_else_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where verification fails, the folder has no lm.json."""
    source = write_source(tmp_path / "source", LLAMA)
    monkeypatch.setitem(importing.TOLERANCE, "int8", 1e-9)
    with pytest.raises(ModelError, match="differs from the source"):
        import_model(source, tmp_path / "target")
    assert not (tmp_path / "target" / "lm.json").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "bert"}, "'bert'; llama, qwen2, gemma3_text"),
        ({"hidden_act": "relu"}, "activation relu"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "rope scaling yarn"),
        ({"num_hidden_layers": 3}, "no tensor model.layers.2"),
        ({"num_key_value_heads": 4}, "config.json says"),
        ({"num_attention_heads": None}, "does not describe a decoder"),
    ],
    ids=["type", "activation", "rope", "layers", "shape", "absent"],
)
def test_what_cannot_be_imported_is_said(tmp_path: Path, change: dict[str, object], message: str) -> None:
    """No model is imported half right: what is unknown is refused by name."""
    source = write_source(tmp_path / "source", LLAMA)
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(ModelError, match=message):
        import_model(source, tmp_path / "target")


def _with_tokenizer(source: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    document = json.loads((source / "tokenizer.json").read_text())
    change(document)
    (source / "tokenizer.json").write_text(json.dumps(document))
    return source


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["model"]["vocab"].update({"Y": 5000}), "has a token 5,000, and the model has"),
        (lambda d: d["model"]["vocab"].pop("S"), "the tokenizer makes"),
        (lambda d: d["added_tokens"].append(d["added_tokens"][0] | {"content": "q", "special": True}), "'q' in a text"),
        (lambda d: d.pop("model"), "cannot be used"),
    ],
    ids=["larger", "loses", "markup", "damaged"],
)
def test_a_tokenizer_that_does_not_fit_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    """More tokens than weights, text that gets lost, text that becomes a control token: no folder comes of it."""
    source = _with_tokenizer(write_source(tmp_path / "source", LLAMA), change)
    with pytest.raises(ModelError, match=message):
        import_model(source, tmp_path / "target")
    assert not (tmp_path / "target" / "lm.json").exists()


def test_older_configurations_mean_the_same(tmp_path: Path) -> None:
    """rope_theta and rope_local_base_freq, as transformers 4 writes them, are read like rope_parameters."""
    source = write_source(tmp_path / "source", GEMMA)
    now = read_config(source)
    config = json.loads((source / "config.json").read_text())
    del config["rope_parameters"]
    (source / "config.json").write_text(json.dumps(config | {"rope_theta": 1e6, "rope_local_base_freq": 1e4}))
    assert all(np.array_equal(a, b) for a, b in zip(now.frequencies, read_config(source).frequencies, strict=True))


def test_scaled_positions_keep_what_is_near(tmp_path: Path) -> None:
    """llama3 divides low frequencies by the factor, leaves high ones, and is smooth between."""
    source = write_source(tmp_path / "source", LLAMA)
    plain = read_config(source).frequencies[0]
    config = json.loads((source / "config.json").read_text())
    rope = {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    rope["original_max_position_embeddings"] = 100
    (source / "config.json").write_text(json.dumps(config | {"rope_parameters": rope}))
    ratio = read_config(source).frequencies[0] / plain
    assert ratio[0] == 1.0 and ratio[-1] == pytest.approx(1 / 8)
    assert (np.diff(ratio) <= 0).all()


def test_bfloat16_and_damage(tmp_path: Path) -> None:
    """bfloat16 is read exactly; a file that ends early or is none is named."""
    header = json.dumps({"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    file = tmp_path / "model.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes.fromhex("803f40c0"))
    assert Weights(tmp_path)["a"].tolist() == [1.0, -3.0]
    file.write_bytes(file.read_bytes()[:-2])
    with pytest.raises(ModelError, match="ends within a"):
        Weights(tmp_path)["a"]
    file.write_bytes(b"\xff" * 50)
    with pytest.raises(ModelError, match="no safetensors file"):
        Weights(tmp_path)


def test_blocks_are_within_half_a_step() -> None:
    """Each weight comes back within half of its block's scale; a block of zeros stays zero."""
    weight = np.random.default_rng(0).normal(size=(4, 2 * BLOCK)).astype(np.float32)
    weight[1, :BLOCK] = 0
    packed, scales = blocks(weight)
    back = (packed.astype(np.float32) - 128) * scales.reshape(4, 2, 1)
    assert (np.abs(back - weight.reshape(4, 2, BLOCK)) <= scales.reshape(4, 2, 1) / 2 + 1e-7).all()
