"""In which order the classes of a graph are described: structure before numbers.

Source: QRAKEN, 4.2 (weights and the form of the score); ties, neighbours and schema classes: docs/ttql.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from proxy.index.support import SupportIndex
from proxy.index.ttql_names import WELL_KNOWN
from proxy.query.term import OWL, RDF, RDFS

INSTANCES_WEIGHT = 0.8
PROPERTIES_WEIGHT = 2.5
NEIGHBOURS_WEIGHT = 2.2
SCHEMA_NAMESPACES = (OWL, RDF, RDFS, WELL_KNOWN["sh"])


def competition_ranks(values: Mapping[str, int]) -> dict[str, int]:
    """1 + the number of greater values: equal ones share a rank, and the next rank is skipped (1, 2, 2, 4)."""
    ordered = sorted(values.values(), reverse=True)
    first = {value: rank for rank, value in reversed(list(enumerate(ordered, start=1)))}
    return {key: first[value] for key, value in values.items()}


def scores(index: SupportIndex) -> dict[str, float]:
    """Class → 0.8 / rank by instances + 2.5 / rank by properties + 2.2 / rank by neighbours.

    Properties: those of its instances as subjects. Neighbours: classes, itself among them, at the other end of a property in
    either direction. Neither counts the class predicate.
    """
    properties: dict[str, set[str]] = defaultdict(set)
    neighbours: dict[str, set[str]] = defaultdict(set)
    instances = index.class_instances
    for subject_class, property_, target in index.matrix:
        if property_ == index.class_predicate:
            continue
        if subject_class is None:
            continue
        properties[subject_class].add(property_)
        if target is not None and target in instances:
            neighbours[subject_class].add(target)
            neighbours[target].add(subject_class)
    ranks = [
        (INSTANCES_WEIGHT, competition_ranks(instances)),
        (PROPERTIES_WEIGHT, competition_ranks({c: len(properties[c]) for c in instances})),
        (NEIGHBOURS_WEIGHT, competition_ranks({c: len(neighbours[c]) for c in instances})),
    ]
    return {c: sum(weight / rank[c] for weight, rank in ranks) for c in instances}


def ranked(index: SupportIndex) -> list[str]:
    """The classes by score, ties by IRI; those of RDFS, OWL and SHACL last, because they describe terms and not things."""
    found = scores(index)
    return sorted(found, key=lambda c: (c.startswith(SCHEMA_NAMESPACES), -found[c], c))


def has_subjects_without_class(index: SupportIndex) -> bool:
    """Whether some node without a class has properties, so that there is something to say of such nodes."""
    return bool(index.properties_of(None).keys() - {index.class_predicate})
