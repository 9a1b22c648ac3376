"""What the GraphDB stand-in answers: explicit and inferred statements, pseudo-graphs, and the parser's error texts."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyoxigraph as ox

from tests.servers.rdf4j_formats import Result
from tests.servers.rdf_store import UnionStore, form_of, mask, names, position_of, prefixes_of
from tests.servers.wire import Cancellation

ONTO = "http://www.ontotext.com/"
RANK = "http://www.ontotext.com/owlim/RDFRank#"
RANKS = {"http://example.org/dune": "0.9", "http://example.org/emma": "0.4"}
"""What ``rank:hasRDFRank`` answers; no triple of it is stored, and none shows up in ``?s ?p ?o``."""

PREDECLARED = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "sesame": "http://www.openrdf.org/schema/sesame#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "fn": "http://www.w3.org/2005/xpath-functions#",
}

_RDF = PREDECLARED["rdf"]
_RDFS = PREDECLARED["rdfs"]
_TYPE, _SAME = ox.NamedNode(_RDF + "type"), ox.NamedNode(PREDECLARED["owl"] + "sameAs")
_SUBCLASS, _SUBPROPERTY = ox.NamedNode(_RDFS + "subClassOf"), ox.NamedNode(_RDFS + "subPropertyOf")
_DOMAIN, _RANGE = ox.NamedNode(_RDFS + "domain"), ox.NamedNode(_RDFS + "range")
Triple = tuple[Any, Any, Any]


@dataclass
class EngineError(Exception):
    """A status and its text/plain body."""

    status: int
    body: str


def closure(triples: set[Triple], *, same_as: bool) -> set[Triple]:
    """Return *triples* and what RDFS (classes, properties, domains, ranges) and, if asked for, owl:sameAs add."""
    known = set(triples)
    while True:
        new: set[Triple] = set()
        schema = {
            rule: [(s, o) for s, p, o in known if p == rule] for rule in (_SUBCLASS, _SUBPROPERTY, _DOMAIN, _RANGE, _SAME)
        }
        for rule in (_SUBCLASS, _SUBPROPERTY):
            new |= {(a, rule, d) for a, b in schema[rule] for c, d in schema[rule] if b == c}
        for subject, predicate, value in known:
            if predicate == _TYPE:
                new |= {(subject, _TYPE, above) for below, above in schema[_SUBCLASS] if below == value}
            new |= {(subject, above, value) for below, above in schema[_SUBPROPERTY] if below == predicate}
            new |= {(subject, _TYPE, class_) for of, class_ in schema[_DOMAIN] if of == predicate}
            if not isinstance(value, ox.Literal):
                new |= {(value, _TYPE, class_) for of, class_ in schema[_RANGE] if of == predicate}
        if same_as:
            for a, b in schema[_SAME]:
                new |= {(b, _SAME, a), (a, _SAME, a), (b, _SAME, b)}
                for subject, predicate, value in known:
                    if subject == a:
                        new.add((b, predicate, value))
                    if value == a:
                        new.add((subject, predicate, b))
        if new <= known:
            return known
        known |= new


class Engine(UnionStore):
    """One repository: the explicit statements are the base; the views add what is inferred."""

    def __init__(self) -> None:
        super().__init__(PREDECLARED["sesame"] + "nil")
        self._views: dict[tuple[bool, bool], ox.Store] = {}
        self._views_lock = threading.Lock()

    def changed(self) -> None:
        super().changed()
        with self._views_lock:
            self._views.clear()

    def counts(self) -> dict[str, int]:
        explicit = {(q.subject, q.predicate, q.object) for q in self.base}
        total = len(closure(explicit, same_as=True))
        return {"inferred": total - len(explicit), "total": len(self.base) + total - len(explicit), "explicit": len(self.base)}

    def _view_for(self, *, infer: bool, same_as: bool) -> ox.Store:
        """Return a store whose default graph is everything that is asked for, and which knows the pseudo-graphs."""
        with self._views_lock:
            view = self._views.get((infer, same_as))
            if view is None:
                explicit = {(q.subject, q.predicate, q.object) for q in self.base}
                visible = closure(explicit, same_as=same_as) if infer else explicit
                view = ox.Store()
                view.extend(list(self.base))
                unnamed = [q for q in self.base if q.graph_name == ox.DefaultGraph()]
                view.extend([ox.Quad(q.subject, q.predicate, q.object, self.unnamed) for q in unnamed])
                for name, triples in (("explicit", explicit), ("implicit", closure(explicit, same_as=same_as) - explicit)):
                    view.extend([ox.Quad(*triple, ox.NamedNode(ONTO + name)) for triple in triples])
                view.extend([ox.Quad(*triple) for triple in visible])
                self._views[infer, same_as] = view
            return view

    def parse_check(self, text: str) -> None:
        """Raise EngineError as RDF4J's parser would refuse."""
        masked = mask(text)
        for pattern in (r"\{\|", r"<<\s*\(", r"^\s*VERSION\b"):
            match = re.search(pattern, masked)
            if match:
                raise malformed(text, match.start(), match.group())
        if form_of(text) is None:
            raise malformed(text, len(text) - len(text.lstrip()), text.split()[0] if text.split() else "<EOF>")

    def evaluate(
        self,
        text: str,
        *,
        infer: bool,
        same_as: bool,
        default_graphs: list[str],
        named_graphs: list[str],
        bindings: Mapping[str, Any],
        stop: Cancellation,
        compute_s: float,
    ) -> Result:
        """Run a query to its end, or until *stop*. Runs in a worker thread.

        Raises:
            EngineError
        """
        self.parse_check(text)
        pseudo = {iri.removeprefix(ONTO) for iri in [*_pseudo_from(text), *default_graphs] if iri.startswith(ONTO)}
        text = _without_pseudo_from(text)
        default_graphs = [iri for iri in default_graphs if not iri.startswith(ONTO)]
        if "disable-sameAs" in pseudo:
            same_as = False
        if "explicit" in pseudo:
            infer = False
        view = self._view_for(infer=infer, same_as=same_as)
        options: dict[str, Any] = {}
        if "implicit" in pseudo and "explicit" not in pseudo:
            view, implicit = ox.Store(), view
            for quad in implicit.quads_for_pattern(None, None, None, ox.NamedNode(ONTO + "implicit")):
                view.add(ox.Quad(quad.subject, quad.predicate, quad.object))
        if RANK in text:
            view, plain = ox.Store(), view
            view.extend(list(plain))
            has_rank = ox.NamedNode(RANK + "hasRDFRank")
            view.extend([ox.Quad(ox.NamedNode(iri), has_rank, ox.Literal(rank)) for iri, rank in RANKS.items()])
        if bindings:
            options["substitutions"] = {ox.Variable(name): value for name, value in bindings.items()}
        named = sorted(names(text, ONTO, "onto") & {"explicit", "implicit"})
        stop.event.wait(min(compute_s, max(0.0, stop.deadline - time.monotonic())))
        result = Result(form_of(text) or "SELECT")
        try:
            answer = self.query(
                text,
                default_graphs=default_graphs,
                named_graphs=named_graphs,
                visible=[ox.NamedNode(ONTO + name) for name in named],
                prefixes=PREDECLARED,
                view=view,
                base_iri=None,
                **options,
            )
            if isinstance(answer, ox.QueryBoolean):
                result.truth = bool(answer)
            elif isinstance(answer, ox.QuerySolutions):
                result.variables = tuple(variable.value for variable in answer.variables)
                result.rows = [tuple(row) for row in answer]
            else:
                result.rows = [(row.subject, row.predicate, row.object) for row in answer]
        except SyntaxError as error:
            raise _malformed_by(text, error) from error
        except (RuntimeError, OSError, ValueError) as error:
            unknown = re.search(r"custom function <([^>]*)>", str(error))
            message = f"Unknown function '{unknown.group(1)}'" if unknown else str(error)
            raise EngineError(500, f"Query evaluation error: {message}") from error
        if "count" in pseudo:
            total = ox.Literal(len(result.rows))
            if result.form == "SELECT":
                result.rows = [(total,) * len(result.variables)]
            elif result.form != "ASK":
                count = ox.NamedNode(ONTO + "_count")
                result.rows = [(count, count, total)]
        return result

    def update(self, text: str, *, stop: Cancellation, compute_s: float) -> None:
        """Run an update request. Raises EngineError."""
        stop.event.wait(min(compute_s, max(0.0, stop.deadline - time.monotonic())))
        if stop.is_manual or time.monotonic() >= stop.deadline:
            raise EngineError(503, "update execution took too long")
        if re.search(r"^\s*LOAD\b", mask(text), re.IGNORECASE | re.MULTILINE):
            raise EngineError(500, "Repository update error: this stand-in fetches nothing")
        try:
            self.base.update(text, prefixes=PREDECLARED)
        except SyntaxError as error:
            raise _malformed_by(text, error) from error
        except (RuntimeError, OSError) as error:
            raise EngineError(500, f"Repository update error: {error}") from error
        finally:
            self.changed()


