"""Tell a webhook of requests that were refused: a dataset's authors see which questions it cannot answer.

Options:
    url: where to; its host must be in *hosts*, and it is https unless it is on this machine.
    hosts: names of the hosts that may be told.
    at_most: refusals that wait to be told; more are dropped and counted. Default: 1000.
    pause_s: between two messages, so that many refusals are one message. Default: 5.

A message is a JSON object: ``refused`` (a list of time, request_id, dataset, form, verdict, plugin, rules of the findings)
and ``dropped`` (how many are missing). No text of a query, no literal and no key is in it. It is sent by POST, without
following redirects, three times at most; no request waits for it.
"""

import asyncio
from collections import deque
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import urlsplit

import httpx
import msgspec

from proxy import Exchange, Plugin

LOCAL = ("localhost", "127.0.0.1", "::1")
ATTEMPTS = 3
BATCH = 100
TIMEOUT_S = 5.0


class Options(msgspec.Struct, frozen=True):
    url: str
    hosts: tuple[str, ...]
    at_most: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1000
    pause_s: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 5.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOCAL):
            raise ValueError("url: accepted: https://…, or http:// on this machine")
        if parts.hostname not in self.hosts:
            raise ValueError(f"url: its host is not in hosts; accepted: {', '.join(self.hosts) or 'none'}")
        if parts.username or parts.password:
            raise ValueError("url: a secret does not belong in a file")


def load(options: Options) -> Plugin:
    return NotifyRejected(options)


class NotifyRejected(Plugin):
    def __init__(self, options: Options) -> None:
        self.options = options
        self.waiting: deque[dict[str, Any]] = deque()
        self.dropped = 0
        self.arrived = asyncio.Event()
        self.telling: asyncio.Task[None] | None = None

    def startup(self) -> None:
        self.telling = asyncio.create_task(self.tell())

    async def shutdown(self) -> None:
        if self.telling is not None:
            self.telling.cancel()
            await asyncio.wait([self.telling])
        if self.waiting:
            await self.send(attempts=1)

    def verdict(self, exchange: Exchange) -> None:
        if exchange.verdict not in ("reject", "refuse", "empty"):
            return
        if len(self.waiting) >= self.options.at_most:
            self.dropped += 1
            return
        refused = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "request_id": exchange.request_id,
            "dataset": exchange.dataset,
            "form": str(getattr(exchange.parsed, "form", "") or (exchange.operation.kind if exchange.operation else "")),
            "verdict": exchange.verdict,
            "plugin": getattr(exchange.refusal, "plugin", ""),
            "rules": [finding.rule for finding in exchange.findings][:20],
        }
        self.waiting.append(refused)
        self.arrived.set()

    async def tell(self) -> None:
        while True:
            await self.arrived.wait()
            await asyncio.sleep(self.options.pause_s)
            self.arrived.clear()
            while self.waiting:
                await self.send(attempts=ATTEMPTS)

    async def send(self, *, attempts: int) -> None:
        """Tell of the oldest; what cannot be told is counted as dropped."""
        batch = [self.waiting.popleft() for _ in range(min(BATCH, len(self.waiting)))]
        dropped = self.dropped
        message = {"refused": batch, "dropped": dropped}
        # Without trust_env: a proxy in the environment would be another host than the ones that are listed.
        async with httpx.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False, trust_env=False) as client:
            for attempt in range(attempts):
                try:
                    if (await client.post(self.options.url, json=message)).is_success:
                        self.dropped -= dropped
                        return
                except httpx.HTTPError:
                    pass
                if attempt + 1 < attempts:
                    await asyncio.sleep(2**attempt)
        self.dropped += len(batch)
