"""The texts of the chunk queries."""

from __future__ import annotations

import pyoxigraph as ox
import pytest

from proxy.index import chunks
from proxy.index.chunks import Subjects
from proxy.query.term import RDF_TYPE

C, P = "http://example.org/C", "http://example.org/p"
SUBJECTS = [Subjects(RDF_TYPE, C), Subjects(RDF_TYPE, C, True), Subjects(RDF_TYPE, None)]


def texts():
    yield from (chunks.classes(RDF_TYPE), chunks.properties(), chunks.property_names())
    yield from (chunks.co_classes(RDF_TYPE, C), chunks.kinds_of(RDF_TYPE, C))
    yield from (chunks.multiplicity(P, of="subject"), chunks.multiplicity(P, of="object"))
    yield from (chunks.statements(P, limit=5), chunks.statements_about([C, P], P), chunks.declared(C, limit=5))
    yield chunks.names(SUBJECTS[0], [P], limit=5)
    for subjects in SUBJECTS:
        yield chunks.property_names(subjects)
        for p in (None, P):
            yield from (
                f(subjects, p) for f in (chunks.shapes, chunks.object_classes, chunks.object_kinds, chunks.typed_objects)
            )
        yield chunks.values(subjects, P, limit=5, longest=200)
        yield chunks.distinct_values(subjects, P)
        yield chunks.extremes(subjects, P, [P])


@pytest.mark.parametrize("text", sorted(set(texts())))
def test_is_sparql(text):
    """Every query is one that a strict parser takes, and runs on an empty store."""
    assert list(ox.Store().query(text)) is not None


@pytest.mark.parametrize("bad", [f"http://e/{c}" for c in (" ", "<", ">", '"', "{", "}", "|", "^", "`", "\\", "\n", "\0")])
def test_an_iri_cannot_break_out(bad):
    """An IRI from the data that cannot stand in angle brackets is refused, so that it cannot become part of the query."""
    with pytest.raises(ValueError, match="cannot be written"):
        chunks.iri(bad)
