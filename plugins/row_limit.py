"""Cap the number of solutions that a SELECT or CONSTRUCT may ask for.

Options:
    max_rows: solutions, from 1. Required.
    mode: "limit" (default) puts the LIMIT into the query that is sent and says so in the header ``Sparlance-Row-Limit``;
        "refuse" answers 400 and leaves it to the client.

An aggregate without GROUP BY has one solution and passes. So do ASK and DESCRIBE, whose size LIMIT does not bound. A LIMIT of a
sub-query does not count. A text that cannot be parsed is refused: nobody could say how many rows it asks for.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Literal

import msgspec

from proxy import Exchange, Finding, ParsedQuery, ParsedUpdate, Plugin, QueryRejected, RequestError, Severity, parse

ATTEMPTS = 16
"""LIMIT words of a text that are tried, from the last; each costs a parse."""


class Options(msgspec.Struct, frozen=True):
    max_rows: Annotated[int, msgspec.Meta(ge=1)]
    mode: Literal["limit", "refuse"] = "limit"


def load(options: Options) -> Plugin:
    return RowLimit(options.max_rows, refuses=options.mode == "refuse")


class RowLimit(Plugin):
    """Lets no query ask for more than *max_rows* solutions."""

    may_refuse = True

    def __init__(self, max_rows: int, *, refuses: bool) -> None:
        self.max_rows = max_rows
        self.refuses = refuses

    async def query(self, exchange: Exchange) -> None:
        match exchange.parsed:
            case ParsedUpdate():
                return
            case ParsedQuery() as query:
                if self.is_within(query):
                    return
            case _:
                raise self._refusal("the query cannot be parsed, so its rows cannot be limited")
        if self.refuses:
            asked = "any number of" if query.limit is None else str(query.limit)
            raise self._refusal(f"the query asks for {asked} rows; at most {self.max_rows} are allowed here")
        assert exchange.operation is not None
        exchange.replace_query(self.limited(exchange.operation.text, query))
        exchange.add_header("Sparlance-Row-Limit", str(self.max_rows))

    def is_within(self, query: ParsedQuery) -> bool:
        """Whether *query* cannot have more solutions than allowed, by its form and its own LIMIT."""
        if query.form not in ("SELECT", "CONSTRUCT") or query.is_aggregate_without_group_by:
            return True
        return query.limit is not None and query.limit <= self.max_rows

    def limited(self, text: str, query: ParsedQuery) -> str:
        """*text* with the smaller LIMIT, otherwise as its author wrote it.

        The edit is made in the text and proved on the tree: the result must parse to the same query with another limit.
        """
        wanted = replace(query, limit=self.max_rows)
        for candidate in self._candidates(text, query):
            try:
                if parse(candidate) == wanted:
                    return candidate
            except RequestError:
                continue
        raise self._refusal(f"the LIMIT could not be lowered; write LIMIT {self.max_rows} or less")

    def _candidates(self, text: str, query: ParsedQuery) -> Iterator[str]:
        if query.limit is None:
            # LIMIT stands before a VALUES clause; a line of its own keeps clear of a comment at the end.
            at = len(text) if query.values is None else query.values.span.offset
            yield f"{text[:at]}\nLIMIT {self.max_rows}\n{text[at:]}".rstrip("\n")
            return
        found = list(re.finditer(r"(?i)\bLIMIT\s+(\d+)", text))
        for match in found[: -ATTEMPTS - 1 : -1]:
            yield text[: match.start(1)] + str(self.max_rows) + text[match.end(1) :]

    def _refusal(self, message: str) -> QueryRejected:
        finding = Finding(
            severity=Severity.SUSPICIOUS,
            pattern="LIMIT",
            line=1,
            column=1,
            message=message,
            evidence=f"plugin row_limit, max_rows = {self.max_rows}",
            suggestions=(f"LIMIT {self.max_rows}",),
            rule="plugin-row-limit",
        )
        return QueryRejected(message, findings=[finding])
