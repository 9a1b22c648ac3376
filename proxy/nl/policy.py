"""What stands for an entity in an answer: its name, its IRI, or what the question's words ask for; and how pairs tell which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from proxy.nl.schema import NAMING, Schema
from proxy.nl.words import stems, tokenize
from proxy.query.model import (
    BasicGraphPattern,
    GraphPattern,
    Group,
    Optional,
    ParsedQuery,
    SubSelect,
    TriplePattern,
    Union,
)
from proxy.query.term import Iri, Variable


class Answer(StrEnum):
    """What an entity is shown by.

    LABEL: its name ("which ships" and "the names of the ships" alike). ENTITY: its IRI, even where names are asked for.
    AS_WRITTEN: its IRI, but the name where the question says "name", "title" or "label".
    """

    LABEL = "label"
    ENTITY = "entity"
    AS_WRITTEN = "as-written"


@dataclass(frozen=True, slots=True)
class Learned:
    """The policy that most pairs agree with. pairs: how many had something to say; agreeing: how many of them agree."""

    policy: Answer
    pairs: int
    agreeing: int


@dataclass(frozen=True, slots=True)
class _Seen:
    asks_name: bool
    shows_entity: bool


def learn_policy(pairs: Iterable[tuple[str, ParsedQuery]], schema: Schema | None = None) -> Learned:
    """The policy by which the queries of *pairs* (question, its query) show entities; LABEL where they tell nothing.

    Told by pairs whose query shows a node, or what names one: a property that is a naming one everywhere, or that names a class
    of *schema*. A handful is enough, because a data set is made by one convention.
    """
    seen = [s for question, query in pairs for s in _shown(question, query, schema)]
    fits = {
        Answer.LABEL: sum(not s.shows_entity for s in seen),
        Answer.ENTITY: sum(s.shows_entity for s in seen),
        Answer.AS_WRITTEN: sum(s.shows_entity != s.asks_name for s in seen),
    }
    best = max(Answer, key=lambda p: fits[p])
    return Learned(best if seen else Answer.LABEL, len(seen), fits[best] if seen else 0)


def _shown(question: str, query: ParsedQuery, schema: Schema | None) -> Iterator[_Seen]:
    projected = {p.variable.name for p in query.projection if p.expression is None}
    said = {s for t in tokenize(question) for s in stems(t.text)}
    asks_name = bool(said & _NAMES)
    patterns = list(_patterns(query.where))
    edges = {e.property for e in schema.edges} if schema is not None else set()
    nodes = {t.subject.name for t in patterns if isinstance(t.subject, Variable)}
    nodes |= {t.object.name for t in patterns if isinstance(t.object, Variable) and _iri(t) in edges}
    naming = NAMING | {n.path[-1] for c in schema.classes if (n := schema.name_of(c)) is not None} if schema else NAMING
    names = {
        t.object.name for t in patterns
        if isinstance(t.object, Variable) and _iri(t) in naming
    }  # fmt: skip
    for variable in sorted(projected):
        if variable in nodes:
            yield _Seen(asks_name, True)
        elif variable in names:
            yield _Seen(asks_name, False)


def _iri(t: TriplePattern) -> str:
    return t.predicate.value if isinstance(t.predicate, Iri) else ""


_NAMES = frozenset(("name", "title", "label"))


def _patterns(group: Group | None) -> Iterator[TriplePattern]:
    for element in group.elements if group is not None else ():
        match element:
            case BasicGraphPattern():
                yield from element.patterns
            case Optional() | GraphPattern():
                yield from _patterns(element.group)
            case Union():
                for branch in element.branches:
                    yield from _patterns(branch)
            case SubSelect():
                yield from _patterns(element.query.where)
            case Group():
                yield from _patterns(element)
            case _:
                pass
