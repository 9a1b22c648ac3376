"""How much an evaluator that recurses would have to take in: tokens, operators and nesting, without parsing.

For engines that go down with their stack. Works on any text, parsable or not, in linear time, and errs on the heavy side: what
could be read as a bracket, an operator or a token is counted as one.
"""

from __future__ import annotations

import re
import sys
from enum import StrEnum

_TOKEN = re.compile(
    r"""(?P<escape>\\.)|(?P<skip>[ \t\r\n]++|\#[^\r\n]*+)"""
    r'''|(?P<string>"""(?:[^"\\]|\\.|"{1,2}(?!"))*+"""|\'\'\'(?:[^'\\]|\\.|'{1,2}(?!'))*+\'\'\''''
    r"""|"(?:[^"\\\r\n]|\\.)*+"|'(?:[^'\\\r\n]|\\.)*+')"""
    r"""|(?P<iri><[^<>"{}|^`\\\x00-\x20]*+>)"""
    r"""|(?P<open><<\(|<<|[({\[])|(?P<close>\)>>|>>|[)}\]])"""
    r"""|(?P<word>[\w:?$@%]++|.)""",
    re.DOTALL,
)
_CODEPOINT = re.compile(r"\\\\|\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")
_HIDDEN = re.compile(r"[()\[\]!+*/,-]")
"""What may be an operator after all, in ``?x<((1+2)>3``, which reads as an IRI by longest match."""
_OPERATORS = dict.fromkeys("!|&+*/-", 1) | {"UNION": 1, "FILTER": 1} | dict.fromkeys(("OPTIONAL", "MINUS", "AS", "LATERAL"), 2)
"""What makes a tree of operators one level deeper, and how much stack that level takes."""
_NAME_GOES_ON = re.compile(r"[\w.%:-]")


class Weight(StrEnum):
    """What there is too much of."""

    NESTING = "nesting"
    TOKENS = "tokens"
    OPERATORS = "operators"


def is_heavier(text: str, *, limit_tokens: int, limit_depth: int) -> bool:
    """Whether *text* nests deeper than *limit_depth* or has more than *limit_tokens* tokens outside of inline data.

    The rows of VALUES and of INSERT/DELETE DATA are read in a loop by every parser, so that their number does not count;
    their nesting does.
    """
    return excess(text, limit_tokens=limit_tokens, limit_depth=limit_depth) is not None


def excess(
    text: str, *, limit_depth: int, limit_tokens: int = sys.maxsize, limit_operators: int = sys.maxsize
) -> Weight | None:
    """Which limit *text* exceeds, or None; as ``is_heavier``.

    Args:
        limit_operators: in one operation of the text: UNION, FILTER, ``!``, ``||`` and such count 1 for each character or word;
            OPTIONAL, MINUS, AS and LATERAL 2.
    """
    if len(text) <= min(limit_tokens, limit_depth, limit_operators):
        return None  # a token has at least one character
    is_escaped = "\\u" in text or "\\U" in text
    if not is_escaped and len(text) <= min(limit_tokens, limit_operators) and sum(map(text.count, "([{<")) <= limit_depth:
        return None
    readings = [text]
    if is_escaped:  # engines differ on whether an escaped bracket is a bracket (section 19.2)
        readings.append(_CODEPOINT.sub(_character, text))
    found = (_excess(reading, limit_tokens, limit_depth, limit_operators) for reading in readings)
    return next(filter(None, found), None)


def _character(match: re.Match[str]) -> str:
    code = int(match[1] or match[2] or "5c", 16)
    return chr(code) if code <= 0x10FFFF else " "


def _excess(text: str, limit_tokens: int, limit_depth: int, limit_operators: int) -> Weight | None:
    tokens = operators = depth = 0
    data_depth: int | None = None  # the depth outside of the block of data that is being read
    is_data_next = is_in_name = False
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "skip":
            is_in_name = False
            continue
        if kind == "open":
            depth += 1
            if depth > limit_depth:
                return Weight.NESTING
            if is_data_next and match[0] == "{" and data_depth is None:
                data_depth, is_data_next = depth - 1, False
        elif kind == "close":
            depth = max(0, depth - 1)
            if data_depth is not None and depth <= data_depth:
                data_depth = None
        elif data_depth is None:
            token = match[0]
            if kind == "iri":
                hidden = len(_HIDDEN.findall(token))
                tokens += hidden
                if depth + hidden > limit_depth and depth + _depth(token) > limit_depth:
                    return Weight.NESTING
            elif kind == "word":
                if token == ";" and not depth:
                    operators = 0  # the next operation of an update
                elif not (is_in_name and token == "-" and _NAME_GOES_ON.match(text, match.end())):
                    operators += _OPERATORS.get(token.upper(), 0)
                goes_on = token in ("-", ".") or _NAME_GOES_ON.match(token) is not None
                is_in_name = (is_in_name and goes_on) or (":" in token and token[0] not in "?$@")
            is_data_next = token.upper() in ("VALUES", "DATA") or (is_data_next and token[0] in "?$")
        if data_depth is None:
            tokens += 1
            if tokens > limit_tokens:
                return Weight.TOKENS
            if operators > limit_operators:
                return Weight.OPERATORS
    return None


def _depth(text: str) -> int:
    """The deepest nesting of round and square brackets in *text*, whatever closes them."""
    depth = deepest = 0
    for bracket in re.findall(r"[()\[\]]", text):
        depth = depth + 1 if bracket in "([" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest
