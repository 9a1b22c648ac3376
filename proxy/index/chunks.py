"""The queries that enumerate a graph, chunk by chunk, and nothing but their text.

Split by constants, never by LIMIT and OFFSET: without ORDER BY pages may overlap or miss solutions, and no backend promises
otherwise. Only SPARQL 1.1 that every backend understands: joins, GROUP BY, GROUP_CONCAT, BIND. Each returns a whole
distribution, so an answer that is complete is also exact (docs/index.md, "What is asked").
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from proxy.query.term import RDF_TYPE

End = Literal["subject", "object"]
ENDS: tuple[End, ...] = ("subject", "object")

_SHAPE = 'BIND(IF(isLiteral(?o), STR(DATATYPE(?o)), "") AS ?t) BIND(IF(isLiteral(?o), LCASE(LANG(?o)), "") AS ?l)'


def iri(value: str) -> str:
    """*value* in angle brackets.

    Raises:
        ValueError: it holds a character that an IRIREF cannot (SPARQL 1.1, [139]); such an IRI cannot be asked about.
    """
    if not is_writable(value):
        raise ValueError(f"cannot be written in a query: {value!r}")
    return f"<{value}>"


def is_writable(value: str) -> bool:
    """Whether ``iri`` can write *value*."""
    return not any(c in '<>"{}|^`\\' or c <= " " for c in value)


@dataclass(frozen=True, slots=True)
class Subjects:
    """Which subjects a chunk is about: instances of *class_*, or (None) nodes without a class.

    with_kinds: instances of *class_* may have further classes; then every solution also says which, as ``?k``.
    """

    class_predicate: str
    class_: str | None
    with_kinds: bool = False

    def pattern(self, property_: str | None, object_: str = "?o") -> str:
        """Triple patterns binding ?s, ?o, ?p (where *property_* is None) and ?k (where *with_kinds*)."""
        a, edge = iri(self.class_predicate), iri(property_) if property_ is not None else "?p"
        if self.class_ is None:
            return f"?s {edge} {object_} . FILTER NOT EXISTS {{ ?s {a} ?c . FILTER(isIRI(?c)) }}"
        if not self.with_kinds:
            return f"?s {a} {iri(self.class_)} . ?s {edge} {object_} ."
        kinds = f"SELECT ?s {_concat('?c', 'k')} {{ ?s {a} {iri(self.class_)} ; {a} ?c . FILTER(isIRI(?c)) }} GROUP BY ?s"
        return f"{{ {kinds} }} ?s {edge} {object_} ."

    def keys(self, property_: str | None) -> str:
        return " ".join(name for name, is_used in (("?k", self.with_kinds), ("?p", property_ is None)) if is_used)


def _concat(variable: str, name: str) -> str:
    return f'(GROUP_CONCAT(STR({variable}); separator=" ") AS ?{name})'


def graphs() -> str:
    """?g: the named graphs."""
    return "SELECT DISTINCT ?g { GRAPH ?g { ?s ?p ?o } }"


def graph_sizes() -> str:
    """?g ?n: the named graphs with their triples."""
    return "SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?g"


def beside_named_graphs() -> str:
    """A solution, if the default graph holds a triple that no named graph has."""
    return "SELECT ?s { ?s ?p ?o . FILTER NOT EXISTS { GRAPH ?g { ?s ?p ?o } } } LIMIT 1"


def classes(class_predicate: str) -> str:
    """?c ?n: every class with the number of its instances."""
    return f"SELECT ?c (COUNT(*) AS ?n) {{ ?s {iri(class_predicate)} ?c }} GROUP BY ?c"


def properties() -> str:
    """?p ?n: every property with the number of its triples."""
    return "SELECT ?p (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?p"


def triples_of(property_: str) -> str:
    """?n: triples of *property_*."""
    return f"SELECT (COUNT(*) AS ?n) {{ ?s {iri(property_)} ?o }}"


def subject_classes(class_predicate: str, property_: str) -> str:
    """?c ?n: classes of the subjects of *property_*."""
    pattern = f"?s {iri(property_)} ?o . ?s {iri(class_predicate)} ?c . FILTER(isIRI(?c))"
    return f"SELECT ?c (COUNT(*) AS ?n) {{ {pattern} }} GROUP BY ?c"


def property_names(subjects: Subjects | None = None) -> str:
    """?p: the properties, uncounted; cheaper on stores that keep a list of them."""
    pattern = "?s ?p ?o" if subjects is None else Subjects(subjects.class_predicate, subjects.class_).pattern(None)
    return f"SELECT DISTINCT ?p {{ {pattern} }}"


def co_classes(class_predicate: str, class_: str) -> str:
    """?c ?n: the classes that instances of *class_* have, itself among them."""
    a = iri(class_predicate)
    return f"SELECT ?c (COUNT(*) AS ?n) {{ ?s {a} {iri(class_)} . ?s {a} ?c . FILTER(isIRI(?c)) }} GROUP BY ?c"


def kinds_of(class_predicate: str, class_: str) -> str:
    """?k ?n: the kinds of the instances of *class_*, blank-separated; one kind may come in several orders."""
    a = iri(class_predicate)
    inner = f"SELECT ?s {_concat('?c', 'k')} {{ ?s {a} {iri(class_)} . ?s {a} ?c . FILTER(isIRI(?c)) }} GROUP BY ?s"
    return f"SELECT ?k (COUNT(*) AS ?n) {{ {{ {inner} }} }} GROUP BY ?k"


def shapes(subjects: Subjects, property_: str | None = None) -> str:
    """?k? ?p? ?t ?l ?n: triples by datatype and language of the object; both empty where it is a node."""
    keys = f"{subjects.keys(property_)} ?t ?l"
    return f"SELECT {keys} (COUNT(*) AS ?n) {{ {subjects.pattern(property_)} {_SHAPE} }} GROUP BY {keys}"


def object_classes(subjects: Subjects, property_: str | None = None) -> str:
    """?k? ?p? ?j ?n: triples by class of the object, once for each class that it has."""
    keys = f"{subjects.keys(property_)} ?j"
    a = iri(subjects.class_predicate)
    return f"SELECT {keys} (COUNT(*) AS ?n) {{ {subjects.pattern(property_)} ?o {a} ?j . FILTER(isIRI(?j)) }} GROUP BY {keys}"


def object_kinds(subjects: Subjects, property_: str | None = None) -> str:
    """?k? ?p? ?j ?n: triples by kind of the object, blank-separated classes. Needs a group per triple of the chunk."""
    keys = f"{subjects.keys(property_)} ?j"
    a, inner_keys = iri(subjects.class_predicate), f"{subjects.keys(property_)} ?s ?o"
    inner = (
        f"SELECT {inner_keys} {_concat('?d', 'j')} "
        f"{{ {subjects.pattern(property_)} ?o {a} ?d . FILTER(isIRI(?d)) }} GROUP BY {inner_keys}"
    )
    return f"SELECT {keys} (COUNT(*) AS ?n) {{ {{ {inner} }} }} GROUP BY {keys}"


def typed_objects(subjects: Subjects, property_: str | None = None) -> str:
    """?k? ?p? ?n: triples whose object has any class, each once."""
    keys = subjects.keys(property_)
    a, inner_keys = iri(subjects.class_predicate), f"{keys} ?s ?o"
    inner = f"SELECT DISTINCT {inner_keys} {{ {subjects.pattern(property_)} ?o {a} ?d . FILTER(isIRI(?d)) }}"
    return f"SELECT {keys} (COUNT(*) AS ?n) {{ {{ {inner} }} }}" + (f" GROUP BY {keys}" if keys else "")


def multiplicity(property_: str, *, of: Literal["subject", "object"]) -> str:
    """?n: most objects of one subject of *property_*, or (of="object") most subjects of one object."""
    key = "?s" if of == "subject" else "?o"
    inner = f"SELECT {key} (COUNT(*) AS ?m) {{ ?s {iri(property_)} ?o }} GROUP BY {key}"
    return f"SELECT (MAX(?m) AS ?n) {{ {{ {inner} }} }}"


def values(subjects: Subjects, property_: str, *, limit: int, longest: int) -> str:
    """?v ?n ?one: literals of at most *longest* characters, how many subjects have each, and one of these."""
    pattern = subjects.pattern(property_, "?v")
    return (
        f"SELECT ?v (COUNT(*) AS ?n) (SAMPLE(?s) AS ?one) {{ {pattern} "
        f"FILTER(isLiteral(?v) && STRLEN(STR(?v)) <= {longest}) }} GROUP BY ?v LIMIT {limit}"
    )


def distinct_values(subjects: Subjects, property_: str) -> str:
    """?n: distinct literals."""
    return f"SELECT (COUNT(DISTINCT ?v) AS ?n) {{ {subjects.pattern(property_, '?v')} FILTER(isLiteral(?v)) }}"


def extremes(subjects: Subjects, property_: str, datatypes: Iterable[str]) -> str:
    """?lo ?hi: least and greatest literal of *datatypes*."""
    wanted = ", ".join(iri(d) for d in datatypes)
    return (
        f"SELECT (MIN(?v) AS ?lo) (MAX(?v) AS ?hi) {{ {subjects.pattern(property_, '?v')} "
        f"FILTER(isLiteral(?v) && DATATYPE(?v) IN ({wanted})) }}"
    )


def instances(class_predicate: str, class_: str) -> str:
    """?s: the nodes that have *class_*."""
    return f"SELECT ?s {{ ?s {iri(class_predicate)} {iri(class_)} }}"


def untyped_nodes(class_predicate: str, property_: str, end: End) -> str:
    """?s: the IRIs without a class at one end of *property_*."""
    pattern = f"?s {iri(property_)} ?x" if end == "subject" else f"?x {iri(property_)} ?s"
    no_class = f"FILTER NOT EXISTS {{ ?s {iri(class_predicate)} ?c . FILTER(isIRI(?c)) }}"
    return f"SELECT DISTINCT ?s {{ {pattern} . FILTER(isIRI(?s)) {no_class} }}"


def untyped_count(class_predicate: str, property_: str, end: End) -> str:
    """?n: how many rows ``untyped_nodes`` has, so that an answer which lost some is noticed."""
    return f"SELECT (COUNT(*) AS ?n) {{ {{ {untyped_nodes(class_predicate, property_, end)} }} }}"


def properties_beside(property_: str, end: End, other_end: End) -> str:
    """?q: the properties that some node at one end of *property_* is subject (object) of, as *other_end* says."""
    pattern = f"?s {iri(property_)} ?x" if end == "subject" else f"?x {iri(property_)} ?s . FILTER(!isLiteral(?s))"
    other = "?s ?q ?y" if other_end == "subject" else "?y ?q ?s"
    return f"SELECT DISTINCT ?q {{ {pattern} . {other} }}"


def names(subjects: Subjects, label_properties: Iterable[str], *, limit: int) -> str:
    """?s: instances named by an IRI that have none of *label_properties*."""
    a, wanted = iri(subjects.class_predicate), " ".join(iri(p) for p in label_properties)
    assert subjects.class_ is not None
    return (
        f"SELECT ?s {{ ?s {a} {iri(subjects.class_)} . FILTER(isIRI(?s)) "
        f"FILTER NOT EXISTS {{ VALUES ?p {{ {wanted} }} ?s ?p ?x }} }} LIMIT {limit}"
    )


def statements(property_: str, *, limit: int) -> str:
    """?s ?o of a property that describes the vocabulary itself."""
    return f"SELECT ?s ?o {{ ?s {iri(property_)} ?o . FILTER(isIRI(?s) && isIRI(?o)) }} LIMIT {limit}"


def statements_about(subjects_: Iterable[str], property_: str) -> str:
    """?s ?o of *property_* whose subject is one of *subjects_*."""
    about = " ".join(iri(s) for s in subjects_)
    return f"SELECT ?s ?o {{ VALUES ?s {{ {about} }} ?s {iri(property_)} ?o }}"


def declared(class_: str, *, limit: int) -> str:
    """?s: the IRIs that an ontology declares to be a *class_*, by rdf:type whatever the class predicate."""
    return f"SELECT ?s {{ ?s {iri(RDF_TYPE)} {iri(class_)} . FILTER(isIRI(?s)) }} LIMIT {limit}"
