"""Calling the hooks of the plugins: in order, each within its budget, counted, and guards and watchers apart.

Which plugin listens to which hook is worked out once, at the start. ``PluginChain.active`` holds the hooks that any plugin
overrides, so that whoever has nothing to tell anybody need not ask.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

import structlog

from proxy.errors import PluginError, QueryRejected, RequestError
from proxy.plugin.hooks import BodyFilter, Plugin

if TYPE_CHECKING:
    from proxy.backends.base import BackendRequest
    from proxy.index.support import SupportIndex
    from proxy.pipeline.exchange import Exchange
    from proxy.query.model import ParsedQuery

HOOKS = tuple(name for name, value in vars(Plugin).items() if callable(value) and not name.startswith("_"))
"""Names of all hooks, in the order of the class."""
BUDGET_S = 1.0
SHUTDOWN_S = 5.0
_REVERSED = frozenset(["response", "body", "shutdown"])
_CHANGEABLE = ("operation", "parsed", "question", "is_rewritten", "is_unchecked", "timeout_s")
"""Of an exchange, what a plugin may change; and added_headers."""


@dataclass(slots=True)
class HookCounts:
    """What happened to one hook of one plugin. slow: it took longer than the budget, whether it was stopped or not."""

    calls: int = 0
    failures: int = 0
    refusals: int = 0
    slow: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """A plugin under the name that the configuration gives it. counts: by hook, those that it overrides."""

    name: str
    plugin: Plugin
    counts: dict[str, HookCounts] = field(default_factory=dict, compare=False)

    def overrides(self, hook: str) -> bool:
        return getattr(type(self.plugin), hook) is not getattr(Plugin, hook)


class PluginChain:
    """The plugins of a server, in order; frozen once made.

    Args:
        budget_s: for one call of one hook, but for startup.
    """

    def __init__(self, plugins: Sequence[LoadedPlugin] = (), *, budget_s: float = BUDGET_S) -> None:
        self.plugins = tuple(plugins)
        self.budget_s = budget_s
        self._of: dict[str, tuple[LoadedPlugin, ...]] = {}
        for hook in HOOKS:
            heard = [p for p in self.plugins if p.overrides(hook)]
            self._of[hook] = tuple(reversed(heard) if hook in _REVERSED else heard)
            for loaded in heard:
                loaded.counts.setdefault(hook, HookCounts())
        self.active = frozenset(hook for hook, heard in self._of.items() if heard)

    # -- the server

    async def startup(self) -> None:
        """Start them in order. If one fails, those already started are shut down again.

        Raises:
            PluginError: one failed; the server must not start.
        """
        started: list[LoadedPlugin] = []
        for loaded in self.plugins:
            try:
                if isawaitable(done := loaded.plugin.startup()):
                    await done
            except Exception as error:
                await PluginChain(started).shutdown()
                raise _failure(loaded, "startup", error) from error
            started.append(loaded)

    async def shutdown(self) -> None:
        """Shut them down in reverse; a failure is logged and stops nothing."""
        for loaded in self._of["shutdown"]:
            try:
                if isawaitable(done := loaded.plugin.shutdown()):
                    async with asyncio.timeout(SHUTDOWN_S):
                        await done
            except Exception as error:
                _log_failure(loaded, "shutdown", error)

    async def index_refreshed(self, dataset: str, index: SupportIndex) -> None:
        """Tell everybody of a new index; a failure is logged."""
        for loaded in self._of["index_refreshed"]:
            try:
                await self._invoke(loaded, "index_refreshed", dataset, index)
            except Exception as error:
                _log_failure(loaded, "index_refreshed", error)

    # -- a request; each raises RequestError where a guard refuses, and PluginError where one failed, which refuses too

    async def request(self, exchange: Exchange) -> None:
        await self._tell("request", exchange)

    async def question(self, exchange: Exchange) -> None:
        await self._tell("question", exchange)

    async def query(self, exchange: Exchange) -> None:
        await self._tell("query", exchange)

    async def verdict(self, exchange: Exchange) -> None:
        await self._tell("verdict", exchange)

    async def refused(self, exchange: Exchange, error: RequestError | PluginError) -> None:
        """Show a request that is refused already: nobody can change that, so that whatever a plugin raises is only logged."""
        exchange.refusal = error
        if isinstance(error, QueryRejected):
            exchange.findings = error.findings
        for loaded in self._of["verdict"]:
            try:
                await self._invoke(loaded, "verdict", exchange)
            except Exception as raised:
                _log_failure(loaded, "verdict", raised)

    async def candidate(self, exchange: Exchange, parsed: ParsedQuery, text: str) -> bool:
        """Whether this query may be tried for the question. Raises PluginError only."""
        try:
            await self._tell("candidate", exchange, parsed, text)
        except RequestError:
            return False
        return True

    async def backend_request(self, exchange: Exchange, request: BackendRequest) -> BackendRequest:
        """*request* as the plugins want it."""
        started = time.perf_counter()
        for loaded in self._of["backend_request"]:
            request = await self._guarded(loaded, "backend_request", exchange, request) or request
        _add_time(exchange, started)
        return request

    async def response(self, exchange: Exchange) -> None:
        started = time.perf_counter()
        for loaded in self._of["response"]:
            await self._guarded(loaded, "response", exchange, may_refuse=False)
        _add_time(exchange, started)

    async def body(self, exchange: Exchange) -> BodyChain | None:
        """The filters for the body of this response, None where nobody wants it."""
        parts: list[_Part] = []
        for loaded in self._of["body"]:
            wanted = await self._guarded(loaded, "body", exchange)
            if wanted is not None:
                parts.append(_Part(loaded, wanted, self.budget_s))
        return BodyChain(parts) if parts else None

    # -- one call

    async def _tell(self, hook: str, exchange: Exchange, *arguments: Any) -> None:
        heard = self._of[hook]
        if not heard:
            return
        started = time.perf_counter()
        try:
            for loaded in heard:
                await self._guarded(loaded, hook, exchange, *arguments)
        finally:
            _add_time(exchange, started)

    async def _guarded(
        self, loaded: LoadedPlugin, hook: str, exchange: Exchange, *arguments: Any, may_refuse: bool = True
    ) -> Any:
        """Call a hook; what a guard raises goes on as a refusal, what a watcher raises stays here, with what it had changed."""
        if loaded.plugin.may_refuse:
            try:
                return await self._invoke(loaded, hook, exchange, *arguments)
            except RequestError as error:
                if not may_refuse:
                    raise _failure(loaded, hook, error) from error
                error.plugin = loaded.name
                raise
            except Exception as error:
                raise _failure(loaded, hook, error) from error
        before = [(name, getattr(exchange, name)) for name in _CHANGEABLE]
        headers = tuple(exchange.added_headers)
        try:
            return await self._invoke(loaded, hook, exchange, *arguments)
        except Exception as error:
            for name, value in before:
                setattr(exchange, name, value)
            exchange.added_headers[:] = headers
            _log_failure(loaded, hook, error)
            return None

    async def _invoke(self, loaded: LoadedPlugin, hook: str, *arguments: Any) -> Any:
        counts = loaded.counts[hook]
        counts.calls += 1
        started = time.perf_counter()
        try:
            result = getattr(loaded.plugin, hook)(*arguments)
            if isawaitable(result):
                deadline = asyncio.timeout(self.budget_s)
                try:
                    async with deadline:
                        result = await result
                except TimeoutError as error:
                    if deadline.expired():
                        raise TimeoutError(f"no end after {self.budget_s:g} s") from error
                    raise
            return result
        except RequestError:
            if loaded.plugin.may_refuse:
                counts.refusals += 1
            else:
                counts.failures += 1
            raise
        except Exception:
            counts.failures += 1
            raise
        finally:
            took_s = time.perf_counter() - started
            counts.seconds += took_s
            if took_s > self.budget_s:
                counts.slow += 1
                structlog.get_logger().warning("plugin_slow", plugin=loaded.name, hook=hook, elapsed_s=round(took_s, 3))


@dataclass(slots=True)
class _Part:
    """One plugin's filter of one body. is_over: a watcher that failed reads no more."""

    loaded: LoadedPlugin
    filter: BodyFilter
    budget_s: float
    is_over: bool = False

    def pass_(self, chunk: bytes | None) -> bytes:
        """Give the filter *chunk*, None at the end; return what the next one gets.

        Raises:
            PluginError: the filter of a guard failed.
        """
        if self.is_over:
            return chunk or b""
        counts = self.loaded.counts["body"]
        started = time.perf_counter()
        try:
            given = self.filter.close() if chunk is None else self.filter.feed(chunk)
        except Exception as error:
            counts.failures += 1
            if self.loaded.plugin.may_refuse:
                raise _failure(self.loaded, "body", error) from error
            self.is_over = True
            _log_failure(self.loaded, "body", error)
            return chunk or b""
        finally:
            took_s = time.perf_counter() - started
            counts.seconds += took_s
            counts.slow += took_s > self.budget_s
        return given if self.loaded.plugin.may_refuse else chunk or b""


