"""Comparisons: "older than 30", "at least two", "above the average", "starting with"."""

from __future__ import annotations

from dataclasses import replace

from proxy.nl.cursor import Cursor
from proxy.nl.english import AGGREGATES, COMPARATIVES, LEAD, UNITS
from proxy.nl.ir import Aggregate, Operator
from proxy.nl.sketch import Comparison, Slot
from proxy.nl.words import STOPWORDS, stem


def comparisons(cur: Cursor) -> list[Comparison]:
    found: list[Comparison] = []
    i = 0
    while i < len(cur.w):
        c = comparison_at(cur, i)
        if c is None:
            i += 1
            continue
        comparison, end = c
        if found and comparison.slot is None and i and cur.w[i - 1] in ("or", "and"):
            # "a population over 4000 or under 100": the second bound is about the same.
            comparison = replace(comparison, slot=found[-1].slot)
        found.append(comparison)
        i = max(end, i + 1)
    return found


def comparison_at(cur: Cursor, i: int) -> tuple[Comparison, int] | None:
    if cur.used[i]:
        return None
    w, n = cur.w, len(cur.w)
    if w[i] == "between":
        low = cur.number_at(i + 1)
        high = cur.number_at(i + 3)
        if low is not None and high is not None and w[i + 2] in ("and", "to"):
            words, start = cur.phrase_before(i)
            cur.take(start, i + 4)
            return Comparison(Operator.BETWEEN, Slot(words, "", start, i) if words else None, (low, high), at=i), i + 4
        ends = [cur.items[k].mention for k in (i + 1, i + 3) if k < n and cur.items[k].kind == "value"]
        if len(ends) == 2 and w[i + 2] in ("and", "to"):
            words, start = cur.phrase_before(i)
            cur.take(start, i + 4)
            slot = Slot(words, "", start, i) if words else None
            return Comparison(Operator.BETWEEN, slot, mentions=tuple(ends), at=i), i + 4
    if w[i] in ("on", "in", "during", "at") and i + 1 < n and cur.items[i + 1].is_date:
        words, start = cur.phrase_before(i)
        cur.take(i, i + 2)
        slot = Slot(f"{words} date".strip(), "", start, i)
        return Comparison(Operator.EQUAL, slot, mentions=(cur.items[i + 1].mention,), at=i), i + 2
    if w[i] in ("at", "no") and w[i + 1 : i + 2] and w[i + 1] in ("least", "most", "more", "less", "fewer", "later", "earlier"):
        j = i + 2 + (1 if w[i + 2 : i + 3] == ["than"] else 0)
        number = cur.number_at(j)
        op = Operator.AT_LEAST if w[i + 1] in ("least", "less", "fewer", "earlier") else Operator.AT_MOST
        if number is not None:
            return bound(cur, i, j + 1, op, number, "")
        if w[j : j + 1] == ["the"] and w[j + 1 : j + 2] in (["average"], ["mean"]):
            words, start = cur.phrase_before(i)
            own, context, end = cur.phrase(j + 2)
            cur.take(start if words else i, end)
            return Comparison(op, Slot(words or own, context, start, end), against=Aggregate.AVG, at=i), end
    if w[i] in COMPARATIVES:
        hint, greater = COMPARATIVES[w[i]]
        op = Operator.GREATER if greater else Operator.LESS
        j = i + 1
        inner: list[str] = []
        while (
            j < n
            and j < i + 5
            and w[j] not in ("than", "to")
            and cur.items[j].kind == "word"
            and cur.number_at(j) is None
            and w[i] in ("more", "greater", "larger", "higher", "less", "fewer", "smaller", "lower", "bigger", "better")
        ):
            if w[j] not in ("a", "an", "the", "of"):
                inner.append(w[j])
            j += 1
        if j < n and w[j] in ("than", "to"):
            j += 1
            if w[j : j + 2] == ["or", "equal"]:
                op = Operator.AT_LEAST if greater else Operator.AT_MOST
                j += 3 if w[j + 2 : j + 3] == ["to"] else 2
        elif inner:
            if w[i] not in ("over", "above", "below", "under") and cur.number_at(i + 1) is None:
                return None
            j, inner = i + 1, []
        if w[i] in ("below", "above", "over", "under") and cur.number_at(j) is None and cur.number_at(j + 1) is not None:
            # "below age 30": the attribute stands between the word and the number.
            if w[j] not in ("the", "a", "an", "than"):
                inner = [w[j]]
            j += 1
        if w[j : j + 2] == ["or", "equal"]:
            op = Operator.AT_LEAST if greater else Operator.AT_MOST
            j += 3 if w[j + 2 : j + 3] == ["to"] else 2
        year = j
        while year < n and w[year] in ("the", "year", "of", "a", "an", "$"):
            year += 1
        if cur.number_at(j) is None and cur.number_at(year) is not None:
            j = year
        number = cur.number_at(j)
        if number is not None:
            if w[i] == "since":
                op = Operator.AT_LEAST
            return bound(cur, i, j + 1, op, number, " ".join(inner) or hint, is_hint=not inner)
        k = j
        while k < n and w[k] in ("the", "any", "all", "that", "of", "a", "some", "every"):
            k += 1
        if k < n and w[k] in ("average", "mean", "avg", "minimum", "maximum", "lowest", "highest", "smallest", "largest"):
            words, start = cur.phrase_before(i)
            own, context, end = cur.phrase(k + 1)
            aggregate = AGGREGATES[w[k]]
            text = " ".join(inner) or words or own or hint
            cur.take(start if words else i, end)
            return Comparison(op, Slot(text, context, start, end), against=aggregate, at=i), end
        if (scoped := _scoped(cur, i, j, op, " ".join(inner) or hint)) is not None:
            return scoped
        if k < n and cur.items[k].kind == "value":
            words, start = cur.phrase_before(i)
            slot = Slot(" ".join(inner) or words or hint, "", start, i)
            cur.take(start if words else i, k + 1)
            return Comparison(op, slot, mentions=(cur.items[k].mention,), at=i), k + 1
    if (
        (number := cur.number_at(i)) is not None
        and w[i + 1 : i + 2] == ["or"]
        and w[i + 2 : i + 3]
        and w[i + 2]
        in (
            "more",
            "greater",
            "higher",
            "above",
            "later",
            "over",
            "less",
            "fewer",
            "lower",
            "below",
            "earlier",
            "older",
            "younger",
        )
    ):
        op = (
            Operator.AT_LEAST
            if w[i + 2] in ("more", "greater", "higher", "above", "later", "over", "older")
            else Operator.AT_MOST
        )
        return bound(cur, i, i + 3, op, number, "")
    if w[i] in ("multiple", "several") and i and w[i - 1] not in ("of", "the", "in"):
        words, context, end = cur.phrase(i + 1, limit=4)
        if words:
            cur.take(i, end)
            return Comparison(Operator.GREATER, Slot(words, context, i, end), (1.0,), at=i), end
    if w[i] in ("only", "exactly", "just") and (number := cur.number_at(i + 1)) is not None:
        words, context, end = cur.phrase(i + 2, limit=4)
        if words:
            cur.take(i, end)
            return Comparison(Operator.EQUAL, Slot(words, context, i, end), (number,), at=i), end
    if (
        cur.items[i].kind == "value"
        and w[i + 1 : i + 3] in (["in", "their"], ["in", "its"], ["in", "the"], ["in", "his"], ["in", "her"])
        and w[i + 3 : i + 4]
        and stem(w[i + 3]) in _TEXTS
    ):
        # "have 'North' in their names"
        cur.take(i, i + 4)
        return Comparison(Operator.CONTAINS, Slot(w[i + 3], "", i + 3, i + 4), mentions=(cur.items[i].mention,), at=i), i + 4
    if w[i] in (
        "contains",
        "contain",
        "containing",
        "includes",
        "include",
        "including",
        "substring",
        "starts",
        "start",
        "starting",
        "begins",
        "begin",
        "beginning",
        "ends",
        "end",
        "ending",
        "like",
        "letter",
    ):
        j = i + 1
        while (
            j < n
            and cur.items[j].kind == "word"
            and w[j]
            in (
                "the",
                "word",
                "with",
                "letter",
                "substring",
                "phrase",
                "string",
                "by",
                "a",
                "letters",
                "character",
                "in",
                "from",
                "words",
            )
        ):
            j += 1
        spelled = (
            j < n
            and cur.items[j].kind in ("word", "number")
            and (
                len(w[j]) == 1
                or any(x in _SPELLED for x in w[i:j])
                or (w[i] not in ("like", "include", "includes", "including") and _is_written_oddly(cur.items[j].text))
            )
        )
        if j < n and (cur.items[j].kind == "value" or spelled):
            words, start = cur.phrase_before(i)
            stemmed = w[i][:5]
            op = (
                Operator.STARTS
                if stemmed in ("start", "begin")
                else Operator.ENDS
                if stemmed in ("ends", "end", "endin")
                else Operator.CONTAINS
            )
            cur.take(start if words else i, j + 1)
            said = Slot(words, "", start, i) if words else None
            if not words and w[j + 1 : j + 2] in (["in"], ["to"], ["for"], ["as"]):
                own, context, end = cur.phrase(j + 2)
                said = Slot(own, context, j + 2, end) if own else None
                cur.take(j, end)
            if spelled:
                return Comparison(op, said, text=cur.items[j].text, at=i), j + 1
            return Comparison(op, said, mentions=(cur.items[j].mention,), at=i), j + 1
    return None


