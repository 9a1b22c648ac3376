"""A language model behind a server that speaks OpenAI's protocol, ``POST /chat/completions``: vLLM, llama.cpp, Ollama, others.

What it answers is bounded in time and size and leads nowhere else: no redirects, no proxy or password of the environment.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any

import httpx

from proxy.errors import ModelError
from proxy.nl.generate import Brought, Message, Wanted

ANSWER_LIMIT_BYTES = 2_000_000
"""Eight drafts of 4,000 tokens are a tenth of it."""
TRIES = 3
PAUSE_FIRST_S = 0.25
"""Before the second try where the server names no time (Retry-After); it doubles."""
_PASSING = frozenset([429, 500, 502, 503, 504])
_CONNECT_S = 3.0
_SHOWN = 200


class ChatServer:
    """The model *model* at *url*, which ends before ``/chat/completions``. key: a bearer token, or empty."""

    def __init__(self, url: str, model: str, *, key: str = "") -> None:
        self.name = f"{model} at {url}"
        self._url = f"{url.rstrip('/')}/chat/completions"
        self._model = model
        self._headers = {"accept": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
        self._client: httpx.AsyncClient | None = None

    async def write(self, messages: Sequence[Message], wanted: Wanted, *, timeout_s: float) -> Brought:
        """See ``Generator``. A server that is busy or fails for the moment is asked ``TRIES`` times, if the time allows."""
        body = {
            "model": self._model,
            "messages": [{"role": m.role, "content": m.text} for m in messages],
            "n": wanted.drafts,
            "max_tokens": wanted.max_tokens,
            "temperature": wanted.temperature,
            "seed": wanted.seed,
            "stream": False,
        }
        deadline = time.perf_counter() + timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                for at in range(TRIES):
                    found, after_s = await self._try(body)
                    if found is not None:
                        return found
                    pause_s = PAUSE_FIRST_S * 2**at if after_s is None else after_s
                    if at == TRIES - 1 or time.perf_counter() + pause_s >= deadline:
                        break
                    await asyncio.sleep(pause_s)
        except TimeoutError as exc:
            raise ModelError(f"{self.name} was not done within {timeout_s:.1f} s") from exc
        raise ModelError(f"{self.name} is busy or fails for the moment")

    async def _try(self, body: dict[str, Any]) -> tuple[Brought | None, float | None]:
        """What it wrote; or None, and the seconds after which it wants to be asked again, if it names them.

        Raises:
            ModelError: asking again would not help.
        """
        if self._client is None:
            timeout = httpx.Timeout(None, connect=_CONNECT_S)  # the whole is timed by the caller
            self._client = httpx.AsyncClient(headers=self._headers, timeout=timeout, trust_env=False, follow_redirects=False)
        try:
            async with self._client.stream("POST", self._url, json=body) as response:
                if response.status_code in _PASSING:
                    return None, _seconds(response.headers.get("retry-after", ""))
                data = bytearray()
                async for piece in response.aiter_bytes():
                    data += piece
                    if len(data) > ANSWER_LIMIT_BYTES:
                        raise ModelError(f"{self.name} answered with more than {ANSWER_LIMIT_BYTES:,} bytes")
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            if isinstance(exc, httpx.ConnectError | httpx.ConnectTimeout):
                raise ModelError(f"{self.name} cannot be reached") from exc
            raise ModelError(f"{self.name} did not answer in full: {type(exc).__name__}") from exc
        if response.status_code != 200:
            said = bytes(data[:_SHOWN]).decode("utf-8", "replace")
            raise ModelError(f"{self.name} answered with status {response.status_code}: {said}")
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise ModelError(f"{self.name} answered with {kind or 'no media type'} in place of JSON")
        try:
            return _read(json.loads(data)), None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
            raise ModelError(f"{self.name} did not answer with chat completions") from exc

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()


def _read(answer: Any) -> Brought:
    """Raises: ValueError, KeyError, TypeError, AttributeError: it is no completion."""
    texts = tuple(text for c in answer["choices"] if isinstance(text := c["message"].get("content"), str))
    if not texts:
        raise ValueError("no text")
    usage = answer.get("usage") or {}
    return Brought(texts, _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def _seconds(text: str) -> float | None:
    """Of a Retry-After (RFC 9110, 10.2.3); a date counts as none."""
    return float(text) if text.strip().isascii() and text.strip().isdigit() and len(text) < 8 else None
