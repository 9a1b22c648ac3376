"""What people confirmed, as it helps with the next question: replayed where the pattern is the same, favoured where it is near.

A *confirmed interpretation* is a question, its query, and where that came from. Three ways to use one, surest first: the same
question again; the same question with another value of the graph in the place of one ("the price of the Mule"); and a
question like it, whose candidates are favoured as far as they share terms and shape with its query. The last is also how
an alias is learned: a word that confirmed questions have and confirmed terms do not is counted with them.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

import numpy as np

from proxy.errors import MalformedQuery
from proxy.index.normalise import normalise
from proxy.index.support import SupportIndex
from proxy.nl.enumerate import Candidate
from proxy.nl.linking import ValueMention
from proxy.nl.onnx import Encoder, Vectors
from proxy.nl.policy import Answer, learn_policy
from proxy.nl.schema import Schema
from proxy.nl.words import STOPWORDS, local_name, stem, stems
from proxy.query.model import ParsedQuery, QueryForm
from proxy.query.parse import parse
from proxy.query.term import RDF_TYPE, Iri
from proxy.validation.check import check
from proxy.validation.finding import Severity

NEAR = 0.55
"""Cosine from which a stored question says something about another one."""
FAVOUR = 4.0
"""What a candidate gains whose query has all the terms and the shape of a stored question that is the same."""
ALIAS = 1.0
"""What a candidate gains by a term that a word of the question always went with."""
_UNKNOWN = ("no-such-property", "class-not-populated")
_ALIAS_LEAST = 2
"""Confirmed pairs that must have a word and a term together."""
_NEIGHBOURS = 5
_POLICY_LEAST, _POLICY_MOST = 5, 200
"""Pairs that must have something to say about what stands for an entity, and pairs that are looked at: the latest."""
_POLICY_SHARE = 0.8
_LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"|\'((?:[^\'\\\n]|\\.)*)\'')
_NUMBER = re.compile(r"(?<![\w:#/.\-])\d+(?:\.\d+)?(?![\w:#/])")
_KEYWORDS = re.compile(
    r"\b(COUNT|AVG|SUM|MIN|MAX|ORDER|DESC|LIMIT|GROUP BY|HAVING|NOT EXISTS|MINUS|DISTINCT|OPTIONAL|UNION|ASK)\b", re.IGNORECASE
)


class Source(StrEnum):
    """Where a pair came from. HUMAN: written or confirmed by a person. LOG: a query that was kept after a question."""

    HUMAN = "human"
    LOG = "log"
    IMPORT = "import"


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A question and the query that answers it. at: seconds since 1970, when it was confirmed."""

    question: str
    sparql: str
    source: Source = Source.HUMAN
    at: float = 0.0
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Recalled:
    """A query from memory. how: ``same question`` or ``same pattern``."""

    sparql: str
    how: str
    origin: Confirmed


