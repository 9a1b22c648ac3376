"""Whether an index still fits its graph, as far as the counts of all properties and classes tell."""

from __future__ import annotations

from collections import Counter

from proxy.backends.base import Backend, Parameters
from proxy.errors import BackendError
from proxy.index import chunks
from proxy.index.build import number
from proxy.index.support import SupportIndex
from proxy.query.term import Iri


async def is_fresh(backend: Backend, index: SupportIndex, timeout_s: float, *, parameters: Parameters = ()) -> bool:
    """Compare the live counts of triples by property and instances by class; True too where they cannot be had.

    With single classes for kinds triples cannot be added up by property: then only the instances are compared.
    """
    try:
        classes = await _counts(backend, chunks.classes(index.class_predicate), "c", timeout_s, parameters)
        properties = await _counts(backend, chunks.properties(), "p", timeout_s, parameters)
    except BackendError:
        return True
    left_out = {c.subject_class for c in index.incomplete}, {c.property for c in index.incomplete}
    if {c: n for c, n in classes.items() if c not in left_out[0]} != index.class_instances:
        return False
    if None in left_out[1] or not index.are_kinds_exact:
        return True
    known: Counter[str] = Counter()
    for p, n in zip(index.property.tolist(), index.count.tolist(), strict=True):
        known[index.properties[p]] += n
    return {p: n for p, n in properties.items() if p not in left_out[1]} == {
        p: n for p, n in known.items() if p not in left_out[1]
    }


async def _counts(backend: Backend, query: str, name: str, timeout_s: float, parameters: Parameters) -> dict[str, int]:
    found = await backend.select(query, timeout_s=timeout_s, parameters=parameters)
    at, count = found.variables.index(name), found.variables.index("n")
    return {t.value: number(row[count]) for row in found.rows if isinstance(t := row[at], Iri)}
