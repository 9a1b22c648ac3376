"""SPARQL that a language model wrote: the messages it is asked with, the query in its reply, what is wrong with it, and what
it is worth beside the queries that were enumerated. Nothing of a reply is trusted: one SELECT or ASK comes out, or nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from proxy.errors import MalformedQuery
from proxy.index.support import SupportIndex
from proxy.nl.enumerate import WRITTEN, Candidate
from proxy.nl.generate import Message
from proxy.nl.ir import Pattern, Query
from proxy.nl.memory import Confirmed
from proxy.nl.onnx import Vectors
from proxy.nl.plan import Plan
from proxy.nl.schema import Schema
from proxy.nl.words import local_name
from proxy.query.model import Aggregate, ParsedQuery, QueryForm, Service
from proxy.query.parse import parse
from proxy.query.term import RDF_TYPE, Iri, Literal
from proxy.validation.check import check
from proxy.validation.finding import Severity

Encode = Callable[[Sequence[str]], Vectors]
"""Texts → unit vectors, (texts, width)."""
LONGEST = 8_000
"""Characters of a query that are read."""
HANDICAP = 1.0
"""What a written query must be better by than the best enumerated one, in the ranking's scores."""
AGREED = 0.5
"""What it gains if all drafts say the same."""
_COMPLAINTS = 4
_FENCE = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_BEGIN = re.compile(r"^[ \t]*(?:PREFIX|BASE|SELECT|ASK)\b", re.IGNORECASE | re.MULTILINE)
_DECLARED = re.compile(r"\bPREFIX\s+([\w.-]*):", re.IGNORECASE)
_SPOKEN = {"COUNT": "number of", "AVG": "average", "SUM": "total", "MIN": "lowest", "MAX": "highest"}

_RULES = (
    "You write one SPARQL 1.1 query that answers a question about the graph described below. Write a SELECT or an ASK, with "
    "the PREFIX lines it needs. Use only classes, properties and prefixes of the description; no SERVICE, no FROM. Show names "
    "rather than IRIs. Answer with the query alone."
)


@dataclass(frozen=True, slots=True)
class Draft:
    """One reply, read. sparql: the query; empty where there is none. complaints: what is wrong with it, in words for the model.

    is_usable: it may be tried, in spite of what is suspicious in it.
    """

    sparql: str
    parsed: ParsedQuery | None
    complaints: tuple[str, ...]
    is_usable: bool


def messages(question: str, description: str, examples: Sequence[Confirmed]) -> list[Message]:
    """What a model is asked with. description: of the graph, TTQL. The graph's and people's texts are data in it."""
    shown = "".join(f"\nQuestion: {e.question}\n```sparql\n{e.sparql}\n```\n" for e in examples)
    parts = [_RULES, f"The graph (each class with the properties of its instances and examples):\n\n{description}"]
    if shown:
        parts.append(f"Questions about it that have been answered:\n{shown}")
    return [Message("system", "\n\n".join(parts)), Message("user", f"Question: {question}")]


def with_complaints(asked: Sequence[Message], draft: Draft) -> list[Message]:
    """*asked*, and what is wrong with the reply *draft*."""
    wrong = "\n".join(f"- {c}" for c in draft.complaints)
    again = Message("user", f"That query cannot be right:\n{wrong}\nAnswer with a corrected query alone.")
    return [*asked, Message("assistant", f"```sparql\n{draft.sparql}\n```"), again]


def read(reply: str, index: SupportIndex, prefixes: Mapping[str, str]) -> Draft:
    """The query in *reply*; of several the last that can be used. prefixes: of the description, which a model may leave out."""
    found = [_examined(text, index, prefixes) for text in reversed(_queries(reply))]
    for rank in (lambda d: not d.complaints, lambda d: d.is_usable, lambda d: d.parsed is not None):
        for draft in found:
            if rank(draft):
                return draft
    return found[0] if found else Draft("", None, ("The answer has no SPARQL query in it.",), False)


def nearest(question: str, confirmed: Sequence[Confirmed], encode: Encode, *, most: int) -> list[Confirmed]:
    """The confirmed pairs whose questions are most like *question*, the nearest last: models heed most what stands last."""
    if not confirmed or not most:
        return []
    vectors = encode([question, *(c.question for c in confirmed)])
    order = np.argsort(-(vectors[1:] @ vectors[0]), kind="stable")[:most]
    return [confirmed[i] for i in reversed(order.tolist())]