@dataclass(slots=True)
class Memory:
    """The confirmed interpretations of one graph; made anew when one is added. aliases: word → term → how surely."""

    all: Sequence[Confirmed]
    _same: dict[str, Confirmed] = field(init=False)
    _signatures: list[frozenset[str]] = field(init=False)
    _vectors: Vectors | None = field(init=False, default=None)
    _policy: list[Answer | None] = field(init=False, default_factory=list)
    aliases: Mapping[str, Mapping[str, float]] = field(init=False)

    def __post_init__(self) -> None:
        self._same = {normalise(c.question): c for c in self.all}  # the latest of equal questions stays
        self._signatures = [signature(c.sparql) for c in self.all]
        self.aliases = aliases_of(self.all, self._signatures)

    def recall(self, question: str, mentions: Sequence[ValueMention], index: SupportIndex) -> Recalled | None:
        """The confirmed query of *question*, if it still fits the graph; None where there is none.

        mentions: values of the graph in the question; one of them may differ from what was confirmed.
        """
        if (same := self._same.get(normalise(question))) is not None and still_fits(same.sparql, index):
            return Recalled(same.sparql, "same question", same)
        slots = [(m.start, m.end, e.text) for m in mentions for e, _ in m.entries[:1]]
        for confirmed in reversed(self.all):
            sparql = replayed(confirmed, question, slots)
            if sparql is not None and still_fits(sparql, index):
                return Recalled(sparql, "same pattern", confirmed)
        return None

    def policy(self, schema: Schema) -> Answer | None:
        """What stands for an entity, as most confirmed pairs have it; None where they are few or do not agree."""
        if not self._policy:
            read = [(c.question, _query(c.sparql)) for c in self.all[-_POLICY_MOST:]]
            learned = learn_policy([(q, parsed) for q, parsed in read if parsed is not None], schema)
            agree = learned.pairs >= _POLICY_LEAST and learned.agreeing >= _POLICY_SHARE * learned.pairs
            self._policy.append(learned.policy if agree else None)
        return self._policy[0]

    def favour(self, question: str, candidates: Sequence[Candidate], encoder: Encoder) -> list[Candidate]:
        """Raise the scores of *candidates* that are like what was confirmed for questions like this one; best first."""
        if not self.all or not candidates:
            return list(candidates)
        if self._vectors is None:
            self._vectors = encoder.encode([c.question for c in self.all])
        cosines = (self._vectors @ encoder.encode([question])[0]).astype(np.float64)
        near = [(i, (cosines[i] - NEAR) / (1 - NEAR)) for i in np.argsort(-cosines)[:_NEIGHBOURS] if cosines[i] > NEAR]
        words = {stem(w) for w in normalise(question).split()}
        known = [self.aliases[w] for w in words if w in self.aliases]
        if not near and not known:
            return list(candidates)
        for c in candidates:
            if not c.sparql:
                continue
            own = signature(c.sparql)
            gain = max((share * _overlap(own, self._signatures[i]) for i, share in near), default=0.0)
            alias = sum(max((s for term, s in terms.items() if term in own), default=0.0) for terms in known)
            c.features["memory"] = FAVOUR * gain + ALIAS * min(2.0, alias)
            c.score += c.features["memory"]
        return sorted(candidates, key=lambda c: -c.score)


def _query(sparql: str) -> ParsedQuery | None:
    try:
        parsed = parse(sparql)
    except MalformedQuery:
        return None
    return parsed if isinstance(parsed, ParsedQuery) else None


def still_fits(sparql: str, index: SupportIndex) -> bool:
    """Whether every term of *sparql* is in the graph and the index does not prove that it has no solution.

    So a confirmed query is not replayed once an edge of it has vanished, and is again when the edge is back.
    """
    parsed = _query(sparql)
    if parsed is None or parsed.form not in (QueryForm.SELECT, QueryForm.ASK):
        return False
    findings = check(parsed, index)
    return not any(f.severity is Severity.PROVED_EMPTY or f.rule in _UNKNOWN for f in findings)


@lru_cache(maxsize=4096)
def signature(sparql: str) -> frozenset[str]:
    """The IRIs of a query, its operators and its number of columns: what two queries share that ask alike."""
    found = {m.group(1).upper() for m in _KEYWORDS.finditer(_LITERAL.sub('""', sparql))}
    if (parsed := _query(sparql)) is not None:
        found |= {i for i in _iris(parsed) if i != RDF_TYPE}
        found.add(f"{len(parsed.projection)} columns")
    return frozenset(found)


def _iris(node: object) -> Iterator[str]:
    if isinstance(node, Iri):
        yield node.value
    elif dataclasses.is_dataclass(node) and not isinstance(node, type):
        for f in dataclasses.fields(node):
            if f.name not in ("prefixes", "base"):
                yield from _iris(getattr(node, f.name))
    elif isinstance(node, tuple):
        for part in node:
            yield from _iris(part)


