"""A cross-encoder is trained, exported and read again: with a network small enough for a second. Needs the extra ``train``."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra train is not installed")
pytest.importorskip("onnx", reason="the extra train is not installed")

from proxy.nl.onnx import OnnxCrossEncoder, packaged_tokenizer  # noqa: E402
from proxy.training.crossencoder import Group, Recipe, judge, logits_of, read_tokenizer, start, train  # noqa: E402
from proxy.training.export import export, prune  # noqa: E402

RECIPE = Recipe(layers=(0,), epochs=80, patience=80, rate=1e-2, groups_per_step=4, dropout=0.0)
COLOURS = ("red", "green", "blue", "black", "white", "brown")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    """A BERT of one narrow layer with random weights, in Hugging Face form."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("encoder")
    BertModel(
        BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64), add_pooling_layer=False
    ).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes(packaged_tokenizer().read_bytes())
    return folder


def groups(colours: tuple[str, ...]) -> list[Group]:
    """The linear ranking prefers "small"; right is "large"."""
    return [Group(f"the {c} one", (f"small {c}", f"large {c}"), (0.1, 0.0), (False, True)) for c in colours]


def test_it_learns_what_the_linear_score_gets_wrong_and_survives_its_export(encoder: Path, tmp_path: Path) -> None:
    """Held-out questions are put right, and the exported network says the same as the trained one, within its 8 bits."""
    tokenizer = read_tokenizer(encoder)
    network, held_out = start(encoder, RECIPE), groups(COLOURS[4:])
    assert not np.concatenate(logits_of(network, tokenizer, held_out, RECIPE)).any()
    trained = train(network, tokenizer, groups(COLOURS[:4]), held_out, RECIPE, told=lambda *_: None)
    wanted = logits_of(trained.network, tokenizer, held_out, RECIPE)
    weight, _, first = judge(held_out, wanted)
    assert (first, weight > 0) == (1.0, True)
    export(trained.network, encoder / "tokenizer.json", tmp_path)
    scorer = OnnxCrossEncoder(tmp_path, threads=1)
    found = [scorer.score(g.question, g.texts) for g in held_out]
    assert all(f[1] > f[0] for f in found)
    assert np.corrcoef(np.concatenate(found), np.concatenate(wanted))[0, 1] > 0.98
    assert scorer.score("?", []).shape == (0,)


def test_words_that_are_pruned_are_read_in_pieces(tmp_path: Path) -> None:
    """A smaller vocabulary keeps its words whole, and still spells the others."""
    kept = prune(packaged_tokenizer(), tmp_path / "tokenizer.json", {"ship"})
    tokenizer = read_tokenizer(tmp_path)
    assert len(kept) == len(tokenizer.get_vocab()) < 4000
    assert tokenizer.tokenize("ship cat") == ["ship", "c", "##a", "##t"]
