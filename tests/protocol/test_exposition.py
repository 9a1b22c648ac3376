"""The page of numbers: all of its names are documented, and what it says is what Prometheus reads."""

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from proxy.app import create_app
from proxy.config import load_config
from proxy.nl.enumerate import Candidate
from proxy.nl.ir import Pattern, Query
from proxy.nl.lm.prefixes import Counts
from proxy.nl.plan import Plan
from proxy.pipeline.judging import Judge
from proxy.pipeline.metrics import RISK_BOUNDS, QuestionMetrics
from proxy.protocol import exposition

ROOT = Path(__file__).parent.parent.parent
SAMPLE = re.compile(r'sparlance_\w+(\{(\w+="([^"\\\n]|\\[\\"n])*"(,|(?=\})))+\})? -?[0-9.e+-]+')


def names_in_source():
    source = Path(exposition.__file__).read_text()
    return set(re.findall(r'\.add(?:_histograms|_risks)?\(\s*"(\w+)"', source))


def test_all_names_are_documented_and_no_others():
    """docs/operations.md has a table of them, by what they are about."""
    text = (ROOT / "docs" / "operations.md").read_text()
    table = text.partition("| about | metrics |")[2].partition("\n\n")[0]
    cells = [row.split("|")[2] for row in table.splitlines() if row.count("|") == 3 and "---" not in row]
    documented = re.findall(r"`(\w+)`", " ".join(cells))
    assert len(documented) == len(set(documented))
    assert set(documented) == names_in_source()


@pytest.fixture
def app(tmp_path):
    (tmp_path / "a.nt").write_text("<x:a> <x:is> <x:b> .\n")
    settings = {
        "backend.load": [str(tmp_path / "a.nt")],
        "cache.enabled": True,
        "limits.preset": "wikidata",
        "shared.url": f"unix://{tmp_path}/nobody",
    }
    return create_app(load_config(None, overrides=settings))


def page_of(app):
    async def read():
        return app.numbers()

    return asyncio.run(read())


def test_the_page_is_what_prometheus_reads(app):
    """Each sample follows the head of its metric; counters end in _total; each name is there once."""
    name, seen = "", []
    for line in page_of(app).splitlines():
        if line.startswith("# HELP "):
            name = line.split()[2]
            seen.append(name)
        elif line.startswith("# TYPE "):
            _, _, named, kind = line.split()
            assert named == name and kind in ("counter", "gauge", "histogram")
            assert (kind == "counter") == name.endswith("_total")
        else:
            assert SAMPLE.fullmatch(line), line
            assert line.startswith(name)
    assert len(seen) == len(set(seen))
    known = {f"sparlance_{n}" for n in names_in_source()}
    # Those have no sample yet: no index, no plugin, no language model, no connections to a store in this process.
    missing = {name.split("_")[1] for name in known - set(seen)}
    assert missing <= {"index", "model", "plugin", "pool", "requests", "writer"}


def test_what_came_of_questions(app):
    """Risks are a histogram of first choices; corrections count each requirement."""
    questions = app.datasets[0].questions
    kept, accepted = {"accepted": False}, {"accepted": True}
    questions.observe("ok", {"gate": {"risk": 0.05, "fires": False}, "corrections": []})
    questions.observe("abstained", {"gate": {"risk": 0.9, "fires": True}, "corrections": [kept, accepted]})
    questions.observe("failed", {})
    page = page_of(app)
    for line in [
        'questions_total{dataset="default",outcome="abstained"} 1',
        'question_risk_bucket{dataset="default",le="0.02"} 0',
        'question_risk_bucket{dataset="default",le="0.05"} 1',
        'question_risk_bucket{dataset="default",le="0.8"} 1',
        'question_risk_bucket{dataset="default",le="+Inf"} 2',
        'question_risk_sum{dataset="default"} 0.95',
        'question_risk_count{dataset="default"} 2',
        'gate_fired_total{dataset="default"} 1',
        'corrections_total{dataset="default",outcome="kept"} 1',
    ]:
        assert f"sparlance_{line}\n" in page


def test_what_a_language_model_did(app):
    """Its tokens, time and queue are there once, however many datasets share it."""

    async def ask(judge):
        await judge.judge(
            "?", [Candidate(Plan(()), Query(Pattern(()), ()), str(n), {}, score=0.0) for n in range(2)], timeout_s=9
        )

    class Scripted:
        model, prefixes = SimpleNamespace(tokens_read=0), SimpleNamespace(counts=Counts(disk=1))

        def score(self, question, texts, *, clock, deadline):
            self.model.tokens_read += 30
            return [0.0] * len(texts)

    for dataset in app.datasets:
        dataset.judge = judge = Judge(Scripted())
    asyncio.run(ask(judge))
    page = page_of(app)
    for line in [
        'model_tokens_total{use="scorer"} 30',
        'model_questions_total{use="scorer",outcome="done"} 1',
        'model_batches_total{use="scorer"} 1',
        'model_waiting{use="scorer"} 0',
        'model_prefixes_total{use="scorer",outcome="disk"} 1',
    ]:
        assert page.count(f"sparlance_{line}\n") == 1, line
    assert 'sparlance_model_seconds_total{use="scorer"} ' in page


@pytest.mark.parametrize("risk", [-1.0, 0.0, 0.02, 0.5, 1.0, 1.5])
def test_every_risk_has_a_class(risk):
    """Rounding may leave one a little over 1."""
    questions = QuestionMetrics()
    questions.observe("ok", {"gate": {"risk": risk, "fires": False}})
    assert sum(questions.risks) == 1 and len(questions.risks) == len(RISK_BOUNDS)
