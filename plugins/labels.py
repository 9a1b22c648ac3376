"""Fill ``?xLabel`` with the label of ``?x``, as the label service of Wikidata does.

Options:
    predicate: IRI of the label. Default: rdfs:label.
    language: of the labels, a language range such as "en"; labels without a language count too. Default: "en".

Where a SELECT projects ``?xLabel``, has ``?x``, and says nowhere what ``?xLabel`` is, an OPTIONAL pattern is added at the end
of its WHERE; Sparlance-Labels tells for which variables. A node with two labels in the language gives two solutions. Queries
with aggregates, GROUP BY or SELECT * are left alone.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

import msgspec

from proxy import Exchange, Iri, ParsedQuery, Plugin, QueryForm, RequestError, Variable, parse, walk

ATTEMPTS = 16
"""Closing braces of a text that are tried, from the last; each costs a parse."""


class Options(msgspec.Struct, frozen=True):
    predicate: str = "http://www.w3.org/2000/01/rdf-schema#label"
    language: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9*-]{1,35}$")] = "en"

    def __post_init__(self) -> None:
        try:
            is_one = Iri(self.predicate) in walk(parse(f"ASK {{ {pattern('x', self)} }}"))
        except RequestError:
            is_one = False
        if not is_one:
            raise ValueError(f"predicate: {self.predicate!r} is no IRI that can be written in a query")


def pattern(name: str, options: Options) -> str:
    label = f"?{name}Label"
    return (
        f"OPTIONAL {{ ?{name} <{options.predicate}> {label} "
        f'FILTER(LANG({label}) = "" || LANGMATCHES(LANG({label}), "{options.language}")) }}'
    )


def load(options: Options) -> Plugin:
    return Labels(options)


class Labels(Plugin):
    def __init__(self, options: Options) -> None:
        self.options = options

    def query(self, exchange: Exchange) -> None:
        query, operation = exchange.parsed, exchange.operation
        if not isinstance(query, ParsedQuery) or operation is None or not (names := list(wanted(query))):
            return
        added = " ".join(pattern(name, self.options) for name in names)
        extra = parse(f"SELECT * {{ {added} }}")
        assert isinstance(extra, ParsedQuery) and extra.where is not None and query.where is not None
        meant = replace(query, where=replace(query.where, elements=(*query.where.elements, *extra.where.elements)))
        for text in candidates(operation.text, added):
            try:
                if parse(text) == meant:  # the tree proves the edit
                    exchange.replace_query(text)
                    shown = ", ".join(f"?{name}Label" for name in names)
                    exchange.add_header("Sparlance-Labels", shown.encode("ascii", "replace").decode())
                    return
            except RequestError:
                continue


def wanted(query: ParsedQuery) -> Iterator[str]:
    """Names of the variables whose labels are asked for and said nowhere."""
    if query.form is not QueryForm.SELECT or query.where is None or query.group_by or query.having or query.is_star:
        return
    if query.is_aggregate_without_group_by:
        return
    inside = {node.name for part in (query.where, query.values) for node in walk(part) if isinstance(node, Variable)}
    for projected in query.projection:
        name = projected.variable.name.removesuffix("Label")
        if projected.expression is None and f"{name}Label" == projected.variable.name != name:
            if name in inside and f"{name}Label" not in inside:
                yield name


def candidates(text: str, added: str) -> Iterator[str]:
    at = len(text)
    for _ in range(ATTEMPTS):
        at = text.rfind("}", 0, at)
        if at < 0:
            return
        yield f"{text[:at]}\n{added}\n{text[at:]}"
