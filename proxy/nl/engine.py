"""The question engine: plain language in, ranked SPARQL candidates out. Pure: it sees the indexes, never the backend."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from proxy.index.support import SupportIndex
from proxy.index.values import ValueIndex
from proxy.nl.anchors import Anchor, anchors
from proxy.nl.enumerate import Candidate, Enumerator
from proxy.nl.gate import Gates, shipped_gates
from proxy.nl.ir import render
from proxy.nl.languages import language_of
from proxy.nl.linking import Linker, ValueMention
from proxy.nl.memory import Memory
from proxy.nl.onnx import Encoder
from proxy.nl.policy import Answer
from proxy.nl.rank import rank
from proxy.nl.ranker import Ranker, shipped_ranker
from proxy.nl.readings import links_of
from proxy.nl.requirements import NONE, Requirements
from proxy.nl.retrieval import Retriever
from proxy.nl.schema import Attribute, Schema
from proxy.nl.shape import sketches
from proxy.nl.sketch import Item, Sketch
from proxy.nl.words import Splitter, expand, tokenize
from proxy.query.operation import Question

Tell = Callable[[str, dict[str, Any]], None]
_RENDERED = 50


class EngineSettings(Protocol):
    """The part of the configuration that matters here (``[nl]``)."""

    @property
    def max_candidates(self) -> int: ...

    @property
    def answer(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Understanding:
    """What a question's words were linked to and which shapes it may have: the prefix that a correction keeps."""

    text: str
    items: Sequence[Item] = ()
    mentions: Sequence[ValueMention] = ()
    sketches: Sequence[Sketch] = ()
    anchors: Sequence[Anchor] = ()
    language: str = "en"


@dataclass(slots=True)
class Proposal:
    """Ranked candidates (best first, ``sparql`` rendered for the first 50) and a JSON-ready account of how they came about."""

    candidates: list[Candidate]
    account: dict[str, Any] = field(default_factory=dict)
    understanding: Understanding = Understanding("")


class QuestionEngine:
    """Answers questions about one graph. Safe to use from several threads.

    Building it encodes the vocabulary: about 1 ms for each class and property on one core.
    ranker, gates: None: the packaged ones.
    """

    def __init__(
        self,
        index: SupportIndex,
        values: ValueIndex,
        encoder: Encoder,
        settings: EngineSettings,
        ranker: Ranker | None = None,
        gates: Gates | None = None,
    ) -> None:
        self._encoder = encoder
        self._settings = settings
        self.schema = Schema(index, Splitter(encoder.ranks), values)
        self.linker = Linker(self.schema, values, encoder)
        self.retriever = Retriever(self.linker)
        self.ranker = ranker or shipped_ranker()
        self.gates = gates or shipped_gates()

    def propose(self, question: Question, *, told: Tell = lambda stage, value: None, memory: Memory | None = None) -> Proposal:
        """Rank the queries that *question* may mean; an empty list where nothing in it is known to the graph.

        memory: confirmed interpretations; candidates that are like those of similar questions are favoured.
        told: is called with each stage's name and what it found, as soon as it is there, in the caller's thread.
        """
        started = time.perf_counter()
        text = expand(question.text[:600])
        spoken = language_of(tokenize(text), question.language)
        items, mentions = self.linker.read(text, spoken)
        told("linking", {"mentions": [_mention(m) for m in mentions]})
        found = self.shapes(items) if items else []
        read_at = time.perf_counter()
        links = self._links(found[:1])
        told("shape", {"shape": [_shape(s) for s in found[:1]], "links": links})
        code = spoken.code if spoken is not None else "en"
        understanding = Understanding(text, items, mentions, found, anchors(items, self.linker), code)
        candidates = self._enumerated(understanding, NONE, memory)
        enumerated_at = time.perf_counter()
        ranked = self._ranked(text, candidates, memory)
        done = time.perf_counter()
        account = {
            "question": question.text,
            "language": code,
            "mentions": [_mention(m) for m in mentions],
            "shape": [_shape(s) for s in found[:1]],
            "links": links,
            "schema": [{"term": r.iri, "score": round(r.score, 3)} for r in self.retriever.retrieve(items, found)],
            "candidates": [
                {"words": c.words, "score": round(c.score, 3), "query": c.sparql, "note": c.note} for c in ranked[:10]
            ],
            "considered": len(ranked),
            "timings_ms": {
                "linking": round(1000 * (read_at - started), 1),
                "enumeration": round(1000 * (enumerated_at - read_at), 1),
                "ranking": round(1000 * (done - enumerated_at), 1),
            },
        }
        told("candidates", {"considered": len(ranked), "candidates": account["candidates"]})
        return Proposal(ranked, account, understanding)

    def shapes(self, items: Sequence[Item]) -> list[Sketch]:
        """The readings of a question's grammar, likeliest first."""
        return sketches(items)

    def revise(
        self, understanding: Understanding, requirements: Requirements, *, memory: Memory | None = None
    ) -> list[Candidate]:
        """Rank the queries that meet *requirements*, from the same links and shapes; an empty list where there are none."""
        return self._ranked(understanding.text, self._enumerated(understanding, requirements, memory), memory)

    def _enumerated(self, u: Understanding, requirements: Requirements, memory: Memory | None) -> list[Candidate]:
        if not u.items:
            return []
        learned = memory.policy(self.schema) if memory is not None else None
        answer = learned or Answer(self._settings.answer)
        enumerator = Enumerator(self.schema, self.linker, language=u.language, answer=answer)
        limit = self._settings.max_candidates
        return enumerator.candidates(u.items, u.mentions, u.sketches, limit=limit, requirements=requirements)

    def _ranked(self, text: str, candidates: list[Candidate], memory: Memory | None) -> list[Candidate]:
        ranked = rank(text, candidates, self._encoder, self.ranker)
        for c in ranked[:_RENDERED]:
            c.sparql = render(c.query)
        if memory is not None:
            ranked = memory.favour(text, ranked, self._encoder)
        return ranked

    def _links(self, found: list[Sketch]) -> list[dict[str, Any]]:
        out = []
        for sketch in found:
            slots = [
                *sketch.select,
                *(c.slot for c in sketch.comparisons),
                sketch.group,
                sketch.order.slot if sketch.order else None,
            ]
            for slot in slots:
                if slot is not None and slot.words:
                    links = [
                        {
                            "term": link.term.path[-1] if isinstance(link.term, Attribute) else link.term.iri,
                            "words": link.term.words[0],
                            "score": round(link.score, 3),
                        }
                        for link in links_of(self.linker, slot)
                    ]
                    out.append({"mention": slot.words, "candidates": links})
        return out


def _mention(m: ValueMention) -> dict[str, Any]:
    entries = [
        {"text": e.text, "property": e.property, "class": e.subject_class, "score": round(s, 3)} for e, s in m.entries[:5]
    ]
    return {"text": m.text, "start": m.start, "end": m.end, "values": entries}


def _shape(s: Sketch) -> dict[str, Any]:
    return {
        "form": "ask" if s.is_ask else "select",
        "shows": [f"{x.aggregate or ''} {x.words}".strip() for x in s.select],
        "compares": [str(c.operator) for c in s.comparisons],
        "sorts": None if s.order is None else {"descending": s.order.is_descending, "limit": s.order.limit},
        "groups": None if s.group is None else s.group.words,
        "negates": s.negated_from is not None,
    }
