"""Several datasets in one configuration: whose settings hold where, and who answers at which path."""

import asyncio
import threading
from types import SimpleNamespace

import httpx
import pytest

from proxy.app import create_app
from proxy.assembly import engine_maker
from proxy.cli import main
from proxy.commands.settings import config_as_toml
from proxy.config import Config, load_config
from proxy.errors import ConfigError

TWO = """
[index]
enabled = false
[backend]
timeout_s = 7.0
[datasets.ships.backend]
load = ["ships.nt"]
[datasets.old-ports.backend]
load = ["ports.nt"]
timeout_s = 9.0
[datasets.old-ports.policy]
allow_updates = true
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "ships.nt").write_text('<a:s> <a:is> "ship" .\n')
    (tmp_path / "ports.nt").write_text('<a:p> <a:is> "port" .\n')
    path = tmp_path / "config.toml"
    path.write_text(TWO)
    return path


def test_a_dataset_has_what_it_says_and_else_what_all_have(file):
    """Key by key, in the order of the file."""
    datasets = load_config(file, environ={}).by_dataset()
    assert list(datasets) == ["ships", "old-ports"]
    assert [(c.name, c.backend.timeout_s, c.policy.allow_updates) for c in datasets.values()] == [
        ("ships", 7.0, False),
        ("old-ports", 9.0, True),
    ]
    assert not datasets["ships"].index.enabled
    assert datasets["ships"].backend.load == (str(file.parent / "ships.nt"),)


def test_variables_name_the_dataset(file):
    """And win over the file; one for all wins, too."""
    environ = {
        "SPARLANCE_DATASETS_OLD_PORTS_BACKEND_TIMEOUT_S": "3.0",
        "SPARLANCE_DATASETS_SHIPS_BACKEND_AUTHORIZATION": "Basic eDp5",
        "SPARLANCE_INDEX_CONCURRENCY": "2",
    }
    ships, ports = load_config(file, environ=environ).by_dataset().values()
    assert (ports.backend.timeout_s, ports.index.concurrency, ships.index.concurrency) == (3.0, 2, 2)
    assert (ships.backend.authorization.value, ports.backend.authorization.value) == ("Basic eDp5", "")


@pytest.mark.parametrize(
    ("text", "environ", "key"),
    [
        ("[datasets.a.backend]\nport = 1\n", {}, "datasets.a.backend.port"),
        ("[datasets.a.server]\nport = 1\n", {}, "datasets.a.server"),
        ("[datasets.sparql.backend]\nload = ['x']\n", {}, "datasets"),
        ("[datasets.'A b'.backend]\nload = ['x']\n", {}, "datasets"),
        ("[datasets]\na = 1\n", {}, "datasets"),
        ("datasets = 1\n", {}, "datasets"),
        ("[datasets.a-b.backend]\nload = ['x']\n[datasets.a_b.backend]\nload = ['x']\n", {}, "datasets"),
        ("[datasets.a.nl]\nenabled = false\n", {}, "datasets.a.backend.url"),
        ("[datasets.a.backend]\nurl = 'ftp://x'\n", {}, "datasets.a.backend.url"),
        ("[backend]\nurl = 'http://x'\n[datasets.a.backend]\nload = ['x']\n", {}, "backend.url"),
        ("[datasets.a.backend]\nload = ['x']\n", {"SPARLANCE_BACKEND_AUTHORIZATION": "Basic eDp5"}, "backend.authorization"),
        ("[datasets.a.backend]\nload = ['x']\n", {"SPARLANCE_DATASETS_B_NL_ENABLED": "true"}, "datasets"),
        ("[datasets.a.backend]\nload = ['x']\n", {"SPARLANCE_DATASETS_A_NL_ENABLE": "true"}, "datasets.a.nl.enable"),
        ("[datasets.a.backend]\nload = ['x']\nauthorization = 'Basic eDp5'\n", {}, "datasets.a.backend.authorization"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path, text, environ, key):
    """With the dataset in the key; a credential is sent to no backend that it was not given for, nor repeated."""
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "config.toml", environ=environ)
    assert caught.value.key == key, str(caught.value)
    assert "eDp5" not in str(caught.value)


def test_a_backend_on_the_command_line_replaces_them_all(file):
    """As it does the one of a file."""
    config = load_config(file, environ={}, overrides={"backend.load": ["x.nt"]})
    assert [c.backend.load for c in config.by_dataset().values()] == [("x.nt",)]


def test_what_config_show_prints_means_the_same(file, tmp_path):
    """Each dataset with what differs."""
    config = load_config(file, environ={})
    again = tmp_path / "again.toml"
    again.write_text(config_as_toml(config))
    read = load_config(again, environ={}).by_dataset()
    assert [(n, c.backend, c.policy, c.index.enabled) for n, c in read.items()] == [
        (n, c.backend, c.policy, c.index.enabled) for n, c in config.by_dataset().items()
    ]


def test_each_answers_at_its_path(file):
    """The first at the root too; an update that one allows is refused by the other."""

    async def run():
        app = create_app(load_config(file, environ={}))
        await app.startup()
        found = {}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            for path in ("/sparql", "/query", "/ships/sparql", "/old-ports/sparql", "/old-ports/query"):
                response = await client.get(path, params={"query": "SELECT ?o { ?s ?p ?o }"}, headers={"accept": "text/csv"})
                found[path] = response.text.split()[1]
            for path in ("/ships/update", "/old-ports/update"):
                found[path] = (await client.post(path, data={"update": "CLEAR ALL"})).status_code
            found["none"] = (await client.get("/nowhere/sparql?query=ASK{}")).status_code
            metrics = (await client.get("/-/metrics")).text
        await app.shutdown()
        return found, metrics

    found, metrics = asyncio.run(run())
    assert found == {
        "/sparql": "ship", "/query": "ship", "/ships/sparql": "ship", "/old-ports/sparql": "port", "/old-ports/query": "port",
        "/ships/update": 403, "/old-ports/update": 204, "none": 404,
    }  # fmt: skip
    assert 'dataset="ships"' in metrics
    assert 'dataset="old-ports"' in metrics


def test_a_command_is_told_which(file, capsys, tmp_path):
    """Where there are several it asks, with their names."""
    query = tmp_path / "q.rq"
    query.write_text("SELECT * { ?s <a:is> ?o }")
    assert main(["check", str(query), "--config", str(file)]) == 2
    assert "one of ships, old-ports (--dataset NAME)" in capsys.readouterr().err
    assert main(["check", str(query), "--config", str(file), "--dataset", "old-ports"]) == 0
    assert main(["check", str(query), "--config", str(file), "--dataset", "x"]) == 2


def test_engines_that_are_made_at_once_share_one_encoder(monkeypatch):
    """It is loaded by one thread, which nobody else disturbs: transformers cannot be imported by two at a time."""
    loaded, second = [], threading.Event()

    class Encoder:
        notice = ""

        def __init__(self, folder, *, threads):
            loaded.append(self)
            if len(loaded) > 1:
                second.set()
            second.wait(0.3)

    monkeypatch.setattr("proxy.nl.onnx.OnnxEncoder", Encoder)
    monkeypatch.setattr("proxy.nl.engine.QuestionEngine", lambda *parts: SimpleNamespace(encoder=parts[2]))
    make, engines = engine_maker(Config(), {}), []
    makers = [threading.Thread(target=lambda: engines.append(make(None, None))) for _ in range(3)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert len(loaded) == 1
    assert [e.encoder for e in engines] == loaded * 3
