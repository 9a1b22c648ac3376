import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pyoxigraph as ox
import pytest

from proxy.backends.embedded import EmbeddedBackend
from proxy.config import Config
from proxy.errors import Abstained, BackendRefused, BackendUnreachable, MalformedRequest, ModelError
from proxy.nl.engine import QuestionEngine
from proxy.nl.onnx import OnnxEncoder
from proxy.pipeline.dataset import Dataset
from proxy.pipeline.distil import distil
from proxy.pipeline.judging import Judge
from proxy.pipeline.question import Translation, translate
from proxy.query.operation import DatasetDescription, Question

BIKES = """
@prefix : <http://bikes.example/terms/> .
@prefix d: <http://bikes.example/data/> .
d:b1 a :Bicycle ; :name "Swift" ; :price 400 ; :madeBy d:m1 .
d:b2 a :Bicycle ; :name "Mule" ; :price 900 ; :madeBy d:m2 .
d:b3 a :Bicycle ; :name "Finch" ; :price 650 ; :madeBy d:m1 .
d:m1 a :Maker ; :name "Rad AG" ; :country "Austria" .
d:m2 a :Maker ; :name "Cykel" ; :country "Denmark" .
"""


class Counting(EmbeddedBackend):
    """The embedded store, counting what is asked of it."""

    asked = 0

    async def select(self, *args: Any, **named: Any) -> Any:
        self.asked += 1
        return await super().select(*args, **named)

    async def ask(self, *args: Any, **named: Any) -> bool:
        self.asked += 1
        return await super().ask(*args, **named)


@pytest.fixture(scope="module")
def encoder() -> OnnxEncoder:
    return OnnxEncoder(threads=1)


def run(
    encoder: OnnxEncoder, act: Callable[[Dataset], Awaitable[Translation]], *, timeout_s: float = 20.0, **nl: object
) -> Translation:
    """Do *act* with a dataset over the bicycles, all in one event loop."""

    async def whole() -> Translation:
        store = ox.Store()
        store.load(BIKES.encode(), ox.RdfFormat.TURTLE)
        settings = Config()
        settings = msgspec.structs.replace(settings, nl=msgspec.structs.replace(settings.nl, timeout_s=timeout_s, **nl))
        backend = Counting(store)
        found = await distil(backend, settings.index)
        dataset = Dataset("default", backend, settings, index=found.index, values=found.values)
        dataset.engine = QuestionEngine(found.index, found.values, encoder, settings.nl)
        try:
            return await act(dataset)
        finally:
            await dataset.aclose()

    return asyncio.run(whole())


def test_a_candidate_that_is_vetoed_is_not_tried(encoder: OnnxEncoder) -> None:
    """Nothing of the data is read for it, and it is not the answer; without candidates there is none."""
    seen: list[str] = []

    async def veto(parsed: object, text: str) -> bool:
        seen.append(text)
        return False

    with pytest.raises(Abstained):
        run(encoder, lambda d: translate(Question("What is the price of the Mule?"), d, vet=veto))
    assert seen

    best = seen[0]

    async def veto_the_best(parsed: object, text: str) -> bool:
        return text != best

    question = Question("What is the price of the Mule?")
    assert run(encoder, lambda d: translate(question, d, vet=veto_the_best), abstain_below=0.0).query != best


def test_a_question_becomes_the_query_that_answers_it(encoder: OnnxEncoder) -> None:
    """The query is SELECT, was executed, and the account holds every stage and is JSON."""
    found = run(encoder, lambda d: translate(Question("What is the price of the Mule?"), d))
    store = ox.Store()
    store.load(BIKES.encode(), ox.RdfFormat.TURTLE)
    assert [s[0].value for s in store.query(found.query)] == ["900"]
    assert found.status == "ok"
    assert 0.0 <= found.risk < 0.65
    account = json.loads(json.dumps(found.account))
    assert account["query"] == found.query
    assert {"mentions", "links", "candidates", "executed", "findings", "timings_ms"} <= account.keys()


def test_a_book_is_no_question(encoder: OnnxEncoder) -> None:
    """Refused at once, with the number that is allowed."""
    with pytest.raises(MalformedRequest, match="at most 4,000"):
        run(encoder, lambda d: translate(Question("“" * 4_001), d))


def test_nothing_understood_is_an_abstention(encoder: OnnxEncoder) -> None:
    """No candidate: the account still says what was looked at."""
    with pytest.raises(Abstained) as caught:
        run(encoder, lambda d: translate(Question("?"), d))
    assert caught.value.account["question"] == "?"


