"""Result documents that we write ourselves: those without solutions (pure)."""

from __future__ import annotations

import json
from xml.sax.saxutils import quoteattr

from proxy.errors import NotAcceptable
from proxy.query.formats import GRAPH_FORMATS, SOLUTION_FORMATS, BadAccept, choose


def empty_result(form: str, variables: tuple[str, ...], accept: str | None) -> tuple[str, bytes]:
    """Return media type and document of a SELECT, CONSTRUCT or DESCRIBE answer without solutions.

    Raises:
        NotAcceptable: *accept* takes none of our formats.
    """
    offers = SOLUTION_FORMATS if form == "SELECT" else GRAPH_FORMATS
    try:
        chosen = choose(accept, offers)
    except BadAccept as exc:
        raise NotAcceptable(str(exc)) from exc
    if chosen is None:
        raise NotAcceptable(f"accepted: {', '.join(offer.accepts[0] for offer in offers)}")
    match chosen.name:
        case "json":
            text = json.dumps({"head": {"vars": list(variables)}, "results": {"bindings": []}}, separators=(",", ":"))
        case "xml":
            head = "".join(f"<variable name={quoteattr(v)}/>" for v in variables)
            text = (
                '<?xml version="1.0"?><sparql xmlns="http://www.w3.org/2005/sparql-results#">'
                f"<head>{head}</head><results></results></sparql>"
            )
        case "csv":
            text = ",".join(variables) + "\r\n"
        case "tsv":
            text = "\t".join(f"?{v}" for v in variables) + "\n"
        case "rdf-xml":
            text = '<?xml version="1.0"?><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"></rdf:RDF>'
        case "json-ld":
            text = "[]"
        case _:
            text = ""
    return chosen.content_type, text.encode("utf-8")
