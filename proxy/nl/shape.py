"""What kind of answer a question asks for, and which of its words play which part. English rules; harmless elsewhere.

The result is a *sketch*: slots of words still without meaning (that is linking's business) in the places of a query: what is
shown, what is compared, what is sorted by, what is grouped, what must be absent. A question may have several sketches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from proxy.nl.ir import Aggregate, Operator
from proxy.nl.words import STOPWORDS, stem


@dataclass(frozen=True, slots=True)
class Item:
    """A token, or several that make one value. *kind*: word, number, value or mark. *mention*: which value mention it is."""

    text: str
    kind: str
    start: int
    end: int
    mention: int = -1
    number: float | None = None

    @property
    def lower(self) -> str:
        return self.text.lower()


@dataclass(frozen=True, slots=True)
class Slot:
    """Words that stand for an attribute or a class. *context*: the words after "of". *at*, *to*: item positions, half open."""

    words: str
    context: str = ""
    at: int = 0
    to: int = 0
    aggregate: Aggregate | None = None
    is_distinct: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """*slot* compared with numbers, a value mention, a *text*, or (``against``) an aggregate of itself. at: item position."""

    operator: Operator
    slot: Slot | None
    numbers: tuple[float, ...] = ()
    mentions: tuple[int, ...] = ()
    against: Aggregate | None = None
    text: str = ""
    at: int = 0


@dataclass(frozen=True, slots=True)
class Ordering:
    """Sort by *slot*. limit: None sorts all. adjective: the word that said so, such as "oldest"."""

    slot: Slot | None
    is_descending: bool
    limit: int | None = None
    adjective: str = ""
    may_count: bool = True


@dataclass(frozen=True, slots=True)
class Sketch:
    """One reading of the question. *loose*: item positions that no other part took."""

    kind: str
    select: tuple[Slot, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    order: Ordering | None = None
    group: Slot | None = None
    negated_from: int | None = None
    is_union: bool = False
    is_both: bool = False
    is_distinct: bool = False
    is_ask: bool = False
    loose: tuple[int, ...] = ()
    note: str = ""


NUMBER_WORDS: Mapping[str, float] = {
    w: float(i) for i, w in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
} | {"once": 1.0, "twice": 2.0, "hundred": 100.0, "thousand": 1000.0, "million": 1e6}

_DIMENSIONS: Mapping[str, tuple[str, bool]] = {
    "oldest": ("age", True), "eldest": ("age", True), "youngest": ("age", False), "newest": ("date", True), "latest": ("date", True),
    "earliest": ("date", False), "longest": ("length", True), "shortest": ("length", False), "tallest": ("height", True),
    "heaviest": ("weight", True), "lightest": ("weight", False), "cheapest": ("price", False), "priciest": ("price", True),
    "fastest": ("speed", True), "slowest": ("speed", False), "largest": ("size", True), "biggest": ("size", True),
    "smallest": ("size", False), "highest": ("", True), "lowest": ("", False), "greatest": ("", True), "most": ("", True),
    "least": ("", False), "fewest": ("", False), "maximum": ("", True), "minimum": ("", False), "max": ("", True),
    "min": ("", False), "best": ("rank", True), "worst": ("rank", False), "richest": ("income", True), "poorest": ("income", False),
    "top": ("", True), "deepest": ("depth", True), "widest": ("width", True), "hottest": ("temperature", True), "lower": ("", False),
    "coldest": ("temperature", False), "farthest": ("distance", True), "nearest": ("distance", False), "strongest": ("strength", True),
}  # fmt: skip
"""Superlatives → the dimension they measure when no noun says it, and whether the greatest value wins."""

_MOST_ADJECTIVES: Mapping[str, str] = {
    "expensive": "price", "recent": "date", "recently": "date", "popular": "", "common": "", "frequent": "", "frequently": "", "often": "",
    "populous": "population", "populated": "population", "costly": "cost", "valuable": "value", "senior": "age", "used": "",
}  # fmt: skip

_HOW: Mapping[str, str] = {
    "old": "age", "tall": "height", "long": "length duration", "heavy": "weight", "large": "size", "big": "size", "far": "distance",
    "high": "height", "deep": "depth", "wide": "width", "fast": "speed", "expensive": "price", "often": "frequency",
}  # fmt: skip

_COMPARATIVES: Mapping[str, tuple[str, bool]] = {
    "more": ("", True), "greater": ("", True), "larger": ("", True), "higher": ("", True), "bigger": ("size", True),
    "older": ("age", True), "heavier": ("weight", True), "longer": ("length", True), "taller": ("height", True),
    "later": ("date", True), "newer": ("date", True), "faster": ("speed", True), "over": ("", True), "above": ("", True),
    "exceeding": ("", True), "exceed": ("", True), "exceeds": ("", True), "after": ("date year", True), "beyond": ("", True),
    "better": ("", True), "since": ("date year", True),
    "less": ("", False), "fewer": ("", False), "smaller": ("", False), "lower": ("", False), "younger": ("age", False),
    "lighter": ("weight", False), "shorter": ("length", False), "earlier": ("date", False), "below": ("", False),
    "under": ("", False), "before": ("date year", False), "cheaper": ("price", False), "slower": ("speed", False),
}  # fmt: skip

_AGGREGATES: Mapping[str, Aggregate] = {
    "average": Aggregate.AVG, "mean": Aggregate.AVG, "avg": Aggregate.AVG, "total": Aggregate.SUM, "sum": Aggregate.SUM,
    "maximum": Aggregate.MAX, "max": Aggregate.MAX, "minimum": Aggregate.MIN, "min": Aggregate.MIN, "maximal": Aggregate.MAX,
    "minimal": Aggregate.MIN, "highest": Aggregate.MAX, "lowest": Aggregate.MIN, "largest": Aggregate.MAX, "smallest": Aggregate.MIN,
    "greatest": Aggregate.MAX, "longest": Aggregate.MAX, "shortest": Aggregate.MIN, "earliest": Aggregate.MIN, "latest": Aggregate.MAX,
    "oldest": Aggregate.MAX, "youngest": Aggregate.MIN, "biggest": Aggregate.MAX, "least": Aggregate.MIN,
}  # fmt: skip

_LEAD = frozenset(
    """what which who whom whose list show find give return tell display please can could you me us the a an is are was were all of
    different distinct unique get select report state identify provide determine search name names count i want to know would like compute
    calculate do does did we have has had there each every any some their its his her for our various possible existing available also
    both how many much and both in
    """.split()
) - {"name", "names", "how", "many", "much", "in", "for", "of"}
_VERBS_OF_REQUEST = frozenset("list show find give return tell display count report state what which who how compute calculate".split())
_BREAKS = frozenset(
    """that who whom whose which where when while with without having has have had is are was were be been do does did not in from at on by than
    for whose to during through since until if and or but as sorted ordered order sort ranked ranking list show give return according
    equal containing contain contains located held owned used made named called starting ending between into under over above below
    after before more less fewer greater larger higher lower older younger least most there across along does can will among amongst
    """.split()
)  # fmt: skip
_PAIRED = frozenset(
    """first last middle given family start end starting ending open close opening closing arrival departure birth death source destination
    home away old new begin minimum maximum checking savings""".split()
)
_FURTHER = frozenset("number average total maximum minimum count mean sum".split())
_NEGATIONS = frozenset("not no never without neither nor except excluding n't cannot".split())
_AUXILIARY = frozenset("is are was were does do did has have had can will".split())


def sketches(items: Sequence[Item]) -> list[Sketch]:
    """The readings of a question, likeliest first; at least one."""
    first = _Reader(items).read()
    found = [first]
    # "the highest salary" may be MAX, or the entity with it; "how many X" may be stored as a number.
    if first.order is not None and first.order.limit == 1 and len(first.select) == 1 and first.order.adjective:
        lower = first.order.adjective
        if lower in _AGGREGATES and first.order.slot is not None and first.order.slot.words == first.select[0].words:
            slot = replace(first.select[0], aggregate=_AGGREGATES[lower])
            found.append(replace(first, select=(slot,), order=None, note="aggregate instead of superlative"))
    if any(s.aggregate in (Aggregate.MAX, Aggregate.MIN) for s in first.select) and first.order is None and first.group is None:
        extreme = next(s for s in first.select if s.aggregate in (Aggregate.MAX, Aggregate.MIN))
        plain = tuple(replace(s, aggregate=None) for s in first.select)
        by = replace(extreme, aggregate=None)
        order = Ordering(by, extreme.aggregate is Aggregate.MAX, 1, "", False)
        found.append(replace(first, select=plain, order=order, note="superlative instead of aggregate"))
    if any(s.aggregate is Aggregate.COUNT for s in first.select):
        plain = tuple(
            replace(s, aggregate=None, words=f"number of {s.words}") if s.aggregate is Aggregate.COUNT else s for s in first.select
        )
        found.append(replace(first, select=plain, note="stored number instead of count"))
        summed = tuple(
            replace(s, aggregate=Aggregate.SUM, words=f"number of {s.words}") if s.aggregate is Aggregate.COUNT else s for s in first.select
        )
        found.append(replace(first, select=summed, note="sum instead of count"))
    aggregated = [s for s in first.select if s.aggregate is not None]
    if len(aggregated) == 1 and len(first.select) > 1 and first.select[-1] is not aggregated[0]:
        aggregate = aggregated[0].aggregate
        spread = tuple(s if s.at < aggregated[0].at else replace(s, aggregate=aggregate) for s in first.select)
        found.append(replace(first, select=spread, note="aggregate of all"))
        if aggregate is Aggregate.COUNT:
            total = tuple(replace(s, aggregate=Aggregate.SUM) if s.aggregate is not None else s for s in spread)
            found.append(replace(first, select=total, note="sum of all"))
    if first.group is not None:
        found.append(replace(first, group=None, note="no grouping"))
    return found


@dataclass(slots=True)
class _Reader:
    items: Sequence[Item]
    used: list[bool] = field(default_factory=list)
    w: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.used = [False] * len(self.items)
        self.w = [i.lower if i.kind != "value" else "\x00value" for i in self.items]

    # -- small readers

    def _is_open(self, i: int) -> bool:
        return 0 <= i < len(self.items) and not self.used[i]

    def _take(self, start: int, end: int) -> None:
        for i in range(start, min(end, len(self.items))):
            self.used[i] = True

    def _phrase(self, start: int, *, limit: int = 6) -> tuple[str, str, int]:
        """Words from *start* to the next break: (before "of", after "of", end)."""
        words: list[str] = []
        context: list[str] = []
        i, of = start, False
        while self._is_open(i) and len(words) + len(context) < limit:
            item, w = self.items[i], self.w[i]
            if item.kind in ("mark", "number") or w in _BREAKS or w in _NEGATIONS:
                break
            if w == "of":
                if of and context:
                    break
                of = True
            elif w == "'s":
                context, words = words + context, []
            elif w not in ("the", "a", "an", "all", "any", "their", "its", "each", "every", "his", "her", "different", "distinct"):
                if item.kind == "value":
                    if not words and not of:
                        i += 1
                        continue
                    break
                (context if of else words).append(w)
            i += 1
        return " ".join(words), " ".join(context), i

    def _phrase_before(self, end: int, *, limit: int = 4) -> tuple[str, int]:
        """The words right before position *end*, back to a break."""
        words: list[str] = []
        i = end - 1
        while i >= 0 and self.w[i] in ("is", "are", "was", "were", "a", "an", "the", "have", "has", "of", "be", "being", "had", "with", "and"):
            if self.w[i] in ("with", "of") and words:
                break
            i -= 1
        while i >= 0 and len(words) < limit:
            item, w = self.items[i], self.w[i]
            if self.used[i] or item.kind != "word" or w in _BREAKS or w in _NEGATIONS or w in ("the", "of", "a", "an", "whose"):
                break
            words.insert(0, w)
            i -= 1
        return " ".join(words), i + 1

    def _number_at(self, i: int) -> float | None:
        if not 0 <= i < len(self.items):
            return None
        item = self.items[i]
        if item.number is not None:
            return item.number
        return NUMBER_WORDS.get(self.w[i])

    # -- the reading

    def read(self) -> Sketch:
        is_ask = bool(self.w) and self.w[0] in _AUXILIARY and not (self.w[0] == "can" and "you" in self.w[:2])
        order = self._sorting()
        group = self._grouping()
        comparisons = self._comparisons()
        superlative = self._superlative()
        negated = next((i for i, w in enumerate(self.w) if w in _NEGATIONS and self._is_open(i)), None)
        if negated is None:
            negated = next((i for i, w in enumerate(self.w) if w in ("other", "rather") and self.w[i + 1 : i + 2] == ["than"]), None)
        select = () if is_ask else self._select(superlative)
        if superlative is not None and superlative.slot is None and not superlative.adjective:
            superlative = None
        loose = tuple(i for i in range(len(self.items)) if not self.used[i])
        text = " ".join(self.w)
        return Sketch(
            kind="ask" if is_ask else "select",
            select=select,
            comparisons=tuple(comparisons),
            order=superlative or order,
            group=group,
            negated_from=negated,
            is_union=bool(re.search(r"\bor\b", text)),
            is_both=bool(re.search(r"\bboth\b|\bas well as\b|\balso\b", text)),
            is_distinct=bool(re.search(r"\b(distinct|different|unique)\b", text)),
            is_ask=is_ask,
            loose=loose,
        )

    def _sorting(self) -> Ordering | None:
        text = " ".join(self.w)
        for i, w in enumerate(self.w):
            by = None
            if w in ("sorted", "ordered", "order", "sort", "ranked", "arranged", "arrange", "sorting", "ordering", "listed", "rank"):
                for j in range(i + 1, min(i + 8, len(self.w))):
                    if self.w[j] in ("by", "of", "on"):
                        by = j
                        break
                if by is None and not re.search(r"\b(in|from) (the )?(ascending|descending|alphabetical|alphabetic|decreasing|increasing|lexicographical)", text):
                    continue
            elif w in ("ascending", "descending", "alphabetical", "alphabetic", "decreasing", "increasing", "lexicographical") and self.w[i + 1 : i + 2] == ["order"]:
                by = i + 2 if self.w[i + 2 : i + 3] in (["of"], ["by"]) else None
            elif w in ("alphabetically",):
                by = None
            else:
                continue
            descending = bool(re.search(r"\b(descending|decreasing|desc|reverse|most to (the )?(least|fewest)|(highest|largest|oldest|latest|longest) to)\b", text))
            start = i
            while start > 0 and self.w[start - 1] in ("in", "the", "and", "them", "results", "result", "sort", "sorted", "ordered", "order", ","):
                start -= 1
            if by is None:
                self._take(start, min(len(self.w), i + 3))
                return Ordering(None, descending, None)
            after = by + 1
            while after < len(self.w) and self.w[after] in ("the", "their", "its", "ascending", "descending", "alphabetical", "order", "of", "by", "in", "increasing", "decreasing"):
                after += 1
            words, context, end = self._phrase(after)
            slot = Slot(words, context, after, end, _count_of(words))
            words = _without_count(words)
            stop = end
            while stop < len(self.w) and self.w[stop] in ("in", "from", "ascending", "descending", "alphabetical", "order", "high", "low", "to", "highest", "lowest", "most", "least", "oldest", "youngest", "increasing", "decreasing"):
                stop += 1
            self._take(start, stop)
            if words or slot.context:
                return Ordering(replace(slot, words=words or slot.context), descending, None)
            return Ordering(None, descending, None)
        return None

    def _grouping(self) -> Slot | None:
        for i, w in enumerate(self.w):
            if self.used[i]:
                continue
            nxt = self.w[i + 1] if i + 1 < len(self.w) else ""
            start = None
            if w in ("for", "of", "in", "by", "from", "at", "on", "across", "with", "within", "to", "under") and nxt in ("each", "every"):
                start = i + 2
            elif w == "per" or (w in ("grouped", "group") and nxt == "by"):
                start = i + (1 if w == "per" else 2)
            elif w in ("each", "every") and i > 0:
                start = i + 1
            elif w in ("for", "of", "in", "by") and nxt in ("different", "all") and self.w[i + 2 : i + 3] in (["different"], ["the"]) and "many" in self.w:
                start = i + 3
            if start is None:
                continue
            while start < len(self.w) and self.w[start] in ("of", "the", "different", "distinct"):
                start += 1
            words, context, end = self._phrase(start)
            if not words:
                continue
            self._take(i, end)
            return Slot(words, context, start, end)
        return None

    def _comparisons(self) -> list[Comparison]:
        found: list[Comparison] = []
        i = 0
        while i < len(self.w):
            c = self._comparison_at(i)
            if c is None:
                i += 1
                continue
            comparison, end = c
            found.append(comparison)
            i = max(end, i + 1)
        return found

    def _comparison_at(self, i: int) -> tuple[Comparison, int] | None:
        if self.used[i]:
            return None
        w, n = self.w, len(self.w)
        if w[i] == "between":
            low = self._number_at(i + 1)
            high = self._number_at(i + 3)
            if low is not None and high is not None and w[i + 2] in ("and", "to"):
                words, start = self._phrase_before(i)
                self._take(start, i + 4)
                return Comparison(Operator.BETWEEN, Slot(words, "", start, i) if words else None, (low, high), at=i), i + 4
        if w[i] in ("at", "no") and w[i + 1 : i + 2] and w[i + 1] in ("least", "most", "more", "less", "fewer", "later", "earlier"):
            j = i + 2 + (1 if w[i + 2 : i + 3] == ["than"] else 0)
            number = self._number_at(j)
            op = Operator.AT_LEAST if w[i + 1] in ("least", "less", "fewer", "earlier") else Operator.AT_MOST
            if number is not None:
                return self._bound(i, j + 1, op, number, "")
            if w[j : j + 1] == ["the"] and w[j + 1 : j + 2] in (["average"], ["mean"]):
                words, start = self._phrase_before(i)
                own, context, end = self._phrase(j + 2)
                self._take(start if words else i, end)
                return Comparison(op, Slot(words or own, context, start, end), against=Aggregate.AVG, at=i), end
        if w[i] in _COMPARATIVES:
            hint, greater = _COMPARATIVES[w[i]]
            op = Operator.GREATER if greater else Operator.LESS
            j = i + 1
            inner: list[str] = []
            while j < n and j < i + 5 and w[j] not in ("than", "to") and self.items[j].kind == "word" and self._number_at(j) is None and w[i] in (
                "more", "greater", "larger", "higher", "less", "fewer", "smaller", "lower", "bigger", "better"):  # fmt: skip
                if w[j] not in ("a", "an", "the", "of"):
                    inner.append(w[j])
                j += 1
            if j < n and w[j] in ("than", "to"):
                j += 1
                if w[j : j + 2] == ["or", "equal"]:
                    op = Operator.AT_LEAST if greater else Operator.AT_MOST
                    j += 3 if w[j + 2 : j + 3] == ["to"] else 2
            elif inner:
                if w[i] not in ("over", "above", "below", "under") and self._number_at(i + 1) is None:
                    return None
                j, inner = i + 1, []
            if w[j : j + 2] == ["or", "equal"]:
                op = Operator.AT_LEAST if greater else Operator.AT_MOST
                j += 3 if w[j + 2 : j + 3] == ["to"] else 2
            year = j
            while year < n and w[year] in ("the", "year", "of", "a", "an", "$"):
                year += 1
            if self._number_at(j) is None and self._number_at(year) is not None:
                j = year
            number = self._number_at(j)
            if number is not None:
                if w[i] == "since":
                    op = Operator.AT_LEAST
                return self._bound(i, j + 1, op, number, " ".join(inner) or hint)
            k = j
            while k < n and w[k] in ("the", "any", "all", "that", "of", "a", "some", "every"):
                k += 1
            if k < n and w[k] in ("average", "mean", "avg", "minimum", "maximum", "lowest", "highest", "smallest", "largest"):
                words, start = self._phrase_before(i)
                own, context, end = self._phrase(k + 1)
                aggregate = _AGGREGATES[w[k]]
                text = " ".join(inner) or words or own or hint
                self._take(start if words else i, end)
                return Comparison(op, Slot(text, context, start, end), against=aggregate, at=i), end
            if k < n and self.items[k].kind == "value":
                words, start = self._phrase_before(i)
                slot = Slot(" ".join(inner) or words or hint, "", start, i)
                self._take(start if words else i, k + 1)
                return Comparison(op, slot, mentions=(self.items[k].mention,), at=i), k + 1
        if (number := self._number_at(i)) is not None and w[i + 1 : i + 2] == ["or"] and w[i + 2 : i + 3] and w[i + 2] in (
            "more", "greater", "higher", "above", "later", "over", "less", "fewer", "lower", "below", "earlier", "older", "younger"):  # fmt: skip
            op = Operator.AT_LEAST if w[i + 2] in ("more", "greater", "higher", "above", "later", "over", "older") else Operator.AT_MOST
            return self._bound(i, i + 3, op, number, "")
        if w[i] in ("only", "exactly", "just") and (number := self._number_at(i + 1)) is not None:
            words, context, end = self._phrase(i + 2, limit=4)
            if words:
                self._take(i, end)
                return Comparison(Operator.EQUAL, Slot(words, context, i, end), (number,), at=i), end
        if w[i] in ("contains", "contain", "containing", "includes", "include", "including", "substring", "starts", "start", "starting", "begins",
                    "begin", "beginning", "ends", "end", "ending", "like"):  # fmt: skip
            j = i + 1
            while j < n and self.items[j].kind == "word" and w[j] in (
                "the", "word", "with", "letter", "substring", "phrase", "string", "by", "a", "letters", "character", "in", "from", "words"):  # fmt: skip
                j += 1
            spelled = j < n and self.items[j].kind == "word" and (len(w[j]) == 1 or "letter" in w[i:j] or "letters" in w[i:j])
            if j < n and (self.items[j].kind == "value" or spelled):
                words, start = self._phrase_before(i)
                stemmed = w[i][:5]
                op = Operator.STARTS if stemmed in ("start", "begin") else Operator.ENDS if stemmed in ("ends", "end", "endin") else Operator.CONTAINS
                self._take(start if words else i, j + 1)
                slot = Slot(words, "", start, i) if words else None
                if not words and w[j + 1 : j + 2] in (["in"], ["to"], ["for"], ["as"]):
                    own, context, end = self._phrase(j + 2)
                    slot = Slot(own, context, j + 2, end) if own else None
                    self._take(j, end)
                if spelled:
                    return Comparison(op, slot, text=self.items[j].text, at=i), j + 1
                return Comparison(op, slot, mentions=(self.items[j].mention,), at=i), j + 1
        return None

    def _bound(self, i: int, end: int, op: Operator, number: float, inner: str) -> tuple[Comparison, int]:
        """A bound at items i..end: its slot is what stands before ("weight above 10"), else what follows ("more than 3 pets")."""
        start = i
        after, context, stop = self._phrase(end, limit=4)
        words, begin = self._phrase_before(i)
        hint_only = inner in ("age", "weight", "length", "height", "date", "date year", "size", "speed", "price")
        if inner and not hint_only:
            slot = Slot(inner, "", i, end)
            self._take(i, end)
            return Comparison(op, slot, (number,), at=i), end
        has_verb = begin < i and self.w[i - 1] in ("have", "has", "had", "with")
        if after and stem(after.split()[0]) in ("year", "month", "day", "hour", "minute", "dollar", "kg", "km", "meter", "pound", "foot", "mile", "percent") and words:
            after, stop = "", end + 1
        if words and not has_verb and not (after and not words):
            slot = Slot(words if not hint_only else f"{words} {inner}".strip(), after, begin, i)
            start = begin
            if after and self.w[end : end + 1] and self.w[end] not in STOPWORDS:
                slot = replace(slot, words=after if not words or self._is_subject(begin) else words)
            self._take(start, end)
            return Comparison(op, slot, (number,), at=i), end
        if after:
            self._take(i, stop)
            return Comparison(op, Slot(after, context, end, stop), (number,), at=i), stop
        self._take(i, max(end, stop if not after else end))
        text = words or inner
        return Comparison(op, Slot(text, "", begin, i) if text else None, (number,), at=i), end

    def _is_subject(self, begin: int) -> bool:
        return begin <= 2 or self.w[begin - 1] in ("which", "that", "the", "of")

    def _superlative(self) -> Ordering | None:
        w, n = self.w, len(self.w)
        for i in range(n):
            if self.used[i]:
                continue
            word = w[i]
            dimension: tuple[str, bool] | None = _DIMENSIONS.get(word)
            if dimension is None and len(word) > 5 and word.endswith("est") and self.items[i].kind == "word" and word not in (
                "interest", "request", "contest", "guest", "harvest", "forest", "digest", "modest", "honest", "protest", "latest"):  # fmt: skip
                dimension = (word[:-3], True)
            if dimension is None or (word in ("most", "least") and i and w[i - 1] == "at") or word in ("lower",):
                continue
            if word in ("maximum", "minimum", "max", "min") and i and not any(x in ("with", "has", "have", "having", "whose", "had") for x in w[:i]):
                continue
            limit = 1
            number = self._number_at(i - 1)
            j = i + 1
            if number is not None and 1 < number < 1000:
                limit = int(number)
            elif word == "top" and (number := self._number_at(j)) is not None:
                limit, j = int(number), j + 1
            hint, descending = dimension
            if word == "top" and j < n and w[j] in _DIMENSIONS:
                hint, descending = _DIMENSIONS[w[j]]
                j += 1
            if word in ("most", "least") and j < n and w[j] in _MOST_ADJECTIVES:
                hint = _MOST_ADJECTIVES[w[j]]
                descending = word == "most"
                self._take(i - (1 if limit > 1 else 0), j + 1)
                slot = Slot(hint, "", i, j + 1) if hint else None
                return Ordering(slot, descending, limit, f"{word} {w[j]}")
            words, context, end = self._phrase(j)
            if word not in ("most", "fewest", "least", "top", "highest", "lowest", "greatest", "maximum", "minimum", "max", "min") or not words:
                # "the oldest singer": the noun is the entity, the adjective names the attribute.
                if not any(x in ("with", "has", "have", "having", "whose", "had") for x in w[max(0, i - 3) : i]) and words:
                    self._take(i, j)
                    slot = Slot(f"{hint} {words}".strip() if word in ("largest", "smallest", "biggest") else hint, words, i, end)
                    return Ordering(slot, descending, limit, word)
                if not words:
                    before, start = self._phrase_before(i)
                    self._take(i, i + 1)
                    return Ordering(Slot(before or hint, "", start, i + 1) if before or hint else None, descending, limit, word)
            aggregate = _count_of(words)
            self._take(i - (1 if limit > 1 else 0), j)
            in_condition = any(x in ("with", "has", "have", "having", "whose", "had", "by", "that", "who", "which") for x in w[1:i])
            if in_condition:
                self._take(j, end)
            text = _without_count(words) or context
            inner_aggregate = next((_AGGREGATES[x] for x in words.split() if x in ("average", "mean", "total")), None)
            if inner_aggregate is not None:
                text, aggregate = " ".join(x for x in text.split() if x not in ("average", "mean", "total")), inner_aggregate
            return Ordering(Slot(text, context if _without_count(words) else "", j, end, aggregate), descending, limit, word)
        return None

    def _select(self, superlative: Ordering | None) -> tuple[Slot, ...]:
        slots: list[Slot] = []
        n = len(self.w)
        starts = [0]
        for i in range(1, n):
            previous = self.w[i - 1]
            if self.w[i] in _VERBS_OF_REQUEST and self.items[i - 1].kind == "mark" and self.w[i] not in ("who", "which"):
                starts.append(i)
            elif self.w[i] in ("how", "what", "list", "show", "return", "give") and previous in ("and", "also"):
                starts.append(i)
        for start in starts:
            slots.extend(self._clause(start))
            if len(slots) >= 6:
                break
        for i in range(1, n - 1):
            if self._is_open(i) and self.w[i] in _FURTHER and any(self.w[i - k] in ("and", "with", ",", "as") for k in (1, 2, 3) if i >= k):
                back = i - 1
                while back > 0 and self.w[back] in ("the", "their", "its", "corresponding", "respective", "total", "a"):
                    back -= 1
                before = " ".join(self.w[max(0, back - 1) : back + 1])
                if self.w[back] in ("and", ",") or before in ("along with", "together with", "well as"):
                    slots.extend(self._clause(i))
        if not slots and superlative is not None and superlative.slot is not None and superlative.slot.context:
            s = superlative.slot
            slots.append(Slot(s.context, "", s.at, s.to))
        unique: dict[tuple[str, Aggregate | None], Slot] = {}
        for s in slots:
            unique.setdefault((s.words, s.aggregate), s)
        return tuple(unique.values())

    def _clause(self, start: int) -> list[Slot]:
        """The slots of one "what is …" or "list …"."""
        w, n = self.w, len(self.w)
        i = start
        lead = ""
        while i < n and (w[i] in _LEAD or self.items[i].kind == "mark" or self.used[i]) and not (w[i] == "how"):
            if self.used[i] and i > start and w[i] not in _LEAD:
                pass
            lead = w[i] if w[i] in ("who", "which", "what", "count", "whose") else lead
            self.used[i] = True
            i += 1
        if i < n and w[i] == "how":
            nxt = w[i + 1] if i + 1 < n else ""
            if nxt in ("many", "much"):
                self._take(i, i + 2)
                i += 2
                is_distinct = i < n and w[i] in ("different", "distinct", "unique", "kinds", "types")
                while i < n and w[i] in ("different", "distinct", "unique", "of", "the", "total"):
                    self.used[i] = True
                    i += 1
                words, context, end = self._phrase(i)
                if nxt == "much" and not words:
                    rest = [x for x in w[i:] if x not in STOPWORDS and x.isalpha()]
                    return [Slot(rest[-1] if rest else "cost", "", i, i)]
                self._take(i, end)
                return [Slot(words or "", context, i, end, Aggregate.COUNT, is_distinct)]
            if nxt in _HOW:
                self._take(i, i + 2)
                return [Slot(_HOW[nxt], "", i, i + 2)]
            self._take(i, i + 1)
            return []
        if lead == "count":
            words, context, end = self._phrase(i)
            self._take(i, end)
            if words.startswith("number"):
                words = context
            return [Slot(words, context, i, end, Aggregate.COUNT, w[i - 1] in ("different", "distinct"))] if words else []
        slots: list[Slot] = []
        while i < n:
            while i < n and w[i] in ("the", "a", "an", "their", "its", "all", "both", "and", ",", "corresponding", "respective", "his", "her",
                                     "as", "well", "along", "together", "different", "distinct", "&", "also", "unique", "any", "then", "of", "each"):  # fmt: skip
                if self.used[i] and w[i] not in ("each",):
                    pass
                i += 1
            if not self._is_open(i) or self.items[i].kind == "mark":
                break
            if self.items[i].kind == "value" and not slots and i + 1 < n and self.items[i + 1].kind == "word" and w[i + 1] not in _BREAKS:
                i += 1
                continue
            at = i
            aggregate: Aggregate | None = None
            is_distinct = at > 0 and w[at - 1] in ("different", "distinct", "unique")
            pending: list[Aggregate] = []
            while i < n and (w[i] in _AGGREGATES or w[i] in ("and", "the", ",", "or", "of")) and (w[i] in _AGGREGATES or pending):
                if w[i] in _AGGREGATES and self._is_open(i):
                    pending.append(_AGGREGATES[w[i]])
                elif w[i] in _AGGREGATES:
                    break
                self.used[i] = True
                i += 1
            if i < n and w[i] in ("number", "count") and w[i + 1 : i + 2] == ["and"]:
                self._take(i, i + 1)
                slots.append(Slot("", "", i, i + 1, Aggregate.COUNT))
                i += 1
                continue
            if w[i : i + 2] == ["number", "of"] or w[i : i + 2] == ["count", "of"] or w[i : i + 2] == ["numbers", "of"] or w[i : i + 2] == ["amount", "of"]:
                self._take(i, i + 2)
                i += 2
                pending = [Aggregate.COUNT]
                while i < n and w[i] in ("the", "all", "different", "distinct", "unique", "total"):
                    is_distinct |= w[i] in ("different", "distinct", "unique")
                    i += 1
            words, context, end = self._phrase(i)
            if not words and not context:
                break
            if not words:
                words, context = context, ""
            self._take(at, end)
            for aggregate in pending or [None]:
                slots.append(Slot(words, context, at, end, aggregate, is_distinct))
            i = end
            if not (i < n and w[i] in ("and", ",", "as", "along", "together", "&", "or")):
                break
            if w[i] in ("along", "together") and w[i + 1 : i + 2] == ["with"]:
                i += 2
            if i + 1 < n and w[i + 1] in _VERBS_OF_REQUEST | {"whose", "have", "has", "had", "is", "are", "was", "that", "do", "does"}:
                break
        # "names and ages of singers": the words after "of" belong to all of them.
        if slots and slots[-1].context:
            slots = [replace(s, context=s.context or slots[-1].context) for s in slots]
        slots = [replace(s, words=s.context) if not s.words and s.context else s for s in slots]
        # "first and last name": the head noun belongs to both.
        for k in range(len(slots) - 1):
            head = slots[k + 1].words.split()
            if slots[k].words in _PAIRED and len(head) > 1:
                slots[k] = replace(slots[k], words=f"{slots[k].words} {head[-1]}")
        if lead == "who" and not slots:
            return [Slot("name", "person", start, start + 1)]
        return slots


def _count_of(words: str) -> Aggregate | None:
    return Aggregate.COUNT if re.match(r"(total )?(number|count|amount)s?\b", words) else None


def _without_count(words: str) -> str:
    return re.sub(r"^(total )?(number|count|amount)s?( of)?\b", "", words).strip()
