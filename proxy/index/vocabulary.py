"""Which properties name and describe the terms of a graph, and what they said."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from proxy.index.build import Row, text
from proxy.index.support import Vocabulary
from proxy.query.term import OWL, RDF, RDFS, RDFS_LABEL, Iri, Literal

_SKOS = "http://www.w3.org/2004/02/skos/core#"
_TERMS = "http://purl.org/dc/terms/"
_ELEMENTS = "http://purl.org/dc/elements/1.1/"

LABELS: Final = (
    RDFS_LABEL,
    _SKOS + "prefLabel",
    "http://schema.org/name",
    "https://schema.org/name",
    "http://xmlns.com/foaf/0.1/name",
    _TERMS + "title",
    _ELEMENTS + "title",
    _SKOS + "altLabel",
    _SKOS + "notation",
)
"""Properties whose literals name their subject, the usual one first."""

COMMENTS: Final = (
    RDFS + "comment",
    _SKOS + "definition",
    _TERMS + "description",
    _ELEMENTS + "description",
    "http://schema.org/description",
    "https://schema.org/description",
    _SKOS + "scopeNote",
)

SUBCLASS_OF: Final = RDFS + "subClassOf"
SUBPROPERTY_OF: Final = RDFS + "subPropertyOf"
DOMAIN: Final = RDFS + "domain"
RANGE: Final = RDFS + "range"
RELATIONS: Final = (SUBCLASS_OF, SUBPROPERTY_OF, DOMAIN, RANGE)

CLASS_CLASSES: Final = (OWL + "Class", RDFS + "Class")
PROPERTY_CLASSES: Final = (RDF + "Property", OWL + "ObjectProperty", OWL + "DatatypeProperty", OWL + "AnnotationProperty")


class VocabularyBuilder:
    """Collects what the graph says about its own classes and properties."""

    def __init__(self) -> None:
        self._labels: dict[str, dict[tuple[str, str | None], None]] = defaultdict(dict)
        self._comments: dict[str, dict[tuple[str, str | None], None]] = defaultdict(dict)
        self._relations: dict[str, dict[str, set[str]]] = {p: defaultdict(set) for p in RELATIONS}
        self._classes: set[str] = set()
        self._properties: set[str] = set()

    def add_declared(self, class_: str, rows: Iterable[Row]) -> None:
        """Take the answer of ``chunks.declared``."""
        (self._classes if class_ in CLASS_CLASSES else self._properties).update(text(row["s"]) for row in rows)

    def add_relation(self, relation: str, rows: Iterable[Row]) -> None:
        """Take the answer of ``chunks.statements`` for one of RELATIONS."""
        for row in rows:
            s, o = row["s"], row["o"]
            if isinstance(s, Iri) and isinstance(o, Iri) and s != o:
                self._relations[relation][s.value].add(o.value)

    def add_texts(self, property_: str, rows: Iterable[Row]) -> None:
        """Take the answer of ``chunks.statements_about`` for one of LABELS or COMMENTS; call in their order."""
        texts = self._labels if property_ in LABELS else self._comments
        for row in rows:
            s, o = row["s"], row["o"]
            if isinstance(s, Iri) and isinstance(o, Literal) and o.lexical.strip():
                texts[s.value][o.lexical, o.language and o.language.lower()] = None

    def declared_classes(self) -> frozenset[str]:
        hierarchy = self._relations[SUBCLASS_OF]
        return frozenset(self._classes.union(hierarchy, *hierarchy.values()))

    def declared_properties(self) -> frozenset[str]:
        hierarchy = self._relations[SUBPROPERTY_OF]
        return frozenset(
            self._properties.union(hierarchy, self._relations[DOMAIN], self._relations[RANGE], *hierarchy.values())
        )

    def finish(self) -> Vocabulary:
        return Vocabulary(
            labels={s: tuple(t) for s, t in self._labels.items()},
            comments={s: tuple(t) for s, t in self._comments.items()},
            superclasses={s: tuple(sorted(o)) for s, o in self._relations[SUBCLASS_OF].items()},
            superproperties={s: tuple(sorted(o)) for s, o in self._relations[SUBPROPERTY_OF].items()},
            declared_classes=self.declared_classes(),
            declared_properties=self.declared_properties(),
        )
