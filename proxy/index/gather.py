"""From a counted graph to the value index and the vocabulary, as the chunk queries would have filled them."""

from __future__ import annotations

from typing import Final

import numpy as np

from proxy.index.literals import NUMBERS, TIMES, named_by_iri, number_of
from proxy.index.tally import Tally
from proxy.index.values import LONGEST, PairSummary, ValueIndexBuilder
from proxy.index.vocabulary import CLASS_CLASSES, COMMENTS, LABELS, PROPERTY_CLASSES, RELATIONS, VocabularyBuilder
from proxy.query.term import OWL, RDF, RDF_LANG_STRING, RDF_TYPE, RDFS, XSD_STRING, Iri

IDENTIFYING: Final = 0.9
"""Share of a class that has to be told apart by texts; below it, the words in IRIs are kept too."""
NAMES_MOST: Final = 5_000
"""Instances of one class that are kept by the words in their IRI, where nothing else names them."""
_PLAIN: Final = frozenset([XSD_STRING, RDF_LANG_STRING])


def gather_vocabulary(tally: Tally, vocabulary: VocabularyBuilder) -> None:
    """Names, descriptions and hierarchy of classes and properties."""
    for class_ in (*CLASS_CLASSES, *PROPERTY_CLASSES):
        rows = tally.statements(RDF_TYPE, objects=frozenset([class_]))
        vocabulary.add_declared(class_, [row for row in rows if isinstance(row["s"], Iri)])
    for relation in RELATIONS:
        vocabulary.add_relation(relation, tally.statements(relation))
    terms = frozenset(vocabulary.declared_classes() | vocabulary.declared_properties()).union(tally.classes, tally.properties)
    for p in (*LABELS, *COMMENTS):
        vocabulary.add_texts(p, tally.statements(p, terms))


def gather_values(tally: Tally, values: ValueIndexBuilder, excluded: frozenset[str], *, cap: int) -> None:
    """Every literal of each (class, property) up to *cap*, the most frequent ones, and what can be said of all of them."""
    named: dict[str, float] = {}
    for class_, property_, literals, counts, subjects in tally.literals():
        if property_ in excluded:
            continue
        found: list[tuple[str, str | None, str, int, str | None]] = []
        numbers: list[float] = []
        times: list[str] = []
        has_text, too_long = False, 0
        literal, is_iri, iri = tally.literal, tally.is_iri, tally.iri
        for i, n, s in zip(literals.tolist(), counts.tolist(), subjects.tolist(), strict=True):
            text, datatype, language = literal[i]
            if datatype in _PLAIN:
                has_text = True
                language = language and language.lower()
            elif datatype in NUMBERS:
                if (number := number_of(text)) is not None:
                    numbers.append(number)
            elif datatype in TIMES:
                times.append(text)
            if len(text) > LONGEST:
                too_long += 1
            elif len(found) < cap:
                found.append((text, language, datatype, n, iri(s) if n == 1 and is_iri[s] else None))
        if class_ is not None and has_text:
            total, seen = int(np.sum(counts)), sum(e[3] for e in found)
            naming = total if property_ in LABELS else total * sum(e[4] is not None for e in found) / max(1, seen)
            named[class_] = max(named.get(class_, 0), naming)
        values.add_pair(class_, property_, found)
        is_complete = len(literals) <= cap and not too_long
        low_high = min(numbers, default=None), max(numbers, default=None)
        values.describe(
            class_,
            property_,
            PairSummary(len(literals), *low_high, min(times, default=None), max(times, default=None), is_complete),
        )
    for class_, n in tally.classes.items():
        if named.get(class_, 0) < IDENTIFYING * n and not class_.startswith((OWL, RDF, RDFS)):
            rows = tally.unlabelled(class_, LABELS, limit=min(NAMES_MOST, cap))
            values.add(named_by_iri(rows, class_))
