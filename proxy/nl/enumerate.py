"""Supported query graphs for a question: every sketch, with its slots read in several ways, joined along edges that exist.

Bounded: a slot keeps a few readings, combinations are visited best first up to a limit, each is joined in at most three ways.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from proxy.nl.assemble import Condition, CountCondition, Plan, Shown, Sorting, assemble, owner, verbalise
from proxy.nl.ir import Aggregate, Operator, Query
from proxy.nl.linking import Link, Linker, ValueMention
from proxy.nl.schema import Attribute, ClassTerm, Schema
from proxy.nl.sketch import Comparison, Item, Sketch, Slot
from proxy.nl.tree import Tree, connect
from proxy.nl.words import STOPWORDS, stem, stems
from proxy.query.term import RDF_LANG_STRING, XSD, XSD_STRING, Literal


@dataclass(frozen=True, slots=True)
class Choice:
    """One reading of one part of a sketch. *value* is what the plan gets; None: the part is left out."""

    part: str
    value: object
    score: float
    mention: int = -1
    at: int = 0


@dataclass(slots=True)
class Candidate:
    """A query that may be meant. *features* are what the ranking sees."""

    plan: Plan
    query: Query
    words: str
    features: dict[str, float]
    note: str = ""
    score: float = 0.0
    sparql: str = ""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A class that the question names at item *at*."""

    class_: str
    score: float
    at: int
    to: int


