"""Literals that the graph spells so, but in another form: with a language tag, as a number, as text. Suspicious, no proofs.

Engines differ in what they hold equal, so that nothing is proved; in SPARQL such a pattern or comparison has no solution.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proxy.index.values import ValueEntry
from proxy.query.effort import spend
from proxy.query.filters import FLIPPED
from proxy.query.literals import Family, family, interval, number
from proxy.query.model import TriplePattern
from proxy.query.term import XSD_STRING, Iri, Literal, Variable
from proxy.validation.explain_values import shown
from proxy.validation.finding import Finding, Severity
from proxy.validation.lexical import Words
from proxy.validation.observed import Observed, Pair
from proxy.validation.suggest import Names
from proxy.validation.supports import Supports

_MAX_LOOKED_UP = 50
"""Literals of one query; a look-up takes some ten microseconds."""


def literal_forms(words: Words, supports: Supports, names: Names) -> Iterator[Finding]:
    """Patterns whose literal their property has in another form only, and variables that are compared with such a literal."""
    observed = supports.observed
    if observed is None:
        return
    equal: dict[Variable, list[Literal]] = {}
    beyond: dict[Variable, Literal] = {}
    for v, operator, literal in words.compared:
        if operator == "=":
            equal.setdefault(v, []).append(literal)
        elif operator in FLIPPED and family(literal.datatype) is Family.TEXT:
            beyond.setdefault(v, literal)
    left = _MAX_LOOKED_UP
    for pattern in words.patterns:
        p, o = pattern.predicate, pattern.object
        wanted = [o] if isinstance(o, Literal) else equal.get(o, []) if isinstance(o, Variable) else []
        limit = beyond.get(o) if isinstance(o, Variable) else None
        if not isinstance(p, Iri) or not (wanted or limit) or len(wanted) > left or not supports.is_complete((), p.value):
            continue
        left -= len(wanted)
        spend(20 * len(wanted))
        if wanted and (pairs := observed.pairs(p.value, ())):
            found = [_other_forms(literal, pairs, observed) for literal in wanted]
            if all(found):
                yield _in_other_form(pattern, p, wanted[0], found[0], names)
        if limit and (of := _only_family(p.value, supports)) is not None:
            yield _compared_with_text(pattern, p, limit, of, names)


def _other_forms(literal: Literal, pairs: Sequence[Pair], observed: Observed) -> list[ValueEntry]:
    """What *pairs* have that is spelled like *literal*; nothing where one of them is of its form, or equal in value."""
    found = [e for e in observed.spelled(literal.lexical) if (e.subject_class, e.property) in pairs]
    if any(_has_form_of(e, literal) for e in found):
        return []
    of = family(literal.datatype)
    where = interval(literal.lexical, of)
    if where is not None and any((scale := observed.scale(pair, of)) is None or scale.may_hold(where) for pair in pairs):
        return []
    return found


def _has_form_of(entry: ValueEntry, literal: Literal) -> bool:
    if family(entry.datatype) is Family.NUMBER is family(literal.datatype):
        return True
    return entry.datatype == literal.datatype and (entry.language or "") == (literal.language or "").lower()


def _in_other_form(
    pattern: TriplePattern, property_: Iri, literal: Literal, found: Sequence[ValueEntry], names: Names
) -> Finding:
    counts: dict[Literal, int] = {}
    for e in found:
        form = Literal(e.text, e.datatype, e.language)
        counts[form] = counts.get(form, 0) + e.count
    there = sorted(counts, key=lambda form: (-counts[form], form.language or form.datatype))
    is_about_tags = all(family(form.datatype) is Family.TEXT for form in (literal, *there))
    said = [_as_form(form, names, is_about_tags) for form in (literal, *there[:3])]
    p = names.short(property_.value)
    text = shown(Literal(literal.lexical), names)
    return Finding(
        Severity.SUSPICIOUS,
        pattern.span.text,
        pattern.span.line,
        pattern.span.column,
        f"{p} has {text} in another form only.",
        f"{p} is never {said[0]}, but {', '.join(said[1:])}.",
        (
            *(f"as the graph spells it: {shown(form, names)}" for form in there[:3]),
            f"in whatever form: FILTER(STR(?x) = {text})",
        ),
        "literal-form",
    )


def _as_form(literal: Literal, names: Names, is_about_tags: bool) -> str:
    """*literal*, so that a number is told from a text, and a text from one in a language."""
    if family(literal.datatype) is Family.NUMBER:
        return f"the number {shown(literal, names)}"
    if literal.datatype != XSD_STRING:
        return shown(literal, names)
    return f"{shown(literal, names)} without a language tag" if is_about_tags else f"the text {shown(literal, names)}"


def _only_family(property_: str, supports: Supports) -> Family | None:
    """NUMBER or TIME, where all that *property_* leads to is of it."""
    index = supports.index
    kinds = [index.kinds[o] for o in set(index.object[index.cells(property_)].tolist())]
    families = {family(k.datatype) if k.datatype is not None else None for k in kinds}
    (of,) = families if len(families) == 1 else (None,)
    return of if of in (Family.NUMBER, Family.TIME) else None


def _compared_with_text(pattern: TriplePattern, property_: Iri, literal: Literal, of: Family, names: Names) -> Finding:
    p, what = names.short(property_.value), "numbers" if of is Family.NUMBER else "dates and times"
    convert = (f"as a number: {literal.lexical.strip()}",) if of is Family.NUMBER and number(literal.lexical) else ()
    return Finding(
        Severity.SUSPICIOUS,
        pattern.span.text,
        pattern.span.line,
        pattern.span.column,
        f"{pattern.object} is compared with a text, but {p} has none.",
        f"{p} leads to {what} only; {shown(literal, names)} is a text.",
        convert,
        "literal-form",
    )