def candidates(
    question: str,
    drafts: Sequence[Draft],
    ranked: Sequence[Candidate],
    schema: Schema,
    encode: Encode,
    *,
    cosine_weight: float,
) -> list[Candidate]:
    """*drafts* as candidates beside *ranked*, each query once, best first.

    The ranking reads a plan, which a written query does not have. What both have is words: it is placed from the best
    enumerated one by how much nearer its words are to the question, less ``HANDICAP``, and more the more drafts say the same.
    """
    votes: dict[ParsedQuery, int] = {}
    first: dict[ParsedQuery, Draft] = {}
    for d in drafts:
        if d.is_usable and d.parsed is not None:
            votes[d.parsed] = votes.get(d.parsed, 0) + 1
            first.setdefault(d.parsed, d)
    if not first:
        return []
    spoken = words_of(schema)
    texts = [in_words(parsed, spoken) for parsed in first]
    best = ranked[0] if ranked else None
    vectors = encode([question, *texts, *([best.words] if best is not None else [])])
    cosines = (vectors[1:] @ vectors[0]).astype(np.float64).tolist()
    base = best.score - cosine_weight * cosines[-1] if best is not None else 0.0
    out = []
    for (parsed, d), words, cosine in zip(first.items(), texts, cosines, strict=False):
        share = votes[parsed] / len(drafts)
        query = Query(Pattern(()), (), is_ask=parsed.form is QueryForm.ASK, limit=parsed.limit)
        score = base + cosine_weight * cosine - HANDICAP + AGREED * share
        seen = {"cosine": cosine, "drafts": share}
        out.append(Candidate(Plan(()), query, words, seen, "written by a language model", score, d.sparql, WRITTEN))
    return sorted(out, key=lambda c: -c.score)


def words_of(schema: Schema) -> Mapping[str, str]:
    """IRI → the words of the class or property in *schema*."""
    found = {e.property: e.words for e in schema.edges}
    found |= {a.path[0]: a.words[0] for a in schema.attributes if len(a.path) == 1}
    return found | {c.iri: c.words[0] for c in schema.classes.values()}


def in_words(parsed: ParsedQuery, spoken: Mapping[str, str]) -> str:
    """The terms of a query in the order of its text, in words: poor English, but a sentence encoder's fare."""
    parts = ["is there"] if parsed.form is QueryForm.ASK else []
    for node in parsed.nodes:
        match node:
            case Iri(value) if value != RDF_TYPE:
                parts.append(spoken.get(value) or local_name(value))
            case Literal():
                parts.append(node.lexical)
            case Aggregate() if node.name in _SPOKEN:
                parts.append(_SPOKEN[node.name])
    if parsed.order_by:
        parts.append("sorted" if parsed.limit is None else f"top {parsed.limit}")
    return " ".join(dict.fromkeys(parts))


def _queries(reply: str) -> list[str]:
    """The texts in *reply* that may be queries, in its order."""
    reply = _THOUGHT.sub("", reply)
    fenced = [b.strip() for b in _FENCE.findall(reply) if _BEGIN.search(b)]
    if fenced:
        return fenced
    begin = _BEGIN.search(reply)
    if begin is None:
        return []
    text = reply[begin.start() :].strip()
    # Prose may follow: where a blank line or the last brace ends it.
    cuts = [text, text.partition("\n\n")[0], text[: text.rfind("}") + 1]]
    return [c for c in reversed(list(dict.fromkeys(cuts))) if c]


def _examined(text: str, index: SupportIndex, prefixes: Mapping[str, str]) -> Draft:
    if len(text) > LONGEST:
        return Draft(text[:200], None, (f"The query is longer than {LONGEST:,} characters.",), False)
    declared = {m.group(1) for m in _DECLARED.finditer(text)}
    missing = [p for p in prefixes if p not in declared and re.search(rf"(?<![\w:.-]){re.escape(p)}:", text)]
    text = "".join(f"PREFIX {p}: <{prefixes[p]}>\n" for p in missing) + text
    try:
        parsed = parse(text)
    except MalformedQuery as exc:
        where = f" (line {exc.line}, column {exc.column})" if exc.line is not None else ""
        return Draft(text, None, (f"It does not parse: {str(exc)[:300]}{where}",), False)
    if not isinstance(parsed, ParsedQuery) or parsed.form not in (QueryForm.SELECT, QueryForm.ASK):
        return Draft(text, None, ("Only SELECT and ASK are allowed.",), False)
    if any(isinstance(n, Service) for n in parsed.nodes):
        return Draft(text, None, ("SERVICE is not allowed.",), False)
    if parsed.dataset:
        return Draft(text, None, ("FROM and FROM NAMED are not allowed.",), False)
    findings = check(parsed, index)
    wrong = [f for f in findings if f.severity in (Severity.PROVED_EMPTY, Severity.SUSPICIOUS)]
    said = tuple(" ".join([f.pattern, f.message, *f.suggestions[:3]])[:400] for f in wrong[:_COMPLAINTS])
    is_empty = parsed.form is QueryForm.SELECT and any(f.severity is Severity.PROVED_EMPTY for f in wrong)
    return Draft(text, parsed, said, not is_empty)
