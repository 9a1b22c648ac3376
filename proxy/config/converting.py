"""One value: whether its key accepts it, and what to say if not."""

from __future__ import annotations

import difflib
import re
from typing import Any

import msgspec

from proxy.config.sections import NOT_KEYS, SECRETS, Secret, keys
from proxy.errors import ConfigError


def convert(key: str, value: Any, *, source: str = "") -> Any:
    section, _, name = key.partition(".")
    type_ = keys(section)[name]
    if type_ is Secret:
        return Secret(str(value))
    try:
        return msgspec.convert(value, type_, strict=True)
    except msgspec.ValidationError as exc:
        where = f" in {source}" if source else ""
        raise ConfigError(key, f"found {show(value)}{where}; accepted: {describe(type_)}") from exc


def require_known(section: str, name: str, *, source: str = "") -> None:
    known = [k for k in keys(section) if source or f"{section}.{k}" not in SECRETS | NOT_KEYS]
    if name not in keys(section):
        hint = nearest(name, known)
        where = f" (from {source})" if source else ""
        raise ConfigError(f"{section}.{name}", f"unknown key{where}; [{section}] accepts: {', '.join(known)}{hint}")


def nearest(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f'. Did you mean "{close[0]}"?' if close else ""


def describe(type_: Any) -> str:
    """What a key accepts, in words: ``a whole number from 0 to 65535``."""
    info = msgspec.inspect.type_info(type_)
    match info:
        case msgspec.inspect.BoolType():
            return "true or false"
        case msgspec.inspect.LiteralType(values=values):
            return "one of " + ", ".join(f'"{v}"' for v in values)
        case msgspec.inspect.StrType(min_length=minimum):
            return "a non-empty text" if minimum else "a text"
        case msgspec.inspect.VarTupleType(item_type=item):
            return f"a list, each item {describe_info(item)}"
    return describe_info(info)


def describe_info(info: msgspec.inspect.Type) -> str:
    match info:
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            noun = "a whole number" if isinstance(info, msgspec.inspect.IntType) else "a number"
            parts = [f"over {info.gt:g}" if info.gt is not None else "", f"from {info.ge:g}" if info.ge is not None else ""]
            parts.append(f"up to {info.le}" if info.le is not None else "")
            return " ".join([noun, *filter(None, parts)])
        case msgspec.inspect.StrType(min_length=minimum):
            return "a non-empty text" if minimum else "a text"
    return type(info).__name__


_CREDENTIALS = re.compile(r'(//)[^\s"]*@')
"""User and password in a URL, which no message repeats."""


def show(value: Any) -> str:
    kind = {str: "the text", bool: "", int: "the number", float: "the number", list: "the list", dict: "the table"}
    try:
        shown = _CREDENTIALS.sub(r"\1***@", msgspec.json.encode(value, enc_hook=str).decode())
    except ValueError:  # 0xfff…: Python writes no number of more than 4,300 digits
        shown = "of too many digits"
    return f"{kind.get(type(value), 'the value')} {shown[:200]}".strip()
