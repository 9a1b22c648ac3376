"""What a client of our own pages and of ``nl=`` wants to see (pure)."""

from __future__ import annotations

from enum import StrEnum

from proxy.query.formats import BadAccept, names, parse_accept, quality_of

PROBLEM_JSON = "application/problem+json"
SPARQL_QUERY = "application/sparql-query"
EVENT_STREAM = "text/event-stream"


class AnswerStyle(StrEnum):
    """How a question is answered."""

    RESULT = "result"
    QUERY = "query"
    ACCOUNT = "account"
    STEPS = "steps"


def answer_style(accept: str | None) -> AnswerStyle:
    """Choose by media types that are named, never by wildcards: a plain client gets a result.

    ``application/json`` asks for the account only where ``application/sparql-results+json`` is not named as well: SPARQL
    clients name both.
    """
    if names(accept, EVENT_STREAM):
        return AnswerStyle.STEPS
    if names(accept, SPARQL_QUERY):
        return AnswerStyle.QUERY
    if names(accept, "application/json") and not names(accept, "application/sparql-results+json"):
        return AnswerStyle.ACCOUNT
    return AnswerStyle.RESULT


def wants_text_problem(accept: str | None) -> bool:
    """Whether the client takes text and no JSON at all, so that an error must be text for it to be read."""
    if not accept:
        return False
    try:
        ranges = parse_accept(accept)
    except BadAccept:
        return True
    if any(quality_of(media, ranges) > 0 for media in (PROBLEM_JSON, "application/json", "application/sparql-results+json")):
        return False
    return any(type_ == "text" and q > 0 for type_, _, q in ranges)
