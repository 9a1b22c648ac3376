"""From a counted graph to the value index and the vocabulary, as the chunk queries would have filled them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from proxy.index.arrays import sorted_unique
from proxy.index.literals import NUMBERS, TIMES, named_by_iri, number_of
from proxy.index.ntriples import Literals
from proxy.index.tally import Ids, LiteralPairs, Tally
from proxy.index.values import LONGEST, PairSummary, ValueIndexBuilder
from proxy.index.vocabulary import CLASS_CLASSES, COMMENTS, LABELS, PROPERTY_CLASSES, RELATIONS, VocabularyBuilder
from proxy.query.term import OWL, RDF, RDF_LANG_STRING, RDF_TYPE, RDFS, XSD_STRING, Iri

IDENTIFYING: Final = 0.9
"""Share of a class that has to be told apart by texts; below it, the words in IRIs are kept too."""
NAMES_MOST: Final = 5_000
"""Instances of one class that are kept by the words in their IRI, where nothing else names them."""
_PLAIN: Final = frozenset([XSD_STRING, RDF_LANG_STRING])
_AT_ONCE: Final = 50_000
"""Entries in memory as objects."""
Flags = NDArray[np.bool_]


def gather_hierarchy(tally: Tally, vocabulary: VocabularyBuilder) -> None:
    """What is declared a class or a property, and how they are related."""
    for class_ in (*CLASS_CLASSES, *PROPERTY_CLASSES):
        rows = tally.statements(RDF_TYPE, objects=frozenset([class_]))
        vocabulary.add_declared(class_, [row for row in rows if isinstance(row["s"], Iri)])
    for relation in RELATIONS:
        vocabulary.add_relation(relation, tally.statements(relation))


def gather_descriptions(tally: Tally, vocabulary: VocabularyBuilder, properties: Iterable[str]) -> None:
    """Names and descriptions of all classes and of *properties*; after ``gather_hierarchy`` of all there is."""
    declared = vocabulary.declared_classes() | vocabulary.declared_properties()
    terms = frozenset(declared).union(tally.classes, properties)
    for p in (*LABELS, *COMMENTS):
        vocabulary.add_texts(p, tally.statements(p, terms))


def gather_values(tally: Tally, values: ValueIndexBuilder, excluded: frozenset[str], *, cap: int) -> dict[str, float]:
    """Every literal of each (class, property) up to *cap*, the most frequent ones, and what can be said of all of them.

    Returns: class → about how many of its instances the texts of its best property tell apart.
    """
    pairs, literals = tally.literal_pairs(excluded), tally.literals
    classes = [None if c < 0 else tally.iri(c) for c in pairs.classes.tolist()]
    properties = [tally.iri(p) for p in pairs.properties.tolist()]
    if not properties:
        return {}
    is_too_long = np.fromiter(map(len, literals.texts), dtype=np.int64, count=len(literals.texts))[pairs.literals] > LONGEST
    is_kept = ~is_too_long & (_ordinals(~is_too_long, pairs.begins) <= cap)
    has_one_subject = is_kept & (pairs.counts == 1) & tally.is_iri[pairs.subjects]
    _add_entries(tally, values, pairs, is_kept, has_one_subject)
    distinct = np.diff(np.append(pairs.begins, len(pairs.literals)))
    is_complete = (distinct <= cap) & ~np.logical_or.reduceat(is_too_long, pairs.begins)
    ranges = _ranges(literals, pairs)
    summaries = map(PairSummary, distinct.tolist(), *ranges, is_complete.tolist())
    for class_, property_, about in zip(classes, properties, summaries, strict=True):
        values.describe(class_, property_, about)
    return _named(literals, pairs, classes, properties, is_kept, has_one_subject)


def gather_names(tally: Tally, values: ValueIndexBuilder, named: Mapping[str, float], *, cap: int) -> None:
    """Instances by the words in their IRIs, of classes that texts do not tell apart; *named*: what ``gather_values`` said."""
    for name in unnamed(tally.classes, named):
        values.add(named_by_iri(tally.unlabelled(name, LABELS, limit=min(NAMES_MOST, cap)), name))


def unnamed(classes: Mapping[str, int], named: Mapping[str, float]) -> list[str]:
    """Of *classes* with their instances those that texts do not tell apart."""
    return [c for c, n in classes.items() if named.get(c, 0) < IDENTIFYING * n and not c.startswith((OWL, RDF, RDFS))]


def _ordinals(is_counted: Flags, begins: Ids) -> Ids:
    """How many of the counted there are in each group so far."""
    so_far = np.cumsum(is_counted)
    return so_far - np.repeat(so_far[begins] - is_counted[begins], np.diff(np.append(begins, len(is_counted))))


def _add_entries(tally: Tally, values: ValueIndexBuilder, pairs: LiteralPairs, is_kept: Flags, has_one_subject: Flags) -> None:
    texts, ending, endings = tally.literals.texts, tally.literals.ending, tally.literals.endings
    wanted = sorted_unique(pairs.literals[is_kept])
    number_of_text = np.zeros(len(texts), dtype=np.int64)
    number_of_text[wanted] = values.number_texts([texts[i] for i in wanted.tolist()])
    terms = sorted_unique(np.concatenate([pairs.classes, pairs.properties]))
    terms = terms[terms >= 0]
    number_of_term = np.zeros(len(tally.tokens) + 1, dtype=np.int64)  # the last one is what -1, no class, leads to
    number_of_term[terms] = values.number_iris([tally.iri(i) for i in terms.tolist()])
    datatypes = np.array(values.number_iris([d for d, _ in endings]), dtype=np.int64)
    languages = [tag and tag.lower() for _, tag in endings]
    pair = np.repeat(np.arange(len(pairs.begins)), np.diff(np.append(pairs.begins, len(pairs.literals))))
    kept = np.flatnonzero(is_kept)
    for at in range(0, len(kept), _AT_ONCE):
        chosen = kept[at : at + _AT_ONCE]
        literal = pairs.literals[chosen]
        subject = np.full(len(chosen), None, dtype=object)
        subject[has_one_subject[chosen]] = tally.iris(pairs.subjects[chosen[has_one_subject[chosen]]])
        values.add_numbered(
            (
                number_of_text[literal].tolist(),
                list(map(texts.__getitem__, literal.tolist())),
                list(map(languages.__getitem__, ending[literal].tolist())),
                datatypes[ending[literal]].tolist(),
                number_of_term[pairs.properties[pair[chosen]]].tolist(),
                number_of_term[pairs.classes[pair[chosen]]].tolist(),
                pairs.counts[chosen].tolist(),
                subject.tolist(),
            )
        )


def _ranges(
    literals: Literals, pairs: LiteralPairs
) -> tuple[list[float | None], list[float | None], list[str | None], list[str | None]]:
    """Of each pair the least and the greatest number, the earliest and the latest time."""
    of_ending = [datatype for datatype, _ in literals.endings]
    is_number = np.array([d in NUMBERS for d in of_ending], dtype=np.bool_)[literals.ending]
    is_time = np.array([d in TIMES for d in of_ending], dtype=np.bool_)[literals.ending]
    numbers = np.full(len(literals.texts), np.nan)
    read = [number_of(literals.texts[i]) for i in np.flatnonzero(is_number).tolist()]
    numbers[is_number] = [np.nan if x is None else x for x in read]
    of_entry = numbers[pairs.literals]
    extremes = [np.minimum.reduceat(np.where(np.isnan(of_entry), np.inf, of_entry), pairs.begins)]
    extremes.append(np.maximum.reduceat(np.where(np.isnan(of_entry), -np.inf, of_entry), pairs.begins))
    low, high = ([x if math.isfinite(x) else None for x in side.tolist()] for side in extremes)
    times = sorted({literals.texts[i] for i in np.flatnonzero(is_time).tolist()})
    places = {text: i for i, text in enumerate(times)}
    rank = np.full(len(literals.texts), -1, dtype=np.int64)
    rank[is_time] = [places[literals.texts[i]] for i in np.flatnonzero(is_time).tolist()]
    of_time = rank[pairs.literals]
    first = np.minimum.reduceat(np.where(of_time < 0, len(times), of_time), pairs.begins)
    last = np.maximum.reduceat(of_time, pairs.begins)
    shown = [*times, None]  # neither a time: the last place, from both ends
    return low, high, [shown[i] for i in first.tolist()], [shown[i] for i in last.tolist()]


def _named(
    literals: Literals,
    pairs: LiteralPairs,
    classes: Sequence[str | None],
    properties: Sequence[str],
    is_kept: Flags,
    has_one_subject: Flags,
) -> dict[str, float]:
    """Class → about how many of its instances the texts of its best property tell apart."""
    is_plain = np.array([d in _PLAIN for d, _ in literals.endings], dtype=np.bool_)[literals.ending][pairs.literals]
    has_text = np.logical_or.reduceat(is_plain, pairs.begins).tolist()
    totals = np.add.reduceat(pairs.counts, pairs.begins).tolist()
    seen = np.add.reduceat(np.where(is_kept, pairs.counts, 0), pairs.begins).tolist()
    apart = np.add.reduceat(has_one_subject.astype(np.int64), pairs.begins).tolist()
    named: dict[str, float] = {}
    for c, p, is_text, total, n, alone in zip(classes, properties, has_text, totals, seen, apart, strict=True):
        if c is not None and is_text:
            naming = total if p in LABELS else total * alone / max(1, n)
            named[c] = max(named.get(c, 0), naming)
    return named
