"""A plan in plain words, for people and for the encoder."""

from __future__ import annotations

from proxy.nl.ir import Aggregate, Operator
from proxy.nl.plan import Condition, Plan
from proxy.nl.schema import Attribute, ClassTerm, Schema


def verbalise(plan: Plan, schema: Schema) -> str:
    """*plan* in plain words, for people and for the encoder."""

    def words(term: Attribute | ClassTerm) -> str:
        return term.words[0]

    shown = []
    for s in plan.shown:
        text = words(s.term)
        if s.aggregate is Aggregate.COUNT:
            text = f"number of {'different ' if s.is_distinct else ''}{text}"
        elif s.aggregate is not None:
            text = f"{_SPOKEN[s.aggregate]} {text}"
        elif isinstance(s.term, ClassTerm):
            text = f"{text}"
        shown.append(text)
    subject = schema.classes[plan.classes()[0]].words[0] if plan.classes() else ""
    parts = [" and ".join(shown)]
    if plan.nested is not None:
        parts.insert(0, _SPOKEN[plan.nested])
    if plan.is_ask:
        parts = [f"is there a {subject}"]
    elif subject and any(isinstance(s.term, Attribute) for s in plan.shown):
        parts.append(f"of {subject}")
    named = {subject}
    for anchor in plan.anchors:
        anchor_words = schema.classes[anchor].words[0]
        if anchor_words not in named:
            parts.append(f"with {anchor_words}")
            named.add(anchor_words)
    for c in (*plan.conditions, *plan.also):
        parts.append(("and " if len(parts) > 2 else "") + _condition(c, schema, subject))
    if plan.either:
        parts.append(" or ".join(_condition(c, schema, subject) for c in plan.either))
    if plan.besides is not None:
        parts.append(f"and {plan.besides.words[0]} of {schema.classes[plan.besides.subject_class].words[0]}")
    if plan.counted is not None:
        what = words(plan.counted.term) if plan.counted.term is not None else "them"
        spoken = "" if plan.counted.aggregate is Aggregate.COUNT else f"{_SPOKEN[plan.counted.aggregate]} "
        parts.append(f"with {spoken}{_COMPARED[plan.counted.operator]} {plan.counted.number:g} {what}")
    if plan.absent_class is not None or plan.absent:
        what = schema.classes[plan.absent_class].words[0] if plan.absent_class else ""
        parts.append(
            ("without any " if plan.absent_shares_value else "without ")
            + f"{what} "
            + " ".join(_condition(c, schema, subject) for c in plan.absent)
        )
    if plan.group is not None:
        parts.append(f"for each {words(plan.group)}")
    if plan.sorting is not None:
        s_ = plan.sorting
        what = "of them" if s_.term is None else words(s_.term)
        if s_.limit is None:
            number = "" if isinstance(s_.term, Attribute) else "number of "
            parts.append(f"sorted by {number}{what}{' descending' if s_.is_descending else ''}")
        elif isinstance(s_.term, Attribute):
            spoken = _SPOKEN[s_.aggregate] if s_.aggregate is not None else ""
            parts.append(f"with the {'highest' if s_.is_descending else 'lowest'} {spoken} {what}")
        else:
            parts.append(f"with the {'most' if s_.is_descending else 'fewest'} {what}")
        if s_.limit is not None and s_.limit > 1:
            parts.append(f"top {s_.limit}")
    return " ".join(" ".join(parts).split())


_SPOKEN = {
    Aggregate.AVG: "average",
    Aggregate.SUM: "total",
    Aggregate.MIN: "minimum",
    Aggregate.MAX: "maximum",
    Aggregate.COUNT: "number of",
}
_COMPARED = {
    Operator.GREATER: "more than", Operator.AT_LEAST: "at least", Operator.LESS: "less than", Operator.AT_MOST: "at most",
    Operator.EQUAL: "exactly", Operator.NOT_EQUAL: "not", Operator.BETWEEN: "between", Operator.IN: "one of",
    Operator.CONTAINS: "containing", Operator.STARTS: "starting with", Operator.ENDS: "ending with",
}  # fmt: skip


def _condition(c: Condition, schema: Schema, subject: str) -> str:
    owner_words = schema.classes[c.attribute.subject_class].words[0]
    name = c.attribute.words[0] if owner_words == subject else f"{owner_words} {c.attribute.words[0]}"
    if c.against is not None:
        inside = " of those " + " and ".join(_condition(x, schema, subject) for x in c.within) if c.within else ""
        return f"with {name} {_COMPARED[c.operator]} the {_SPOKEN[c.against]}{inside}"
    if c.otherwise is not None:
        return f"with {name} " + " or ".join(f"{_COMPARED[x.operator]} {x.numbers[0]:g}" for x in (c, c.otherwise))
    if c.periods:
        return f"with {name} {_COMPARED[c.operator]} {' and '.join(p.first + p.moment for p in c.periods)}"
    if c.operator is Operator.PRESENT:
        return name
    values = " or ".join([x.lexical for x in c.literals] or [f"{n:g}" for n in c.numbers])
    joint = "" if c.operator in (Operator.EQUAL, Operator.IN) else f"{_COMPARED[c.operator]} "
    return f"with {name} {joint}{values}"