class BodyChain:
    """The filters of one response body, each fed with what the one before gives."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        self._parts = tuple(parts)

    @property
    def changes(self) -> bool:
        """Whether what comes out may be another body."""
        return any(part.loaded.plugin.may_refuse for part in self._parts)

    @property
    def name(self) -> str:
        """Of the guards in it, for an error."""
        return ", ".join(part.loaded.name for part in self._parts if part.loaded.plugin.may_refuse)

    def feed(self, chunk: bytes) -> bytes:
        """Raises PluginError: the filter of a guard failed."""
        for part in self._parts:
            chunk = part.pass_(chunk)
        return chunk

    def close(self) -> bytes:
        """The rest, once the body is over. Raises as ``feed``."""
        rest = b""
        for part in self._parts:
            passed = part.pass_(rest) if rest else b""
            rest = passed + part.pass_(None)
        return rest


def _add_time(exchange: Exchange, started: float) -> None:
    took_ms = (time.perf_counter() - started) * 1000
    exchange.timings_ms["plugins"] = exchange.timings_ms.get("plugins", 0.0) + took_ms


def _failure(loaded: LoadedPlugin, hook: str, error: Exception) -> PluginError:
    """The error that the client gets: it names plugin and hook, and tells nothing of their inside."""
    structlog.get_logger().warning("plugin_failed", plugin=loaded.name, hook=hook, error=repr(error), exc_info=error)
    return PluginError(f"plugin {loaded.name} failed in {hook}: {type(error).__name__}", plugin=loaded.name, hook=hook)


def _log_failure(loaded: LoadedPlugin, hook: str, error: Exception) -> None:
    structlog.get_logger().warning("plugin_failed", plugin=loaded.name, hook=hook, error=repr(error), exc_info=error)
