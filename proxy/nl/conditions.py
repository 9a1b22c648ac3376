"""What the values, numbers and bounds of a question may be conditions on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from proxy.nl.anchors import Anchor
from proxy.nl.ir import Aggregate, Operator
from proxy.nl.linking import Link, Linker, ValueMention
from proxy.nl.plan import Condition, CountCondition, owner
from proxy.nl.readings import Choice
from proxy.nl.schema import SELF, Attribute, ClassTerm, Schema
from proxy.nl.sketch import Comparison, Item, Sketch, Slot
from proxy.nl.words import STOPWORDS, stem, stems
from proxy.query.term import RDF_LANG_STRING, XSD, XSD_STRING, Literal

SCOPED = -2
"""In place of a mention: what stands behind this comparison describes what it compares with."""
TEXT_OPERATORS = (Operator.CONTAINS, Operator.STARTS, Operator.ENDS)
_SAID_OUTRIGHT = 0.5
"""Score from which the words next to a value are taken to name what it stands for."""
_SAID = {"average": Aggregate.AVG, "mean": Aggregate.AVG, "total": Aggregate.SUM, "sum": Aggregate.SUM}


@dataclass(slots=True)
class Conditions:
    """The conditions that one question may set, best first and few."""

    schema: Schema
    linker: Linker
    items: Sequence[Item]
    anchors: Sequence[Anchor]

    def near(self, at: int) -> list[Slot]:
        """The words around item *at*, as slots: those before it, and those right after."""
        before: list[str] = []
        i = at - 1
        while i >= 0 and len(before) < 3 and self.items[i].kind == "word":
            w = self.items[i].lower
            if w not in STOPWORDS and w not in ("named", "called", "equal", "equals", "than"):
                before.insert(0, w)
            elif before and w not in ("of", "the", "is", "name"):
                break
            i -= 1
        after: list[str] = []
        i = at + 1
        while i < len(self.items) and len(after) < 2 and self.items[i].kind == "word":
            w = self.items[i].lower
            if w in STOPWORDS:
                break
            after.append(w)
            i += 1
        return [Slot(" ".join(x), "", at, at) for x in (before, after) if x]

    def value(self, mention: ValueMention, k: int, at: int, operator: Operator) -> list[Choice]:
        """The attributes that may hold the value *mention*, the k-th, at item *at*."""
        anchored = {a.class_: a.score for a in self.anchors}
        near: dict[Attribute, float] = {}
        for n, slot in enumerate(self.near(at)):
            for link in self.linker.attribute_links(slot, 12):
                if isinstance(link.term, Attribute):
                    near[link.term] = max(near.get(link.term, 0.0), link.score * (1.0 if n == 0 else 0.9))
        by_key = {(a.subject_class, a.path[0]): a for a in self.schema.attributes if len(a.path) == 1}
        best: dict[Attribute, Choice] = {}
        for entry, match in mention.entries:
            a = by_key.get((entry.subject_class or "", entry.property or ""))
            if entry.property is None and entry.subject is not None and entry.subject_class is not None:
                # Nothing else names this node: its IRI is meant.
                term = self.schema.classes[entry.subject_class]
                itself = Attribute(term.iri, (SELF,), XSD + "anyURI", ("name",), term.instances)
                score = 0.55 * match + 0.12 * anchored.get(term.iri, 0.0) + 0.06
                condition = Condition(itself, operator, (Literal(entry.subject, XSD + "anyURI"),))
                best[itself] = Choice("value", condition, score, k)
                continue
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
            for relation in self.schema.relations_to(a):
                said = min(1.0, near.get(relation, 0.0))
                score = 0.55 * match + 0.3 * said + 0.12 * anchored.get(relation.subject_class, 0.0)
                if said > _SAID_OUTRIGHT and (relation not in best or best[relation].score < score):
                    best[relation] = Choice("value", Condition(relation, operator, (literal,)), score, k)
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

    def number(self, i: int, item: Item) -> list[Choice]:
        """What a number that no comparison has taken may be: a value, a year, a count."""
        assert item.number is not None
        anchored = {a.class_: a.score for a in self.anchors}
        by_key = {(a.subject_class, a.path[0]): a for a in self.schema.attributes if len(a.path) == 1}
        near: dict[Attribute, float] = {}
        for slot in self.near(i):
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
            and i + 1 < len(self.items)
            and self.items[i - 1].lower in ("have", "has", "with", "had", "exactly", "only", "by", "in")
        ):
            for link in self.linker.class_links(self.items[i + 1].lower, 2):
                if link.score > 0.8 and isinstance(link.term, ClassTerm):
                    choices.append(
                        Choice("comparison", CountCondition(link.term, Operator.EQUAL, item.number), 0.8 * link.score)
                    )
        return choices

    def flags(self, items: Sequence[Item], sketch: Sketch) -> list[list[Choice]]:
        """Attributes that are true or false and that the question says outright: "hazardous commodities"."""
        positions = {stem(i.lower): i.start for i in reversed(items) if i.kind == "word"}
        anchored = {a.class_: a.score for a in self.anchors}
        by_words: dict[tuple[str, ...], list[Choice]] = {}
        for a in self.schema.attributes:
            if a.datatype != XSD + "boolean":
                continue
            said = next((s for s in map(stems, a.words) if s and all(x in positions for x in s)), None)
            if said is not None:
                condition = Condition(a, Operator.EQUAL, (Literal("true", a.datatype),))
                score = 0.7 + 0.3 * anchored.get(a.subject_class, 0.0)
                by_words.setdefault(said, []).append(Choice("value", condition, score, at=max(positions[x] for x in said)))
        return [[*sorted(choices, key=lambda c: -c.score)[:3], Choice("value", None, 0.3)] for choices in by_words.values()]

    def comparison(self, c: Comparison, sketch: Sketch, mentions: Sequence[ValueMention]) -> list[Choice]:
        """The attributes, and counts, that a bound of the sketch may be about."""
        at = self.items[c.at].start if c.at < len(self.items) else 0
        return [replace(x, at=at) for x in self._comparison(c, sketch, mentions)]

    def _comparison(self, c: Comparison, sketch: Sketch, mentions: Sequence[ValueMention]) -> list[Choice]:
        out: list[Choice] = []
        slot = c.slot
        attributes = self.linker.attribute_links(slot, 10) if slot is not None and slot.words else []
        anchored = {a.class_: a.score for a in self.anchors}
        if c.against is not None:
            for link in self.linker.numeric(attributes)[:4]:
                assert isinstance(link.term, Attribute)
                out.append(
                    Choice(
                        "comparison",
                        Condition(link.term, c.operator, against=c.against),
                        link.score + 0.1 * anchored.get(link.term.subject_class, 0),
                        mention=SCOPED if c.is_scoped else -1,
                    )
                )
            return out
        if c.mentions or c.text:
            text = mentions[c.mentions[0]].text if c.mentions else c.text
            if c.operator not in TEXT_OPERATORS and c.mentions and mentions[c.mentions[0]].period is not None:
                return self._in_time(c, attributes, mentions)
            literal = Literal(text)
            for link in attributes[:5]:
                assert isinstance(link.term, Attribute)
                if c.operator not in TEXT_OPERATORS:
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
                for a in self.anchors[:2]:
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
            for a in self.anchors[:3]:
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
            # "written more than one book": what is counted stands behind the number.
            for words in (slot.words, slot.context) if slot is not None else ():
                for link in self.linker.class_links(words, 3) if words else []:
                    if link.score > 0.5 and isinstance(link.term, ClassTerm):
                        out.append(Choice("comparison", CountCondition(link.term, c.operator, c.numbers[0]), link.score + 0.02))
            if slot is None or not out or max(x.score for x in out) < 0.5:
                for a in self.anchors[:3]:
                    out.append(
                        Choice(
                            "comparison", CountCondition(self.schema.classes[a.class_], c.operator, c.numbers[0]), 0.4 * a.score
                        )
                    )
        return sorted(out, key=lambda x: -x.score)[:6]

    def _in_time(self, c: Comparison, links: Sequence[Link], mentions: Sequence[ValueMention]) -> list[Choice]:
        """A date compared: with the times that the words before it may mean, else with those of the classes named."""
        periods = tuple(p for k in c.mentions if (p := mentions[k].period) is not None)
        anchored = {a.class_: a.score for a in self.anchors}
        near = {x.term: x.score for x in links}
        out = []
        for a in self.schema.attributes:
            if a.is_temporal and not a.operator and a.datatype != XSD + "time":
                score = max(near.get(a, 0.0), 0.3) + 0.2 * anchored.get(a.subject_class, 0.0)
                condition = Condition(a, c.operator, periods=periods)
                out.append(Choice("comparison", condition, min(1.0, score), at=c.at))
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
