"""The options of a plugin, ``[plugins.NAME]``, held to the plugin's own schema."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, get_type_hints

import msgspec

from proxy.config import describe
from proxy.errors import ConfigError


def convert_options(name: str, options: Mapping[str, Any], schema: type[msgspec.Struct]) -> msgspec.Struct:
    """Make the plugin's ``Options`` of its table.

    Raises:
        ConfigError: the dotted key of an option that is unknown, missing or of the wrong type, and what is accepted.
    """
    hints = get_type_hints(schema, include_extras=True)
    known = schema.__struct_fields__
    for key in options:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f'. Did you mean "{close[0]}"?' if close else ""
            raise ConfigError(f"plugins.{name}.{key}", f"unknown option; accepted: {', '.join(known) or 'none'}{hint}")
    given: dict[str, Any] = {}
    for field in msgspec.structs.fields(schema):
        if field.name in options:
            given[field.name] = _convert(f"plugins.{name}.{field.name}", options[field.name], hints[field.name])
        elif field.required:
            raise ConfigError(f"plugins.{name}.{field.name}", f"not set; accepted: {_accepted(hints[field.name])}")
    try:
        return schema(**given)
    except (ValueError, TypeError) as error:  # of its __post_init__
        raise ConfigError(f"plugins.{name}", str(error)) from error


def _convert(key: str, value: Any, type_: Any) -> Any:
    try:
        return msgspec.convert(value, type_, strict=True)
    except msgspec.ValidationError as error:
        inside = f" ({error})" if isinstance(value, list | dict) else ""
        shown = msgspec.json.encode(value, enc_hook=str).decode()[:200]
        raise ConfigError(key, f"found {shown}{inside}; accepted: {_accepted(type_)}") from error


def _accepted(type_: Any) -> str:
    try:
        return describe(type_)
    except AttributeError:  # a type that no setting of ours has
        return "what docs/plugins.md says"
