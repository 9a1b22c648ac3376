"""The description of our pages is valid OpenAPI, and says what is served."""

import asyncio
import json

import httpx
import pytest
from openapi_spec_validator import validate

from proxy.app import create_app
from proxy.config import load_config
from proxy.protocol.feedback import _KEYS, read_feedback
from proxy.protocol.openapi import _PAGES
from proxy.validation.finding import Severity


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    """Of a server with two datasets, asked for over HTTP."""
    folder = tmp_path_factory.mktemp("api")
    (folder / "one.nt").write_text("<a:s> <a:p> <a:o> .\n")
    (folder / "config.toml").write_text(
        '[index]\nenabled = false\n[datasets.a.backend]\nload = ["one.nt"]\n[datasets.b.backend]\nload = ["one.nt"]\n'
    )

    async def get():
        app = create_app(load_config(folder / "config.toml", environ={}))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            response = await client.get("/-/openapi.json")
        await app.shutdown()
        return response.json()

    return asyncio.run(get())


def test_it_is_valid(document):
    """By the schema of OpenAPI 3.1."""
    validate(document)


def test_every_page_is_described_and_no_other(document):
    """Made from what is served; a new page without a sentence of its own is noticed here."""
    described = {(m.upper(), path) for path, methods in document["paths"].items() for m in methods}
    sparql = {(m, path) for path in ("/sparql", "/a/sparql", "/b/sparql") for m in ("GET", "POST")}
    assert described == set(_PAGES) | sparql
    assert all(operation["summary"] for methods in document["paths"].values() for operation in methods.values())


def test_severities_are_those_of_the_validator(document):
    """The enumeration is written twice."""
    severity = document["components"]["schemas"]["Finding"]["properties"]["severity"]
    assert severity["enum"] == [str(s) for s in Severity]


def test_feedback_is_described_as_it_is_read(document):
    """Its fields are written twice; a body made from the description is accepted."""
    operation = document["paths"]["/-/feedback"]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    assert set(schema["properties"]) == _KEYS
    for verdict in schema["properties"]["verdict"]["enum"]:
        body = dict.fromkeys(schema["required"], "ASK {}") | {"verdict": verdict}
        assert read_feedback(json.dumps(body).encode()) == ("ASK {}", "ASK {}", verdict == "right", None)
    assert "201" in operation["responses"]