def _scoped(cur: Cursor, i: int, j: int, op: Operator, named: str) -> tuple[Comparison, int] | None:
    """ "greater than that of all ships of …": compared with an extreme of those that the rest of the question describes."""
    k = j
    while k < len(cur.w) and cur.w[k] in ("that", "those", "of", "the", "ones"):
        k += 1
    quantifier = next((w for w in cur.w[k : k + 1] if w in ("all", "every", "each", "any", "some")), None)
    if quantifier is None or not 0 < k < len(cur.w) - 1:
        return None
    words, start = cur.phrase_before(i)
    if not (words or named):
        return None
    is_all = quantifier in ("all", "every", "each")
    against = Aggregate.MAX if is_all == (op in (Operator.GREATER, Operator.AT_LEAST)) else Aggregate.MIN
    _, _, end = cur.phrase(k + 1)
    cur.take(start if words else i, end)
    slot = Slot(named if named and not words else words, "", start, i)
    return Comparison(op, slot, against=against, at=i, is_scoped=True), end


_SPELLED = frozenset("letter letters word substring phrase string character words".split())


_TEXTS = frozenset("name title description label text comment detail".split())
_ASKING = frozenset("which what".split())


def _is_written_oddly(text: str) -> bool:
    """Whether *text* is quoted without quotation marks: in capitals, or with digits or marks inside."""
    return text.isupper() or any(not x.isalpha() for x in text)