@dataclass(slots=True)
class Enumerator:
    """Makes the candidates of one question after the other; stateless between them."""

    schema: Schema
    linker: Linker
    combinations: int = 90
    _items: Sequence[Item] = field(default_factory=tuple)

    def candidates(
        self, items: Sequence[Item], mentions: Sequence[ValueMention], found: Sequence[Sketch], *, limit: int
    ) -> list[Candidate]:
        """At most *limit* candidates, those of likelier sketches first; no two render alike."""
        self._items = items
        self._warm(items, found)
        anchors = self.anchors(items)
        seen: set[Query] = set()
        out: list[Candidate] = []
        for rank, sketch in enumerate(found):
            before = len(out)
            for plan, scores in self._plans(sketch, items, mentions, anchors):
                for candidate in self._variants(plan, scores, sketch, rank, anchors):
                    if candidate.query not in seen:
                        seen.add(candidate.query)
                        out.append(candidate)
                if len(out) - before >= limit // (1 if rank == 0 else 2):
                    break
            if len(out) >= limit * 2:
                break
        return out

    def _warm(self, items: Sequence[Item], found: Sequence[Sketch]) -> None:
        """Encode all phrases in one batch; later look-ups hit the encoder's cache."""
        texts: set[str] = set()
        for sketch in found:
            slots = [
                *sketch.select,
                *(c.slot for c in sketch.comparisons),
                sketch.group,
                sketch.order.slot if sketch.order else None,
            ]
            for s in slots:
                if s is not None and s.words:
                    texts |= {s.words, f"{s.context} {s.words}".strip()}
                    if s.context:
                        texts.add(s.context)
        for i, item in enumerate(items):
            if item.kind in ("value", "number"):
                for s in self._near(i):
                    texts.add(s.words)
        self.linker._encoder.encode(sorted(texts))

    # -- anchors

    def anchors(self, items: Sequence[Item]) -> list[Anchor]:
        """Classes that the question names outright (all their words, or their head word), best first."""
        found: dict[str, Anchor] = {}
        words = [stem(i.lower) if i.kind == "word" else "\x00" for i in items]
        for c in self.linker.classes:
            for phrase in c.words:
                wanted = stems(phrase)
                n = len(wanted)
                for i in range(len(words) - n + 1):
                    if tuple(words[i : i + n]) == wanted or (n > 1 and "".join(wanted) == words[i]):
                        best = found.get(c.iri)
                        if best is None or best.score < 1.0:
                            found[c.iri] = Anchor(c.iri, 1.0, i, i + n)
                if n > 1 and c.iri not in found:
                    for i, w in enumerate(words):
                        if w in wanted and w not in STOPWORDS and len(w) > 2:
                            score = 0.62 if w == wanted[-1] else 0.5
                            hits = sum(x in words for x in wanted) / n
                            score = max(score, 0.5 + 0.4 * hits if hits > 0.5 else score)
                            if c.iri not in found or found[c.iri].score < score:
                                found[c.iri] = Anchor(c.iri, score, i, i + 1)
        for i, w in enumerate(words):
            if (general := self.linker.heads.get(w)) and general not in found:
                found[general] = Anchor(general, 0.99, i, i + 1)
        return sorted(found.values(), key=lambda a: (-a.score, a.at))

    # -- readings of slots

    def _shown_choices(self, slot: Slot, sketch: Sketch, anchors: Sequence[Anchor], part: str) -> list[Choice]:
        out: list[Choice] = []
        classes = self.linker.class_links(slot.words) if slot.words else []
        attributes = self.linker.attribute_links(slot) if slot.words else []
        anchored = {a.class_: a.score for a in anchors}

        def bonus(term: Attribute | ClassTerm) -> float:
            return 0.1 * anchored.get(owner(term), 0.0)

        if slot.aggregate is Aggregate.COUNT:
            for link in classes:
                if link.score >= 0.4:
                    assert isinstance(link.term, ClassTerm)
                    out.append(Choice(part, Shown(link.term, Aggregate.COUNT), link.score + bonus(link.term)))
            for link in attributes[:5]:
                if link.score >= 0.5:
                    out.append(
                        Choice(
                            part,
                            Shown(link.term, Aggregate.COUNT, True),
                            link.score + bonus(link.term) + (0.12 if slot.is_distinct else -0.2),
                        )
                    )
            for a in anchors[:3]:
                term = self.schema.classes[a.class_]
                if not any(isinstance(c.value, Shown) and c.value.term == term for c in out):
                    out.append(Choice(part, Shown(term, Aggregate.COUNT), 0.45 * a.score if slot.words else 0.75 * a.score))
            if slot.context:
                for link in self.linker.class_links(slot.context, 2):
                    if link.score > 0.8 and isinstance(link.term, ClassTerm):
                        out.append(Choice(part, Shown(link.term, Aggregate.COUNT), link.score - 0.25))
        elif slot.aggregate is not None:
            for link in self.linker.numeric(attributes)[:6]:
                out.append(Choice(part, Shown(link.term, slot.aggregate), link.score + bonus(link.term)))
            if slot.aggregate is Aggregate.SUM:
                for link in classes[:2]:
                    if link.score > 0.8 and isinstance(link.term, ClassTerm):
                        out.append(Choice(part, Shown(link.term, Aggregate.COUNT), link.score - 0.1))
        else:
            for link in attributes[:7]:
                if link.score >= 0.25:
                    out.append(Choice(part, Shown(link.term), link.score + bonus(link.term)))
            for link in classes[:3]:
                if link.score >= 0.45 and isinstance(link.term, ClassTerm):
                    out.append(Choice(part, Shown(link.term), link.score + bonus(link.term) - 0.04))
        out.sort(key=lambda c: -c.score)
        best: dict[object, Choice] = {}
        for c in out:
            best.setdefault(c.value, c)
        return list(best.values())[:7]

    def _near(self, at: int) -> list[Slot]:
        """The words around item *at*, as slots: those before it, and those right after."""
        before: list[str] = []
        i = at - 1
        while i >= 0 and len(before) < 3 and self._items[i].kind == "word":
            w = self._items[i].lower
            if w not in STOPWORDS and w not in ("named", "called", "equal", "equals", "than"):
                before.insert(0, w)
            elif before and w not in ("of", "the", "is", "name"):
                break
            i -= 1
        after: list[str] = []
        i = at + 1
        while i < len(self._items) and len(after) < 2 and self._items[i].kind == "word":
            w = self._items[i].lower
            if w in STOPWORDS:
                break
            after.append(w)
            i += 1
        return [Slot(" ".join(x), "", at, at) for x in (before, after) if x]

    def _value_choices(
        self, mention: ValueMention, k: int, at: int, anchors: Sequence[Anchor], operator: Operator
    ) -> list[Choice]:
        anchored = {a.class_: a.score for a in anchors}
        near: dict[Attribute, float] = {}
        for n, slot in enumerate(self._near(at)):
            for link in self.linker.attribute_links(slot, 12):
                if isinstance(link.term, Attribute):
                    near[link.term] = max(near.get(link.term, 0.0), link.score * (1.0 if n == 0 else 0.9))
        by_key = {(a.subject_class, a.path[0]): a for a in self.schema.attributes if len(a.path) == 1}
        best: dict[Attribute, Choice] = {}
        for entry, match in mention.entries:
            a = by_key.get((entry.subject_class or "", entry.property or ""))
            if a is None:
                continue
            score = 0.55 * match + 0.3 * min(1.0, near.get(a, 0.0)) + 0.12 * anchored.get(a.subject_class, 0.0)
            name = self.schema.name_of(a.subject_class)
            if name is a or a.words[0].split()[-1] == "name":
                score += 0.06
            literal = Literal(entry.text, entry.datatype or XSD_STRING, entry.language)
            if literal.language is not None:
                literal = replace(literal, datatype=RDF_LANG_STRING)
            if a not in best or best[a].score < score:
                best[a] = Choice("value", Condition(a, operator, (literal,)), score, k)
        out = sorted(best.values(), key=lambda c: -c.score)[:6]
        if not out:
            text = Literal(mention.text)
            for a, score in sorted(near.items(), key=lambda x: -x[1])[:3]:
                if not a.is_number:
                    out.append(Choice("value", Condition(a, Operator.CONTAINS, (text,)), 0.35 * score + 0.1, k))
            for link in self.linker.class_links(mention.text, 2) if not out else ():
                # A name that nothing has: said all the same, so that the answer is none and not another one's.
                name = self.schema.name_of(owner(link.term))
                if name is not None and link.score >= 0.3:
                    out.append(Choice("value", Condition(name, Operator.CONTAINS, (text,)), 0.35 * link.score + 0.1, k))
        return out

    def _comparison_choices(
        self, c: Comparison, sketch: Sketch, mentions: Sequence[ValueMention], anchors: Sequence[Anchor]
    ) -> list[Choice]:
        out: list[Choice] = []
        slot = c.slot
        attributes = self.linker.attribute_links(slot, 10) if slot is not None and slot.words else []
        anchored = {a.class_: a.score for a in anchors}
        if c.against is not None:
            for link in self.linker.numeric(attributes)[:4]:
                assert isinstance(link.term, Attribute)
                out.append(
                    Choice(
                        "comparison",
                        Condition(link.term, c.operator, against=c.against),
                        link.score + 0.1 * anchored.get(link.term.subject_class, 0),
                    )
                )
            return out
        if c.mentions or c.text:
            text = mentions[c.mentions[0]].text if c.mentions else c.text
            literal = Literal(text)
            for link in attributes[:5]:
                assert isinstance(link.term, Attribute)
                if c.operator not in _TEXT_OPERATORS:
                    literal = Literal(text, link.term.datatype)
                out.append(
                    Choice(
                        "comparison",
                        Condition(link.term, c.operator, (literal,)),
                        link.score + 0.1 * anchored.get(link.term.subject_class, 0),
                    )
                )
            if not out:
                for s in sketch.select[:2]:
                    for link in self.linker.attribute_links(s, 4):
                        if isinstance(link.term, Attribute) and not link.term.is_number:
                            out.append(Choice("comparison", Condition(link.term, c.operator, (literal,)), link.score - 0.2))
                for a in anchors[:2]:
                    if (name := self.schema.name_of(a.class_)) is not None:
                        out.append(Choice("comparison", Condition(name, c.operator, (literal,)), 0.5 * a.score))
            return sorted(out, key=lambda x: -x.score)[:5]
        if (
            slot is not None
            and (aggregate := next((_SAID[w] for w in slot.words.split() if w in _SAID), None))
            and len(c.numbers) == 1
        ):
            bare = replace(slot, words=" ".join(w for w in slot.words.split() if w not in _SAID))
            for link in self.linker.numeric(self.linker.attribute_links(bare, 8))[:3]:
                out.append(
                    Choice("comparison", CountCondition(link.term, c.operator, c.numbers[0], aggregate), link.score + 0.05)
                )
        for link in self.linker.numeric(attributes)[:5]:
            assert isinstance(link.term, Attribute)
            if link.term.is_number or link.term.is_temporal:
                fit = self._fits(link.term, c.numbers)
                out.append(
                    Choice(
                        "comparison",
                        Condition(link.term, c.operator, numbers=c.numbers),
                        link.score + fit + 0.1 * anchored.get(link.term.subject_class, 0),
                    )
                )
        if not out or max(x.score for x in out) < 0.55:
            # "under 20" says no attribute: any number of a class that the question names may be meant.
            for a in anchors[:3]:
                for held in self.schema.attributes_of.get(a.class_, ()):
                    if held.is_number or held.is_temporal:
                        plus = 0.06 if held.words[0].split()[-1] == "age" else 0.0
                        out.append(
                            Choice(
                                "comparison",
                                Condition(held, c.operator, numbers=c.numbers),
                                0.25 + 0.1 * a.score + self._fits(held, c.numbers) + plus,
                            )
                        )
        if len(c.numbers) == 1 and c.numbers[0] <= 1000:
            for link in self.linker.class_links(slot.words, 3) if slot is not None and slot.words else []:
                if link.score > 0.5 and isinstance(link.term, ClassTerm):
                    out.append(Choice("comparison", CountCondition(link.term, c.operator, c.numbers[0]), link.score + 0.02))
            if slot is None or not out or max(x.score for x in out) < 0.5:
                for a in anchors[:3]:
                    out.append(
                        Choice(
                            "comparison", CountCondition(self.schema.classes[a.class_], c.operator, c.numbers[0]), 0.4 * a.score
                        )
                    )
        return sorted(out, key=lambda x: -x.score)[:6]

    def _fits(self, a: Attribute, numbers: Sequence[float]) -> float:
        """A little for numbers within what the attribute holds, a malus for years compared with what is no year."""
        is_year = all(1500 <= n <= 2100 and float(n).is_integer() for n in numbers)
        if a.is_temporal:
            return 0.05 if is_year else -0.5
        values = self.linker._values
        number_range = getattr(values, "number_range", None)
        held = number_range(a.subject_class, a.path[-1]) if number_range and len(a.path) == 1 else None
        if held is None:
            return 0.0
        return 0.05 if held[0] <= numbers[0] <= held[1] else -0.12

    def _order_choices(self, sketch: Sketch, anchors: Sequence[Anchor]) -> list[Choice]:
        order = sketch.order
        assert order is not None
        out: list[Choice] = []
        slot = order.slot
        if slot is not None and slot.words:
            links = self.linker.attribute_links(slot, 12)
            usable = self.linker.numeric(links) if order.limit is not None else links
            for link in usable[:5]:
                assert isinstance(link.term, Attribute)
                if slot.aggregate is Aggregate.COUNT:
                    continue
                descending = order.is_descending
                # The oldest has the greatest age, but the earliest date; the newest the other way round.
                if order.adjective in ("oldest", "eldest", "youngest") and (
                    link.term.is_temporal
                    or "year" in link.term.words[0]
                    or "birth" in link.term.words[0]
                    or "date" in link.term.words[0]
                ):
                    descending = not descending
                out.append(Choice("order", Sorting(link.term, descending, order.limit, slot.aggregate), link.score))
            if slot.aggregate is Aggregate.COUNT:
                for link in links[:3]:
                    if "number" in link.term.words[0] and isinstance(link.term, Attribute) and link.term.is_number:
                        out.append(Choice("order", Sorting(link.term, order.is_descending, order.limit), link.score + 0.05))
            if order.may_count and slot.aggregate in (None, Aggregate.COUNT):
                for link in self.linker.class_links(slot.words, 3):
                    if link.score > 0.45 and isinstance(link.term, ClassTerm):
                        plus = 0.1 if slot.aggregate is Aggregate.COUNT else 0.0
                        out.append(Choice("order", Sorting(link.term, order.is_descending, order.limit), link.score + plus))
        if order.limit is None and (slot is None or not slot.words):
            out.append(Choice("order", "shown", 0.8))
        elif (
            slot is None
            or not slot.words
            or order.adjective.split()[-1:] in (["common"], ["popular"], ["frequent"], ["frequently"], ["often"])
        ):
            out.append(Choice("order", Sorting(None, order.is_descending, order.limit), 0.7))
            for a in anchors[:3]:
                out.append(
                    Choice("order", Sorting(self.schema.classes[a.class_], order.is_descending, order.limit), 0.6 * a.score)
                )
        elif order.limit is not None and order.adjective in ("most", "fewest", "least"):
            out.append(Choice("order", Sorting(None, order.is_descending, order.limit), 0.3))
        return sorted(out, key=lambda x: -x.score)[:6]

    def _group_choices(self, slot: Slot, anchors: Sequence[Anchor]) -> list[Choice]:
        out = []
        for link in self.linker.attribute_links(slot, 5):
            if link.score > 0.4:
                out.append(Choice("group", link.term, link.score))
        for link in self.linker.class_links(slot.words, 3):
            if link.score > 0.5:
                out.append(Choice("group", link.term, link.score + 0.03))
        return sorted(out, key=lambda x: -x.score)[:5]

    # -- plans

    def _plans(
        self, sketch: Sketch, items: Sequence[Item], mentions: Sequence[ValueMention], anchors: Sequence[Anchor]
    ) -> Iterator[tuple[Plan, dict[str, float]]]:
        parts: list[list[Choice]] = []
        for k, slot in enumerate(sketch.select[:5]):
            parts.append(self._shown_choices(slot, sketch, anchors, f"select{k}"))
        for c in sketch.comparisons[:3]:
            choices = self._comparison_choices(c, sketch, mentions, anchors)
            if choices:
                parts.append(choices)
        compared = {m for c in sketch.comparisons for m in c.mentions}
        for i, item in enumerate(items):
            if item.kind == "value" and item.mention not in compared:
                choices = self._value_choices(mentions[item.mention], item.mention, i, anchors, Operator.EQUAL)
                if choices:
                    if not mentions[item.mention].is_quoted:
                        choices.append(Choice("value", None, min(0.25, choices[-1].score - 0.1)))
                    parts.append(choices)
        used_numbers = {n for c in sketch.comparisons for n in c.numbers} | (
            {float(sketch.order.limit)} if sketch.order and sketch.order.limit else set()
        )
        for i, item in enumerate(items):
            if item.kind == "number" and item.number is not None and item.number not in used_numbers:
                if choices := self._number_choices(i, item, anchors):
                    parts.append([*choices, Choice("value", None, 0.15)])
        parts += self._flag_choices(items, sketch, anchors)
        if sketch.order is not None and (choices := self._order_choices(sketch, anchors)):
            parts.append(choices)
        if sketch.group is not None and (choices := self._group_choices(sketch.group, anchors)):
            parts.append([*choices, Choice("group", None, 0.2)])
        parts = [p for p in parts if p]
        if not parts and anchors:
            parts = [[Choice("select0", Shown(self.schema.classes[a.class_]), 0.5 * a.score) for a in anchors[:3]]]
        if not parts:
            return
        for chosen in _best_first(parts, self.combinations):
            yield from self._plans_of(chosen, sketch, items, anchors)

    def _flag_choices(self, items: Sequence[Item], sketch: Sketch, anchors: Sequence[Anchor]) -> list[list[Choice]]:
        """Attributes that are true or false and that the question says outright: "hazardous commodities"."""
        positions = {stem(i.lower): i.start for i in reversed(items) if i.kind == "word"}
        anchored = {a.class_: a.score for a in anchors}
        by_words: dict[tuple[str, ...], list[Choice]] = {}
        for a in self.schema.attributes:
            if a.datatype != XSD + "boolean":
                continue
            said = next((s for s in map(stems, a.words) if s and all(x in positions for x in s)), None)
            if said is not None:
                condition = Condition(a, Operator.EQUAL, (Literal("true", a.datatype),))
                score = 0.7 + 0.3 * anchored.get(a.subject_class, 0.0)
                by_words.setdefault(said, []).append(Choice("value", condition, score, at=max(positions[x] for x in said)))
        return [
            [*sorted(choices, key=lambda c: -c.score)[:3], Choice("value", None, 0.3)] for choices in by_words.values()
        ]

    def _number_choices(self, i: int, item: Item, anchors: Sequence[Anchor]) -> list[Choice]:
        assert item.number is not None
        anchored = {a.class_: a.score for a in anchors}
        by_key = {(a.subject_class, a.path[0]): a for a in self.schema.attributes if len(a.path) == 1}
        near: dict[Attribute, float] = {}
        for slot in self._near(i):
            for link in self.linker.attribute_links(slot, 12):
                if isinstance(link.term, Attribute):
                    near[link.term] = max(near.get(link.term, 0.0), link.score)
        best: dict[Attribute, Choice] = {}
        for entry, _ in self.linker._entries(item.text, is_fuzzy=False):
            a = by_key.get((entry.subject_class or "", entry.property or ""))
            if a is None:
                continue
            score = 0.3 + 0.4 * min(1.0, near.get(a, 0.0)) + 0.1 * anchored.get(a.subject_class, 0)
            if a.datatype == XSD_STRING or not (a.is_number or a.is_temporal):
                condition = Condition(a, Operator.EQUAL, (Literal(entry.text, entry.datatype, entry.language),))
            else:
                condition = Condition(a, Operator.EQUAL, numbers=(item.number,))
            best[a] = Choice("value", condition, score, at=item.start)
        if 1500 <= item.number <= 2100 and item.number.is_integer():
            for a in self.schema.attributes:
                if a.is_temporal and a not in best:
                    best[a] = Choice(
                        "value",
                        Condition(a, Operator.EQUAL, numbers=(item.number,)),
                        0.3 + 0.3 * min(1.0, near.get(a, 0.0)) + 0.1 * anchored.get(a.subject_class, 0),
                        at=item.start,
                    )
        choices = sorted(best.values(), key=lambda c: -c.score)[:5]
        if (
            item.number <= 50
            and i + 1 < len(self._items)
            and self._items[i - 1].lower in ("have", "has", "with", "had", "exactly", "only", "by", "in")
        ):
            for link in self.linker.class_links(self._items[i + 1].lower, 2):
                if link.score > 0.8 and isinstance(link.term, ClassTerm):
                    choices.append(
                        Choice("comparison", CountCondition(link.term, Operator.EQUAL, item.number), 0.8 * link.score)
                    )
        return choices

    def _plans_of(
        self, chosen: Sequence[Choice], sketch: Sketch, items: Sequence[Item], anchors: Sequence[Anchor]
    ) -> Iterator[tuple[Plan, dict[str, float]]]:
        shown = tuple(c.value for c in chosen if isinstance(c.value, Shown))
        shown = tuple(dict.fromkeys(shown))
        sorting = next((c.value for c in chosen if isinstance(c.value, Sorting)), None)
        if any(c.value == "shown" for c in chosen) and shown:
            first = shown[0].term if isinstance(shown[0].term, Attribute) else self.schema.name_of(shown[0].term.iri)
            if first is not None and sketch.order is not None:
                sorting = Sorting(first, sketch.order.is_descending, None)
        group = next((c.value for c in chosen if c.part == "group" and c.value is not None), None)
        counted = next((c.value for c in chosen if isinstance(c.value, CountCondition)), None)
        conditions: list[Condition] = []
        absent: list[Condition] = []
        negated_at = self._items[sketch.negated_from].start if sketch.negated_from is not None else None
        groups: dict[Attribute, list[Condition]] = {}
        for c in chosen:
            if not isinstance(c.value, Condition):
                continue
            if c.value.operator in _TEXT_OPERATORS and negated_at is not None and c.part == "comparison":
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

    def _is_said_by_attribute(self, anchor: Anchor, plan: Plan) -> bool:
        """Whether the anchor's words belong to an attribute that the plan uses ("country code" names no country)."""
        words = set(stems(" ".join(i.lower for i in self._items[anchor.at : anchor.to])))
        used = [s.term for s in plan.shown] + [c.attribute for c in (*plan.conditions, *plan.absent)] + [plan.group]
        used += [plan.sorting.term if plan.sorting else None]
        return any(isinstance(t, Attribute) and words <= set(stems(t.words[0])) for t in used)

    # -- joining

    def _variants(
        self, plan: Plan, scores: dict[str, float], sketch: Sketch, rank: int, anchors: Sequence[Anchor]
    ) -> Iterator[Candidate]:
        """The joins of *plan*, and of the same counting different instances where a join may repeat them."""
        for candidate in self._joined(plan, scores, sketch, rank, anchors):
            yield candidate
            counts = [
                s for s in plan.shown if s.aggregate is Aggregate.COUNT and isinstance(s.term, ClassTerm) and not s.is_distinct
            ]
            if counts and len(candidate.query.pattern.triples) > 1 and candidate.features["nodes"] > 1:
                shown = tuple(replace(s, is_distinct=True) if s in counts else s for s in plan.shown)
                distinct = replace(plan, shown=shown)
                yield from self._joined(distinct, scores | {"count_distinct_class": 1.0}, sketch, rank, anchors)
                return

    def _joined(
        self, plan: Plan, scores: dict[str, float], sketch: Sketch, rank: int, anchors: Sequence[Anchor]
    ) -> Iterator[Candidate]:
        classes = plan.classes()
        if not classes:
            return
        trees = connect(classes, self.schema, limit=3)
        if not trees:
            return
        shortest = len(trees[0].nodes)
        walks: list[Tree | None] = [None]
        if plan.absent_class is not None or plan.absent:
            target = plan.absent_class or plan.absent[0].attribute.subject_class
            wanted = [target, *(c.attribute.subject_class for c in plan.absent)]
            if all(w == classes[0] for w in wanted):
                walks = [None]
            else:
                walks = list(connect([classes[0], *wanted], self.schema, limit=2))
        for n, tree in enumerate(trees):
            for walk in walks:
                if plan.absent_class is not None and (walk is None or len(walk.nodes) < 2):
                    continue
                query = assemble(plan, tree, self.schema, absent_walk=walk)
                if query is None:
                    continue
                features = self._features(plan, tree, walk, scores, sketch, rank, anchors)
                features["longer_join"] = float(len(tree.nodes) - shortest)
                features["other_join"] = float(n > 0)
                yield Candidate(plan, query, verbalise(plan, self.schema), features, sketch.note)

    def _features(
        self,
        plan: Plan,
        tree: Tree,
        walk: Tree | None,
        scores: dict[str, float],
        sketch: Sketch,
        rank: int,
        anchors: Sequence[Anchor],
    ) -> dict[str, float]:
        question = [stem(i.lower) for i in self._items if i.kind == "word" and i.lower not in STOPWORDS]
        asked = set(question)
        terms: list[Attribute | ClassTerm] = [s.term for s in plan.shown]
        terms += [c.attribute for c in (*plan.conditions, *plan.also, *plan.absent)]
        if plan.group is not None:
            terms.append(plan.group)
        if plan.sorting is not None and plan.sorting.term is not None:
            terms.append(plan.sorting.term)
        nodes = list(tree.nodes) + (list(walk.nodes[1:]) if walk is not None else [])
        class_stems = {s for c in nodes for w in self.schema.classes[c].words[:2] for s in stems(w)}
        class_stems |= {s for s, c in self.linker.heads.items() if c in nodes}
        term_stems = {s for t in terms for s in stems(t.words[0])}
        branches = tree.branches + (walk.branches if walk is not None else ())
        edge_stems = [frozenset(stems(b.step.edge.words)) - class_stems for b in branches]
        edges_said = sum(1.0 for e in edge_stems if e and e & asked)
        covered = asked & (class_stems | term_stems | {s for e in edge_stems for s in e})
        mentioned = {a.class_ for a in anchors if a.score >= 0.6} | {owner(t) for t in terms}
        strong = {a.class_ for a in anchors if a.score >= 0.99}
        shown_stems = {s for x in plan.shown for s in stems(x.term.words[0])}
        known = asked & self.linker.schema_stems
        owners = {owner(t) for t in terms}
        constrained = {c.attribute for c in plan.conditions if c.operator is Operator.EQUAL and c.against is None}
        sorted_by = plan.sorting.term if plan.sorting is not None else None
        condition_stems = {s for c in (*plan.conditions, *plan.also, *plan.absent) for s in stems(c.attribute.words[0])}
        return {
            **scores,
            "coverage": len(covered) / max(1, len(asked)),
            "precision": len(term_stems & asked) / max(1, len(term_stems)),
            "shown_precision": len(shown_stems & asked) / max(1, len(shown_stems)),
            "known_covered": len(known & covered) / max(1, len(known)),
            "known_missed": float(len(known - covered)),
            "owners": float(len(owners)),
            "owners_anchored": len(owners & strong) / max(1, len(owners)),
            "condition_precision": len(condition_stems & asked) / max(1, len(condition_stems)),
            "order_precision": _share(sorted_by, asked),
            "group_precision": _share(plan.group, asked),
            "shown_constrained": float(any(s.aggregate is None and s.term in constrained for s in plan.shown)),
            "order_shown": float(any(s.term == sorted_by for s in plan.shown)),
            "order_text": float(isinstance(sorted_by, Attribute) and not (sorted_by.is_number or sorted_by.is_temporal)),
            "composite": float(any(isinstance(t, Attribute) and len(t.path) > 1 for t in terms)),
            "average_of_id": float(
                any(_is_identifier(s.term) for s in plan.shown if s.aggregate not in (None, Aggregate.COUNT))
            ),
            "compared_id": float(
                any(c.numbers and c.operator is not Operator.EQUAL and _is_identifier(c.attribute) for c in plan.conditions)
            ),
            "order_id": float(plan.sorting is not None and plan.sorting.limit is not None and _is_identifier(sorted_by)),
            "nodes": float(len(tree.nodes)),
            "bridges": float(sum(1 for c in tree.nodes if c not in mentioned)),
            "anchors_missed": float(len(strong - set(nodes))) / max(1, len(strong)),
            "edges_said": edges_said / max(1, len(branches)),
            "shown_anchored": float(bool(plan.shown) and owner(plan.shown[0].term) in strong),
            "shown_class": float(any(isinstance(s.term, ClassTerm) and s.aggregate is None for s in plan.shown)),
            "count_class": float(any(isinstance(s.term, ClassTerm) and s.aggregate is Aggregate.COUNT for s in plan.shown)),
            "count_attribute": float(
                any(isinstance(s.term, Attribute) and s.aggregate is Aggregate.COUNT for s in plan.shown)
            ),
            "order_count": float(plan.sorting is not None and isinstance(plan.sorting.term, ClassTerm)),
            "order_rows": float(plan.sorting is not None and plan.sorting.term is None),
            "having": float(plan.counted is not None),
            "absent": float(bool(plan.absent) or plan.absent_class is not None),
            "also": float(bool(plan.also)),
            "both_said": float(sketch.is_both == bool(plan.also)),
            "sketch_rank": float(rank),
            f"note:{sketch.note}": float(bool(sketch.note)),
        }  # fmt: skip


def _is_identifier(term: Attribute | ClassTerm | None) -> bool:
    """Whether *term* only tells things apart, so that its order and its average mean nothing."""
    return term is not None and term.words[0].split()[-1] in ("id", "identifier", "code")


def _share(term: Attribute | ClassTerm | None, asked: set[str]) -> float:
    """Share of the term's words that the question has."""
    own = set(stems(term.words[0])) if term is not None else set()
    return len(own & asked) / len(own) if own else 0.0


_TEXT_OPERATORS = (Operator.CONTAINS, Operator.STARTS, Operator.ENDS)
_SAID = {"average": Aggregate.AVG, "mean": Aggregate.AVG, "total": Aggregate.SUM, "sum": Aggregate.SUM}


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


def links_of(linker: Linker, slot: Slot) -> list[Link]:
    """Both kinds of link of one slot, best first; for the account."""
    links = [*linker.attribute_links(slot, 5), *linker.class_links(slot.words, 3)] if slot.words else []
    return sorted(links, key=lambda x: -x.score)[:6]
