"""From a graph to pairs, to a ranking, to an engine that uses it: the commands, on the repair café."""

import json
from pathlib import Path

import pytest

from proxy.config import Config, load_config
from proxy.errors import ModelError
from proxy.nl.ranker import read_ranker, shipped_ranker
from proxy.train import synthesize, train_ranker
from proxy.training.samples import read_samples
from tests.nl.conftest import CAFE


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("training")
    (made / "graph.ttl").write_text(CAFE)
    return made


@pytest.fixture(scope="module")
def config(folder: Path) -> Config:
    return load_config(None, environ={}, overrides={"backend.load": [str(folder / "graph.ttl")]})


def silent(what: str, done: int, total: int) -> None:
    """Progress is for people."""


@pytest.fixture(scope="module")
def pairs(folder: Path, config: Config) -> Path:
    made, tried = synthesize(config, folder / "synthetic.jsonl", count=20, seed=3, told=silent)
    assert made == 20 <= tried
    return folder / "synthetic.jsonl"


def test_synthetic_pairs_differ_and_say_what_they_are(pairs: Path) -> None:
    """No question twice, many shapes, each marked as synthetic."""
    found = [json.loads(line) for line in pairs.read_text().splitlines()]
    assert len({p["question"] for p in found}) == len(found)
    assert len({p["template"] for p in found}) >= 6
    assert {p["source"] for p in found} == {"synthetic"}


def test_a_ranking_is_fitted_to_pairs_and_an_engine_reads_it(folder: Path, config: Config, pairs: Path) -> None:
    """The folder holds weights near the shipped ones and a model card; the samples that were kept give the same again."""
    card = train_ranker(
        config, [pairs], folder / "own", keep=folder / "samples.jsonl", limit=10, command="sparlance train ranker", told=silent
    )
    assert "trained on 10 questions over 1 graph" in card
    own = read_ranker(folder / "own")
    assert own.cross is None
    assert own.weights.keys() >= shipped_ranker().weights.keys()
    assert all(any(o.is_right for o in s.options) for s in read_samples([folder / "samples.jsonl"]))
    train_ranker(config, [], folder / "again", samples=[folder / "samples.jsonl"], command="again", told=silent)
    assert read_ranker(folder / "again").weights == own.weights


def test_a_ranking_that_is_damaged_is_not_used(tmp_path: Path) -> None:
    """Missing weights, weights of another kind, and a network that is not the one they were written for are told apart."""
    with pytest.raises(ModelError, match="cannot read the ranking"):
        read_ranker(tmp_path)
    (tmp_path / "weights.json").write_text('{"weights": [1]}')
    with pytest.raises(ModelError, match="holds no weights of a ranking"):
        read_ranker(tmp_path)
    cross = {"weight": 1.0, "reranked": 12, "max_tokens": 64, "sha256": {"model.onnx": "00", "tokenizer.json": "00"}}
    (tmp_path / "weights.json").write_text(json.dumps({"weights": {"cosine": 1.0}, "cross": cross}))
    with pytest.raises(ModelError, match="no such model file"):
        read_ranker(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"something else")
    with pytest.raises(ModelError, match="is not the file"):
        read_ranker(tmp_path)
