"""Result formats, and which of them an Accept field asks for (RFC 9110, 12.5.1).

The order of an offer list is the server's preference; the media types of one format are synonyms. The lists are those of
Oxigraph 0.5, so that the embedded store and the server answer alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class ResultFormat:
    """One way to write a result. *content_type* is what a response says; *accepts* are the media types that ask for it."""

    name: str
    content_type: str
    accepts: tuple[str, ...]


JSON = ResultFormat("json", "application/sparql-results+json", ("application/sparql-results+json", "application/json"))
XML = ResultFormat("xml", "application/sparql-results+xml", ("application/sparql-results+xml", "application/xml", "text/xml"))
CSV = ResultFormat("csv", "text/csv; charset=utf-8", ("text/csv", "text/plain"))
TSV = ResultFormat("tsv", "text/tab-separated-values; charset=utf-8", ("text/tab-separated-values", "text/tsv"))
SOLUTION_FORMATS = (JSON, XML, CSV, TSV)
"""For SELECT and ASK."""

N_QUADS = ResultFormat("n-quads", "application/n-quads", ("application/n-quads", "text/x-nquads", "text/nquads"))
TURTLE = ResultFormat("turtle", "text/turtle", ("text/turtle", "application/turtle", "application/x-turtle"))
N_TRIPLES = ResultFormat("n-triples", "application/n-triples", ("application/n-triples", "text/plain"))
TRIG = ResultFormat("trig", "application/trig", ("application/trig", "application/x-trig"))
RDF_XML = ResultFormat("rdf-xml", "application/rdf+xml", ("application/rdf+xml", "application/xml", "text/xml"))
JSON_LD = ResultFormat("json-ld", "application/ld+json", ("application/ld+json", "application/json"))
N3 = ResultFormat("n3", "text/n3", ("text/n3", "text/rdf+n3"))
GRAPH_FORMATS = (N_QUADS, TURTLE, N_TRIPLES, TRIG, RDF_XML, JSON_LD, N3)
"""For CONSTRUCT and DESCRIBE."""


class BadAccept(ValueError):
    """The field is not a list of media ranges; the message quotes the bad one."""


@lru_cache(maxsize=256)
def parse_accept(accept: str) -> tuple[tuple[str, str, float], ...]:
    """Read an Accept field: (type, subtype, q) in order.

    Raises:
        BadAccept: some member is no media range.
    """
    ranges = []
    for member in accept.split(","):
        media, *parameters = (part.strip() for part in member.split(";"))
        if not media and not parameters:
            continue  # empty list members are allowed (RFC 9110, 5.6.1)
        type_, slash, subtype = media.lower().partition("/")
        if not (type_ and slash and subtype) or " " in media or "/" in subtype:
            raise BadAccept(f"Invalid media type: {media!r}")
        quality = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "q":
                try:
                    quality = min(max(float(value), 0.0), 1.0)
                except ValueError:
                    raise BadAccept(f"Invalid quality: {parameter!r}") from None
        ranges.append((type_, subtype, quality))
    return tuple(ranges)


def quality_of(media: str, ranges: Sequence[tuple[str, str, float]], *, is_literal: bool = False) -> float:
    """Return the quality of *media*: that of the most specific range that covers it; 0 if none does.

    Args:
        is_literal: wildcards do not count.
    """
    type_, _, subtype = media.partition("/")
    if is_literal:
        return max((q for t, s, q in ranges if (t, s) == (type_, subtype)), default=0.0)
    best, best_rank = 0.0, 0
    for t, s, q in ranges:
        rank = 3 if (t, s) == (type_, subtype) else 2 if (t, s) == (type_, "*") else 1 if (t, s) == ("*", "*") else 0
        if rank > best_rank:
            best, best_rank = q, rank
    return best


def choose(accept: str | None, offers: Sequence[ResultFormat]) -> ResultFormat | None:
    """Return the offer that *accept* likes best; of equals the earlier one; None if it takes none of them.

    No Accept field, and an empty one, take anything. A wildcard reaches a format by its own media type only, not by synonyms.

    Raises:
        BadAccept
    """
    if accept is None or not (ranges := parse_accept(accept)):
        return offers[0]
    best: ResultFormat | None = None
    best_quality = 0.0
    for offer in offers:
        own, *synonyms = offer.accepts
        quality = max([quality_of(own, ranges), *(quality_of(media, ranges, is_literal=True) for media in synonyms)])
        if quality > best_quality:
            best, best_quality = offer, quality
    return best


def names(accept: str | None, media: str) -> bool:
    """Whether *accept* names *media* literally, with a quality above 0; wildcards do not count."""
    if not accept:
        return False
    try:
        return any(f"{t}/{s}" == media and q > 0 for t, s, q in parse_accept(accept))
    except BadAccept:
        return False
