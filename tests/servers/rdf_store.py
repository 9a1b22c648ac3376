"""What both stand-ins need of SPARQL: a store whose default graph is everything, and the little that query text tells."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyoxigraph as ox

RDF_TYPES = {
    "text/turtle": ox.RdfFormat.TURTLE,
    "application/x-turtle": ox.RdfFormat.TURTLE,
    "application/n-triples": ox.RdfFormat.N_TRIPLES,
    "text/plain": ox.RdfFormat.N_TRIPLES,
    "application/n-quads": ox.RdfFormat.N_QUADS,
    "application/trig": ox.RdfFormat.TRIG,
    "application/x-trig": ox.RdfFormat.TRIG,
    "application/rdf+xml": ox.RdfFormat.RDF_XML,
    "text/n3": ox.RdfFormat.N3,
    "application/ld+json": ox.RdfFormat.JSON_LD,
}

_OPAQUE = re.compile(
    r"""<[^<>"{}|^`\\\x00-\x20]*>"""
    r"""|\"{3}(?:\\.|(?!\"{3}).)*\"{3}|'{3}(?:\\.|(?!'{3}).)*'{3}"""
    r"""|"(?:\\.|[^"\\\n\r])*"|'(?:\\.|[^'\\\n\r])*'|\#[^\n\r]*""",
    re.DOTALL,
)
_FORM = re.compile(r"\b(SELECT|ASK|CONSTRUCT|DESCRIBE)\b", re.IGNORECASE)
_PREFIX = re.compile(r"\bPREFIX\s+([^\s:]*):\s*<([^>]*)>", re.IGNORECASE)
_PROLOGUE = re.compile(r"\s*(?:(?:PREFIX\s+[^\s:]*:\s*|BASE\s*)<[^>]*>\s*)+", re.IGNORECASE)


def mask(text: str) -> str:
    """Blank out IRIs, strings and comments, so that keywords and punctuation can be searched; positions stay."""
    return _OPAQUE.sub(lambda match: " " * len(match.group()), text)


def form_of(text: str) -> str | None:
    """Return the query form in capitals, None for what is no query."""
    match = _FORM.search(mask(text))
    return match.group(1).upper() if match else None


def prefixes_of(text: str) -> dict[str, str]:
    return dict(_PREFIX.findall(text))


def names(text: str, namespace: str, prefix: str) -> set[str]:
    """Return the local names of *namespace* that the text mentions, as full IRIs or by any prefix bound to it."""
    bound = [name for name, iri in {prefix: namespace, **prefixes_of(text)}.items() if iri == namespace]
    masked = mask(text)
    found = set(re.findall(re.escape("<" + namespace) + r"([^>]+)>", text))
    for name in bound:
        found |= set(re.findall(rf"(?<![\w:]){re.escape(name)}:([\w-]+)", masked))
    return found


def split_update(text: str) -> list[str]:
    """Split an update request into its operations, each with the prologue that holds for it."""
    masked, depth, start, parts = mask(text), 0, 0, []
    for position, character in enumerate(masked):
        if character in "{}":
            depth += 1 if character == "{" else -1
        elif character == ";" and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    parts.append(text[start:])
    prologue, operations = "", []
    for part in parts:
        declared = _PROLOGUE.match(part)
        if part[declared.end() if declared else 0 :].strip():
            operations.append(prologue + part)
        prologue += declared.group() if declared else ""
    return operations


def position_of(error: BaseException) -> tuple[int, int]:
    """Return line and column, from 1, of a pyoxigraph syntax error."""
    match = re.search(r"error at (\d+):(\d+)", str(error))
    return (int(match.group(1)), int(match.group(2))) if match else (1, 1)


class UnionStore:
    """Quads, and a view of them in which the default graph is the union of all graphs, without duplicates.

    Args:
        unnamed: IRI by which a query can name the graph that has no name.
    """

    def __init__(self, unnamed: str) -> None:
        self.base = ox.Store()
        self.unnamed = ox.NamedNode(unnamed)
        self._view: ox.Store | None = None
        self._lock = threading.Lock()

    def load(self, text: str | bytes, media_type: str, graph: str | None = None) -> None:
        """Add RDF. Raises SyntaxError."""
        data = text.encode() if isinstance(text, str) else text
        to = ox.NamedNode(graph) if graph else None
        self.add(ox.parse(data, format=RDF_TYPES[media_type], base_iri="http://example.org/"), to)

    def add(self, quads: Iterable[ox.Quad], graph: ox.NamedNode | None = None) -> None:
        self.base.extend([ox.Quad(q.subject, q.predicate, q.object, graph) if graph else q for q in list(quads)])
        self.changed()

    def changed(self) -> None:
        """Forget the view: the quads are others now."""
        with self._lock:
            self._view = None

    def named_graphs(self) -> list[ox.NamedNode | ox.BlankNode]:
        return list(self.base.named_graphs())

    def extra(self) -> Iterable[ox.Quad]:
        """Return quads that the view holds beyond the base."""
        return ()

    def view(self) -> ox.Store:
        with self._lock:
            if self._view is None:
                view = ox.Store()
                quads = list(self.base)
                view.extend(quads)
                view.extend([ox.Quad(q.subject, q.predicate, q.object) for q in quads])
                unnamed = [q for q in quads if q.graph_name == ox.DefaultGraph()]
                view.extend([ox.Quad(q.subject, q.predicate, q.object, self.unnamed) for q in unnamed])
                view.extend(self.extra())
                self._view = view
            return self._view

    def query(
        self,
        text: str,
        *,
        default_graphs: Sequence[str] = (),
        named_graphs: Sequence[str] = (),
        visible: Sequence[ox.NamedNode] = (),
        prefixes: Mapping[str, str] | None = None,
        view: ox.Store | None = None,
        **options: Any,
    ) -> Any:
        """Evaluate on the view.

        Args:
            visible: graphs that GRAPH may name though they are none of the base's own.
        Raises:
            SyntaxError, RuntimeError, OSError: as pyoxigraph.
        """
        if default_graphs or named_graphs:
            options["default_graph"] = [ox.NamedNode(iri) for iri in default_graphs]
            options["named_graphs"] = [ox.NamedNode(iri) for iri in named_graphs]
        elif not re.search(r"\bFROM\b", mask(text), re.IGNORECASE):
            options["named_graphs"] = [*self.named_graphs(), *visible]
        return (view or self.view()).query(text, prefixes=dict(prefixes or {}), **options)


def accepted(header: str | None) -> list[str]:
    """Return the media ranges of an Accept header, best first; without parameters, those with q=0 left out."""
    ranges = []
    for position, part in enumerate((header or "").split(",")):
        media_range, _, parameters = part.strip().partition(";")
        quality = re.search(r"(?:^|;)\s*q\s*=\s*([\d.]+)", parameters)
        q = float(quality.group(1)) if quality else 1.0
        if media_range.strip() and q > 0:
            ranges.append((-q, position, media_range.strip().lower()))
    return [media_range for _, _, media_range in sorted(ranges)]
