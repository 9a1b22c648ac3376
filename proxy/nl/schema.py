"""The graph as a question sees it: classes, attributes, and the edges between classes, each with words.

A projection of the support index S, computed once per index. *Attribute*: a property path from a class to a literal, one
property as a rule, two where a node in between only carries a value (a quantity with its unit, a range with its ends).
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from proxy.index.support import SupportIndex
from proxy.index.values import ValueEntry
from proxy.nl.arithmetic import measures
from proxy.nl.languages import shipped
from proxy.nl.words import Splitter, is_opaque, local_name, stems
from proxy.query.term import OWL, RDF, RDF_LANG_STRING, RDFS, RDFS_LABEL, XSD

NUMERIC = frozenset(
    XSD + n
    for n in (
        "integer decimal float double int long short byte nonNegativeInteger positiveInteger nonPositiveInteger negativeInteger"
        " unsignedInt unsignedLong unsignedShort unsignedByte"
    ).split()
)
TEMPORAL = frozenset(XSD + n for n in "date dateTime dateTimeStamp gYear gYearMonth time".split())
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")
SKOS = "http://www.w3.org/2004/02/skos/core#"
NAMING = frozenset(
    [RDFS_LABEL, SKOS + "prefLabel", "http://xmlns.com/foaf/0.1/name", "http://schema.org/name", "https://schema.org/name"]
)
"""Properties that name whatever has them, however they are called."""
_KEY_WORDS = frozenset("id identifier ref reference code key number no".split())
"""Words of an edge that say only that it refers."""
SELF = ""
"""In place of a property: the node itself, by its IRI."""
_IRI = XSD + "anyURI"
"""In place of a datatype: IRIs that have no class, such as web pages, and items that the graph does not describe."""
_WALKS_MOST = 50_000
"""Pairs of classes whose walks are remembered."""
NAME_WORDS = ("name", "title", "full name", "label")


@dataclass(frozen=True, slots=True)
class ClassTerm:
    """A populated class. *words*: how people call it, best first, lower case."""

    iri: str
    words: tuple[str, ...]
    instances: int


@dataclass(frozen=True, slots=True)
class Attribute:
    """A path from *subject_class* to literals of *datatype* (the most frequent one). *count*: triples.

    operator, parts: the value is computed from other attributes of the same subject (nl/arithmetic.py).
    """

    subject_class: str
    path: tuple[str, ...]
    datatype: str
    words: tuple[str, ...]
    count: int
    is_text_number: bool = False
    operator: str = ""
    parts: tuple[Attribute, ...] = ()

    @property
    def is_number(self) -> bool:
        return self.datatype in NUMERIC or self.is_text_number

    @property
    def is_temporal(self) -> bool:
        return self.datatype in TEMPORAL


@dataclass(frozen=True, slots=True)
class Edge:
    """*property* leads from instances of *subject_class* to instances of *object_class*."""

    subject_class: str
    property: str
    object_class: str
    words: str
    count: int


@dataclass(frozen=True, slots=True)
class Step:
    """An edge as it is walked; *is_inverse*: from object to subject."""

    edge: Edge
    is_inverse: bool

    @property
    def source(self) -> str:
        return self.edge.object_class if self.is_inverse else self.edge.subject_class

    @property
    def target(self) -> str:
        return self.edge.subject_class if self.is_inverse else self.edge.object_class


class ValueStatistics(Protocol):
    """What is asked of the value index: literals of a property, and how many different ones there are."""

    def examples(self, class_: str | None, property_: str, limit: int = 5) -> Sequence[ValueEntry]: ...

    def distinct(self, class_: str | None, property_: str) -> int | None: ...


class Schema:
    """Classes, attributes and edges of one index.

    Args:
        splitter: cuts IRIs' local names into words.
        values: tells which string-typed properties hold numbers; None: none do.
    """

    def __init__(self, index: SupportIndex, splitter: Splitter, values: ValueStatistics | None = None) -> None:
        self.index = index
        self.splitter = splitter
        self._values = values
        self._labels = index.vocabulary.labels
        skip = (RDF, RDFS, OWL)
        instances = index.class_instances
        self.classes: dict[str, ClassTerm] = {
            c: ClassTerm(c, self.class_words(c), n) for c, n in instances.items() if n > 0 and not c.startswith(skip)
        }
        literal: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        edges: dict[tuple[str, str, str], int] = {}
        datatypes = {k.datatype for k in index.kinds if k.datatype is not None}
        for (sc, p, oc), n in index.matrix.items():
            if sc is None or sc not in self.classes or p == index.class_predicate:
                continue
            if oc in datatypes:
                literal[sc, p][oc or ""] = n
            elif oc is not None and oc in self.classes:
                edges[sc, p, oc] = n
            elif oc is None and not p.startswith(skip):
                literal[sc, p][_IRI] = n
        self.edges = [Edge(s, p, o, self.property_words(p)[0], n) for (s, p, o), n in sorted(edges.items())]
        self.attributes: list[Attribute] = []
        leads: dict[tuple[str, str], int] = defaultdict(int)
        for (c, p, _), n in edges.items():
            leads[c, p] += n
        for (c, p), types in sorted(literal.items()):
            if types.get(_IRI, 0) < leads[c, p] or (len(types) == 1 and _IRI in types and p in NAMING):
                types.pop(_IRI, None)  # a few of many objects that are described have no class
            if not types:
                continue
            datatype = max(sorted(types), key=lambda t: types[t])
            is_text_number = datatype not in NUMERIC | TEMPORAL and values is not None and self._all_numbers(values, c, p)
            self.attributes.append(Attribute(c, (p,), datatype, self.property_words(p), sum(types.values()), is_text_number))
        self._languages_at: dict[tuple[str, str], frozenset[str]] = {}
        self._walks: dict[tuple[str, str, int, int], list[tuple[Step, ...]]] = {}
        self._only_target: dict[Step, bool] = {}
        self._names_at: dict[Attribute, Attribute] = {}
        self._compose(self._into())
        self._relate()
        for held in list(self.attributes_of.values()):
            self.attributes += measures(held)
        self.__dict__.pop("attributes_of", None)

    @staticmethod
    def _all_numbers(values: ValueStatistics, class_: str, property_: str) -> bool:
        found = [e.text for e in values.examples(class_, property_, 12)]
        return len(found) > 1 and all(_NUMBER.fullmatch(t) for t in found)

    @cached_property
    def _distinct(self) -> dict[tuple[str, str], int | None]:
        return {}

    def tells_apart(self, a: Attribute) -> bool:
        """Whether *a* names its subject rather than sorting subjects into kinds: called a name or id, or hardly ever
        repeated."""
        if a.words[0].split()[-1] in ("name", "title", "id", "identifier") or a == self.name_of(a.subject_class):
            return True
        return self.is_unique(a)

    def distinct(self, a: Attribute) -> int | None:
        """How many different values *a* has; None where nobody counted."""
        if self._values is None or len(a.path) > 1 or a.operator:
            return None
        key = (a.subject_class, a.path[0])
        if key not in self._distinct:
            self._distinct[key] = self._values.distinct(*key)
        return self._distinct[key]

    def is_unique(self, a: Attribute) -> bool:
        """Whether hardly any two instances share a value of *a*."""
        return len(a.path) == 1 and (self.distinct(a) or 0) >= 0.97 * self.classes[a.subject_class].instances

    def reaches_only_target(self, step: Step) -> bool:
        """Whether the property leads from the step's source to no class but its target, or only to what has that one, too: a
        captain is also a person. Then the class need not be said, which spares some engines a search for each solution."""
        if (found := self._only_target.get(step)) is None:
            found = self._only_target[step] = self._reaches_only_target(step)
        return found

    def _reaches_only_target(self, step: Step) -> bool:
        others = [e for e in self.edges if e.property == step.edge.property and Step(e, step.is_inverse).source == step.source]
        if len({Step(e, step.is_inverse).target for e in others}) <= 1:
            return True
        at = self.index.cells(step.edge.property)
        near, far = self.index.subject[at], self.index.object[at]
        if step.is_inverse:
            near, far = far, near
        leave = self.index.kinds_with_class(step.source)[near]
        return bool(self.index.kinds_with_class(step.target)[far[leave]].all())

    def _into(self) -> Mapping[str, int]:
        """Class → triples that lead to its instances. By kinds: a subject of several classes counts once."""
        index, totals = self.index, dict[str, int]()
        weights = np.where(index.property == index.property_id(index.class_predicate), 0, index.count)
        by_kind = np.bincount(index.object, weights=weights, minlength=len(index.kinds))
        for kind, n in zip(index.kinds, by_kind.tolist(), strict=True):
            for c in kind.classes:
                totals[c] = totals.get(c, 0) + int(n)
        return totals

    def _compose(self, into: Mapping[str, int]) -> None:
        """Add paths through nodes that only carry a value: each is owned by one subject and leads to literals alone."""
        leads_on = {e.subject_class for e in self.edges}
        direct = {c: [a for a in self.attributes if a.subject_class == c] for c in self.classes}
        self.value_classes = {
            c
            for c, term in self.classes.items()
            if into.get(c, 0) == term.instances and c not in leads_on and 0 < len(direct[c]) <= 4
            and not any(a.words[0] in NAME_WORDS or a.words[0].split()[-1] == "id" for a in direct[c])
            and all(self.index.multiplicity.get(e.property, (0, 0))[1] == 1 for e in self.edges if e.object_class == c)
            and into.get(c, 0) > 0
        }  # fmt: skip
        for edge in self.edges:
            if edge.object_class in self.value_classes:
                for a in direct[edge.object_class]:
                    tail = a.words[0]
                    words = edge.words if tail in ("value", "amount") else f"{tail} {edge.words}"
                    self.attributes.append(
                        Attribute(
                            edge.subject_class,
                            (edge.property, *a.path),
                            a.datatype,
                            (words, f"{edge.words} {tail}"),
                            edge.count,
                            a.is_text_number,
                        )
                    )

    def _relate(self) -> None:
        """Add paths to the name of what an edge leads to, where the edge says more than the class there ("home port")."""
        best: dict[tuple[str, str], Edge] = {}
        for e in self.edges:
            known = best.get((e.subject_class, e.property))
            size = self.classes[e.object_class].instances
            if known is None or (e.count, -size) > (known.count, -self.classes[known.object_class].instances):
                best[e.subject_class, e.property] = e
        found = []
        for e in best.values():
            name = self.name_of(e.object_class) if e.object_class not in self.value_classes else None
            own = {s for w in self.classes[e.object_class].words for s in stems(w)}
            if name is None or not set(stems(e.words)) - own - _KEY_WORDS or e.subject_class in self.value_classes:
                continue
            path = (e.property, *name.path)
            made = Attribute(e.subject_class, path, name.datatype, self.property_words(e.property), e.count)
            found.append(made)
            self._names_at[made] = name
        self.attributes += found
        self.relations = frozenset(found)
        self.__dict__.pop("attributes_of", None)  # it was needed for the names, and lacks what has just been found

    def relations_to(self, name: Attribute) -> Sequence[Attribute]:
        """The relations that lead to what *name* names and that no join says as well: from its own class to itself, and where
        several lead there from one class."""
        return self._alone.get((name.subject_class, name.path), ())

    @cached_property
    def _alone(self) -> Mapping[tuple[str, tuple[str, ...]], Sequence[Attribute]]:
        between: dict[tuple[str, str], int] = defaultdict(int)
        for e in self.edges:
            between[e.subject_class, e.object_class] += 1
        found: dict[tuple[str, tuple[str, ...]], list[Attribute]] = defaultdict(list)
        for relation, name in self._names_at.items():
            ends = relation.subject_class, name.subject_class
            if ends[0] == ends[1] or between[ends] > 1:
                found[name.subject_class, name.path].append(relation)
        return found

    def language_of(self, a: Attribute, wanted: str = "en") -> str | None:
        """The language *wanted*, or else English, where every instance has *a* in it and in others; None: show it as it is."""
        languages = self._languages(a)
        if len(a.path) > 1 or a.datatype != RDF_LANG_STRING or len(languages) < 2 or "en" not in languages:
            holder = self._names_at.get(a)
            return self.language_of(holder, wanted) if holder is not None else None
        is_in_all = a.count >= 0.98 * len(languages) * self.classes[a.subject_class].instances
        return (wanted if wanted in languages else "en") if is_in_all else None

    def _languages(self, a: Attribute) -> frozenset[str]:
        """Languages in which instances have *a*: the property's, as far as examples of this class have them."""
        everywhere = self.index.languages.get(a.path[-1], frozenset())
        if self._values is None or len(everywhere) < 2 or len(a.path) > 1:
            return everywhere
        key = (a.subject_class, a.path[0])
        if key not in self._languages_at:
            found = self._values.examples(*key, 60)
            self._languages_at[key] = everywhere & {e.language for e in found if e.language}
        return self._languages_at[key]

    # -- words

    def term_words(self, iri: str) -> tuple[str, ...]:
        """Labels (English first), then the local name cut into words; never empty."""
        labels = sorted(self._labels.get(iri, ()), key=lambda x: not (x[1] or "en").startswith("en"))
        found = [t.lower() for t, _ in labels]
        name = local_name(iri)
        if not (found and is_opaque(name)):
            found.append(self.splitter.words(name) or name.lower())
        for text, tag in labels:
            spoken = shipped().get((tag or "").split("-")[0].lower())
            if spoken is not None and (english := spoken.in_english(text)) is not None:
                found.append(english)
        return tuple(dict.fromkeys(found))

    def labels_in(self, code: str) -> Iterator[tuple[str, str]]:
        """(label, first words) of each class and property that has a label in the language *code*."""
        properties = {p for a in self.attributes for p in a.path} | {e.property for e in self.edges}
        for iri in sorted(self.classes.keys() | properties):
            for text, tag in self._labels.get(iri, ()):
                if (tag or "").split("-")[0].lower() == code:
                    yield text, self.classes[iri].words[0] if iri in self.classes else self.property_words(iri)[0]

    def class_words(self, iri: str) -> tuple[str, ...]:
        """As ``term_words``, without a prefix that only says "this table is for look-up"."""
        found = []
        for words in self.term_words(iri):
            parts = words.split()
            found.append(" ".join(parts[1:] if len(parts) > 1 and parts[0] in ("reference", "ref") else parts))
        return tuple(dict.fromkeys(found))

    def property_words(self, iri: str) -> tuple[str, ...]:
        """As ``term_words``, without the affixes that only say "this is a property"."""
        found = ["name"] if iri in NAMING else []
        for words in self.term_words(iri):
            parts = words.split()
            if len(parts) > 1 and parts[0] in ("has", "reference", "is", "ref"):
                parts = parts[1:]
            found.append(" ".join(parts))
        return tuple(dict.fromkeys(found))

    # -- lookups

    @cached_property
    def attributes_of(self) -> Mapping[str, Sequence[Attribute]]:
        table: dict[str, list[Attribute]] = defaultdict(list)
        for a in self.attributes:
            table[a.subject_class].append(a)
        return table

    @cached_property
    def _steps(self) -> Mapping[str, Sequence[Step]]:
        table: dict[str, list[Step]] = defaultdict(list)
        for e in self.edges:
            table[e.subject_class].append(Step(e, False))
            table[e.object_class].append(Step(e, True))
        return table

    def name_of(self, class_: str) -> Attribute | None:
        """The attribute that names an instance of *class_*: a label, or one that is called name, title or as the class
        itself."""
        best: tuple[float, Attribute] | None = None
        own = {w for t in self.classes[class_].words for w in (t, f"{t} name", f"{t} title", f"{t} full name")}
        for a in self.attributes_of.get(class_, ()):
            if (a.is_number and a.path != (RDFS_LABEL,)) or a.datatype == _IRI:
                continue
            score = 0.0
            if a.path == (RDFS_LABEL,):
                score = 3.0
            elif any(w in NAME_WORDS for w in a.words):
                score = 2.5
            elif any(w in own for w in a.words):
                score = 2.0
            elif any(w.split()[-1] in ("name", "title") for w in a.words):
                score = 1.0
            elif any(w.split()[-1] in ("description", "details") for w in a.words):
                score = 0.5
            if score and (best is None or score > best[0]):
                best = (score, a)
        if best is None:
            # Nothing is called a name: the one text that is different for every instance serves as one.
            unique = [a for a in self.attributes_of.get(class_, ()) if not (a.is_number or a.is_temporal) and self.is_unique(a)]
            return unique[0] if len(unique) == 1 else None
        return best[1]

    def identifier_of(self, class_: str) -> Attribute | None:
        """The attribute that is called id, identifier or code, if there is one."""
        own = {f"{t} id" for t in self.classes[class_].words}
        found = [
            a for a in self.attributes_of.get(class_, ()) if any(w.split()[-1] in ("id", "identifier", "code") for w in a.words)
        ]
        found.sort(key=lambda a: (not any(w in own or w in ("id", "identifier") for w in a.words), len(a.words[0])))
        return found[0] if found else None

    @cached_property
    def _above(self) -> Mapping[str, frozenset[str]]:
        """Class → the populated classes that all its instances have, too."""
        kinds = [k.classes for k in self.index.kinds if k.classes]
        table = {}
        for c in self.classes:
            holding = [k for k in kinds if c in k]
            common = frozenset.intersection(*holding) if holding else frozenset()
            table[c] = frozenset(d for d in common if d != c and d in self.classes)
        return table

    @cached_property
    def _counts(self) -> Mapping[tuple[str, str, str], int]:
        return {(e.subject_class, e.property, e.object_class): e.count for e in self.edges}

    def _is_needlessly_narrow(self, step: Step) -> bool:
        """Whether a walk through *step*'s target leaves out instances for no reason that was said: the same edge leads to a
        class above it more often."""
        e = step.edge
        for d in self._above[step.target]:
            wider = (d, e.property, e.object_class) if step.is_inverse else (e.subject_class, e.property, d)
            if self._counts.get(wider, 0) > e.count:
                return True
        return False

    def paths(self, source: str, target: str, *, limit: int = 3, max_steps: int = 4) -> list[tuple[Step, ...]]:
        """The shortest walks between two classes, shortest first; at most *limit*, those longer than the shortest by two
        left out."""
        key = (source, target, limit, max_steps)
        if (known := self._walks.get(key)) is None:
            if len(self._walks) >= _WALKS_MOST:
                self._walks.clear()
            known = self._walks[key] = self._paths(source, target, limit=limit, max_steps=max_steps)
        return list(known)

    def _paths(self, source: str, target: str, *, limit: int, max_steps: int) -> list[tuple[Step, ...]]:
        found: list[tuple[Step, ...]] = []
        queue: list[tuple[int, int, tuple[Step, ...]]] = [(0, 0, ())]
        tick = 0
        while queue and len(found) < limit and tick < 4000:
            length, _, walk = heapq.heappop(queue)
            here = walk[-1].target if walk else source
            if walk and here == target:
                if found and length > len(found[0]) + 1:
                    break
                found.append(walk)
                continue
            if length >= max_steps:
                continue
            seen = {source, *(s.target for s in walk)}
            for step in self._steps.get(here, ()):
                nxt = step.target
                if nxt != target and (nxt in self.value_classes or nxt in seen):
                    continue
                if walk and step.edge == walk[-1].edge:
                    continue
                if nxt != target and self._is_needlessly_narrow(step):
                    continue
                tick += 1
                heapq.heappush(queue, (length + 1, tick, (*walk, step)))
        return found
