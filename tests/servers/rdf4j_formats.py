"""How RDF4J, and so GraphDB, writes results: media types, file extensions, and the layout of each document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pyoxigraph as ox

from tests.servers.rdf_store import RDF_TYPES

_STRING = "http://www.w3.org/2001/XMLSchema#string"
JSON_TYPES = ("application/sparql-results+json", "application/json")
XML_TYPES = ("application/sparql-results+xml", "application/xml")
# By media type the extension in Content-Disposition. The first one answers */*, and an extension's first is its own name.
TUPLE_TYPES = {
    "text/csv": "csv",
    **dict.fromkeys(JSON_TYPES, "srj"),
    **dict.fromkeys(XML_TYPES, "srx"),
    "text/tab-separated-values": "tsv",
}
BOOLEAN_TYPES = {**dict.fromkeys(JSON_TYPES, "srj"), **dict.fromkeys(XML_TYPES, "srx"), "text/boolean": "txt"}
GRAPH_TYPES = {
    "application/n-triples": "nt",
    "text/plain": "nt",
    "application/rdf+xml": "rdf",
    "text/turtle": "ttl",
    "application/x-turtle": "ttl",
    "text/n3": "n3",
    "application/trig": "trig",
    "application/n-quads": "nq",
    "application/ld+json": "jsonld",
}


@dataclass
class Result:
    """All solutions, triples or quads of one evaluation, or the truth."""

    form: str
    variables: tuple[str, ...] = ()
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    truth: bool = False


def export(result: Result, media_type: str) -> Iterator[bytes]:
    """Write a result in RDF4J's shapes; pieces of some ten kilobytes."""
    if result.form in ("CONSTRUCT", "DESCRIBE"):
        triples = [ox.Triple(*row) for row in result.rows]
        yield ox.serialize(triples, format=RDF_TYPES[media_type]) or b""
    elif media_type in JSON_TYPES:
        yield from _json(result)
    elif media_type in XML_TYPES:
        yield from _xml(result)
    elif media_type == "text/boolean":
        yield b"true" if result.truth else b"false"
    else:
        yield from _separated(result, "," if media_type == "text/csv" else "\t")


def _json(result: Result) -> Iterator[bytes]:
    if result.form == "ASK":
        yield b'{\n  "head" : { },\n  "boolean" : %s\n}' % (b"true" if result.truth else b"false")
        return
    names = ",\n".join(f"      {json.dumps(name)}" for name in result.variables)
    yield f'{{\n  "head" : {{\n    "vars" : [\n{names}\n    ]\n  }},\n  "results" : {{\n    "bindings" : ['.encode()
    buffer: list[str] = []
    for number, row in enumerate(result.rows):
        cells = []
        for name, term in zip(result.variables, row, strict=True):
            if term is not None:
                value = json.dumps(_term(term), indent=2, separators=(",", " : "), ensure_ascii=False)
                cells.append(f"        {json.dumps(name)} : " + value.replace("\n", "\n        "))
        buffer.append((",\n      {" if number else "\n      {") + "\n" + ",\n".join(cells) + "\n      }")
        if len(buffer) >= 200:
            yield "".join(buffer).encode()
            buffer.clear()
    buffer.append("\n    ]" if result.rows else " ]")
    yield ("".join(buffer) + "\n  }\n}").encode()


def _term(term: Any) -> dict[str, str]:
    if isinstance(term, ox.NamedNode):
        return {"type": "uri", "value": term.value}
    if isinstance(term, ox.BlankNode):
        return {"type": "bnode", "value": term.value}
    if term.language:
        return {"xml:lang": term.language, "type": "literal", "value": term.value}
    if term.datatype.value == _STRING:
        return {"type": "literal", "value": term.value}
    return {"datatype": term.datatype.value, "type": "literal", "value": term.value}


def _xml(result: Result) -> Iterator[bytes]:
    yield b"<?xml version='1.0' encoding='UTF-8'?>\n<sparql xmlns='http://www.w3.org/2005/sparql-results#'>\n\t<head>\n"
    yield "".join(f"\t\t<variable name={quoteattr(name)}/>\n" for name in result.variables).encode() + b"\t</head>\n"
    if result.form == "ASK":
        yield b"\t<boolean>%s</boolean>\n</sparql>" % (b"true" if result.truth else b"false")
        return
    yield b"\t<results>\n"
    for row in result.rows:
        cells = []
        for name, term in zip(result.variables, row, strict=True):
            if term is not None:
                value = _term(term)
                attributes = "".join(f" {key}={quoteattr(value[key])}" for key in ("xml:lang", "datatype") if key in value)
                kind = value["type"]
                element = f"<{kind}{attributes}>{escape(value['value'])}</{kind}>"
                cells.append(f"\t\t\t<binding name={quoteattr(name)}>\n\t\t\t\t{element}\n\t\t\t</binding>\n")
        yield ("\t\t<result>\n" + "".join(cells) + "\t\t</result>\n").encode()
    yield b"\t</results>\n</sparql>"


def _separated(result: Result, separator: str) -> Iterator[bytes]:
    is_csv = separator == ","
    end = "\r\n" if is_csv else "\n"
    yield (separator.join(name if is_csv else "?" + name for name in result.variables) + end).encode()
    for row in result.rows:
        cells = []
        for term in row:
            if term is None:
                cell = ""
            elif not is_csv:
                cell = str(term)
            else:
                cell = "_:" + term.value if isinstance(term, ox.BlankNode) else term.value
                if re.search('[",\r\n]', cell):
                    cell = '"' + cell.replace('"', '""') + '"'
            cells.append(cell)
        yield (separator.join(cells) + end).encode()
