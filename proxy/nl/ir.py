"""The query graph: the small typed form in which the question engine thinks, and the SPARQL it stands for.

It can say what questions ask and nothing else: basic graph patterns with filters, absence (NOT EXISTS), aggregates, groups,
order and limit. So whatever is rendered from it is a SELECT or an ASK.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from proxy.query.term import RDF, RDF_TYPE, RDFS, XSD, XSD_STRING, Iri, Literal


class Aggregate(StrEnum):
    COUNT = "COUNT"
    AVG = "AVG"
    SUM = "SUM"
    MIN = "MIN"
    MAX = "MAX"


class Operator(StrEnum):
    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    BETWEEN = "between"
    IN = "in"
    CONTAINS = "contains"
    STARTS = "starts with"
    ENDS = "ends with"
    LANGUAGE = "language"
    PRESENT = "present"


@dataclass(frozen=True, slots=True)
class Triple:
    """*subject* and a string *object* are variable names."""

    subject: str
    property: str
    object: str | Iri | Literal


@dataclass(frozen=True, slots=True)
class Column:
    """A variable, or an aggregate over it. *var* empty: the aggregate runs over solutions, COUNT(*)."""

    var: str
    aggregate: Aggregate | None = None
    is_distinct: bool = False
    is_text_number: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """*var* compared with *values*: one, two for BETWEEN, any number for IN, or with an aggregate over a query of its own.
    LANGUAGE: the one value is the language tag of *var*.

    is_text_number: the literals are strings that hold numbers, so they are cast. otherwise: a filter that may hold instead.
    """

    var: str
    operator: Operator
    values: tuple[Literal | Iri, ...] = ()
    against: Query | None = None
    is_text_number: bool = False
    otherwise: Filter | None = None


@dataclass(frozen=True, slots=True)
class Binding:
    """*var* is the *operands*, variables, with *operator* (+, -, * or /) between them. are_texts: which are cast to numbers."""

    var: str
    operator: str
    operands: tuple[str, ...]
    are_texts: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A group: triples, filters, groups of which no solution may exist, of which one must match (UNION), that may miss."""

    triples: tuple[Triple, ...] = ()
    filters: tuple[Filter, ...] = ()
    absent: tuple[Pattern, ...] = ()
    either: tuple[Pattern, ...] = ()
    bindings: tuple[Binding, ...] = ()
    optional: tuple[Pattern, ...] = ()


@dataclass(frozen=True, slots=True)
class Having:
    column: Column
    operator: Operator
    value: float


@dataclass(frozen=True, slots=True)
class Query:
    """One SELECT (or ASK, with *is_ask*) query. *order*: (column, descending). outer: of the last column, over all rows."""

    pattern: Pattern
    columns: tuple[Column, ...] = ()
    group_by: tuple[str, ...] = ()
    having: Having | None = None
    order: tuple[tuple[Column, bool], ...] = ()
    limit: int | None = None
    is_distinct: bool = False
    is_ask: bool = False
    outer: Aggregate | None = None


# -- to SPARQL

_WELL_KNOWN: Mapping[str, str] = {RDF: "rdf", RDFS: "rdfs", XSD: "xsd"}
_LOCAL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_GENERIC = frozenset(
    "ns vocab vocabulary ontology ontop schema terms prop property entity data id resource def onto".split()
    + "www org com net http https example".split()
)


def render(query: Query) -> str:
    """The query as a person would write it: prefixes, one triple a line, ``a`` for the class."""
    return _Renderer(query).text()


def iris(query: Query) -> Iterator[str]:
    """Every IRI that *query* names, those of its parts too."""

    def of_pattern(pattern: Pattern) -> Iterator[str]:
        for t in pattern.triples:
            yield t.property
            if isinstance(t.object, Iri):
                yield t.object.value
        for f in pattern.filters:
            if f.against is not None:
                yield from iris(f.against)
        for inner in (*pattern.absent, *pattern.either, *pattern.optional):
            yield from of_pattern(inner)

    yield from of_pattern(query.pattern)


