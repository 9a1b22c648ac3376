"""Where values come from: a file, with its tables of datasets, and variables of the environment."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from proxy.config.converting import convert, nearest, require_known, show
from proxy.config.sections import OF_A_DATASET, SECRETS, SECTIONS, Secret, keys, paths
from proxy.errors import ConfigError

PREFIX = "SPARLANCE_"
CONFIG_VARIABLE = PREFIX + "CONFIG"
MAX_DATASETS = 100
_DATASET_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_TAKEN_NAMES = frozenset(["sparql", "query", "update", "store", "repositories", "protocol", "api", "ping", "text2sparql"])
"""First segments of paths that mean something else at the root."""


def read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as exc:
        raise ConfigError("", f"cannot read {file}: {exc.strerror}") from exc
    except (ValueError, RecursionError) as exc:  # beside TOML's own error: no UTF-8, a number of 5,000 digits, deep nesting
        raise ConfigError("", f"{file} is not TOML: {exc}") from exc


def from_file(tables: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Mapping[str, Any]]]:
    values: dict[str, Any] = {}
    options: dict[str, Mapping[str, Any]] = {}
    for section, table in tables.items():
        if section not in SECTIONS:
            raise ConfigError(section, f"unknown section; accepted: {', '.join(SECTIONS)}{nearest(section, SECTIONS)}")
        if not isinstance(table, dict):
            raise ConfigError(section, f"found {show(table)}; accepted: a table, [{section}]")
        for name, value in table.items():
            key = f"{section}.{name}"
            if section == "plugins" and isinstance(value, dict):
                options[name] = value
                continue
            require_known(section, name)
            if key in SECRETS or holds_password(key, value):
                raise ConfigError(key, f"a secret does not belong in a file; set the variable {variable_of(key)} instead")
            values[key] = convert(key, value)
    return values, options


def resolve(values: dict[str, Any], folder: Path) -> None:
    """Make the paths of a file relative to that file, so that it means the same wherever the command is started; ``~`` is the
    home of whoever starts it."""

    def absolute(path: str) -> str:
        return str(folder / os.path.expanduser(path))

    for key in paths() & values.keys():
        value = values[key]
        values[key] = tuple(map(absolute, value)) if isinstance(value, tuple) else value and absolute(value)


def tables_of_datasets(tables: Any) -> dict[str, dict[str, Any]]:
    """Check the names under ``[datasets]``, and that each holds only what a dataset may have."""
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise ConfigError("datasets", f"found {show(tables)}; accepted: tables such as [datasets.museum.backend]")
    if len(tables) > MAX_DATASETS:
        raise ConfigError("datasets", f"found {len(tables)}; accepted: up to {MAX_DATASETS}")
    for name, table in tables.items():
        if not _DATASET_NAME.fullmatch(name) or name in _TAKEN_NAMES:
            accepted = "a name of a-z, 0-9, _ and -, at most 32, which is no path of ours or a backend's"
            raise ConfigError("datasets", f"found the name {show(name)}; accepted: {accepted}")
        for section in table:
            if section not in OF_A_DATASET:
                hint = "; it is the same for all datasets" if section in SECTIONS else nearest(section, OF_A_DATASET)
                raise ConfigError(f"datasets.{name}.{section}", f"accepted here: {', '.join(OF_A_DATASET)}{hint}")
    if len({name.replace("-", "_") for name in tables}) < len(tables):
        raise ConfigError("datasets", "two names differ only in - and _, which their variables could not tell apart")
    return tables


def from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Read SPARLANCE_SECTION_KEY variables: text as it is, other types as TOML (``["a", "b"]``, ``true``, ``2.5``).

    A variable outside these sections is left alone: Kubernetes sets SPARLANCE_PORT, SPARLANCE_SERVICE_HOST … for a
    service of this name.
    """
    values: dict[str, Any] = {}
    for variable, raw in environ.items():
        for section in SECTIONS:
            if variable.startswith(f"{PREFIX}{section.upper()}_"):
                name = variable[len(PREFIX) + len(section) + 1 :].lower()
                require_known(section, name, source=f"the variable {variable}")
                key = f"{section}.{name}"
                values[key] = convert(key, _as_value(raw, keys(section)[name]), source=f"the variable {variable}")
    return values


def _as_value(raw: str, type_: Any) -> Any:
    if isinstance(msgspec.inspect.type_info(type_), msgspec.inspect.StrType | msgspec.inspect.LiteralType) or type_ is Secret:
        return raw
    try:
        return tomllib.loads(f"value = {raw}")["value"]
    except (ValueError, RecursionError):
        return raw  # the conversion says what was expected


def split_variables(environ: Mapping[str, str], datasets: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Variables by the dataset that they name, "" for those of all: SPARLANCE_DATASETS_MUSEUM_BACKEND_URL → museum."""
    start = f"{PREFIX}DATASETS_"
    split: dict[str, dict[str, str]] = {"": {}, **{name: {} for name in datasets}}
    starts = {start + name.replace("-", "_").upper() + "_": name for name in datasets}
    for variable, raw in environ.items():
        if not variable.startswith(start):
            split[""][variable] = raw
            continue
        found = max((prefix for prefix in starts if variable.startswith(prefix)), key=len, default=None)
        if found is None:
            known = ", ".join(datasets) or "none"
            raise ConfigError("datasets", f"the variable {variable} names no dataset; there is {known}")
        split[starts[found]][PREFIX + variable.removeprefix(found)] = raw
    return split


def holds_password(key: str, value: Any) -> bool:
    """Whether *value* of *key* is a URL with a password, which belongs in the environment like every secret."""
    return key in ("cache.url", "shared.url", "tracing.endpoint") and isinstance(value, str) and "@" in value


def variable_of(key: str) -> str:
    """The environment variable that overrides *key*: ``server.port`` → ``SPARLANCE_SERVER_PORT``."""
    return PREFIX + key.replace(".", "_").upper()
