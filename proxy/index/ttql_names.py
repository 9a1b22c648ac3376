"""Prefixed names of TTQL: which prefixes a set of terms deserves, and how a term is written with them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from proxy.query.term import OWL, RDF, RDFS, XSD

WELL_KNOWN: Mapping[str, str] = {
    "rdf": RDF,
    "rdfs": RDFS,
    "owl": OWL,
    "xsd": XSD,
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "sh": "http://www.w3.org/ns/shacl#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dcterms": "http://purl.org/dc/terms/",
    "schema": "http://schema.org/",
    "prov": "http://www.w3.org/ns/prov#",
    "geo": "http://www.w3.org/2003/01/geo/wgs84_pos#",
    "gsp": "http://www.opengis.net/ont/geosparql#",
    "wd": "http://www.wikidata.org/entity/",
    "wdt": "http://www.wikidata.org/prop/direct/",
}
LOCAL = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?"
"""The part after the colon: what SPARQL's PN_LOCAL and every eye reads without escapes."""
PREFIX = r"[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?"
_SPLIT = re.compile(rf"(.*[/#:])({LOCAL})\Z", re.DOTALL)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*")


def prefixes_for(iris: Iterable[str]) -> dict[str, str]:
    """Name a prefix for each namespace of *iris*, most used first; well-known names where there are any.

    The others are named after the last word of the namespace, with a number where two would be called the same.
    """
    used = Counter(m[1] for iri in iris if (m := _SPLIT.match(iri)))
    known = {namespace: name for name, namespace in WELL_KNOWN.items()}
    made: dict[str, str] = {}
    for namespace in sorted(used, key=lambda n: (-used[n], n)):
        name = known.get(namespace)
        if name is None:
            word = _word(namespace)
            tries = (word, *(f"{word}{i}" for i in range(2, len(used) + 3)))
            name = next(t for t in tries if t not in made and t not in WELL_KNOWN)
        made[name] = namespace
    return made


def _word(namespace: str) -> str:
    """The last word of the path; without one, the name of the host but for its ending."""
    scheme, _, rest = namespace.partition("://")
    host, _, path = rest.partition("/") if rest else ("", "", scheme)
    words = _WORD.findall(path) or _WORD.findall(host.rpartition(".")[0] or host)
    return words[-1].lower() if words else "ns"


class Namer:
    """Writes IRIs: prefixed where a prefix fits, else in angle brackets with what IRIREF forbids as ``\\uXXXX``."""

    def __init__(self, prefixes: Mapping[str, str]) -> None:
        self._names = {namespace: name for name, namespace in reversed(list(prefixes.items()))}

    def __call__(self, iri: str) -> str:
        match = _SPLIT.match(iri)
        if match is not None and (name := self._names.get(match[1])) is not None:
            return f"{name}:{match[2]}"
        return f"<{escape_iri(iri)}>"


def escape_iri(iri: str) -> str:
    return "".join(f"\\U{ord(c):08X}" if c in '<>"{}|^`\\' or c <= " " else c for c in iri)
