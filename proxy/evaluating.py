"""Ask a dataset questions with known answers, one after the other, and score what it answers."""

from __future__ import annotations

import gzip
import importlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from proxy.errors import Abstained, BackendError, ConfigError, MalformedQuery, ModelError, ProxyError
from proxy.evaluation.questions import GoldQuestion, from_json, from_jsonl, from_text2sparql
from proxy.evaluation.report import Outcome
from proxy.evaluation.score import Answer, comparable, score
from proxy.pipeline.contest import ALL_ON, Switches
from proxy.pipeline.dataset import Dataset
from proxy.pipeline.question import translate
from proxy.query.model import ParsedQuery, QueryForm
from proxy.query.operation import Question
from proxy.query.parse import parse

GOLD_TIMEOUT_S = 60.0
GRAPH_FILES = ("graph.nt.gz", "graph.nt", "graph.ttl.gz", "graph.ttl", "ontology.ttl")
"""What a folder of questions may hold beside them; all that are there belong together."""


def read_questions(path: Path, *, languages: Sequence[str] = ()) -> list[GoldQuestion]:
    """Read a file of questions by its suffix (.jsonl, .json, .yaml, .yml; .gz behind), or the one in a folder.

    Raises:
        ConfigError: it cannot be read, or has another shape.
    """
    if path.is_dir():
        found = [path / name for name in ("questions.json", "pairs.jsonl", "questions.yaml", "questions.yml")]
        path = next((p for p in found if p.exists()), found[0])
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise ConfigError("questions", f"cannot read {path}: {error}") from error
    match path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix:
        case ".jsonl":
            return from_jsonl(text)
        case ".yaml" | ".yml":
            return from_text2sparql(_yaml(text), languages=languages)
        case _:
            return from_json(text)


def graph_of(path: Path) -> list[str]:
    """The files of the graph in a folder of questions."""
    return [str(path / name) for name in GRAPH_FILES if (path / name).exists()] if path.is_dir() else []


def _yaml(text: str) -> Any:
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        raise ConfigError("questions", "reading YAML needs the package pyyaml") from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError("questions", f"not YAML: {error}") from error


async def evaluate(
    questions: Sequence[GoldQuestion],
    dataset: Dataset,
    *,
    progress: Callable[[str, int, int], None] = lambda *_: None,
    switches: Switches = ALL_ON,
) -> list[Outcome]:
    """Ask and score *questions*; one whose gold query does not run on the dataset is left out.

    switches: parts to do without. Memory is off but where they say otherwise: what is in it may be the questions asked here.
    """
    outcomes = []
    for n, q in enumerate(questions):
        progress("asking", n, len(questions))
        gold = await answer_of(q.query, dataset)
        if gold is None:
            continue
        accepted = accepted_forms(q, gold)
        groups = q.groups or ((1,) * len(gold.rows) if q.is_ordered else ())
        started = time.perf_counter()
        query, risk, abstained = None, None, False
        account: Mapping[str, Any] = {}
        try:
            translation = await translate(Question(q.text, q.language), dataset, switches=switches)
            query, risk, account = translation.query, translation.risk, translation.account
        except Abstained as refused:
            abstained, account = True, refused.account
        except (ModelError, BackendError):
            pass
        milliseconds = 1000 * (time.perf_counter() - started)
        got = await answer_of(query, dataset) if query is not None else None
        s = score(accepted, got, groups=groups or None, abstained=abstained)
        is_triggered = bool(account.get("corrections"))
        first = account.get("gate", {}).get("query")
        first_strict = None
        if is_triggered and first is not None:
            first_strict = score(accepted, await answer_of(first, dataset), groups=groups or None).strict
        outcomes.append(
            Outcome(
                q.id, q.text, s.strict, s.columns, s.f1, str(s.kind), milliseconds, risk, query, q.query,
                account.get("endpoint_calls", 0), 0, is_triggered, first_strict,
            )
        )  # fmt: skip
    return outcomes


def accepted_forms(question: GoldQuestion, gold: Answer) -> list[Answer]:
    """The answers that count as right: *gold*, and where the question names key variables, its columns of these alone."""
    keys = [k for k in question.key_variables if k in gold.variables]
    if not keys or len(keys) < len(question.key_variables) or tuple(keys) == gold.variables:
        return [gold]
    at = [gold.variables.index(k) for k in keys]
    return [gold, Answer(tuple(keys), [tuple(r[i] for i in at) for r in gold.rows])]


async def answer_of(query: str, dataset: Dataset, *, limit_rows: int | None = None) -> Answer | None:
    """What *query* yields; None if it does not run, yields more than *limit_rows*, or is neither SELECT nor ASK."""
    try:
        parsed = parse(query)
        if not isinstance(parsed, ParsedQuery):
            return None
        if parsed.form is QueryForm.ASK:
            return Answer(("boolean",), [(await dataset.backend.ask(query, timeout_s=GOLD_TIMEOUT_S),)])
        if parsed.form is not QueryForm.SELECT:
            return None
        found = await dataset.backend.select(query, timeout_s=GOLD_TIMEOUT_S, limit_rows=limit_rows)
    except (BackendError, MalformedQuery):
        return None
    return Answer(tuple(found.variables), [tuple(comparable(t) for t in row) for row in found.rows])


def read_run(path: Path) -> list[Outcome]:
    """A run that was saved.

    Raises:
        ProxyError: the file is not one.
    """
    try:
        return [Outcome(**o) for o in json.loads(path.read_text(encoding="utf-8"))["outcomes"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ProxyError(f"cannot read the run {path}: {error}") from error


def save_run(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write *outcomes* for a later comparison."""
    path.write_text(json.dumps({"outcomes": [o.as_json() for o in outcomes]}, indent=1, ensure_ascii=False), encoding="utf-8")