def bound(
    cur: Cursor, i: int, end: int, op: Operator, number: float, inner: str, *, is_hint: bool = True
) -> tuple[Comparison, int]:
    """A bound at items i..end: its slot is what stands before ("weight above 10"), else what follows ("more than 3 pets").

    inner: what stands inside ("a greater weight than 10"); with *is_hint*, only what the comparative suggests.
    """
    start = i
    after, context, stop = cur.phrase(end, limit=4)
    words, begin = cur.phrase_before(i)
    if inner and not is_hint:
        slot = Slot(inner, "", i, end)
        cur.take(i, end)
        return Comparison(op, slot, (number,), at=i), end
    has_verb = begin < i and cur.w[i - 1] in ("have", "has", "had", "with")
    if after and stem(after.split()[0]) in UNITS and (words or inner):
        after, end = "", end + 1
        stop = end
    if words and inner and not after and cur.w[i].endswith("er") and inner != "date":
        # "towers are taller than 60 metres": the adjective names the attribute, what stands before has it.
        cur.take(i, max(end, stop))
        return Comparison(op, Slot(inner, words, i, end), (number,), at=i), stop
    if words and not has_verb and not (after and not words):
        slot = Slot(f"{words} {inner}".strip(), after, begin, i)
        # "Which parcels weigh more than 5 kg": the words say what is asked for, too.
        start = i if begin and cur.w[begin - 1] in _ASKING and all(x in LEAD for x in cur.w[:begin]) else begin
        if after and cur.w[end : end + 1] and cur.w[end] not in STOPWORDS:
            slot = replace(slot, words=after if not words or is_subject(cur, begin) else words)
        cur.take(start, end)
        return Comparison(op, slot, (number,), at=i), end
    if after:
        cur.take(i, stop)
        return Comparison(op, Slot(after, context, end, stop), (number,), at=i), stop
    cur.take(i, max(end, stop if not after else end))
    text = words or inner
    return Comparison(op, Slot(text, "", begin, i) if text else None, (number,), at=i), end


def is_subject(cur: Cursor, begin: int) -> bool:
    return begin <= 2 or cur.w[begin - 1] in ("which", "that", "the", "of")
