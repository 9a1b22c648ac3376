"""Order, extremes and groups: "sorted by", "the oldest", "the most", "for each"."""

from __future__ import annotations

import re
from dataclasses import replace

from proxy.nl.arithmetic import operation
from proxy.nl.cursor import Cursor
from proxy.nl.english import AGGREGATES, DIMENSIONS, MOST_ADJECTIVES
from proxy.nl.ir import Aggregate
from proxy.nl.sketch import Ordering, Slot

BY_COUNT = "count"
"""In place of an adjective: "ordered by count", the one that is shown."""


def sorting(cur: Cursor) -> Ordering | None:
    text = " ".join(cur.w)
    for i, w in enumerate(cur.w):
        by = None
        if w in (
            "sorted",
            "ordered",
            "order",
            "sort",
            "ranked",
            "arranged",
            "arrange",
            "sorting",
            "ordering",
            "listed",
            "rank",
        ):
            for j in range(i + 1, min(i + 8, len(cur.w))):
                # "order quantity of" orders nothing; "in order of" does.
                if cur.w[j] in ("by", "on") or (cur.w[j] == "of" and (w not in ("order", "rank") or j == i + 1)):
                    by = j
                    break
            if by is None and not re.search(
                r"\b(in|from) (the )?(ascending|descending|alphabetical|alphabetic|decreasing|increasing|lexicographical)",
                text,
            ):
                continue
        elif w in (
            "ascending",
            "descending",
            "alphabetical",
            "alphabetic",
            "decreasing",
            "increasing",
            "lexicographical",
        ) and cur.w[i + 1 : i + 2] == ["order"]:
            by = i + 2 if cur.w[i + 2 : i + 3] in (["of"], ["by"]) else None
        elif w in ("alphabetically",):
            by = None
        else:
            continue
        descending = bool(
            re.search(r"\b(descending|decreasing|desc|reverse|most to (the )?(least|fewest))\b", text)
            or re.search(r"\b(highest|largest|oldest|latest|longest) to\b", text)
        )
        start = i
        while start > 0 and cur.w[start - 1] in (
            "in",
            "the",
            "and",
            "them",
            "results",
            "result",
            "sort",
            "sorted",
            "ordered",
            "order",
            ",",
        ):
            start -= 1
        if by is None:
            cur.take(start, min(len(cur.w), i + 3))
            return Ordering(None, descending, None)
        after = by + 1
        while after < len(cur.w) and cur.w[after] in (
            "the",
            "their",
            "its",
            "ascending",
            "descending",
            "alphabetical",
            "order",
            "of",
            "by",
            "in",
            "increasing",
            "decreasing",
        ):
            after += 1
        words, context, end = cur.phrase(after)
        slot = Slot(words, context, after, end, count_of(words))
        words = without_count(words)
        stop = end
        while stop < len(cur.w) and cur.w[stop] in (
            "in",
            "from",
            "ascending",
            "descending",
            "alphabetical",
            "order",
            "high",
            "low",
            "to",
            "the",
            "highest",
            "lowest",
            "most",
            "least",
            "oldest",
            "youngest",
            "increasing",
            "decreasing",
        ):
            stop += 1
        cur.take(start, stop)
        if words or slot.context:
            return Ordering(replace(slot, words=words or slot.context), descending, None)
        return Ordering(None, descending, None, BY_COUNT if slot.aggregate is Aggregate.COUNT else "")
    return None


def grouping(cur: Cursor) -> Slot | None:
    """What is counted or measured apart: "for each …". "The name of each …" groups nothing: there, *each* means all."""
    can_measure = any(w in AGGREGATES or w in _MEASURES for w in cur.w)
    for i, w in enumerate(cur.w):
        if cur.used[i] or (not can_measure and w == "of"):
            continue
        if not can_measure and w in ("each", "every") and cur.w[i - 1] == "of":
            continue
        nxt = cur.w[i + 1] if i + 1 < len(cur.w) else ""
        start = None
        if w in ("for", "of", "in", "by", "from", "at", "on", "across", "with", "within", "to", "under") and nxt in (
            "each",
            "every",
        ):
            start = i + 2
        elif w == "per" or (w in ("grouped", "group") and nxt == "by"):
            start = i + (1 if w == "per" else 2)
        elif w in ("each", "every") and i > 0:
            start = i + 1
        elif (
            w in ("for", "of", "in", "by")
            and nxt in ("different", "all", "the")
            and cur.w[i + 2 : i + 3] in (["different"], ["the"])
            and (nxt, cur.w[i + 2]) != ("the", "the")
            and ("many" in cur.w or (nxt == "the" and w != "of" and can_measure))
        ):
            start = i + 3
        elif (
            w in ("for", "in", "by", "across", "of", "from") and nxt == "different" and can_measure
            and (w != "of" or any(x in _MEASURED for x in cur.w[:i]))
        ):  # fmt: skip
            start = i + 2
        if start is None:
            continue
        while start < len(cur.w) and cur.w[start] in ("of", "the", "different", "distinct"):
            start += 1
        words, context, end = cur.phrase(start)
        if not words or (w in ("each", "every") and not can_measure and "'s" in cur.w[start:end]):
            continue
        cur.take(i, end)
        return Slot(words, context, start, end)
    return None


def _asked_for(cur: Cursor, before: int) -> int | None:
    """Where the question says how many it wants: "which three cities have the largest …"."""
    for k in range(1, min(4, before - 1)):
        number = cur.number_at(k)
        if number is not None and 1 < number < 100 and cur.w[k - 1] in _ASKING and cur.items[k + 1].kind == "word":
            return k
    return None


_ASKING = frozenset("which what the list show find give name".split())
_MEASURED = frozenset("average mean maximum minimum max min highest lowest".split())
_MEASURES = frozenset("many much number numbers count counts amount most fewest least common top rate".split())


