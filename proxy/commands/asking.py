"""``ask`` and ``eval``."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from proxy.commands import DONE, FAILED, REFUSED
from proxy.commands.opening import opened, require_source
from proxy.commands.output import ProgressLine, say, table
from proxy.commands.terms import as_json, as_text
from proxy.config import Config
from proxy.errors import Abstained


def ask(config: Config, question: str, *, language: str | None, style: str) -> int:
    """Print the answer to *question*, or only its query; REFUSED if no answer is good enough."""
    require_source(config)
    try:
        return asyncio.run(_ask(config, question, language=language, style=style))
    except Abstained as error:
        say(f"sparlance: {error}")
        return REFUSED


async def _ask(config: Config, question: str, *, language: str | None, style: str) -> int:
    from proxy.pipeline.question import translate
    from proxy.query.model import ParsedQuery, QueryForm
    from proxy.query.operation import Question
    from proxy.query.parse import parse

    async with opened(config, nl=True) as dataset:
        translation = await translate(Question(question, language), dataset)
        if style == "query":
            print(translation.query)
            return DONE
        parsed = parse(translation.query)
        if isinstance(parsed, ParsedQuery) and parsed.form is QueryForm.ASK:
            answer = await dataset.backend.ask(translation.query, timeout_s=config.nl.timeout_s)
            print(msgspec.json.encode({"head": {}, "boolean": answer}).decode() if style == "json" else ("no", "yes")[answer])
            return DONE
        solutions = await dataset.backend.select(translation.query, timeout_s=config.nl.timeout_s)
    if style == "json":
        bindings = [
            {v: as_json(t) for v, t in zip(solutions.variables, row, strict=True) if t is not None} for row in solutions.rows
        ]
        document = {"head": {"vars": solutions.variables}, "results": {"bindings": bindings}}
        print(msgspec.json.format(msgspec.json.encode(document)).decode())
    else:
        rows = [["" if t is None else as_text(t) for t in row] for row in solutions.rows]
        print(table(list(solutions.variables), rows))
    return DONE


def evaluate(
    config: Config,
    questions: Path,
    *,
    compare: Path | None,
    save: Path | None,
    limit: int | None,
    languages: Sequence[str],
    plots: Path | None = None,
    without: Sequence[str] = (),
) -> int:
    """Ask the questions of a file, print the report, and with *save* keep the run for a later *compare*.

    without: parts of the engine to leave out. Memory is never used: what is in it may be the questions asked here.
    """
    from proxy.ablation import leave_out
    from proxy.evaluating import evaluate as ask_all
    from proxy.evaluating import graph_of, read_questions, read_run, save_run
    from proxy.evaluation.parts import Part
    from proxy.evaluation.report import compare as difference
    from proxy.evaluation.report import markdown

    asked = read_questions(questions, languages=languages)[:limit]
    old = read_run(compare) if compare is not None else []
    if not (config.backend.url or config.backend.load) and (files := graph_of(questions)):
        config = msgspec.structs.replace(config, backend=msgspec.structs.replace(config.backend, load=tuple(files)))
    require_source(config)

    async def run() -> int:
        progress = ProgressLine(sys.stderr)
        async with opened(config, nl=True) as dataset:
            switches = dataclasses.replace(leave_out(map(Part, without), dataset), memory=False)
            outcomes = await ask_all(asked, dataset, progress=progress, switches=switches)
        progress.end()
        if len(outcomes) < len(asked):
            say(f"sparlance: {len(asked) - len(outcomes)} gold queries do not run on this graph; they are left out")
        if not outcomes:
            return FAILED
        if save is not None:
            save_run(save, outcomes)
        title = f"{questions.name}{''.join(f', without {part}' for part in without)}"
        print(markdown(outcomes, title=title, differences=difference(old, outcomes)), end="")
        if plots is not None:
            from proxy.evaluation.plots import write_plots

            say(f"sparlance: wrote {', '.join(str(p) for p in write_plots(plots, outcomes))}")
        return DONE

    return asyncio.run(run())
