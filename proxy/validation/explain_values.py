"""What to say where the literals of a property are the reason: which value is missing, what there is, what is spelled alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proxy.query.conditions import Bound, Condition, Contains, Edge, OneOf
from proxy.query.literals import Family, family
from proxy.query.render import render_term
from proxy.query.term import XSD_STRING, Literal
from proxy.validation.observed import Observed, Pair
from proxy.validation.suggest import Names
from proxy.validation.supports import Supports

_MAX_SHOWN = 80
_MAX_LISTED = 3


def shown(literal: Literal, names: Names) -> str:
    """A literal as an author writes it, cut when long."""
    text = literal.lexical if len(literal.lexical) <= _MAX_SHOWN else literal.lexical[:_MAX_SHOWN] + "…"
    if family(literal.datatype) is Family.NUMBER:
        return text
    quoted = render_term(Literal(text))
    if literal.language is not None:
        return f"{quoted}@{literal.language}"
    return quoted if literal.datatype == XSD_STRING else f"{quoted}^^{names.short(literal.datatype)}"


def about_values(
    core: Sequence[Condition],
    main: Edge,
    property_: str,
    asserted: Mapping[object, list[str]],
    supports: Supports,
    names: Names,
) -> tuple[str, str, str, tuple[str, ...]] | None:
    """Rule, message, evidence and suggestions; None: it is not one value of one property that contradicts."""
    observed = supports.observed
    assert observed is not None
    pairs = observed.pairs(property_, asserted.get(main.subject, ()))
    if not pairs:
        return None
    p = names.short(property_)
    classes = [c for c, _ in pairs if c is not None]
    whose = f"{p} of {names.short(classes[0])}" if len(pairs) == 1 and classes else p
    bounds = [c for c in core if isinstance(c, Bound) and c.variable == main.object]
    if bounds:
        return _about_range(bounds, pairs, whose, observed, names)
    texts = [c for c in core if isinstance(c, Contains) and c.variable == main.object]
    if texts:
        return _about_text(texts[0], pairs, whose, observed, names)
    wanted = [main.object] if isinstance(main.object, Literal) else []
    for c in core:
        if isinstance(c, OneOf) and c.variable == main.object:
            wanted += [t for t in c.terms if isinstance(t, Literal)]
    if not wanted:
        return None
    listed = " or ".join(shown(t, names) for t in wanted[:_MAX_LISTED]) + (" …" if len(wanted) > _MAX_LISTED else "")
    count = sum(observed.distinct(pair) for pair in pairs)
    examples = ", ".join(render_term(Literal(text[:_MAX_SHOWN])) for text in observed.examples(pairs))
    suggestions = [
        f"as the graph spells it: {shown(Literal(text, datatype, language), names)}"
        for t in wanted[:_MAX_LISTED]
        for text, language, datatype in observed.alike(pairs, t.lexical)
    ]
    evidence = f"{whose} has {count:,} different value{'' if count == 1 else 's'}, such as {examples}."
    return "no-such-value", f"No {whose} is {listed}.", evidence, tuple(dict.fromkeys(suggestions))[:4]


def _about_text(
    wanted: Contains, pairs: Sequence[Pair], whose: str, observed: Observed, names: Names
) -> tuple[str, str, str, tuple[str, ...]]:
    examples = ", ".join(render_term(Literal(text[:_MAX_SHOWN])) for text in observed.examples(pairs))
    count = sum(observed.distinct(pair) for pair in pairs)
    alike = [Literal(text, datatype, language) for text, language, datatype in observed.alike(pairs, wanted.text)]
    return (
        "no-such-value",
        f"No {whose} contains {shown(Literal(wanted.text), names)}.",
        f"{whose} has {count:,} different value{'' if count == 1 else 's'}, such as {examples}.",
        tuple(f"as the graph spells it: {shown(literal, names)}" for literal in alike),
    )


def _about_range(
    bounds: Sequence[Bound], pairs: Sequence[Pair], whose: str, observed: Observed, names: Names
) -> tuple[str, str, str, tuple[str, ...]]:
    said = " and ".join(f"{b.operator} {shown(b.limit, names)}" for b in bounds)
    between = observed.range_of(pairs, family(bounds[0].limit.datatype))
    evidence = f"{whose} goes from {between[0]} to {between[1]}." if between else f"{whose} has no such value."
    return "out-of-range", f"No {whose} is {said}.", evidence, ()
