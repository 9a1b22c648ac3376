"""A contradicted core → what to say about it: the pattern at fault, the rule, the evidence, what would work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proxy.index.support import SupportIndex
from proxy.query.conditions import Condition, Edge, GroupSize, Impossible, OneOf
from proxy.query.model import Span, TriplePattern
from proxy.query.term import Iri, Literal
from proxy.validation.explain_values import about_values, shown
from proxy.validation.group_size import most_solutions
from proxy.validation.prove import is_contradicted
from proxy.validation.suggest import Names, for_class, for_node, for_property
from proxy.validation.supports import Supports, supports_of


@dataclass(frozen=True, slots=True)
class Explanation:
    span: Span
    rule: str
    message: str
    evidence: str
    suggestions: tuple[str, ...] = ()


_IMPOSSIBLE = {
    "limit-zero": "LIMIT 0 asks for no solutions.",
    "no-values": "VALUES without rows joins with nothing.",
    "filter-false": "FILTER(false) lets nothing through.",
    "in-nothing": "IN () is true of nothing.",
    "having-never": "HAVING is true of no group.",
}


def span_of(condition: Condition) -> Span:
    return condition.origin.span if isinstance(condition, Edge) else condition.span


def culprit(core: Sequence[Condition], index: SupportIndex, within: frozenset[int] | None = None) -> Condition:
    """The condition of *core* to hang the message on: the last one that is a property rather than a class, if there is one.

    Args:
        within: ids of the triple patterns that it should be among.
    """
    edges = [c for c in core if isinstance(c, Edge)]
    if within is not None:
        edges = [e for e in edges if id(e.origin) in within] or edges
    for e in reversed(edges):
        if not _class_of(e, index):
            return e
    return edges[-1] if edges else core[-1]


def _class_of(edge: Edge, index: SupportIndex) -> str | None:
    if isinstance(edge.predicate, Iri) and edge.predicate.value == index.class_predicate and isinstance(edge.object, Iri):
        return edge.object.value
    return None


def explain(
    core: Sequence[Condition],
    supports: Supports,
    names: Names,
    *,
    context: Sequence[Condition] = (),
    within: frozenset[int] | None = None,
) -> Explanation:
    """Say why no term of the graph meets all of *core*.

    Args:
        context: the conjunction that *core* was found in; classes asserted there make better suggestions.
        within: as for ``culprit``.
    """
    for c in core:
        if isinstance(c, Impossible):
            return Explanation(c.span, c.rule, _IMPOSSIBLE[c.rule], "This holds whatever the data.")
    index = supports.index
    for c in core:
        if isinstance(c, GroupSize) and len(core) == 1:
            return Explanation(
                c.span,
                "group-too-small",
                f"No group has {c.at_least:,} solutions, as HAVING asks for.",
                f"By the triples of its properties a group can have {most_solutions(c, supports) or 0:,} at most.",
            )
    for c in core:
        if isinstance(c, Edge) and isinstance(c.subject, Literal):
            return _about_literal_subject(c, c.subject, supports, names)
    main = culprit(core, index, within)
    if isinstance(main, Edge) and isinstance(main.predicate, Iri) and supports.observed is not None:
        if not is_contradicted(core, supports_of(index)):
            # without the values there would be no contradiction: they are the reason
            found = about_values(core, main, main.predicate.value, _asserted(context or core, index), supports, names)
            if found is not None:
                return Explanation(main.origin.span, *found)
    if not isinstance(main, Edge):
        return Explanation(
            span_of(main), "disjoint-filters", "No term meets these conditions at once.", "They exclude each other."
        )
    span = main.origin.span
    if (absent := _absent(main, core, supports)) is not None:
        return Explanation(
            span,
            "no-such-node",
            f"{names.short(absent)} is no node of the graph.",
            f"{names.short(absent)} is subject or object of 0 triples.",
            for_node(absent, supports, names),
        )
    class_ = _class_of(main, index)
    if class_ is not None:
        return _about_classes(core, class_, span, index, names)
    if not isinstance(main.predicate, Iri):
        return _about_many(core, span, index, names)
    return _about_property(core, main, main.predicate.value, supports, names, context)


def _about_literal_subject(edge: Edge, literal: Literal, supports: Supports, names: Names) -> Explanation:
    by_name: dict[str, None] = {}
    for e in supports.observed.spelled(literal.lexical) if supports.observed is not None else ():
        if e.property is not None:
            by_name[f"by name: ?x {names.short(e.property)} {shown(Literal(e.text, e.datatype, e.language), names)}"] = None
    return Explanation(
        edge.origin.span,
        "literal-subject",
        f"{shown(literal, names)} is a literal, and no literal is the subject of a triple.",
        "In RDF a subject is an IRI or a blank node.",
        tuple(by_name)[:2],
    )


def _absent(main: Edge, core: Sequence[Condition], supports: Supports) -> str | None:
    """The IRI of *main* that is no node, if that alone contradicts: but for classes, which have words of their own."""
    index = supports.index
    if index.nodes is None or len(core) > 1 + sum(not isinstance(c, Edge) for c in core):
        return None
    places = [main.subject, main.object] if _class_of(main, index) is None else [main.subject]
    wanted = [p.value for p in places if isinstance(p, Iri)]
    for c in core:
        if isinstance(c, OneOf) and c.variable in places:
            wanted += [t.value for t in c.terms if isinstance(t, Iri)]
    return next((iri for iri in wanted if index.nodes.kind(iri) is None), None)


def _asserted(core: Sequence[Condition], index: SupportIndex) -> dict[object, list[str]]:
    found: dict[object, list[str]] = {}
    for c in core:
        if isinstance(c, Edge) and (class_ := _class_of(c, index)):
            found.setdefault(c.subject, []).append(class_)
    return found


def _about_classes(core: Sequence[Condition], class_: str, span: Span, index: SupportIndex, names: Names) -> Explanation:
    classes = [c for found in _asserted(core, index).values() for c in found]
    counts = index.class_instances
    if not counts.get(class_):
        is_declared = class_ in index.vocabulary.declared_classes or class_ in index.vocabulary.superclasses
        return Explanation(
            span,
            "class-not-populated",
            f"No node has the class {names.short(class_)}.",
            f"{names.short(class_)} is {'declared but has' if is_declared else 'unknown: it has'} 0 instances.",
            for_class(class_, index, names),
        )
    listed = ", ".join(f"{names.short(c)} ({counts.get(c, 0):,} instances)" for c in dict.fromkeys(classes))
    return Explanation(
        span,
        "classes-never-meet" if len(set(classes)) > 1 else "class-in-context",
        "No node has all of these classes."
        if len(set(classes)) > 1
        else f"No {names.short(class_)} meets the other conditions.",
        listed,
    )


def _about_property(
    core: Sequence[Condition],
    main: Edge,
    property_: str,
    supports: Supports,
    names: Names,
    context: Sequence[Condition],
) -> Explanation:
    span, index = main.origin.span, supports.index
    p = names.short(property_)
    users = index.subject_classes(property_)
    total = int(index.count[index.cells(property_)].sum())
    asserted = _asserted(core, index)
    subjects, objects = asserted.get(main.subject, []), asserted.get(main.object, [])
    others = [c for c in core if isinstance(c, Edge) and c is not main and not _class_of(c, index)]
    if not total:
        return Explanation(
            span,
            "no-such-property",
            f"No triple has the property {p}.",
            f"{p} has 0 triples.",
            for_property(property_, index, names, subject_classes=_asserted(context, index).get(main.subject, []))
            or for_property(property_, index, names),
        )
    used = f"{p} is used by {names.counted(users)}"
    if others:
        return _about_many(core, span, index, names)
    if subjects and not objects and not isinstance(main.object, Literal):
        c = subjects[0]
        return Explanation(
            span,
            "property-of-class",
            f"No {names.short(c)} has the property {p}.",
            f"0 of {index.class_instances.get(c, 0):,} {names.short(c)} have {p}; {used}.",
            for_property(property_, index, names, subject_classes=subjects),
        )
    leads: dict[str | None, int] = {}
    for user in subjects or users:
        for target, n in index.targets(user, property_).items():
            leads[target] = leads.get(target, 0) + n
    there = f"{p} leads to {names.counted(leads)}" if leads else used
    if objects:
        what = f"{names.short(subjects[0])} to {names.short(objects[0])}" if subjects else f"to {names.short(objects[0])}"
        return Explanation(
            span,
            "property-to-class",
            f"{p} never leads {'from ' if subjects else ''}{what}.",
            f"{there}.",
            for_property(property_, index, names, subject_classes=subjects, object_class=objects[0])
            or for_property(property_, index, names),
        )
    if isinstance(main.object, Literal):
        return Explanation(
            span,
            "object-form",
            f"{p} never leads to a literal of this kind here.",
            f"{there}; the pattern has a {names.short(main.object.datatype)}.",
            _instead_of(main.object, property_, leads, supports, names),
        )
    if isinstance(main.object, Iri):
        o = main.object.value
        an_instance = (f"an instance of it: {p} ?x . ?x a {names.short(o)}",) if leads.get(o) else ()
        return Explanation(span, "object-form", f"{p} never leads to {names.short(o)} here.", f"{there}.", an_instance)
    return Explanation(span, "no-such-edge", f"Nothing meets the conditions on {p} at once.", f"{used}; {there}.")


def _instead_of(
    literal: Literal, property_: str, leads: Mapping[str | None, int], supports: Supports, names: Names
) -> tuple[str, ...]:
    """What is spelled like *literal*: a literal of *property_* of another kind, or the name of a node that it leads to."""
    if supports.observed is None:
        return ()
    own: dict[str, None] = {}
    by_name: dict[str, None] = {}
    for e in supports.observed.spelled(literal.lexical):
        spelled = shown(Literal(e.text, e.datatype, e.language), names)
        if e.property == property_:
            own[f"as the graph spells it: {spelled}"] = None
        elif e.property is not None and e.subject_class in leads:
            by_name[f"by name: {names.short(property_)}/{names.short(e.property)} {spelled}"] = None
    return (*list(own)[:2], *list(by_name)[:2])


def _about_many(core: Sequence[Condition], span: Span, index: SupportIndex, names: Names) -> Explanation:
    origins: dict[TriplePattern, None] = {}
    facts: list[str] = []
    for c in core:
        if isinstance(c, Edge):
            origins[c.origin] = None
            if isinstance(c.predicate, Iri) and not _class_of(c, index):
                users = index.subject_classes(c.predicate.value)
                facts.append(f"{names.short(c.predicate.value)} is used by {names.counted(users)}")
            elif (class_ := _class_of(c, index)) is not None:
                facts.append(f"{names.short(class_)} has {index.class_instances.get(class_, 0):,} instances")
    listed = " . ".join(o.span.text for o in origins) or span.text
    return Explanation(
        span,
        "patterns-never-meet",
        f"No nodes meet these patterns together: {listed}",
        f"{'; '.join(dict.fromkeys(facts)) or 'no kinds of node are joined so'}.",
    )
