"""Expressions of the grammar (SPARQL 1.1 Query, section 19.8, rules 107 to 127)."""

from __future__ import annotations

from abc import abstractmethod

from proxy.query.model import (
    Aggregate,
    And,
    Arithmetic,
    Comparison,
    Exists,
    Expression,
    FunctionCall,
    Group,
    In,
    Or,
    Unary,
)
from proxy.query.parse_term import TermParser

_AGGREGATES = frozenset(("COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT", "STDEV"))
_ARITIES: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("NOW", "RAND", "UUID", "STRUUID"), (0, 0)),
    **dict.fromkeys(
        (
            "STR LANG DATATYPE BOUND IRI URI ABS CEIL FLOOR ROUND STRLEN UCASE LCASE ENCODE_FOR_URI YEAR MONTH DAY HOURS"
            " MINUTES SECONDS TIMEZONE TZ MD5 SHA1 SHA256 SHA384 SHA512 ISIRI ISURI ISBLANK ISLITERAL ISNUMERIC"
        ).split(),
        (1, 1),
    ),
    **dict.fromkeys(
        ("LANGMATCHES", "CONTAINS", "STRSTARTS", "STRENDS", "STRBEFORE", "STRAFTER", "STRLANG", "STRDT", "SAMETERM"), (2, 2)
    ),
    **dict.fromkeys(("SUBJECT", "PREDICATE", "OBJECT", "ISTRIPLE", "LANGDIR", "HASLANG", "HASLANGDIR"), (1, 1)),
    "TRIPLE": (3, 3),
    "STRLANGDIR": (3, 3),
    "ADJUST": (1, 2),
    "BNODE": (0, 1),
    "IF": (3, 3),
    "REGEX": (2, 3),
    "SUBSTR": (2, 3),
    "REPLACE": (3, 4),
    "CONCAT": (0, 1 << 30),
    "COALESCE": (0, 1 << 30),
}
_COMPARISONS = ("=", "!=", "<", ">", "<=", ">=")


class ExpressionParser(TermParser):
    """Reads expressions; chains of one operator are read in a loop, so that only brackets make them deep."""

    @abstractmethod
    def group(self) -> Group:
        """GroupGraphPattern, for EXISTS."""

    def expression(self) -> Expression:
        self.enter()
        first = self._and()
        if self.kind == "||":
            operands = [first]
            while self.accept("||"):
                operands.append(self._and())
            first = Or(tuple(operands))
        self.depth -= 1
        return first

    def _and(self) -> Expression:
        first = self._relational()
        if self.kind != "&&":
            return first
        operands = [first]
        while self.accept("&&"):
            operands.append(self._relational())
        return And(tuple(operands))

    def _relational(self) -> Expression:
        left = self._additive()
        kind = self.kind
        if kind in _COMPARISONS:
            self.at += 1
            return Comparison(kind, left, self._additive())
        if kind == "NAME" and self.is_word("IN", "NOT"):
            is_negated = self.accept_word("NOT")
            self.take_word("IN")
            self.take("(")
            return In(left, self._arguments(), is_negated)
        return left

    def _additive(self) -> Expression:
        first = self._multiplicative()
        operators: list[str] = []
        operands = [first]
        while True:
            kind = self.kind
            if kind == "+" or kind == "-":
                self.at += 1
                operators.append(kind)
                operands.append(self._multiplicative())
            elif kind == "NUMBER" and self.values[self.at][0] in "+-":
                # "?x -1" holds the token -1; the grammar reads it as an operand that brings its own sign
                sign, self.values[self.at] = self.values[self.at][0], self.values[self.at][1:]
                operators.append(sign)
                operands.append(self._multiplicative())
            else:
                break
        return Arithmetic(tuple(operators), tuple(operands)) if operators else first

    def _multiplicative(self) -> Expression:
        first = self._unary()
        if self.kind != "*" and self.kind != "/":
            return first
        operators: list[str] = []
        operands = [first]
        while (kind := self.kind) == "*" or kind == "/":
            self.at += 1
            operators.append(kind)
            operands.append(self._unary())
        return Arithmetic(tuple(operators), tuple(operands))

    def _unary(self) -> Expression:
        kind = self.kind
        if kind in ("!", "-", "+"):
            self.at += 1
            self.enter()
            # one sign before a primary is the grammar of 1.1, "!!" and "!-x" are not; 1.2 and most parsers take them
            operand = self._unary() if kind == "!" else self._primary()
            self.depth -= 1
            return Unary(kind, operand)
        return self._primary()

    def _primary(self) -> Expression:
        kind = self.kind
        if kind == "VAR":
            return self.variable()
        if kind == "(":
            return self.bracketed()
        if kind == "<<(":
            return self.triple_term()
        if kind == "IRI" or kind == "PNAME":
            return self.iri_or_function()
        if kind == "NAME" and not self.is_word("TRUE", "FALSE"):
            return self.built_in()
        return self.literal()

    def bracketed(self) -> Expression:
        self.take("(")
        found = self.expression()
        self.take(")")
        return found

    def iri_or_function(self) -> Expression:
        iri = self.iri()
        if self.kind != "(":
            return iri
        self.at += 1
        is_distinct = self.accept_word("DISTINCT")
        return FunctionCall(iri, self._arguments(), is_distinct)

    def _arguments(self) -> tuple[Expression, ...]:
        """What follows an opening bracket, to the closing one."""
        if self.accept(")"):
            return ()
        found = [self.expression()]
        while self.accept(","):
            found.append(self.expression())
        self.take(")")
        return tuple(found)

    def built_in(self) -> Expression:
        """BuiltInCall, aggregates and EXISTS included."""
        if self.accept_word("EXISTS"):
            return Exists(self.group(), False)
        if self.accept_word("NOT"):
            self.take_word("EXISTS")
            return Exists(self.group(), True)
        name = self.values[self.at]
        if self.kind != "NAME" or (name not in _ARITIES and name not in _AGGREGATES):
            raise self.error("an expression")
        self.at += 1
        if name in _AGGREGATES:
            return self._aggregate(name)
        self.take("(")
        arguments = self._arguments()
        least, most = _ARITIES[name]
        if not least <= len(arguments) <= most:
            raise self.fail(f"{name} does not take {len(arguments)} arguments")
        return FunctionCall(name, arguments)

    def _aggregate(self, name: str) -> Aggregate:
        self.take("(")
        is_distinct = self.accept_word("DISTINCT")
        if name == "COUNT" and self.accept("*"):
            self.take(")")
            return Aggregate(name, None, is_distinct)
        argument = self.expression()
        separator = None
        if name == "GROUP_CONCAT" and self.accept(";"):
            self.take_word("SEPARATOR")
            self.take("=")
            separator = self.string()
        self.take(")")
        return Aggregate(name, argument, is_distinct, separator)

    @property
    def is_constraint(self) -> bool:
        return self.kind in ("(", "IRI", "PNAME") or (self.kind == "NAME" and self._is_built_in_name())

    def _is_built_in_name(self) -> bool:
        name = self.values[self.at]
        return name in _ARITIES or name in _AGGREGATES or name in ("EXISTS", "NOT")

    def constraint(self) -> Expression:
        """Constraint ::= BrackettedExpression | BuiltInCall | FunctionCall"""
        if self.kind == "(":
            return self.bracketed()
        if self.is_iri:
            found = self.iri_or_function()
            if not isinstance(found, FunctionCall):
                raise self.fail("expected a function call")
            return found
        return self.built_in()
