"""``sparlance pairs import | lint | split``: a user's own questions with their queries, looked through and put to use."""

from __future__ import annotations

import asyncio
import json
import re
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from proxy.errors import ConfigError, MalformedQuery
from proxy.evaluating import answer_of, read_questions
from proxy.evaluation.questions import GoldQuestion
from proxy.index.normalise import normalise
from proxy.index.support import SupportIndex
from proxy.nl.memory import Confirmed, Source, still_fits
from proxy.pipeline.dataset import Dataset
from proxy.pipeline.memory import Feedback
from proxy.query.model import ParsedQuery, QueryForm
from proxy.query.parse import parse
from proxy.validation.check import check
from proxy.validation.finding import Severity

_VALUES = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|(?<![\w:#/?$])[-+]?\d+(?:\.\d+)?(?![\w:#/])')


def complaints(pairs: Sequence[GoldQuestion], index: SupportIndex | None) -> Iterator[tuple[GoldQuestion, str, bool]]:
    """(pair, what is wrong with it, whether it cannot be used) for every pair that something is to be said about."""
    seen: dict[str, GoldQuestion] = {}
    for pair in pairs:
        earlier = seen.setdefault(normalise(pair.text), pair)
        if earlier is not pair:
            same = earlier.query.split() == pair.query.split()
            yield pair, f"the question of {earlier.id} again, with {'the same' if same else 'another'} query", not same
        try:
            parsed = parse(pair.query)
        except MalformedQuery as error:
            yield pair, f"cannot be read: {error}", True
            continue
        if not isinstance(parsed, ParsedQuery) or parsed.form not in (QueryForm.SELECT, QueryForm.ASK):
            yield pair, "neither SELECT nor ASK", True
            continue
        for finding in check(parsed, index) if index is not None else ():
            yield pair, f"{finding.severity}: {finding.message}", finding.severity is Severity.PROVED_EMPTY


async def lint(pairs: Sequence[GoldQuestion], dataset: Dataset, say: Callable[[str], None]) -> int:
    """Say what is wrong with *pairs* on the graph of *dataset*, each of them run; returns how many cannot be used."""
    bad: set[str] = set()
    for pair, what, is_bad in complaints(pairs, dataset.index):
        say(f"{pair.id}: {what}")
        bad |= {pair.id} if is_bad else set()
    for pair in pairs:
        if pair.id in bad:
            continue
        answer = await answer_of(pair.query, dataset)
        if answer is None:
            say(f"{pair.id}: does not run")
            bad.add(pair.id)
        elif not answer.rows:
            say(f"{pair.id}: has no solutions")
    return len(bad)


async def remember(pairs: Sequence[GoldQuestion], dataset: Dataset) -> tuple[int, list[str]]:
    """Put *pairs* into the memory of *dataset*; returns how many it holds then, and why some were left out.

    Raises:
        ConfigError: nothing is kept here. MalformedRequest: they are too many.
    """
    keeper, index = dataset.memory, dataset.index
    if keeper is None or index is None:
        raise ConfigError("nl.memory", "not set; accepted: the folder that pairs are kept in")
    left_out = [f"{pair.id}: {what}" for pair, what, is_bad in complaints(pairs, None) if is_bad]
    ids = {line.split(": ", 1)[0] for line in left_out}
    for pair in pairs:
        if pair.id not in ids and not still_fits(pair.query, index):
            left_out.append(f"{pair.id}: the query names what the graph does not have, or cannot have a solution")
            ids.add(pair.id)
    now = time.time()
    kept = [Feedback(Confirmed(p.text, p.query, Source.IMPORT, now, p.language)) for p in pairs if p.id not in ids]
    return await asyncio.to_thread(keeper.add, *kept) if kept else len(keeper.memory.all), left_out


def template(query: str) -> str:
    """*query* without its values: two questions of one template are no test of each other."""
    return " ".join(_VALUES.sub("_", query).split())


def split(pairs: Sequence[GoldQuestion], *, share: float) -> tuple[list[GoldQuestion], list[GoldQuestion]]:
    """Pairs to learn from, and about *share* of them to test with; never one template in both. Always the same ones."""
    train: list[GoldQuestion] = []
    test: list[GoldQuestion] = []
    for pair in pairs:
        is_test = zlib.crc32(template(pair.query).encode()) % 1000 < 1000 * share
        (test if is_test else train).append(pair)
    return train, test


def write(path: Path, pairs: Sequence[GoldQuestion]) -> None:
    """Write *pairs* as JSONL.

    Raises:
        ConfigError: the file cannot be written.
    """
    records = [{"id": p.id, "question": p.text, "sparql": p.query} for p in pairs]
    records = [r | ({"lang": p.language} if p.language else {}) for r, p in zip(records, pairs, strict=True)]
    try:
        path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), encoding="utf-8")
    except OSError as error:
        raise ConfigError("pairs", f"cannot write {path}: {error.strerror}") from error


def read(paths: Sequence[Path]) -> list[GoldQuestion]:
    """Read all files of pairs; ids get the file's name before them where there are several files."""
    found = []
    for path in paths:
        for pair in read_questions(path):
            found.append(pair if len(paths) == 1 else _renamed(pair, f"{path.stem}/{pair.id}"))
    return found


def _renamed(pair: GoldQuestion, id_: str) -> GoldQuestion:
    return GoldQuestion(id_, pair.text, pair.query, pair.language, pair.key_variables, pair.groups, pair.is_ordered)
