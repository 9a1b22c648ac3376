"""A Redis or Valkey server that several processes share: the one module that imports ``redis``.

A marked edge. Nothing here may fail a request: whoever uses the link catches ``faults``, calls ``note_failure``, goes on
without the server, and looks at ``is_out`` before the next command. After RETRY_S it is tried again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from proxy.errors import ConfigError

if TYPE_CHECKING:
    from redis.asyncio import Redis

RETRY_S = 5.0
"""So long a server that failed is left alone."""


class RedisLink:
    """One server. *client* speaks to it; connects at the first command.

    Args:
        url: redis://, rediss:// or unix://. setting: the dotted key that it came from.
        timeout_s: for each command.
    Raises:
        ConfigError: the package ``redis`` is not installed, or the URL is none.
    """

    def __init__(
        self, url: str, *, setting: str, timeout_s: float = 0.25, now: Callable[[], float] = time.monotonic
    ) -> None:
        try:
            from redis import RedisError
            from redis.asyncio import Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError as exc:
            raise ConfigError(setting, 'needs the package redis: pip install "sparlance[redis]"') from exc
        try:
            self.client: Redis = Redis.from_url(
                url,
                socket_timeout=timeout_s,
                socket_connect_timeout=timeout_s,
                decode_responses=False,
                retry=Retry(NoBackoff(), 1),  # once: a kept connection may have died
            )
        except ValueError:
            # Not what it says: of a password with a slash it takes one half for the port, and repeats it.
            raise ConfigError(setting, "found no such URL; accepted: redis://host:port/db, rediss://…, unix://…") from None
        self.faults: tuple[type[Exception], ...] = (RedisError, OSError, TimeoutError)
        self.failures = 0
        self._now = now
        self._out_until = 0.0

    @property
    def is_out(self) -> bool:
        """Whether it failed a moment ago."""
        return self._now() < self._out_until

    def note_failure(self) -> None:
        self.failures += 1
        self._out_until = self._now() + RETRY_S

    async def aclose(self) -> None:
        try:
            await self.client.aclose()
        except self.faults:
            self.note_failure()
