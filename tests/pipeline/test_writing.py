import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import pyoxigraph as ox
import pytest

from proxy.backends.embedded import EmbeddedBackend
from proxy.config import Config
from proxy.errors import ModelError
from proxy.nl.engine import QuestionEngine
from proxy.nl.generate import Brought, Message, Wanted
from proxy.nl.onnx import OnnxEncoder
from proxy.pipeline.contest import CALLS_MOST
from proxy.pipeline.dataset import Dataset
from proxy.pipeline.distil import distil
from proxy.pipeline.question import Translation, translate
from proxy.pipeline.writing import AT_ONCE, FAILURES, Writer, described
from proxy.query.operation import DatasetDescription, Question
from tests.pipeline.test_question import BIKES

TERMS = "PREFIX t: <http://bikes.example/terms/>\n"
NAMES = TERMS + "SELECT ?n WHERE { ?b a t:Bicycle ; t:name ?n }"
NONSENSE = TERMS + "SELECT ?n WHERE { ?b a t:Bicycle ; t:country ?n }"


class Scripted:
    """Answers with one list of texts after the other; the last repeats. An exception is raised."""

    def __init__(self, *answers: Sequence[str] | Exception, hangs: bool = False) -> None:
        self.answers, self.hangs = answers, hangs
        self.asked: list[tuple[list[Message], Wanted]] = []
        self.is_closed = False

    async def write(self, messages: Sequence[Message], wanted: Wanted, *, timeout_s: float) -> Brought:
        self.asked.append((list(messages), wanted))
        if self.hangs:
            await asyncio.Event().wait()
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return Brought(tuple(answer), 100, 10)

    async def aclose(self) -> None:
        self.is_closed = True


@pytest.fixture(scope="module")
def encoder() -> OnnxEncoder:
    return OnnxEncoder(threads=1)


def run(
    encoder: OnnxEncoder, scripted: Scripted, act: Callable[[Dataset, Writer], Awaitable[object]], **writer: object
) -> object:
    """Do *act* with a dataset over the bicycles, whose writer is *scripted* and whose description is there."""

    async def whole() -> object:
        store = ox.Store()
        store.load(BIKES.encode(), ox.RdfFormat.TURTLE)
        settings = Config()
        settings = msgspec.structs.replace(
            settings,
            nl=msgspec.structs.replace(settings.nl, timeout_s=120.0, memory=""),
            writer=msgspec.structs.replace(settings.writer, **({"timeout_s": 60.0} | writer)),
        )
        backend = EmbeddedBackend(store)
        found = await distil(backend, settings.index)
        dataset = Dataset("default", backend, settings, index=found.index, values=found.values)
        dataset.engine = QuestionEngine(found.index, found.values, encoder, settings.nl)
        dataset.writer = made = Writer(scripted, settings.writer)
        try:
            await dataset.ttql.document(wait_s=120)
            return await act(dataset, made)
        finally:
            await dataset.aclose()

    return asyncio.run(whole())


def ask(encoder: OnnxEncoder, scripted: Scripted, question: str, **writer: object) -> Translation:
    found = run(encoder, scripted, lambda dataset, _: translate(Question(question), dataset), **writer)
    assert isinstance(found, Translation)
    return found


def test_what_is_written_stands_beside_what_is_enumerated(encoder: OnnxEncoder) -> None:
    """Drafts are tried like any candidate, and the account shows them with their source."""
    scripted = Scripted([f"```sparql\n{NAMES}\n```", NAMES])
    found = ask(encoder, scripted, "What are the names of all bicycles?")

    writer = found.account["writer"]
    assert (writer["state"], writer["rounds"], writer["tokens_read"], writer["description"]) == ("written", 1, 100, "whole")
    sources = {e["source"]: e["solutions"] for e in found.account["executed"]}
    assert sources["written"] == 3
    assert 0.0 < found.risk < 0.5  # the gate's, which does not see what is written
    assert found.account["source"] == "enumerated"  # it says the same, in the engine's own words
    [(asked, wanted)] = scripted.asked
    assert "Bicycle" in asked[0].text
    assert wanted.drafts == 3
    assert scripted.is_closed


def test_a_question_that_nothing_enumerated_answers_is_answered(encoder: OnnxEncoder) -> None:
    """Where the engine has no candidate at all, the written one is the answer, with the risk of what no gate has learned."""
    found = ask(encoder, Scripted([NAMES]), "xyzzy plugh")
    assert (found.account["source"], found.query, found.risk) == ("written", NAMES, 0.5)
    assert found.account["words"] == "bicycle name"


