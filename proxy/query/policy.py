"""Which operations the configuration lets through, decided on what was parsed, never on words in the text.

For text that could not be parsed there is only the text: ``holds_update_keywords`` and ``holds_service_keyword`` err on the
side of seeing too much, inside strings and comments too, because backends differ in what they take for a string.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping

from proxy.errors import MalformedQuery, MalformedRequest, OperationForbidden
from proxy.query.model import Load, Modify, ParsedOperation, ParsedQuery, ParsedUpdate, Service, walk
from proxy.query.operation import DatasetDescription, OperationKind
from proxy.query.parse_tokens import expand_codepoints
from proxy.query.term import Iri

_CALLS = frozenset((Service, Load))
ANY_SERVICE = "*"
"""In ``allowed_services``: every IRI, and a variable too."""


def require_allowed(
    parsed: ParsedOperation,
    *,
    expected: OperationKind,
    allow_updates: bool,
    allowed_services: Collection[str],
) -> None:
    """Return if *parsed* may go to the backend.

    SERVICE and LOAD make the backend fetch what the client names, so both are held to the same list; SERVICE wherever it
    stands: sub-queries, EXISTS, MINUS, the WHERE of an update.

    Args:
        expected: what the request came as.
        allowed_services: IRIs, compared as they are after prefixes and BASE; ``*`` for any.
    Raises:
        MalformedRequest: an update sent as a query, or a query as an update.
        OperationForbidden: the configuration does not allow it; names the setting.
    """
    if isinstance(parsed, ParsedUpdate):
        if expected is not OperationKind.UPDATE:
            if not parsed.operations:
                raise MalformedRequest("there is no query in the text")
            raise MalformedRequest("this is an update, sent as a query: use update= (SPARQL 1.1 Protocol, section 2.2)")
        if not allow_updates:
            raise OperationForbidden("updates are not allowed here ([policy] allow_updates)")
    elif expected is OperationKind.UPDATE:
        raise MalformedRequest("this is a query, sent as an update: use query= (SPARQL 1.1 Protocol, section 2.1)")
    if ANY_SERVICE in allowed_services:
        return
    nodes = parsed.nodes if isinstance(parsed, ParsedQuery) else tuple(walk(parsed))
    if _CALLS.isdisjoint(map(type, nodes)):
        return
    for node in nodes:
        if isinstance(node, Service):
            if not isinstance(node.name, Iri):
                raise OperationForbidden(f"SERVICE {node.name} could call any server ([policy] allowed_services)")
            if node.name.value not in allowed_services:
                raise OperationForbidden(f"SERVICE {node.name} is not allowed ([policy] allowed_services)")
        elif isinstance(node, Load) and node.source.value not in allowed_services:
            raise OperationForbidden(f"LOAD {node.source} is not allowed ([policy] allowed_services)")


def require_local_graphs(parsed: ParsedOperation, dataset: DatasetDescription, *, allowed_services: Collection[str]) -> None:
    """Return if no graph that *parsed* reads could be fetched from elsewhere: for backends that dereference graph names.

    FROM, FROM NAMED, USING and USING NAMED, and what the protocol names in their place (*dataset*), are held to the list that
    SERVICE and LOAD are held to.

    Raises:
        OperationForbidden: names the graph and the setting.
    """
    if ANY_SERVICE in allowed_services:
        return
    described = [dataset]
    if isinstance(parsed, ParsedQuery):
        described.append(parsed.dataset)
    else:
        described += [operation.using for operation in parsed.operations if isinstance(operation, Modify)]
    for description in described:
        for graph in (*description.default_graphs, *description.named_graphs):
            if graph not in allowed_services:
                raise OperationForbidden(
                    f"the backend may fetch <{graph}>, so it must be listed ([policy] allowed_services; backend.fetches_graphs)"
                )


def holds_service(parsed: ParsedOperation) -> bool:
    """Whether SERVICE or LOAD occurs anywhere, so that evaluating *parsed* would call another server."""
    return any(isinstance(node, Service | Load) for node in walk(parsed))


def is_read_only(parsed: ParsedOperation) -> bool:
    """Whether *parsed* is a query that calls nobody else: what a generated query must be."""
    return isinstance(parsed, ParsedQuery) and not holds_service(parsed)


_NAME = r"(?:<|[^\s<>{}():]{128}|[^\s<>{}():]*+:)"
"""An IRI, or what may be a prefixed name: longer ones are not read to their colon, each of ``LOAD-LOAD-LOAD…`` would be."""

_MANAGED = ("SILENT", "GRAPH|DEFAULT|NAMED|ALL")
_COPIED = ("SILENT", f"GRAPH|DEFAULT|{_NAME}")
_UPDATE_WORDS = {
    "INSERT": ("DATA", r"\{"),
    "DELETE": ("DATA|WHERE", r"\{"),
    "LOAD": ("SILENT", _NAME),
    "CLEAR": _MANAGED,
    "DROP": _MANAGED,
    "CREATE": ("SILENT", "GRAPH"),
    "ADD": _COPIED,
    "MOVE": _COPIED,
    "COPY": _COPIED,
}
_SERVICE_WORDS = {"SERVICE": ("SILENT", rf"[?$]|{_NAME}")}
_BLANKS = re.compile(r"\s*+")
_FIRST_IN_LINE = re.compile(r"(?:\A|(?<=[\r\n]))[^\S\r\n]*+([^\s#])")


class _Words:
    """Keywords, what may stand behind each, and what must.

    Args:
        words: keyword → patterns of what may and of what must follow.
    """

    def __init__(self, words: Mapping[str, tuple[str, str]]) -> None:
        named = "|".join(f"(?P<{word}>{word})" for word in words)
        self._keyword = re.compile(rf"(?<![\w?$:])(?:{named})", re.IGNORECASE)
        self._behind = {
            word: (re.compile(may, re.IGNORECASE), re.compile(must, re.IGNORECASE)) for word, (may, must) in words.items()
        }

    def occur_in(self, text: str) -> bool:
        """Whether one of them occurs, with blanks and comments between the words; in linear time."""
        gaps: _Gaps | None = None
        for found in self._keyword.finditer(text):
            gaps = gaps or _Gaps(text)
            may, must = self._behind[found.lastgroup or ""]
            at = gaps.end(found.end())
            if must.match(text, at):
                return True
            between = may.match(text, at)
            if between is not None and must.match(text, gaps.end(between.end())):
                return True
        return False


class _Gaps:
    """Where blanks and comments end. No part of the text is read twice, whatever number of comments end there."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends: dict[int, int] = {}
        self._firsts: list[int] | None = None

    def end(self, start: int) -> int:
        """The offset behind all blanks and comments from *start* on."""
        found = self._ends.get(start)
        if found is None:
            blanks = _BLANKS.match(self._text, start)
            found = blanks.end() if blanks is not None else start
            if self._text.startswith("#", found):
                if self._firsts is None:
                    self._firsts = [m.start(1) for m in _FIRST_IN_LINE.finditer(self._text)]
                # the comment goes to the end of its line; then come lines of blanks and comments alone
                following = bisect_right(self._firsts, found)
                found = self._firsts[following] if following < len(self._firsts) else len(self._text)
            self._ends[start] = found
        return found


_UPDATE = _Words(_UPDATE_WORDS)
_SERVICE = _Words(_SERVICE_WORDS)


def _readings(text: str) -> tuple[str, ...]:
    """*text* as written, and as it reads once codepoint escapes are resolved."""
    try:
        expanded, shifts = expand_codepoints(text)
    except MalformedQuery:
        expanded, shifts = re.sub(r"\\u([0-9A-Fa-f]{4})|\\U000([0-9A-Fa-f]{5})", _character, text), [(0, 0)]
    return (text, expanded) if shifts else (text,)


def _character(m: re.Match[str]) -> str:
    return chr(int(m[1] or m[2], 16))


def holds_update_keywords(text: str) -> bool:
    """Whether *text*, which could not be parsed, might be an update."""
    return any(map(_UPDATE.occur_in, _readings(text)))


def holds_service_keyword(text: str) -> bool:
    """Whether *text*, which could not be parsed, might call another server by SERVICE."""
    return any(map(_SERVICE.occur_in, _readings(text)))
