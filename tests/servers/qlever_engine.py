"""What the QLever stand-in answers: evaluation by pyoxigraph, and QLever's shapes for results, errors and updates."""

from __future__ import annotations

import contextlib
import json
import re
import struct
import threading
import time
import tomllib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pyoxigraph as ox

from tests.servers.rdf_store import UnionStore, form_of, mask, names, position_of, prefixes_of, split_update
from tests.servers.wire import Cancellation

QUIRKS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("qlever.toml").read_text("utf-8"))
_TEXT: dict[str, str] = QUIRKS["operation"]
_QL: str = QUIRKS["builtin_namespace"]
_XSD = "http://www.w3.org/2001/XMLSchema#"
_INTEGERS = {_XSD + name for name in QUIRKS["types"]["integers"]}
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_LANGUAGE_PREDICATE = re.compile(r"@([a-zA-Z-]+)@(?:<([^>]*)>|([\w-]*):([\w-]+))")
_LANGUAGE_IRI = _QL + "language/{language}/{predicate}"


@dataclass
class OperationError(Exception):
    """What QLever reports as JSON: a status and the text of ``exception``; where the parser stumbled, if it did."""

    status: int
    message: str
    metadata: dict[str, int] | None = None


@dataclass
class Result:
    """All solutions of a query, or all triples, or the truth."""

    form: str
    variables: tuple[str, ...] = ()
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    truth: bool = False
    compute_s: float = 0.0


def seconds(text: str) -> float:
    """Read a duration with its unit. Raises OperationError (500, as QLever has it)."""
    match = re.fullmatch(r"(\d+)\s*(ns|us|ms|s|min|h)", text)
    if match is None:
        raise OperationError(500, _TEXT["duration"].format(text=text))
    return int(match.group(1)) * _UNITS[match.group(2)]


def error_document(error: OperationError, query: str, elapsed_s: float) -> bytes:
    echoed = query[: QUIRKS["echo_limit"]]
    took = int(elapsed_s * 1000)
    document: dict[str, Any] = {
        "exception": error.message,
        "query": echoed,
        "resultsize": 0,
        "status": "ERROR",
        "time": {"computeResult": took, "total": took},
    }
    if error.metadata and error.metadata["stopIndex"] < len(echoed):
        document["metadata"] = error.metadata
    return json.dumps(document, indent=4, sort_keys=True, ensure_ascii=False).encode()


