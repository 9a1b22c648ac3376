"""Words of a query that the graph does not use, and numbers that it keeps as text: suspicious, never proofs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from proxy.index.support import SupportIndex
from proxy.query.literals import NUMERIC, Family, family, number
from proxy.query.magic import is_magic
from proxy.query.model import (
    Aggregate,
    Comparison,
    Exists,
    GraphPattern,
    In,
    InlineData,
    OrderCondition,
    ParsedQuery,
    Service,
    TriplePattern,
    is_relative,
    walk,
)
from proxy.query.term import Iri, Literal, Variable
from proxy.validation.finding import Finding, Severity
from proxy.validation.suggest import Names, for_class, for_property
from proxy.validation.supports import Supports

_MAX_PATTERNS = 1_000
_MAX_ROWS = 50
"""Of VALUES, whose literals are looked at."""
_MAX_SUGGESTED = 10
"""Unknown terms that suggestions are looked for; each is compared with all names of the graph. All are said."""


_TOLD = frozenset((Service, GraphPattern, Comparison, In, InlineData, Aggregate, OrderCondition, Exists))
"""Nodes that say more than triple patterns do."""


@dataclass(frozen=True, slots=True)
class Words:
    """What the rules of this module look at, from one walk.

    patterns: triple patterns that ask the graphs of the index: not those inside SERVICE, nor inside GRAPH where it does not
        cover named graphs, nor of a CONSTRUCT template.
    numeric: variables that are compared with a number, summed or averaged. sorted: those of ORDER BY, MIN and MAX.
    compared: (variable, operator, literal), with "=" for IN and short VALUES.
    """

    patterns: tuple[TriplePattern, ...]
    numeric: frozenset[Variable]
    sorted: frozenset[Variable]
    compared: tuple[tuple[Variable, str, Literal], ...] = ()


def words_of(query: ParsedQuery, *, covers_named_graphs: bool = False) -> Words:
    if not (query.template or query.group_by) and _TOLD.isdisjoint(map(type, query.nodes)):
        return Words(tuple(n for n in query.nodes if type(n) is TriplePattern)[:_MAX_PATTERNS], frozenset(), frozenset())
    foreign: set[int] = set()
    patterns: list[TriplePattern] = []
    numeric: set[Variable] = set()
    sorted_: set[Variable] = set()
    compared: list[tuple[Variable, str, Literal]] = []
    for node in walk((query.where, query.having, query.projection, query.order_by, query.values)):
        match node:
            case Iri() | Literal() | Variable():
                continue
            case TriplePattern():
                if id(node) not in foreign and len(patterns) < _MAX_PATTERNS:
                    patterns.append(node)
            case Service(group=group) | GraphPattern(group=group):
                if covers_named_graphs and isinstance(node, GraphPattern):
                    continue
                foreign.update(id(n) for n in walk(group) if isinstance(n, TriplePattern))
            case Comparison(operator, Variable() as v, Literal() as constant) | Comparison(
                operator, Literal() as constant, Variable() as v
            ):
                if constant.datatype in NUMERIC:
                    numeric.add(v)
                compared.append((v, operator, constant))
            case In(Variable() as v, options, False):
                compared += [(v, "=", o) for o in options if isinstance(o, Literal)]
            case InlineData(variables, rows) if len(rows) <= _MAX_ROWS:
                compared += [(v, "=", t) for row in rows for v, t in zip(variables, row, strict=True) if isinstance(t, Literal)]
            case Aggregate("SUM" | "AVG", Variable() as v):
                numeric.add(v)
            case Aggregate("MIN" | "MAX", Variable() as v) | OrderCondition(Variable() as v):
                sorted_.add(v)
    return Words(tuple(patterns), frozenset(numeric), frozenset(sorted_), tuple(compared[:_MAX_PATTERNS]))


def unknown_terms(words: Words, index: SupportIndex, names: Names) -> Iterator[Finding]:
    """Properties without triples and classes without instances, each once."""
    seen: set[str] = set()
    said = 0
    for pattern in words.patterns:
        for node in (pattern.predicate,) if isinstance(pattern.predicate, Iri) else walk(pattern.predicate):
            if not isinstance(node, Iri) or node.value in seen or is_magic(node) or is_relative(node):
                continue
            seen.add(node.value)
            if index.property_id(node.value) is not None or not index.is_complete_for((), (node.value,)):
                continue
            p = names.short(node.value)
            is_declared = node.value in index.vocabulary.declared_properties
            said += 1
            yield Finding(
                Severity.SUSPICIOUS,
                pattern.span.text,
                pattern.span.line,
                pattern.span.column,
                f"No triple has the property {p}.",
                f"{p} is {'declared but has' if is_declared else 'unknown: it has'} 0 triples.",
                for_property(node.value, index, names) if said <= _MAX_SUGGESTED else (),
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
            said += 1
            yield Finding(
                Severity.SUSPICIOUS,
                pattern.span.text,
                pattern.span.line,
                pattern.span.column,
                f"No node has the class {c}.",
                f"{c} is {'declared but has' if is_declared else 'unknown: it has'} 0 instances.",
                for_class(class_.value, index, names) if said <= _MAX_SUGGESTED else (),
                "class-not-populated",
            )


def text_as_number(words: Words, supports: Supports, names: Names) -> Iterator[Finding]:
    """Variables that are compared with a number, summed, averaged or sorted, while their property has only text.

    SPARQL makes a comparison with a number a type error, which drops or unbinds the row; engines differ, so it is no proof.
    Text that looks like numbers is sorted, and its MIN and MAX found, letter by letter: 10 before 9.
    """
    index = supports.index
    for pattern in words.patterns:
        is_compared = pattern.object in words.numeric
        if not isinstance(pattern.predicate, Iri) or not (is_compared or pattern.object in words.sorted):
            continue
        property_ = pattern.predicate.value
        kinds = {index.kinds[o] for o in set(index.object[index.cells(property_)].tolist())}
        datatypes = {k.datatype for k in kinds if k.datatype is not None}
        if not datatypes or len(datatypes) < len(kinds) or any(family(d) is not Family.TEXT for d in datatypes):
            continue
        if not is_compared and not _looks_numeric(property_, supports):
            continue
        p = names.short(property_)
        message = (
            f"{pattern.object} is used as a number, but {p} has none."
            if is_compared
            else f"{pattern.object} is sorted as text, but {p} looks like numbers."
        )
        yield Finding(
            Severity.SUSPICIOUS,
            pattern.span.text,
            pattern.span.line,
            pattern.span.column,
            message,
            f"{p} leads to {', '.join(sorted(names.short(d) for d in datatypes))} only.",
            (f"convert it, as in xsd:decimal(STR({pattern.object}))",),
            "text-as-number",
        )


def _looks_numeric(property_: str, supports: Supports) -> bool:
    """Whether the texts of *property_* that are known best are all numbers."""
    if supports.observed is None:
        return False
    pairs = supports.observed.pairs(property_, ())
    texts = supports.observed.examples(pairs, limit=20) if pairs else []
    return bool(texts) and all(number(t) is not None for t in texts)
