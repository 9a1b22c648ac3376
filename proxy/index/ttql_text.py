"""TTQL documents as text: one line for what fits on one, two blanks for each level."""

from __future__ import annotations

from collections.abc import Iterator

from proxy.index.ttql import ALWAYS, Document, Edge, Frequency, LiteralGroup, Pattern, Target
from proxy.index.ttql_names import Namer, escape_iri
from proxy.query.term import XSD_STRING

CHARACTERS_PER_TOKEN = 4
ELISION = "..."
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def estimate_tokens(text: str) -> int:
    """Tokens of a language model that *text* takes, as a quarter of its characters, rounded up.

    The one published figure for TTQL is 122 KB in 29 to 30 thousand tokens (QRAKEN, 5.2 and 6): 4.1 to 4.2 characters each.
    """
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def render(document: Document) -> str:
    """Write *document*; ``ttql_parse.parse`` reads it back as it was."""
    return "".join(f"{line}\n" for line in _Writer(document).lines())


class _Writer:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._name = Namer(document.prefixes)

    def lines(self) -> Iterator[str]:
        for note in self._document.notes:
            yield f"# {note}"
        for name, namespace in self._document.prefixes.items():
            yield f"@prefix {name}: <{escape_iri(namespace)}>"
        for pattern in self._document.patterns:
            yield ""
            yield from self._pattern(pattern)

    def _pattern(self, pattern: Pattern) -> Iterator[str]:
        yield f"pattern {self._class(pattern.class_)} {{"
        yield f"  ?instance-count {'?' if pattern.instances is None else pattern.instances}"
        yield f"  ?sample-size {pattern.sample}"
        for edge in pattern.edges:
            yield from self._edge(edge, "  ")
        if pattern.is_cut:
            yield f"  {ELISION}"
        yield "}"

    def _class(self, class_: str | None) -> str:
        return "_" if class_ is None else self._name(class_)

    def _edge(self, edge: Edge, indent: str) -> Iterator[str]:
        head = f"{indent}{_frequency(edge.frequency)} {'^' if edge.is_inverse else ''}{self._name(edge.property)} {{"
        literals = f" @literal [{', '.join(map(self._group, edge.literals))}]" if edge.literals else ""
        elision = f" {ELISION}" if edge.is_cut else ""
        if len(edge.targets) <= 1 and not (edge.targets and edge.literals):
            # The only target shares the line of its edge, so that a hop costs one level.
            target = edge.targets[0] if edge.targets else None
            if target is None:
                yield f"{head}{literals}{elision} }}"
            elif not target.edges:
                yield f"{head} {self._target_head(target)}{f' {ELISION}' if target.is_cut else ''} }}{elision} }}"
            else:
                yield f"{head} {self._target_head(target)}"
                yield from self._inside(target, indent + "  ")
                yield f"{indent}}}{elision} }}"
            return
        yield head
        for target in edge.targets:
            yield from self._target(target, indent + "  ")
        for line in (literals, elision):
            if line:
                yield f"{indent} {line}"
        yield f"{indent}}}"

    def _target(self, target: Target, indent: str) -> Iterator[str]:
        if not target.edges:
            yield f"{indent}{self._target_head(target)}{f' {ELISION}' if target.is_cut else ''} }}"
            return
        yield indent + self._target_head(target)
        yield from self._inside(target, indent + "  ")
        yield f"{indent}}}"

    def _target_head(self, target: Target) -> str:
        return f"{_frequency(target.frequency)} {self._class(target.class_)} {{"

    def _inside(self, target: Target, indent: str) -> Iterator[str]:
        for edge in target.edges:
            yield from self._edge(edge, indent)
        if target.is_cut:
            yield indent + ELISION

    def _group(self, group: LiteralGroup) -> str:
        shown = [_string(e) for e in group.examples]
        if not group.is_whole:
            shown.append(ELISION)
        text = f"[{', '.join(shown)}]"
        if group.language is not None:
            text += f"@{group.language}"
        elif group.datatype != XSD_STRING:
            text += f"^^{self._name(group.datatype)}"
        return text if group.frequency == ALWAYS else f"{_frequency(group.frequency)} {text}"


def _frequency(frequency: Frequency) -> str:
    if frequency.share is None:
        return "(?)"
    text = f"{frequency.share:.6f}"
    text = text[:4] + text[4:].rstrip("0")
    return f"({'~' if frequency.is_estimated else ''}{text})"


def _string(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(c) or (f"\\u{ord(c):04X}" if _is_odd(c) else c) for c in text) + '"'


def _is_odd(character: str) -> bool:
    """Control characters, surrogates, and what ends a line somewhere."""
    return character < " " or "\x7f" <= character <= "\x9f" or character in "\u2028\u2029" or "\ud800" <= character <= "\udfff"