class Engine(UnionStore):
    """The index with its delta triples."""

    def __init__(self) -> None:
        super().__init__(QUIRKS["unnamed_graph"])
        self._blank_nodes: dict[str, str] = {}
        self._index: set[ox.Quad] | None = None
        self._writes = threading.Lock()

    def extra(self) -> Iterable[ox.Quad]:
        for quad in self.base:
            if isinstance(quad.object, ox.Literal) and quad.object.language and isinstance(quad.predicate, ox.NamedNode):
                iri = _LANGUAGE_IRI.format(language=quad.object.language, predicate=quad.predicate.value)
                yield ox.Quad(quad.subject, ox.NamedNode(iri), quad.object, ox.NamedNode(_QL + "internal-graph"))

    def _magic(self, used: set[str]) -> ox.Store | None:
        """Return a view with the triples that exist only for those who ask by name, None if *used* names none of them."""
        quads: list[ox.Quad] = []
        if used & {"contains-word", "contains-entity"}:
            contains = ox.NamedNode(_QL + "contains-word")
            for record, words in QUIRKS["magic"]["words"].items():
                quads += [ox.Quad(ox.NamedNode(record), contains, ox.Literal(word)) for word in words]
            for record, entity in QUIRKS["magic"]["entities"].items():
                quads.append(ox.Quad(ox.NamedNode(record), ox.NamedNode(_QL + "contains-entity"), ox.NamedNode(entity)))
        if "has-predicate" in used:
            quads += [ox.Quad(q.subject, ox.NamedNode(_QL + "has-predicate"), q.predicate) for q in self.base]
        if "langtag" in used:
            quads += [
                ox.Quad(q.subject, ox.NamedNode(_QL + "langtag"), ox.Literal(q.object.language))
                for q in self.base
                if isinstance(q.object, ox.Literal) and q.object.language
            ]
        if not quads:
            return None
        store = ox.Store()
        store.extend(list(self.view()))
        store.extend(quads)
        return store

    def _rewritten(self, text: str) -> str:
        prefixes = prefixes_of(text)

        def language_predicate(match: re.Match[str]) -> str:
            language, iri, prefix, local = match.groups()
            return f"<{_LANGUAGE_IRI.format(language=language, predicate=iri or prefixes.get(prefix, '') + local)}>"

        if "@" in mask(text):
            # The internal copies live in a graph of their own, so that ?s ?p ?o does not show them.
            text = re.sub(
                rf"([?$]\w+|<[^>]*>|[\w-]*:[\w-]+)\s+({_LANGUAGE_PREDICATE.pattern})\s+([?$]\w+)",
                lambda match: (
                    f"GRAPH <{_QL}internal-graph> {{ {match.group(1)} "
                    f"{_LANGUAGE_PREDICATE.sub(language_predicate, match.group(2))} {match.group(7)} }}"
                ),
                text,
            )
        for rewrite in QUIRKS["rewrites"]:
            text = re.sub(rewrite["pattern"], rewrite["replacement"], text, flags=re.IGNORECASE)
        return text

    def check(self, text: str, *, is_update: bool) -> None:
        """Raise what QLever's parser would."""
        masked = mask(text)
        for feature in QUIRKS["unsupported"]:
            match = re.search(feature["pattern"], masked, re.IGNORECASE | re.MULTILINE)
            if match:
                message = _TEXT["unsupported"].format(what=feature["what"])
                raise OperationError(400, message, _place(text, match.start(), match.end()))
        if re.search(r"\bSERVICE\b", masked, re.IGNORECASE):
            raise OperationError(500, "Error while executing a SERVICE request: this stand-in calls nobody")
        if len(re.findall(r"\.(?=\s|\}|$)", masked)) > QUIRKS["query_triples_limit"] and not is_update:
            raise OperationError(500, _TEXT["triples"])
        try:
            if is_update:
                for operation in split_update(text):
                    # On an empty store only the syntax matters; that a graph to drop is missing there says nothing.
                    with contextlib.suppress(RuntimeError, OSError):
                        ox.Store().update(operation, prefixes={"ql": _QL})
            else:
                ox.Store().query(self._rewritten(text), prefixes={"ql": _QL})
        except SyntaxError as error:
            line, column = position_of(error)
            start = sum(len(row) + 1 for row in text.split("\n")[: line - 1]) + column - 1
            message = str(error).splitlines()[0][:200]
            raise OperationError(400, _TEXT["syntax"].format(message=message), _place(text, start, start + 1)) from error
        except (RuntimeError, OSError) as error:
            raise self._evaluation_error(error) from error

    def _evaluation_error(self, error: Exception) -> OperationError:
        unknown = re.search(r"custom function <([^>]*)>", str(error))
        if unknown:
            return OperationError(400, _TEXT["unsupported"].format(what=f"the function <{unknown.group(1)}>"))
        return OperationError(500, str(error))

    def evaluate(
        self, text: str, default_graphs: Sequence[str], named_graphs: Sequence[str], stop: Cancellation, compute_s: float
    ) -> Result:
        """Run a query to its end, or until *stop*. Runs in a worker thread."""
        started = time.monotonic()
        self._wait(stop, compute_s)
        used = names(text, _QL, "ql")
        pseudo = [ox.NamedNode(_QL + name) for name in ("default-graph", "internal-graph")]
        rewritten = self._rewritten(text)
        visible = pseudo if used & {"default-graph", "internal-graph"} or rewritten != text else []
        result = Result(form_of(text) or "SELECT")
        answer = row = None
        try:
            answer = self.query(
                rewritten,
                default_graphs=default_graphs,
                named_graphs=named_graphs,
                visible=visible,
                prefixes={"ql": _QL},
                view=self._magic(used),
            )
            if isinstance(answer, ox.QueryBoolean):
                result.truth = bool(answer)
            else:
                is_select = isinstance(answer, ox.QuerySolutions)
                if isinstance(answer, ox.QuerySolutions):
                    result.variables = tuple(variable.value for variable in answer.variables)
                for row in answer:
                    result.rows.append(tuple(row) if is_select else (row.subject, row.predicate, row.object))
                    if len(result.rows) % 1000 == 0:
                        self.stop_if_due(stop)
        except (RuntimeError, OSError, ValueError) as error:
            raise self._evaluation_error(error) from error
        finally:
            answer = row = None  # solutions may only be dropped by this thread, and a traceback would keep them for another
        self.stop_if_due(stop)
        result.compute_s = time.monotonic() - started
        return result

    def _wait(self, stop: Cancellation, compute_s: float) -> None:
        self.stop_if_due(stop)  # the clock ran while the query waited for its worker
        if compute_s:
            stop.event.wait(min(compute_s, max(0.0, stop.deadline - time.monotonic())))
            self.stop_if_due(stop)

    @staticmethod
    def stop_if_due(stop: Cancellation) -> None:
        if stop.is_manual:
            raise OperationError(429, _TEXT["cancelled"].format(last="Join"))
        if time.monotonic() >= stop.deadline:
            raise OperationError(429, _TEXT["timed_out"].format(last="Join"))

    def export(self, result: Result, media_type: str, *, text: str, send: int | None) -> Iterator[bytes]:
        """Write a result; pieces of some ten kilobytes."""
        writer = {
            "application/sparql-results+json": self._sparql_json,
            "application/qlever-results+json": self._qlever_json,
            "application/sparql-results+xml": self._xml,
            "text/csv": self._separated,
            "text/tab-separated-values": self._separated,
            "application/octet-stream": self._binary,
            "text/turtle": self._triples,
            "application/n-triples": self._triples,
        }[media_type]
        buffer = bytearray()
        for piece in writer(result, media_type, text, send):
            buffer += piece
            if len(buffer) >= 32768:
                yield bytes(buffer)
                buffer.clear()
        if buffer:
            yield bytes(buffer)

    def _sparql_json(self, result: Result, media_type: str, text: str, send: int | None) -> Iterator[bytes]:
        if result.form == "ASK":
            yield b'{"boolean":%s,"head":{}}' % (b"true" if result.truth else b"false")
            return
        yield b'{"head":{"vars":%s},"results":{"bindings":[' % _compact(list(result.variables))
        for number, row in enumerate(result.rows[:send]):
            pairs = zip(result.variables, row, strict=True)
            bindings = {name: self._json_term(term) for name, term in pairs if term is not None}
            yield (b"," if number else b"") + _compact(bindings)
        meta = {"query-time-ms": int(result.compute_s * 1000), "result-size-total": len(result.rows)}
        yield b']},"meta":%s}' % _compact(meta)

    def _qlever_json(self, result: Result, media_type: str, text: str, send: int | None) -> Iterator[bytes]:
        rows: Sequence[tuple[Any, ...]] = result.rows
        if result.form == "ASK":
            rows = [(ox.Literal(result.truth),)]
        exported = [[None if term is None else self._id(term) for term in row] for row in rows[:send]]
        width = len(rows[0]) if rows else 3
        selected = ["?" + name for name in result.variables] or ["?subject", "?predicate", "?object"][:width]
        took = f"{int(result.compute_s * 1000)}ms"
        yield _compact(
            {
                "query": text[: QUIRKS["echo_limit"]],
                "status": "OK",
                "warnings": [],
                "selected": selected,
                "res": exported,
                "runtimeInformation": {"meta": {}, "query_execution_tree": {}},
                "resultSizeExported": len(exported),
                "resultSizeTotal": len(rows),
                "resultsize": len(rows),
                "time": {"total": took, "computeResult": took},
            }
        )

    def _xml(self, result: Result, media_type: str, text: str, send: int | None) -> Iterator[bytes]:
        yield b'<?xml version="1.0"?>\n<sparql xmlns="http://www.w3.org/2005/sparql-results#">'
        if result.form == "ASK":
            yield b"\n<head></head>\n<boolean>%s</boolean>\n</sparql>" % (b"true" if result.truth else b"false")
            return
        variables = "".join(f"\n  <variable name={quoteattr(name)}/>" for name in result.variables)
        yield f"\n<head>{variables}\n</head>\n<results>".encode()
        for row in result.rows:
            cells = []
            for name, term in zip(result.variables, row, strict=True):
                if term is not None:
                    value = self._json_term(term)
                    attributes = "".join(f" {key}={quoteattr(value[key])}" for key in ("xml:lang", "datatype") if key in value)
                    cells.append(
                        f"\n    <binding name={quoteattr(name)}><{value['type']}{attributes}>{escape(value['value'])}"
                        f"</{value['type']}></binding>"
                    )
            yield ("\n  <result>" + "".join(cells) + "\n  </result>").encode()
        yield b"\n</results>\n</sparql>"

    def _separated(self, result: Result, media_type: str, text: str, send: int | None) -> Iterator[bytes]:
        separator, is_csv = (",", True) if media_type == "text/csv" else ("\t", False)
        if result.variables:
            yield (separator.join(name if is_csv else "?" + name for name in result.variables) + "\n").encode()
        for row in result.rows:
            cells = ["" if term is None else self._json_term(term)["value"] if is_csv else self._id(term) for term in row]
            if is_csv:
                cells = [f'"{cell.replace(chr(34), chr(34) * 2)}"' if re.search('[",\r\n]', cell) else cell for cell in cells]
            yield (separator.join(cells) + "\n").encode()

    def _binary(self, result: Result, media_type: str, text: str, send: int | None) -> Iterator[bytes]:
        for row in result.rows:
            yield struct.pack(f"<{len(row)}Q", *(zlib.crc32(str(term).encode()) for term in row))

    def _triples(self, result: Result, media_type: str, text: str, send: int | None) -> Iterator[bytes]:
        for row in result.rows:
            yield (" ".join(str(term) for term in row) + " .\n").encode()

    def _canonical(self, term: Any) -> tuple[str, str]:
        """Return the value and the datatype of a literal as QLever gives them back."""
        datatype = term.datatype.value
        if datatype in _INTEGERS and re.fullmatch(r"[+-]?\d+", term.value):
            return str(int(term.value)), QUIRKS["types"]["integer"]
        if datatype == _XSD + "float":
            return term.value, QUIRKS["types"]["double"]
        return term.value, datatype

    def _json_term(self, term: Any) -> dict[str, str]:
        if isinstance(term, ox.NamedNode):
            return {"type": "uri", "value": term.value}
        if isinstance(term, ox.BlankNode):
            return {"type": "bnode", "value": self._blank_nodes.setdefault(term.value, f"bn{len(self._blank_nodes)}")}
        if term.language:
            return {"type": "literal", "value": term.value, "xml:lang": term.language}
        value, datatype = self._canonical(term)
        if datatype == _XSD + "string":
            return {"type": "literal", "value": value}
        return {"type": "literal", "value": value, "datatype": datatype}

    def _id(self, term: Any) -> str:
        value = self._json_term(term)
        match value:
            case {"type": "uri"}:
                return f"<{value['value']}>"
            case {"type": "bnode"}:
                return f"_:{value['value']}"
        suffix = f"@{value['xml:lang']}" if "xml:lang" in value else f"^^<{value['datatype']}>" if "datatype" in value else ""
        return f'"{value["value"]}"{suffix}'

    def index_quads(self) -> list[ox.Quad]:
        """Return what the index was built from, without later updates."""
        return list(self.base) if self._index is None else list(self._index)

    def delta(self) -> dict[str, int]:
        """Return how many triples differ from the index."""
        if self._index is None:
            return {"inserted": 0, "deleted": 0, "total": 0}
        now = set(self.base)
        inserted, deleted = len(now - self._index), len(self._index - now)
        return {"inserted": inserted, "deleted": deleted, "total": inserted + deleted}

    def fold(self) -> dict[str, int]:
        """Make what is there now the index; return what the counts were."""
        with self._writes:
            before, self._index = self.delta(), None
        return before

    def forget(self) -> dict[str, int]:
        """Go back to the index."""
        with self._writes:
            if self._index is not None:
                self.base.clear()
                self.base.extend(self._index)
                self.changed()
            return self.delta()

    def update(
        self, text: str, using: Sequence[str], using_named: Sequence[str], stop: Cancellation, compute_s: float
    ) -> dict[str, Any]:
        """Run an update request, all of it or nothing, and account for it as QLever does."""
        started = time.monotonic()
        self._wait(stop, compute_s)
        operations = split_update(text)
        with self._writes:
            if self._index is None:
                self._index = set(self.base)
            snapshot = list(self.base)
            accounts = []
            try:
                for operation in operations:
                    accounts.append(self._update_one(operation, using, using_named))
            except (SyntaxError, RuntimeError, OSError) as error:
                self.base.clear()
                self.base.extend(snapshot)
                raise OperationError(500, str(error)) from error
            finally:
                self.changed()
        took = {"total": f"{int((time.monotonic() - started) * 1000)}ms"}
        return {"operations": [{**account, "time": took} for account in accounts], "time": took}

    def _update_one(self, text: str, using: Sequence[str], using_named: Sequence[str]) -> dict[str, Any]:
        before, quads_before = self.delta(), set(self.base)
        if using or using_named:
            clauses = "".join(f"USING <{iri}> " for iri in using) + "".join(f"USING NAMED <{iri}> " for iri in using_named)
            where = re.search(r"\bWHERE\b", mask(text), re.IGNORECASE)
            if where:
                text = text[: where.start()] + clauses + text[where.start() :]
        self.base.update(text, prefixes={"ql": _QL})
        after, quads_after = self.delta(), set(self.base)
        inserted, deleted = len(quads_after - quads_before), len(quads_before - quads_after)
        changed = {"inserted": inserted, "deleted": deleted, "total": inserted + deleted}
        blocks = {"blocks-affected": 1 if inserted + deleted else 0, "blocks-total": 1}
        return {
            "update": text[: QUIRKS["echo_limit"]],
            "status": "OK",
            "warnings": [_TEXT["update_warning"]],
            "runtimeInformation": {"meta": {}, "query_execution_tree": {}},
            "delta-triples": {
                "before": before,
                "after": after,
                "operation": changed,
                "difference": {key: after[key] - before[key] for key in after},
            },
            "located-triples": dict.fromkeys(("SPO", "SOP", "PSO", "POS", "OSP", "OPS"), blocks),
        }


def _place(text: str, start: int, stop: int) -> dict[str, int]:
    last = max(0, len(text) - 1)
    start, stop = min(start, last), min(stop, last + 1)
    return {
        "line": text.count("\n", 0, start) + 1,
        "positionInLine": start - (text.rfind("\n", 0, start) + 1),
        "startIndex": start,
        "stopIndex": max(start, stop - 1),
    }


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