def test_too_uncertain_is_an_abstention_with_the_best_guesses(encoder: OnnxEncoder) -> None:
    """Below the threshold there is no answer, but the candidates are shown."""
    with pytest.raises(Abstained) as caught:
        run(encoder, lambda d: translate(Question("What is the price of the Mule?"), d), abstain_below=1.0)
    assert caught.value.account["candidates"]


def test_what_the_graph_lacks_is_refused_for_that_reason(encoder: OnnxEncoder) -> None:
    """The message says so and names the nearest there is; with ``lacking_above = 1`` the nearest is the answer."""
    question = Question("What is the parachute of the Mule?")
    with pytest.raises(Abstained, match="does not have; the nearest that it has") as caught:
        run(encoder, lambda d: translate(question, d), abstain_below=0.0)
    assert caught.value.account["lacking"] > 0.6
    assert caught.value.account["guesses"]
    assert run(encoder, lambda d: translate(question, d), abstain_below=0.0, lacking_above=1.0).query


def test_a_backend_that_is_away_is_not_blamed_on_the_question(encoder: OnnxEncoder) -> None:
    """What could not be tried looks uncertain; the client hears that the database is gone, not that the question is unclear."""
    away = BackendUnreachable("cannot be reached", backend="bikes")

    async def ask(dataset: Dataset, error: Exception) -> Translation:
        async def fail(*args: object, **named: object) -> Any:
            raise error

        dataset.backend.select = dataset.backend.ask = fail  # type: ignore[method-assign]
        return await translate(Question("What is the price of the Mule?"), dataset)

    with pytest.raises(BackendUnreachable):
        run(encoder, lambda d: ask(d, away), abstain_below=1.0)
    with pytest.raises(Abstained):
        run(encoder, lambda d: ask(d, BackendRefused("500", backend="bikes", status=500, body="")), abstain_below=1.0)
    assert run(encoder, lambda d: ask(d, away), abstain_below=0.0).status == "unexecuted"


def test_a_backend_that_took_one_candidate_is_there(encoder: OnnxEncoder) -> None:
    """What was tried is evidence: the abstention stands."""

    async def ask(dataset: Dataset) -> Translation:
        select, calls = dataset.backend.select, iter(range(9))

        async def fail_but_once(*args: Any, **named: Any) -> Any:
            if next(calls):
                raise BackendUnreachable("cannot be reached", backend="bikes")
            return await select(*args, **named)

        dataset.backend.select = fail_but_once  # type: ignore[method-assign]
        return await translate(Question("What is the price of the Mule?"), dataset)

    with pytest.raises(Abstained):
        run(encoder, ask, abstain_below=1.0)


def test_without_an_engine_the_reason_is_given(encoder: OnnxEncoder) -> None:
    """A dataset that cannot answer questions says so."""

    async def act(dataset: Dataset) -> Translation:
        dataset.engine = None
        return await translate(Question("How many bicycles are there?"), dataset)

    with pytest.raises(ModelError, match="not enabled"):
        run(encoder, act)


def test_the_deadline_holds(encoder: OnnxEncoder) -> None:
    """An engine that does not finish in time is a model error."""
    with pytest.raises(ModelError, match="no candidates after"):
        run(encoder, lambda d: translate(Question("How many bicycles are there in each country?"), d), timeout_s=0.001)


def test_a_dataset_description_keeps_candidates_from_being_executed(encoder: OnnxEncoder) -> None:
    """Our own queries see the default dataset only, so nothing is concluded from it about another one."""
    question = replace(Question("How many bicycles are there?"), dataset=DatasetDescription(("http://bikes.example/g",)))
    found = run(encoder, lambda d: translate(question, d))
    assert found.status == "unexecuted"


def test_questions_at_the_same_time_all_get_their_answers(encoder: OnnxEncoder) -> None:
    """More questions than places wait their turn."""
    answers: list[Translation] = []

    async def act(dataset: Dataset) -> Translation:
        answers.extend(await asyncio.gather(*(translate(Question("How many makers are there?"), dataset) for _ in range(5))))
        return answers[0]

    run(encoder, act)
    assert len({a.query for a in answers}) == 1 and len(answers) == 5


