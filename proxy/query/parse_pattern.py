"""Graph patterns and property paths of the grammar (SPARQL 1.1 Query, section 19.8, rules 53 to 106)."""

from __future__ import annotations

from abc import abstractmethod

from proxy.query.model import (
    AlternativePath,
    BasicGraphPattern,
    Bind,
    Element,
    Filter,
    GraphPattern,
    Group,
    InlineData,
    InversePath,
    Lateral,
    Minus,
    NegatedPropertySet,
    OneOrMorePath,
    Optional,
    ParsedQuery,
    PropertyPath,
    SequencePath,
    Service,
    SubSelect,
    Term,
    TriplePattern,
    TripleTerm,
    Union,
    ZeroOrMorePath,
    ZeroOrOnePath,
)
from proxy.query.parse_expression import ExpressionParser
from proxy.query.parse_tokens import joined
from proxy.query.term import RDF, Iri, Literal, Variable

_FIRST, _REST = Iri(RDF + "first"), Iri(RDF + "rest")
_REIFIES = Iri(RDF + "reifies")
_TERM_STARTS = frozenset(("VAR", "IRI", "PNAME", "BNODE", "STRING", "NUMBER", "[", "(", "<<", "<<("))
Written = tuple[Term, str, int]
"""A term, its words, and the offset where they start."""


