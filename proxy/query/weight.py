"""How much an evaluator that recurses would have to take in: tokens and nesting, without parsing.

For engines that run in this process and go down with their stack. Works on any text, parsable or not, in linear time, and
errs on the heavy side: what could be read as a bracket or a token is counted as one.
"""

from __future__ import annotations

import re

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


def is_heavier(text: str, *, limit_tokens: int, limit_depth: int) -> bool:
    """Whether *text* nests deeper than *limit_depth* or has more than *limit_tokens* tokens outside of inline data.

    The rows of VALUES and of INSERT/DELETE DATA are read in a loop by every parser, so that their number does not count;
    their nesting does.
    """
    if len(text) <= min(limit_tokens, limit_depth):
        return False  # a token has at least one character
    readings = [text]
    if "\\u" in text or "\\U" in text:  # engines differ on whether an escaped bracket is a bracket (section 19.2)
        readings.append(_CODEPOINT.sub(_character, text))
    return any(_is_heavier(reading, limit_tokens, limit_depth) for reading in readings)


def _character(match: re.Match[str]) -> str:
    code = int(match[1] or match[2] or "5c", 16)
    return chr(code) if code <= 0x10FFFF else " "


def _is_heavier(text: str, limit_tokens: int, limit_depth: int) -> bool:
    tokens = depth = 0
    data_depth: int | None = None  # the depth outside of the block of data that is being read
    is_data_next = False
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "skip":
            continue
        if kind == "open":
            depth += 1
            if depth > limit_depth:
                return True
            if is_data_next and match[0] == "{" and data_depth is None:
                data_depth, is_data_next = depth - 1, False
        elif kind == "close":
            depth = max(0, depth - 1)
            if data_depth is not None and depth <= data_depth:
                data_depth = None
        elif data_depth is None:
            if kind == "iri":
                tokens += len(_HIDDEN.findall(match[0]))
            is_data_next = match[0].upper() in ("VALUES", "DATA") or (is_data_next and match[0][0] in "?$")
        if data_depth is None:
            tokens += 1
            if tokens > limit_tokens:
                return True
    return False