QUESTIONS = [
    "What is the price of the Mule?", "How many bicycles are there?", "Who made the Swift?", "Which maker is from Denmark?",
    "Which bicycle is not made by Cykel?", "What is the average price for each maker?", "Is there a bicycle from Austria?",
]  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
def test_at_most_eight_calls_find_a_query(encoder: OnnxEncoder, question: str) -> None:
    """Even where every query is corrected; the query itself is the ninth. The answer says how many there were."""
    counted: list[int] = []

    async def act(dataset: Dataset) -> Translation:
        assert isinstance(dataset.backend, Counting)
        before = dataset.backend.asked
        found = await translate(Question(question), dataset)
        counted.append(dataset.backend.asked - before)
        return found

    found = run(encoder, act, correct_above=0.0, abstain_below=0.0, corrections=10)
    assert 1 <= counted[0] == found.calls == found.account["endpoint_calls"] <= 8


def test_every_stage_is_told_when_it_is_done(encoder: OnnxEncoder) -> None:
    """In order, the corrections between gate and answer, each with its requirement."""
    heard: list[tuple[str, dict[str, Any]]] = []
    found = run(
        encoder,
        lambda d: translate(Question(QUESTIONS[0]), d, told=lambda stage, value: heard.append((stage, value))),
        correct_above=0.0, corrections=3,
    )  # fmt: skip
    names = [name for name, _ in heard]
    assert names[:5] == ["linking", "shape", "candidates", "execution", "gate"]
    assert set(names[5:]) == {"correction"} and len(names) - 5 == len(found.account["corrections"]) <= 3
    for _, step in heard[5:]:
        assert step["requirement"]["stage"] in ("grounding", "binding", "construction")


def test_a_right_answer_survives_its_correction(encoder: OnnxEncoder) -> None:
    """A correction replaces a query only if the gate thinks less ill of it."""
    texts = {
        run(encoder, lambda d: translate(Question(QUESTIONS[0]), d), correct_above=above, corrections=3).query
        for above in (0.0, 1.0)
    }
    assert len(texts) == 1


class Slow(QuestionEngine):
    """An engine whose second thoughts take longer than anybody waits."""

    def revise(self, *args: Any, **named: Any) -> Any:
        time.sleep(3.0)
        return super().revise(*args, **named)


def test_a_correction_out_of_time_leaves_the_answer(encoder: OnnxEncoder) -> None:
    """What was chosen first is given, within the time of a correction, and no error."""

    async def act(dataset: Dataset) -> Translation:
        assert dataset.index is not None and dataset.values is not None
        dataset.engine = Slow(dataset.index, dataset.values, encoder, dataset.settings.nl)
        return await translate(Question(QUESTIONS[0]), dataset)

    found = run(encoder, act, correct_above=0.0, corrections=3)
    assert found.query == run(encoder, lambda d: translate(Question(QUESTIONS[0]), d), corrections=0).query
    assert found.account["corrections"] == [] and found.account["timings_ms"]["correction"] < 2900


def test_a_model_has_a_say_and_the_account_tells(encoder: OnnxEncoder) -> None:
    """What the judge prefers is tried and chosen, if its say is large; a broken one changes nothing."""

    class Scripted:
        def __init__(self, favourite: str) -> None:
            self.favourite, self.model = favourite, SimpleNamespace(tokens_read=0)

        def score(self, question: str, texts: Any, *, clock: object, deadline: float) -> list[float | None]:
            if not self.favourite:
                raise ModelError("broken")
            return [5.0 if self.favourite == t else 0.0 for t in texts]

    def ask(favourite: str | None) -> Translation:
        async def act(dataset: Dataset) -> Translation:
            dataset.judge = None if favourite is None else Judge(Scripted(favourite), weight=10.0)  # type: ignore[arg-type]
            return await translate(Question("What is the price of the Swift?"), dataset)

        return run(encoder, act)

    plain, broken = ask(None), ask("")
    other = plain.account["candidates"][1]["words"]
    assert "scorer" not in plain.account
    assert (broken.query, broken.account["scorer"]["state"]) == (plain.query, "failed")
    judged = ask(other)
    assert (judged.account["words"], judged.account["scorer"]["state"]) == (other, "judged")


def test_a_candidate_whose_check_fails_is_not_validated(encoder: OnnxEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug of the validator costs its findings, not the answer; it is counted."""

    def broken(*args: object, **more: object) -> None:
        raise KeyError("http://bikes.example/terms/price")

    monkeypatch.setattr("proxy.pipeline.contest.check", broken)
    monkeypatch.setattr("proxy.nl.memory.check", broken)
    failures = []

    async def act(dataset: Dataset) -> Translation:
        found = await translate(Question("What is the price of the Mule?"), dataset)
        failures.append(dict(dataset.failures.counts))
        return found

    found = run(encoder, act)
    assert found.status == "ok" and "Mule" in found.query and found.account["findings"] == []
    assert failures[0].keys() == {"check"}
