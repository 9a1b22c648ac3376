"""``sparlance train`` and ``sparlance pairs synth``: open datasets, collect, fit, write; what is printed is for people."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from proxy.assembly import Encoders, make_dataset
from proxy.config import Config
from proxy.errors import ConfigError, ModelError, ProxyError
from proxy.evaluating import answer_of, graph_of, read_questions
from proxy.evaluation.questions import GoldQuestion
from proxy.evaluation.score import Answer, matches
from proxy.nl.engine import QuestionEngine
from proxy.nl.gate import read_gates, shipped_gates
from proxy.nl.ir import Column, Pattern, Query, Triple, render
from proxy.nl.ranker import read_ranker, shipped_ranker
from proxy.nl.schema import Attribute, Schema
from proxy.pipeline.dataset import Dataset
from proxy.query.operation import Question
from proxy.query.term import Iri, Literal
from proxy.training.collecting import Asked, collect
from proxy.training.fitting import Source, fit, write
from proxy.training.gates import fit_gates, write_gates
from proxy.training.samples import Sample, line_of, read_samples, resumed
from proxy.training.synth import Draft, drafts

Told = Callable[[str, int, int], None]
MOST_ROWS = 200
"""Of the answer to a synthetic question: nobody asks for more."""
EXAMPLES = 30
ROUND_TRIP = 20
"""A synthetic question is kept if a query with its answer is among so many of the engine's best."""


def train_ranker(
    config: Config,
    pairs: Sequence[Path],
    output: Path,
    *,
    samples: Sequence[Path] = (),
    keep: Path | None = None,
    limit: int | None = None,
    from_scratch: bool = False,
    source: Source | None = None,
    command: str,
    told: Told,
) -> str:
    """Fit a ranking to *pairs* and *samples*, and write it into the folder *output*.

    Args:
        pairs: files of questions about the graph that *config* serves, or folders: of a graph with its questions
            (``questions.json`` or ``pairs.jsonl``), or of many such folders.
        samples: files that an earlier call wrote to *keep*: nothing is asked again. keep: see `gathered`.
        limit: questions of each graph at most, spread evenly.
        from_scratch: forget the ranking in force; else the new one stays near it as far as the pairs let it.
        source: to train a cross-encoder too. command: for the model card.
    Returns:
        The model card.
    Raises:
        ProxyError: something cannot be read or built, or there is nothing to learn from.
    """
    found = gathered(config, pairs, samples=samples, keep=keep, limit=limit, told=told)
    in_force = read_ranker(Path(config.nl.ranker)) if config.nl.ranker else shipped_ranker()
    fitted = fit(found, prior=None if from_scratch else in_force.weights, source=source, told=told)
    write(fitted, output, made_by=command, data=_listed(found))
    return (output / "MODEL_CARD.md").read_text(encoding="utf-8")


def train_gate(
    config: Config,
    pairs: Sequence[Path],
    output: Path,
    *,
    samples: Sequence[Path] = (),
    keep: Path | None = None,
    limit: int | None = None,
    from_scratch: bool = False,
    lacking_every: int,
    command: str,
    told: Told,
) -> str:
    """Fit the gates to what the engine chooses for *pairs* and *samples*, and write them into the folder *output*.

    Args:
        pairs, samples, keep, limit: as of `train_ranker`.
        from_scratch: forget gates and ranking in force; else the new gates stay near these as far as the pairs let them.
        lacking_every: of so many questions one is also asked with a noun that the graph does not know; 0: none.
        command: for the model card.
    Returns:
        the model card.
    Raises:
        ProxyError: something cannot be read or built, or there is too little to learn from.
    """
    found = gathered(config, pairs, samples=samples, keep=keep, limit=limit, lacking_every=lacking_every, told=told)
    ranker = read_ranker(Path(config.nl.ranker)) if config.nl.ranker else shipped_ranker()
    gates = read_gates(Path(config.nl.gate)) if config.nl.gate else shipped_gates()
    fitted = fit_gates(
        found, prior=None if from_scratch else gates, execute=config.nl.execute,
        ranking=None if from_scratch else ranker.weights, told=told,
    )  # fmt: skip
    write_gates(fitted, output, made_by=command, data=_listed(found))
    return (output / "MODEL_CARD.md").read_text(encoding="utf-8")


def _listed(samples: Sequence[Sample]) -> list[str]:
    """What a model card says of *samples*: how many there are of each graph."""
    return [f"{graph}: {n} questions" for graph, n in sorted(Counter(s.graph for s in samples).items())[:200]]


