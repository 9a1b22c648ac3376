"""Loading plugins from a folder, and calling their hooks in order.

Which plugin listens to which hook is worked out once, at the start: a hook that nobody overrides costs one look at an empty
tuple.
"""

from __future__ import annotations

import difflib
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import structlog

from proxy.errors import ConfigError, PluginError, RequestError
from proxy.pipeline.exchange import Exchange
from proxy.plugin.hooks import Plugin


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """A plugin under the name that the configuration gives it."""

    name: str
    plugin: Plugin

    def overrides(self, hook: str) -> bool:
        return getattr(type(self.plugin), hook) is not getattr(Plugin, hook)


class PluginChain:
    """The plugins of a server, in order; frozen once made."""

    def __init__(self, plugins: Sequence[LoadedPlugin] = ()) -> None:
        self.plugins = tuple(plugins)
        self._query = tuple(p for p in self.plugins if p.overrides("query"))
        self._response = tuple(p for p in reversed(self.plugins) if p.overrides("response"))

    async def startup(self) -> None:
        """Start them in order. If one fails, those already started are shut down again.

        Raises:
            PluginError: one failed; the server must not start.
        """
        started: list[LoadedPlugin] = []
        for loaded in self.plugins:
            try:
                await loaded.plugin.startup()
            except Exception as error:
                await PluginChain(started).shutdown()
                raise _failure(loaded, "startup", error) from error
            started.append(loaded)

    async def shutdown(self) -> None:
        """Shut them down in reverse; a failure is logged and stops nothing."""
        for loaded in reversed(self.plugins):
            try:
                await loaded.plugin.shutdown()
            except Exception as error:
                _log_failure(loaded, "shutdown", error)

    async def query(self, exchange: Exchange) -> None:
        """Show the operation to every plugin that wants it.

        Raises:
            RequestError: a guard refuses. PluginError: a guard failed, which refuses too.
        """
        if not self._query:
            return
        started = time.perf_counter()
        try:
            await self._call_query(exchange)
        finally:
            _add_time(exchange, started)

    async def _call_query(self, exchange: Exchange) -> None:
        for loaded in self._query:
            before = exchange.operation, exchange.parsed, exchange.is_rewritten, tuple(exchange.added_headers)
            try:
                await loaded.plugin.query(exchange)
            except Exception as error:
                if loaded.plugin.may_refuse:
                    if isinstance(error, RequestError):
                        raise
                    raise _failure(loaded, "query", error) from error
                # A watcher that fails half-way must leave no half of a change behind.
                exchange.operation, exchange.parsed, exchange.is_rewritten, exchange.added_headers[:] = before
                _log_failure(loaded, "query", error)

    async def response(self, exchange: Exchange) -> None:
        """Show the response head to every plugin that wants it, the last one first.

        Raises:
            PluginError: a guard failed.
        """
        if not self._response:
            return
        started = time.perf_counter()
        try:
            await self._call_response(exchange)
        finally:
            _add_time(exchange, started)

    async def _call_response(self, exchange: Exchange) -> None:
        for loaded in self._response:
            before = tuple(exchange.added_headers)
            try:
                await loaded.plugin.response(exchange)
            except Exception as error:
                if loaded.plugin.may_refuse:
                    raise _failure(loaded, "response", error) from error
                exchange.added_headers[:] = before
                _log_failure(loaded, "response", error)


def _add_time(exchange: Exchange, started: float) -> None:
    took_ms = (time.perf_counter() - started) * 1000
    exchange.timings_ms["plugins"] = exchange.timings_ms.get("plugins", 0.0) + took_ms


def load_plugins(
    directory: str | Path, *, enabled: Sequence[str], options: Mapping[str, Mapping[str, Any]] | None = None
) -> PluginChain:
    """Load ``directory/NAME.py`` for each *enabled* name, in that order.

    Options of a plugin that is there and not enabled are kept for the day it is; those of one that is not there are a typing
    error, which would otherwise run a plugin without them.

    Raises:
        ConfigError: there is no such file, or it refuses its options. PluginError: it cannot be loaded.
    """
    folder, tables = Path(directory), options or {}
    loaded = [_load(folder, name, tables.get(name, {})) for name in enabled]
    for name in tables:
        _require_file(folder, name, key=f"plugins.{name}")
    return PluginChain(loaded)


def available(directory: str | Path) -> dict[str, str]:
    """Names of the plugins in *directory* → the first line of their docstring; nothing of them is run."""
    import ast

    found = {}
    for file in sorted(Path(directory).glob("[!_]*.py")):
        try:
            text = ast.get_docstring(ast.parse(file.read_bytes())) or ""
        except SyntaxError as error:
            text = f"(cannot be loaded: {error.msg}, line {error.lineno})"
        except (OSError, ValueError) as error:  # not readable; a NUL byte
            text = f"(cannot be loaded: {getattr(error, 'strerror', None) or error})"
        found[file.stem] = text.partition("\n")[0]
    return found


def _require_file(directory: Path, name: str, *, key: str) -> Path:
    file = directory / f"{name}.py"
    if not name.isidentifier() or not file.is_file():
        names = list(available(directory))
        close = difflib.get_close_matches(name, names, n=1)
        hint = f'. Did you mean "{close[0]}"?' if close else ""
        raise ConfigError(key, f'there is no plugin "{name}" in {directory}; it holds {", ".join(names) or "nothing"}{hint}')
    return file


def _load(directory: Path, name: str, options: Mapping[str, Any]) -> LoadedPlugin:
    file = _require_file(directory, name, key="plugins.enabled")
    try:
        module = _run(file, name)
    except Exception as error:
        raise _cannot_load(name, file, error) from error
    make: Callable[[Mapping[str, Any]], Plugin] | None = getattr(module, "load", None)
    if not callable(make):
        raise PluginError(f"plugin {name} cannot be loaded: {file} has no function load(options)", plugin=name, hook="load")
    try:
        plugin = make(dict(options))
    except (ValueError, TypeError) as error:
        raise ConfigError(f"plugins.{name}", str(error)) from error
    except Exception as error:
        raise _cannot_load(name, file, error) from error
    if not isinstance(plugin, Plugin):
        raise PluginError(f"plugin {name}: load() returned {type(plugin).__name__}, not a Plugin", plugin=name, hook="load")
    return LoadedPlugin(name, plugin)


def _cannot_load(name: str, file: Path, error: Exception) -> PluginError:
    """Say where in the plugin it went wrong, and what: its author needs the place, not our traceback."""
    if isinstance(error, SyntaxError):
        where, line, what = error.filename or file, error.lineno, error.msg
    else:
        inside = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
        where, line = file, inside[-1] if inside else None
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


def _failure(loaded: LoadedPlugin, hook: str, error: Exception) -> PluginError:
    return PluginError(f"plugin {loaded.name} failed in {hook}: {type(error).__name__}", plugin=loaded.name, hook=hook)


def _log_failure(loaded: LoadedPlugin, hook: str, error: Exception) -> None:
    structlog.get_logger().warning("plugin_failed", plugin=loaded.name, hook=hook, error=repr(error), exc_info=error)
