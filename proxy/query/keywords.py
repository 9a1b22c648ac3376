"""A lexical look at text that could not be parsed, erring on the side of "yes"."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")


def holds_keyword(text: str, *keywords: str) -> bool:
    """Whether one of *keywords* (in capitals) occurs anywhere, in any case, also written with codepoint escapes.

    Within names, strings and comments too: what is asked about is text whose tokens nobody could tell apart.

    Source: SPARQL 1.1 Query, sections 4 (keywords are case-insensitive) and 19.2 (codepoint escapes).
    """
    if "\\" in text:
        text = _ESCAPE.sub(_unescape, text)
    folded = text.upper()
    return any(keyword in folded for keyword in keywords)


def _unescape(match: re.Match[str]) -> str:
    code = int(match[1] or match[2], 16)
    return chr(code) if code < 0x110000 else match[0]
