"""A language model that writes: what it is given, what it is asked for, and what it brings. Who it is does not matter here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for. drafts: texts that are written, each of *max_tokens* at most; *temperature* 0: all alike."""

    drafts: int = 1
    max_tokens: int = 512
    temperature: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Brought:
    """What was written: at least one text, perhaps fewer than were wanted. Tokens as the model counts them; 0: it does not."""

    texts: tuple[str, ...]
    tokens_read: int = 0
    tokens_written: int = 0


class Generator(Protocol):
    """Writes on from a conversation. Nothing that it writes is to be trusted."""

    async def write(self, messages: Sequence[Message], wanted: Wanted, *, timeout_s: float) -> Brought:
        """Write the next message.

        Raises:
            ModelError: it failed, or was not done within *timeout_s*.
        """
        ...

    async def aclose(self) -> None:
        """Give back what it holds."""
        ...
