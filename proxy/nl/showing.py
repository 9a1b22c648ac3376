"""What is to be shown: the slots of "what is …", "how many …", "list …"."""

from __future__ import annotations

from dataclasses import replace

from proxy.nl.arithmetic import operation
from proxy.nl.cursor import Cursor
from proxy.nl.english import (
    AGGREGATES,
    ALSO_NOUNS,
    BREAKS,
    FILLERS,
    FURTHER,
    HOW,
    LEAD,
    PAIRED,
    VERBS_OF_REQUEST,
    WHEN_AND_WHERE,
)
from proxy.nl.ir import Aggregate
from proxy.nl.sketch import Ordering, Slot
from proxy.nl.words import STOPWORDS

_BEFORE_ASKING = frozenset("in at on from for to of by with under".split())


def select(cur: Cursor, superlative: Ordering | None) -> tuple[Slot, ...]:
    slots: list[Slot] = []
    n = len(cur.w)
    starts = [0]
    for i in range(1, n):
        previous = cur.w[i - 1]
        if cur.w[i] in VERBS_OF_REQUEST and cur.items[i - 1].kind == "mark" and cur.w[i] not in ("who", "which"):
            starts.append(i)
        elif cur.w[i] in ("how", "what", "list", "show", "return", "give") and previous in ("and", "also"):
            starts.append(i)
    for start in starts:
        slots.extend(clause(cur, start))
        if len(slots) >= 6:
            break
    for i in range(1, n - 1):
        if (
            cur.is_open(i)
            and cur.w[i] in FURTHER
            and any(cur.w[i - k] in ("and", "with", ",", "as") for k in (1, 2, 3) if i >= k)
        ):
            back = i - 1
            while back > 0 and cur.w[back] in ("the", "their", "its", "corresponding", "respective", "total", "a"):
                back -= 1
            before = " ".join(cur.w[max(0, back - 1) : back + 1])
            if (
                cur.w[back] in ("and", ",")
                or (cur.w[back], cur.w[i]) == ("with", "number")
                or before in ("along with", "together with", "well as")
            ):
                slots.extend(clause(cur, i))
    if not slots and superlative is not None and superlative.slot is not None and superlative.slot.context:
        s = superlative.slot
        slots.append(Slot(s.context, "", s.at, s.to))
    if any(s.words and s.aggregate is Aggregate.COUNT for s in slots):
        slots = [s for s in slots if s.words or s.context]
    unique: dict[tuple[str, str, Aggregate | None], Slot] = {}
    for s in slots:
        # "the name of a building along with the name of a company": the same words about two things.
        unique[s.words + s.other, s.context if s.words in ("name", "names", "id", "ids") else "", s.aggregate] = s
    return tuple(unique.values())


