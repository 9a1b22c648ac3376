import itertools

import numpy as np
import pytest

from proxy.errors import ModelError
from proxy.nl.lm import decoding
from proxy.nl.lm.beam import search
from proxy.nl.lm.decoding import Ended, Sampling, likelihoods, log_softmax, read_prefix, write
from proxy.nl.lm.step import OnnxStepModel

NEVER = float("inf")


def still() -> float:
    return 0.0


def alone(model: OnnxStepModel, prefix: str, first: str, second: str) -> float:
    """Mean log-probability of *second*, in one step without a cache."""
    begin = [] if model.folder.begin is None else [model.folder.begin]
    given, scored = [*begin, *model.encode(prefix + first)], model.encode(second)
    tokens = np.array([given + scored])
    logits, _ = model.step(tokens, np.ones_like(tokens), wanted=range(tokens.shape[1]))
    at = np.arange(len(given) - 1, tokens.shape[1] - 1)
    return float(log_softmax(logits[0, at])[np.arange(len(scored)), scored].mean())


def test_likelihoods_behind_a_prefix_are_those_of_whole_texts(model: OnnxStepModel) -> None:
    """A shared prefix, batches and padding change nothing; a first part may be empty."""
    prefix = read_prefix(model, "Query: ")
    pairs = [(f"ship {'x' * n}. ", f"which {n}?") for n in range(9)] + [("", "ships")]
    found = likelihoods(model, prefix, pairs, clock=still, deadline=NEVER)
    assert found == pytest.approx([alone(model, "Query: ", a, b) for a, b in pairs], abs=1e-3)


def test_likelihoods_stop_at_the_deadline(model: OnnxStepModel) -> None:
    """What was not scored in time is None, and so is what does not fit the context."""
    ticks = itertools.count()
    pairs = [("a", "b"), ("a" * 200, "b"), *[("a", "c")] * 8]
    found = likelihoods(model, read_prefix(model, "p"), pairs, clock=lambda: next(ticks), deadline=1)
    assert [f is not None for f in found] == [True, False, *[True] * 7, False]


def test_a_batch_writes_what_each_would_alone(model: OnnxStepModel) -> None:
    """Padding on the left changes no greedy text; tokens are counted."""
    prompts = ["SELECT", "Which ships are heavy? ", "x"]
    together = write(model, prompts, max_tokens=12, clock=still, deadline=NEVER)
    alone_each = [write(model, [p], max_tokens=12, clock=still, deadline=NEVER)[0] for p in prompts]
    assert [w.text for w in together] == [w.text for w in alone_each]
    assert together[0].prompt_tokens == len("SELECT") + (model.folder.begin is not None)
    assert all(w.tokens <= 12 for w in together)


def test_a_prefix_and_drafts_change_no_greedy_text(model: OnnxStepModel) -> None:
    """Behind a prefix that was read once, and in several drafts, each prompt is written on as it is alone."""
    prompts = ["ships", "x"]
    prefix = read_prefix(model, "Which ")
    found = write(model, prompts, max_tokens=9, clock=still, deadline=NEVER, prefix=prefix, drafts=2)
    alone_each = [write(model, ["Which " + p], max_tokens=9, clock=still, deadline=NEVER)[0] for p in prompts]
    assert [w.text for w in found] == [w.text for w in alone_each for _ in range(2)]
    assert [w.likelihood for w in found] == pytest.approx([w.likelihood for w in alone_each for _ in range(2)], abs=1e-3)
    assert [w.prompt_tokens for w in found] == [5, 5, 1, 1]


def test_drafts_differ_and_do_not_depend_on_their_neighbours(model: OnnxStepModel) -> None:
    """Sampled drafts are several texts; the first is the same beside one or seven others, whichever of them end early."""
    sampling = Sampling(temperature=1.5, seed=3)

    def texts(count: int) -> list[str]:
        given = dict(max_tokens=12, clock=still, deadline=NEVER, stop=["a", "e"], sampling=sampling)
        return [w.text for w in write(model, ["SELECT"], drafts=count, **given)]

    eight = texts(8)
    assert len(set(eight)) > 2
    assert texts(2) == eight[:2]


def test_tokens_serve_as_a_prompt(model: OnnxStepModel) -> None:
    """A prompt may come as tokens, where control tokens frame it."""
    by_text, by_tokens = write(model, ["SELECT", model.encode("SELECT")], max_tokens=6, clock=still, deadline=NEVER)
    assert by_text == by_tokens


def test_what_has_ended_is_not_computed(model: OnnxStepModel) -> None:
    """The batch shrinks: tokens are read for those texts only that go on."""
    first = write(model, ["SELECT"], max_tokens=1, clock=still, deadline=NEVER)[0].text
    before = model.tokens_read
    found = write(model, ["SELECT", "Which"], max_tokens=6, clock=still, deadline=NEVER, stop=[first])
    assert Ended.STOP in [w.ended for w in found]
    read = sum(w.prompt_tokens + max(0, w.tokens - 1) for w in found)
    assert model.tokens_read - before == read


def test_stop_strings_end_a_text_and_are_not_in_it(model: OnnxStepModel) -> None:
    """The text ends before the first stop string, also when several tokens spell it."""
    whole = write(model, ["SELECT"], max_tokens=10, clock=still, deadline=NEVER)[0].text
    assert len(whole) >= 4
    stop = whole[2:4]
    found = write(model, ["SELECT"], max_tokens=10, clock=still, deadline=NEVER, stop=[stop])[0]
    assert (found.text, found.ended) == (whole[: whole.find(stop)], Ended.STOP)


