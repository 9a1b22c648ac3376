"""Words of a query that the graph does not use, and numbers that it keeps as text: suspicious, never proofs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from proxy.index.support import SupportIndex
from proxy.query.magic import is_magic
from proxy.query.model import (
    Aggregate,
    Comparison,
    GraphPattern,
    ParsedQuery,
    Service,
    TriplePattern,
    is_relative,
    walk,
)
from proxy.query.term import Iri, Literal, Variable
from proxy.validation.finding import Finding, Severity
from proxy.validation.prove import NUMERIC
from proxy.validation.suggest import Names, for_class, for_property

_MAX_PATTERNS = 1_000


@dataclass(frozen=True, slots=True)
class Words:
    """What the rules of this module look at, from one walk.

    patterns: triple patterns that ask the graph of the index: not those inside SERVICE or GRAPH, nor of a CONSTRUCT template.
    numeric: variables that are compared with a number, summed or averaged.
    """

    patterns: tuple[TriplePattern, ...]
    numeric: frozenset[Variable]


def words_of(query: ParsedQuery) -> Words:
    foreign: set[int] = set()
    patterns: list[TriplePattern] = []
    numeric: set[Variable] = set()
    for node in walk((query.where, query.having, query.projection, query.order_by)):
        match node:
            case Iri() | Literal() | Variable():
                continue
            case TriplePattern():
                if id(node) not in foreign and len(patterns) < _MAX_PATTERNS:
                    patterns.append(node)
            case Service(group=group) | GraphPattern(group=group):
                foreign.update(id(n) for n in walk(group) if isinstance(n, TriplePattern))
            case Comparison(_, Variable() as v, Literal(_, datatype)) | Comparison(_, Literal(_, datatype), Variable() as v):
                if datatype in NUMERIC:
                    numeric.add(v)
            case Aggregate("SUM" | "AVG", Variable() as v):
                numeric.add(v)
    return Words(tuple(patterns), frozenset(numeric))


def unknown_terms(words: Words, index: SupportIndex, names: Names) -> Iterator[Finding]:
    """Properties without triples and classes without instances, each once."""
    seen: set[str] = set()
    for pattern in words.patterns:
        for node in (pattern.predicate,) if isinstance(pattern.predicate, Iri) else walk(pattern.predicate):
            if not isinstance(node, Iri) or node.value in seen or is_magic(node) or is_relative(node):
                continue
            seen.add(node.value)
            if index.property_id(node.value) is not None or not index.is_complete_for((), (node.value,)):
                continue
            p = names.short(node.value)
            is_declared = node.value in index.vocabulary.declared_properties
            yield Finding(
                Severity.SUSPICIOUS,
                pattern.span.text,
                pattern.span.line,
                pattern.span.column,
                f"No triple has the property {p}.",
                f"{p} is {'declared but has' if is_declared else 'unknown: it has'} 0 triples.",
                for_property(node.value, index, names),
                "no-such-property",
            )
        class_ = pattern.object
        if (
            isinstance(pattern.predicate, Iri)
            and pattern.predicate.value == index.class_predicate
            and isinstance(class_, Iri)
            and class_.value not in seen
            and not index.class_instances.get(class_.value)
            and not is_magic(class_)
            and not is_relative(class_)
            and index.is_complete_for((class_.value,), (index.class_predicate,))
        ):
            seen.add(class_.value)
            c = names.short(class_.value)
            is_declared = class_.value in index.vocabulary.declared_classes
            yield Finding(
                Severity.SUSPICIOUS,
                pattern.span.text,
                pattern.span.line,
                pattern.span.column,
                f"No node has the class {c}.",
                f"{c} is {'declared but has' if is_declared else 'unknown: it has'} 0 instances.",
                for_class(class_.value, index, names),
                "class-not-populated",
            )


def text_as_number(words: Words, index: SupportIndex, names: Names) -> Iterator[Finding]:
    """Variables that are compared with a number, summed or averaged, while their property has only text.

    SPARQL makes that a type error, which drops or unbinds the row; engines differ, so it is no proof.
    """
    for pattern in words.patterns:
        if pattern.object not in words.numeric or not isinstance(pattern.predicate, Iri):
            continue
        property_ = pattern.predicate.value
        kinds = {index.kinds[o] for o in set(index.object[index.cells(property_)].tolist())}
        datatypes = {k.datatype for k in kinds if k.datatype is not None}
        if datatypes and len(datatypes) == len(kinds) and not datatypes & NUMERIC:
            p = names.short(property_)
            yield Finding(
                Severity.SUSPICIOUS,
                pattern.span.text,
                pattern.span.line,
                pattern.span.column,
                f"{pattern.object} is used as a number, but {p} has none.",
                f"{p} leads to {', '.join(sorted(names.short(d) for d in datatypes))} only.",
                (f"convert it, as in xsd:decimal(STR({pattern.object}))",),
                "text-as-number",
            )
