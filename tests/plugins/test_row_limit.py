"""plugins/row_limit.py: no query asks for more rows than allowed, and none is changed silently."""

import asyncio
from pathlib import Path

import httpx
import pytest

from proxy.app import create_app
from proxy.config import load_config
from proxy.errors import ConfigError, MalformedQuery, QueryRejected
from proxy.pipeline.exchange import Exchange
from proxy.plugin.chain import PluginChain
from proxy.plugin.loading import load_plugins
from proxy.query.operation import OperationKind, SparqlOperation
from proxy.query.parse import parse

PLUGINS = Path(__file__).parents[2] / "plugins"


def chain(**options: object) -> PluginChain:
    return load_plugins(PLUGINS, enabled=["row_limit"], options={"row_limit": {"max_rows": 10, **options}})


def seen(text: str, *, kind: OperationKind = OperationKind.QUERY, **options: object) -> Exchange:
    """The exchange after the plugin saw *text*."""
    try:
        parsed = parse(text)
    except MalformedQuery:
        parsed = None
    exchange = Exchange("r1", operation=SparqlOperation(kind, text), parsed=parsed)
    asyncio.run(chain(**options).query(exchange))
    return exchange


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("SELECT * { ?s ?p ?o }", "SELECT * { ?s ?p ?o }\nLIMIT 10"),
        ("SELECT * { ?s ?p ?o } # all", "SELECT * { ?s ?p ?o } # all\nLIMIT 10"),
        ("SELECT * { ?s ?p ?o } LIMIT 11", "SELECT * { ?s ?p ?o } LIMIT 10"),
        ("SELECT * { ?s ?p ?o } limit\n 999 OFFSET 3", "SELECT * { ?s ?p ?o } limit\n 10 OFFSET 3"),
        ("SELECT * { ?s ?p ?o } OFFSET 3", "SELECT * { ?s ?p ?o } OFFSET 3\nLIMIT 10"),
        ("SELECT * { ?s ?p ?o } VALUES ?s { <a:b> }", "SELECT * { ?s ?p ?o } \nLIMIT 10\nVALUES ?s { <a:b> }"),
        (
            "SELECT * { { SELECT * { ?s ?p ?o } LIMIT 50 } } LIMIT 40",
            "SELECT * { { SELECT * { ?s ?p ?o } LIMIT 50 } } LIMIT 10",
        ),
        ("SELECT * { { SELECT * { ?s ?p ?o } LIMIT 5 } }", "SELECT * { { SELECT * { ?s ?p ?o } LIMIT 5 } }\nLIMIT 10"),
        (
            'SELECT ?s { ?s ?p ?o } GROUP BY ?s HAVING (MAX(?o) = "LIMIT 20") LIMIT 30 # LIMIT 40',
            'SELECT ?s { ?s ?p ?o } GROUP BY ?s HAVING (MAX(?o) = "LIMIT 20") LIMIT 10 # LIMIT 40',
        ),
        ("CONSTRUCT WHERE { ?s ?p ?o }", "CONSTRUCT WHERE { ?s ?p ?o }\nLIMIT 10"),
        ("SELECT (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?s", "SELECT (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?s\nLIMIT 10"),
    ],
)
def test_the_limit_is_put_into_the_query(text, sent):
    """Only the number of rows changes; the rest of the text stays as written, and a header tells."""
    exchange = seen(text)
    assert exchange.operation.text == sent
    assert exchange.is_rewritten
    assert exchange.added_headers == [(b"sparlance-row-limit", b"10")]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * { ?s ?p ?o } LIMIT 10",
        "ASK { ?s ?p ?o }",
        "DESCRIBE <a:b>",
        "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }",
    ],
)
@pytest.mark.parametrize("mode", ["limit", "refuse"])
def test_what_is_small_enough_passes_untouched(text, mode):
    """In both modes, byte for byte."""
    exchange = seen(text, mode=mode)
    assert (exchange.operation.text, exchange.is_rewritten, exchange.added_headers) == (text, False, [])


def test_updates_are_not_its_business():
    """An update has no rows."""
    assert not seen("DELETE WHERE { ?s ?p ?o }", kind=OperationKind.UPDATE, mode="refuse").is_rewritten


@pytest.mark.parametrize("text", ["SELECT * { ?s ?p ?o }", "SELECT * { ?s ?p ?o } LIMIT 11"])
def test_refuse_says_what_to_write(text):
    """The finding carries the LIMIT that would pass."""
    with pytest.raises(QueryRejected, match="at most 10") as caught:
        seen(text, mode="refuse")
    assert caught.value.findings[0].suggestions == ("LIMIT 10",)


@pytest.mark.parametrize("mode", ["limit", "refuse"])
def test_what_cannot_be_parsed_is_refused(mode):
    """A guard that cannot tell lets nothing through."""
    with pytest.raises(QueryRejected, match="cannot be parsed"):
        seen("SELECT * { ?s ?p ?o } LIMIT ten", mode=mode)


@pytest.mark.parametrize("options", [{"max_rows": 0}, {"max_rows": "10"}, {"max_rows": True}, {"mode": "warn"}, {"rows": 1}])
def test_wrong_options_stop_the_start(options):
    """The error names the table of the plugin."""
    with pytest.raises(ConfigError) as caught:
        chain(**options)
    assert caught.value.key == f"plugins.row_limit.{next(iter(options))}"


@pytest.mark.parametrize(("mode", "status"), [("limit", 200), ("refuse", 400)])
def test_it_works_in_a_server(tmp_path, mode, status):
    """Through the whole application: as many rows as allowed, and the header; or a refusal that says what to write."""
    (tmp_path / "many.nt").write_text("".join(f"<a:{i}> <a:p> <a:o> .\n" for i in range(30)), encoding="utf-8")
    (tmp_path / "config.toml").write_text(
        "[backend]\nload = ['many.nt']\n[index]\nenabled = false\n"
        f"[plugins]\ndirectory = '{PLUGINS}'\nenabled = ['row_limit']\n"
        f"[plugins.row_limit]\nmax_rows = 10\nmode = '{mode}'\n",
        encoding="utf-8",
    )

    async def get() -> httpx.Response:
        app = create_app(load_config(tmp_path / "config.toml"))
        await app.startup()
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            response = await client.get("/sparql", params={"query": "SELECT * { ?s ?p ?o }"}, headers={"accept": "text/csv"})
        await app.shutdown()
        return response

    response = asyncio.run(get())
    assert response.status_code == status
    if mode == "limit":
        assert response.headers["sparlance-row-limit"] == "10"
        assert "LIMIT%2010" in response.headers["sparlance-query"]
        assert len(response.text.splitlines()) == 1 + 10
    else:
        assert "LIMIT 10" in response.text