def clause(cur: Cursor, start: int) -> list[Slot]:
    """The slots of one "what is …" or "list …"."""
    w, n = cur.w, len(cur.w)
    i = start
    lead = ""
    if w[i] in _BEFORE_ASKING and i + 1 < n and w[i + 1] in ("how", "which", "what"):
        # "In how many cities …"
        cur.used[i] = True
        i += 1
    while i < n and (w[i] in LEAD or cur.items[i].kind == "mark" or cur.used[i]) and not (w[i] == "how"):
        if w[i] in ALSO_NOUNS and i and w[i - 1] in ("the", "a", "their", "its", "each", "every"):
            break
        if cur.used[i] and i > start and w[i] not in LEAD:
            pass
        lead = w[i] if w[i] in ("who", "which", "what", "count", "whose") else lead
        cur.used[i] = True
        i += 1
    if i < n and w[i] == "how":
        nxt = w[i + 1] if i + 1 < n else ""
        if nxt in ("many", "much"):
            cur.take(i, i + 2)
            i += 2
            is_distinct = i < n and w[i] in ("different", "distinct", "unique", "kinds", "types")
            while i < n and w[i] in ("different", "distinct", "unique", "of", "the", "total"):
                cur.used[i] = True
                i += 1
            words, context, end = cur.phrase(i)
            if nxt == "much" and not words:
                rest = [x for x in w[i:] if x not in STOPWORDS and x.isalpha()]
                return [Slot(rest[-1] if rest else "cost", "", i, i)]
            cur.take(i, end)
            return [Slot(words or "", context, i, end, Aggregate.COUNT, is_distinct)]
        if nxt in HOW:
            cur.take(i, i + 2)
            return [Slot(HOW[nxt], "", i, i + 2)]
        cur.take(i, i + 1)
        return []
    if lead == "who":
        # What follows is what they do or are; asked for is their name.
        return [Slot("name", "person", start, i)]
    if i < n and w[i] in WHEN_AND_WHERE:
        asked = w[i]
        cur.take(i, i + 1)
        i += 1
        while i < n and w[i] in ("is", "are", "was", "were", "did", "does", "do", "the", "a", "an"):
            i += 1
        words, context, end = cur.phrase(i)
        return [Slot(WHEN_AND_WHERE[asked], f"{words} {context}".strip(), i, end, asks=asked)]
    if lead == "count":
        words, context, end = cur.phrase(i)
        cur.take(i, end)
        if words.startswith("number"):
            words = context
        return [Slot(words, context, i, end, Aggregate.COUNT, w[i - 1] in ("different", "distinct"))] if words else []
    slots: list[Slot] = []
    while i < n:
        while i < n and w[i] in FILLERS:
            i += 1
        if not cur.is_open(i) or cur.items[i].kind == "mark" or w[i] == "how":
            break
        if (
            cur.items[i].kind == "value"
            and not slots
            and i + 1 < n
            and cur.items[i + 1].kind == "word"
            and w[i + 1] not in BREAKS
        ):
            i += 1
            continue
        at, prefix = i, ""
        aggregate: Aggregate | None = None
        is_distinct = at > 0 and w[at - 1] in ("different", "distinct", "unique")
        pending: list[Aggregate] = []
        while i < n and (w[i] in AGGREGATES or w[i] in ("and", "the", ",", "or", "of")) and (w[i] in AGGREGATES or pending):
            if w[i] in AGGREGATES and cur.is_open(i):
                pending.append(AGGREGATES[w[i]])
            elif w[i] in AGGREGATES:
                break
            cur.used[i] = True
            i += 1
        if i < n and w[i] in ("number", "count") and w[i + 1 : i + 2] == ["and"]:
            cur.take(i, i + 1)
            slots.append(Slot("", "", i, i + 1, Aggregate.COUNT))
            i += 1
            continue
        if (
            w[i : i + 2] == ["number", "of"]
            or w[i : i + 2] == ["count", "of"]
            or w[i : i + 2] == ["numbers", "of"]
            or w[i : i + 2] == ["amount", "of"]
        ):
            # "the total amount of rent" is a sum, "the amount of tenants" a number; "the average number of rooms" is about a
            # number that each has.
            stored = bool(set(pending) & {Aggregate.AVG, Aggregate.MIN, Aggregate.MAX})
            if not stored:
                pending = [Aggregate.SUM] if w[i] == "amount" and pending == [Aggregate.SUM] else [Aggregate.COUNT]
            prefix = ("amount of " if w[i] == "amount" else "number of ") if stored else ""
            cur.take(i, i + 2)
            i += 2
            while i < n and w[i] in ("the", "all", "different", "distinct", "unique", "total"):
                is_distinct |= w[i] in ("different", "distinct", "unique")
                i += 1
        if (computed := operation(cur, i)) is not None:
            slot, end = computed
            cur.take(at, end)
            slots.append(replace(slot, aggregate=pending[0] if pending else None))
            i = end
            continue
        words, context, end = cur.phrase(i)
        if not words and not context:
            break
        if not words:
            words, context = context, ""
        words = prefix + words
        cur.take(at, end)
        aggregates: list[Aggregate | None] = [*pending] or [None]
        for aggregate in aggregates:
            slots.append(Slot(words, context, at, end, aggregate, is_distinct))
        i = end
        if not (i < n and w[i] in ("and", ",", "as", "along", "together", "&", "or")):
            break
        if w[i] in ("along", "together") and w[i + 1 : i + 2] == ["with"]:
            i += 2
        if i + 1 < n and w[i + 1] in VERBS_OF_REQUEST | {
            "whose",
            "have",
            "has",
            "had",
            "is",
            "are",
            "was",
            "that",
            "do",
            "does",
        }:
            break
    # "names and ages of singers": the words after "of" belong to all of them.
    if slots and slots[-1].context:
        slots = [replace(s, context=s.context or slots[-1].context) for s in slots]
    slots = [replace(s, words=s.context) if not s.words and s.context else s for s in slots]
    # "first and last name": the head noun belongs to both.
    for k in range(len(slots) - 1):
        head = slots[k + 1].words.split()
        if slots[k].words in PAIRED and len(head) > 1:
            slots[k] = replace(slots[k], words=f"{slots[k].words} {head[-1]}")
    return slots
