"""Give each request only so much time at the backend, by API key.

Options:
    seconds: from the question to the backend to the last byte of its answer. 0: as long as the settings give.
    keys: name of the API key -> its own seconds, in place of *seconds*. "anonymous" is a request without a key. Default: none.

When the time is over the backend is told to stop, and the client gets 504, or a broken transfer where the answer had begun. An
answer from the cache takes no time of the backend's.
"""

from typing import Annotated

import msgspec

from proxy import Exchange, Plugin

Seconds = Annotated[float, msgspec.Meta(ge=0, le=86_400)]


class Options(msgspec.Struct, frozen=True):
    seconds: Seconds
    keys: dict[str, Seconds] = {}


def load(options: Options) -> Plugin:
    return TimeLimit(options)


class TimeLimit(Plugin):
    may_refuse = True

    def __init__(self, options: Options) -> None:
        self.options = options

    def request(self, exchange: Exchange) -> None:
        seconds = self.options.keys.get(exchange.caller or "anonymous", self.options.seconds)
        if seconds and exchange.operation is not None:
            exchange.limit_time(seconds)