def test_drafts_are_repaired_on_what_is_wrong_with_them(encoder: OnnxEncoder) -> None:
    """The model is told the finding, and its correction counts."""
    scripted = Scripted([NONSENSE], [NAMES])
    found = ask(encoder, scripted, "What are the names of all bicycles?")

    writer = found.account["writer"]
    assert (writer["state"], writer["rounds"]) == ("written", 2)
    assert [d["usable"] for d in writer["drafts"]] == [False, True]
    asked, wanted = scripted.asked[1]
    assert [m.role for m in asked] == ["system", "user", "assistant", "user"]
    assert "country" in asked[3].text
    assert wanted.drafts == 1


def test_the_budget_of_repairs_holds(encoder: OnnxEncoder) -> None:
    """A model that never gets it right is asked 1 + repairs times, and nothing of it runs."""
    scripted = Scripted(["DROP ALL"], ["SELECT"], [NONSENSE])
    found = ask(encoder, scripted, "What are the names of all bicycles?", repairs=2)
    assert len(scripted.asked) == 3
    assert found.account["writer"]["state"] == "nothing usable"
    assert {e["source"] for e in found.account["executed"]} == {"enumerated"}


@pytest.mark.parametrize(
    ("scripted", "state"),
    [(Scripted(ModelError("down")), "failed"), (Scripted(hangs=True), "out of time")],
    ids=["down", "hangs"],
)
def test_without_the_writer_the_enumerated_answer_is_given(encoder: OnnxEncoder, scripted: Scripted, state: str) -> None:
    """And the account says why; a server that hangs costs the writer's time and no more."""
    found = ask(encoder, scripted, "What are the names of all bicycles?", timeout_s=0.3 if scripted.hangs else 60.0)
    assert found.account["writer"]["state"] == state
    assert found.account["source"] == "enumerated"
    assert found.status == "ok"


def test_a_server_that_is_gone_is_left_alone_for_a_while(encoder: OnnxEncoder) -> None:
    scripted = Scripted(ModelError("down"))

    async def act(dataset: Dataset, writer: Writer) -> object:
        for _ in range(FAILURES + 1):
            await translate(Question("What are the names of all bicycles?"), dataset)
        return dict(writer.outcomes)

    assert run(encoder, scripted, act) == {"failed": FAILURES, "resting": 1}
    assert len(scripted.asked) == FAILURES


def test_questions_at_the_same_time_are_bounded(encoder: OnnxEncoder) -> None:
    async def act(dataset: Dataset, writer: Writer) -> object:
        writer.running = AT_ONCE
        return (await translate(Question("What are the names of all bicycles?"), dataset)).account["writer"]["state"]

    assert run(encoder, Scripted([NAMES]), act) == "busy"


def test_nothing_is_written_about_other_graphs(encoder: OnnxEncoder) -> None:
    """The description is of the default graph; a question that names another dataset goes without the writer."""
    scripted = Scripted([NAMES])
    where = DatasetDescription(default_graphs=("http://bikes.example/graph",))
    asked = Question("What are the names of all bicycles?", dataset=where)
    run(encoder, scripted, lambda dataset, _: translate(asked, dataset))
    assert scripted.asked == []


def test_an_extreme_draft_costs_what_any_candidate_does(encoder: OnnxEncoder) -> None:
    """At most eight calls, whatever is written; a join of everything ends with the row limit or the time limit."""
    drafts = [f"SELECT * {{ ?a ?b ?c . ?d ?e ?f . ?g ?h ?i{n} }} LIMIT 1000000000" for n in range(8)]
    found = ask(encoder, Scripted(drafts), "What are the names of all bicycles?", drafts=8)
    assert found.account["endpoint_calls"] <= CALLS_MOST
    assert found.account["source"] == "enumerated"


def test_numbers_of_the_writer_are_shown(encoder: OnnxEncoder) -> None:
    async def act(dataset: Dataset, writer: Writer) -> object:
        await translate(Question("What are the names of all bicycles?"), dataset)
        return dict(writer.outcomes), dict(writer.tokens)

    assert run(encoder, Scripted([NAMES]), act) == ({"written": 1}, {"tokens_read": 100, "tokens_written": 10})


def test_a_description_that_is_too_long_is_cut_to_the_question(encoder: OnnxEncoder) -> None:
    """The slice has the class that is meant, and keeps to the budget."""

    async def act(dataset: Dataset, writer: Writer) -> object:
        document = (await dataset.ttql.document(wait_s=120)).document
        whole, is_whole = described(document, [], 100_000)
        part, is_part_whole = described(document, ["http://bikes.example/terms/Maker"], 100)
        return is_whole, is_part_whole, len(part) < len(whole), "Maker" in part

    assert run(encoder, Scripted([NAMES]), act) == (True, False, True, True)