class _Renderer:
    def __init__(self, query: Query) -> None:
        self._query = query
        self._prefixes: dict[str, str] = {}
        self._uses_xsd = False
        self._name_prefixes(i for i in iris(query) if i != RDF_TYPE)

    def text(self) -> str:
        body = self._select(self._query, "")
        if self._query.outer is not None:
            last = alias(self._query.columns[-1])
            name = alias(Column(last, self._query.outer))
            inner = self._select(self._query, "    ")
            body = f"SELECT ({self._query.outer}(?{last}) AS ?{name}) WHERE {{\n  {{\n{inner}\n  }}\n}}"
        lines = [f"PREFIX {p}: <{ns}>" for ns, p in sorted(self._prefixes.items(), key=lambda x: x[1])]
        if self._uses_xsd and XSD not in self._prefixes:
            lines.append(f"PREFIX xsd: <{XSD}>")
        return "\n".join([*lines, body])

    def _name_prefixes(self, found: Iterable[str]) -> None:
        for iri in dict.fromkeys(found):
            namespace, local = _split(iri)
            if not local or namespace in self._prefixes:
                continue
            name = _WELL_KNOWN.get(namespace, "")
            if not name:
                pieces = [p.lower() for p in re.findall(r"[A-Za-z][A-Za-z0-9]*", namespace)]
                useful = [p for p in reversed(pieces) if p not in _GENERIC and len(p) > 1]
                name = (useful[0] if useful else "ns")[:16]
            base, n = name, 2
            while name in self._prefixes.values() or (name in _WELL_KNOWN.values() and namespace not in _WELL_KNOWN):
                name, n = f"{base}{n}", n + 1
            self._prefixes[namespace] = name

    def _iri(self, iri: str) -> str:
        namespace, local = _split(iri)
        if local and namespace in self._prefixes:
            return f"{self._prefixes[namespace]}:{local}"
        return f"<{iri}>"

    def _term(self, term: str | Iri | Literal) -> str:
        if isinstance(term, str):
            return f"?{term}"
        if isinstance(term, Iri):
            return self._iri(term.value)
        quoted = '"' + "".join(_ESCAPES.get(c, c) for c in term.lexical) + '"'
        if term.language is not None:
            return f"{quoted}@{term.language}"
        if term.datatype == XSD_STRING:
            return quoted
        if term.datatype in (XSD + "integer", XSD + "decimal") and re.fullmatch(r"-?\d+(\.\d+)?", term.lexical):
            return term.lexical
        if term.datatype.startswith(XSD):
            self._uses_xsd = True
            return f"{quoted}^^xsd:{term.datatype.removeprefix(XSD)}"
        return f"{quoted}^^<{term.datatype}>"

    def _number(self, var: str, is_text: bool) -> str:
        if is_text:
            self._uses_xsd = True
            return f"xsd:decimal(?{var})"
        return f"?{var}"

    def _column(self, column: Column) -> str:
        if column.aggregate is None:
            return f"?{column.var}"
        inside = self._number(column.var, column.is_text_number) if column.var else "*"
        return f"{column.aggregate}({'DISTINCT ' if column.is_distinct else ''}{inside})"

    def _projected(self, column: Column) -> str:
        if column.aggregate is None:
            return f"?{column.var}"
        return f"({self._column(column)} AS ?{alias(column)})"

    def _select(self, query: Query, indent: str) -> str:
        inner = indent + "  "
        lines = self._pattern(query.pattern, inner)
        if query.is_ask:
            return "\n".join([f"{indent}ASK {{", *lines, f"{indent}}}"])
        head = "SELECT DISTINCT" if query.is_distinct else "SELECT"
        out = [f"{indent}{head} {' '.join(self._projected(c) for c in query.columns)} WHERE {{", *lines, f"{indent}}}"]
        if query.group_by:
            out.append(f"{indent}GROUP BY {' '.join('?' + v for v in query.group_by)}")
        if query.having is not None:
            h = query.having
            out.append(f"{indent}HAVING ({self._column(h.column)} {h.operator} {_plain(h.value)})")
        if query.order:
            keys = []
            for column, is_descending in query.order:
                key = self._column(column) if column.aggregate else self._number(column.var, column.is_text_number)
                keys.append(f"DESC({key})" if is_descending else (key if key.startswith("?") else f"ASC({key})"))
            out.append(f"{indent}ORDER BY {' '.join(keys)}")
        if query.limit is not None:
            out.append(f"{indent}LIMIT {query.limit}")
        return "\n".join(out)

    def _pattern(self, pattern: Pattern, indent: str) -> list[str]:
        lines = []
        for f in pattern.filters:
            if f.against is not None:
                lines += [f"{indent}{{", self._select(f.against, indent + "  "), f"{indent}}}"]
        for t in dict.fromkeys(pattern.triples):
            verb = "a" if t.property == RDF_TYPE else self._iri(t.property)
            lines.append(f"{indent}?{t.subject} {verb} {self._term(t.object)} .")
        for inner in pattern.optional:
            lines += [f"{indent}OPTIONAL {{", *self._pattern(inner, indent + "  "), f"{indent}}}"]
        for b in pattern.bindings:
            operands = [self._number(v, t) for v, t in zip(b.operands, b.are_texts, strict=True)]
            lines.append(f"{indent}BIND({f' {b.operator} '.join(operands)} AS ?{b.var})")
        for number, inner in enumerate(pattern.either):
            lines += [f"{indent}{'} UNION {' if number else '{'}", *self._pattern(inner, indent + "  ")]
        lines += [f"{indent}}}"] if pattern.either else []
        for f in pattern.filters:
            lines.append(f"{indent}FILTER({self._filter(f)})")
        for inner in pattern.absent:
            lines += [f"{indent}FILTER NOT EXISTS {{", *self._pattern(inner, indent + "  "), f"{indent}}}"]
        return lines

    def _filter(self, f: Filter) -> str:
        if f.otherwise is not None:
            sides = (replace(f, otherwise=None), f.otherwise)
            return " || ".join(f"({x})" if f.operator is Operator.BETWEEN else x for x in map(self._filter, sides))
        value = self._number(f.var, f.is_text_number)
        if f.against is not None:
            return f"{value} {f.operator} ?{alias(f.against.columns[0])}"
        terms = [self._term(v) for v in f.values]
        match f.operator:
            case Operator.BETWEEN:
                return f"{value} >= {terms[0]} && {value} <= {terms[1]}"
            case Operator.IN:
                return f"{value} IN ({', '.join(terms)})"
            case Operator.LANGUAGE:
                return f"LANG({value}) = {terms[0]}"
            case Operator.CONTAINS:
                return f"CONTAINS(LCASE(STR({value})), LCASE({terms[0]}))"
            case Operator.STARTS:
                return f"STRSTARTS(LCASE(STR({value})), LCASE({terms[0]}))"
            case Operator.ENDS:
                return f"STRENDS(LCASE(STR({value})), LCASE({terms[0]}))"
            case _:
                return f"{value} {f.operator} {terms[0]}"


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def alias(column: Column) -> str:
    """The name of an aggregate in the result: ``averageAge``, ``numberOfSingers``."""
    if column.aggregate is Aggregate.COUNT:
        return f"numberOf{_capital(column.var)}" if column.var else "count"
    word = {Aggregate.AVG: "average", Aggregate.SUM: "total", Aggregate.MIN: "minimum", Aggregate.MAX: "maximum"}
    return f"{word[column.aggregate]}{_capital(column.var)}" if column.aggregate else column.var


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)


def _split(iri: str) -> tuple[str, str]:
    """Namespace and local name; an empty local name where a prefixed name would need escapes."""
    cut = max(iri.rfind("#"), iri.rfind("/")) + 1
    local = iri[cut:]
    return (iri[:cut], local) if cut and _LOCAL.fullmatch(local) else (iri, "")


def variable_name(words: str) -> str:
    """``birth date`` → ``birthDate``: words as a variable name; ``v`` in front of what starts with a digit."""
    parts = re.findall(r"[A-Za-z0-9]+", words)
    name = "".join(p.lower() if i == 0 else _capital(p.lower()) for i, p in enumerate(parts)) or "value"
    return f"v{name}" if name[0].isdigit() else name
