"""Clients' limits over several processes and machines, without a round trip for any request.

Each process keeps accounts of its own (limits.py). Once in EXCHANGE_S it tells a Redis or Valkey server what each client has
used here since; the server keeps one account for each, fills it by its own clock, and answers what is left, which no process
then exceeds. So a client can go over by what it uses within that time in the other processes, and no more.

While the server is away every process goes on with its own accounts. What was used meanwhile is not told afterwards: the time
that passed has filled it up again here, and would not have there.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable

from proxy.pipeline.limits import ClientLimits, Usage
from proxy.pipeline.redis_link import RedisLink

EXCHANGE_S = 1.0
CLIENTS_AT_ONCE = 256
"""In one command; the server does nothing else meanwhile, about 1 ms."""


class SharedLimits:
    """Accounts under ``{prefix}:l:{digest of the allowances and the client}``: no address of a client is kept there.

    Args:
        accounts: all limits that are in force, looked at anew each time.
    """

    def __init__(
        self, link: RedisLink, accounts: Callable[[], Iterable[ClientLimits]], *, prefix: str = "sparlance"
    ) -> None:
        self._accounts = accounts
        self._prefix = prefix.encode("utf-8")
        self.link = link
        self.exchanges = 0
        self.is_over = False

    async def run(self) -> None:
        """Exchange until cancelled; ``is_over`` is set before, as a cancellation may be lost within a command."""
        while not self.is_over:
            await asyncio.sleep(EXCHANGE_S)
            await self.exchange()

    async def exchange(self) -> None:
        """Tell what was used here, and learn what is left; never fails."""
        for limits in list(self._accounts()):
            used = list(limits.take_used().items())
            for start in range(0, len(used), CLIENTS_AT_ONCE):
                if self.link.is_out:
                    break
                await self._exchange(limits, used[start : start + CLIENTS_AT_ONCE])

    async def _exchange(self, limits: ClientLimits, used: list[tuple[str, Usage]]) -> None:
        rates = limits.rates
        kind = repr(rates).encode("ascii")
        keys = [self._key(kind, client) for client, _ in used]
        numbers = [number for pair in rates for number in pair] + [number for _, usage in used for number in usage]
        try:
            left = await self.link.client.eval(_TAKE, len(keys), *keys, *map(repr, numbers))
            found = [float(level) for level in left]
        except self.link.faults:
            self.link.note_failure()
            return
        self.exchanges += 1
        for i, (client, _) in enumerate(used):
            limits.lower(client, Usage(*found[3 * i : 3 * i + 3]))

    def _key(self, kind: bytes, client: str) -> bytes:
        digest = hashlib.blake2b(kind + client.encode("utf-8", "surrogateescape"), digest_size=16)
        return b"%b:l:%b" % (self._prefix, digest.hexdigest().encode("ascii"))


# Take what was used from each account, filled up to now; an account that would be full again is forgotten by then.
# ARGV: rate and burst of each of three limits, then three numbers used for each key.
_TAKE = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local left = {}
for i, key in ipairs(KEYS) do
  local kept = redis.call('HMGET', key, '1', '2', '3', 'at')
  local passed = 0
  if kept[4] then passed = math.max(now - kept[4], 0) end
  local full_in = 0
  local levels = {}
  for j = 1, 3 do
    local rate, burst = tonumber(ARGV[2 * j - 1]), tonumber(ARGV[2 * j])
    local level = burst
    if kept[j] then level = math.min(kept[j] + passed * rate, burst) end
    level = level - ARGV[3 * i + 3 + j]
    if rate > 0 then full_in = math.max(full_in, (burst - level) / rate) end
    levels[j] = string.format('%.17g', level)
    left[#left + 1] = levels[j]
  end
  redis.call('HSET', key, '1', levels[1], '2', levels[2], '3', levels[3], 'at', string.format('%.17g', now))
  redis.call('PEXPIRE', key, math.ceil(math.min(full_in, 86400) * 1000) + 1000)
end
return left
"""
