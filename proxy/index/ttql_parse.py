"""Read TTQL text (the grammar is in docs/ttql.md)."""

from __future__ import annotations

import re

from proxy.index.ttql import ALWAYS, UNKNOWN, Document, Edge, Frequency, LiteralGroup, Pattern, Target
from proxy.index.ttql_names import LOCAL, PREFIX
from proxy.query.term import RDF_LANG_STRING, XSD_STRING

DEEPEST = 200
"""Levels of nesting; more is refused, so that no text can exhaust the stack."""

_TOKEN = re.compile(
    rf"""(?P<blank>\s+)|(?P<comment>\#[^\n]*)
    |(?P<prefix>@prefix\b)|(?P<literal>@literal\b)|(?P<language>@[A-Za-z]+(?:-[A-Za-z0-9]+)*)
    |(?P<count>\?instance-count\b)|(?P<sample>\?sample-size\b)
    |(?P<share>\(\s*(?:\?|~?[01](?:\.[0-9]+)?)\s*\))
    |(?P<iri><[^<>"{{}}|^`\s]*>)|(?P<string>"(?:[^"\\\n\r]|\\.)*")
    |(?P<name>{PREFIX}:{LOCAL})|(?P<start>{PREFIX}:)|(?P<pattern>pattern\b)|(?P<nobody>_)
    |(?P<number>[0-9]+)|(?P<elision>\.\.\.)|(?P<type>\^\^)|(?P<mark>[{{}}\[\],^?])""",
    re.VERBOSE,
)
_NOTE = re.compile(r"\s*# ?([^\n]*)\n?|\s*\n")
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_CHARACTERS = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}


def parse(text: str) -> Document:
    """Read *text*. Comments before the first token are the notes; others are passed over.

    Raises:
        ValueError: it is not TTQL; the message begins with line and column.
    """
    return _Parser(text).document()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        self._next = 0
        self._prefixes: dict[str, str] = {}
        place = 0
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise self._error("this cannot be read", place)
            kind = match.lastgroup or ""
            if kind not in ("blank", "comment"):
                self._tokens.append((kind, match[0], place))
            place = match.end()
        self._tokens.append(("end", "", len(text)))

    # -- tokens

    def _error(self, what: str, place: int | None = None) -> ValueError:
        place = self._tokens[self._next][2] if place is None else place
        line = self._text.count("\n", 0, place) + 1
        return ValueError(f"{line}:{place - self._text.rfind(chr(10), 0, place)}: {what}")

    def _is(self, kind: str, text: str | None = None) -> bool:
        found = self._tokens[self._next]
        return found[0] == kind and text in (None, found[1])

    def _take(self, kind: str, text: str | None = None) -> str:
        if not self._is(kind, text):
            raise self._error(f"expected {text or kind}, found {self._tokens[self._next][1] or 'the end'}")
        self._next += 1
        return self._tokens[self._next - 1][1]

    def _has(self, kind: str, text: str | None = None) -> bool:
        """Take it if it is next."""
        if not self._is(kind, text):
            return False
        self._next += 1
        return True

    # -- rules

    def document(self) -> Document:
        notes = self._notes()
        while self._has("prefix"):
            name = self._take("start")[:-1]
            self._prefixes[name] = self._unescape(self._take("iri")[1:-1])
        patterns = []
        while not self._is("end"):
            patterns.append(self._pattern())
        return Document(tuple(patterns), self._prefixes, notes)

    def _notes(self) -> tuple[str, ...]:
        notes, place, end = [], 0, self._tokens[0][2]
        while place < end and (match := _NOTE.match(self._text, place)) is not None and match.end() > place:
            if match[1] is not None:
                notes.append(match[1])
            place = match.end()
        return tuple(notes)

    def _pattern(self) -> Pattern:
        self._take("pattern")
        class_ = self._class()
        self._take("mark", "{")
        self._take("count")
        instances = None if self._has("mark", "?") else int(self._take("number"))
        self._take("sample")
        sample = int(self._take("number"))
        edges, is_cut = self._edges(1)
        return Pattern(class_, instances, sample, edges, is_cut)

    def _edges(self, depth: int) -> tuple[tuple[Edge, ...], bool]:
        """Edges, perhaps an elision, and the closing brace."""
        if depth > DEEPEST:
            raise self._error(f"nested deeper than {DEEPEST} levels")
        edges = []
        while self._is("share"):
            edges.append(self._edge(depth))
        is_cut = self._has("elision")
        self._take("mark", "}")
        return tuple(edges), is_cut

    def _edge(self, depth: int) -> Edge:
        frequency = self._frequency()
        is_inverse = self._has("mark", "^")
        property_ = self._iri()
        self._take("mark", "{")
        targets: list[Target] = []
        while self._is("share"):
            share, class_ = self._frequency(), self._class()
            self._take("mark", "{")
            targets.append(Target(class_, share, *self._edges(depth + 1)))
        literals = self._literals() if self._has("literal") else ()
        is_cut = self._has("elision")
        self._take("mark", "}")
        return Edge(property_, is_inverse, frequency, tuple(targets), literals, is_cut)

    def _literals(self) -> tuple[LiteralGroup, ...]:
        self._take("mark", "[")
        groups = [self._group()]
        while self._has("mark", ","):
            groups.append(self._group())
        self._take("mark", "]")
        return tuple(groups)

    def _group(self) -> LiteralGroup:
        frequency = self._frequency() if self._is("share") else ALWAYS
        self._take("mark", "[")
        examples: list[str] = []
        is_whole = True
        while not self._has("mark", "]"):
            if examples or not is_whole:
                self._take("mark", ",")
            if self._has("elision"):
                is_whole = False
                self._take("mark", "]")
                break
            examples.append(self._unescape(self._take("string")[1:-1]))
        datatype, language = XSD_STRING, None
        if self._is("language"):
            datatype, language = RDF_LANG_STRING, self._take("language")[1:].lower()
        elif self._has("type"):
            datatype = self._iri()
        return LiteralGroup(datatype, language, frequency, tuple(examples), is_whole)

    def _frequency(self) -> Frequency:
        text = self._take("share")[1:-1].strip()
        if text == "?":
            return UNKNOWN
        share = float(text.lstrip("~"))
        if share > 1:
            self._next -= 1
            raise self._error("a frequency is at most 1")
        return Frequency(share, text.startswith("~"))

    def _class(self) -> str | None:
        return None if self._has("nobody") else self._iri()

    def _iri(self) -> str:
        if self._is("name"):
            prefix, _, local = self._tokens[self._next][1].partition(":")
            if prefix not in self._prefixes:
                raise self._error(f"the prefix {prefix}: is not declared")
            self._next += 1
            return self._prefixes[prefix] + local
        return self._unescape(self._take("iri")[1:-1])

    def _unescape(self, text: str) -> str:
        def character(match: re.Match[str]) -> str:
            if match[3] is None:
                code = int(match[1] or match[2], 16)
                if code <= 0x10FFFF:
                    return chr(code)
            elif match[3] in _CHARACTERS:
                return _CHARACTERS[match[3]]
            self._next -= 1
            raise self._error(f"there is no escape {match[0]}")

        return _ESCAPE.sub(character, text)
