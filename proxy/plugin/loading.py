"""Finding plugins, in a folder and among the installed packages, and making them with their options."""

from __future__ import annotations

import ast
import difflib
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from proxy.errors import ConfigError, PluginError
from proxy.plugin.chain import BUDGET_S, LoadedPlugin, PluginChain
from proxy.plugin.hooks import Plugin
from proxy.plugin.options import convert_options

GROUP = "sparlance.plugins"
"""Of the entry points; each names a module that has what a file of the folder has."""


def load_plugins(
    directory: str | Path,
    *,
    enabled: Sequence[str],
    options: Mapping[str, Mapping[str, Any]] | None = None,
    budget_s: float = BUDGET_S,
) -> PluginChain:
    """Load ``directory/NAME.py``, or the installed plugin NAME, for each *enabled* name, in that order.

    Options of a plugin that is there and not enabled are kept for the day it is; those of one that is not there are a typing
    error, which would otherwise run a plugin without them.

    Raises:
        ConfigError: there is no such plugin, or two, or it refuses its options. PluginError: it cannot be loaded.
    """
    folder, tables = Path(directory), options or {}
    loaded = [_load(_find(folder, name, key="plugins.enabled"), name, tables.get(name, {})) for name in enabled]
    for name in tables:
        _find(folder, name, key=f"plugins.{name}")
    return PluginChain(loaded, budget_s=budget_s)


def load_file(file: Path, options: Mapping[str, Any]) -> LoadedPlugin:
    """The plugin in *file*, under the file's name. Raises as ``load_plugins``."""
    return _load(file, file.stem, options)


def available(directory: str | Path) -> dict[str, str]:
    """Names of the plugins there are → what they say they are; nothing of them is run."""
    found = {file.stem: _summary(file) for file in sorted(Path(directory).glob("[!_]*.py"))}
    for name, entry in sorted(_installed().items()):
        package = f" of {entry.dist.name} {entry.dist.version}" if entry.dist is not None else ""
        text = f"(installed: {entry.value}{package})"
        found[name] = f"{found[name]} (and {text}: remove one)" if name in found else text
    return found


def _summary(file: Path) -> str:
    try:
        text = ast.get_docstring(ast.parse(file.read_bytes())) or ""
    except SyntaxError as error:
        text = f"(cannot be loaded: {error.msg}, line {error.lineno})"
    except (OSError, ValueError) as error:  # not readable; a NUL byte
        text = f"(cannot be loaded: {getattr(error, 'strerror', None) or error})"
    return text.partition("\n")[0]


def _installed() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _find(directory: Path, name: str, *, key: str) -> Path | EntryPoint:
    file, installed = directory / f"{name}.py", _installed().get(name)
    if name.isidentifier() and file.is_file():
        if installed is not None:  # neither may hide the other: whoever enabled one would run something else
            both = f"{file} and the installed {installed.value}"
            raise ConfigError(key, f'there are two plugins "{name}": {both}; rename the file')
        return file
    if installed is not None:
        return installed
    names = list(available(directory))
    close = difflib.get_close_matches(name, names, n=1)
    hint = f'. Did you mean "{close[0]}"?' if close else ""
    raise ConfigError(key, f'there is no plugin "{name}" in {directory}; it holds {", ".join(names) or "nothing"}{hint}')


def _load(found: Path | EntryPoint, name: str, options: Mapping[str, Any]) -> LoadedPlugin:
    try:
        module = _run(found, name) if isinstance(found, Path) else found.load()
    except Exception as error:
        raise _cannot_load(name, found, error) from error
    where = str(found) if isinstance(found, Path) else found.value
    make, schema = getattr(module, "load", None), getattr(module, "Options", None)
    if not callable(make):
        raise PluginError(f"plugin {name} cannot be loaded: {where} has no function load(options)", plugin=name, hook="load")
    given: object = dict(options)
    if isinstance(schema, type) and issubclass(schema, msgspec.Struct):
        given = convert_options(name, options, schema)
    try:
        plugin = make(given)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"plugins.{name}", str(error)) from error
    except Exception as error:
        raise _cannot_load(name, found, error) from error
    if not isinstance(plugin, Plugin):
        raise PluginError(f"plugin {name}: load() returned {type(plugin).__name__}, not a Plugin", plugin=name, hook="load")
    return LoadedPlugin(name, plugin)


def _cannot_load(name: str, found: Path | EntryPoint, error: Exception) -> PluginError:
    """Say where in the plugin it went wrong, and what: its author needs the place, not our traceback."""
    where: object = found if isinstance(found, Path) else found.value
    line: int | None
    if isinstance(error, SyntaxError):
        where, line, what = error.filename or where, error.lineno, error.msg
    else:
        inside = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(where)]
        line = inside[-1] if inside else None
        what = f"{type(error).__name__}: {error}".removesuffix(": ")
    place = f"{where}, line {line}" if line else f"{where}"
    return PluginError(f"plugin {name} cannot be loaded: {place}: {what}", plugin=name, hook="load")


def _run(file: Path, name: str) -> ModuleType:
    """Run *file* under a private module name, so that no plugin shadows a package and none is imported by accident."""
    private = f"_sparlance_plugin_{name}"
    spec = spec_from_file_location(private, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = module_from_spec(spec)
    sys.modules[private] = module  # dataclasses and pickling look a class's module up by name
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[private]
        raise
    return module