def test_the_deadline_ends_a_text(model: OnnxStepModel) -> None:
    """What was written by then is returned."""
    ticks = itertools.count()
    found = write(model, ["SELECT"], max_tokens=50, clock=lambda: next(ticks), deadline=4)[0]
    assert found.ended in (Ended.DEADLINE, Ended.END)
    assert found.tokens <= 3


def test_the_context_is_a_bound(model: OnnxStepModel) -> None:
    """A prompt that fills it is refused; one that nearly does is written to its end."""
    found = write(model, ["a" * 120], max_tokens=50, clock=still, deadline=NEVER)[0]
    assert found.prompt_tokens + found.tokens <= model.folder.context
    with pytest.raises(ModelError, match="tokens"):
        write(model, ["a" * 130], max_tokens=5, clock=still, deadline=NEVER)
    with pytest.raises(ModelError, match="tokens"):
        read_prefix(model, "a" * 130)


def test_sampling_repeats_by_its_seed(model: OnnxStepModel) -> None:
    """One seed gives one text; many give several; a tiny top_p is greedy."""

    def text(**given: float) -> str:
        sampling = Sampling(**given)
        return write(model, ["SELECT"], max_tokens=8, clock=still, deadline=NEVER, sampling=sampling)[0].text

    assert text(temperature=2.0, seed=5) == text(temperature=2.0, seed=5)
    assert len({text(temperature=2.0, seed=n) for n in range(6)}) > 1
    assert text(temperature=1.0, top_p=1e-9) == text()


def test_likelihood_is_that_of_the_reference(model: OnnxStepModel) -> None:
    """What a draft says of itself is the mean log-probability that scoring finds for the same tokens."""
    drafts = write(
        model, ["SELECT"], max_tokens=7, clock=still, deadline=NEVER, sampling=Sampling(temperature=1.0, seed=1), drafts=12
    )
    whole = [w for w in drafts if w.ended is Ended.LENGTH and len(w.text) == 7]  # no control token among them
    assert whole
    wanted = [alone(model, "SELECT", "", w.text) for w in whole]
    assert [w.likelihood for w in whole] == pytest.approx(wanted, abs=1e-3)


def test_reading_in_parts_changes_nothing(model: OnnxStepModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long texts are read in parts, padded ones too, behind a prefix too: the texts are those of one step."""
    prompts = ["Which ships are heavier?", "x", "SELECT ?name WHERE"]

    def texts() -> list[tuple[str, float]]:
        prefix = read_prefix(model, "Class Ship: name, tonnage")
        given = dict(max_tokens=6, clock=still, deadline=NEVER)
        found = [*write(model, prompts, **given, prefix=prefix), *write(model, prompts, **given)]
        found += search(model, prompts[0], width=2, **given, prefix=prefix)
        return [(w.text, pytest.approx(w.likelihood, abs=1e-3)) for w in found]

    whole = texts()
    monkeypatch.setattr(decoding, "READ_AT_ONCE", 5)
    assert texts() == whole


def test_each_prompt_has_its_deadline(model: OnnxStepModel) -> None:
    """What is late ends, beside others that go on as they would alone; a deadline that is set back counts at the next token."""
    ticks = itertools.count()
    due = [NEVER, 4.0, NEVER]

    def deadline(at: int) -> float:
        return due[at]

    def clock() -> float:
        now = next(ticks)
        if now == 6:
            due[2] = 0.0
        return float(now)

    prompts = ["SELECT", "Which", "ships"]
    found = write(model, prompts, max_tokens=9, clock=clock, deadline=deadline)
    whole = [write(model, [p], max_tokens=9, clock=still, deadline=NEVER)[0] for p in prompts]
    assert found[0].text == whole[0].text
    for got, alone_one, most in ((found[1], whole[1], 3), (found[2], whole[2], 5)):
        assert alone_one.text.startswith(got.text) and got.tokens <= most
        assert got.ended in (Ended.DEADLINE, Ended.END)


def test_a_sampled_text_does_not_depend_on_its_place(model: OnnxStepModel) -> None:
    """So what one question gets does not depend on who asks beside it."""
    given = dict(max_tokens=8, clock=still, deadline=NEVER, sampling=Sampling(temperature=1.5, seed=4))
    alone_one = write(model, ["SELECT"], **given)[0]
    beside = write(model, ["Which", "SELECT"], **given)
    assert beside[1].text == alone_one.text


@pytest.mark.parametrize(
    "given", [{"temperature": -1.0}, {"temperature": float("nan")}, {"top_p": 0.0}, {"top_p": 1.5}, {"seed": -1}]
)
def test_impossible_samplings_are_refused(given: dict[str, float]) -> None:
    """Before anything is written."""
    with pytest.raises(ValueError, match="temperature is"):
        Sampling(**given)


def test_scoring_in_small_batches_changes_nothing(model: OnnxStepModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large vocabulary leaves room for few texts at once: the numbers stay, and no step returns more than may be."""
    prefix, pairs = read_prefix(model, "Q"), [(f"{'x' * n} ", f"which {n}?") for n in range(9)]
    whole = likelihoods(model, prefix, pairs, clock=still, deadline=NEVER)
    monkeypatch.setattr(decoding, "LOGITS_MOST", 1)
    ticks = itertools.count()
    assert likelihoods(model, prefix, pairs, clock=lambda: next(ticks), deadline=NEVER) == pytest.approx(whole, abs=1e-4)
    assert next(ticks) == 9


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_an_error(model: OnnxStepModel, value: float) -> None:
    """A form that overflows writes nothing and scores nothing, rather than anything."""
    logits = np.zeros((1, 5), dtype=np.float32)
    logits[0, 2] = value
    with pytest.raises(ModelError, match="no number"):
        log_softmax(logits)
