"""Whose data a client is shown: what our own queries say holds for it only where no other credential reaches the backend."""

from __future__ import annotations

import asyncio

import pytest

from proxy.backends import connect
from proxy.config import load_config

MINE = [(b"authorization", b"Basic bWluZQ==")]
OURS = [(b"authorization", b"Basic b3Vycw==")]


@pytest.mark.parametrize(
    ("policy", "headers", "expected"),
    [
        ("pass", [], True),
        ("pass", MINE, False),
        ("pass", OURS, True),
        ("pass", [*OURS, (b"cookie", b"session=1")], False),
        ("drop", MINE, True),
        ("replace", MINE, True),
        ("replace", [(b"cookie", b"session=1")], False),
    ],
)
def test_a_credential_that_is_passed_on_may_show_other_data(policy, headers, expected):
    """Dropped or replaced ones, none, and ours show what we see."""
    overrides = {"backend.url": "http://127.0.0.1:9", "backend.client_authorization": policy}
    config = load_config(None, environ={"SPARLANCE_BACKEND_AUTHORIZATION": "Basic b3Vycw=="}, overrides=overrides)

    async def ask() -> bool:
        backend = connect(config.backend)
        try:
            return backend.sees_what_we_see([(b"host", b"a"), *headers])
        finally:
            await backend.aclose()

    assert asyncio.run(ask()) is expected