class PatternParser(ExpressionParser):
    """Reads group graph patterns."""

    @abstractmethod
    def sub_select(self) -> ParsedQuery:
        """SubSelect; the present token is SELECT."""

    # -- groups

    def group(self) -> Group:
        """GroupGraphPattern ::= '{' ( SubSelect | GroupGraphPatternSub ) '}'"""
        self.take("{")
        self.enter()
        self.begin_pattern()
        elements: list[Element] = []
        if self.is_word("SELECT"):
            elements.append(SubSelect(self.sub_select()))
        else:
            self._elements(elements)
        self.take("}")
        self.depth -= 1
        self.begin_pattern()
        return Group(tuple(elements))

    def _elements(self, elements: list[Element]) -> None:
        patterns: list[TriplePattern] = []
        place = 0  # of the basic graph pattern being read, among the elements
        may_continue = True  # a dot or a non-triples element must stand between two blocks of triples
        while True:
            if self.kind in _TERM_STARTS or self.is_word("TRUE", "FALSE"):
                if not may_continue:
                    raise self.error("a dot")
                if not patterns:
                    place = len(elements)
                self.triples_same_subject(patterns, with_paths=True)
                may_continue = self.accept(".")
                continue
            if self.kind == "}":
                break
            element = self._not_triples()
            if not isinstance(element, Filter):
                if patterns:
                    elements.insert(place, BasicGraphPattern(tuple(patterns)))
                    patterns = []
                self.begin_pattern()
            elements.append(element)
            self.accept(".")
            may_continue = True
        if patterns:
            elements.insert(place, BasicGraphPattern(tuple(patterns)))

    def _not_triples(self) -> Element:
        if self.kind == "{":
            return self._group_or_union()
        start = self.starts[self.at]
        word = self.values[self.at] if self.kind == "NAME" else ""
        match word:
            case "FILTER":
                self.at += 1
                expression = self.constraint()
                return Filter(expression, self.span(start, self.ends[self.at - 1]))
            case "OPTIONAL":
                self.at += 1
                return Optional(self.group())
            case "MINUS":
                self.at += 1
                return Minus(self.group())
            case "LATERAL":
                self.at += 1
                return Lateral(self.group())
            case "BIND":
                self.at += 1
                self.take("(")
                expression = self.expression()
                self.take_word("AS")
                variable = self.variable()
                self.take(")")
                return Bind(expression, variable)
            case "VALUES":
                return self.inline_data()
            case "GRAPH":
                self.at += 1
                name = self.variable_or_iri()
                return GraphPattern(name, self.group())
            case "SERVICE":
                self.at += 1
                is_silent = self.accept_word("SILENT")
                name = self.variable_or_iri()
                span = self.span(start, self.ends[self.at - 1])
                return Service(name, is_silent, self.group(), span)
        raise self.error("a graph pattern or }")

    def _group_or_union(self) -> Element:
        first = self.group()
        if not self.is_word("UNION"):
            return first
        branches = [first]
        while self.accept_word("UNION"):
            branches.append(self.group())
        return Union(tuple(branches))

    def inline_data(self) -> InlineData:
        """'VALUES' DataBlock"""
        start = self.starts[self.at]
        self.take_word("VALUES")
        rows: list[tuple[Iri | Literal | TripleTerm | None, ...]] = []
        if self.kind == "VAR":
            variables = [self.variable()]
            self.take("{")
            while not self.accept("}"):
                rows.append((self._data_value(),))
        else:
            self.take("(")
            variables = []
            while not self.accept(")"):
                variables.append(self.variable())
            self.take("{")
            while not self.accept("}"):
                self.take("(")
                row: list[Iri | Literal | TripleTerm | None] = []
                while not self.accept(")"):
                    row.append(self._data_value())
                if len(row) != len(variables):
                    raise self.fail(f"{len(row)} values for {len(variables)} variables")
                rows.append(tuple(row))
        return InlineData(tuple(variables), tuple(rows), self.span(start, self.ends[self.at - 1]))

    def _data_value(self) -> Iri | Literal | TripleTerm | None:
        return None if self.accept_word("UNDEF") else self.ground_term()

    # -- triples

    def triples_same_subject(self, found: list[TriplePattern], *, with_paths: bool) -> None:
        """TriplesSameSubject, or TriplesSameSubjectPath *with_paths*; adds to *found*."""
        bare = self.kind
        before = len(found)
        subject = self._node(found, with_paths=with_paths)
        # "[ … ]", "( … )" and "<< … >>" may stand alone, "[]" and "()" may not
        if bare in ("[", "(", "<<") and len(found) > before and not self._starts_verb(with_paths):
            return
        self._property_list(subject, subject[2], found, with_paths=with_paths)

    def _starts_verb(self, with_paths: bool) -> bool:
        return self.kind in ("VAR", "IRI", "PNAME", "a") or (with_paths and self.kind in ("(", "^", "!"))

    def _property_list(self, subject: Written, start: int, found: list[TriplePattern], *, with_paths: bool) -> None:
        """PropertyListNotEmpty: verb objects ( ';' ( verb objects )? )*"""
        while True:
            verb_start = self.starts[self.at]
            if not self._starts_verb(with_paths):
                raise self.error_of_term("a property")
            predicate: Variable | PropertyPath
            if self.kind == "VAR":
                predicate = self.variable()
            elif with_paths:
                predicate = self._path()
            else:
                predicate = self.verb_a() if self.kind == "a" else self.iri()
            words = self.text[verb_start : self.ends[self.at - 1]]
            at = start if start >= 0 else verb_start
            while True:
                own: list[TriplePattern] = []
                obj = self._node(own, with_paths=with_paths)
                text = joined((subject[1], words, obj[1]))
                found.append(TriplePattern(subject[0], predicate, obj[0], self.span(at, at, text)))
                found += own
                if self.kind == "~" or self.kind == "{|":
                    self._annotations(found[-1 - len(own)], found, with_paths=with_paths)
                if not self.accept(","):
                    break
                at = self.starts[self.at]
            start = -1
            if self.kind != ";":
                return
            while self.accept(";"):
                pass
            if not self._starts_verb(with_paths):
                return

    def _node(self, found: list[TriplePattern], *, with_paths: bool) -> Written:
        """GraphNode: a term, a collection or a blank node property list; what those stand for goes to *found*."""
        kind, start = self.kind, self.starts[self.at]
        if kind == "[":
            self.at += 1
            node: Term = self.anonymous()
            if not self.accept("]"):
                self.enter()
                self._property_list((node, "[]", start), -1, found, with_paths=with_paths)
                self.take("]")
                self.depth -= 1
        elif kind == "(":
            self.at += 1
            if self.accept(")"):
                node = self.nil()
            else:
                self.enter()
                node = self._collection(start, found, with_paths=with_paths)
                self.depth -= 1
        elif kind == "<<":
            node = self._reified(found, with_paths=with_paths)
        else:
            node = self.term()
        return node, self.text[start : min(self.ends[self.at - 1], start + 320)], start

    def _collection(self, start: int, found: list[TriplePattern], *, with_paths: bool) -> Variable:
        head = cell = self.anonymous()
        while True:
            own: list[TriplePattern] = []
            item = self._node(own, with_paths=with_paths)
            found.append(TriplePattern(cell, _FIRST, item[0], self.span(item[2], item[2], joined(("(", item[1], ")")))))
            found += own
            if self.accept(")"):
                found.append(TriplePattern(cell, _REST, self.nil(), self.span(start, start, "( … )")))
                return head
            following = self.anonymous()
            found.append(TriplePattern(cell, _REST, following, self.span(start, start, "( … )")))
            cell = following

    # -- RDF 1.2

    def _reified(self, found: list[TriplePattern], *, with_paths: bool) -> Term:
        """ReifiedTriple ::= '<<' subject verb object reifier? '>>': its reifier, which reifies the triple."""
        start = self.starts[self.at]
        self.take("<<")
        self.enter()
        own: list[TriplePattern] = []
        subject = self._node(own, with_paths=with_paths)[0]
        predicate = self.verb()
        obj = self._node(own, with_paths=with_paths)[0]
        reifier = self._reifier() if self.kind == "~" else self.anonymous()
        self.take(">>")
        self.depth -= 1
        span = self.span(start, self.ends[self.at - 1])
        found.append(TriplePattern(reifier, _REIFIES, TripleTerm(subject, predicate, obj), span))
        found += own
        return reifier

    def _reifier(self) -> Term:
        """Reifier ::= '~' ( variable | iri | blank node )?"""
        self.take("~")
        if self.kind == "BNODE":
            return self.blank_node()
        if self.kind == "VAR" or self.is_iri:
            return self.variable_or_iri()
        if self.kind == "[":
            self.at += 1
            self.take("]")
        return self.anonymous()

    def _annotations(self, of: TriplePattern, found: list[TriplePattern], *, with_paths: bool) -> None:
        """( reifier | '{|' properties '|}' )*: statements about the triple just read."""
        if not isinstance(of.predicate, Iri | Variable):
            raise self.fail("a property path cannot be annotated")
        triple = TripleTerm(of.subject, of.predicate, of.object)
        reifier: Term | None = None
        while self.kind == "~" or self.kind == "{|":
            start = self.starts[self.at]
            if self.kind == "~":
                reifier = self._reifier()
                found.append(TriplePattern(reifier, _REIFIES, triple, self.span(start, self.ends[self.at - 1])))
                continue
            self.at += 1
            self.enter()
            if reifier is None:
                reifier = self.anonymous()
                found.append(TriplePattern(reifier, _REIFIES, triple, of.span))
            self._property_list((reifier, "{|", start), -1, found, with_paths=with_paths)
            self.take("|}")
            self.depth -= 1
            reifier = None

    # -- paths

    def _path(self) -> PropertyPath:
        """PathAlternative"""
        self.enter()
        paths = [self._path_sequence()]
        while self.accept("|"):
            paths.append(self._path_sequence())
        self.depth -= 1
        return paths[0] if len(paths) == 1 else AlternativePath(tuple(paths))

    def _path_sequence(self) -> PropertyPath:
        paths = [self._path_step()]
        while self.accept("/"):
            paths.append(self._path_step())
        return paths[0] if len(paths) == 1 else SequencePath(tuple(paths))

    def _path_step(self) -> PropertyPath:
        is_inverse = self.accept("^")
        path: PropertyPath
        match self.kind:
            case "(":
                self.at += 1
                path = self._path()
                self.take(")")
            case "a":
                path = self.verb_a()
            case "!":
                self.at += 1
                path = self._negated_set()
            case _:
                path = self.iri()
        match self.kind:
            case "?":
                path = ZeroOrOnePath(path)
            case "*":
                path = ZeroOrMorePath(path)
            case "+":
                path = OneOrMorePath(path)
            case _:
                return InversePath(path) if is_inverse else path
        self.at += 1
        return InversePath(path) if is_inverse else path

    def _negated_set(self) -> NegatedPropertySet:
        forward: list[Iri] = []
        inverse: list[Iri] = []

        def one() -> None:
            into = inverse if self.accept("^") else forward
            into.append(self.verb_a() if self.kind == "a" else self.iri())

        if self.accept("("):
            if not self.accept(")"):
                one()
                while self.accept("|"):
                    one()
                self.take(")")
        else:
            one()
        return NegatedPropertySet(tuple(forward), tuple(inverse))
