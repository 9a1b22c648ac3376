"""What the slots of a sketch may stand for: what is shown, sorted by, grouped by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from proxy.nl.anchors import Anchor
from proxy.nl.arithmetic import combined
from proxy.nl.ir import Aggregate
from proxy.nl.linking import Link, Linker
from proxy.nl.plan import Shown, Sorting, owner
from proxy.nl.schema import Attribute, ClassTerm, Schema
from proxy.nl.sketch import Item, Sketch, Slot
from proxy.nl.words import stems

_SAYING: Mapping[Aggregate | None, frozenset[str]] = {
    Aggregate.SUM: frozenset({"total", "sum"}), Aggregate.AVG: frozenset({"average", "mean"}),
    Aggregate.MAX: frozenset({"maximum", "max", "highest"}), Aggregate.MIN: frozenset({"minimum", "min", "lowest"}),
}  # fmt: skip
"""Words by which the name of an attribute says that it is an aggregate already."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One reading of one part of a sketch. *value* is what the plan gets; None: the part is left out."""

    part: str
    value: object
    score: float
    mention: int = -1
    at: int = 0


@dataclass(slots=True)
class Readings:
    """The readings of one question's slots, best first and few."""

    schema: Schema
    linker: Linker
    items: Sequence[Item]
    anchors: Sequence[Anchor]

    def shown(self, slot: Slot, sketch: Sketch, part: str) -> list[Choice]:
        """What *slot* may show: an attribute, the instances of a class, or their number."""
        out: list[Choice] = []
        slot = replace(slot, words=self.linker.without_verb(slot.words))
        classes = self.linker.class_links(slot.words) if slot.words else []
        attributes = self.linker.attribute_links(slot) if slot.words else []
        anchored = {a.class_: a.score for a in self.anchors}
        if slot.operator:
            return self._computed(slot, part)

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
            for a in self.anchors[:3]:
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
            out += [Choice(part, Shown(a), 0.98) for a in self._already(slot)]
        else:
            for link in attributes[:7]:
                fit = self._fits(slot, link.term)
                if link.score * fit >= 0.25:
                    out.append(Choice(part, Shown(link.term), link.score * fit + bonus(link.term)))
            for link in classes[:3]:
                if link.score >= 0.45 and isinstance(link.term, ClassTerm):
                    out.append(Choice(part, Shown(link.term), link.score + bonus(link.term) - 0.04))
        out.sort(key=lambda c: -c.score)
        best: dict[object, Choice] = {}
        for c in out:
            best.setdefault(c.value, c)
        return list(best.values())[:7]

    def _already(self, slot: Slot) -> list[Attribute]:
        """Attributes whose own name says the aggregate: "the total points" of what has a number called so."""
        said = set(stems(slot.words))
        found = []
        for link in self.linker.attribute_links(slot):
            own = set(stems(link.term.words[0])) if isinstance(link.term, Attribute) else set()
            if isinstance(link.term, Attribute) and said <= own and (own - said) & _SAYING.get(slot.aggregate, frozenset()):
                found.append(link.term)
        return found

    @staticmethod
    def _fits(slot: Slot, term: Attribute | ClassTerm) -> float:
        """1 where *term* is of the kind that "when" or "where" asks for, as far as datatype and name tell; less if not."""
        if not slot.asks or not isinstance(term, Attribute):
            return 1.0
        is_time = term.is_temporal or bool({"year", "date", "time"} & set(stems(term.words[0])))
        if slot.asks == "when":
            return 1.0 if is_time else 0.5
        return 0.5 if is_time or term.is_number else 1.0

    def _computed(self, slot: Slot, part: str) -> list[Choice]:
        """Two numbers of one thing, combined."""
        out = []
        links = [self.linker.attribute_links(replace(slot, words=w), 12) for w in (slot.words, slot.other)]
        for a in links[0]:
            for b in links[1]:
                if (
                    isinstance(a.term, Attribute)
                    and isinstance(b.term, Attribute)
                    and a.term.is_number
                    and b.term.is_number
                    and a.term.subject_class == b.term.subject_class
                    and a.term != b.term
                ):
                    term = combined(slot.operator, (a.term, b.term))
                    out.append(Choice(part, Shown(term, slot.aggregate), (a.score + b.score) / 2))
        return sorted(out, key=lambda c: -c.score)[:5]

    def order(self, sketch: Sketch) -> list[Choice]:
        """What the sketch may sort by: an attribute, the number of a class, or of solutions."""
        order = sketch.order
        assert order is not None
        out: list[Choice] = []
        slot = order.slot
        if slot is not None and slot.operator:
            for c in self._computed(slot, "order"):
                assert isinstance(c.value, Shown)
                out.append(replace(c, value=Sorting(c.value.term, order.is_descending, order.limit)))
        elif slot is not None and slot.words:
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
                    is_stored = any("number" in w.split() for w in link.term.words)
                    if is_stored and isinstance(link.term, Attribute) and link.term.is_number:
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
            for a in self.anchors[:3]:
                out.append(
                    Choice("order", Sorting(self.schema.classes[a.class_], order.is_descending, order.limit), 0.6 * a.score)
                )
        elif order.limit is not None and order.adjective in ("most", "fewest", "least"):
            out.append(Choice("order", Sorting(None, order.is_descending, order.limit), 0.3))
        return sorted(out, key=lambda x: -x.score)[:6]

    def group(self, slot: Slot) -> list[Choice]:
        """What *slot* may group by."""
        out = []
        slot = replace(slot, words=self.linker.without_verb(slot.words))
        for link in self.linker.attribute_links(slot, 5):
            if link.score > 0.4:
                out.append(Choice("group", link.term, link.score))
        for link in self.linker.class_links(slot.words, 3):
            if link.score > 0.5:
                out.append(Choice("group", link.term, link.score + 0.03))
        return sorted(out, key=lambda x: -x.score)[:5]


def links_of(linker: Linker, slot: Slot) -> list[Link]:
    """Both kinds of link of one slot, best first; for the account."""
    links = [*linker.attribute_links(slot, 5), *linker.class_links(slot.words, 3)] if slot.words else []
    return sorted(links, key=lambda x: -x.score)[:6]
