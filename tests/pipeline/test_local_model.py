import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx", reason="the extra lm is not installed: models cannot be imported")
pytest.importorskip("onnxruntime", reason="the extra nl is not installed")

from proxy.errors import ModelBusy, ModelError
from proxy.nl.lm import beam
from proxy.nl.lm.decoding import Ended, Sampling, write
from proxy.nl.lm.prefixes import PrefixCache
from proxy.nl.lm.step import OnnxStepModel
from proxy.pipeline.local_model import Drafts, LocalModel, Writing
from proxy.pipeline.model_queue import ModelQueue
from proxy.training.decoder.importing import import_model
from tests.nl.lm.tiny import LLAMA, write_source

GRAPH = "Class Ship: name, tonnage, flag. "
PROMPTS = ["Which ships are heavy?", "How many?", "x", "Ships of Malta"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> OnnxStepModel:
    at = tmp_path_factory.mktemp("llama")
    import_model(write_source(at / "source", LLAMA), at / "model", forms=("fp32",))
    return OnnxStepModel(at / "model", threads=1)


def local(model: OnnxStepModel, folder: Path | None = None, **queue: Any) -> LocalModel:
    return LocalModel(model, ModelQueue(**queue), PrefixCache(model, folder=folder))


def alone(model: OnnxStepModel, prompt: str, **given: Any) -> list[str]:
    return [w.text for w in write(model, [GRAPH + prompt], clock=lambda: 0.0, deadline=1.0, **given)]


def ask(local_model: LocalModel, prompts: list[str], how: Writing) -> list[Drafts]:
    async def run() -> list[Drafts]:
        return list(await asyncio.gather(*(local_model.write(p, how, timeout_s=60) for p in prompts)))

    return asyncio.run(run())


@pytest.mark.parametrize("together_most", [1, 4])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.2, top_p=0.9, seed=5)], ids=["greedy", "sampled"])
def test_concurrent_questions_get_what_each_would_alone(model: OnnxStepModel, together_most: int, sampling: Sampling) -> None:
    """In a batch or one after the other; the account says what was read and written, and where the prefix came from."""
    how = Writing(GRAPH, max_tokens=7, stop=("z",), drafts=2, sampling=sampling)
    asked = local(model, together_most=together_most)
    found = ask(asked, PROMPTS, how)
    begin = model.folder.begin
    for prompt, drafts in zip(PROMPTS, found, strict=True):
        if sampling.temperature == 0:  # a draw depends on the prompt, and here the prefix is not in it
            assert [d.text for d in drafts.texts] == alone(model, prompt, max_tokens=7, stop=["z"]) * 2
        assert drafts.account["tokens_read"] == len(prompt)
        assert drafts.account["tokens_written"] == sum(d.tokens for d in drafts.texts) > 0
        assert drafts.account["prefix_tokens"] == len(GRAPH) + (begin is not None)
    assert found[0].account["prefix"] == "read"
    assert {d.account["prefix"] for d in found} <= {"read", "memory"}
    again = ask(local(model), PROMPTS, how)
    assert [[d.text for d in f.texts] for f in again] == [[d.text for d in f.texts] for f in found]
    assert asked.tokens_written == sum(d.account["tokens_written"] for d in found)


def test_a_search_is_reachable_and_draws_nothing(model: OnnxStepModel) -> None:
    """beams asks for the likeliest texts, best first."""
    (found,) = ask(local(model, together_most=4), PROMPTS[:1], Writing(GRAPH, max_tokens=6, beams=3))
    wanted = beam.search(model, GRAPH + PROMPTS[0], width=3, max_tokens=6, clock=lambda: 0.0, deadline=1.0)
    assert [d.text for d in found.texts] == [w.text for w in wanted]


def test_the_prefix_outlives_the_process(model: OnnxStepModel, tmp_path: Path) -> None:
    """A second process finds it on disk; without one nothing is said of it."""
    how = Writing(GRAPH, max_tokens=3)
    assert ask(local(model, tmp_path), ["x"], how)[0].account["prefix"] == "read"
    assert ask(local(model, tmp_path), ["x"], how)[0].account["prefix"] == "disk"
    assert "prefix" not in ask(local(model, tmp_path), ["x"], Writing(max_tokens=3))[0].account


def test_a_prompt_that_does_not_fit_fails_alone(model: OnnxStepModel) -> None:
    """Neither an error nor a long prompt changes what its neighbours in a batch get."""
    asked = local(model, together_most=4)
    how = Writing(GRAPH, max_tokens=20)
    nearly = "y" * (model.folder.context - len(GRAPH) - 5)

    async def run() -> list[Any]:
        prompts = ["x", "z" * 500, nearly, "Ships"]
        return await asyncio.gather(*(asked.write(p, how, timeout_s=60) for p in prompts), return_exceptions=True)

    first, too_long, long, last = asyncio.run(run())
    assert isinstance(too_long, ModelError) and "a prompt has 500 tokens" in str(too_long)
    for prompt, found in (("x", first), ("Ships", last)):
        assert [d.text for d in found.texts] == alone(model, prompt, max_tokens=20)
    assert long.texts[0].tokens <= 4 and long.texts[0].ended in (Ended.LENGTH, Ended.END)
    with pytest.raises(ModelError, match="a prefix has"):
        asyncio.run(asked.write("x", Writing("y" * 500), timeout_s=60))


def test_a_deadline_of_a_millisecond_is_an_answer_or_an_error(model: OnnxStepModel) -> None:
    """What there is by then comes back, marked; where there was no turn in time, that is said. Later questions are served."""
    asked = local(model)
    for timeout_s in (0.001, 0.0, -1.0):
        try:
            found = asyncio.run(asked.write("x", Writing(max_tokens=100), timeout_s=timeout_s))
        except ModelError as exc:
            assert "not done within" in str(exc)
        else:
            assert found.texts[0].ended in (Ended.DEADLINE, Ended.END)
    assert ask(asked, ["x"], Writing(max_tokens=3))[0].texts


def test_fifty_at_once(model: OnnxStepModel) -> None:
    """At least as many as may wait are answered, the others told so at once; nothing is left behind."""
    asked = local(model, together_most=4)

    async def run() -> list[Any]:
        how = Writing(GRAPH, max_tokens=10)
        return await asyncio.gather(*(asked.write(f"Q{n}", how, timeout_s=60) for n in range(50)), return_exceptions=True)

    found = asyncio.run(run())
    answered = [f for f in found if isinstance(f, Drafts)]
    assert asked.queue.waiting_most <= len(answered) <= 50
    assert all(isinstance(f, ModelBusy) for f in found if not isinstance(f, Drafts))
    assert asked.queue.waiting == 0
    assert asked.queue.tally.outcomes == {"done": len(answered), "busy": 50 - len(answered)}
