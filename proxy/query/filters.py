"""What must hold where a FILTER or HAVING expression is true: the cases that need no pattern and no recursion."""

from __future__ import annotations

import re
from typing import Any, TypeGuard

from proxy.query.conditions import Alternatives, Bound, Condition, Contains, Impossible, IsLiteral, OneOf
from proxy.query.literals import NUMERIC, ORDERED, number
from proxy.query.model import Aggregate, Comparison, Expression, FunctionCall, In, Span, is_relative
from proxy.query.term import XSD, XSD_STRING, Iri, Literal, Variable

_WORDS = re.compile(r"\^?[A-Za-z0-9 _]+\$?")
"""Regular expressions that are found where their letters are."""
FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def condition_of(expression: Expression, span: Span) -> Condition | None:
    """The one condition that *expression* stands for, in its own variables; None: it says nothing that counts."""
    found = _condition_of(expression, span)
    return None if isinstance(found, OneOf) and not found.by_spelling and not all(map(is_known, found.terms)) else found


def is_known(term: Any) -> TypeGuard[Iri | Literal]:
    """Whether *term* is a constant that joins with itself and is told from others.

    A relative IRI is what the backend takes it for. NaN is the same term as itself, but ``=`` and ``IN`` say that it is not.
    """
    match term:
        case Iri():
            return not is_relative(term)
        case Literal(lexical, datatype):
            return datatype not in NUMERIC or number(lexical) is not None
    return False


def _condition_of(expression: Expression, span: Span) -> Condition | None:
    match expression:
        case Comparison("=", Variable() as v, Iri() | Literal() as constant) | Comparison(
            "=", Iri() | Literal() as constant, Variable() as v
        ):
            return OneOf(v, (constant,), span)
        case Comparison("=", FunctionCall("STR", (Variable() as v,)), Literal(text, datatype)) | Comparison(
            "=", Literal(text, datatype), FunctionCall("STR", (Variable() as v,))
        ) if datatype == XSD_STRING:
            return OneOf(v, (Literal(text), Iri(text)), span, by_spelling=True)
        case Comparison("<" | ">" | "<=" | ">=" as operator, Variable() as v, Literal() as limit) if limit.datatype in ORDERED:
            return Bound(v, operator, limit, span)
        case Comparison("<" | ">" | "<=" | ">=" as operator, Literal() as limit, Variable() as v) if limit.datatype in ORDERED:
            return Bound(v, FLIPPED[operator], limit, span)
        case In(Variable() as v, options, False) if all(isinstance(o, Iri | Literal) for o in options):
            if not options:
                return Impossible("in-nothing", span)
            return OneOf(v, tuple(o for o in options if isinstance(o, Iri | Literal)), span)
        case FunctionCall("SAMETERM", (Variable() as v, Iri() | Literal() as constant)) | FunctionCall(
            "SAMETERM", (Iri() | Literal() as constant, Variable() as v)
        ):
            return OneOf(v, (constant,), span, by_term=True)
        case FunctionCall("CONTAINS" | "STRSTARTS" | "STRENDS", (argument, Literal(text))) if text:
            return _contains(argument, text, False, span)
        case FunctionCall("REGEX", (argument, Literal(pattern), *flags)) if _WORDS.fullmatch(pattern):
            if all(isinstance(f, Literal) and f.lexical in ("", "i") for f in flags):
                return _contains(argument, pattern.strip("^$"), bool(flags), span)
        case FunctionCall("ISIRI" | "ISURI" | "ISBLANK", (Variable() as v,)):
            return IsLiteral(v, False, span)
        case FunctionCall("ISLITERAL" | "ISNUMERIC", (Variable() as v,)):
            return IsLiteral(v, True, span)
        case Literal("false", datatype) if datatype == XSD + "boolean":
            return Impossible("filter-false", span)
    return None


def _contains(argument: Expression, text: str, ignores_case: bool, span: Span) -> Condition | None:
    """A search of *text* in a variable, whichever way its text is got at."""
    while isinstance(argument, FunctionCall) and argument.name in ("STR", "LCASE", "UCASE") and len(argument.arguments) == 1:
        ignores_case = ignores_case or argument.name != "STR"
        argument = argument.arguments[0]
    return Contains(argument, text, ignores_case, span) if isinstance(argument, Variable) else None


def never_of_a_group(expression: Expression) -> bool:
    """Whether *expression* is false of every group that GROUP BY makes: each has a solution, and no count is negative."""
    match expression:
        case Literal("false", datatype):
            return datatype == XSD + "boolean"
        case Comparison(operator, Aggregate("COUNT", argument), Literal() as number):
            pass
        case Comparison(operator, Literal() as number, Aggregate("COUNT", argument)):
            operator = FLIPPED.get(operator, operator)
        case _:
            return False
    if number.datatype != XSD + "integer" or not number.lexical.isascii() or not number.lexical.lstrip("+-").isdigit():
        return False
    if len(number.lexical) > 19:
        return False  # Python reads no integer of more than 4,300 digits, and no group has that many solutions
    least, n = (1 if argument is None else 0), int(number.lexical)
    return (operator in ("<", "=", "<=") and n < least) or (operator == "<" and n == least)


def rename_condition(condition: Condition, variable: Variable) -> Alternatives:
    """*condition* of ``condition_of``, about *variable* in place of its own."""
    match condition:
        case OneOf(_, terms, span, by_spelling, by_term):
            return ((OneOf(variable, terms, span, by_spelling, by_term),),)
        case Bound(_, operator, limit, span):
            return ((Bound(variable, operator, limit, span),),)
        case Contains(_, text, ignores_case, span):
            return ((Contains(variable, text, ignores_case, span),),)
        case IsLiteral(_, is_literal, span):
            return ((IsLiteral(variable, is_literal, span),),)
    return ((condition,),)
