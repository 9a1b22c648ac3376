"""Queries and updates as wholes: clauses, solution modifiers, update operations (SPARQL 1.1 Query, 19.8, rules 1 to 52)."""

from __future__ import annotations

from proxy.errors import MalformedQuery
from proxy.query.model import (
    BasicGraphPattern,
    DeleteData,
    DeleteWhere,
    Expression,
    GraphManagement,
    GraphSet,
    Group,
    GroupCondition,
    InsertData,
    Load,
    Modify,
    OrderCondition,
    ParsedOperation,
    ParsedQuery,
    ParsedUpdate,
    Projection,
    QuadPattern,
    QueryForm,
    TriplePattern,
    UpdateOperation,
)
from proxy.query.operation import DatasetDescription
from proxy.query.parse_pattern import PatternParser
from proxy.query.term import Iri, Variable

MOST_DIGITS = 30
"""Of LIMIT and OFFSET. Python takes the square of the digits to read a number, and has a limit of its own."""
_UPDATES = ("INSERT", "DELETE", "WITH", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY")


class OperationParser(PatternParser):
    """Reads one query or one update request, to the end of the text."""

    def operation(self) -> ParsedOperation:
        self.prologue()
        found: ParsedOperation = self._query() if self.is_word(*QueryForm) else self._update()
        if self.kind != "EOF":
            raise self.error("the end")
        return found

    # -- queries

    def _query(self) -> ParsedQuery:
        form = QueryForm(self.take_word(*QueryForm))
        match form:
            case QueryForm.SELECT:
                return self._select(is_whole=True)
            case QueryForm.CONSTRUCT:
                return self._construct()
            case QueryForm.ASK:
                dataset = self._dataset_clauses("FROM")
                return self._finished(form, dataset=dataset, where=self._where())
            case QueryForm.DESCRIBE:
                return self._describe()

    def sub_select(self) -> ParsedQuery:
        self.take_word("SELECT")
        return self._select(is_whole=False)

    def _select(self, *, is_whole: bool) -> ParsedQuery:
        is_distinct = self.accept_word("DISTINCT")
        is_reduced = not is_distinct and self.accept_word("REDUCED")
        is_star = self.accept("*")
        projection: list[Projection] = []
        while not is_star:
            if self.kind == "VAR":
                projection.append(Projection(self.variable()))
            elif self.accept("("):
                expression = self.expression()
                self.take_word("AS")
                projection.append(Projection(self.variable(), expression))
                self.take(")")
            elif projection:
                break
            else:
                raise self.error("a variable, ( or *")
        dataset = self._dataset_clauses("FROM") if is_whole else DatasetDescription()
        return self._finished(
            QueryForm.SELECT,
            projection=tuple(projection),
            is_star=is_star,
            is_distinct=is_distinct,
            is_reduced=is_reduced,
            dataset=dataset,
            where=self._where(),
        )

    def _construct(self) -> ParsedQuery:
        if self.kind == "{":
            template = self._template()
            dataset = self._dataset_clauses("FROM")
            return self._finished(QueryForm.CONSTRUCT, template=template, dataset=dataset, where=self._where())
        dataset = self._dataset_clauses("FROM")
        self.take_word("WHERE")
        template = self._template()
        # the short form: the template is the pattern (section 16.2.4)
        where = Group((BasicGraphPattern(template),) if template else ())
        return self._finished(QueryForm.CONSTRUCT, template=template, dataset=dataset, where=where)

    def _template(self) -> tuple[TriplePattern, ...]:
        self.take("{")
        self.begin_pattern()
        labels, self._labels = self._labels, {}
        found = self._triples_template()
        self.take("}")
        self._labels = labels
        self.begin_pattern()
        return found

    def _describe(self) -> ParsedQuery:
        listed: list[Iri | Variable] = []
        is_star = self.accept("*")
        while not is_star and (self.kind == "VAR" or self.is_iri):
            listed.append(self.variable_or_iri())
        if not is_star and not listed:
            raise self.error("a variable, an IRI or *")
        dataset = self._dataset_clauses("FROM")
        where = self._where() if self.kind == "{" or self.is_word("WHERE") else None
        return self._finished(QueryForm.DESCRIBE, is_star=is_star, describe=tuple(listed), dataset=dataset, where=where)

    def _where(self) -> Group:
        self.accept_word("WHERE")
        return self.group()

    def _dataset_clauses(self, word: str) -> DatasetDescription:
        default: list[str] = []
        named: list[str] = []
        while self.accept_word(word):
            (named if self.accept_word("NAMED") else default).append(self.iri().value)
        return DatasetDescription(tuple(default), tuple(named))

    def _finished(  # the clauses behind WHERE, then the value
        self,
        form: QueryForm,
        *,
        where: Group | None,
        dataset: DatasetDescription,
        projection: tuple[Projection, ...] = (),
        is_star: bool = False,
        is_distinct: bool = False,
        is_reduced: bool = False,
        template: tuple[TriplePattern, ...] = (),
        describe: tuple[Iri | Variable, ...] = (),
    ) -> ParsedQuery:
        group_by: list[GroupCondition] = []
        having: list[Expression] = []
        order_by: list[OrderCondition] = []
        if self.accept_word("GROUP"):
            self.take_word("BY")
            group_by.append(self._group_condition())
            while self.kind in ("VAR", "(") or self.is_constraint:
                group_by.append(self._group_condition())
        if self.accept_word("HAVING"):
            having.append(self.constraint())
            while self.is_constraint:
                having.append(self.constraint())
        if self.accept_word("ORDER"):
            self.take_word("BY")
            order_by.append(self._order_condition())
            while self.kind == "VAR" or self.is_constraint or self.is_word("ASC", "DESC"):
                order_by.append(self._order_condition())
        limit, offset = self._limit_and_offset()
        values = self.inline_data() if self.is_word("VALUES") else None
        return ParsedQuery(
            form=form,
            projection=projection,
            is_star=is_star,
            is_distinct=is_distinct,
            is_reduced=is_reduced,
            template=template,
            describe=describe,
            dataset=dataset,
            where=where,
            group_by=tuple(group_by),
            having=tuple(having),
            order_by=tuple(order_by),
            limit=limit,
            offset=offset,
            values=values,
            prefixes=dict(self.prefixes),
            base=self.base,
        )

    def _group_condition(self) -> GroupCondition:
        if self.kind == "VAR":
            return GroupCondition(self.variable())
        if self.accept("("):
            expression = self.expression()
            variable = self.variable() if self.accept_word("AS") else None
            self.take(")")
            return GroupCondition(expression, variable)
        return GroupCondition(self.constraint())

    def _order_condition(self) -> OrderCondition:
        if self.is_word("ASC", "DESC"):
            is_descending = self.take_word("ASC", "DESC") == "DESC"
            return OrderCondition(self.bracketed(), is_descending)
        return OrderCondition(self.variable() if self.kind == "VAR" else self.constraint())

    def _limit_and_offset(self) -> tuple[int | None, int | None]:
        found: dict[str, int] = {}
        while self.is_word("LIMIT", "OFFSET"):
            word = self.take_word("LIMIT", "OFFSET")
            number = self.take("NUMBER")
            if len(number) > MOST_DIGITS and number.isdigit():
                raise self.fail(f"too large to analyse: {word} has {len(number):,} digits, more than {MOST_DIGITS}", "size")
            if not number.isdigit() or word in found:
                raise self.fail(f"{word} takes one whole number, once")
            found[word] = int(number)
        return found.get("LIMIT"), found.get("OFFSET")

    # -- updates

    def _update(self) -> ParsedUpdate:
        operations: list[UpdateOperation] = []
        while self.kind != "EOF":
            operations.append(self._update_operation())
            if not self.accept(";"):
                break
            self.prologue()
        return ParsedUpdate(tuple(operations), dict(self.prefixes), self.base)

    def _update_operation(self) -> UpdateOperation:
        if not self.is_word(*_UPDATES):
            raise self.error("SELECT, ASK, CONSTRUCT, DESCRIBE or an update")
        # labels of two operations never meet
        self._labels = {}
        if self.is_word("INSERT", "DELETE", "WITH"):
            return self._modify()
        word = self.take_word(*_UPDATES)
        is_silent = self.accept_word("SILENT")
        match word:
            case "LOAD":
                source = self.iri()
                into = None
                if self.accept_word("INTO"):
                    self.take_word("GRAPH")
                    into = self.iri()
                return Load(source, into, is_silent)
            case "CREATE":
                self.take_word("GRAPH")
                return GraphManagement(word, self.iri(), is_silent=is_silent)
            case "CLEAR" | "DROP":
                if self.is_word(*GraphSet):
                    return GraphManagement(word, GraphSet(self.take_word(*GraphSet)), is_silent=is_silent)
                self.take_word("GRAPH")
                return GraphManagement(word, self.iri(), is_silent=is_silent)
        source_graph = self._graph_or_default()
        self.take_word("TO")
        return GraphManagement(word, self._graph_or_default(), source_graph, is_silent)

    def _graph_or_default(self) -> Iri | GraphSet:
        if self.accept_word("DEFAULT"):
            return GraphSet.DEFAULT
        self.accept_word("GRAPH")
        return self.iri()

    def _modify(self) -> UpdateOperation:
        with_graph = self.iri() if self.accept_word("WITH") else None
        delete: tuple[QuadPattern, ...] = ()
        insert: tuple[QuadPattern, ...] = ()
        if self.accept_word("DELETE"):
            if with_graph is None and self.accept_word("WHERE"):
                return DeleteWhere(self._without_blank_nodes(self._quads()))
            if with_graph is None and self.accept_word("DATA"):
                return DeleteData(self._ground_quads(may_be_blank=False))
            delete = self._without_blank_nodes(self._quads())
        if self.accept_word("INSERT"):
            if with_graph is None and not delete and self.accept_word("DATA"):
                return InsertData(self._ground_quads(may_be_blank=True))
            insert = self._quads()
        elif not self.is_word("USING", "WHERE"):
            raise self.error("DELETE, INSERT, USING or WHERE")
        using = self._dataset_clauses("USING")
        self.take_word("WHERE")
        self._labels = {}
        return Modify(with_graph, delete, insert, using, self.group())

    @staticmethod
    def _without_blank_nodes(quads: tuple[QuadPattern, ...]) -> tuple[QuadPattern, ...]:
        for pattern in (p for q in quads for p in q.patterns):
            if any(isinstance(t, Variable) and t.is_blank for t in (pattern.subject, pattern.object)):
                raise MalformedQuery("DELETE takes no blank nodes", line=pattern.span.line, column=pattern.span.column)
        return quads

    def _ground_quads(self, *, may_be_blank: bool) -> tuple[QuadPattern, ...]:
        quads = self._quads()
        for quad in quads:
            for node in (quad.graph, *(t for p in quad.patterns for t in (p.subject, p.predicate, p.object))):
                if isinstance(node, Variable) and not (may_be_blank and node.is_blank):
                    raise MalformedQuery(f"{node} stands in data")
        return quads

    def _quads(self) -> tuple[QuadPattern, ...]:
        """'{' Quads '}'"""
        self.take("{")
        self.begin_pattern()
        found: list[QuadPattern] = []
        while True:
            patterns = self._triples_template()
            if patterns:
                found.append(QuadPattern(None, patterns))
            if not self.accept_word("GRAPH"):
                break
            graph = self.variable_or_iri()
            self.take("{")
            found.append(QuadPattern(graph, self._triples_template()))
            self.take("}")
            self.accept(".")
        self.take("}")
        return tuple(found)

    def _triples_template(self) -> tuple[TriplePattern, ...]:
        found: list[TriplePattern] = []
        while self.kind not in ("}", "EOF") and not self.is_word("GRAPH"):
            self.triples_same_subject(found, with_paths=False)
            if not self.accept("."):
                break
        return tuple(found)
