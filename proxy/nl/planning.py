"""Plans for one sketch: every part read in some way, best combinations first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from proxy.nl.anchors import Anchor
from proxy.nl.conditions import SCOPED, TEXT_OPERATORS, Conditions
from proxy.nl.ir import Aggregate, Operator
from proxy.nl.linking import Linker, ValueMention
from proxy.nl.ordering import BY_COUNT
from proxy.nl.plan import Condition, CountCondition, Plan, Shown, Sorting, owner
from proxy.nl.readings import Choice, Readings
from proxy.nl.schema import Attribute, ClassTerm, Schema
from proxy.nl.sketch import EVERYTHING, Item, Sketch, Slot
from proxy.nl.variants import Places, variants
from proxy.nl.words import STOPWORDS, stems

_ATTRIBUTES_MOST = 20
_NAMED = 0.5
"""Score from which words are taken to name an attribute that is to be absent."""


@dataclass(slots=True)
class Planner:
    """Makes the plans of one question. *combinations*: of readings, visited for each sketch at most."""

    schema: Schema
    linker: Linker
    items: Sequence[Item]
    mentions: Sequence[ValueMention]
    anchors: Sequence[Anchor]
    combinations: int = 90

    def plans(self, sketch: Sketch) -> Iterator[tuple[Plan, dict[str, float]]]:
        """Plans for *sketch*, each with the scores of its links, best combinations first."""
        items, mentions, anchors = self.items, self.mentions, self.anchors
        readings = Readings(self.schema, self.linker, items, anchors)
        conditions = Conditions(self.schema, self.linker, items, anchors)
        parts: list[list[Choice]] = []
        for k, slot in enumerate(sketch.select[:5]):
            parts.append(readings.shown(slot, sketch, f"select{k}"))
        for c in sketch.comparisons[:3]:
            choices = conditions.comparison(c, sketch, mentions)
            if choices:
                parts.append(choices)
        compared = {m for c in sketch.comparisons for m in c.mentions}
        for i, item in enumerate(items):
            if item.kind == "value" and item.mention not in compared:
                choices = conditions.value(mentions[item.mention], item.mention, i, Operator.EQUAL)
                if choices:
                    if not mentions[item.mention].is_quoted:
                        choices.append(Choice("value", None, min(0.25, choices[-1].score - 0.1)))
                    parts.append(choices)
        used_numbers = {n for c in sketch.comparisons for n in c.numbers} | (
            {float(sketch.order.limit)} if sketch.order and sketch.order.limit else set()
        )
        for i, item in enumerate(items):
            if item.kind == "number" and item.number is not None and item.number not in used_numbers:
                if choices := conditions.number(i, item):
                    parts.append([*choices, Choice("value", None, 0.15)])
        parts += conditions.flags(items, sketch)
        if sketch.order is not None and (choices := readings.order(sketch)):
            parts.append(choices)
        if sketch.group is not None and (choices := readings.group(sketch.group)):
            parts.append([*choices, Choice("group", None, 0.2)])
        parts = [p for p in parts if p]
        if not parts and anchors:
            parts = [[Choice("select0", Shown(self.schema.classes[a.class_]), 0.5 * a.score) for a in anchors[:3]]]
        if not parts:
            return
        for chosen in _best_first(parts, self.combinations):
            places = self._places(chosen, sketch)
            for plan, scores in self._plans_of(chosen, sketch):
                yield from variants(plan, scores, sketch, places, self.schema)

    def _places(self, chosen: Sequence[Choice], sketch: Sketch) -> Places:
        starts = {i.mention: i.start for i in self.items if i.mention >= 0}
        conditions = [(c, c.value) for c in chosen if isinstance(c.value, Condition)]
        of = {value: starts.get(c.mention, c.at) for c, value in conditions}
        return Places.read(of, {value: c.at for c, value in conditions if c.mention == SCOPED}, sketch, self.items)

    def _plans_of(self, chosen: Sequence[Choice], sketch: Sketch) -> Iterator[tuple[Plan, dict[str, float]]]:
        items, anchors = self.items, self.anchors
        shown = tuple(c.value for c in chosen if isinstance(c.value, Shown))
        shown = tuple(dict.fromkeys(shown))
        if sketch.note == EVERYTHING:
            about = [self.schema.classes[s.term.iri] for s in shown if isinstance(s.term, ClassTerm)]
            if not sketch.select:
                # "Everything about X": the class of what is called so.
                named = [c.value.attribute for c in chosen if isinstance(c.value, Condition)]
                about = [self.schema.classes[a.subject_class] for a in named if a == self.schema.name_of(a.subject_class)]
            if len(about) == 1:
                shown = self._everything(about[0]) or shown
        if sketch.is_last_optional and len(shown) > 1 and isinstance(shown[-1].term, Attribute):
            shown = (*shown[:-1], replace(shown[-1], is_optional=True))
        sorting = next((c.value for c in chosen if isinstance(c.value, Sorting)), None)
        if any(c.value == "shown" for c in chosen) and shown:
            first = shown[0].term if isinstance(shown[0].term, Attribute) else self.schema.name_of(shown[0].term.iri)
            count = next((s.term for s in shown if s.aggregate is Aggregate.COUNT), None)
            if sketch.order is not None and sketch.order.adjective == BY_COUNT and count is not None:
                sorting = Sorting(count, sketch.order.is_descending, None, Aggregate.COUNT)
            elif first is not None and sketch.order is not None:
                sorting = Sorting(first, sketch.order.is_descending, None)
        group = next((c.value for c in chosen if c.part == "group" and c.value is not None), None)
        counted = next((c.value for c in chosen if isinstance(c.value, CountCondition)), None)
        conditions: list[Condition] = []
        absent: list[Condition] = []
        negated_at = self.items[sketch.negated_from].start if sketch.negated_from is not None else None
        groups: dict[Attribute, list[Condition]] = {}
        for c in chosen:
            if not isinstance(c.value, Condition):
                continue
            if c.value.operator in TEXT_OPERATORS and negated_at is not None and c.part == "comparison":
                absent.append(c.value)
                continue
            if c.part == "value" and c.value.operator is Operator.EQUAL:
                position = next((i.start for i in items if i.mention == c.mention and c.mention >= 0), c.at)
                if negated_at is not None and position > negated_at:
                    absent.append(c.value)
                    continue
                groups.setdefault(c.value.attribute, []).append(c.value)
            else:
                conditions.append(c.value)
        if sketch.is_union and not sketch.is_both:
            conditions = _alternatives(conditions)
        also: list[Condition] = []
        for a, same in groups.items():
            distinct = list(dict.fromkeys(same))
            if len(distinct) == 1:
                conditions.append(distinct[0])
            elif sketch.is_both or not sketch.is_union:
                conditions.append(distinct[0])
                also += distinct[1:2]
            else:
                conditions.append(
                    Condition(
                        a,
                        Operator.IN,
                        tuple(x for c in distinct for x in c.literals),
                        tuple(n for c in distinct for n in c.numbers),
                    )
                )
        scores = {
            "chosen": sum(c.score for c in chosen) / max(1, len(chosen)),
            "least": min((c.score for c in chosen), default=0.0),
        }
        for key, prefix in (
            ("select", "select"),
            ("value", "value"),
            ("comparison", "comparison"),
            ("order", "order"),
            ("group", "group"),
        ):
            of_part = [c.score for c in chosen if c.part.startswith(prefix) and c.value is not None]
            scores[key] = sum(of_part) / len(of_part) if of_part else 0.0
            scores[f"no_{key}"] = float(not of_part)
        shown_scores = [c.score for c in chosen if c.part.startswith("select")]
        scores["select_least"] = min(shown_scores, default=0.0)
        scores["dropped"] = float(sum(c.value is None for c in chosen))
        if not shown and not sketch.is_ask:
            if isinstance(sorting, Sorting) and sorting.term is not None:
                shown = (Shown(self.schema.classes[owner(sorting.term)]),)
            elif anchors:
                shown = (Shown(self.schema.classes[anchors[0].class_]),)
            elif conditions:
                shown = (Shown(self.schema.classes[conditions[0].attribute.subject_class]),)
            else:
                return
            scores["default_shown"] = 1.0
        if (
            isinstance(sorting, Sorting)
            and isinstance(sorting.term, Attribute)
            and (sorting.limit, sorting.aggregate, group) == (1, None, None)
            and all(s.aggregate is not None for s in shown)
        ):
            # One row comes out anyway: the extreme has to be a condition.
            extreme = Aggregate.MAX if sorting.is_descending else Aggregate.MIN
            conditions.append(Condition(sorting.term, Operator.EQUAL, against=extreme))
            sorting = None
        scores["collapsed"] = float(sum(c.part.startswith("select") for c in chosen) - len(shown)) if shown else 0.0
        base = Plan(
            shown, tuple(conditions), tuple(also), counted if isinstance(counted, CountCondition) else None,
            sorting if isinstance(sorting, Sorting) else None, group if isinstance(group, (Attribute, ClassTerm)) else None,
            is_distinct=sketch.is_distinct, is_ask=sketch.is_ask, absent=tuple(absent),
        )  # fmt: skip
        strong = [a for a in anchors if a.score >= 0.99 and a.class_ not in self.schema.value_classes]
        if base.is_ask and not base.classes():
            if not strong:
                return
            base = replace(base, anchors=(strong[0].class_,))
        held = base.classes()
        extra = [a for a in strong if a.class_ not in held and not self._is_said_by_attribute(a, base)]
        after = [a for a in extra if negated_at is not None and items[a.at].start > negated_at]
        before = [a for a in extra if a not in after]
        if base.also:
            scores = scores | {"shares_value": 0.0}
            yield replace(base, anchors=tuple(a.class_ for a in before), shares_value=True), scores | {"shares_value": 1.0}
        if negated_at is None:
            yield replace(base, anchors=tuple(a.class_ for a in before)), scores
            if before:
                yield base, scores
            return
        positives = tuple(a.class_ for a in before)
        for a, score in self._lacked(held, negated_at) if not absent else ():
            lacked = (Condition(a, Operator.PRESENT),)
            yield replace(base, anchors=positives, absent=lacked), scores | {"absent_guess": 1.0 - score}
        if after:
            yield replace(base, anchors=positives, absent_class=after[0].class_), scores
        elif absent:
            yield replace(base, anchors=positives), scores
        else:
            root = held[0] if held else None
            for anchor in anchors:
                if items[anchor.at].start > negated_at and anchor.class_ != root and anchor.score >= 0.5:
                    yield replace(base, anchors=positives, absent_class=anchor.class_), scores
            near = {e.subject_class for e in self.schema.edges if e.object_class == root} | {
                e.object_class for e in self.schema.edges if e.subject_class == root
            }
            text = " ".join(i.lower for i in items if i.start > negated_at and i.kind == "word" and i.lower not in STOPWORDS)
            links = self.linker.class_links(text, 4) if text else []
            for link in links:
                if isinstance(link.term, ClassTerm) and link.term.iri in near:
                    yield (
                        replace(base, anchors=positives, absent_class=link.term.iri),
                        scores | {"absent_guess": 1.0 - link.score},
                    )
            for class_ in sorted(near)[:3]:
                yield replace(base, anchors=positives, absent_class=class_), scores | {"absent_guess": 1.0}

    def _lacked(self, held: Sequence[str], negated_at: int) -> list[tuple[Attribute, float]]:
        """Attributes of the classes *held* that the words behind the negation name and that not every instance has."""
        words = " ".join(i.lower for i in self.items if i.start > negated_at and i.kind == "word" and i.lower not in STOPWORDS)
        links = self.linker.attribute_links(Slot(words), 6) if words else []
        return [
            (x.term, x.score) for x in links
            if isinstance(x.term, Attribute) and x.term.subject_class in held[:1] and x.score >= _NAMED and not x.term.operator
            and x.term.count < self.schema.classes[x.term.subject_class].instances
        ][:2]  # fmt: skip

    def _everything(self, class_: ClassTerm) -> tuple[Shown, ...]:
        """All that instances have, what not every one has by OPTIONAL; what names them comes first."""
        held = [
            a for a in self.schema.attributes_of.get(class_.iri, ()) if a not in self.schema.relations and not a.operator
        ]  # fmt: skip
        name = self.schema.name_of(class_.iri)
        first = sorted(held, key=lambda a: (a != name, a.count < class_.instances))[:_ATTRIBUTES_MOST]
        return tuple(Shown(a, is_optional=a.count < class_.instances) for a in first)

    def _is_said_by_attribute(self, anchor: Anchor, plan: Plan) -> bool:
        """Whether the anchor's words belong to an attribute that the plan uses ("country code" names no country)."""
        words = set(stems(" ".join(i.lower for i in self.items[anchor.at : anchor.to])))
        used = [s.term for s in plan.shown] + [c.attribute for c in (*plan.conditions, *plan.absent)] + [plan.group]
        used += [plan.sorting.term if plan.sorting else None]
        return any(isinstance(t, Attribute) and words <= set(stems(t.words[0])) for t in used)


