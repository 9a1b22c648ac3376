import numpy as np
import pytest

from proxy.errors import ModelError
from proxy.nl.evidence import Seen
from proxy.nl.outline import Outline
from proxy.training.fitting import fit
from proxy.training.linear import first_right, fit_weights, out_of_fold, scores
from proxy.training.samples import Option, Sample, fold_of, line_of, read_samples, resumed


def sample(n: int, graph: str = "g", *, right: str = "near") -> Sample:
    """Two candidates: one near the question, one long; which is right is told by *right*."""
    near = Option(f"near {n}", {"near": 1.0, "noise": n % 3 / 3}, right == "near")
    long = Option(f"long {n}", {"long": 1.0, "noise": n % 2 / 2}, right == "long")
    return Sample(graph, str(n), f"question {n}", f"query {n}", (long, near))


def test_weights_put_the_right_candidate_first() -> None:
    """A feature that right candidates have gets a positive weight, one that wrong ones have a negative one."""
    samples = [sample(n) for n in range(12)]
    weights = fit_weights(samples)
    assert weights["near"] > 0 > weights["long"]
    assert first_right(samples, [scores(s, weights) for s in samples]) == (1.0, 1.0, 1.0)


def test_a_strong_prior_outweighs_few_pairs_and_a_weak_one_does_not() -> None:
    """Two pairs that say the contrary change little against a strong prior, and everything against a weak one."""
    prior, contrary = {"near": 2.0, "long": -2.0}, [sample(n, right="long") for n in range(2)]
    kept = fit_weights(contrary, prior=prior, l2=10.0)
    changed = fit_weights(contrary, prior=prior, l2=0.001)
    assert kept["near"] > kept["long"]
    assert changed["near"] < changed["long"]


def test_questions_that_tell_nothing_leave_the_prior() -> None:
    """Where no candidate is right, or all are, there is nothing to learn from."""
    nothing = Sample("g", "1", "?", "q", (Option("a", {"near": 1.0}, False), Option("b", {"long": 1.0}, False)))
    assert fit_weights([nothing], prior={"near": 1.5}) == {"near": 1.5}
    with pytest.raises(ModelError, match="nothing to learn"):
        fit([nothing], prior=None)


def test_out_of_fold_scores_know_nothing_of_their_own_graph() -> None:
    """A graph where everything is the other way round is misjudged by weights from the others."""
    samples = [sample(n, f"g{n}") for n in range(20)]
    odd = sample(99, "odd", right="long")
    found = out_of_fold([*samples, odd], l2=0.003)
    assert int(np.argmax(found[-1])) == 1


def test_paraphrases_share_a_fold() -> None:
    """Split by question, two wordings of one query stay together; split by graph, a graph does."""
    one, other = sample(1), Sample("g", "x", "said otherwise", "query 1", ())
    assert fold_of(one, 50, by_question=True) == fold_of(other, 50, by_question=True)
    assert len({fold_of(sample(n), 50) for n in range(20)}) == 1


def test_samples_survive_their_file(tmp_path) -> None:
    """What is written is read again, and a line that is none is named."""
    path = tmp_path / "samples.jsonl"
    seen = Seen.of([("Mill", 2), ("Mill", 2)], "the mill")
    whole = Option("near", {"near": 1.0}, True, False, {"share": 0.5}, Outline(1, 2, 3, 4, 5), seen, True)
    samples = [sample(1), Sample("g", "2", "?", "q", (whole,), 40, True)]
    path.write_text("".join(map(line_of, samples)))
    assert read_samples([path]) == samples
    path.write_text(path.read_text() + '{"graph": 1}\n')
    with pytest.raises(Exception, match=r"line 3 of .*samples\.jsonl is no sample"):
        read_samples([path])


def test_a_collection_that_was_broken_off_goes_on(tmp_path) -> None:
    """Half a line at the end is cut off, the others stay; where there is no file, there is nothing."""
    path = tmp_path / "samples.jsonl"
    assert resumed(path) == []
    path.write_text(line_of(sample(1)) + line_of(sample(2))[:-20])
    assert resumed(path) == [sample(1)]
    assert path.read_text() == line_of(sample(1))


def test_what_a_graph_lacks_trains_no_ranking() -> None:
    """A question that has no right answer says nothing of the order of candidates, and does not count in its figures."""
    lacking = Sample("g", "x-lacking", "?", "q", sample(1).options, is_lacking=True)
    both = fit([*(sample(n) for n in range(12)), lacking], prior=None)
    assert both.questions == 12
