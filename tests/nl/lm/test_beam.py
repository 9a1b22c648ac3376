import itertools

import numpy as np
import pytest

from proxy.nl.lm.beam import search
from proxy.nl.lm.decoding import Ended, log_softmax, read_prefix, write
from proxy.nl.lm.step import OnnxStepModel

NEVER = float("inf")


def still() -> float:
    return 0.0


def every_text_of_two_tokens(model: OnnxStepModel, prompt: str) -> list[float]:
    """Mean log-probabilities of all texts that end after none or one token, or go on after two; best first."""
    begin = [] if model.folder.begin is None else [model.folder.begin]
    given, size = [*begin, *model.encode(prompt)], model.folder.vocabulary
    ones = np.ones((1, len(given)), dtype=np.int64)
    logits, cache = model.step(np.array([given]), ones)
    first = log_softmax(logits[0, 0])
    logits, _ = model.step(np.arange(size)[:, None], np.ones((size, len(given) + 1), dtype=np.int64), cache)
    second = log_softmax(logits[:, 0])
    found = [float(first[e]) for e in model.folder.end]
    for token in set(range(size)) - set(model.folder.end):
        found += [float(first[token] + s) / 2 for s in second[token]]
    return sorted(found, reverse=True)


def test_a_search_as_wide_as_the_vocabulary_finds_the_best(model: OnnxStepModel) -> None:
    """Nothing is left out then: the first results are the best of all texts there are."""
    size = model.folder.vocabulary
    found = search(model, "SELECT", width=size, max_tokens=2, clock=still, deadline=NEVER)
    assert [w.likelihood for w in found[:8]] == pytest.approx(every_text_of_two_tokens(model, "SELECT")[:8], abs=1e-4)


def test_one_beam_is_greedy_and_more_are_no_worse(model: OnnxStepModel) -> None:
    """Width 1 follows the greedy text, and may end sooner; the best of several beams is at least as likely."""
    greedy = write(model, ["SELECT"], max_tokens=8, clock=still, deadline=NEVER)[0]
    one = search(model, "SELECT", width=1, max_tokens=8, clock=still, deadline=NEVER)
    four = search(model, "SELECT", width=4, max_tokens=8, clock=still, deadline=NEVER)
    assert greedy.text.startswith(one[0].text)
    assert one[0].text == greedy.text or one[0].ended is Ended.END
    assert four[0].likelihood >= greedy.likelihood - 1e-6
    assert len({w.text for w in four}) == len(four) == 4
    assert [w.likelihood for w in four] == sorted((w.likelihood for w in four), reverse=True)


def test_a_prefix_changes_nothing(model: OnnxStepModel) -> None:
    """Behind a prefix the same texts are found as after the whole prompt."""
    whole = search(model, "Which ships", width=3, max_tokens=6, clock=still, deadline=NEVER)
    behind = search(model, "ships", width=3, max_tokens=6, clock=still, deadline=NEVER, prefix=read_prefix(model, "Which "))
    assert [w.text for w in behind] == [w.text for w in whole]


def test_stop_strings_and_the_deadline_end_it(model: OnnxStepModel) -> None:
    """No text holds a stop string; at the deadline what there is comes back."""
    for w in search(model, "SELECT", width=4, max_tokens=10, clock=still, deadline=NEVER, stop=["a", "e", "i"]):
        assert not set(w.text) & set("aei")
        assert w.ended in Ended
    ticks = itertools.count()
    late = search(model, "SELECT", width=2, max_tokens=50, clock=lambda: next(ticks), deadline=4)
    assert late and all(w.tokens <= 3 for w in late)
    assert {w.ended for w in late} <= {Ended.DEADLINE, Ended.END}