def gathered(
    config: Config,
    pairs: Sequence[Path],
    *,
    samples: Sequence[Path],
    keep: Path | None,
    limit: int | None,
    lacking_every: int = 0,
    told: Told,
) -> list[Sample]:
    """The samples in the files *samples*, and those of *pairs*, for which the engine is asked.

    Args:
        keep: each sample is added to this file as soon as it is there; those that it holds already are not asked for again.
        lacking_every: see ``collecting.Asked``.
    Raises:
        ProxyError: something cannot be read, built or written.
    """
    found = read_samples(samples)
    if not pairs:
        return found
    before = resumed(keep) if keep is not None else []
    asked = Asked(lacking_every=lacking_every, known={(s.graph, s.id) for s in before})

    async def run(kept: Callable[[Sample], None]) -> list[Sample]:
        encoders: Encoders = {}
        out: list[Sample] = []
        for name, questions, settings in _sources(config, pairs):
            step = max(1, -(-len(questions) // limit)) if limit else 1
            wanted = questions[::step]
            if all((name, q.id) in asked.known for q in wanted):
                continue
            async with _opened(name, settings, encoders, told) as dataset:
                async for sample in collect(dataset, wanted, name, asked=asked, told=told):
                    kept(sample)
                    out.append(sample)
        return out

    if keep is None:
        return found + asyncio.run(run(lambda sample: None))
    try:
        with keep.open("a", encoding="utf-8") as file:

            def kept(sample: Sample) -> None:
                file.write(line_of(sample))
                file.flush()

            return found + before + asyncio.run(run(kept))
    except OSError as error:
        raise ProxyError(f"cannot write {keep}: {error.strerror}") from error


def _sources(config: Config, pairs: Sequence[Path]) -> Iterator[tuple[str, list[GoldQuestion], Config]]:
    """Of each graph its name, its questions, and the settings that serve it."""
    for path in pairs:
        folders = [path] if graph_of(path) else sorted(f for f in path.glob("*") if graph_of(f)) if path.is_dir() else []
        for folder in folders:
            yield folder.name, read_questions(folder), _loading(config, graph_of(folder))
        if not folders:
            if not (config.backend.url or config.backend.load):
                raise ConfigError("backend", f"which graph is {path} about? Name it with --load or --url")
            yield path.stem, read_questions(path), config


def _loading(config: Config, files: Sequence[str]) -> Config:
    backend = msgspec.structs.replace(config.backend, load=tuple(files), url="")
    return msgspec.structs.replace(config, backend=backend)


@asynccontextmanager
async def _opened(name: str, config: Config, encoders: Encoders, told: Told) -> AsyncIterator[Dataset]:
    """A dataset whose index and engine are ready.

    Raises:
        ProxyError: they cannot be built.
    """
    settings = msgspec.structs.replace(
        config,
        nl=msgspec.structs.replace(config.nl, enabled=True, memory=""),
        index=msgspec.structs.replace(config.index, enabled=True, directory=""),
    )
    dataset = make_dataset(name, settings, encoders)
    try:
        told(f"indexing {name}", 0, 0)
        dataset.start()
        await dataset.built()
        if reasons := dataset.reasons():
            raise ProxyError(f"{name}: {'; '.join(reasons)}")
        yield dataset
    finally:
        await dataset.aclose()


def _engine(dataset: Dataset) -> QuestionEngine:
    if dataset.engine is None:
        raise ModelError("; ".join(dataset.reasons()) or "there is no question engine")
    return dataset.engine


# -- synthetic pairs


def synthesize(config: Config, output: Path, *, count: int, seed: int, told: Told) -> tuple[int, int]:
    """Write *count* synthetic pairs over the graph that *config* serves, one JSON object a line.

    Of each query graph one wording is tried. It is kept if its query has 1 to 200 rows, and a query with the same answer is
    among the engine's first candidates for the question.

    Returns:
        How many were written, and how many wordings were tried.
    Raises:
        ProxyError: the graph cannot be read, or the file not be written.
    """

    async def run() -> tuple[list[dict[str, Any]], int]:
        chance = random.Random(seed)
        async with _opened("graph", config, {}, told) as dataset:
            schema = _engine(dataset).schema
            literals = await _literals(dataset, schema)
            kept: list[dict[str, Any]] = []
            seen: set[str] = set()
            tried = 0
            for draft in drafts(schema, literals, seed=seed):
                question, query = chance.choice(draft.questions), render(draft.query)
                if question in seen:
                    tried += 1
                elif await _comes_back(dataset, question, query):
                    kept.append(_pair(len(kept), question, query, draft))
                seen.add(question)
                told("pairs", len(kept), count)
                if len(kept) == count or len(seen) + tried > 20 * count:
                    break
        return kept, len(seen)

    pairs, tried = asyncio.run(run())
    try:
        output.write_text("".join(json.dumps(p, ensure_ascii=False) + "\n" for p in pairs), encoding="utf-8")
    except OSError as error:
        raise ProxyError(f"cannot write {output}: {error.strerror}") from error
    return len(pairs), tried


def _pair(number: int, question: str, query: str, draft: Draft) -> dict[str, Any]:
    return {
        "id": f"synthetic-{number:05}", "lang": "en", "question": question, "sparql": query,
        "source": "synthetic", "template": draft.template,
    }  # fmt: skip


async def _comes_back(dataset: Dataset, question: str, query: str) -> bool:
    wanted = await answer_of(query, dataset, limit_rows=10 * MOST_ROWS)
    if wanted is None or not 1 <= len(set(wanted.rows)) <= MOST_ROWS or wanted.rows == [(0.0,)]:
        return False
    for candidate in _engine(dataset).propose(Question(question)).candidates[:ROUND_TRIP]:
        got: Answer | None = await answer_of(candidate.sparql, dataset, limit_rows=10 * MOST_ROWS)
        if got is not None and matches(wanted, got):
            return True
    return False


async def _literals(dataset: Dataset, schema: Schema) -> dict[Attribute, list[Literal]]:
    """Some values of each attribute that one property leads to."""
    out: dict[Attribute, list[Literal]] = {}
    for a in (a for of in schema.attributes_of.values() for a in of):
        if len(a.path) != 1:
            continue
        triples = (Triple("s", schema.index.class_predicate, Iri(a.subject_class)), Triple("s", a.path[0], "v"))
        text = render(Query(Pattern(triples), (Column("v"),), is_distinct=True, limit=EXAMPLES))
        found = await dataset.backend.select(text, timeout_s=30.0)
        out[a] = [t for (t,) in found.rows if isinstance(t, Literal) and 0 < len(t.lexical) <= 60]
    return out
