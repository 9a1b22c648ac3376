"""Declare well-known prefixes that a query uses and does not declare.

Options:
    known: prefix -> namespace IRI.

The declarations are put in front, in the first line, so that line numbers stay; Sparlance-Prefixes tells which they are. A
query that declares a prefix keeps its own meaning of it, and one that can be read as it is stays as it is, byte for byte.
"""

import re

import msgspec

from proxy import Exchange, OperationKind, Plugin, RequestError, parse


class Options(msgspec.Struct, frozen=True):
    known: dict[str, str]

    def __post_init__(self) -> None:
        for prefix, namespace in self.known.items():
            try:
                declared = parse(f"PREFIX {prefix}: <{namespace}> ASK {{}}").prefixes
            except RequestError:
                declared = {}
            if declared != {prefix: namespace}:
                raise ValueError(f"known: {prefix!r} = {namespace!r} cannot be declared")


def load(options: Options) -> Plugin:
    return Prefixes(options.known)


class Prefixes(Plugin):
    def __init__(self, known: dict[str, str]) -> None:
        self.known = known

    def request(self, exchange: Exchange) -> None:
        operation = exchange.operation
        if operation is None or operation.kind not in (OperationKind.QUERY, OperationKind.UPDATE):
            return
        try:
            parse(operation.text)
            return
        except RequestError:
            pass
        try:
            meant = parse(operation.text, prefixes=self.known)
        except RequestError:
            return  # something else is wrong with it
        used = [p for p in self.known if occurs(rf"(?<![\w.-]){re.escape(p)}:", operation.text)]
        used = [p for p in used if not occurs(rf"\bPREFIX\s+{re.escape(p)}:", operation.text)]
        text = "".join(f"PREFIX {p}: <{self.known[p]}> " for p in used) + operation.text
        if parse(text) == meant:  # the tree proves the edit
            exchange.replace_text(text)
            exchange.add_header("Sparlance-Prefixes", ", ".join(used).encode("ascii", "replace").decode())


def occurs(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None
