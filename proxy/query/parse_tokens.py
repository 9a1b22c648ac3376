"""SPARQL text → tokens (SPARQL 1.1 Query, section 19.8), and where they stand.

One regular expression without backtracking into what it has taken, so the time is linear in the text, whatever it holds.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence

from proxy.errors import MalformedQuery
from proxy.query.model import Span

MAX_CHARACTERS = 1_000_000
"""Longer texts are not analysed: they would hold up everybody else's requests."""

MAX_TOKENS = 200_000
"""Likewise, for texts whose tokens are short: about 5 µs a token to read, and as much again to check."""

MAX_DEPTH = 40
"""Deepest nesting of groups, expressions, paths, collections together; people write fewer than 20.

A level takes up to twelve of the 1,000 calls that Python allows, in the parser and in whatever walks the tree later; the other
half is the caller's.
"""

_BASE = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_U = _BASE + "_"
_CHARS = _U + "\\-0-9\u00b7\u0300-\u036f\u203f-\u2040"
_PLX = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]"
# a bound, because a name without a colon behind it is read again from its next dot on
_PREFIX = f"[{_BASE}](?:[{_CHARS}]|\\.(?=[{_CHARS}.])){{0,63}}+"
_LOCAL = f"(?:[{_U}:0-9]|{_PLX})(?:[{_CHARS}:]|{_PLX}|\\.++(?=[{_CHARS}:%\\\\]))*+"
_VARNAME = f"[{_U}0-9][{_U}0-9\u00b7\u0300-\u036f\u203f-\u2040]*+"
_ECHAR = r"\\[tbnrf\\\"']"