def _pseudo_from(text: str) -> list[str]:
    """Return the IRIs of FROM clauses, with those written as onto:name expanded."""
    prefixes = {"onto": ONTO, **prefixes_of(text)}
    found = []
    for iri, prefix, local in re.findall(r"\bFROM\s+(?:<([^>]*)>|([\w-]*):([\w-]+))", text, re.IGNORECASE):
        found.append(iri or prefixes.get(prefix, "") + local)
    return found


def _without_pseudo_from(text: str) -> str:
    prefixes = prefixes_of(text)

    def keep(match: re.Match[str]) -> str:
        iri = match.group(1) or prefixes.get(match.group(2), "") + match.group(3)
        return "" if iri.startswith(ONTO) else match.group()

    return re.sub(r"\bFROM\s+(?:<([^>]*)>|([\w-]*):([\w-]+))\s*", keep, text, flags=re.IGNORECASE)


def malformed(text: str, position: int, token: str) -> EngineError:
    """Say like RDF4J's parser that *token* was not expected; the message spans lines, as its do."""
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    shown = token if token == "<EOF>" else f' "{token.lower()}" "{token} "'
    expected = "\n".join(f'    "{word}" ...' for word in ("base", "prefix", "select", "construct", "describe", "ask"))
    return EngineError(
        400, f'MALFORMED QUERY: Encountered "{shown}" at line {line}, column {column}.\nWas expecting one of:\n{expected}\n    '
    )


def _malformed_by(text: str, error: SyntaxError) -> EngineError:
    line, column = position_of(error)
    start = sum(len(row) + 1 for row in text.split("\n")[: line - 1]) + column - 1
    known = {**PREDECLARED, **prefixes_of(text), "_": ""}
    body = re.sub(r"\bPREFIX\s+[\w-]*:", "", mask(text), flags=re.IGNORECASE)
    for name in re.finditer(r"(?<![\w?$:@-])([\w-]*):[\w-]*", body):
        if name.group(1) not in known:
            return EngineError(400, f"MALFORMED QUERY: VisitorException: QName '{name.group()}' uses an undefined prefix")
    relative = re.search(r"<([^:>]*)>", text)
    if relative and "BASE" not in text.upper():
        return EngineError(400, f"MALFORMED QUERY: Not a valid (absolute) IRI: {relative.group(1)}")
    rest = text[start:].split()
    return malformed(text, start, rest[0] if rest else "<EOF>")