def _overlap(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / max(1, len(a | b))


def aliases_of(pairs: Sequence[Confirmed], signatures: Sequence[frozenset[str]]) -> dict[str, dict[str, float]]:
    """Word → term → how surely the term comes with the word: its share of questions, as far as it is more than by chance."""
    questions: Counter[str] = Counter()
    terms: Counter[str] = Counter()
    together: dict[str, Counter[str]] = defaultdict(Counter)
    for pair, held in zip(pairs, signatures, strict=True):
        used = {t for t in held if ":" in t}
        said = {s for t in used for s in stems(local_name(t))}
        words = {stem(w) for w in normalise(pair.question).split() if w not in STOPWORDS} - said
        questions.update(words)
        terms.update(used)
        for w in words:
            together[w].update(used)
    out: dict[str, dict[str, float]] = {}
    for word, counted in together.items():
        found = {}
        for term, n in counted.items():
            lift = n / questions[word] - terms[term] / max(1, len(pairs))
            if n >= _ALIAS_LEAST and lift > 0.3:
                found[term] = lift * (1 - math.exp(-n / 2))
        if found:
            out[word] = found
    return out


def replayed(confirmed: Confirmed, question: str, slots: Sequence[tuple[int, int, str]]) -> str | None:
    """The confirmed query with the values of *question* in the place of its own; None where the pattern is another one.

    slots: start, end and spelling in the graph of each value that *question* names.
    """
    literals = list(dict.fromkeys(a or b for a, b in _LITERAL.findall(confirmed.sparql) if a or b))
    numbers = [n for n in _NUMBER.findall(_LITERAL.sub('""', confirmed.sparql))]
    own = [(m.start(), m.end(), text) for text in literals for m in _at(text, confirmed.question)]
    own_numbers = [(m.start(), m.end(), m.group()) for m in _NUMBER.finditer(confirmed.question) if m.group() in numbers]
    if not own and not own_numbers:
        return None
    if len(numbers) != len(set(numbers)) or len(own) != len({t for *_, t in own}):
        return None  # which of two equal values is which cannot be told
    here_numbers = [(m.start(), m.end(), m.group()) for m in _NUMBER.finditer(question)]
    inside = [(s, e) for s, e, _ in slots]
    here_numbers = [n for n in here_numbers if not any(s <= n[0] < e for s, e in inside)]
    if _masked(confirmed.question, own, own_numbers) != _masked(question, slots, here_numbers):
        return None
    sparql = confirmed.sparql
    marks: list[tuple[str, str]] = []
    for k, ((*_, old), (*_, new)) in enumerate(zip(sorted(own), sorted(slots), strict=True)):
        marks.append((f"\x00{k}\x00", new))
        sparql = re.sub(rf"""(["']){re.escape(old)}\1""", f'"\x00{k}\x00"', sparql)
    for (*_, old), (*_, new) in zip(sorted(own_numbers), sorted(here_numbers), strict=True):
        outside = _LITERAL.split(sparql)
        if len(outside) == 1:
            sparql = re.sub(rf"(?<![\w:#/.\-]){re.escape(old)}(?![\w:#/.])", new, sparql)
        else:
            return None if old != new else sparql
    for mark, new in marks:
        sparql = sparql.replace(mark, new.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
    return sparql


def _at(text: str, question: str) -> Iterable[re.Match[str]]:
    return re.finditer(rf"(?<!\w){re.escape(text)}(?!\w)", question, re.IGNORECASE)


def _masked(text: str, values: Sequence[tuple[int, int, str]], numbers: Sequence[tuple[int, int, str]]) -> str:
    """*text* with one mark for each value and another for each number, normalised."""
    pieces, end = [], 0
    for start, stop, mark in sorted([(s, e, "vvalue") for s, e, _ in values] + [(s, e, "nnumber") for s, e, _ in numbers]):
        if start < end:
            continue
        pieces += [text[end:start].strip("\"'“”‘’ "), mark]
        end = stop
    return normalise(" ".join([*pieces, text[end:].strip("\"'“”‘’ ")]))