_BLANK = r"(?:[ \t\r\n]++|#[^\r\n]*+)*+"
_SKIP = re.compile(_BLANK)
_TOKEN = re.compile(
    "(?:"
    + "|".join(
        f"(?P<{name}>{pattern})"
        for name, pattern in (
            ("VAR", f"[?$]{_VARNAME}"),
            ("BNODE", f"_:[{_U}0-9](?:[{_CHARS}]|\\.++(?=[{_CHARS}]))*+"),
            ("PNAME", f"(?:{_PREFIX})?+:(?:{_LOCAL})?+"),
            ("IRI", '<[^<>"{}|^`\\\\\x00-\x20]*+>'),
            ("NAME", r"[A-Za-z_][A-Za-z0-9_]*+"),
            (
                "NUMBER",
                r"[+-]?(?:[0-9]++(?:\.[0-9]*[eE][+-]?[0-9]++|\.[0-9]++|[eE][+-]?[0-9]++)?|\.[0-9]++(?:[eE][+-]?[0-9]++)?)",
            ),
            (
                "STRING",
                f'"""(?:[^"\\\\]|{_ECHAR}|"{{1,2}}(?!"))*+"""'
                f"|'''(?:[^'\\\\]|{_ECHAR}|'{{1,2}}(?!'))*+'''"
                f'|"(?!"")(?:[^"\\\\\r\n]|{_ECHAR})*+"'
                f"|'(?!'')(?:[^'\\\\\r\n]|{_ECHAR})*+'",
            ),
            ("LANG", r"@[A-Za-z]++(?:-[A-Za-z0-9]++)*+(?:--[A-Za-z]++)?+"),
            ("MARK", r"\^\^|&&|\|\||!=|<=|>=|<<\(|<<|\)>>|>>|\{\||\|\}|[{}()\[\].;,*/|^?+\-!=<>~]"),
        )
    )
    + ")"
    + _BLANK
)
"""One token, a group of its name, and what is skipped behind it."""
_CODEPOINT = re.compile(r"\\\\|\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}
_MAX_SPAN = 300
_MAX_FOUND = 40
_QUOTES = frozenset("\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb\u0060\u00b4")


def _stray(character: str) -> str:
    """What is wrong with *character*, with which no token begins."""
    if character in "\"'":
        return "a string begins here that has no end (on this line), or an escape that there is not"
    if character == "\ufeff":
        return "a byte order mark (U+FEFF) stands here, which is no part of SPARQL: save the text without it"
    if character in _QUOTES:
        return f"{character} starts no token; strings stand in \" or '"
    if character.isprintable():
        return f"{character} starts no token"
    name = unicodedata.name(character, "half a surrogate pair" if "\ud800" <= character <= "\udfff" else "control character")
    return f"U+{ord(character):04X} ({name.lower()}) starts no token"


def unescape_string(body: str) -> str:
    """Resolve ECHAR in a string literal's body."""
    return _ESCAPE.sub(lambda m: _ESCAPED.get(m[1], m[1]), body) if "\\" in body else body


def unescape_local(name: str) -> str:
    """Take the backslashes out of the local part of a prefixed name; percent signs stay (section 19.8, PN_LOCAL_ESC)."""
    return _ESCAPE.sub(r"\1", name) if "\\" in name else name


def expand_codepoints(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Resolve ``\\uXXXX`` and ``\\UXXXXXXXX`` (section 19.2), anywhere in *text*.

    Returns:
        The text, and (offset in it, characters that went missing up to there), for finding positions in the original.
    Raises:
        MalformedQuery: an escape stands for a character that could be syntax. Backends differ on whether it then *is* syntax,
            so nothing can be said about such a text.
    """
    if "\\u" not in text and "\\U" not in text:
        return text, []
    parts: list[str] = []
    shifts: list[tuple[int, int]] = []
    at = length = lost = 0
    for m in _CODEPOINT.finditer(text):
        digits = m[1] or m[2]
        if digits is None:
            continue
        code = int(digits, 16)
        is_none = code > 0x10FFFF or 0xD800 <= code < 0xE000
        if is_none or (code < 0x80 and not chr(code).isalnum()):
            line = text.count("\n", 0, m.start()) + 1
            column = m.start() - text.rfind("\n", 0, m.start())
            if is_none:
                raise MalformedQuery(f"{m[0]} stands for no character", line=line, column=column)
            message = f"{m[0]} is an escape for a character that may be syntax, and databases differ on whether it then is"
            raise MalformedQuery(message, line=line, column=column, reason="escape")
        parts += (text[at : m.start()], chr(code))
        length += m.start() - at + 1
        lost += len(m[0]) - 1
        shifts.append((length, lost))
        at = m.end()
    parts.append(text[at:])
    return "".join(parts), shifts


class Tokens:
    """The tokens of one text and a place among them.

    kinds: ``VAR IRI PNAME BNODE NAME NUMBER STRING LANG``, for marks the mark itself, ``a`` for the keyword a, ``EOF`` last.
    values: NAME in capitals, everything else as written.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARACTERS:
            size = f"{len(text):,} characters, more than {MAX_CHARACTERS:,}"
            raise MalformedQuery(f"too large to analyse: {size}", reason="size")
        self.text, self._shifts = expand_codepoints(text)
        self._line_starts: list[int] | None = None
        self.kinds: list[str] = []
        self.values: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.at = 0
        self.depth = 0
        self._scan()

    def _scan(self) -> None:
        text, length = self.text, len(self.text)
        kinds, values, starts, ends = self.kinds, self.values, self.starts, self.ends
        at = _SKIP.match(text).end()  # type: ignore[union-attr]
        for m in iter(_TOKEN.scanner(text, at).match, None):  # type: ignore[attr-defined]
            kind = m.lastgroup
            value = m[kind]
            if kind == "MARK":
                kind = value
            elif kind == "NAME":
                if value == "a":
                    kind = "a"
                else:
                    value = value.upper()
            kinds.append(kind)
            values.append(value)
            starts.append(at)
            ends.append(m.end(m.lastgroup))
            if len(ends) > MAX_TOKENS:
                raise MalformedQuery(f"too large to analyse: more than {MAX_TOKENS:,} tokens", reason="size")
            at = m.end()
        if at < length:
            raise self._error_at(at, _stray(text[at]))
        kinds.append("EOF")
        values.append("")
        starts.append(length)
        ends.append(length)

    # -- positions

    def _original(self, offset: int) -> int:
        at = bisect_right(self._shifts, (offset, 1 << 62)) - 1
        return offset + (self._shifts[at][1] if at >= 0 else 0)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column (from 1) of an offset."""
        if self._line_starts is None:
            self._line_starts = [0, *(m.end() for m in re.finditer("\n", self.text))]
        line = bisect_right(self._line_starts, offset)
        start = self._line_starts[line - 1]
        if self._shifts:
            return line, self._original(offset) - self._original(start) + 1
        return line, offset - start + 1

    def span(self, start: int, end: int, text: str | None = None) -> Span:
        """The span between two offsets; *text* if the author's words do not stand in one piece."""
        line, column = self.position(start)
        words = self.text[start : min(end, start + _MAX_SPAN)] if text is None else text
        return Span(self._original(start) if self._shifts else start, line, column, words)

    def _error_at(self, offset: int, message: str, reason: str = "syntax") -> MalformedQuery:
        line, column = self.position(offset)
        return MalformedQuery(message, line=line, column=column, reason=reason)

    # -- taking tokens

    @property
    def kind(self) -> str:
        return self.kinds[self.at]

    def error(self, expected: str) -> MalformedQuery:
        start, end = self.starts[self.at], self.ends[self.at]
        found = self.text[start : min(end, start + _MAX_FOUND)] + ("…" if end - start > _MAX_FOUND else "")
        return self._error_at(start, f"expected {expected}, found {' '.join(found.split()) or 'the end'}")

    def error_of_term(self, expected: str) -> MalformedQuery:
        """As ``error``, where a term may stand: there ``<`` is no operator, but begins an IRI that is none."""
        if self.kind == "<":
            return self._error_at(
                self.starts[self.at], f"expected {expected}, found < of an IRI that has no end, or a character that no IRI has"
            )
        return self.error(expected)

    def fail(self, message: str, reason: str = "syntax") -> MalformedQuery:
        """An error about the token before the present one."""
        return self._error_at(self.starts[max(0, self.at - 1)], message, reason)

    def take(self, kind: str) -> str:
        """The value of the present token, which must be of *kind*; moves on."""
        if self.kinds[self.at] != kind:
            raise self.error(kind)
        self.at += 1
        return self.values[self.at - 1]

    def accept(self, kind: str) -> bool:
        if self.kinds[self.at] != kind:
            return False
        self.at += 1
        return True

    def is_word(self, *words: str) -> bool:
        return self.kinds[self.at] == "NAME" and self.values[self.at] in words

    def accept_word(self, word: str) -> bool:
        if self.kinds[self.at] != "NAME" or self.values[self.at] != word:
            return False
        self.at += 1
        return True

    def take_word(self, *words: str) -> str:
        if not self.is_word(*words):
            raise self.error(" or ".join(words))
        self.at += 1
        return self.values[self.at - 1]

    def enter(self) -> None:
        """One level deeper; the caller leaves by ``depth -= 1``.

        Raises:
            MalformedQuery: too deep.
        """
        self.depth += 1
        if self.depth > MAX_DEPTH:
            message = f"too deeply nested to analyse: more than {MAX_DEPTH} levels"
            raise self._error_at(self.starts[self.at], message, "size")


def joined(parts: Sequence[str]) -> str:
    """The words of a pattern whose parts stand apart in the text."""
    return " ".join(p if len(p) <= _MAX_SPAN else p[:_MAX_SPAN] + "…" for p in parts)
