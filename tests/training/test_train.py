"""From a graph to pairs, to a ranking, to an engine that uses it: the commands, on the repair café."""

import json
from pathlib import Path

import pytest

from proxy.cli import main
from proxy.config import Config, load_config
from proxy.errors import ModelError
from proxy.nl.gate import read_gates, shipped_gates
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


def test_gates_are_fitted_to_pairs_and_an_engine_reads_them(folder: Path, config: Config, pairs: Path, capsys) -> None:
    """By the command: each question is also asked of what the café does not have, which no query answers. What was collected
    gives the same gates again, and goes on where it was broken off."""
    samples, own = folder / "gated.jsonl", folder / "gate"
    serve = ["--load", str(folder / "graph.ttl")]
    ask = ["train", "gate", "--pairs", str(pairs), *serve, "--lacking-every", "1", "--keep-samples", str(samples)]
    assert main([*ask, "-o", str(own)]) == 0
    assert "about what the graph lacks" in capsys.readouterr().out
    collected = read_samples([samples])
    assert any(s.is_lacking for s in collected) and not any(o.is_right for s in collected if s.is_lacking for o in s.options)
    samples.write_text("".join(samples.read_text().splitlines(keepends=True)[:-2]) + '{"graph": "half')
    assert main([*ask, "-o", str(folder / "again")]) == 0
    assert sorted(read_samples([samples]), key=lambda s: s.id) == sorted(collected, key=lambda s: s.id)
    assert read_gates(folder / "again") == read_gates(own) != shipped_gates()
    (folder / "with.toml").write_text('[nl]\ngate = "gate"\n[backend]\nload = ["graph.ttl"]\n')
    (own / "gate.json").write_text("{}")
    assert main(["ask", "How many repairs are there?", "--config", str(folder / "with.toml")]) == 2
    assert "gate.json holds no gates" in capsys.readouterr().err


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
