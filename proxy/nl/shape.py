"""What kind of answer a question asks for, and which of its words play which part. English rules; harmless elsewhere.

The result is a *sketch*: slots of words still without meaning (that is linking's business) in the places of a query: what is
shown, what is compared, what is sorted by, what is grouped, what must be absent. A question may have several sketches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from proxy.nl.comparing import comparisons
from proxy.nl.cursor import Cursor
from proxy.nl.english import AGGREGATES, AUXILIARY, NEGATIONS
from proxy.nl.ir import Aggregate
from proxy.nl.ordering import grouping, sorting, superlative
from proxy.nl.showing import select
from proxy.nl.sketch import EVERYTHING, Item, Ordering, Sketch, Slot

_IF_ANY = r"\b(if (there is )?(any|one|available|known|present|given|they have (any|one))|where (available|known|given))\b"
_OF_COUNTS = (Aggregate.AVG, Aggregate.MIN, Aggregate.MAX)
_INFORMATION = frozenset("info information details data attributes fields columns".split())


def sketches(items: Sequence[Item]) -> list[Sketch]:
    """The readings of a question, likeliest first; at least one."""
    first = read(items)
    found = [first]
    if (whole := _everything(items, first)) is not None:
        found = [whole, first] if whole.select else [whole]
    end = next((i for i, item in enumerate(items[:-1]) if item.text in (".", "?", "!")), None)
    later = tuple(s for s in first.select if end is not None and s.at > end)
    if later and len(later) < len(first.select) and not any(s.aggregate for s in first.select):
        # "Which shops are open? List their names." asks for the names only.
        first = replace(first, select=later)
        found = [first, replace(found[-1], note="both sentences")]
    # "the highest salary" may be MAX, or the entity with it; "how many X" may be stored as a number.
    if first.order is not None and first.order.limit == 1 and len(first.select) == 1 and first.order.adjective:
        lower = first.order.adjective
        if lower in AGGREGATES and first.order.slot is not None and first.order.slot.words == first.select[0].words:
            slot = replace(first.select[0], aggregate=AGGREGATES[lower])
            found.append(replace(first, select=(slot,), order=None, note="aggregate instead of superlative"))
    if any(s.aggregate in (Aggregate.MAX, Aggregate.MIN) for s in first.select) and first.order is None and first.group is None:
        extreme = next(s for s in first.select if s.aggregate in (Aggregate.MAX, Aggregate.MIN))
        plain = tuple(replace(s, aggregate=None) for s in first.select)
        by = replace(extreme, aggregate=None)
        order = Ordering(by, extreme.aggregate is Aggregate.MAX, 1, "", False)
        found.append(replace(first, select=plain, order=order, note="superlative instead of aggregate"))
    if any(s.aggregate is Aggregate.COUNT for s in first.select):
        plain = tuple(
            replace(s, aggregate=None, words=f"number of {s.words}") if s.aggregate is Aggregate.COUNT else s
            for s in first.select
        )
        found.append(replace(first, select=plain, note="stored number instead of count"))
        summed = tuple(
            replace(s, aggregate=Aggregate.SUM, words=f"number of {s.words}") if s.aggregate is Aggregate.COUNT else s
            for s in first.select
        )
        found.append(replace(first, select=summed, note="sum instead of count"))
    of_number = [s for s in first.select if s.aggregate in _OF_COUNTS and s.words.startswith("number of ")]
    if len(first.select) == 1 and of_number:
        counted = of_number[0].words.removeprefix("number of ")
        slot = replace(of_number[0], words=counted, aggregate=Aggregate.COUNT, nested=of_number[0].aggregate)
        found.append(replace(first, select=(slot,), note="aggregate of counts"))
    aggregated = [s for s in first.select if s.aggregate is not None]
    # "the maximum price and score": only words of one list share their aggregate.
    follower = next((b for a, b in pairwise(first.select) if a.aggregate is not None and b.aggregate is None), None)
    if len(aggregated) == 1 and follower is not None and 0 <= follower.at - aggregated[0].to <= 3:
        aggregate = aggregated[0].aggregate
        spread = tuple(s if s.at < aggregated[0].at else replace(s, aggregate=aggregate) for s in first.select)
        found.append(replace(first, select=spread, note="aggregate of all"))
        if aggregate is Aggregate.COUNT:
            total = tuple(replace(s, aggregate=Aggregate.SUM) if s.aggregate is not None else s for s in spread)
            found.append(replace(first, select=total, note="sum of all"))
    if first.group is not None:
        found.append(replace(first, group=None, note="no grouping"))
    return found


def _everything(items: Sequence[Item], first: Sketch) -> Sketch | None:
    """ "All the information about X": the sketch that shows every attribute of X; None where nothing like it is said."""
    words = [i.lower for i in items]
    for i, w in enumerate(words):
        is_whole = bool({"all", "any", "every", "full"} & set(words[max(0, i - 2) : i]))
        said = (w in _INFORMATION and is_whole) or w == "everything"
        if said and words[i + 1 : i + 2] and words[i + 1] in ("about", "on", "of", "for", "regarding"):
            cur = Cursor(items)
            text, _, end = cur.phrase(i + 2)
            if any(x.kind == "value" for x in items[i + 2 :]):
                return replace(first, select=(), note=EVERYTHING)
            if text:
                return replace(first, select=(Slot(text, "", i + 2, end),), note=EVERYTHING)
    return None


def read(items: Sequence[Item]) -> Sketch:
    """The likeliest reading. The order matters: each step takes its words, what is shown is read from the rest."""
    cur = Cursor(items)
    words = cur.w
    is_ask = bool(words) and words[0] in AUXILIARY and not (words[0] == "can" and "you" in words[:2])
    order = sorting(cur)
    group = grouping(cur)
    compared = comparisons(cur)
    extreme = superlative(cur)
    negated = next((i for i, w in enumerate(words) if w in NEGATIONS and cur.is_open(i)), None)
    if negated is None:
        negated = next((i for i, w in enumerate(words) if w in ("other", "rather") and words[i + 1 : i + 2] == ["than"]), None)
    shown = () if is_ask else select(cur, extreme)
    if extreme is not None and extreme.slot is None and not extreme.adjective:
        extreme = None
    text = " ".join(words)
    return Sketch(
        select=shown,
        comparisons=tuple(compared),
        order=extreme or order,
        group=group,
        negated_from=negated,
        is_union=bool(re.search(r"\bor\b", text)),
        is_both=bool(re.search(r"\bboth\b|\bas well as\b|\balso\b", text)),
        is_distinct=bool(re.search(r"\b(distinct|different|unique)\b", text)),
        is_ask=is_ask,
        is_last_optional=bool(re.search(_IF_ANY, text)),
    )
