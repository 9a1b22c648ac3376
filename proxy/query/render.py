"""ParsedQuery and ParsedUpdate → SPARQL text; ``parse(render(q)) == q``.

IRIs are written in full, without prefixes, so that the text means the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from proxy.query.model import (
    Aggregate,
    AlternativePath,
    And,
    Arithmetic,
    BasicGraphPattern,
    Bind,
    Comparison,
    DeleteData,
    DeleteWhere,
    Element,
    Exists,
    Expression,
    Filter,
    FunctionCall,
    GraphManagement,
    GraphPattern,
    GraphSet,
    Group,
    In,
    InlineData,
    InsertData,
    InversePath,
    Lateral,
    Load,
    Minus,
    Modify,
    NegatedPropertySet,
    OneOrMorePath,
    Optional,
    Or,
    ParsedOperation,
    ParsedQuery,
    PropertyPath,
    QuadPattern,
    QueryForm,
    SequencePath,
    Service,
    SubSelect,
    Term,
    TriplePattern,
    TripleTerm,
    Unary,
    Union,
    UpdateOperation,
    ZeroOrMorePath,
    ZeroOrOnePath,
)
from proxy.query.operation import DatasetDescription
from proxy.query.term import XSD, XSD_STRING, Iri, Literal, Variable

_STRING_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"})
_BARE = {XSD + "integer": str.isdigit, XSD + "boolean": ("true", "false").__contains__}


def render_term(term: Term | None) -> str:
    """One term, or UNDEF."""
    match term:
        case None:
            return "UNDEF"
        case Iri(value):
            return f"<{value}>"
        case Variable():
            return str(term)
        case TripleTerm(subject, predicate, obj):
            return f"<<( {render_term(subject)} {render_term(predicate)} {render_term(obj)} )>>"
        case Literal(lexical, datatype, language):
            is_bare = _BARE.get(datatype)
            if is_bare is not None and lexical.isascii() and is_bare(lexical):
                return lexical
            quoted = f'"{lexical.translate(_STRING_ESCAPES)}"'
            if language is not None:
                return f"{quoted}@{language}"
            return quoted if datatype == XSD_STRING else f"{quoted}^^<{datatype}>"


def render_path(path: Variable | PropertyPath) -> str:
    match path:
        case Variable() | Iri():
            return render_term(path)
        case InversePath(inner):
            # "^" binds looser than "*", so the inner one is bracketed unless it is simple
            return f"^{_path_step(inner)}"
        case SequencePath(paths):
            return "/".join(render_path(p) if isinstance(p, InversePath) else _path_step(p) for p in paths)
        case AlternativePath(paths):
            return "|".join(f"({render_path(p)})" if isinstance(p, AlternativePath) else render_path(p) for p in paths)
        case ZeroOrMorePath(inner):
            return f"{_path_primary(inner)}*"
        case OneOrMorePath(inner):
            return f"{_path_primary(inner)}+"
        case ZeroOrOnePath(inner):
            return f"{_path_primary(inner)}?"
        case NegatedPropertySet(forward, inverse):
            return f"!({'|'.join([*map(render_term, forward), *(f'^{render_term(i)}' for i in inverse)])})"
    assert_never(path)


def _path_primary(path: PropertyPath) -> str:
    return render_path(path) if isinstance(path, Iri | NegatedPropertySet) else f"({render_path(path)})"


def _path_step(path: PropertyPath) -> str:
    if isinstance(path, ZeroOrMorePath | OneOrMorePath | ZeroOrOnePath):
        return render_path(path)
    return _path_primary(path)


def render_pattern(pattern: TriplePattern) -> str:
    """One triple pattern, without the dot."""
    return f"{render_term(pattern.subject)} {render_path(pattern.predicate)} {render_term(pattern.object)}"


def render_group(group: Group) -> str:
    return f"{{ {' '.join(map(_element, group.elements))} }}" if group.elements else "{ }"


def _element(element: Element) -> str:
    match element:
        case BasicGraphPattern(patterns):
            return _triples(patterns)
        case Group():
            return render_group(element)
        case Optional(group):
            return f"OPTIONAL {render_group(group)}"
        case Union(branches):
            return " UNION ".join(map(render_group, branches))
        case Minus(group):
            return f"MINUS {render_group(group)}"
        case Filter(expression):
            return f"FILTER({render_expression(expression)})"
        case Bind(expression, variable):
            return f"BIND({render_expression(expression)} AS {variable})"
        case InlineData():
            return _values(element)
        case GraphPattern(name, group):
            return f"GRAPH {render_term(name)} {render_group(group)}"
        case Service(name, is_silent, group):
            return f"SERVICE {'SILENT ' if is_silent else ''}{render_term(name)} {render_group(group)}"
        case SubSelect(query):
            return _query(query)
        case Lateral(group):
            return f"LATERAL {render_group(group)}"
    assert_never(element)


def _triples(patterns: Iterable[TriplePattern]) -> str:
    return " ".join(f"{render_pattern(p)} ." for p in patterns)


def _values(data: InlineData) -> str:
    variables = " ".join(map(str, data.variables))
    rows = " ".join(f"({' '.join(map(render_term, row))})" for row in data.rows)
    return f"VALUES ({variables}) {{ {rows} }}"


def render_expression(expression: Expression) -> str:
    """An expression; what is not a name, a literal or a call stands in brackets."""
    match expression:
        case Iri() | Variable() | Literal() | TripleTerm():
            return render_term(expression)
        case Or(operands):
            return " || ".join(_operands(*operands))
        case And(operands):
            return " && ".join(_operands(*operands))
        case Unary(operator, operand):
            return f"{operator} {_bracketed(operand, render_expression(operand))}"
        case Comparison(operator, left, right):
            return f" {operator} ".join(_operands(left, right))
        case Arithmetic(operators, operands):
            first, *others = _operands(*operands)
            return first + "".join(f" {o} {e}" for o, e in zip(operators, others, strict=True))
        case In(operand, options, is_negated):
            listed = ", ".join(map(render_expression, options))
            return f"{_bracketed(operand, render_expression(operand))} {'NOT ' if is_negated else ''}IN ({listed})"
        case FunctionCall(name, arguments, is_distinct):
            callee = render_term(name) if isinstance(name, Iri) else name
            return f"{callee}({'DISTINCT ' if is_distinct else ''}{', '.join(map(render_expression, arguments))})"
        case Exists(group, is_negated):
            return f"{'NOT ' if is_negated else ''}EXISTS {render_group(group)}"
        case Aggregate(name, argument, is_distinct, separator):
            inside = "*" if argument is None else render_expression(argument)
            if separator is not None:
                inside += f"; SEPARATOR = {render_term(Literal(separator))}"
            return f"{name}({'DISTINCT ' if is_distinct else ''}{inside})"
    assert_never(expression)


def _operands(*operands: Expression) -> Iterable[str]:
    # a lazy map, so that one operator takes one frame of the stack
    return map(_bracketed, operands, map(render_expression, operands))


def _bracketed(expression: Expression, text: str) -> str:
    """*text*, which *expression* is rendered as, as an operand."""
    if isinstance(expression, Or | And | Unary | Comparison | Arithmetic | In):
        return f"({text})"
    return text


def _query(query: ParsedQuery) -> str:
    parts: list[str] = [query.form]
    if query.form is QueryForm.SELECT:
        if query.is_distinct:
            parts.append("DISTINCT")
        if query.is_reduced:
            parts.append("REDUCED")
    if query.is_star:
        parts.append("*")
    for p in query.projection:
        parts.append(str(p.variable) if p.expression is None else f"({render_expression(p.expression)} AS {p.variable})")
    if query.form is QueryForm.CONSTRUCT:
        parts.append(f"{{ {_triples(query.template)} }}")
    parts += map(render_term, query.describe)
    parts += _dataset("FROM", query.dataset)
    if query.where is not None:
        parts.append(f"WHERE {render_group(query.where)}")
    if query.group_by:
        parts.append("GROUP BY")
        for c in query.group_by:
            if c.variable is None and isinstance(c.expression, Variable):
                parts.append(str(c.expression))
            else:
                parts.append(f"({render_expression(c.expression)}{f' AS {c.variable}' if c.variable else ''})")
    if query.having:
        parts.append("HAVING")
        parts += (f"({render_expression(e)})" for e in query.having)
    if query.order_by:
        parts.append("ORDER BY")
        parts += (f"{'DESC' if o.is_descending else 'ASC'}({render_expression(o.expression)})" for o in query.order_by)
    if query.limit is not None:
        parts.append(f"LIMIT {query.limit}")
    if query.offset is not None:
        parts.append(f"OFFSET {query.offset}")
    if query.values is not None:
        parts.append(_values(query.values))
    return " ".join(parts)


def _dataset(word: str, dataset: DatasetDescription) -> list[str]:
    return [f"{word} <{g}>" for g in dataset.default_graphs] + [f"{word} NAMED <{g}>" for g in dataset.named_graphs]


def _quads(quads: tuple[QuadPattern, ...]) -> str:
    parts = []
    for q in quads:
        triples = _triples(q.patterns)
        parts.append(triples if q.graph is None else f"GRAPH {render_term(q.graph)} {{ {triples} }}")
    return f"{{ {' '.join(parts)} }}"


def _graph(target: Iri | GraphSet) -> str:
    return f"GRAPH {render_term(target)}" if isinstance(target, Iri) else str(target)


def _update(operation: UpdateOperation) -> str:
    match operation:
        case InsertData(quads):
            return f"INSERT DATA {_quads(quads)}"
        case DeleteData(quads):
            return f"DELETE DATA {_quads(quads)}"
        case DeleteWhere(quads):
            return f"DELETE WHERE {_quads(quads)}"
        case Modify(with_graph, delete, insert, using, where):
            parts = [] if with_graph is None else [f"WITH {render_term(with_graph)}"]
            if delete or not insert:
                parts.append(f"DELETE {_quads(delete)}")
            if insert:
                parts.append(f"INSERT {_quads(insert)}")
            return " ".join([*parts, *_dataset("USING", using), f"WHERE {render_group(where)}"])
        case Load(source, into, is_silent):
            end = "" if into is None else f" INTO GRAPH {render_term(into)}"
            return f"LOAD {'SILENT ' if is_silent else ''}{render_term(source)}{end}"
        case GraphManagement(name, target, source, is_silent):
            silent = "SILENT " if is_silent else ""
            if source is None:
                return f"{name} {silent}{_graph(target)}"
            return f"{name} {silent}{_graph(source)} TO {_graph(target)}"
    assert_never(operation)


def render(operation: ParsedOperation) -> str:
    """The text of a query or an update, on one line."""
    if isinstance(operation, ParsedQuery):
        return _query(operation)
    return " ; ".join(map(_update, operation.operations))
