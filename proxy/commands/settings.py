"""``config show``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from proxy.config import OF_A_DATASET, SECRETS, SECTIONS, Config, holds_password, keys


def config_as_toml(config: Config) -> str:
    """The settings in effect, as a file that would bring them about; secrets are not in it."""
    lines: list[str] = []
    for section in SECTIONS:
        lines += [f"[{section}]", *_settings_as_toml(config, section, keys(section))]
        for name, options in config.plugins.options.items() if section == "plugins" else ():
            lines += ["", f"[plugins.{name}]", *(f"{_toml_key(k)} = {_toml(v)}" for k, v in options.items())]
        lines.append("")
    for name, own in config.datasets.items():
        for section in OF_A_DATASET:
            base, settings = getattr(config, section), getattr(own, section)
            differing = [k for k in keys(section) if getattr(settings, k) != getattr(base, k)]
            if shown := _settings_as_toml(own, section, differing):
                lines += [f"[datasets.{name}.{section}]", *shown, ""]
    return "\n".join(lines)


def _settings_as_toml(config: Config, section: str, names: Iterable[str]) -> list[str]:
    settings, lines = getattr(config, section), []
    for k in names:
        key, value = f"{section}.{k}", getattr(settings, k)
        if key not in SECRETS and not holds_password(key, value):
            lines.append(f"{k} = {_toml(value)}")
    return lines


def _toml_key(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else _toml(name)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml_key(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool | str):
        return msgspec.json.encode(value).decode()  # a JSON string is a TOML basic string
    return str(value)
