"""Files of questions with gold queries: JSONL pairs, ``questions.json`` of a folder, and TEXT2SPARQL YAML.

Reads documents, not files: what is read from disk comes in as text or as what a YAML parser made of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.errors import ConfigError


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """One question with its right query.

    language: of the question, None where it is not said. key_variables: columns that answer it by themselves. groups: sizes of
    the runs of equal rank where order counts; is_ordered: it counts, with no ties known.
    """

    id: str
    text: str
    query: str
    language: str | None = None
    key_variables: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()
    is_ordered: bool = False


def from_jsonl(text: str) -> list[GoldQuestion]:
    """One object a line, with ``question`` and ``sparql`` (or ``query``)."""
    return from_records([_parsed(line, n) for n, line in enumerate(text.splitlines(), 1) if line.strip()])


def from_json(text: str) -> list[GoldQuestion]:
    """A list of such objects."""
    found = _parsed(text, 1)
    if not isinstance(found, list):
        raise ConfigError("questions", "a list of objects with question and query is expected")
    return from_records(found)


def from_records(records: Sequence[Any]) -> list[GoldQuestion]:
    """Read objects as they come from JSON.

    Raises:
        ConfigError: one has no question or no query.
    """
    out = []
    for n, r in enumerate(records):
        query = r.get("query") or r.get("sparql") if isinstance(r, Mapping) else None
        if not isinstance(query, str) or not isinstance(r.get("question"), str):
            raise ConfigError("questions", f"entry {n + 1} has no question, or no query or sparql")
        is_ordered = bool(r.get("ordered"))
        groups = tuple(r.get("order_groups") or ()) if is_ordered else ()
        keys = tuple(r.get("key_vars") or ())
        out.append(GoldQuestion(str(r.get("id", n)), r["question"], query, r.get("lang"), keys, groups, is_ordered))
    return out


def from_text2sparql(document: Any, *, languages: Sequence[str] = ()) -> list[GoldQuestion]:
    """The document of a TEXT2SPARQL file; a question in several languages becomes several. *languages*: only these.

    Raises:
        ConfigError: it has another shape.
    """
    questions = document.get("questions") if isinstance(document, Mapping) else None
    if not isinstance(questions, list):
        raise ConfigError("questions", "no list named questions: not a TEXT2SPARQL document")
    out = []
    for n, q in enumerate(questions):
        texts, query = q.get("question"), q.get("query")
        sparql = query.get("sparql") if isinstance(query, Mapping) else query
        if not isinstance(texts, Mapping) or not isinstance(sparql, str):
            raise ConfigError("questions", f"entry {n + 1} has no question by language, or no query.sparql")
        is_ordered = "RESULT_ORDER_MATTERS" in (q.get("features") or ())
        for language, text in texts.items():
            if not languages or language in languages:
                out.append(GoldQuestion(f"{q.get('id', n)}-{language}", text, sparql, language, is_ordered=is_ordered))
    return out


def _parsed(text: str, line: int) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError("questions", f"line {line} is no JSON: {error}") from error