def _alternatives(conditions: list[Condition]) -> list[Condition]:
    """*conditions*, with two bounds of one number that cannot both be meant to hold ("over 8 or under 5") made alternatives."""
    bounds = [c for c in conditions if c.numbers and c.attribute.is_number and c.against is None]
    if len(bounds) != 2 or bounds[0].attribute != bounds[1].attribute or bounds[0] == bounds[1]:
        return conditions
    first, second = bounds
    return [c for c in conditions if c not in bounds] + [replace(first, otherwise=second)]


def _best_first(parts: Sequence[Sequence[Choice]], limit: int) -> Iterator[tuple[Choice, ...]]:
    """Combinations of one choice per part, by falling sum of scores, at most *limit*."""
    start = (0,) * len(parts)
    queue = [(-sum(p[0].score for p in parts), start)]
    seen = {start}
    for _ in range(limit):
        if not queue:
            return
        cost, at = heapq.heappop(queue)
        yield tuple(p[i] for p, i in zip(parts, at, strict=True))
        for k, i in enumerate(at):
            nxt = (*at[:k], i + 1, *at[k + 1 :])
            if i + 1 < len(parts[k]) and nxt not in seen:
                seen.add(nxt)
                heapq.heappush(queue, (cost + parts[k][i].score - parts[k][i + 1].score, nxt))
