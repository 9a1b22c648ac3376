"""What each server says of the state of its data: moves with an insertion and a deletion, stays without a change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from proxy.assembly import make_backend
from proxy.backends.marker import change_marker
from proxy.config import load_config
from proxy.indexing import own_headers
from tests.servers.conftest import DATA
from tests.servers.every import JAVA_KINDS, KINDS, Endpoint, running
from tests.servers.process import request as send

PARAMS = [pytest.param(kind, marks=[pytest.mark.java] if kind in JAVA_KINDS else []) for kind in KINDS]
NEW = "<http://example.org/marked> <http://example.org/by> 1"


@pytest.fixture(params=PARAMS)
def endpoint(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    with running(request.param, DATA) as started:
        yield started


def marker(endpoint: Endpoint) -> str | None:
    url = endpoint.url + (endpoint.query_path if endpoint.backend == "sparql" else "")
    overrides = {"backend.kind": endpoint.backend, "backend.url": url, "backend.repository": endpoint.repository}
    settings = load_config(None, overrides=overrides)

    async def run() -> str | None:
        backend = make_backend(settings, lambda *_: None)
        try:
            headers = own_headers(settings.backend)
            ask = change_marker(endpoint.backend, repository=endpoint.repository, headers=headers, timeout_s=10.0)
            return await ask(backend)
        finally:
            await backend.aclose()

    return asyncio.run(run())


def update(endpoint: Endpoint, text: str) -> None:
    headers = {"Content-Type": "application/sparql-update", **endpoint.update_headers}
    status, _, body = send(endpoint.port, "POST", endpoint.update_path, text.encode(), headers)
    assert status < 300, body


def test_the_marker_moves_with_the_data(endpoint: Endpoint) -> None:
    """An insertion and a deletion are seen, in the default graph and in a named one; what changes nothing is not."""
    seen = [marker(endpoint), marker(endpoint)]
    assert seen[0] == seen[1] and seen[0]
    update(endpoint, f"INSERT DATA {{ {NEW} }}")
    seen.append(marker(endpoint))
    update(endpoint, f"INSERT DATA {{ {NEW} }}")
    assert marker(endpoint) == seen[-1] != seen[0]
    update(endpoint, f"INSERT DATA {{ GRAPH <http://example.org/g> {{ {NEW.replace('1', '2')} }} }}")
    seen.append(marker(endpoint))
    assert len(set(seen)) == 3
    update(endpoint, f"DELETE DATA {{ {NEW} }}")
    assert marker(endpoint) != seen[-1]


def test_another_index_of_qlever_is_another_state() -> None:
    """As many triples, but not those that were indexed: the name of the index tells; counts alone would not."""
    found = []
    for name in ("one", "two"):
        with running("qlever", {"text/turtle": f"<http://e/{name}> <http://e/p> 1 , {len(found) + 2} ."}) as endpoint:
            found.append(marker(endpoint))
            update(endpoint, "INSERT DATA { <http://e/x> <http://e/p> 1 } ; DELETE DATA { <http://e/x> <http://e/p> 1 }")
            assert found[-1] == marker(endpoint)
    assert all(f and f.startswith("count 2 0 of #") for f in found)
