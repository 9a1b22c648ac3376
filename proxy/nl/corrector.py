"""Which stage of understanding is at fault, and what to demand of it: deterministic, from findings, unmet words and results.

Called for a risky query only. Each call names one requirement more; the engine then enters the stage anew, under all of them,
and what comes out must outrank what is there (``pipeline.correction``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from proxy.nl.anchors import Anchor
from proxy.nl.evidence import Seen, constructs
from proxy.nl.linking import ValueMention
from proxy.nl.plan import Plan
from proxy.nl.requirements import (
    Binding,
    Construct,
    Demand,
    Requirement,
    Requirements,
    Stage,
    conditions,
    does,
    has,
    terms,
)
from proxy.nl.schema import Attribute, ClassTerm, Schema
from proxy.nl.words import local_name, stems
from proxy.validation.finding import Finding

_NAMED = 0.99


@dataclass(frozen=True, slots=True)
class Suspect:
    """A chosen query under suspicion, and what is known of its question.

    seen: what it brought; None where it was not run, or is not to be looked at (a correction without execution feedback).
    """

    question: str
    plan: Plan
    findings: Sequence[Finding]
    seen: Seen | None
    mentions: Sequence[ValueMention]
    anchors: Sequence[Anchor]
    schema: Schema


def diagnose(suspect: Suspect, held: Requirements) -> Requirement | None:
    """The likeliest requirement that is not *held* yet and contradicts none; None where nothing is left to say."""
    return next((r for r in _reasons(suspect) if r not in held.all and not held.contradict(r)), None)


def _reasons(s: Suspect) -> Iterator[Requirement]:
    """Requirements by how sure they are: what the graph says, what the question says, what the answer says, what is weakest."""
    yield from _findings(s)
    yield from _unbound_values(s)
    asked = constructs(s.question)
    for construct in Construct:
        if construct in asked and not does(s.plan, construct):
            yield Requirement(Stage.CONSTRUCTION, Demand.PIN, construct, "the question asks for it")
    if s.seen is not None and s.seen.is_nothing:
        yield from _bans_of_bindings(s, "nothing was found so")
    for anchor in s.anchors:
        term = s.schema.classes[anchor.class_]
        if anchor.score >= _NAMED and anchor.class_ not in s.schema.value_classes and not has(s.plan, term):
            yield Requirement(Stage.GROUNDING, Demand.PIN, term, "the question names it")
    for construct in Construct:
        if construct not in asked and does(s.plan, construct):
            yield Requirement(Stage.CONSTRUCTION, Demand.BAN, construct, "the question does not ask for it")
    yield from _weakest_terms(s)


def _findings(s: Suspect) -> Iterator[Requirement]:
    for finding in s.findings:
        reason = finding.message
        literals = [Binding(x.lexical, c.attribute) for c in conditions(s.plan) for x in c.literals]
        if bound := next((b for b in literals if b.text and b.text in finding.pattern), None):
            yield Requirement(Stage.BINDING, Demand.BAN, bound, reason)
        for term in terms(s.plan):
            iri = term.path[-1] if isinstance(term, Attribute) else term.iri
            if iri in finding.pattern or local_name(iri) in finding.pattern:
                yield Requirement(Stage.GROUNDING, Demand.BAN, term, reason)


def _unbound_values(s: Suspect) -> Iterator[Requirement]:
    """Pins for values of the graph that the question names, quoted ones first."""
    for mention in sorted(s.mentions, key=lambda m: not m.is_quoted):
        texts = list(dict.fromkeys(entry.text for entry, _ in mention.entries)) or ([mention.text] if mention.is_quoted else [])
        if texts and not any(has(s.plan, Binding(t)) for t in texts):
            yield Requirement(Stage.BINDING, Demand.PIN, Binding(texts[0]), "the question names this value")


def _bans_of_bindings(s: Suspect, reason: str) -> Iterator[Requirement]:
    asked = set(stems(s.question.lower()))
    bound = [Binding(x.lexical, c.attribute) for c in s.plan.conditions for x in c.literals]
    for binding in sorted(bound, key=lambda b: _said(b.attribute, asked) if b.attribute is not None else 0.0):
        yield Requirement(Stage.BINDING, Demand.BAN, binding, reason)


def _weakest_terms(s: Suspect) -> Iterator[Requirement]:
    """Bans of terms, the one that the question says least of first; a term whose every word is said is not banned."""
    asked = set(stems(s.question.lower()))
    shares = [(_said(t, asked), t) for t in terms(s.plan)]
    for share, term in sorted(shares, key=lambda x: x[0]):
        if share < 1.0:
            yield Requirement(Stage.GROUNDING, Demand.BAN, term, "the question hardly says it")


def _said(term: Attribute | ClassTerm, asked: set[str]) -> float:
    """Share of the term's words that are in the question, by its best name."""
    return max((len(asked & set(own)) / len(own) for w in term.words[:2] if (own := stems(w))), default=0.0)
