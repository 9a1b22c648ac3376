"""Text → ParsedQuery or ParsedUpdate: SPARQL 1.1 Query and Update.

A hand-written parser over one regular expression. The parsers at hand do not fit the path of every request: rdflib's takes
25 ms and more and leaves escapes in names; pyoxigraph's shows no tree; tree-sitter-sparql refuses what is legal (a prefix
named ``a``, ``;`` twice before a dot, two blanks in ``INSERT  DATA``), accepts what is not, and its tree must be walked again
in Python, which costs as much as parsing here.

What this grammar does not know (RDF 1.2 syntax, a backend's dialect) is MalformedQuery: to callers on the SPARQL path that
means *unknown*, not wrong; the backend is the judge of its dialect.
"""

from __future__ import annotations

from collections.abc import Mapping

from proxy.errors import MalformedQuery
from proxy.query.model import ParsedOperation
from proxy.query.parse_update import OperationParser
from proxy.query.term import OWL, RDF, RDFS, XSD

GRAPHDB_PREFIXES: Mapping[str, str] = {
    "rdf": RDF,
    "rdfs": RDFS,
    "sesame": "http://www.openrdf.org/schema/sesame#",
    "owl": OWL,
    "xsd": XSD,
    "fn": "http://www.w3.org/2005/xpath-functions#",
}
"""Prefixes that GraphDB (RDF4J) knows undeclared."""

QLEVER_PREFIXES: Mapping[str, str] = {"ql": "http://qlever.cs.uni-freiburg.de/builtin-functions/"}
"""Prefixes that QLever knows undeclared."""

_NONE: Mapping[str, str] = {}


def parse(text: str, *, prefixes: Mapping[str, str] = _NONE) -> ParsedOperation:
    """Read one query or update request.

    Time and memory grow linearly with *text*, whatever it holds; nesting and size have limits (``parse_tokens.MAX_DEPTH``,
    ``MAX_CHARACTERS``).

    Args:
        prefixes: what the backend predeclares, such as ``GRAPHDB_PREFIXES``.
    Raises:
        MalformedQuery: not SPARQL 1.1, or beyond the limits; with line and column where there are any. Nothing else is raised.
    """
    try:
        return OperationParser(text, prefixes).operation()
    except RecursionError:  # the limit of depth leaves room, unless the caller has used it up
        raise MalformedQuery("too deeply nested to analyse", reason="size") from None