def _is_listed(cur: Cursor, i: int) -> bool:
    """Whether the extreme at *i* is one of several that are asked for: "the highest and lowest prices" are aggregates."""

    def stands_at(k: int) -> bool:
        return 0 <= k < len(cur.w) and cur.w[k] in _EXTREMES and cur.is_open(k)

    if not stands_at(i) or any(x in _CONDITIONAL for x in cur.w[:i]):
        return False
    after = any(stands_at(k) and cur.w[k - 1] in ("and", ",") for k in range(i + 2, i + 7))
    before = any(stands_at(k) and "and" in cur.w[k + 1 : i] for k in range(max(0, i - 6), i - 1))
    return after or before


_EXTREMES = frozenset("highest lowest greatest largest smallest maximum minimum max min average".split())
_CONDITIONAL = frozenset("with has have having whose had that who".split())


def superlative(cur: Cursor) -> Ordering | None:
    w, n = cur.w, len(cur.w)
    for i in range(n):
        if cur.used[i]:
            continue
        word = w[i]
        if word in ("first", "last") and all(x.kind == "mark" for x in cur.items[i + 1 :]):
            # "which company was founded first": the verb before names the date.
            before, start = cur.phrase_before(i)
            if before:
                cur.take(start, i + 1)
                return Ordering(Slot(before, "", start, i + 1), word == "last", 1, word)
        if _is_listed(cur, i):
            continue
        dimension: tuple[str, bool] | None = DIMENSIONS.get(word)
        if (
            dimension is None
            and len(word) > 5
            and word.endswith("est")
            and cur.items[i].kind == "word"
            and word
            not in (
                "interest",
                "request",
                "contest",
                "guest",
                "harvest",
                "forest",
                "digest",
                "modest",
                "honest",
                "protest",
                "latest",
            )
        ):
            bare = word[:-3]
            dimension = (bare[:-1] + "y" if bare.endswith("i") else bare, True)
        if dimension is None or (word in ("most", "least") and i and w[i - 1] == "at") or word in ("lower",):
            continue
        if (
            word in ("maximum", "minimum", "max", "min")
            and i
            and not any(x in ("with", "has", "have", "having", "whose", "had") for x in w[:i])
        ):
            continue
        limit = 1
        number = cur.number_at(i - 1)
        j = i + 1
        if number is not None and 1 < number < 1000 and w[j : j + 1] not in (["recently"], ["often"], ["frequently"]):
            limit = int(number)
        elif word == "top" and (number := cur.number_at(j)) is not None:
            limit, j = int(number), j + 1
        elif (k := _asked_for(cur, i)) is not None:
            limit = int(cur.number_at(k) or 1)
            cur.take(k, k + 1)
        hint, descending = dimension
        if word == "top" and j < n and w[j] in DIMENSIONS:
            hint, descending = DIMENSIONS[w[j]]
            j += 1
        if word in ("most", "least") and j < n and w[j] in MOST_ADJECTIVES:
            hint = MOST_ADJECTIVES[w[j]]
            descending = word == "most"
            cur.take(i - (1 if limit > 1 else 0), j + 1)
            slot = Slot(hint, "", i, j + 1) if hint else None
            return Ordering(slot, descending, limit, f"{word} {w[j]}")
        if (computed := operation(cur, j)) is not None:
            slot, end = computed
            cur.take(i - (1 if limit > 1 else 0), end)
            return Ordering(slot, descending, limit, word, False)
        words, context, end = cur.phrase(j)
        if (
            word not in ("most", "fewest", "least", "top", "highest", "lowest", "greatest", "maximum", "minimum", "max", "min")
            or not words
        ) and count_of(words) is None:
            # "the oldest singer": the noun is the entity, the adjective names the attribute.
            if not any(x in ("with", "has", "have", "having", "whose", "had") for x in w[max(0, i - 3) : i]) and words:
                cur.take(i - (1 if limit > 1 else 0), j)
                slot = Slot(f"{hint} {words}".strip() if word in ("largest", "smallest", "biggest") else hint, words, i, end)
                return Ordering(slot, descending, limit, word)
            if not words:
                before, start = cur.phrase_before(i)
                cur.take(i, i + 1)
                if before and hint and not any(x == "whose" or x == "'s" for x in w[:i]):
                    # "which harbour is the deepest": the noun before has what the adjective names.
                    text = f"{hint} {before}" if word in ("largest", "smallest", "biggest") else hint
                    return Ordering(Slot(text, before, start, i + 1), descending, limit, word)
                return Ordering(Slot(before or hint, "", start, i + 1) if before or hint else None, descending, limit, word)
        aggregate = count_of(words)
        cur.take(i - (1 if limit > 1 else 0), j)
        in_condition = any(x in ("with", "has", "have", "having", "whose", "had", "by", "that", "who", "which") for x in w[1:i])
        if in_condition:
            cur.take(j, end)
        text = without_count(words) or context
        if aggregate is not None and text in ("time", "times"):
            return Ordering(None, descending, limit, word)
        inner_aggregate = next((AGGREGATES[x] for x in words.split() if x in ("average", "mean", "total")), None)
        if inner_aggregate is not None:
            text, aggregate = " ".join(x for x in text.split() if x not in ("average", "mean", "total")), inner_aggregate
        return Ordering(Slot(text, context if without_count(words) else "", j, end, aggregate), descending, limit, word)
    return None


def count_of(words: str) -> Aggregate | None:
    return Aggregate.COUNT if re.match(r"(total )?(number|count|amount)s?\b", words) else None


def without_count(words: str) -> str:
    return re.sub(r"^(total )?(number|count|amount)s?( of)?\b", "", words).strip()
